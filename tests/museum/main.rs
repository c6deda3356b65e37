//! Faults that users of other registries reported, retold as tests of ours: one file per room, one sentence of origin
//! per test.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod identity;
mod leases;
mod regions;
mod storage;

use rollcall_tests::dev::Dev;

/// The region of these tests.
const REGION: &str = "us-east";

/// One region in one process, with nobody in it.
fn registry(more: &[&str]) -> Dev {
    Dev::start(&[&["--regions", REGION, "--agents", "0"], more].concat())
}
