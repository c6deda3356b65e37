//! Feeds out, views in: publishes the own cell's feed to the log between regions, and follows the other regions' feeds
//! into read-only views.
//!
//! Promises: only the own region is published, and only other regions are followed (I35); a view is always a true state of
//! its origin, with an honest age; whatever the log does, nothing is skipped in silence and nothing dies of it. Never here:
//! the cell's code (they meet on the wire), the store, a write of any kind into a registry.
#![deny(missing_docs)]

pub mod api;
mod chance;
pub mod config;
pub mod disk;
pub mod feed_log;
pub mod metrics;
pub mod publisher;
mod run;
pub mod source;
pub mod subscriber;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod views;

pub use config::ReplicatorConfig;
pub use run::{Running, Start, StartError, run, run_on_kafka};
