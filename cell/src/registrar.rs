//! The use cases of an owner: register, renew, update, deregister.
//!
//! Each decides on the replica's state and lets the store judge: the write's compare holds only for the state that
//! was decided on (I02). Nothing is acknowledged that the store did not confirm (I15).

mod counts;
mod judging;
mod registering;
mod sharing;
mod turns;
mod unwritten;
mod words;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rollcall_model::planted::{self, Bug};
use rollcall_model::{
    Clock, Code, Epoch, Holder, InstanceId, LeaseState, Lifecycle, Load, LoadLimits, Position, Registration,
    Renewal, Revision, Timestamp, View, limits,
};
use rollcall_proto::store::Gone;
use tokio::sync::watch;

use crate::forward::Forward;
use crate::founding::{CurrentFounding, Founding};
use crate::group::{Groups, Outcome};
use crate::keeper::{KeeperHandle, removal_write};
use crate::refusal::Refusal;
use crate::store::silence::Silence;
use crate::store::space::Space;
use crate::store::{Compare, Entry, StoreError, Write, keys};
use crate::translate;

pub use counts::Renewals;
pub use turns::Turns;
pub use unwritten::Unwritten;

/// An accepted registration.
#[derive(Clone, Debug, PartialEq)]
pub struct Registered {
    /// The registration as it now stands.
    pub registration: Arc<Registration>,
    /// Where in the region's history.
    pub position: Position,
    /// Its lease.
    pub lease: LeaseTimes,
    /// It stood there already, with the same data: nothing was written, and the epoch is the same.
    pub joined: bool,
}

/// What a registrant is told about its lease.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeaseTimes {
    /// How long one renewal lasts.
    pub length: Duration,
    /// How often to renew.
    pub heartbeat: Duration,
    /// When it lapses, by the cell's wall clock, for people.
    pub expires_at: Timestamp,
    /// Another holder of the shared entry declared it anew; this one keeps it alive all the same.
    pub superseded: bool,
}

/// A lease as its keeper sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseFacts {
    /// Which registration of the instance.
    pub epoch: Epoch,
    /// How long one renewal lasts.
    pub length: Duration,
    /// What it is doing now.
    pub state: LeaseState,
    /// Whole heartbeats since the last renewal.
    pub missed: u64,
    /// When it was last renewed, or granted.
    pub renewed_at: Timestamp,
    /// When it lapses.
    pub expires_at: Timestamp,
    /// Who keeps it alive, in order of name, where the entry is shared.
    pub holders: Option<Vec<HolderFacts>>,
}

/// One holder of a shared entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderFacts {
    /// Its name.
    pub holder: Holder,
    /// The registration that it speaks of.
    pub epoch: Epoch,
    /// Its last renewal.
    pub renewed_at: Timestamp,
}

/// What a renewal may say beside "I am here".
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Who says so, of those that share the entry; of no meaning where it is one process's own.
    pub holder: Holder,
    /// How it is doing.
    pub lifecycle: Option<Lifecycle>,
    /// What it has to do.
    pub load: Option<Load>,
}

/// What an owner changes without registering anew.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Update {
    /// How it is doing.
    pub lifecycle: Option<Lifecycle>,
    /// What it has to do.
    pub load: Option<Load>,
    /// JSON Merge Patch (RFC 7396) of the metadata: `None` removes a key.
    pub metadata: BTreeMap<String, Option<String>>,
}

/// The use cases. Cheap to clone.
#[derive(Clone)]
pub struct Registrar {
    /// Group commit.
    pub groups: Groups,
    /// The own region's replica.
    pub view: watch::Receiver<Arc<View>>,
    /// The leases, if this process keeps them.
    pub keeper: KeeperHandle,
    /// The way to the process that keeps them.
    pub forward: Forward,
    /// The history that the store holds.
    pub founding: CurrentFounding,
    /// Whether the store has space, for who asks why nothing goes.
    pub space: Space,
    /// Whether it answers, likewise.
    pub silence: Silence,
    /// Writers of one instance in this process, one after the other.
    pub turns: Turns,
    /// When reported load degrades, and how often it is written.
    pub load_limits: LoadLimits,
    /// Reports that the store did not take yet.
    pub unwritten: Unwritten,
    /// What became of renewals.
    pub renewals: Renewals,
    /// Time.
    pub clock: Clock,
}

