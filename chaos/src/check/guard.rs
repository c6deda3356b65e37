//! I07: the guard's bound, from removals alone.

use std::collections::BTreeMap;
use std::time::Duration;

use super::leases::expired;
use super::{Rules, Verdict};
use crate::origin::{Origin, Standing};

/// Within every window of one lease no more of a cohort expires than the floor, or the share of what was registered
/// when the window began.
#[must_use]
pub fn bound(origin: &Origin, rules: &Rules) -> Verdict {
    let mut verdict = Verdict::of("I07");
    let mut zones: BTreeMap<&str, Vec<&Standing>> = BTreeMap::new();
    for standing in &origin.standings {
        zones.entry(&standing.zone).or_default().push(standing);
    }
    let region: Vec<&Standing> = origin.standings.iter().collect();
    for cohort in std::iter::once(&region).chain(zones.values()) {
        let mut removals: Vec<(Duration, Duration)> =
            cohort.iter().filter_map(|standing| Some((expired(standing)?.0, standing.lease))).collect();
        removals.sort_unstable();
        for (at, window) in &removals {
            // The first of them may have been seen late, and the window began so much earlier then.
            let from = at.saturating_sub(window.saturating_sub(rules.tap_delay));
            let gone = removals.iter().filter(|(other, _)| *other > from && other <= at).count();
            let registered = cohort.iter().filter(|standing| stood(standing, from)).count();
            let limit = rules.floor.max(share(registered, rules.fraction));
            verdict.judge(gone <= limit, || {
                format!(
                    "I07: {gone} expired within {window:?} up to {at:?}, of {registered} registered at its start: at most {limit} may"
                )
            });
        }
    }
    verdict
}

fn stood(standing: &Standing, at: Duration) -> bool {
    standing.from.at <= at && standing.until.as_ref().is_none_or(|(moment, _)| moment.at > at)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
fn share(registered: usize, fraction: f64) -> usize {
    // Fleets are far below 2^53.
    (registered as f64 * fraction).floor() as usize
}
