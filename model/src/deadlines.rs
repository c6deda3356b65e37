//! The keeper's leases: deadlines in memory, and one pass over those that are overdue.
//!
//! A renewal moves a deadline and nothing else. Beside the leases stands one small number for each: the moment from
//! which it is worth a look. A sweep reads that column from end to end, four bytes a lease, and touches only the
//! leases that are overdue; there is no queue that renewals would have to keep in order.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::change::{Actor, Change};
use crate::guard::{Census, Cohort};
use crate::name::{InstanceId, Zone};
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
    /// A removal is on its way to the store; renewals wait for what becomes of it (I05).
    removing: bool,
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

/// What one look at all leases found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overdue {
    /// Every cohort, counted.
    pub census: BTreeMap<Cohort, Census>,
    /// Those past their deadline and not being removed, longest overdue first.
    lapsed: Vec<u32>,
}

/// One lease that is to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// Which registration.
    pub id: InstanceId,
    /// Its epoch: the removal's compare.
    pub epoch: Epoch,
    /// What is known beside its silence.
    pub verdict: Option<Verdict>,
}

/// All leases of a region, in the hands of its one keeper.
#[derive(Clone, Debug, Default)]
pub struct Deadlines {
    leases: Vec<Option<Lease>>,
    /// For each lease the tick at which it becomes suspect; never for a vacant place.
    look_at: Vec<u32>,
    vacant: Vec<u32>,
    places: BTreeMap<InstanceId, u32>,
    registered: BTreeMap<Cohort, u64>,
    applied: Revision,
    ordinal: u16,
    zero: Instant,
}

