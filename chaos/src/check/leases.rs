//! I05: nobody goes early. I09: a new keeper waits.

use std::collections::BTreeMap;
use std::time::Duration;

use rollcall_model::RemovalReason;

use super::{Rules, Verdict};
use crate::history::{Act, Op, Outcome};
use crate::origin::{Ending, Origin, Standing};

/// An expiry never comes sooner than one lease after the last acknowledged sign of life was sent.
///
/// The tap sees a removal when it happened or later, and the keeper heard of the owner when the call was sent or
/// later, so that a violation that is told here is one.
#[must_use]
pub fn no_early_expiry(origin: &Origin, ops: &[Op]) -> Verdict {
    let mut verdict = Verdict::of("I05");
    let mut signs: BTreeMap<(&str, u64), Vec<Duration>> = BTreeMap::new();
    for op in ops {
        let epoch = match (&op.act, &op.outcome) {
            (Act::Renew(epoch), Outcome::Done) => *epoch,
            (Act::Register { .. }, Outcome::Registered(epoch)) => *epoch,
            _ => continue,
        };
        signs.entry((&op.id, epoch)).or_default().push(op.invoked);
    }
    for standing in origin.standings.iter() {
        let Some((at, _)) = expired(standing) else { continue };
        let Some(signs) = signs.get(&(standing.id.as_str(), standing.epoch)) else { continue };
        // Sent before it was gone: what came later was answered with something else, or is another promise's affair.
        let Some(last) = signs.iter().filter(|sign| **sign <= at).max() else { continue };
        verdict.judge(at >= *last + standing.lease, || {
            format!(
                "I05: {} at epoch {} expired {:.2} s after a renewal that was acknowledged; its lease is {} s",
                standing.id,
                standing.epoch,
                at.saturating_sub(*last).as_secs_f64(),
                standing.lease.as_secs()
            )
        });
    }
    verdict
}

/// When and by which term it expired, if it did by a keeper's own judgement.
pub(super) fn expired(standing: &Standing) -> Option<(Duration, Option<u64>)> {
    match &standing.until {
        Some((moment, Ending::Removed { reason: RemovalReason::Expired, actor, term }))
            if actor == "keeper" =>
        {
            Some((moment.at, *term))
        }
        _ => None,
    }
}

/// No keeper removes anything within one lease after the first beat of its term (I09).
#[must_use]
pub fn grace(origin: &Origin, rules: &Rules) -> Verdict {
    let mut verdict = Verdict::of("I09");
    let mut began: BTreeMap<(u32, u64), Duration> = BTreeMap::new();
    for beat in &origin.beats {
        began.entry((beat.moment.life, beat.term)).or_insert(beat.moment.at);
    }
    for standing in &origin.standings {
        let (Some((at, Some(term))), Some((moment, _))) = (expired(standing), &standing.until) else {
            continue;
        };
        let Some(first) = began.get(&(moment.life, term)) else {
            verdict.judge(false, || format!("I09: {} expired by term {term}, which never beat", standing.id));
            continue;
        };
        verdict.judge(at + rules.tap_delay >= *first + standing.lease, || {
            format!(
                "I09: {} expired {:.2} s after the first beat of term {term}; its lease is {} s",
                standing.id,
                at.saturating_sub(*first).as_secs_f64(),
                standing.lease.as_secs()
            )
        });
    }
    verdict
}
