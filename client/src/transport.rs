//! The way to a cell: several addresses, tried in turn, and answers in the model's terms.
//!
//! Promises: each call is bounded in time; after a failure that another process of the cell, or a new connection, may
//! cure, the next call goes to the next address over a new connection. Registrants that name the same addresses share
//! one session. This is the only place of the client that knows tonic and the wire's messages. Never here: when to call
//! again.

mod cells;
mod grpc;
mod session;
mod turns;
mod watches;

use std::time::Duration;

use rollcall_model::{Epoch, Region};

pub(crate) use cells::Cells;
pub(crate) use watches::{Watches, Watching};

/// A registration was made.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Registered {
    /// By which region.
    pub(crate) region: Region,
    /// Its epoch.
    pub(crate) epoch: Epoch,
    /// Its lease.
    pub(crate) lease: LeaseTimes,
}

/// What the registry says of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseTimes {
    /// How often it wants to be renewed.
    pub(crate) beat: Duration,
    /// How long it lasts after a renewal.
    pub(crate) length: Duration,
}

/// The registry judged a renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// The lease goes on.
    Renewed(LeaseTimes),
    /// There is no such registration.
    NotRegistered,
    /// A newer epoch holds the id, at this endpoint.
    Superseded(String),
}

/// The registration is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// By this call.
    Now,
    /// It was gone, or another's, before.
    Before,
}
