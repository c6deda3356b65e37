//! The keeper's office in memory: the leases and the guard, behind one lock that is never held across a wait.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rollcall_model::guard::CohortStatus;
use rollcall_model::sweep::{Plan, sweep};
use rollcall_model::{
    Clock, Deadlines, Delta, Epoch, ExpiryGuard, GuardLimits, Holder, InstanceId, Instant, Lease, LeaseState,
    LettingGo, LoadLimits, Registration, Renewal, Revision, Timestamp, Verdict, View,
};
use tokio::sync::watch;

use super::InOffice;
use crate::random;
use crate::store::{Hold, Tenure};

/// Most removals of one sweep: about what a second of the store's group commits carries, so that a beat is late by little.
const SWEEP_MOST: usize = 25_000;

/// Most marks of one sweep: ten group commits, a tenth of a second of the store's time. A lost zone of 30,000 is told
/// within a minute.
const MARKS_MOST: usize = 600;

/// The process's access to the leases, whether or not it keeps them now. Cheap to clone.
#[derive(Clone)]
pub struct KeeperHandle {
    office: Arc<Mutex<Option<Office>>>,
    known: Arc<watch::Sender<Option<InOffice>>>,
    limits: GuardLimits,
    clock: Clock,
    /// Whoever gives no name.
    unnamed: Holder,
    /// Numbers that were given to calms.
    calms: Arc<AtomicU64>,
}

struct Office {
    term: u64,
    hold: Hold,
    /// The number of the time since which no deadline came nearer. Renewals move deadlines away; a holder that lets go
    /// may bring one back, and another office has others.
    calm: u64,
    deadlines: Deadlines,
    guard: ExpiryGuard,
}

/// What the guard is doing, for an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct GuardStatus {
    /// Every cohort as the last sweep found it.
    pub cohorts: Vec<CohortStatus>,
    /// Lapsed registrations that are kept because their cohort holds.
    pub held: Vec<InstanceId>,
}

/// Why an operator's release did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotReleased {
    /// There is no such registration.
    NotRegistered,
    /// It is renewed in time: nothing to release.
    Live,
}

