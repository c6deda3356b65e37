//! The one that owns the region's deadlines: elected among the cell's processes, fenced by its term.
//!
//! Promises: nothing expires before a new keeper's first full lease is over and its replica was proved current (I09);
//! each removal compares the office and the record's revision in the store (I10). Never here: a renewal written to
//! the store.

mod candidates;
pub(crate) mod heir;
mod office;
pub(crate) mod probe;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rollcall_model::deadlines::{Due, Mark};
use rollcall_model::guard::Turn;
use rollcall_model::{
    Clock, Epoch, InstanceId, Instant, Owned, Phase, Registration, RemovalReason, Revision, Verdict, View,
};
use rollcall_proto::store::{Beat, Gone, encode_beat, encode_owned, encode_removal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) use candidates::Candidates;
pub use candidates::InOffice;
pub(crate) use office::Calm;
pub use office::{GuardStatus, KeeperHandle, NotReleased, Renewed};

use crate::founding::{CurrentFounding, Founding};
use crate::random;
use crate::store::{self, Committed, Compare, Group, Op, Store, StoreError, Tenure, Write, keys, limits};

/// Time between two beats and between two sweeps.
const BEAT: Duration = Duration::from_secs(1);
/// Removals in one group: each takes two keys, and both count as operations.
const REMOVALS: usize = limits::OPERATIONS_CHEAP / 2;
/// The older history is let go so often in the time that is kept: each is little work, and little more than that is
/// kept.
const COMPACTIONS: u32 = 10;

/// Longest wait before standing for office again: every renewal waits for it once the store is back, and a question a
/// second is nothing to etcd.
const STAND_AGAIN: Duration = Duration::from_secs(1);

/// What became of a beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beaten {
    /// Written at this revision.
    At(Revision),
    /// The office or the history is another's by now.
    Fenced,
    /// The store did not answer.
    Unheard,
    /// The store has no space for it.
    Full,
}

/// The task: stands for office, keeps the leases while it holds it, and stands again.
pub struct Keeper<S> {
    /// The store.
    pub store: Arc<S>,
    /// Where other processes of the cell reach this one.
    pub candidate: String,
    /// The leases.
    pub handle: KeeperHandle,
    /// The own region's replica.
    pub view: watch::Receiver<Arc<View>>,
    /// The history that the store holds.
    pub founding: CurrentFounding,
    /// Time.
    pub clock: Clock,
    /// How much of the store's history is kept: a follower that was away for less goes on by deltas.
    pub history: Duration,
}

