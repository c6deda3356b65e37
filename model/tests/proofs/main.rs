//! Proofs of the pure model: what it promises, tried against brute force under any order of events.
//!
//! The runs are the same on every machine. `PROPTEST_RNG_SEED=<number>` tries others, `PROPTEST_CASES=<number>` more.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "what is missing here fails the test that needs it"
)]

mod admission;
mod backoff;
mod body;
mod cursor;
mod cursor_pieces;
mod deadlines;
mod declared;
mod digest;
mod ejection;
mod ejection_runs;
mod ejection_zones;
mod filtered;
mod follower;
mod guard;
mod history;
mod holders;
mod load;
mod looked_at;
mod overdue;
mod position;
mod query;
mod resolve;
mod route;
mod state;
mod view;
mod view_cases;
mod way;

use proptest::test_runner::{Config, RngSeed};

/// This many cases from a fixed seed, unless the environment says otherwise.
fn cases(many: u32) -> Config {
    let mut config = Config::default();
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = many;
    }
    if std::env::var_os("PROPTEST_RNG_SEED").is_none() {
        config.rng_seed = RngSeed::Fixed(0x0011_0ca1);
    }
    // The inputs that fail are printed, and become a test of their own; a file of seeds would hide them.
    config.failure_persistence = None;
    config
}
