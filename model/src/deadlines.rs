//! The keeper's leases: deadlines in memory, and one pass over those that are overdue.
//!
//! A renewal moves a deadline and nothing else. Beside the leases stands one small number for each: the moment from
//! which it is worth a look. A sweep reads that column from end to end, four bytes a lease, and touches only the
//! leases that are overdue; there is no queue that renewals would have to keep in order.

mod holding;
mod places;
mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::change::Change;
use crate::guard::{Census, Cohort};
use crate::holders::{HeardAt, Holders};
use crate::lease::{Lease, LeaseState, Verdict};
use crate::lifecycle::Scope;
use crate::load::LoadLimits;
use crate::name::InstanceId;
use crate::position::{Epoch, Revision};
use crate::registration::Registration;
use crate::state::State;
use crate::time::{Instant, Timestamp};

pub use crate::lease::{heartbeat, suspect_after};
pub use holding::{LettingGo, Renewal};

use places::Places;
use rows::Rows;

/// What one look at all leases found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overdue {
    /// Every cohort, counted.
    pub census: BTreeMap<Cohort, Census>,
    /// Those past their deadline and not being removed, longest overdue first.
    lapsed: Vec<u32>,
    /// Those with a long lease that readers are to try last although it goes on.
    silent: Vec<u32>,
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
    leases: Rows,
    /// For each lease the tick at which it becomes suspect; never for a vacant place.
    look_at: Vec<u32>,
    vacant: Vec<u32>,
    /// Those that readers see as overdue: few, and none when all is well.
    marked: BTreeSet<u32>,
    places: Places,
    registered: BTreeMap<Cohort, u64>,
    applied: Revision,
    ordinal: u16,
    zero: Instant,
}

/// Resolution of the column: far below a beat, and 32 bits of it last for thirteen years.
const TICK_MS: u64 = 100;
const TICKS_PER_SECOND: u64 = 1_000 / TICK_MS;
const NEVER: u32 = u32::MAX;
/// So much of the column is passed over at once: a page of memory.
const STRIDE: usize = 1_024;

impl Deadlines {
    /// Leases for everything in a state that was proved current: a full lease of grace for each (I09). The key is
    /// drawn by chance: it decides nothing but how the ids lie in memory, and whoever chooses ids must not know it.
    #[must_use]
    pub fn begin(
        state: &State,
        ordinal: u16,
        applied: Revision,
        now: Instant,
        wall: Timestamp,
        key: u64,
    ) -> Self {
        let places = Places::under_key(key);
        let mut deadlines = Self { places, ordinal, applied, zero: now, ..Self::default() };
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
        self.places.len() == 0
    }

    /// Places in memory, vacant ones among them.
    #[must_use]
    pub fn places(&self) -> usize {
        self.leases.len()
    }

