//! The registry of one region: store, registrar, keeper, replica, and the views of other regions.
//!
//! Promises: it alone accepts its region's registrations; reads need neither the store nor another region. Never
//! here: Kafka, the client, the replicator; cell and replicator meet on the wire.

pub mod admission;
pub mod api;
pub mod config;
pub mod disk;
pub mod forward;
pub mod founding;
pub mod group;
pub mod keeper;
#[cfg(test)]
mod logged;
pub mod metrics;
pub mod operator;
pub mod random;
pub mod refusal;
pub mod regions;
pub mod registrar;
pub mod replica;
mod run;
pub mod store;
pub mod translate;
pub mod views;

pub use run::{Running, Start, StartError, run};
