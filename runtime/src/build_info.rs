//! Which build this is.
//!
//! Promises: it is fixed at compile time. Never here: the commit, which only the binary knows: asked for in here, every
//! commit would build everything anew.

/// The version of this build, as in `Cargo.toml`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