    /// One lease.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Lease> {
        self.leases.get(self.place(id)?)
    }

    fn place(&self, id: &str) -> Option<u32> {
        self.places.get(id, id_at(&self.leases))
    }

    fn get_mut(&mut self, id: &str) -> Option<(&mut Lease, &mut u32)> {
        let place = self.place(id)?;
        self.leases.get_mut(place).zip(self.look_at.get_mut(place as usize))
    }

    /// Up to which revision changes were taken in.
    #[must_use]
    pub const fn applied(&self) -> Revision {
        self.applied
    }

    /// Takes in one change of the region's own history.
    pub fn follow(&mut self, change: &Change, now: Instant, wall: Timestamp) {
        match change {
            Change::Put(registration) => self.follow_put(registration, HeardAt { at: now, wall }),
            Change::Remove(removal) => self.drop_lease(&removal.id),
        }
        self.applied = self.applied.max(change.revision());
    }

    /// Takes in a state that was read anew, of the history that these leases are of: what happened in between was told by
    /// no change, and still an epoch that was replaced renews nothing (I02), what was removed stays so (I11) and what
    /// is new has its lease (I06). Whoever stands as before keeps its deadline.
    pub fn reload(&mut self, state: &State, applied: Revision, now: Instant, wall: Timestamp) {
        let gone = self.leases.iter().filter(|lease| state.get(lease.id.as_str()).is_none());
        for id in gone.map(|lease| lease.id.clone()).collect::<Vec<_>>() {
            self.drop_lease(&id);
        }
        for registration in state.iter() {
            self.follow_put(registration, HeardAt { at: now, wall });
        }
        self.advance(applied);
    }

    /// The history that these leases are of.
    #[must_use]
    pub const fn ordinal(&self) -> u16 {
        self.ordinal
    }

    fn follow_put(&mut self, registration: &Registration, heard: HeardAt) {
        let id = registration.declared.id.as_str();
        match self.get_mut(id) {
            Some((lease, _)) if lease.epoch == registration.epoch => {
                lease.is_marked = registration.owned.overdue;
                self.remember_mark(id);
            }
            Some((lease, _)) => {
                let holders = lease.take_holders();
                self.grant_new(registration, heard, holders);
            }
            None => self.grant_new(registration, heard, None),
        }
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
        let lease = Lease::granted(registration, heard, holders, is_heard);
        let look_at = look_at(&lease, self.zero);
        for cohort in cohorts(&lease) {
            *self.registered.entry(cohort).or_default() += 1;
        }
        let place = match self.vacant.pop() {
            Some(place) => {
                self.leases.put(place, lease);
                place
            }
            None => {
                self.look_at.push(NEVER);
                self.leases.push(lease)
            }
        };
        if let Some(column) = self.look_at.get_mut(place as usize) {
            *column = look_at;
        }
        self.places.insert(id.as_str(), place, id_at(&self.leases));
        self.remember_mark(id.as_str());
    }

    fn remember_mark(&mut self, id: &str) {
        let Some(place) = self.place(id) else { return };
        if self.leases.get(place).is_some_and(|lease| lease.is_marked) {
            self.marked.insert(place);
        } else {
            self.marked.remove(&place);
        }
    }

    fn drop_lease(&mut self, id: &InstanceId) {
        let Some(place) = self.places.remove(id.as_str(), id_at(&self.leases)) else { return };
        let lease = self.leases.take(place);
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
            .is_some_and(|(lease, _)| lease.may_write_load(now, limits))
    }

    /// Whether an epoch of this history is not known here yet.
    fn is_ahead(&self, epoch: Epoch) -> bool {
        (epoch.ordinal(), epoch.revision()) > (self.ordinal, self.applied)
    }

    /// Places that are worth a look at this tick, with their leases. The column is passed over by the thousand where
    /// nothing is due, which is nearly everywhere and costs a fraction of a millisecond for a million.
    fn due(&self, tick: u32) -> impl Iterator<Item = (u32, &Lease)> {
        let is_worth_it = move |chunk: &[u32]| chunk.iter().fold(NEVER, |least, at| least.min(*at)) <= tick;
        let chunks = self.look_at.chunks(STRIDE).enumerate().filter(move |(_, chunk)| is_worth_it(chunk));
        let places = chunks.flat_map(move |(nth, chunk)| {
            let due = chunk.iter().enumerate().filter(move |(_, at)| **at <= tick);
            due.map(move |(within, _)| nth * STRIDE + within)
        });
        places.filter_map(|place| {
            let place = u32::try_from(place).ok()?;
            Some((place, self.leases.get(place)?))
        })
    }

    /// Looks at all leases: counts the suspects of every cohort and finds the lapsed ones.
    #[must_use]
    pub fn overdue(&self, now: Instant) -> Overdue {
        let census = |count: &u64| Census { registered: *count, ..Census::default() };
        let mut overdue = Overdue {
            census: self.registered.iter().map(|(cohort, count)| (cohort.clone(), census(count))).collect(),
            lapsed: Vec::new(),
            silent: Vec::new(),
        };
        let tick = tick(now, self.zero);
        for (place, lease) in self.due(tick) {
            let state = lease.state(now);
            if state == LeaseState::Live {
                continue;
            }
            if lease.verdict().is_none() {
                for cohort in cohorts(lease) {
                    if let Some(census) = overdue.census.get_mut(&cohort) {
                        census.suspects += 1;
                        census.period = census.period.max(suspect_after(lease.length()));
                    }
                }
            }
            if state == LeaseState::Lapsed && !lease.removing {
                overdue.lapsed.push(place);
            } else if state == LeaseState::Suspect && lease.is_overdue(now) {
                overdue.silent.push(place);
            }
        }
        let deadline = |place: &u32| self.leases.get(*place).map(Lease::deadline);
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
            let Some(lease) = self.leases.get_mut(*place) else { continue };
            if may_go(lease) {
                lease.removing = true;
                taken.push(Due {
                    id: lease.id.clone(),
                    epoch: lease.epoch,
                    verdict: lease.verdict().cloned(),
                });
            }
        }
        taken
    }

    /// What readers are to be told: of those that are renewed again first, then of the lapsed ones that were not
    /// taken and of those that are silent on a long lease. At most `most`; the others come with the next sweep.
    #[must_use]
    pub fn marks(&self, overdue: &Overdue, now: Instant, most: usize) -> Vec<Mark> {
        let lease = |place: &u32| self.leases.get(*place);
        let again = self.marked.iter().filter_map(lease).filter(|lease| !lease.is_overdue(now));
        let late = overdue.lapsed.iter().chain(&overdue.silent);
        let late = late.filter_map(lease).filter(|lease| !lease.is_marked);
        let mark =
            |overdue: bool| move |lease: &Lease| Mark { id: lease.id.clone(), epoch: lease.epoch, overdue };
        let both = again.filter(|lease| !lease.removing).map(mark(false));
        both.chain(late.filter(|lease| !lease.removing).map(mark(true))).take(most).collect()
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
                lease.judge(verdict);
                true
            }
            Some(_) | None => false,
        }
    }

    /// Ignores the renewals of an instance for a while; `false` when it is not registered.
    pub fn mute(&mut self, id: &str, until: Instant) -> bool {
        match self.get_mut(id) {
            Some((lease, _)) => {
                lease.mute(until);
                true
            }
            None => false,
        }
    }
}

fn length(registration: &Registration) -> Duration {
    Duration::from_secs(u64::from(registration.declared.lease_seconds))
}

/// Whose the lease at a place is.
fn id_at<'a>(leases: &'a Rows) -> impl Fn(u32) -> Option<&'a str> {
    |place| Some(leases.get(place)?.id.as_str())
}

fn is_shared(registration: &Registration) -> bool {
    registration.declared.scope == Scope::Service
}

fn cohorts(lease: &Lease) -> impl Iterator<Item = Cohort> + use<> {
    std::iter::once(Cohort::Region).chain(lease.zone.clone().map(Cohort::Zone))
}

/// The tick an instant lies in, counted from the keeper's beginning.
fn tick(at: Instant, zero: Instant) -> u32 {
    let since = at.since(zero);
    let ticks = since.as_secs() * TICKS_PER_SECOND + u64::from(since.subsec_millis()) / TICK_MS;
    u32::try_from(ticks).unwrap_or(NEVER - 1).min(NEVER - 1)
}

fn look_at(lease: &Lease, zero: Instant) -> u32 {
    tick(lease.renewed().plus(suspect_after(lease.length())), zero)
}
