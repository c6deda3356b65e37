//! The keeper's leases: deadlines in memory, and one pass over those that are due.
//!
//! A renewal moves a deadline and nothing else. Each lease has one place in the queue, under a deadline it had; when that
//! comes up the lease is looked at and put back under the one it has now. A sweep therefore costs what is due, not
//! what there is.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::change::Change;
use crate::name::InstanceId;
use crate::position::{Epoch, Revision};
use crate::registration::Registration;
use crate::state::State;
use crate::time::{Instant, Timestamp};

/// What a lease is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// Renewed in time.
    Live,
    /// Not renewed for 1.5 times the longest gap between two beats.
    Suspect,
    /// Past its deadline; it goes with a coming sweep.
    Lapsed,
}

/// One lease, as its keeper sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Lease {
    /// Which registration of the instance.
    pub epoch: Epoch,
    /// How long one renewal lasts.
    pub length: Duration,
    /// When it was last renewed, or granted.
    pub renewed: Instant,
    /// The same for people.
    pub renewed_wall: Timestamp,
    /// A removal is on its way to the store; renewals wait for what becomes of it (I05).
    removing: bool,
    /// Its place in the queue, at or before its deadline. Other places that carry its id are left over from a
    /// registration before and mean nothing. None while a removal is under way.
    place: Option<Instant>,
}

/// The answer to a renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The deadline moved; the lease lasts this long from now.
    Renewed(Duration),
    /// A newer epoch holds the instance.
    Superseded,
    /// There is no such registration.
    NotRegistered,
    /// The epoch is newer than what the keeper has applied, or a removal is under way: ask again soon.
    Wait,
}

/// All leases of a region, in the hands of its one keeper.
#[derive(Clone, Debug, Default)]
pub struct Deadlines {
    leases: BTreeMap<InstanceId, Lease>,
    queue: BTreeMap<Instant, VecDeque<InstanceId>>,
    applied: Revision,
    ordinal: u16,
}

/// Beats are a third of the lease (section 0 of the acceptance list).
#[must_use]
pub fn heartbeat(lease: Duration) -> Duration {
    lease / 3
}

/// A registration is suspect when it has not renewed for this long: 1.5 times the longest gap between jittered beats.
#[must_use]
pub fn suspect_after(lease: Duration) -> Duration {
    heartbeat(lease).mul_f64(1.2 * 1.5)
}

impl Lease {
    /// When it lapses unless renewed. An entry lives strictly before it (acceptance MOD-02).
    #[must_use]
    pub const fn deadline(&self) -> Instant {
        self.renewed.plus(self.length)
    }

    /// What it is doing at `now`.
    #[must_use]
    pub fn state(&self, now: Instant) -> LeaseState {
        if now >= self.deadline() {
            LeaseState::Lapsed
        } else if now.since(self.renewed) >= suspect_after(self.length) {
            LeaseState::Suspect
        } else {
            LeaseState::Live
        }
    }

    /// Whole heartbeats since the last renewal.
    #[must_use]
    pub fn missed(&self, now: Instant) -> u64 {
        let beat = heartbeat(self.length).as_millis().max(1);
        u64::try_from(now.since(self.renewed).as_millis() / beat).unwrap_or(u64::MAX)
    }
}

impl Deadlines {
    /// Leases for everything in a state that was proved current: a full lease of grace for each (I09).
    #[must_use]
    pub fn begin(state: &State, ordinal: u16, applied: Revision, now: Instant, wall: Timestamp) -> Self {
        let mut deadlines = Self { ordinal, applied, ..Self::default() };
        for registration in state.iter() {
            deadlines.grant(registration, now, wall);
        }
        deadlines
    }

