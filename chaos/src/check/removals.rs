//! I10: only the keeper in office removes. I11: a deregistration is final. I13: a change is whole at its revision.

use std::collections::BTreeMap;

use super::Verdict;
use super::leases::expired;
use crate::history::{Act, Op, Outcome};
use crate::origin::Origin;

/// At each revision at which something expired, or a beat was written, the office of that term stood.
#[must_use]
pub fn fenced(origin: &Origin) -> Verdict {
    let mut verdict = Verdict::of("I10");
    let in_office = |term: u64, at: crate::origin::Moment| {
        origin.offices.iter().any(|(office, from, until)| {
            *office == term
                && (from.life, from.revision) < (at.life, at.revision)
                && until.is_none_or(|until| (until.life, until.revision) > (at.life, at.revision))
        })
    };
    for standing in &origin.standings {
        let (Some((_, term)), Some((moment, _))) = (expired(standing), &standing.until) else { continue };
        verdict.judge(term.is_some_and(|term| in_office(term, *moment)), || {
            format!(
                "I10: {} expired at revision {} by term {term:?}, which was not in office",
                standing.id, moment.revision
            )
        });
    }
    for beat in &origin.beats {
        verdict.judge(in_office(beat.term, beat.moment), || {
            format!("I10: term {} beat at revision {} without office", beat.term, beat.moment.revision)
        });
    }
    verdict
}

/// After an acknowledged deregistration no state holds that epoch or an older one.
#[must_use]
pub fn final_deregistration(origin: &Origin, ops: &[Op]) -> Verdict {
    let mut verdict = Verdict::of("I11");
    let stands: BTreeMap<&str, u64> = origin.stands().collect();
    for op in ops {
        let (Act::Deregister(epoch), Outcome::Done) = (&op.act, &op.outcome) else { continue };
        let ended = origin.standing(&op.id, *epoch).and_then(|standing| standing.until.as_ref());
        // A restored backup may bring it back: that is the backup's age, not a broken word.
        let back = ended.and_then(|(end, _)| {
            origin.standings.iter().find(|standing| {
                standing.id == op.id
                    && standing.epoch <= *epoch
                    && standing.from.life == end.life
                    && standing.from.revision > end.revision
            })
        });
        verdict.judge(back.is_none(), || {
            format!(
                "I11: {} was deregistered at epoch {epoch} and came back at {:?}",
                op.id,
                back.map(|b| b.epoch)
            )
        });
        let still = stands.get(op.id.as_str()).filter(|standing| **standing <= *epoch);
        let restored = origin.standings.iter().any(|standing| standing.from.life > 0);
        verdict.judge(still.is_none() || restored, || {
            format!("I11: {} was deregistered at epoch {epoch} and stands at {still:?}", op.id)
        });
    }
    verdict
}

/// No revision at which a record and what belongs to it disagree.
#[must_use]
pub fn whole(origin: &Origin) -> Verdict {
    Verdict { checked: origin.revisions, broken: origin.faults.clone(), ..Verdict::of("I13") }
}
