//! The one that owns the region's deadlines: elected among the cell's processes, fenced by its term.
//!
//! Promises: nothing expires before a new keeper's first full lease is over and its replica was proved current (I09);
//! each removal compares the office and the record's revision in the store (I10). Never here: a renewal written to
//! the store.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rollcall_model::{
    Clock, Deadlines, Delta, Epoch, InstanceId, Instant, Lease, RemovalReason, Renewal, Revision, View,
};
use rollcall_proto::store::{Beat, Gone, encode_beat, encode_removal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::founding::{CurrentFounding, Founding};
use crate::random;
use crate::store::{Committed, Compare, Group, Op, Store, StoreError, Tenure, Verdict, Write, keys, limits};

/// Time between two beats and between two sweeps.
const BEAT: Duration = Duration::from_secs(1);
/// How much of the store's history is kept: a follower that was away for less goes on by deltas.
const HISTORY_KEPT: Duration = Duration::from_secs(600);
/// How often the older history is let go.
const COMPACT_EVERY: Duration = Duration::from_secs(60);
/// Most removals of one sweep: what a second of the store's group commits carries.
const SWEEP_MOST: usize = 20_000;

/// The process's access to the leases, whether or not it keeps them now. Cheap to clone.
#[derive(Clone)]
pub struct KeeperHandle {
    office: Arc<Mutex<Option<Office>>>,
    clock: Clock,
}

struct Office {
    term: u64,
    deadlines: Deadlines,
}

/// The answer to a renewal as this process can give it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// Judged by the keeper, which is here.
    Judged(Renewal),
    /// This process does not keep the leases now.
    NoOffice,
}

impl KeeperHandle {
    /// A process without office.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { office: Arc::new(Mutex::new(None)), clock }
    }

    fn office(&self) -> MutexGuard<'_, Option<Office>> {
        // The lock guards plain data without invariants across a panic.
        self.office.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Renews one lease.
    #[must_use]
    pub fn renew(&self, id: &InstanceId, epoch: Epoch) -> Renewed {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        match self.office().as_mut() {
            None => Renewed::NoOffice,
            Some(office) => Renewed::Judged(office.deadlines.renew(id.as_str(), epoch, now, wall)),
        }
    }

    /// One lease as the keeper sees it. The outer `None`: this process does not keep the leases now.
    #[must_use]
    pub fn lease(&self, id: &str) -> Option<Option<Lease>> {
        self.office().as_ref().map(|office| office.deadlines.get(id).cloned())
    }

    /// The term, while in office.
    #[must_use]
    pub fn term(&self) -> Option<u64> {
        self.office().as_ref().map(|office| office.term)
    }

    /// How many leases are kept here.
    #[must_use]
    pub fn leases(&self) -> u64 {
        self.office().as_ref().map_or(0, |office| office.deadlines.len() as u64)
    }

    /// Takes in what the replica applied, up to a revision, and lets it publish under the same lock: whoever reads a
    /// registration in the view finds its lease, and a keeper that begins misses nothing.
    pub fn follow(&self, deltas: &[Arc<Delta>], upto: Option<Revision>, publish: impl FnOnce()) {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let mut office = self.office();
        if let Some(office) = office.as_mut() {
            for change in deltas.iter().flat_map(|delta| &delta.changes) {
                office.deadlines.follow(change, now, wall);
            }
            if let Some(upto) = upto {
                office.deadlines.advance(upto);
            }
        }
        publish();
    }

    /// Leases for everything that the view shows; `None` when it was never loaded.
    fn begin(&self, term: u64, view: &watch::Receiver<Arc<View>>) -> Option<()> {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let mut office = self.office();
        let view = view.borrow().clone();
        let (state, position) = (view.state()?, view.position()?);
        let ordinal = position.incarnation.ordinal();
        let deadlines = Deadlines::begin(state, ordinal, position.revision, now, wall);
        *office = Some(Office { term, deadlines });
        Some(())
    }

    fn end(&self) {
        *self.office() = None;
    }

    fn sweep(&self, now: Instant) -> Vec<(InstanceId, Epoch)> {
        self.office().as_mut().map(|office| office.deadlines.sweep(now, SWEEP_MOST)).unwrap_or_default()
    }

    fn put_back(&self, id: &InstanceId, epoch: Epoch) {
        let now = self.clock.now();
        if let Some(office) = self.office().as_mut() {
            office.deadlines.put_back(id, epoch, now);
        }
    }
}

