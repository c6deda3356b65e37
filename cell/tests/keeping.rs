//! A whole cell on the embedded store, through its use cases: epochs, leases, histories.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod keeping {
    mod cell;
    mod guarding;
    mod histories;
    mod leases;
    #[path = "../../src/logged.rs"]
    mod logged;
}
