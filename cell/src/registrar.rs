//! The use cases of an owner: register, renew, update, deregister.
//!
//! Each decides on the replica's state and lets the store judge: the write's compare holds only for the state that
//! was decided on (I02). Nothing is acknowledged that the store did not confirm (I15).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rollcall_model::declaration::check_metadata;
use rollcall_model::{
    Clock, Code, Declared, Epoch, InstanceId, Lifecycle, Load, Owned, Position, Registration, RemovalReason,
    Renewal, Revision, Timestamp, View, limits,
};
use rollcall_proto::store::{Gone, encode_owned, encode_registration};
use tokio::sync::watch;

use crate::founding::{CurrentFounding, Founding};
use crate::group::{Groups, Outcome};
use crate::keeper::{KeeperHandle, Renewed, removal_write};
use crate::refusal::Refusal;
use crate::store::{Compare, Entry, Op, StoreError, Write, keys};
use crate::translate;

/// An accepted registration.
#[derive(Clone, Debug, PartialEq)]
pub struct Registered {
    /// The registration as it now stands.
    pub registration: Arc<Registration>,
    /// Where in the region's history.
    pub position: Position,
    /// Its lease.
    pub lease: LeaseTimes,
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
}

/// A lease as its keeper sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaseFacts {
    /// The lease.
    pub lease: rollcall_model::Lease,
    /// What it is doing now.
    pub state: rollcall_model::LeaseState,
    /// Whole heartbeats since the last renewal.
    pub missed: u64,
    /// When it lapses.
    pub expires_at: Timestamp,
}

/// What a renewal may say beside "I am here".
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
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
    /// The leases.
    pub keeper: KeeperHandle,
    /// The history that the store holds.
    pub founding: CurrentFounding,
    /// Time.
    pub clock: Clock,
}

/// A write that lost against another one is decided anew this often before the caller hears of it.
const TRIES: usize = 8;
/// How long a renewal waits for what it reports to be written: well under a registrant's patience of 3 s.
const REPORT_WAIT: Duration = Duration::from_millis(500);

impl Registrar {
    /// Registers, or takes the instance over with a higher epoch.
    ///
    /// # Errors
    /// The store is away or full, the outcome is unknown, or others were faster again and again.
    pub async fn register(&self, declared: Declared) -> Result<Registered, Refusal> {
        let id = declared.id.clone();
        let mut seen = self.current(&id).map_or(Revision(0), |r| r.epoch.revision());
        for _ in 0..TRIES {
            let founding = self.founding()?;
            let ordinal = founding.incarnation.ordinal();
            let registered_at = self.clock.wall();
            let value = encode_registration(&declared, ordinal, registered_at);
            let mut then = vec![Op::Put(keys::registration(&id), value)];
            // What the owner said of the registration before goes with it; a first registration has no such key,
            // because a removal takes both.
            if seen > Revision(0) {
                then.push(Op::Remove(keys::owned(&id)));
            }
            let write = Write {
                compare: vec![Compare::ModRevision(keys::registration(&id), seen)],
                then,
                otherwise_read: keys::registration(&id),
            };
            match self.commit(&id, write, None, &founding).await? {
                Outcome::Won(revision) => {
                    let position = Position::new(founding.incarnation.clone(), revision);
                    let registration = Arc::new(Registration {
                        epoch: Epoch::new(ordinal, revision),
                        registered_at,
                        revision,
                        owned: Owned::of(&declared),
                        declared,
                    });
                    let length = Duration::from_secs(u64::from(registration.declared.lease_seconds));
                    return Ok(Registered { registration, position, lease: self.times(length) });
                }
                Outcome::Lost(entry) => seen = entry.map_or(Revision(0), |entry| entry.mod_revision),
                Outcome::OtherHistory => self.other_history(&founding).await?,
            }
        }
        Err(Refusal::new(Code::Conflict, format!("others registered {id} at the same time; try again")))
    }

