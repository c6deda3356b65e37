//! Faults on real processes, with traffic before, during and after, and a checker that keeps its own account.
//!
//! A run that was too quiet fails: too few acknowledged writes, or a fault that did not land. A write without an
//! answer is unknown, never failed and never done.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a scenario fails by panicking")]

pub mod caller;
pub mod calm;
pub mod check;
pub mod crowd;
pub mod cycles;
pub mod digests;
pub mod fleet;
pub mod game;
pub mod game_day;
pub mod history;
pub mod kill_each;
pub mod ledger;
pub mod linear;
pub mod mortals;
pub mod origin;
pub mod planted;
pub mod readers;
pub mod report;
pub mod scenarios;
pub mod soak;
pub mod static_stability;
pub mod store;
pub mod tap;
pub mod timeline;
pub mod topic_tap;
pub mod traffic;
pub mod watchers;
pub mod wire;
