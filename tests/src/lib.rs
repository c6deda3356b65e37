//! What integration tests, game days and benches need: real processes, bounded waiting, and a plain HTTP client.
//!
//! Everything that is started here is ended here, by process id, also when a test fails. Never here: product logic.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a harness fails by panicking"
)]

pub mod agents;
pub mod convergence;
pub mod dev;
pub mod etcd;
pub mod eventually;
pub mod http;
pub mod paths;
pub mod process;
pub mod proxy;
pub mod regions;
pub mod slow_link;
pub mod stage;
