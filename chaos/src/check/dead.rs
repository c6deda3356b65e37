//! I06: the dead go in time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Rules, Verdict};
use crate::calm::Sight;
use crate::history::{Act, Op, Outcome};
use crate::origin::Origin;

/// A sweep, and what a calm keeper may take beside it.
const SWEPT: Duration = Duration::from_secs(6);
/// A keeper beats once a second; without a beat for this long the store, or the office, was away.
const BEATEN: Duration = Duration::from_secs(3);
/// A call that its client gave up may still arrive so much later.
const LATE: Duration = Duration::from_secs(7);
/// Around each look at the guard, its word is taken for so long.
const LOOKED: Duration = Duration::from_millis(500);

/// A time in which nothing need go.
#[derive(Clone, Copy, Debug)]
struct Excuse {
    from: Duration,
    until: Duration,
    /// Whether a full lease of grace follows.
    grace: bool,
}

/// Whoever gave no sign of life for a lease is gone a sweep and five seconds later, unless the store or the keeper was
/// away, a new keeper gave its grace, or the guard held meanwhile; then as long after that. What would be due after
/// `until`, the end of the traffic, is not judged; nor is an instance that none of these calls was about, because nobody
/// here knows whether its owner lives.
#[must_use]
pub fn the_dead_go(origin: &Origin, ops: &[Op], calm: &[Sight], until: Duration, rules: &Rules) -> Verdict {
    let mut verdict = Verdict::of("I06");
    let signs = signs(ops);
    let known: BTreeSet<&str> = ops.iter().map(|op| op.id.as_str()).collect();
    let excuses = excuses(origin, calm);
    let allowed = SWEPT + rules.tap_delay;
    let mut excused = 0;
    for standing in origin.standings.iter().filter(|standing| known.contains(standing.id.as_str())) {
        let sign = signs.get(&(standing.id.as_str(), standing.epoch)).copied().unwrap_or_default();
        let lapses = standing.from.at.max(sign).saturating_add(standing.lease);
        let gone = standing.until.as_ref().map(|(moment, _)| moment.at);
        if gone.is_some_and(|gone| gone <= lapses) || lapses > until {
            continue;
        }
        let due = due(lapses, allowed, standing.lease, &excuses);
        if due > until && gone.is_none_or(|gone| gone > until) {
            continue;
        }
        excused += usize::from(gone.is_none_or(|gone| gone > lapses + allowed));
        verdict.judge(gone.is_some_and(|gone| gone <= due), || {
            format!(
                "I06: {} at epoch {} gave no sign since {:.1} s and went at {gone:?}; it was due at {:.1} s",
                standing.id,
                standing.epoch,
                lapses.saturating_sub(standing.lease).as_secs_f64(),
                due.as_secs_f64()
            )
        });
    }
    if excused > 0 {
        verdict
            .notes
            .push(format!("{excused} of them stayed longer for want of a keeper, by its grace or by a hold"));
    }
    verdict
}

/// The last moment at which each epoch may have been heard of.
fn signs(ops: &[Op]) -> BTreeMap<(&str, u64), Duration> {
    let mut signs: BTreeMap<(&str, u64), Duration> = BTreeMap::new();
    for op in ops {
        let returned = op.returned.unwrap_or(Duration::MAX);
        let (epoch, at) = match (&op.act, &op.outcome) {
            (Act::Renew(epoch) | Act::Update(epoch, _), Outcome::Done) => (*epoch, returned),
            (Act::Renew(epoch) | Act::Update(epoch, _), Outcome::Unknown(_)) => {
                (*epoch, returned.saturating_add(LATE))
            }
            (Act::Register { .. }, Outcome::Registered(epoch)) => (*epoch, returned),
            _ => continue,
        };
        let last = signs.entry((&op.id, epoch)).or_default();
        *last = at.max(*last);
    }
    signs
}

fn excuses(origin: &Origin, calm: &[Sight]) -> Vec<Excuse> {
    let mut excuses = Vec::new();
    let first = origin.beats.first().map_or(Duration::MAX, |beat| beat.moment.at);
    excuses.push(Excuse { from: Duration::ZERO, until: first, grace: true });
    for pair in origin.beats.windows(2) {
        let (from, until) = (pair[0].moment.at, pair[1].moment.at);
        let other = pair[0].term != pair[1].term || pair[0].moment.life != pair[1].moment.life;
        if other || until.saturating_sub(from) > BEATEN {
            excuses.push(Excuse { from, until, grace: true });
        }
    }
    if let Some(last) = origin.beats.last() {
        excuses.push(Excuse { from: last.moment.at + BEATEN, until: Duration::MAX, grace: true });
    }
    let holds = calm.iter().filter(|sight| sight.calm != Some(true));
    excuses.extend(holds.map(|sight| Excuse {
        from: sight.asked.saturating_sub(LOOKED),
        until: sight.at + LOOKED,
        grace: false,
    }));
    excuses.sort_by_key(|excuse| excuse.from);
    excuses
}

/// The end of the first time of this length, after that moment, that nothing excuses.
fn due(lapses: Duration, allowed: Duration, lease: Duration, excuses: &[Excuse]) -> Duration {
    let mut from = lapses;
    for excuse in excuses {
        let end = excuse.until.saturating_add(if excuse.grace { lease } else { Duration::ZERO });
        if excuse.from < from.saturating_add(allowed) && end > from {
            from = end;
        }
    }
    from.saturating_add(allowed)
}
