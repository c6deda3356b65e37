//! One lease: whose, until when, and what is known beside its renewals.

use std::time::Duration;

use crate::change::Actor;
use crate::holders::{HeardAt, Holders};
use crate::load::{self, LoadLimits};
use crate::name::{InstanceId, Zone};
use crate::position::Epoch;
use crate::registration::Registration;
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

/// One lease, as its keeper sees it. There may be a million of them: what few of them ever need stands beside.
#[derive(Clone, Debug, PartialEq)]
pub struct Lease {
    /// Whose.
    pub id: InstanceId,
    /// Which registration of the instance.
    pub epoch: Epoch,
    /// The failure domain it is counted in.
    pub zone: Option<Zone>,
    renewed: Moment,
    /// When it was last renewed, or granted, for people.
    pub renewed_wall: Timestamp,
    load_next: Moment,
    beside: Option<Box<Beside>>,
    seconds: u16,
    /// Readers were told that it is overdue.
    pub is_marked: bool,
    /// Its keeper heard of it: not since, for what was there before the keeper.
    pub is_heard: bool,
    /// A removal is on its way to the store; renewals wait for what becomes of it (I05).
    pub(crate) removing: bool,
}

/// An instant in nanoseconds: the keeper's clock fits 64 bits of them for five centuries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Moment(u64);

/// What few leases have.
#[derive(Clone, Debug, Default, PartialEq)]
struct Beside {
    /// Known to be dead, or let go by an operator. A renewal disproves it.
    verdict: Option<Verdict>,
    /// Renewals are ignored until then: a drill.
    muted_until: Option<Instant>,
    /// Who keeps it alive, where several processes share the entry; each of them moves the deadline.
    holders: Option<Box<Holders>>,
}