    /// Renews a lease. A word about lifecycle or load is written only when it says something new.
    ///
    /// # Errors
    /// Superseded, not registered, or no keeper here now.
    pub async fn renew(&self, id: &InstanceId, epoch: Epoch, report: Report) -> Result<LeaseTimes, Refusal> {
        let length = self.judged(id, epoch).await?;
        let changed = self.current(id).is_some_and(|current| {
            report.lifecycle.is_some_and(|said| said != current.owned.lifecycle)
                || report.load.is_some_and(|load| Some(load) != current.owned.load)
        });
        if changed {
            let update = Update { lifecycle: report.lifecycle, load: report.load, metadata: BTreeMap::new() };
            // The lease is renewed whatever becomes of the word: a slow store must not make the answer late. What
            // was not written is said again with the next beat.
            match tokio::time::timeout(REPORT_WAIT, self.update(id, epoch, update)).await {
                Ok(Ok(_)) => {}
                Ok(Err(refusal)) => tracing::debug!(%id, code = refusal.code.as_str(), "report not written"),
                Err(_) => tracing::debug!(%id, "report not written in time"),
            }
        }
        Ok(self.times(length))
    }

    async fn judged(&self, id: &InstanceId, epoch: Epoch) -> Result<Duration, Refusal> {
        let mut view = self.view.clone();
        let started = self.clock.now();
        loop {
            view.borrow_and_update();
            let last = self.clock.now().since(started) >= limits::AHEAD_WAIT;
            match self.keeper.renew(id, epoch) {
                Renewed::Judged(Renewal::Renewed(length)) => return Ok(length),
                Renewed::Judged(Renewal::Superseded) => return Err(self.superseded(id)),
                Renewed::Judged(Renewal::NotRegistered) => return Err(Refusal::not_registered(id.as_str())),
                Renewed::Judged(Renewal::Wait) if last => {
                    return Err(match self.current(id) {
                        Some(current) if current.epoch == epoch => Refusal::new(
                            Code::StoreUnavailable,
                            "a removal of this lease is under way; ask again for what became of it",
                        ),
                        Some(_) | None => self.superseded(id),
                    });
                }
                Renewed::Judged(Renewal::Wait) => {
                    let _ = tokio::time::timeout(Duration::from_millis(50), view.changed()).await;
                }
                Renewed::NoOffice => {
                    return Err(Refusal::new(
                        Code::StoreUnavailable,
                        "no keeper judges leases here at the moment; the lease is as it was",
                    ));
                }
            }
        }
    }

    /// What the keeper knows about a lease.
    ///
    /// # Errors
    /// Not registered, or no keeper here now.
    pub fn lease(&self, id: &InstanceId) -> Result<LeaseFacts, Refusal> {
        let lease = self
            .keeper
            .lease(id.as_str())
            .ok_or_else(|| {
                Refusal::new(Code::StoreUnavailable, "no keeper judges leases here at the moment")
            })?
            .ok_or_else(|| Refusal::not_registered(id.as_str()))?;
        let now = self.clock.now();
        let left = lease.deadline().since(now);
        Ok(LeaseFacts {
            state: lease.state(now),
            missed: lease.missed(now),
            expires_at: self.wall_in(left),
            lease,
        })
    }

    /// Changes what an owner may change; the epoch stays.
    ///
    /// # Errors
    /// Superseded, not registered, metadata over its limits, or the store's refusals.
    pub async fn update(
        &self,
        id: &InstanceId,
        epoch: Epoch,
        update: Update,
    ) -> Result<Arc<Registration>, Refusal> {
        for _ in 0..TRIES {
            let founding = self.founding()?;
            let current = self.fenced(id, epoch).await?;
            let owned = updated(&current.owned, &update)?;
            if owned == current.owned {
                return Ok(current);
            }
            // The second key exists only once something was said after the registration.
            let said = if current.revision > epoch.revision() { current.revision } else { Revision(0) };
            let write = Write {
                compare: vec![
                    Compare::ModRevision(keys::registration(id), epoch.revision()),
                    Compare::ModRevision(keys::owned(id), said),
                ],
                then: vec![Op::Put(keys::owned(id), encode_owned(&owned))],
                otherwise_read: keys::registration(id),
            };
            match self.commit(id, write, None, &founding).await? {
                Outcome::Won(revision) => {
                    return Ok(Arc::new(Registration { owned, revision, ..(*current).clone() }));
                }
                Outcome::Lost(None) => return Err(Refusal::not_registered(id.as_str())),
                Outcome::Lost(Some(entry)) if entry.mod_revision != epoch.revision() => {
                    return Err(lost_to(id, &entry));
                }
                // Another word of the owner was faster: wait until it is known here, and decide anew.
                Outcome::Lost(Some(_)) => self.moved_on(current.revision).await,
                Outcome::OtherHistory => self.other_history(&founding).await?,
            }
        }
        Err(Refusal::new(Code::Conflict, format!("other updates of {id} were faster; try again")))
    }

