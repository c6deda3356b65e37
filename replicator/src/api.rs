//! What a replicator serves: its views over gRPC, and its own state over HTTP. Read-only (I35).

mod discovery;
mod http;

use std::sync::Arc;

use rollcall_model::{Clock, Region};
use rollcall_runtime::unsaved::Unsaved;
use rollcall_runtime::{Metrics, Ready};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::publisher::Status;
use crate::views::Views;

pub use discovery::routes as grpc;
pub use http::{routes as http, unreadable};

/// What both faces know.
#[derive(Clone)]
pub struct Api {
    /// The own region; never served from here, its cell does that.
    pub region: Region,
    /// What is served.
    pub views: Views,
    /// How the publisher does, if there is one.
    pub publisher: Option<watch::Receiver<Status>>,
    /// Which copies on disk cannot be written.
    pub unsaved: Unsaved,
    /// What is not ready yet.
    pub ready: Ready,
    /// The commit that the process is made from.
    pub commit: &'static str,
    /// Time.
    pub clock: Clock,
    /// Figures.
    pub metrics: Metrics,
    /// Streams end when this is cancelled.
    pub stopping: CancellationToken,
}

type Shared = Arc<Api>;