/// What became of a beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beaten {
    /// Written at this revision.
    At(Revision),
    /// The office or the history is another's by now.
    Fenced,
    /// The store did not answer.
    Unheard,
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
}

impl<S: Store> Keeper<S> {
    /// Runs until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        let mut backoff = rollcall_model::Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
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
        if self.handle.begin(tenure.term, &self.view).is_none() {
            return;
        }
        let mut tick = tokio::time::interval(BEAT);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut upkeep = Upkeep::new(self.clock.now());
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
                        self.view.wait_for(reached).await.ok()?;
                        return Some(founding);
                    }
                    Beaten::Fenced => return None,
                    Beaten::Unheard => tokio::time::sleep(BEAT).await,
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
            Err(error) => {
                // Age grows meanwhile; the office ends by its own judgement, not by a missed beat.
                tracing::warn!(%error, "beat not written");
                Beaten::Unheard
            }
        }
    }

    /// Removes what lapsed. `false` ends the office.
    async fn sweep(&self, tenure: &Tenure, founding: &Founding) -> bool {
        let lapsed = self.handle.sweep(self.clock.now());
        for group in lapsed.chunks(limits::WRITES_MAX) {
            if !self.remove(group, tenure, founding).await {
                for (id, epoch) in &lapsed {
                    self.handle.put_back(id, *epoch);
                }
                return false;
            }
        }
        true
    }

    async fn remove(&self, group: &[(InstanceId, Epoch)], tenure: &Tenure, founding: &Founding) -> bool {
        let gone: Vec<Gone> = group
            .iter()
            .map(|(id, _)| Gone {
                id: id.clone(),
                reason: RemovalReason::Expired,
                actor: "keeper".into(),
                term: Some(tenure.term),
            })
            .collect();
        let writes = group.iter().map(|(id, epoch)| removal_write(id, *epoch)).collect();
        let also = vec![Op::Put(keys::REMOVAL.into(), encode_removal(&gone, self.clock.wall()))];
        match self.store.commit(Group { fence: fence(tenure, founding), also, writes }).await {
            Ok(Committed::Done { verdicts, .. }) => {
                for ((id, epoch), verdict) in group.iter().zip(verdicts) {
                    match verdict {
                        Verdict::Won => tracing::info!(%id, %epoch, "registration expired"),
                        Verdict::Lost(_) => self.handle.put_back(id, *epoch),
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
                for (id, epoch) in group {
                    self.handle.put_back(id, *epoch);
                }
                !matches!(error, StoreError::Refused(_))
            }
        }
    }
}

/// Remembers what the head was a while ago, so that history is let go by age.
struct Upkeep {
    marks: VecDeque<(Instant, Revision)>,
    marked: Instant,
}

impl Upkeep {
    const fn new(now: Instant) -> Self {
        Self { marks: VecDeque::new(), marked: now }
    }

    /// The revision before which history may go, once a while.
    fn due(&mut self, now: Instant, head: Revision) -> Option<Revision> {
        if now.since(self.marked) < COMPACT_EVERY {
            return None;
        }
        self.marked = now;
        self.marks.push_back((now, head));
        let mut before = None;
        while self.marks.front().is_some_and(|(at, _)| now.since(*at) >= HISTORY_KEPT) {
            before = self.marks.pop_front().map(|(_, revision)| revision);
        }
        before
    }
}

fn fence(tenure: &Tenure, founding: &Founding) -> Vec<Compare> {
    vec![tenure.fence.clone(), founding.fence()]
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