/// A write that lost against another process's is decided anew this often before the caller hears of it. Writers of one
/// process take turns, so each loss means that another process won, and half of the tries do when two never rest.
const TRIES: usize = 32;
/// How long a renewal waits for what it reports to be written: well under a registrant's patience of 3 s.
const REPORT_WAIT: Duration = Duration::from_millis(500);

impl Registrar {
    /// Renews a lease. A word about lifecycle or load is written only when readers would route otherwise for it.
    ///
    /// # Errors
    /// Superseded, not registered, or no keeper that answers.
    pub async fn renew(&self, id: &InstanceId, epoch: Epoch, report: Report) -> Result<LeaseTimes, Refusal> {
        let judged = self.judged(id, &report.holder, epoch).await;
        self.renewals.count(&judged);
        let renewed = judged?;
        // Whoever's declaration was replaced speaks of another one than readers see.
        if renewed.superseded {
            return Ok(renewed);
        }
        if !self.is_news(id, epoch, &report) {
            if report.lifecycle.is_some() {
                // It took its word back before that could be written.
                self.unwritten.forget(id);
            }
            return Ok(renewed);
        }
        // The lease is renewed whatever becomes of the word: a slow store must not make the answer late. What was not
        // written is kept, and said again with the next beat of most owners.
        match tokio::time::timeout(REPORT_WAIT, self.write_report(id, epoch, &report, None)).await {
            Ok(Ok(())) => self.unwritten.forget(id),
            Ok(Err(refusal)) => {
                tracing::debug!(%id, code = refusal.code.as_str(), "report not written");
                if unwritten::is_the_stores(&refusal) {
                    self.keep_unwritten(id, epoch, report);
                }
            }
            Err(_) => {
                tracing::debug!(%id, "report not written in time");
                self.keep_unwritten(id, epoch, report);
            }
        }
        Ok(renewed)
    }

