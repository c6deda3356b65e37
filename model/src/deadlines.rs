//! The keeper's leases: deadlines in memory, and one pass over those that are overdue.
//!
//! A renewal moves a deadline and nothing else. Beside the leases stands one small number for each: the moment from
//! which it is worth a look. A sweep reads that column from end to end, four bytes a lease, and touches only the
//! leases that are overdue; there is no queue that renewals would have to keep in order.

mod holding;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::change::Change;
use crate::guard::{Census, Cohort};
use crate::holders::{HeardAt, Holders};
use crate::lease::{Lease, LeaseState, Verdict};
use crate::lifecycle::Scope;
use crate::load::{self, LoadLimits};
use crate::name::InstanceId;
use crate::position::{Epoch, Revision};
use crate::registration::Registration;
use crate::state::State;
use crate::time::{Instant, Timestamp};

pub use crate::lease::{heartbeat, suspect_after};
pub use holding::{LettingGo, Renewal};

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

/// What readers are to be told of one lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Which registration.
    pub id: InstanceId,
    /// Its epoch: the write's compare.
    pub epoch: Epoch,
    /// It is past its deadline and kept; or it is renewed again.
    pub overdue: bool,
}

/// All leases of a region, in the hands of its one keeper.
#[derive(Clone, Debug, Default)]
pub struct Deadlines {
    leases: Vec<Option<Lease>>,
    /// For each lease the tick at which it becomes suspect; never for a vacant place.
    look_at: Vec<u32>,
    vacant: Vec<u32>,
    /// Those that readers see as overdue: few, and none when all is well.
    marked: BTreeSet<u32>,
    places: BTreeMap<InstanceId, u32>,
    registered: BTreeMap<Cohort, u64>,
    applied: Revision,
    ordinal: u16,
    zero: Instant,
}

/// Resolution of the column: far below a beat, and 32 bits of it last for thirteen years.
const TICK: Duration = Duration::from_millis(100);
const NEVER: u32 = u32::MAX;
/// So much of the column is passed over at once: a page of memory.
const STRIDE: usize = 1_024;

