//! I05: nobody goes early. I09: a new keeper waits.

use std::collections::BTreeMap;
use std::time::Duration;

use rollcall_model::RemovalReason;

use super::{Rules, Verdict};
use crate::history::{Act, Op, Outcome};
use crate::origin::{Ending, Origin, Standing};

/// A store that takes writes again takes the keeper's beat within so long; others may be faster.
const BEATS: Duration = Duration::from_millis(1_500);

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
///
/// A store without space takes no beat. Where it took nothing at all for two leases, the keeper is judged
/// from its predecessor's end: it cannot have begun sooner.
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
        let nothing_was_written = |begin: &Duration| {
            let between = *begin..first.saturating_sub(BEATS);
            !origin.standings.iter().any(|other| between.contains(&other.from.at))
        };
        let office = in_office(origin, moment.life, term)
            .filter(|begin| *begin + standing.lease * 2 < *first)
            .filter(nothing_was_written);
        let first = &office.unwrap_or(*first);
        verdict.judge(at + rules.tap_delay >= *first + standing.lease, || {
            format!(
                "I09: {} expired {:.2} s after term {term} began; its lease is {} s",
                standing.id,
                at.saturating_sub(*first).as_secs_f64(),
                standing.lease.as_secs()
            )
        });
    }
    verdict
}

/// When a term's key became the first among the candidates': when it was written, or the last one before it went.
fn in_office(origin: &Origin, life: u32, term: u64) -> Option<Duration> {
    let of_life = || origin.offices.iter().filter(|(_, from, _)| from.life == life);
    let (_, from, _) = of_life().find(|(office, ..)| *office == term)?;
    let before = of_life().filter(|(office, ..)| *office < term);
    before
        .map(|(_, _, until)| until.map(|until| until.at))
        .try_fold(from.at, |begin, end| Some(begin.max(end?)))
}
