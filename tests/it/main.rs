//! The whole of Rollcall, as its users meet it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod a2a;
mod crash;
mod deploy;
mod dev;
mod regions;
mod standby;
mod ways;