impl Deadlines {
    /// Leases for everything in a state that was proved current: a full lease of grace for each (I09).
    #[must_use]
    pub fn begin(state: &State, ordinal: u16, applied: Revision, now: Instant, wall: Timestamp) -> Self {
        let mut deadlines = Self { ordinal, applied, zero: now, ..Self::default() };
        let heard = HeardAt { at: now, wall };
        for registration in state.iter() {
            // Whoever holds a shared entry has a lease to be heard by this keeper.
            let holders = is_shared(registration).then(|| {
                let mut holders = Holders::unheard(heard);
                holders.succeed(&registration.replaced);
                Box::new(holders)
            });
            deadlines.grant(registration, heard, holders, false);
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
                let id = registration.declared.id.as_str();
                match self.get_mut(id) {
                    Some((lease, _)) if lease.epoch == registration.epoch => {
                        lease.is_marked = registration.owned.overdue;
                        self.remember_mark(id);
                    }
                    Some((lease, _)) => {
                        let holders = lease.holders.take();
                        self.grant_new(registration, HeardAt { at: now, wall }, holders);
                    }
                    None => self.grant_new(registration, HeardAt { at: now, wall }, None),
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

    /// A lease for a registration that was just written. Who holds a shared entry already still does.
    fn grant_new(&mut self, registration: &Registration, heard: HeardAt, holders: Option<Box<Holders>>) {
        let holders = is_shared(registration).then(|| {
            let mut holders = holders.unwrap_or_default();
            holders.succeed(&registration.replaced);
            holders.expect(registration.epoch, length(registration), heard);
            holders
        });
        self.grant(registration, heard, holders, true);
    }

    fn grant(
        &mut self,
        registration: &Registration,
        heard: HeardAt,
        holders: Option<Box<Holders>>,
        is_heard: bool,
    ) {
        let id = &registration.declared.id;
        self.drop_lease(id);
        let lease = Lease {
            id: id.clone(),
            epoch: registration.epoch,
            zone: registration.declared.zone.clone(),
            length: length(registration),
            renewed: heard.at,
            renewed_wall: heard.wall,
            verdict: None,
            muted_until: None,
            holders,
            load_next: Instant::default(),
            is_marked: registration.owned.overdue,
            is_heard,
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
        self.remember_mark(id.as_str());
    }

    fn remember_mark(&mut self, id: &str) {
        let Some(place) = self.places.get(id) else { return };
        if self.leases.get(*place as usize).and_then(Option::as_ref).is_some_and(|lease| lease.is_marked) {
            self.marked.insert(*place);
        } else {
            self.marked.remove(place);
        }
    }

    fn drop_lease(&mut self, id: &InstanceId) {
        let Some(place) = self.places.remove(id) else { return };
        let lease = self.leases.get_mut(place as usize).and_then(Option::take);
        if let Some(column) = self.look_at.get_mut(place as usize) {
            *column = NEVER;
        }
        self.vacant.push(place);
        self.marked.remove(&place);
        for cohort in lease.iter().flat_map(cohorts) {
            if let Some(count) = self.registered.get_mut(&cohort) {
                *count -= 1;
                if *count == 0 {
                    self.registered.remove(&cohort);
                }
            }
        }
    }

    /// Spends one write of a registration's load; `false` when it has to wait, or is not this registration any more.
    pub fn may_write_load(&mut self, id: &str, epoch: Epoch, now: Instant, limits: &LoadLimits) -> bool {
        self.get_mut(id)
            .filter(|(lease, _)| lease.epoch == epoch)
            .is_some_and(|(lease, _)| load::may_write(&mut lease.load_next, now, limits))
    }

    /// Whether an epoch of this history is not known here yet.
    fn is_ahead(&self, epoch: Epoch) -> bool {
        (epoch.ordinal(), epoch.revision()) > (self.ordinal, self.applied)
    }

    /// Places that are worth a look at this tick, with their leases. The column is passed over by the thousand where
    /// nothing is due, which is nearly everywhere and costs a fraction of a millisecond for a million.
    fn due(&self, tick: u32) -> impl Iterator<Item = (usize, &Lease)> {
        let is_worth_it = move |chunk: &[u32]| chunk.iter().fold(NEVER, |least, at| least.min(*at)) <= tick;
        let chunks = self.look_at.chunks(STRIDE).enumerate().filter(move |(_, chunk)| is_worth_it(chunk));
        let places = chunks.flat_map(move |(nth, chunk)| {
            let due = chunk.iter().enumerate().filter(move |(_, at)| **at <= tick);
            due.map(move |(within, _)| nth * STRIDE + within)
        });
        places.filter_map(|place| Some((place, self.leases.get(place)?.as_ref()?)))
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
        for (place, lease) in self.due(tick) {
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

    /// What readers are to be told: of those that are renewed again first, then of the lapsed ones that were not
    /// taken. At most `most`; the others come with the next sweep.
    #[must_use]
    pub fn marks(&self, overdue: &Overdue, now: Instant, most: usize) -> Vec<Mark> {
        let lease = |place: &u32| self.leases.get(*place as usize).and_then(Option::as_ref);
        let again = self.marked.iter().filter_map(lease).filter(|lease| !lease.is_overdue(now));
        let held = overdue.lapsed.iter().filter_map(lease).filter(|lease| !lease.is_marked);
        let mark =
            |overdue: bool| move |lease: &Lease| Mark { id: lease.id.clone(), epoch: lease.epoch, overdue };
        let both = again.filter(|lease| !lease.removing).map(mark(false));
        both.chain(held.filter(|lease| !lease.removing).map(mark(true))).take(most).collect()
    }

    /// A removal did not happen, or nobody knows: the lease may be renewed again, and is due at once.
    pub fn put_back(&mut self, id: &InstanceId, epoch: Epoch) {
        if let Some((lease, _)) = self.get_mut(id.as_str()).filter(|(lease, _)| lease.epoch == epoch) {
            lease.removing = false;
        }
    }

    /// Overdue leases in order of id: what the guard may hold, and what is worth a probe.
    pub fn suspects(&self, now: Instant) -> impl Iterator<Item = &Lease> {
        let due = self.due(tick(now, self.zero)).map(|(_, lease)| lease);
        let mut overdue: Vec<&Lease> = due.filter(|lease| lease.state(now) != LeaseState::Live).collect();
        overdue.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        overdue.into_iter()
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

fn length(registration: &Registration) -> Duration {
    Duration::from_secs(u64::from(registration.declared.lease_seconds))
}

fn is_shared(registration: &Registration) -> bool {
    registration.declared.scope == Scope::Service
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
