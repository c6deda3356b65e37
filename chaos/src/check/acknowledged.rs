//! I01, I15: what was acknowledged stands in the history, and what was refused does not. I02, I03: epochs.

use std::collections::{BTreeMap, BTreeSet};

use rollcall_model::RemovalReason;

use super::Verdict;
use crate::history::{Act, Op, Outcome};
use crate::origin::{Ending, Origin, Standing};

/// Each acknowledged write is in the history as it was acknowledged, each refused one is not, and nothing that was
/// acknowledged went without a cause.
#[must_use]
pub fn acknowledged(origin: &Origin, ops: &[Op]) -> Verdict {
    let mut verdict = Verdict::of("I01 I15");
    let tags: BTreeSet<&str> = origin.standings.iter().map(|standing| standing.tag.as_str()).collect();
    let words: BTreeSet<&str> =
        origin.standings.iter().flat_map(|standing| standing.said.iter().map(String::as_str)).collect();
    // A restored backup may bring one back: then it stood twice.
    let mut by_epoch: BTreeMap<(&str, u64), Vec<&Standing>> = BTreeMap::new();
    for standing in &origin.standings {
        by_epoch.entry((&standing.id, standing.epoch)).or_default().push(standing);
    }
    let stood = |id, epoch| by_epoch.get(&(id, epoch)).map(Vec::as_slice).unwrap_or_default();
    let asked_to_go: BTreeSet<(&str, u64)> = ops
        .iter()
        .filter(|op| matches!(op.outcome, Outcome::Done | Outcome::Unknown(_)))
        .filter_map(|op| match op.act {
            Act::Deregister(epoch) => Some((op.id.as_str(), epoch)),
            Act::Register { .. } | Act::Renew(_) | Act::Update(..) => None,
        })
        .collect();
    for op in ops {
        let id = op.id.as_str();
        match (&op.act, &op.outcome) {
            (Act::Register { tag, .. }, Outcome::Registered(epoch)) => {
                let found = stood(id, *epoch);
                verdict.judge(found.iter().any(|standing| standing.tag == *tag), || {
                    format!("I01: {id} was acknowledged at epoch {epoch} and is not in the history with it")
                });
                let lost = found.iter().filter_map(|standing| standing.until.as_ref()).find_map(
                    |(_, end)| match end {
                        Ending::Unexplained => Some("removed without a reason"),
                        Ending::Removed { reason: RemovalReason::Deregistered, .. }
                            if !asked_to_go.contains(&(id, *epoch)) =>
                        {
                            Some("deregistered, and nobody asked for it")
                        }
                        Ending::Removed { reason: RemovalReason::Replaced, .. } => {
                            Some("removed as replaced, without a successor")
                        }
                        Ending::Replaced | Ending::Removed { .. } | Ending::Restored => None,
                    },
                );
                verdict.judge(lost.is_none(), || {
                    format!("I01: {id} at epoch {epoch} was {}", lost.unwrap_or_default())
                });
            }
            (Act::Register { tag, .. }, outcome) if is_no(outcome) => {
                verdict.judge(!tags.contains(tag.as_str()), || {
                    format!("I15: a registration of {id} was refused ({outcome:?}) and stands in the history")
                });
            }
            (Act::Update(epoch, word), Outcome::Done) => {
                let found = stood(id, *epoch);
                verdict.judge(found.iter().any(|standing| standing.said.contains(word)), || {
                    format!("I15: {id} at epoch {epoch} said {word:?}, was acknowledged, and the history has it not")
                });
            }
            (Act::Update(_, word), outcome) if is_no(outcome) => {
                verdict.judge(!words.contains(word.as_str()), || {
                    format!("I15: {id} said {word:?}, was refused ({outcome:?}), and the history has it")
                });
            }
            (Act::Deregister(epoch), Outcome::Done) => {
                let endings: Vec<_> = stood(id, *epoch).iter().map(|standing| &standing.until).collect();
                let gone = endings.iter().any(|ending| {
                    matches!(ending, Some((_, Ending::Removed { reason: RemovalReason::Deregistered, .. })))
                });
                verdict.judge(gone, || {
                    format!("I15: {id} at epoch {epoch} was deregistered by its word; the history says {endings:?}")
                });
            }
            (Act::Renew(epoch), Outcome::Done) => {
                verdict.judge(!stood(id, *epoch).is_empty(), || {
                    format!("I15: {id} was renewed at epoch {epoch}, which never stood")
                });
            }
            (_, Outcome::Superseded(Some(epoch))) => {
                verdict.judge(!stood(id, *epoch).is_empty(), || {
                    format!("I15: {id} was told of epoch {epoch}, which never stood")
                });
            }
            _ => {}
        }
    }
    verdict
}

/// Whether the answer says that nothing was written.
const fn is_no(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Refused { .. } | Outcome::Superseded(_) | Outcome::NotRegistered)
}

/// Epochs of an instance rise along the history, also across a restored backup, and none was acknowledged twice.
#[must_use]
pub fn epochs(origin: &Origin, ops: &[Op]) -> Verdict {
    let mut verdict = Verdict::of("I02 I03");
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for standing in &origin.standings {
        // What a backup brought back is no new registration.
        let brought_back = (standing.epoch & ((1 << 40) - 1)) != standing.from.revision
            || last.get(standing.id.as_str()) == Some(&standing.epoch) && standing.from.life > 0;
        if brought_back {
            continue;
        }
        let before = last.insert(&standing.id, standing.epoch);
        verdict.judge(before.is_none_or(|before| before < standing.epoch), || {
            format!("I03: {} got epoch {} after {before:?}", standing.id, standing.epoch)
        });
    }
    let mut acknowledged: BTreeSet<(&str, u64)> = BTreeSet::new();
    for op in ops {
        if let Outcome::Registered(epoch) = op.outcome {
            verdict.judge(acknowledged.insert((&op.id, epoch)), || {
                format!("I03: {} was given epoch {epoch} twice", op.id)
            });
        }
    }
    verdict
}
