//! The client against a cell that does what a test wants, over real connections on loopback.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a scenario that cannot be set up has failed")]

mod cell;
mod disk;
mod ejection;
mod line;
mod memory;
mod names;
mod pin;
mod reading;
mod registrant;
mod registry;
mod session;