/// Resolution of the column: far below a beat, and 32 bits of it last for thirteen years.
const TICK: Duration = Duration::from_millis(100);
const NEVER: u32 = u32::MAX;

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
        let mut deadlines = Self { ordinal, applied, zero: now, ..Self::default() };
        for registration in state.iter() {
            deadlines.grant(registration, now, wall);
        }
        deadlines
    }

    /// How many leases there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Places in memory, vacant ones among them.
    #[must_use]
    pub fn places(&self) -> usize {
        self.leases.len()
    }

    /// One lease.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Lease> {
        self.places.get(id).and_then(|place| self.leases.get(*place as usize)).and_then(Option::as_ref)
    }

    fn get_mut(&mut self, id: &str) -> Option<(&mut Lease, &mut u32)> {
        let place = *self.places.get(id)? as usize;
        self.leases.get_mut(place)?.as_mut().zip(self.look_at.get_mut(place))
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
                let known = self.get(registration.declared.id.as_str()).map(|lease| lease.epoch);
                if known != Some(registration.epoch) {
                    self.grant(registration, now, wall);
                }
            }
            Change::Remove(removal) => self.drop_lease(&removal.id),
        }
        self.applied = self.applied.max(change.revision());
    }

    /// Nothing changed up to this revision.
    pub fn advance(&mut self, applied: Revision) {
        self.applied = self.applied.max(applied);
    }

    fn grant(&mut self, registration: &Registration, now: Instant, wall: Timestamp) {
        let id = &registration.declared.id;
        self.drop_lease(id);
        let lease = Lease {
            id: id.clone(),
            epoch: registration.epoch,
            zone: registration.declared.zone.clone(),
            length: Duration::from_secs(u64::from(registration.declared.lease_seconds)),
            renewed: now,
            renewed_wall: wall,
            verdict: None,
            muted_until: None,
            removing: false,
        };
        let look_at = look_at(&lease, self.zero);
        for cohort in cohorts(&lease) {
            *self.registered.entry(cohort).or_default() += 1;
        }
        let place = match self.vacant.pop() {
            Some(place) => place,
            None => {
                self.leases.push(None);
                self.look_at.push(NEVER);
                // A region has far fewer than 2^32 registrations; one more would not fit its memory.
                u32::try_from(self.leases.len() - 1).unwrap_or(NEVER)
            }
        };
        if let Some((slot, column)) =
            self.leases.get_mut(place as usize).zip(self.look_at.get_mut(place as usize))
        {
            (*slot, *column) = (Some(lease), look_at);
            self.places.insert(id.clone(), place);
        }
    }

    fn drop_lease(&mut self, id: &InstanceId) {
        let Some(place) = self.places.remove(id) else { return };
        let lease = self.leases.get_mut(place as usize).and_then(Option::take);
        if let Some(column) = self.look_at.get_mut(place as usize) {
            *column = NEVER;
        }
        self.vacant.push(place);
        for cohort in lease.iter().flat_map(cohorts) {
            if let Some(count) = self.registered.get_mut(&cohort) {
                *count -= 1;
                if *count == 0 {
                    self.registered.remove(&cohort);
                }
            }
        }
    }

    /// Moves the deadline of one lease. Only the server's monotonic clock decides (acceptance LEA-10).
    pub fn renew(&mut self, id: &str, epoch: Epoch, now: Instant, wall: Timestamp) -> Renewal {
        let ahead = epoch.ordinal() == self.ordinal && epoch.revision() > self.applied;
        let zero = self.zero;
        match self.get_mut(id) {
            None if ahead => Renewal::Wait,
            None => Renewal::NotRegistered,
            Some((lease, _)) if lease.epoch == epoch && lease.removing => Renewal::Wait,
            Some((lease, column)) if lease.epoch == epoch => {
                // A muted registrant is told that all is well, so that the drill shows what the others do.
                if lease.muted_until.is_none_or(|until| now >= until) {
                    lease.renewed = now;
                    lease.renewed_wall = wall;
                    lease.verdict = None;
                    lease.muted_until = None;
                    *column = look_at(lease, zero);
                }
                Renewal::Renewed(lease.length)
            }
            Some(_) if ahead => Renewal::Wait,
            Some(_) => Renewal::Superseded,
        }
    }

    /// Looks at all leases: counts the suspects of every cohort and finds the lapsed ones.
    #[must_use]
    pub fn overdue(&self, now: Instant) -> Overdue {
        let census = |count: &u64| Census { registered: *count, ..Census::default() };
        let mut overdue = Overdue {
            census: self.registered.iter().map(|(cohort, count)| (cohort.clone(), census(count))).collect(),
            lapsed: Vec::new(),
        };
        let tick = tick(now, self.zero);
        for (place, lease) in
            self.look_at.iter().zip(&self.leases).enumerate().filter_map(|(place, (at, lease))| {
                if *at <= tick { lease.as_ref().map(|lease| (place, lease)) } else { None }
            })
        {
            let state = lease.state(now);
            if state == LeaseState::Live {
                continue;
            }
            if lease.verdict.is_none() {
                for cohort in cohorts(lease) {
                    if let Some(census) = overdue.census.get_mut(&cohort) {
                        census.suspects += 1;
                        census.period = census.period.max(suspect_after(lease.length));
                    }
                }
            }
            if state == LeaseState::Lapsed && !lease.removing {
                overdue.lapsed.extend(u32::try_from(place));
            }
        }
        let deadline =
            |place: &u32| self.leases.get(*place as usize).and_then(Option::as_ref).map(Lease::deadline);
        overdue.lapsed.sort_by_key(deadline);
        overdue
    }

    /// Takes those of the lapsed leases that may go, and marks them as being removed. At most `most`.
    pub fn take(
        &mut self,
        overdue: &Overdue,
        most: usize,
        mut may_go: impl FnMut(&Lease) -> bool,
    ) -> Vec<Due> {
        let mut taken = Vec::new();
        for place in &overdue.lapsed {
            if taken.len() >= most {
                break;
            }
            let Some(lease) = self.leases.get_mut(*place as usize).and_then(Option::as_mut) else { continue };
            if may_go(lease) {
                lease.removing = true;
                taken.push(Due { id: lease.id.clone(), epoch: lease.epoch, verdict: lease.verdict.clone() });
            }
        }
        taken
    }

    /// A removal did not happen, or nobody knows: the lease may be renewed again, and is due at once.
    pub fn put_back(&mut self, id: &InstanceId, epoch: Epoch) {
        if let Some((lease, _)) = self.get_mut(id.as_str()).filter(|(lease, _)| lease.epoch == epoch) {
            lease.removing = false;
        }
    }

    /// Overdue leases in order of id: what the guard may hold, and what is worth a probe.
    pub fn suspects(&self, now: Instant) -> impl Iterator<Item = &Lease> {
        let tick = tick(now, self.zero);
        let overdue = move |lease: &&Lease| lease.state(now) != LeaseState::Live;
        self.places
            .values()
            .filter(move |place| self.look_at.get(**place as usize).is_some_and(|at| *at <= tick))
            .filter_map(|place| self.leases.get(*place as usize).and_then(Option::as_ref))
            .filter(overdue)
    }

    /// Passes a verdict on an overdue lease; `false` when it is not overdue, or not this registration any more.
    pub fn judge(&mut self, id: &str, epoch: Epoch, verdict: Verdict, now: Instant) -> bool {
        match self.get_mut(id) {
            Some((lease, _)) if lease.epoch == epoch && lease.state(now) != LeaseState::Live => {
                lease.verdict = Some(verdict);
                true
            }
            Some(_) | None => false,
        }
    }

    /// Ignores the renewals of an instance for a while; `false` when it is not registered.
    pub fn mute(&mut self, id: &str, until: Instant) -> bool {
        match self.get_mut(id) {
            Some((lease, _)) => {
                lease.muted_until = Some(until);
                true
            }
            None => false,
        }
    }
}

fn cohorts(lease: &Lease) -> impl Iterator<Item = Cohort> + use<> {
    std::iter::once(Cohort::Region).chain(lease.zone.clone().map(Cohort::Zone))
}

/// The tick an instant lies in, counted from the keeper's beginning.
fn tick(at: Instant, zero: Instant) -> u32 {
    u32::try_from(at.since(zero).as_millis() / TICK.as_millis()).unwrap_or(NEVER - 1).min(NEVER - 1)
}

fn look_at(lease: &Lease, zero: Instant) -> u32 {
    tick(lease.renewed.plus(suspect_after(lease.length)), zero)
}
