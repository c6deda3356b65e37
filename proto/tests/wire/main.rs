//! Proofs of the wire and disk contract: committed bytes, round trips, refusals, and a damaged file.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "what is missing here fails the test that needs it"
)]

mod disk;
mod golden;
mod reader;
mod refusals;
mod round_trip;
mod size;
mod values;
mod writer;
