//! The promises as pure functions over what the tap saw and what clients were told.
//!
//! Each gives what it looked at and what was broken, as sentences that begin with the promise's id. Each has planted
//! violations beside it: a check that was never seen to fail proves nothing. Never here: time of its own, or I/O.

mod acknowledged;
mod dead;
mod guard;
mod leases;
mod order;
#[cfg(test)]
mod planted;
pub mod planting;
mod removals;
mod topics;

use std::time::Duration;

pub use acknowledged::{acknowledged, epochs};
pub use dead::the_dead_go;
pub use guard::bound;
pub use leases::{grace, no_early_expiry};
pub use order::linearizable;
pub use removals::{fenced, final_deregistration, whole};
pub use topics::{own_history, whole_chain};

use crate::history::Op;
use crate::origin::Origin;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The promises, by their ids.
    pub ids: &'static str,
    /// How many cases it looked at; with none it proved nothing.
    pub checked: usize,
    /// What was broken.
    pub broken: Vec<String>,
    /// What was seen and is within the rules.
    pub notes: Vec<String>,
}

impl Verdict {
    fn of(ids: &'static str) -> Self {
        Self { ids, ..Self::default() }
    }

    /// One case.
    pub fn judge(&mut self, holds: bool, words: impl FnOnce() -> String) {
        self.checked += 1;
        if !holds {
            self.broken.push(words());
        }
    }
}

/// What the checks go by.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The guard's share.
    pub fraction: f64,
    /// The guard's floor.
    pub floor: usize,
    /// How much later than it happened the tap may have seen something.
    pub tap_delay: Duration,
    /// How far behind the store the keeper's own copy may be when it judges a renewal.
    pub renewal_lag: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            fraction: 0.15,
            floor: 1,
            tap_delay: Duration::from_secs(1),
            renewal_lag: Duration::from_secs(1),
        }
    }
}

/// Every promise that holds under any fault.
#[must_use]
pub fn all(origin: &Origin, ops: &[Op], rules: &Rules) -> Vec<Verdict> {
    vec![
        acknowledged(origin, ops),
        epochs(origin, ops),
        linearizable(origin, ops, rules),
        no_early_expiry(origin, ops),
        bound(origin, rules),
        grace(origin, rules),
        fenced(origin),
        final_deregistration(origin, ops),
        whole(origin),
    ]
}