/// Until when a look at some leases need not be repeated: none of them is overdue, and none can be before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Calm {
    /// None where this process does not keep the leases.
    of_office: Option<u64>,
    until: Instant,
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
    pub fn new(limits: GuardLimits, clock: Clock) -> Self {
        let known = Arc::new(watch::Sender::new(None));
        let (office, calms) = (Arc::new(Mutex::new(None)), Arc::default());
        Self { office, known, limits, clock, unnamed: Holder::default(), calms }
    }

    /// One that nobody had.
    fn calm(&self) -> u64 {
        self.calms.fetch_add(1, Ordering::Relaxed)
    }

    fn office(&self) -> MutexGuard<'_, Option<Office>> {
        // The lock guards plain data without invariants across a panic.
        let mut office = self.office.lock().unwrap_or_else(PoisonError::into_inner);
        // Another may be in office by now, and this process may have slept: nothing is judged on old knowledge (F13).
        office.take_if(|office| !office.hold.lasts());
        office
    }

    /// Renews one lease; the holder tells apart those that share the entry.
    #[must_use]
    pub fn renew(&self, id: &InstanceId, holder: &Holder, epoch: Epoch) -> Renewed {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        match self.office().as_mut() {
            None => Renewed::NoOffice,
            Some(office) => Renewed::Judged(office.deadlines.renew(id.as_str(), holder, epoch, now, wall)),
        }
    }

    /// Renews several leases under one lock, of holders that give no name, and hands on what became of each and when.
    /// Stops at the first that is not `taken`; then, and when this process does not keep the leases now, it is `false`.
    /// Those before it are renewed all the same.
    pub fn renew_each<'a>(
        &self,
        holds: impl Iterator<Item = (&'a str, Epoch)>,
        mut taken: impl FnMut(&'a str, Renewal, Timestamp) -> bool,
    ) -> bool {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let mut office = self.office();
        let Some(Office { deadlines, .. }) = office.as_mut() else { return false };
        for (id, epoch) in holds {
            if !taken(id, deadlines.renew(id, &self.unnamed, epoch, now, wall), wall) {
                return false;
            }
        }
        true
    }

    /// Names the holder that just wrote this registration of a shared entry.
    /// `None` when this process does not keep the leases now.
    #[must_use]
    pub fn wrote(&self, id: &InstanceId, holder: &Holder, epoch: Epoch) -> Option<Renewal> {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        self.office().as_mut().map(|office| office.deadlines.wrote(id.as_str(), holder, epoch, now, wall))
    }

    /// Lets one holder of an entry go; `None` when this process does not keep the leases now.
    #[must_use]
    pub fn let_go(&self, id: &InstanceId, holder: &Holder, epoch: Epoch) -> Option<LettingGo> {
        let now = self.clock.now();
        self.office().as_mut().map(|office| {
            office.calm = self.calm();
            office.deadlines.let_go(id.as_str(), holder, epoch, now)
        })
    }

    /// Whether the load of this registration may be written now. Each `true` is one write. `None` when this process
    /// does not keep the leases now.
    #[must_use]
    pub fn may_write_load(&self, id: &InstanceId, epoch: Epoch, limits: &LoadLimits) -> Option<bool> {
        let now = self.clock.now();
        let mut office = self.office();
        let deadlines = &mut office.as_mut()?.deadlines;
        Some(deadlines.may_write_load(id.as_str(), epoch, now, limits))
    }

    /// One lease as the keeper sees it. The outer `None`: this process does not keep the leases now.
    #[must_use]
    pub fn lease(&self, id: &str) -> Option<Option<Lease>> {
        self.office().as_ref().map(|office| office.deadlines.get(id).cloned())
    }

    /// Which of these registrations of the own region readers are to see as overdue: as the leases say, and where none is
    /// known here, as the registration says. With it, how long the same is so of all of them while the registrations are
    /// the same; nothing where one is overdue, for it may be renewed at any moment, or has a lease only soon.
    pub(crate) fn overdue<'a>(
        &self,
        all: impl Iterator<Item = &'a Registration>,
        now: Instant,
    ) -> (Vec<bool>, Option<Calm>) {
        let office = self.office();
        let of_office = office.as_ref().map(|office| office.calm);
        let mut calm = Some(Calm { of_office, until: Instant(Duration::MAX) });
        let overdue = |registration: &Registration| {
            let Some(office) = office.as_ref() else { return registration.owned.overdue };
            let lease = office.deadlines.get(registration.declared.id.as_str());
            let Some(lease) = lease.filter(|lease| lease.epoch == registration.epoch) else {
                calm = None;
                return registration.owned.overdue;
            };
            let from = lease.overdue_from();
            calm = calm.filter(|_| now < from).map(|calm| Calm { until: calm.until.min(from), ..calm });
            now >= from
        };
        (all.map(overdue).collect(), calm)
    }

    /// Whether another look would find the same.
    pub(crate) fn lasts(&self, calm: Calm, now: Instant) -> bool {
        now < calm.until && self.office().as_ref().map(|office| office.calm) == calm.of_office
    }

    /// Who is in office, as the region's history tells it.
    pub(crate) fn tell(&self, keeper: Option<InOffice>) {
        self.known.send_if_modified(|known| {
            let is_news = *known != keeper;
            *known = keeper;
            is_news
        });
    }

    /// Who is in office, wherever: this process or another one.
    #[must_use]
    pub fn known(&self) -> watch::Receiver<Option<InOffice>> {
        self.known.subscribe()
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

    /// Takes in what the replica read anew, in the same way: the changes in between were told to nobody. The leases of
    /// another history are nothing to this one, and end with their office.
    pub(crate) fn reload(&self, view: &View, publish: impl FnOnce()) {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let mut office = self.office();
        if let (Some(state), Some(position)) = (view.state(), view.position()) {
            office.take_if(|office| office.deadlines.ordinal() != position.incarnation.ordinal());
            if let Some(office) = office.as_mut() {
                office.calm = self.calm();
                office.deadlines.reload(state, position.revision, now, wall);
            }
        }
        publish();
    }

    /// Leases for everything that the view shows; `None` when it was never loaded.
    pub(crate) fn begin(&self, tenure: &Tenure, view: &watch::Receiver<Arc<View>>) -> Option<()> {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let mut office = self.office();
        let view = view.borrow().clone();
        let (state, position) = (view.state()?, view.position()?);
        let ordinal = position.incarnation.ordinal();
        let deadlines = Deadlines::begin(state, ordinal, position.revision, now, wall, random::key());
        let (term, hold) = (tenure.term, tenure.hold.clone());
        let (calm, guard) = (self.calm(), ExpiryGuard::new(self.limits));
        *office = Some(Office { term, hold, calm, deadlines, guard });
        Some(())
    }

    pub(crate) fn end(&self) {
        *self.office() = None;
    }

    pub(super) fn sweep(&self, now: Instant) -> Plan {
        match self.office().as_mut() {
            Some(office) => sweep(&mut office.deadlines, &mut office.guard, now, SWEEP_MOST, MARKS_MOST),
            None => Plan::default(),
        }
    }

    pub(crate) fn put_back(&self, id: &InstanceId, epoch: Epoch) {
        if let Some(office) = self.office().as_mut() {
            office.deadlines.put_back(id, epoch);
        }
    }

    /// What the guard is doing, counted now; `None` when this process does not keep the leases now.
    #[must_use]
    pub fn guard(&self) -> Option<GuardStatus> {
        let now = self.clock.now();
        self.office().as_ref().map(|office| GuardStatus {
            cohorts: office.guard.status(office.deadlines.overdue(now).census).collect(),
            held: office
                .deadlines
                .suspects(now)
                .filter(|lease| {
                    // As in the counts: what was proved dead or released only waits for the next sweep.
                    lease.state(now) == LeaseState::Lapsed
                        && lease.verdict().is_none()
                        && office.guard.holds(lease.zone.as_ref())
                })
                .map(|lease| lease.id.clone())
                .collect(),
        })
    }

    /// Whether anything is held by the guard now.
    #[must_use]
    pub fn is_holding(&self) -> bool {
        self.office().as_ref().is_some_and(|office| office.guard.is_holding())
    }

    /// Lets an operator release exactly this overdue registration; `None` when this process does not keep the leases.
    #[must_use]
    pub fn release(&self, id: &str, operator: &str) -> Option<Result<(), NotReleased>> {
        let now = self.clock.now();
        let mut office = self.office();
        let deadlines = &mut office.as_mut()?.deadlines;
        let Some(epoch) = deadlines.get(id).map(|lease| lease.epoch) else {
            return Some(Err(NotReleased::NotRegistered));
        };
        let released =
            deadlines.judge(id, epoch, Verdict::Released(format!("operator:{operator}").into()), now);
        Some(if released { Ok(()) } else { Err(NotReleased::Live) })
    }

    /// Ignores an instance's renewals for a while; `None` when this process does not keep the leases.
    #[must_use]
    pub fn mute(&self, id: &str, time: Duration) -> Option<bool> {
        let until = self.clock.now().plus(time);
        self.office().as_mut().map(|office| office.deadlines.mute(id, until))
    }

    /// Overdue registrations of cohorts that hold, of which nothing is known but their silence.
    #[must_use]
    pub fn unproved(&self) -> Vec<(InstanceId, Epoch)> {
        let now = self.clock.now();
        let office = self.office();
        let Some(office) = office.as_ref().filter(|office| office.guard.is_holding()) else {
            return Vec::new();
        };
        let silent = office
            .deadlines
            .suspects(now)
            .filter(|lease| lease.verdict().is_none() && office.guard.holds(lease.zone.as_ref()));
        silent.map(|lease| (lease.id.clone(), lease.epoch)).collect()
    }

    /// The host of every endpoint of this registration refused a connection.
    pub fn proved_dead(&self, id: &InstanceId, epoch: Epoch) {
        let now = self.clock.now();
        if let Some(office) = self.office().as_mut()
            && office.deadlines.judge(id.as_str(), epoch, Verdict::ProvedDead, now)
        {
            tracing::info!(%id, %epoch, "suspect proved dead: its host refuses connections");
        }
    }
}

