//! Latency: the fastest quarter first, then the others from fast to slow.
//!
//! Within the fastest quarter all are equal, so that the very fastest is not run down. One that was never measured
//! counts with them: nobody would ever measure it otherwise. Where nothing was measured, as in a registry, which calls
//! nobody, this is the order by zone.

use std::time::Duration;

use crate::name::Zone;
use crate::resolve::Candidate;

pub(super) fn order(
    candidates: &mut [Candidate<'_>],
    zone: Option<&Zone>,
    measured: &dyn Fn(&Candidate<'_>) -> Option<Duration>,
    chance: &mut dyn FnMut() -> f64,
) {
    let mut known: Vec<Duration> = candidates.iter().filter_map(measured).collect();
    known.sort_unstable();
    let fast = known.get(known.len().saturating_sub(1) / 4).copied().unwrap_or_default();
    super::by(candidates, zone, chance, |candidate| {
        measured(candidate).filter(|time| *time > fast).unwrap_or_default()
    });
}