impl From<Instant> for Moment {
    fn from(at: Instant) -> Self {
        Self(u64::try_from(at.0.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Moment> for Instant {
    fn from(at: Moment) -> Self {
        Self(Duration::from_nanos(at.0))
    }
}

/// Whoever was not heard for this long is tried last, however long its lease (acceptance LEA-24). Two minutes: leases of
/// minutes are for those whose end may be noticed late, not for callers to run into one that is gone.
const SILENT: Duration = Duration::from_secs(120);

/// Beats are a third of the lease (section 0 of the acceptance list).
#[must_use]
pub fn heartbeat(lease: Duration) -> Duration {
    lease / 3
}

/// A registration is suspect when it has not renewed for this long: 1.5 times the longest gap between jittered beats.
#[must_use]
pub fn suspect_after(lease: Duration) -> Duration {
    // 1.2 × 1.5 of a third, in whole numbers: every renewal asks.
    lease * 3 / 5
}

impl Lease {
    /// A lease for a registration, granted at that moment. Shared entries have holders.
    pub(crate) fn granted(
        registration: &Registration,
        heard: HeardAt,
        holders: Option<Box<Holders>>,
        is_heard: bool,
    ) -> Self {
        let declared = &registration.declared;
        Self {
            id: declared.id.clone(),
            epoch: registration.epoch,
            zone: declared.zone.clone(),
            renewed: heard.at.into(),
            renewed_wall: heard.wall,
            load_next: Moment::default(),
            beside: holders.map(|holders| Box::new(Beside { holders: Some(holders), ..Beside::default() })),
            seconds: declared.lease_seconds,
            is_marked: registration.owned.overdue,
            is_heard,
            removing: false,
        }
    }

    /// How long one renewal lasts.
    #[must_use]
    pub const fn length(&self) -> Duration {
        Duration::from_secs(self.seconds as u64)
    }

    /// When it was last renewed, or granted.
    #[must_use]
    pub const fn renewed(&self) -> Instant {
        Instant(Duration::from_nanos(self.renewed.0))
    }

    /// What is known beside its silence: it is dead, or let go by an operator. A renewal disproves it.
    #[must_use]
    pub fn verdict(&self) -> Option<&Verdict> {
        self.beside.as_ref()?.verdict.as_ref()
    }

    /// Who keeps it alive, where several processes share the entry; each of them moves the deadline.
    #[must_use]
    pub fn holders(&self) -> Option<&Holders> {
        self.beside.as_ref()?.holders.as_deref()
    }

    pub(crate) fn holders_mut(&mut self) -> Option<&mut Holders> {
        self.beside.as_mut()?.holders.as_deref_mut()
    }

    pub(crate) fn take_holders(&mut self) -> Option<Box<Holders>> {
        self.beside.as_mut()?.holders.take()
    }

    pub(crate) fn judge(&mut self, verdict: Verdict) {
        self.beside.get_or_insert_default().verdict = Some(verdict);
    }

    /// Ignores its renewals until then: a drill.
    pub(crate) fn mute(&mut self, until: Instant) {
        self.beside.get_or_insert_default().muted_until = Some(until);
    }

    pub(crate) fn is_muted(&self, now: Instant) -> bool {
        self.beside.as_ref().and_then(|beside| beside.muted_until).is_some_and(|until| now < until)
    }

    /// Somebody who may was heard.
    pub(crate) fn hear(&mut self, heard: HeardAt) {
        self.move_deadline(heard);
        self.is_heard = true;
        if let Some(beside) = &mut self.beside {
            (beside.verdict, beside.muted_until) = (None, None);
            if beside.holders.is_none() {
                self.beside = None;
            }
        }
    }

    /// It lasts from then on.
    pub(crate) fn move_deadline(&mut self, heard: HeardAt) {
        (self.renewed, self.renewed_wall) = (heard.at.into(), heard.wall);
    }

    /// Spends one write of its load; `false` when it has to wait. See [`load::may_write`].
    pub(crate) fn may_write_load(&mut self, now: Instant, limits: &LoadLimits) -> bool {
        let mut next = Instant::from(self.load_next);
        let may = load::may_write(&mut next, now, limits);
        self.load_next = next.into();
        may
    }

    /// When it lapses unless renewed. An entry lives strictly before it (acceptance MOD-02).
    #[must_use]
    pub const fn deadline(&self) -> Instant {
        self.renewed().plus(self.length())
    }

    /// What it is doing at `now`.
    #[must_use]
    pub fn state(&self, now: Instant) -> LeaseState {
        if now >= self.deadline() {
            LeaseState::Lapsed
        } else if now.since(self.renewed()) >= suspect_after(self.length()) {
            LeaseState::Suspect
        } else {
            LeaseState::Live
        }
    }

    /// Whether readers are to see it as overdue: past its deadline, silent for two minutes and longer than its beats
    /// allow, or called so by the keeper before and not heard since. A new keeper's grace is no sign of life.
    #[must_use]
    pub fn is_overdue(&self, now: Instant) -> bool {
        now >= self.overdue_from()
    }

    /// From when on readers are to see it as overdue, if nothing is heard of it until then.
    #[must_use]
    pub fn overdue_from(&self) -> Instant {
        if self.is_marked && !self.is_heard {
            return Instant::default();
        }
        let length = self.length();
        self.renewed().plus(length.min(SILENT.max(suspect_after(length))))
    }

    /// Whether who holds this epoch may move the deadline: the current one, and of a shared entry also one that it
    /// replaced.
    #[must_use]
    pub fn may_be_held_by(&self, epoch: Epoch) -> bool {
        epoch == self.epoch || self.holders().is_some_and(|holders| holders.knows(epoch))
    }

    /// Whole heartbeats since the last renewal.
    #[must_use]
    pub fn missed(&self, now: Instant) -> u64 {
        let beat = heartbeat(self.length()).as_millis().max(1);
        u64::try_from(now.since(self.renewed()).as_millis() / beat).unwrap_or(u64::MAX)
    }
}