#[cfg(test)]
mod tests {
    use rollcall_model::testing::{id, position, region, registration};
    use rollcall_model::{Profile, Scope, Snapshot, State};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::store::Compare;

    #[tokio::test(start_paused = true)]
    async fn f13_a_keeper_that_slept_past_its_hold_judges_nothing() {
        let standing = registration("a/b/c", 5, 5);
        let epoch = standing.epoch;
        let mut state = State::default();
        state.put(Arc::new(standing));
        let mut view = View::new(region());
        let snapshot = Snapshot::of(region(), position(epoch.ordinal(), 5), state);
        view.install(snapshot, None, "started", Timestamp(0));
        let view = watch::channel(Arc::new(view)).1;

        let hold = Hold::until(tokio::time::Instant::now() + Duration::from_secs(4));
        let fence = Compare::CreateRevision("keeper/1".into(), Revision(1));
        let tenure = Tenure::new(1, fence, CancellationToken::new().drop_guard(), hold.clone());
        let keeper = KeeperHandle::new(GuardLimits::default(), Clock::new(|| Duration::ZERO, || 0));
        keeper.begin(&tenure, &view).unwrap();
        let renew = || keeper.renew(&id("a/b/c"), &Holder::default(), epoch);
        assert!(matches!(renew(), Renewed::Judged(Renewal::Renewed(_))));

        tokio::time::advance(Duration::from_secs(3)).await;
        hold.prolong(tokio::time::Instant::now() + Duration::from_secs(4));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert!(matches!(renew(), Renewed::Judged(_)), "its office was renewed");

        // No task of it has run since; the office is another's by now.
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(renew(), Renewed::NoOffice);
        assert_eq!((keeper.term(), keeper.guard()), (None, None));
        hold.prolong(tokio::time::Instant::now() + Duration::from_secs(4));
        assert_eq!(renew(), Renewed::NoOffice, "an office that was over does not come back");
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_at_leases_lasts_until_one_may_be_overdue_or_a_holder_lets_go() {
        let mut standing = registration("a/b/c", 5, 5);
        let mut profile = Profile::clone(&standing.declared.profile);
        (profile.scope, profile.lease_seconds) = (Scope::Service, 30);
        standing.declared.profile = Arc::new(profile);
        let standing = Arc::new(standing);
        let epoch = standing.epoch;
        let mut state = State::default();
        state.put(Arc::clone(&standing));
        let mut view = View::new(region());
        view.install(
            Snapshot::of(region(), position(epoch.ordinal(), 5), state),
            None,
            "started",
            Timestamp(0),
        );
        let view = watch::channel(Arc::new(view)).1;
        let began = tokio::time::Instant::now();
        let clock = Clock::new(move || began.elapsed(), || 0);
        let keeper = KeeperHandle::new(GuardLimits::default(), clock.clone());
        let look = || keeper.overdue(std::iter::once(&*standing), clock.now());

        let (overdue, without_office) = look();
        assert_eq!((overdue, keeper.lasts(without_office.unwrap(), clock.now())), (vec![false], true));
        let hold = Hold::until(began + Duration::from_secs(600));
        let fence = Compare::CreateRevision("keeper/1".into(), Revision(1));
        keeper.begin(&Tenure::new(1, fence, CancellationToken::new().drop_guard(), hold), &view).unwrap();
        assert!(!keeper.lasts(without_office.unwrap(), clock.now()), "leases are known now");

        tokio::time::advance(Duration::from_secs(10)).await;
        let holder = Holder::parse("p").unwrap();
        let renew = || assert!(matches!(keeper.renew(&id("a/b/c"), &holder, epoch), Renewed::Judged(_)));
        renew();
        let calm = look().1.unwrap();
        let at = |seconds| Instant(Duration::from_secs(seconds));
        assert_eq!([39, 40].map(|seconds| keeper.lasts(calm, at(seconds))), [true, false]);
        renew();
        assert!(keeper.lasts(calm, at(39)), "a renewal brings nothing nearer");
        assert_eq!(keeper.let_go(&id("a/b/c"), &holder, epoch), Some(LettingGo::Others));
        assert!(!keeper.lasts(calm, at(39)), "it ends with those that were heard before");
        tokio::time::advance(Duration::from_secs(20)).await;
        assert_eq!(look(), (vec![true], None));
    }
}
