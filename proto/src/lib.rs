//! The wire and disk contract: generated messages, and checked conversions to and from the model.
//!
//! Promises: a message that cannot be read whole is refused with the reason, never read in part. Never here: logic
//! beyond validating and converting.

/// Code generated from `rollcall/v1/*.proto`; `tests/drift.rs` compares and rewrites it.
#[allow(missing_docs, clippy::all, unreachable_pub)]
#[rustfmt::skip]
pub mod v1 {
    include!("gen/rollcall.v1.rs");
}

pub mod asking;
pub mod convert;
pub mod disk;
mod reader;
pub mod refusal;
pub mod renewals;
pub mod stamp;
pub mod store;
pub mod unread;
mod writer;
pub mod written;

/// What every generated message is: it knows how many bytes it takes.
pub use prost::Message;
pub use reader::Reader;
pub use writer::Writer;

/// Descriptors of all services and messages, for server reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!("gen/rollcall.v1.fds.bin");

/// A message of another version, or not ours at all: says which field and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct Unreadable {
    /// The field's path.
    pub field: &'static str,
    /// What is wrong with it.
    pub why: String,
}

impl Unreadable {
    pub(crate) fn new(field: &'static str, why: impl Into<String>) -> Self {
        Self { field, why: why.into() }
    }

    pub(crate) fn missing(field: &'static str) -> Self {
        Self::new(field, "it is missing")
    }
}