impl<S: Store> Keeper<S> {
    /// Runs until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        let mut backoff = rollcall_model::Backoff::new(Duration::from_millis(100), STAND_AGAIN);
        loop {
            let tenure = tokio::select! {
                () = cancel.cancelled() => return,
                tenure = self.store.campaign(&self.candidate) => tenure,
            };
            match tenure {
                Ok(tenure) => {
                    tracing::info!(term = tenure.term, "keeper elected");
                    self.keep(&tenure, &cancel, &mut backoff).await;
                    self.handle.end();
                    self.store.resign(&tenure).await;
                    tracing::info!(term = tenure.term, "keeper's office given up");
                }
                Err(error) => tracing::debug!(%error, "no election now"),
            }
            tokio::select! {
                () = cancel.cancelled() => return,
                () = tokio::time::sleep(backoff.next(random::chance())) => {}
            }
        }
    }

    async fn keep(
        &mut self,
        tenure: &Tenure,
        cancel: &CancellationToken,
        backoff: &mut rollcall_model::Backoff,
    ) {
        let Some(founding) = self.prove_current(tenure, cancel).await else { return };
        if self.handle.begin(tenure, &self.view).is_none() {
            return;
        }
        let mut tick = tokio::time::interval(BEAT);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut upkeep = Upkeep::new(self.clock.now(), self.history);
        loop {
            tokio::select! {
                () = cancel.cancelled() => return,
                () = tenure.lost.cancelled() => {
                    tracing::warn!(term = tenure.term, "keeper's office lost");
                    return;
                }
                _ = tick.tick() => {}
            }
            if self.founding.borrow().as_deref() != Some(&*founding) {
                return;
            }
            if self.beat(tenure, &founding).await == Beaten::Fenced || !self.sweep(tenure, &founding).await {
                return;
            }
            backoff.reset();
            let head = self.view.borrow().position().map(|position| position.revision);
            if let Some(before) = head.and_then(|head| upkeep.due(self.clock.now(), head))
                && let Err(error) = self.store.compact(before).await
            {
                tracing::warn!(%error, %before, "store's history not compacted");
            }
        }
    }

    /// Writes the first beat and waits until the replica shows it: a write of this term that came back through the
    /// history proves the replica as current as a linearizable read would (I09), and says so in the region's own
    /// keys, whatever else lives in the same store.
    ///
    /// A store without space takes no beat. Then the replica is current once it shows this term in office: it has
    /// applied the predecessor's end, and so all that was written under it; since then nobody else judged a lease.
    async fn prove_current(&mut self, tenure: &Tenure, cancel: &CancellationToken) -> Option<Arc<Founding>> {
        let proof = async {
            loop {
                let founding = self.founding.wait_for(Option::is_some).await.ok()?.clone()?;
                match self.beat(tenure, &founding).await {
                    Beaten::At(revision) => {
                        let reached = |view: &Arc<View>| {
                            view.position().is_some_and(|position| {
                                position.incarnation == founding.incarnation && position.revision >= revision
                            })
                        };
                        // Of a restored backup the old history may still have taken the beat: it is never shown, once
                        // the replica has found out. Then everything is proved anew.
                        let is_other = |now: &Option<Arc<Founding>>| now.as_deref() != Some(&*founding);
                        tokio::select! {
                            shown = self.view.wait_for(reached) => {
                                shown.ok()?;
                                return Some(founding);
                            }
                            other = self.founding.wait_for(is_other) => drop(other.ok()?),
                        }
                    }
                    Beaten::Fenced => return None,
                    Beaten::Unheard => tokio::time::sleep(BEAT).await,
                    Beaten::Full => {
                        let is_shown = |known: &Option<InOffice>| {
                            known.as_ref().is_some_and(|known| known.term == tenure.term)
                        };
                        let mut known = self.handle.known();
                        // It may have space again first, or another history.
                        if let Ok(Ok(_)) = tokio::time::timeout(BEAT, known.wait_for(is_shown)).await {
                            return Some(founding);
                        }
                    }
                }
            }
        };
        tokio::select! {
            () = cancel.cancelled() => None,
            () = tenure.lost.cancelled() => None,
            founding = proof => founding,
        }
    }

    async fn beat(&self, tenure: &Tenure, founding: &Founding) -> Beaten {
        let beat = Beat { term: tenure.term, count: self.handle.leases(), nonce: random::id() };
        let also = vec![Op::Put(keys::BEAT.into(), encode_beat(&beat))];
        match self.store.commit(Group { fence: fence(tenure, founding), also, writes: Vec::new() }).await {
            Ok(Committed::Done { revision, .. }) => Beaten::At(revision),
            Ok(Committed::Fenced) => {
                tracing::warn!(term = tenure.term, "keeper fenced");
                Beaten::Fenced
            }
            // Age grows meanwhile; the office ends by its own judgement, not by a missed beat.
            Err(StoreError::Full(_)) => Beaten::Full,
            Err(error) => {
                tracing::warn!(%error, "beat not written");
                Beaten::Unheard
            }
        }
    }

    /// Removes what lapsed and may go. `false` ends the office.
    async fn sweep(&self, tenure: &Tenure, founding: &Founding) -> bool {
        let plan = self.handle.sweep(self.clock.now());
        plan.turns.iter().for_each(report);
        for group in plan.remove.chunks(REMOVALS) {
            if !self.remove(group, tenure, founding).await {
                for due in &plan.remove {
                    self.handle.put_back(&due.id, due.epoch);
                }
                return false;
            }
        }
        for group in plan.marks.chunks(limits::WRITES_MAX) {
            if !self.mark(group, tenure, founding).await {
                return false;
            }
        }
        true
    }

    /// Tells readers which are overdue, and which are no more. What loses against its owner's word, or is not
    /// confirmed, comes again with the next sweep. `false` ends the office.
    async fn mark(&self, group: &[Mark], tenure: &Tenure, founding: &Founding) -> bool {
        let writes: Vec<Write> = {
            let view = self.view.borrow();
            let current = |mark: &Mark| {
                let current = view.state().and_then(|state| state.get(mark.id.as_str()))?;
                (current.epoch == mark.epoch && current.owned.overdue != mark.overdue).then(|| {
                    let owned = Owned { overdue: mark.overdue, ..current.owned.clone() };
                    owned_write(current, &owned)
                })
            };
            group.iter().filter_map(current).collect()
        };
        if writes.is_empty() {
            return true;
        }
        let (count, overdue) = (writes.len(), group.iter().filter(|mark| mark.overdue).count());
        match self.store.commit(Group { fence: fence(tenure, founding), also: Vec::new(), writes }).await {
            Ok(Committed::Done { .. }) => {
                tracing::info!(count, overdue, "readers told of overdue registrations");
                true
            }
            Ok(Committed::Fenced) => {
                tracing::warn!(term = tenure.term, "keeper fenced");
                false
            }
            Err(error) => {
                tracing::warn!(%error, count, "overdue marks not confirmed");
                !matches!(error, StoreError::Refused(_))
            }
        }
    }

    async fn remove(&self, group: &[Due], tenure: &Tenure, founding: &Founding) -> bool {
        let gone: Vec<Gone> = group
            .iter()
            .map(|due| Gone {
                id: due.id.clone(),
                reason: match &due.verdict {
                    Some(Verdict::LetGo) => RemovalReason::Deregistered,
                    Some(Verdict::ProvedDead | Verdict::Released(_)) | None => RemovalReason::Expired,
                },
                actor: match &due.verdict {
                    Some(Verdict::Released(operator)) => Arc::clone(operator),
                    Some(Verdict::LetGo) => "owner".into(),
                    Some(Verdict::ProvedDead) | None => "keeper".into(),
                },
                term: Some(tenure.term),
            })
            .collect();
        let writes = group.iter().map(|due| removal_write(&due.id, due.epoch)).collect();
        let also = vec![Op::Put(keys::REMOVAL.into(), encode_removal(&gone, self.clock.wall()))];
        match self.store.commit(Group { fence: fence(tenure, founding), also, writes }).await {
            Ok(Committed::Done { verdicts, .. }) => {
                for (due, verdict) in group.iter().zip(verdicts) {
                    match verdict {
                        store::Verdict::Won => {
                            tracing::info!(id = %due.id, epoch = %due.epoch, verdict = ?due.verdict, "registration expired");
                        }
                        store::Verdict::Lost(_) => self.handle.put_back(&due.id, due.epoch),
                    }
                }
                true
            }
            Ok(Committed::Fenced) => {
                tracing::warn!(term = tenure.term, "keeper fenced");
                false
            }
            Err(error) => {
                // Whatever became of it: the compare makes a second try harmless.
                tracing::warn!(%error, count = group.len(), "removals not confirmed");
                for due in group {
                    self.handle.put_back(&due.id, due.epoch);
                }
                !matches!(error, StoreError::Refused(_))
            }
        }
    }
}