    /// Removes a registration on its owner's word. Final: no later heartbeat brings it back (I11).
    ///
    /// # Errors
    /// Superseded, not registered, or the store's refusals.
    pub async fn deregister(&self, id: &InstanceId, epoch: Epoch) -> Result<(), Refusal> {
        // A cell that never reached its store knows of nobody: it must not say "not registered".
        self.founding()?;
        self.fenced(id, epoch).await?;
        let gone =
            Gone { id: id.clone(), reason: RemovalReason::Deregistered, actor: "owner".into(), term: None };
        self.remove(id, epoch, gone).await
    }

    /// Removes exactly this registration, with its reason.
    pub(crate) async fn remove(&self, id: &InstanceId, epoch: Epoch, gone: Gone) -> Result<(), Refusal> {
        for _ in 0..TRIES {
            let founding = self.founding()?;
            match self.commit(id, removal_write(id, epoch), Some(gone.clone()), &founding).await? {
                Outcome::Won(_) => return Ok(()),
                Outcome::Lost(None) => return Err(Refusal::not_registered(id.as_str())),
                Outcome::Lost(Some(entry)) => return Err(lost_to(id, &entry)),
                Outcome::OtherHistory => {
                    self.other_history(&founding).await?;
                    // What was decided in the other history is decided anew.
                    self.fenced(id, epoch).await?;
                }
            }
        }
        Err(Refusal::new(
            Code::Conflict,
            format!("the store's history changed while {id} was removed; try again"),
        ))
    }

    /// The registration if this epoch holds it; an epoch that is ahead of the replica waits for it.
    async fn fenced(&self, id: &InstanceId, epoch: Epoch) -> Result<Arc<Registration>, Refusal> {
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
            let waited = self.clock.now().since(started) >= limits::AHEAD_WAIT;
            match current {
                Some(current) if current.epoch == epoch => return Ok(current),
                Some(current) if !ahead || waited => return Err(Refusal::superseded(&current)),
                None if !ahead || waited => return Err(Refusal::not_registered(id.as_str())),
                Some(_) | None => {
                    let _ = tokio::time::timeout(Duration::from_millis(50), view.changed()).await;
                }
            }
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
        self.founding
            .borrow()
            .clone()
            .ok_or_else(|| Refusal::store(&StoreError::Unavailable("it was not reached yet".into())))
    }

    pub(crate) fn current(&self, id: &InstanceId) -> Option<Arc<Registration>> {
        self.view.borrow().state().and_then(|state| state.get(id.as_str())).cloned()
    }

    fn superseded(&self, id: &InstanceId) -> Refusal {
        match self.current(id) {
            Some(current) => Refusal::superseded(&current),
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
            Err(_) => Err(Refusal::store(&StoreError::Unavailable(
                "it holds another history than this cell knows".into(),
            ))),
        }
    }

    fn times(&self, length: Duration) -> LeaseTimes {
        LeaseTimes {
            length,
            heartbeat: rollcall_model::deadlines::heartbeat(length),
            expires_at: self.wall_in(length),
        }
    }

    fn wall_in(&self, ahead: Duration) -> Timestamp {
        Timestamp(self.clock.wall().0.saturating_add(i64::try_from(ahead.as_millis()).unwrap_or(i64::MAX)))
    }
}

fn lost_to(id: &InstanceId, entry: &Entry) -> Refusal {
    match translate::join(id, entry, None) {
        Some(current) => Refusal::superseded(&current),
        None => Refusal::new(Code::Superseded, "a newer registration holds this instance"),
    }
}

fn updated(owned: &Owned, update: &Update) -> Result<Owned, Refusal> {
    let mut owned = owned.clone();
    if let Some(lifecycle) = update.lifecycle {
        owned.lifecycle = lifecycle;
    }
    if let Some(load) = update.load {
        owned.load = Some(load);
    }
    for (key, value) in &update.metadata {
        match value {
            Some(value) => drop(owned.metadata.insert(key.clone(), value.clone())),
            None => drop(owned.metadata.remove(key)),
        }
    }
    if !update.metadata.is_empty() {
        check_metadata(&owned.metadata).map_err(Refusal::invalid)?;
    }
    Ok(owned)
}
