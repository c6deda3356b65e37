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

use std::sync::Arc;
use std::time::Duration;

use rollcall_model::{Declaration, Epoch, InstanceId, Lifecycle, Load, Region};

use crate::error::CallError;
use crate::memory::MemoryRegistry;

pub(crate) use cells::Cells;
pub(crate) use watches::{SharedReader, Watches, Watching};

/// Where a registrant's calls go.
#[derive(Clone, Debug)]
pub(crate) enum Wire {
    /// To a cell.
    Cells(Arc<Cells>),
    /// To a registry of the same process, in tests.
    Memory(MemoryRegistry),
}

impl Wire {
    /// Sends the whole declaration.
    pub(crate) async fn register(
        &self,
        declaration: &Declaration,
        patience: Duration,
    ) -> Result<Registered, CallError> {
        match self {
            Self::Cells(cells) => cells.register(declaration, patience).await,
            Self::Memory(memory) => memory.register(declaration),
        }
    }

    /// Renews one lease; `holder` tells apart those that share the entry.
    pub(crate) async fn renew(
        &self,
        id: &InstanceId,
        holder: Option<String>,
        epoch: Epoch,
        lifecycle: Option<Lifecycle>,
        load: Option<Load>,
        patience: Duration,
    ) -> Result<Renewal, CallError> {
        match self {
            Self::Cells(cells) => cells.renew(id, holder, epoch, lifecycle, load, patience).await,
            Self::Memory(memory) => Ok(memory.renew(id, epoch, lifecycle, load)),
        }
    }

    /// Takes the registration back.
    pub(crate) async fn deregister(
        &self,
        id: &InstanceId,
        holder: Option<String>,
        epoch: Epoch,
        patience: Duration,
    ) -> Result<Gone, CallError> {
        match self {
            Self::Cells(cells) => cells.deregister(id, holder, epoch, patience).await,
            Self::Memory(memory) => Ok(memory.deregister(id, epoch)),
        }
    }
}

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