    /// How many leases there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.leases.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// One lease.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Lease> {
        self.leases.get(id)
    }

    /// Up to which revision changes were taken in.
    #[must_use]
    pub const fn applied(&self) -> Revision {
        self.applied
    }

    /// Takes in one change of the region's own history.
    pub fn follow(&mut self, change: &Change, now: Instant, wall: Timestamp) {
        match change {
            Change::Put(registration) => {
                let known = self.leases.get(&registration.declared.id).map(|lease| lease.epoch);
                if known != Some(registration.epoch) {
                    self.grant(registration, now, wall);
                }
            }
            Change::Remove(removal) => {
                self.leases.remove(&removal.id);
            }
        }
        self.applied = self.applied.max(change.revision());
    }

    /// Nothing changed up to this revision.
    pub fn advance(&mut self, applied: Revision) {
        self.applied = self.applied.max(applied);
    }

    fn grant(&mut self, registration: &Registration, now: Instant, wall: Timestamp) {
        let id = &registration.declared.id;
        let length = Duration::from_secs(u64::from(registration.declared.lease_seconds));
        let deadline = now.plus(length);
        // A place of the registration before serves again, unless it comes too late for a shorter lease. One whose
        // removal is under way has none, and would never be looked at again (I06).
        let known = self.leases.get(id).and_then(|known| known.place).filter(|place| *place <= deadline);
        if known.is_none() {
            self.queue.entry(deadline).or_default().push_back(id.clone());
        }
        let place = known.or(Some(deadline));
        let epoch = registration.epoch;
        let lease = Lease { epoch, length, renewed: now, renewed_wall: wall, removing: false, place };
        self.leases.insert(id.clone(), lease);
    }

    /// Moves the deadline of one lease. Only the server's monotonic clock decides (acceptance LEA-10).
    pub fn renew(&mut self, id: &str, epoch: Epoch, now: Instant, wall: Timestamp) -> Renewal {
        let ahead = epoch.ordinal() == self.ordinal && epoch.revision() > self.applied;
        match self.leases.get_mut(id) {
            None if ahead => Renewal::Wait,
            None => Renewal::NotRegistered,
            Some(lease) if lease.epoch == epoch && lease.removing => Renewal::Wait,
            Some(lease) if lease.epoch == epoch => {
                lease.renewed = now;
                lease.renewed_wall = wall;
                Renewal::Renewed(lease.length)
            }
            Some(_) if ahead => Renewal::Wait,
            Some(_) => Renewal::Superseded,
        }
    }

    /// The leases that are past their deadline, marked as being removed. At most `most` at a time.
    ///
    /// This is where the expiry guard will decide which of them may go.
    pub fn sweep(&mut self, now: Instant, most: usize) -> Vec<(InstanceId, Epoch)> {
        let mut lapsed = Vec::new();
        while lapsed.len() < most {
            let Some(mut due) = self.queue.first_entry().filter(|due| *due.key() <= now) else { break };
            let place = *due.key();
            let Some(id) = due.get_mut().pop_front() else {
                due.remove();
                continue;
            };
            let Some(lease) = self.leases.get_mut(&id).filter(|lease| lease.place == Some(place)) else {
                continue;
            };
            let deadline = lease.deadline();
            if deadline > now {
                lease.place = Some(deadline);
                self.queue.entry(deadline).or_default().push_back(id);
            } else {
                lease.place = None;
                lease.removing = true;
                lapsed.push((id, lease.epoch));
            }
        }
        lapsed
    }

    /// A removal did not happen, or nobody knows: the lease may be renewed again, and is due at once.
    pub fn put_back(&mut self, id: &InstanceId, epoch: Epoch, now: Instant) {
        if let Some(lease) = self.leases.get_mut(id).filter(|lease| lease.epoch == epoch && lease.removing) {
            lease.removing = false;
            lease.place = Some(now);
            self.queue.entry(now).or_default().push_back(id.clone());
        }
    }
}

/// What the proofs count; the queue is nobody else's business.
#[cfg(feature = "testing")]
impl Deadlines {
    /// Places in the queue.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.queue.values().map(VecDeque::len).sum()
    }

    /// Places that a sweep at `now` looks at.
    #[must_use]
    pub fn due(&self, now: Instant) -> usize {
        self.queue.range(..=now).map(|(_, ids)| ids.len()).sum()
    }
}
