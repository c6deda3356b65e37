//! What the house rules say and a machine can check.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod figures;
mod layering;
