//! I04: per instance, one order explains every answer.
//!
//! The tap tells of a write without an answer whether it happened; when, the search finds out. What the keeper removes
//! is a call as well, of nobody, that ended when the tap saw it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rollcall_model::RemovalReason;

use super::{Rules, Verdict};
use crate::history::{Act, Op, Outcome};
use crate::linear::{self, Model, Timed};
use crate::origin::{Ending, Origin};

/// One instance: the epoch that holds it, if any, and the highest that ever did.
struct Instance;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    holds: Option<u64>,
    highest: u64,
}

#[derive(Clone, Copy, Debug)]
enum Call {
    /// Registered with this epoch.
    Register(u64),
    /// Something that is done only to the epoch that holds: a renewal, a word.
    Keep(u64),
    /// Gone, by its owner or the keeper.
    Leave(u64),
    /// It may have gone.
    MayLeave(u64),
    /// The answer was that another epoch holds.
    Superseded(u64),
    /// The answer was that none does; asked for this epoch.
    NotRegistered(u64),
    /// The answer was that this epoch does not hold, whichever does.
    NotHeld(u64),
}

impl Model for Instance {
    type Call = Call;
    type State = State;

    fn start(&self) -> State {
        State::default()
    }

    fn step(&self, state: &State, call: &Call) -> Option<State> {
        match call {
            Call::Register(epoch) => {
                (*epoch > state.highest).then_some(State { holds: Some(*epoch), highest: *epoch })
            }
            Call::Keep(epoch) => (state.holds == Some(*epoch)).then_some(*state),
            Call::Leave(epoch) => (state.holds == Some(*epoch)).then_some(State { holds: None, ..*state }),
            Call::MayLeave(epoch) if state.holds == Some(*epoch) => Some(State { holds: None, ..*state }),
            Call::MayLeave(_) => Some(*state),
            Call::Superseded(epoch) => state.holds.is_some_and(|holds| holds != *epoch).then_some(*state),
            Call::NotRegistered(_) => state.holds.is_none().then_some(*state),
            Call::NotHeld(epoch) => (state.holds != Some(*epoch)).then_some(*state),
        }
    }

    fn changes_nothing(&self, call: &Call) -> bool {
        match call {
            Call::Keep(_) | Call::Superseded(_) | Call::NotRegistered(_) | Call::NotHeld(_) => true,
            // The last takes away what holds, where it fits that.
            Call::Register(_) | Call::Leave(_) | Call::MayLeave(_) => false,
        }
    }

    fn is_past(&self, state: &State, call: &Call) -> bool {
        // Epochs rise, and one that was let go never holds again.
        match call {
            Call::Register(epoch) => *epoch <= state.highest,
            Call::Keep(epoch) | Call::Leave(epoch) => *epoch <= state.highest && state.holds != Some(*epoch),
            Call::MayLeave(_) | Call::Superseded(_) | Call::NotRegistered(_) | Call::NotHeld(_) => false,
        }
    }
}

