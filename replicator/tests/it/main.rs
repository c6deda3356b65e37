//! The replicator against the log in memory and against Kafka, in one binary so that one broker serves all.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "what cannot be set up ends the test")]

mod broker;
mod cluster;
mod copies;
mod kafka;
mod kafka_clusters;
mod kafka_replication;
mod memory;
mod publishing;
mod region;
mod replication;