    /// Renews leases of holders that report nothing and give no name, and hands on the times of each; `false` when one
    /// of them is not renewed at once. Then all are to be renewed by [`Registrar::renew`], which says what is the
    /// matter: to renew one of them twice changes nothing.
    pub fn renew_at_once<'a>(
        &self,
        holds: impl Iterator<Item = (&'a str, Epoch)>,
        mut renewed: impl FnMut(&'a str, LeaseTimes),
    ) -> bool {
        let mut count = 0;
        let all = self.keeper.renew_each(holds, |id, renewal, wall| {
            match renewal {
                Renewal::Renewed(length) => renewed(id, times_at(wall, length)),
                Renewal::KeptAlive(length) => {
                    renewed(id, LeaseTimes { superseded: true, ..times_at(wall, length) });
                }
                Renewal::Superseded | Renewal::NotRegistered | Renewal::Wait => return false,
            }
            count += 1;
            true
        });
        // Where one is in the way all of them are asked again, and counted then.
        if all {
            self.renewals.count_renewed(count);
        }
        all
    }

    async fn judged(&self, id: &InstanceId, holder: &Holder, epoch: Epoch) -> Result<LeaseTimes, Refusal> {
        let mut view = self.view.clone();
        let started = self.clock.now();
        loop {
            view.borrow_and_update();
            let last = self.clock.now().since(started) >= limits::AHEAD_WAIT;
            match self.judge(id, holder, epoch).await? {
                Renewal::Renewed(length) => return Ok(self.times(length)),
                Renewal::KeptAlive(length) => {
                    return Ok(LeaseTimes { superseded: true, ..self.times(length) });
                }
                Renewal::Superseded => return Err(self.superseded(id, epoch)),
                Renewal::NotRegistered => return Err(Refusal::not_registered(id.as_str())),
                Renewal::Wait if last => return Err(self.still_waiting(id, epoch).await),
                Renewal::Wait => self.look_again(&mut view).await,
            }
        }
    }

    /// The refusal when what was waited for did not come: a removal that is under way, or an epoch.
    async fn still_waiting(&self, id: &InstanceId, epoch: Epoch) -> Refusal {
        match self.current(id) {
            Some(current) if current.epoch == epoch => Refusal::new(
                Code::StoreUnavailable,
                "a removal of this lease is under way; ask again for what became of it",
            ),
            Some(_) | None => self.store_knows(id, epoch).await,
        }
    }

    /// Why an epoch that stays ahead of the replica is refused, by the store itself: a write without effect, whose
    /// compare is judged on what stands there now.
    async fn store_knows(&self, id: &InstanceId, epoch: Epoch) -> Refusal {
        let lags = || {
            Refusal::new(
                Code::StoreUnavailable,
                "this process has not caught up with that epoch; ask again, or ask another process of the cell",
            )
        };
        let Ok(founding) = self.founding() else { return lags() };
        let write = Write {
            compare: vec![Compare::ModRevision(keys::registration(id), epoch.revision())],
            then: Vec::new(),
            otherwise_read: keys::registration(id),
        };
        match self.commit(id, write, None, &founding).await {
            Ok(Outcome::Lost(Some(entry))) => lost_to(id, &entry, epoch),
            Ok(Outcome::Lost(None)) => Refusal::not_registered(id.as_str()),
            Ok(Outcome::Won(_)) if founding.incarnation.ordinal() != epoch.ordinal() => {
                self.superseded(id, epoch)
            }
            // It stands, or nobody can tell now.
            Ok(Outcome::Won(_) | Outcome::OtherHistory) | Err(_) => lags(),
        }
    }

    /// Removes a registration on its owner's word. Final: no later heartbeat brings it back (I11).
    ///
    /// # Errors
    /// As [`Registrar::let_go`].
    pub async fn deregister(&self, id: &InstanceId, epoch: Epoch) -> Result<(), Refusal> {
        self.let_go(id, epoch, &Holder::default()).await
    }

    /// Removes exactly this registration, with its reason.
    pub(crate) async fn remove(&self, id: &InstanceId, epoch: Epoch, gone: Gone) -> Result<(), Refusal> {
        for _ in 0..TRIES {
            let founding = self.founding()?;
            match self.commit(id, removal_write(id, epoch), Some(gone.clone()), &founding).await? {
                Outcome::Won(_) => return Ok(()),
                Outcome::Lost(None) => return Err(Refusal::not_registered(id.as_str())),
                Outcome::Lost(Some(entry)) => return Err(lost_to(id, &entry, epoch)),
                Outcome::OtherHistory => {
                    self.other_history(&founding).await?;
                    // What was decided in the other history is decided anew.
                    self.fenced(id, epoch).await?;
                }
            }
        }
        Err(Refusal::new(
            Code::StoreUnavailable,
            format!("the store's history changed again and again while {id} was removed; try again"),
        ))
    }

    /// The registration if this epoch holds it; an epoch that is ahead of the replica waits for it.
    async fn fenced(&self, id: &InstanceId, epoch: Epoch) -> Result<Arc<Registration>, Refusal> {
        match self.caught_up(id, epoch).await? {
            Some(current) if current.epoch == epoch || planted::is(Bug::AcceptAStaleEpoch) => Ok(current),
            Some(current) => Err(Refusal::superseded(&current, epoch)),
            None => Err(Refusal::not_registered(id.as_str())),
        }
    }

    /// The registration as the replica shows it once it has caught up with this epoch.
    ///
    /// # Errors
    /// It did not in time; then the store's word counts, and never that of a replica that may lag (I04).
    async fn caught_up(&self, id: &InstanceId, epoch: Epoch) -> Result<Option<Arc<Registration>>, Refusal> {
        let mut view = self.view.clone();
        let started = self.clock.now();
        loop {
            let shown = view.borrow_and_update().clone();
            let current = shown.state().and_then(|state| state.get(id.as_str())).cloned();
            let ahead = shown.position().is_none_or(|position| {
                epoch.ordinal() > position.incarnation.ordinal()
                    || (epoch.ordinal() == position.incarnation.ordinal()
                        && epoch.revision() > position.revision)
            });
            let held = current.as_ref().is_some_and(|current| current.epoch == epoch);
            if held || !ahead {
                return Ok(current);
            }
            if self.clock.now().since(started) >= limits::AHEAD_WAIT {
                return Err(self.store_knows(id, epoch).await);
            }
            let _ = tokio::time::timeout(Duration::from_millis(50), view.changed()).await;
        }
    }

    async fn commit(
        &self,
        id: &InstanceId,
        write: Write,
        gone: Option<Gone>,
        founding: &Arc<Founding>,
    ) -> Result<Outcome, Refusal> {
        match self.groups.commit(id.clone(), write, gone, Arc::clone(founding)).await {
            Some(Ok(outcome)) => Ok(outcome),
            Some(Err(error)) => Err(Refusal::store(&error)),
            None => {
                Err(Refusal::new(Code::Overloaded, "too many writes wait for the store; nothing was written"))
            }
        }
    }

    fn founding(&self) -> Result<Arc<Founding>, Refusal> {
        let founding = self.founding.borrow().clone();
        founding.ok_or_else(|| self.unfounded("it was not reached yet"))
    }

    /// Why no history can be written to: what is known of the store, or else these words.
    fn unfounded(&self, otherwise: &str) -> Refusal {
        if let Some(ailing) = self.silence.now() {
            return Refusal::ailing(&ailing);
        }
        Refusal::store(&match self.space.lacks() {
            Some((bound, _)) => StoreError::Full(bound),
            None => StoreError::Unavailable(otherwise.to_owned()),
        })
    }

    pub(crate) fn current(&self, id: &InstanceId) -> Option<Arc<Registration>> {
        self.view.borrow().state().and_then(|state| state.get(id.as_str())).cloned()
    }

    fn superseded(&self, id: &InstanceId, epoch: Epoch) -> Refusal {
        match self.current(id) {
            Some(current) => Refusal::superseded(&current, epoch),
            None => Refusal::not_registered(id.as_str()),
        }
    }

    async fn moved_on(&self, revision: Revision) {
        let mut view = self.view.clone();
        let newer = view.wait_for(|view| view.position().is_some_and(|own| own.revision > revision));
        let _ = tokio::time::timeout(limits::AHEAD_WAIT, newer).await;
    }

    /// Waits until the replica knows the history that the store holds by now.
    ///
    /// # Errors
    /// It does not learn of it in time: the store's incarnation cannot be read, say.
    async fn other_history(&self, was: &Founding) -> Result<(), Refusal> {
        let mut founding = self.founding.clone();
        let other = founding.wait_for(|now| now.as_deref() != Some(was));
        match tokio::time::timeout(limits::AHEAD_WAIT, other).await {
            Ok(_) => Ok(()),
            Err(_) => Err(self.unfounded("it holds another history than this cell knows")),
        }
    }

    fn times(&self, length: Duration) -> LeaseTimes {
        times_at(self.clock.wall(), length)
    }

    fn wall_in(&self, ahead: Duration) -> Timestamp {
        wall_after(self.clock.wall(), ahead)
    }
}

fn times_at(wall: Timestamp, length: Duration) -> LeaseTimes {
    let heartbeat = rollcall_model::deadlines::heartbeat(length);
    LeaseTimes { length, heartbeat, expires_at: wall_after(wall, length), superseded: false }
}

fn wall_after(moment: Timestamp, span: Duration) -> Timestamp {
    Timestamp(moment.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
}

/// Other processes write an instance so often that no write of this one is ever decided on what stands there.
fn contended(id: &InstanceId) -> Refusal {
    Refusal::new(Code::Overloaded, format!("others write {id} without a pause; nothing was written"))
}

fn lost_to(id: &InstanceId, entry: &Entry, epoch: Epoch) -> Refusal {
    match translate::join(id, entry, None) {
        Some(current) => Refusal::superseded(&current, epoch),
        None => Refusal::new(Code::Superseded, "a newer registration holds this instance"),
    }
}