/// The alert that somebody must look at, and the lines that end it.
fn report(turn: &Turn) {
    let (cohort, limit) = (&turn.cohort, turn.limit);
    let (registered, suspects) = (turn.census.registered, turn.census.suspects);
    match turn.phase {
        Phase::Holding { .. } => {
            tracing::error!(%cohort, registered, suspects, limit, "expiry held: too many are silent at once, nothing is removed");
        }
        Phase::Settling { .. } => {
            tracing::warn!(%cohort, registered, suspects, limit, "expiry settles: few enough are silent, waiting for the last ones");
        }
        Phase::Calm => tracing::warn!(%cohort, registered, suspects, limit, "expiry goes on"),
    }
}

/// Remembers what the head was a while ago, so that history is let go by age.
struct Upkeep {
    kept: Duration,
    marks: VecDeque<(Instant, Revision)>,
    marked: Instant,
}

impl Upkeep {
    const fn new(now: Instant, kept: Duration) -> Self {
        Self { kept, marks: VecDeque::new(), marked: now }
    }

    /// The revision before which history may go, once a while.
    fn due(&mut self, now: Instant, head: Revision) -> Option<Revision> {
        if now.since(self.marked) < self.kept / COMPACTIONS {
            return None;
        }
        self.marked = now;
        self.marks.push_back((now, head));
        let mut before = None;
        while self.marks.front().is_some_and(|(at, _)| now.since(*at) >= self.kept) {
            before = self.marks.pop_front().map(|(_, revision)| revision);
        }
        before
    }
}

fn fence(tenure: &Tenure, founding: &Founding) -> Vec<Compare> {
    vec![tenure.fence.clone(), founding.fence()]
}

/// The write of what is said of a registration beside its declaration, if nothing else was said since.
#[must_use]
pub fn owned_write(current: &Registration, owned: &Owned) -> Write {
    let id = &current.declared.id;
    // The second key exists only once something was said after the registration.
    let said = if current.revision > current.epoch.revision() { current.revision } else { Revision(0) };
    Write {
        compare: vec![
            Compare::ModRevision(keys::registration(id), current.epoch.revision()),
            Compare::ModRevision(keys::owned(id), said),
        ],
        then: vec![Op::Put(keys::owned(id), encode_owned(owned))],
        otherwise_read: keys::registration(id),
    }
}

/// The write that removes exactly this registration and nothing newer.
#[must_use]
pub fn removal_write(id: &InstanceId, epoch: Epoch) -> Write {
    Write {
        compare: vec![Compare::ModRevision(keys::registration(id), epoch.revision())],
        then: vec![Op::Remove(keys::registration(id)), Op::Remove(keys::owned(id))],
        otherwise_read: keys::registration(id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i49_history_is_let_go_once_it_is_older_than_what_is_kept_and_none_that_is_younger() {
        let at = |seconds| Instant(Duration::from_secs(seconds));
        let mut upkeep = Upkeep::new(at(0), Duration::from_secs(20));
        // A revision a second.
        let due: Vec<_> =
            (1..60).filter_map(|second| Some((second, upkeep.due(at(second), Revision(second))?))).collect();
        assert_eq!(
            due.first(),
            Some(&(22, Revision(2))),
            "the mark of the second second is as old as what is kept"
        );
        for (second, before) in &due {
            assert!(second - before.0 >= 20 && second - before.0 < 23, "{before:?} is let go at {second}");
        }
        assert_eq!(due.len(), 19, "ten times in twenty seconds");
    }
}