/// Searches an order for each instance that clients called. Only for one history: a restored backup takes back what
/// was acknowledged, and that is no order of anything.
///
/// Writes are judged by the store, and must fit exactly. A renewal is judged by the keeper's copy, which follows the
/// store: it may speak of a state that is older by the rules' lag. A refusal is judged by the copy of the process that
/// was asked: an old epoch may be told "not registered" where "superseded" is true by now. How often either was needed
/// is noted. An epoch that holds is never refused.
#[must_use]
pub fn linearizable(origin: &Origin, ops: &[Op], rules: &Rules) -> Verdict {
    let mut verdict = Verdict::of("I04");
    if origin.standings.iter().any(|standing| standing.from.life > 0) {
        return verdict;
    }
    let tags: BTreeMap<&str, u64> =
        origin.standings.iter().map(|standing| (standing.tag.as_str(), standing.epoch)).collect();
    let words: BTreeSet<&str> =
        origin.standings.iter().flat_map(|standing| standing.said.iter().map(String::as_str)).collect();
    let mut instances: BTreeMap<&str, Vec<Timed<Call>>> = BTreeMap::new();
    // The same with renewals that may lag, and refusals that may give another reason than the true one.
    let mut lagging = instances.clone();
    for op in ops {
        if let Some((call, known)) = call(op, &tags, &words) {
            let until = op.returned.filter(|_| known);
            let lag = if matches!(op.act, Act::Renew(_)) { rules.renewal_lag } else { Duration::ZERO };
            let from = op.invoked.saturating_sub(lag);
            let loosely = match call {
                Call::Superseded(epoch) | Call::NotRegistered(epoch) => Call::NotHeld(epoch),
                other => other,
            };
            lagging.entry(&op.id).or_default().push(Timed { from, until, call: loosely });
            instances.entry(&op.id).or_default().push(Timed { from: op.invoked, until, call });
        }
    }
    for standing in &origin.standings {
        let id = standing.id.as_str();
        let (Some(calls), Some(late)) = (instances.get_mut(id), lagging.get_mut(id)) else { continue };
        if let Some((moment, Ending::Removed { reason, .. })) = &standing.until
            && *reason != RemovalReason::Deregistered
        {
            let from = standing.from.at.min(moment.at).saturating_sub(Duration::from_secs(5));
            let leave = Timed { from, until: Some(moment.at), call: Call::Leave(standing.epoch) };
            late.push(leave.clone());
            calls.push(leave);
        }
    }
    let mut lagged = 0;
    for (id, calls) in instances {
        let mut outcome = linear::check(&Instance, &calls);
        if outcome.is_err()
            && let Some(late) = lagging.get(id)
        {
            outcome = linear::check(&Instance, late);
            lagged += usize::from(outcome.is_ok());
        }
        verdict.judge(outcome.is_ok(), || {
            let (explained, stuck) = outcome.err().unwrap_or_default();
            format!(
                "I04: {id}: no order explains all of {} answers, {explained} at most; {:?} has no place",
                calls.len(),
                calls[stuck]
            )
        });
    }
    if lagged > 0 {
        verdict
            .notes
            .push(format!("of {lagged} instances a renewal or a refusal was judged by a copy that lagged"));
    }
    verdict
}

/// The call, and whether its end is known; none for what had no effect and told nothing.
fn call(op: &Op, tags: &BTreeMap<&str, u64>, words: &BTreeSet<&str>) -> Option<(Call, bool)> {
    let known = |call| Some((call, true));
    match (&op.act, &op.outcome) {
        (Act::Register { .. }, Outcome::Registered(epoch)) => known(Call::Register(*epoch)),
        (Act::Register { tag, .. }, Outcome::Unknown(_)) => {
            tags.get(tag.as_str()).map(|epoch| (Call::Register(*epoch), false))
        }
        (Act::Renew(epoch) | Act::Update(epoch, _), Outcome::Done) => known(Call::Keep(*epoch)),
        (Act::Update(epoch, word), Outcome::Unknown(_)) => {
            words.contains(word.as_str()).then_some((Call::Keep(*epoch), false))
        }
        (Act::Deregister(epoch), Outcome::Done) => known(Call::Leave(*epoch)),
        (Act::Deregister(epoch), Outcome::Unknown(_)) => Some((Call::MayLeave(*epoch), false)),
        (Act::Renew(epoch) | Act::Update(epoch, _) | Act::Deregister(epoch), Outcome::Superseded(_)) => {
            known(Call::Superseded(*epoch))
        }
        (Act::Renew(epoch) | Act::Update(epoch, _) | Act::Deregister(epoch), Outcome::NotRegistered) => {
            known(Call::NotRegistered(*epoch))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::linear::tests::{random_calls, some_order};

    #[test]
    fn i04_an_order_of_calls_on_an_instance_is_found_exactly_where_trying_every_order_finds_one() {
        let (mut found, mut none) = (0, 0);
        for seed in 0..4_000 {
            let mut chance = StdRng::seed_from_u64(seed);
            let calls = random_calls(&mut chance, |chance| {
                let epoch = chance.random_range(1..4);
                match chance.random_range(0..10) {
                    0..3 => Call::Register(epoch),
                    3..5 => Call::Keep(epoch),
                    5 => Call::Leave(epoch),
                    6 => Call::MayLeave(epoch),
                    7 => Call::Superseded(epoch),
                    8 => Call::NotRegistered(epoch),
                    _ => Call::NotHeld(epoch),
                }
            });
            let exists = some_order(&Instance, &calls);
            assert_eq!(linear::check(&Instance, &calls).is_ok(), exists, "{seed}: {calls:?}");
            found += usize::from(exists);
            none += usize::from(!exists);
        }
        assert!(found > 100 && none > 100, "{found} with an order, {none} without");
    }
}
