//! One lease: whose, until when, and what is known beside its renewals.

use std::time::Duration;

use crate::change::Actor;
use crate::holders::Holders;
use crate::name::{InstanceId, Zone};
use crate::position::Epoch;
use crate::time::{Instant, Timestamp};

/// What a lease is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// Renewed in time.
    Live,
    /// Not renewed for 1.5 times the longest gap between two beats.
    Suspect,
    /// Past its deadline; it goes with a coming sweep, unless the guard holds it.
    Lapsed,
}

/// Why an overdue lease is no longer counted as suspect, and goes also while its cohort is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its host refused a connection to every endpoint: dead, not silent.
    ProvedDead,
    /// An operator let exactly this one go.
    Released(Actor),
    /// Its last known holder let it go; it stays for its lease, because others may not have been heard yet.
    LetGo,
}

/// One lease, as its keeper sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Lease {
    /// Whose.
    pub id: InstanceId,
    /// Which registration of the instance.
    pub epoch: Epoch,
    /// The failure domain it is counted in.
    pub zone: Option<Zone>,
    /// How long one renewal lasts.
    pub length: Duration,
    /// When it was last renewed, or granted.
    pub renewed: Instant,
    /// The same for people.
    pub renewed_wall: Timestamp,
    /// Known to be dead, or let go by an operator. A renewal disproves it.
    pub verdict: Option<Verdict>,
    /// Renewals are ignored until then: a drill.
    pub muted_until: Option<Instant>,
    /// Who keeps it alive, where several processes share the entry; each of them moves the deadline.
    pub holders: Option<Box<Holders>>,
    /// When its load may be written the next time; see [`crate::load::may_write`].
    pub load_next: Instant,
    /// Readers were told that it is overdue.
    pub is_marked: bool,
    /// Its keeper heard of it: not since, for what was there before the keeper.
    pub is_heard: bool,
    /// A removal is on its way to the store; renewals wait for what becomes of it (I05).
    pub(crate) removing: bool,
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

    /// Whether readers are to see it as overdue: past its deadline, or called so by the keeper before and not heard
    /// since. A new keeper's grace is no sign of life.
    #[must_use]
    pub fn is_overdue(&self, now: Instant) -> bool {
        self.state(now) == LeaseState::Lapsed || (self.is_marked && !self.is_heard)
    }

    /// Whether who holds this epoch may move the deadline: the current one, and of a shared entry also one that it
    /// replaced.
    #[must_use]
    pub fn may_be_held_by(&self, epoch: Epoch) -> bool {
        epoch == self.epoch || self.holders.as_ref().is_some_and(|holders| holders.knows(epoch))
    }

    /// Whole heartbeats since the last renewal.
    #[must_use]
    pub fn missed(&self, now: Instant) -> u64 {
        let beat = heartbeat(self.length).as_millis().max(1);
        u64::try_from(now.since(self.renewed).as_millis() / beat).unwrap_or(u64::MAX)
    }
}
