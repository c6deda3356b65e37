//! Least loaded: those with the most room first, as far as they last reported.
//!
//! Load is what is in hand and waiting, as a share of what an instance says it can take at once. One that names no limit
//! is taken to have the largest one named; where nobody names any, the plain numbers are compared.

use crate::name::Zone;
use crate::resolve::Candidate;

pub(super) fn order(candidates: &mut [Candidate<'_>], zone: Option<&Zone>, chance: &mut dyn FnMut() -> f64) {
    let limits = candidates.iter().filter_map(|one| one.registration.declared.max_concurrency);
    let largest = limits.max().unwrap_or(1);
    super::by(candidates, zone, chance, |candidate| share(candidate, largest).to_bits());
}

/// Never negative, so that its bits are in its order.
fn share(candidate: &Candidate<'_>, largest: u32) -> f64 {
    let Some(load) = candidate.registration.owned.load.get() else { return 0.0 };
    let work = f64::from(load.in_flight) + f64::from(load.queue_depth);
    work / f64::from(candidate.registration.declared.max_concurrency.unwrap_or(largest).max(1))
}
