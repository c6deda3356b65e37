//! The keeper's leases in virtual time against a model that looks at every lease at every moment (I05, I06, I09).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use rollcall_model::testing::{declared, id, ids, registered, registration, removal};
use rollcall_model::{
    Change, Deadlines, Epoch, Holder, InstanceId, Instant, Lease, LeaseState, Registration, Renewal,
    Revision, State, Timestamp,
};

use crate::cases;

const WALL: Timestamp = Timestamp(0);
const ORDINAL: u16 = 3;

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn at(ms: u64) -> Instant {
    Instant(Duration::from_millis(ms))
}

fn leased(id: &str, lease_seconds: u16, revision: Revision) -> Registration {
    let mut declared = declared(id);
    declared.lease_seconds = lease_seconds;
    registered(declared, Epoch::new(ORDINAL, revision), revision)
}

/// A sweep without a guard.
fn take(deadlines: &mut Deadlines, now: Instant, most: usize) -> Vec<(InstanceId, Epoch)> {
    let overdue = deadlines.overdue(now);
    deadlines.take(&overdue, most, |_| true).into_iter().map(|due| (due.id, due.epoch)).collect()
}

/// What a keeper is told or asked.
#[derive(Clone, Debug)]
enum Act {
    Register(usize, u16),
    /// The owner changes something: no new epoch, no new lease.
    Update(usize),
    Deregister(usize),
    Renew(usize, Whose),
    Pass(u64),
    Sweep(usize),
    /// The store says what became of the n-th removal that is under way.
    Removed(usize),
    NotRemoved(usize),
    NewKeeper,
    /// These registered with such leases or left, nobody was told, and the state is read anew.
    Reload(Vec<(usize, Option<u16>)>),
}

#[derive(Clone, Copy, Debug)]
enum Whose {
    Current,
    Older,
    Ahead,
    NewerHistory,
    OtherHistory,
}

fn act() -> impl Strategy<Value = Act> {
    let who = || 0..5_usize;
    let whose = prop_oneof![
        8 => Just(Whose::Current),
        1 => Just(Whose::Older),
        1 => Just(Whose::Ahead),
        1 => Just(Whose::NewerHistory),
        1 => Just(Whose::OtherHistory),
    ];
    let lease = || prop_oneof![Just(5_u16), Just(30), Just(31)];
    let unheard = vec((who(), proptest::option::of(lease())), 0..4);
    prop_oneof![
        3 => (who(), lease()).prop_map(|(n, s)| Act::Register(n, s)),
        1 => who().prop_map(Act::Update),
        1 => who().prop_map(Act::Deregister),
        5 => (who(), whose).prop_map(|(n, whose)| Act::Renew(n, whose)),
        6 => (1..20_000_u64).prop_map(Act::Pass),
        6 => prop_oneof![3 => Just(usize::MAX), 1 => 0..3_usize].prop_map(Act::Sweep),
        2 => any::<usize>().prop_map(Act::Removed),
        2 => any::<usize>().prop_map(Act::NotRemoved),
        1 => Just(Act::NewKeeper),
        1 => unheard.prop_map(Act::Reload),
    ]
}

/// One lease, as the model knows it: nothing is derived and nothing is queued.
#[derive(Clone, Debug)]
struct Known {
    registration: Registration,
    renewed: Instant,
    removing: bool,
}

impl Known {
    fn deadline(&self) -> Instant {
        self.renewed.plus(seconds(u64::from(self.registration.declared.lease_seconds)))
    }
}

struct World {
    ids: Vec<InstanceId>,
    now: Instant,
    head: Revision,
    known: BTreeMap<InstanceId, Known>,
    /// Removals that went to the store and did not come back, with the epoch that they are about.
    under_way: Vec<(InstanceId, Epoch)>,
    deadlines: Deadlines,
}

impl World {
    fn new() -> Self {
        let deadlines = Deadlines::begin(&State::default(), ORDINAL, Revision(1), at(0), WALL, 0);
        let (known, under_way) = (BTreeMap::new(), Vec::new());
        Self { ids: ids(5), now: at(0), head: Revision(1), known, under_way, deadlines }
    }

    fn due(&self) -> Vec<(InstanceId, Epoch)> {
        let due = self.known.iter().filter(|(_, known)| !known.removing && known.deadline() <= self.now);
        due.map(|(id, known)| (id.clone(), known.registration.epoch)).collect()
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Reload(ref unheard) => self.reload(unheard),
            Act::Register(who, lease_seconds) => {
                self.head.0 += 1;
                let fresh = leased(self.ids[who].as_str(), lease_seconds, self.head);
                self.deadlines.follow(&Change::Put(Arc::new(fresh.clone())), self.now, WALL);
                let known = Known { registration: fresh, renewed: self.now, removing: false };
                self.known.insert(self.ids[who].clone(), known);
            }
            Act::Update(who) => {
                if let Some(known) = self.known.get_mut(&self.ids[who]) {
                    self.head.0 += 1;
                    known.registration.revision = self.head;
                    let put = Change::Put(Arc::new(known.registration.clone()));
                    self.deadlines.follow(&put, self.now, WALL);
                }
            }
            Act::Deregister(who) => self.remove(&self.ids[who].clone()),
            Act::Renew(who, whose) => self.renew(who, whose),
            Act::Pass(ms) => self.now = self.now.plus(Duration::from_millis(ms)),
            Act::Sweep(most) => self.sweep(most),
            Act::Removed(nth) => {
                if let Some((id, epoch)) = self.take_under_way(nth)
                    && self.known.get(&id).is_some_and(|known| known.registration.epoch == epoch)
                {
                    self.remove(&id);
                }
            }
            Act::NotRemoved(nth) => {
                if let Some((id, epoch)) = self.take_under_way(nth) {
                    self.deadlines.put_back(&id, epoch);
                    let known = self.known.get_mut(&id);
                    if let Some(known) = known.filter(|known| known.registration.epoch == epoch) {
                        known.removing = false;
                    }
                }
            }
            Act::NewKeeper => {
                let mut state = State::default();
                for known in self.known.values_mut() {
                    (known.renewed, known.removing) = (self.now, false);
                    state.put(Arc::new(known.registration.clone()));
                }
                self.under_way.clear();
                self.deadlines = Deadlines::begin(&state, ORDINAL, self.head, self.now, WALL, 0);
            }
        }
    }

    fn reload(&mut self, unheard: &[(usize, Option<u16>)]) {
        for (who, lease_seconds) in unheard {
            let id = self.ids[*who].clone();
            self.head.0 += 1;
            if let Some(lease_seconds) = lease_seconds {
                let registration = leased(id.as_str(), *lease_seconds, self.head);
                self.known.insert(id, Known { registration, renewed: self.now, removing: false });
            } else {
                self.known.remove(&id);
            }
        }
        let mut state = State::default();
        for known in self.known.values() {
            state.put(Arc::new(known.registration.clone()));
        }
        self.deadlines.reload(&state, self.head, self.now, WALL);
    }

    fn take_under_way(&mut self, nth: usize) -> Option<(InstanceId, Epoch)> {
        (!self.under_way.is_empty()).then(|| self.under_way.remove(nth % self.under_way.len()))
    }

    fn remove(&mut self, id: &InstanceId) {
        if self.known.remove(id).is_some() {
            self.head.0 += 1;
            let gone = removal(id.as_str(), 1, self.head.0);
            self.deadlines.follow(&Change::Remove(Arc::new(gone)), self.now, WALL);
        }
    }

    fn renew(&mut self, who: usize, whose: Whose) {
        let id = &self.ids[who];
        let known = self.known.get_mut(id);
        let current = known.as_ref().map(|known| known.registration.epoch);
        let (epoch, expected) = match (whose, known) {
            (Whose::Current, Some(known)) if known.removing => (current, Renewal::Wait),
            (Whose::Current, Some(known)) => {
                known.renewed = self.now;
                let lease = seconds(u64::from(known.registration.declared.lease_seconds));
                (current, Renewal::Renewed(lease))
            }
            (Whose::Current, None) => (None, Renewal::NotRegistered),
            (Whose::Older, known) => {
                let older = current.map_or(1, |epoch| epoch.revision().0 - 1);
                let expected = known.map_or(Renewal::NotRegistered, |_| Renewal::Superseded);
                (Some(Epoch::new(ORDINAL, Revision(older))), expected)
            }
            (Whose::Ahead, _) => (Some(Epoch::new(ORDINAL, Revision(self.head.0 + 1))), Renewal::Wait),
            (Whose::NewerHistory, _) => (Some(Epoch::new(ORDINAL + 1, Revision(1))), Renewal::Wait),
            (Whose::OtherHistory, known) => {
                let expected = known.map_or(Renewal::NotRegistered, |_| Renewal::Superseded);
                (Some(Epoch::new(ORDINAL - 1, Revision(self.head.0 + 9))), expected)
            }
        };
        let epoch = epoch.unwrap_or(Epoch::new(ORDINAL, Revision(1)));
        let answer = self.deadlines.renew(id.as_str(), &Holder::default(), epoch, self.now, WALL);
        assert_eq!(answer, expected, "{id} {epoch:?} at {:?}", self.now);
    }

    fn sweep(&mut self, most: usize) {
        let due = self.due();
        let mut lapsed = take(&mut self.deadlines, self.now, most);
        assert_eq!(lapsed.len(), due.len().min(most), "I06: {lapsed:?} of {due:?}");
        lapsed.sort();
        for gone in &lapsed {
            assert!(due.contains(gone), "I05: {gone:?} has not lapsed");
            self.known.get_mut(&gone.0).unwrap().removing = true;
        }
        self.under_way.extend(lapsed);
    }

    fn assert_same(&self) {
        assert_eq!(self.deadlines.len(), self.known.len());
        assert_eq!(self.deadlines.applied(), self.head);
        for (id, known) in &self.known {
            let lease = self.deadlines.get(id.as_str()).expect("each registration has its lease");
            assert_eq!((lease.epoch, lease.deadline()), (known.registration.epoch, known.deadline()));
        }
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn i05_i06_a_sweep_takes_exactly_what_has_lapsed(acts in vec(act(), 0..120)) {
        let mut world = World::new();
        for act in &acts {
            world.act(act);
            world.assert_same();
        }
        // Nobody renews any more: whatever went before, all are gone a lease later.
        let under_way = world.under_way.len();
        (0..under_way).for_each(|_| world.act(&Act::NotRemoved(0)));
        world.act(&Act::Pass(31_000));
        world.sweep(usize::MAX);
        prop_assert!(world.known.values().all(|known| known.removing));
    }
}

#[test]
fn i09_a_new_keeper_gives_every_registration_a_full_lease() {
    let mut state = State::default();
    for (nth, id) in ids(50).iter().enumerate() {
        state.put(Arc::new(leased(id.as_str(), if nth % 2 == 0 { 5 } else { 30 }, Revision(2))));
    }
    // However long nobody kept them.
    let begun = 900_000;
    let mut deadlines = Deadlines::begin(&state, ORDINAL, Revision(9), at(begun), WALL, 0);
    assert_eq!(take(&mut deadlines, at(begun + 4_999), 100), []);
    assert_eq!(take(&mut deadlines, at(begun + 5_000), 100).len(), 25);
    assert_eq!(take(&mut deadlines, at(begun + 29_999), 100), []);
    assert_eq!(take(&mut deadlines, at(begun + 30_000), 100).len(), 25);
}

#[test]
fn i06_a_registration_that_came_while_its_predecessor_was_being_removed_lapses_in_time() {
    let mut deadlines = Deadlines::default();
    let first = leased("a/b/c", 30, Revision(2));
    deadlines.follow(&Change::Put(Arc::new(first.clone())), at(0), WALL);
    assert_eq!(take(&mut deadlines, at(30_000), 10), [(id("a/b/c"), first.epoch)]);
    // The removal is on its way to the store; the agent registers anew and is first.
    let second = leased("a/b/c", 30, Revision(3));
    deadlines.follow(&Change::Put(Arc::new(second.clone())), at(30_100), WALL);
    deadlines.put_back(&id("a/b/c"), first.epoch);
    assert_eq!(take(&mut deadlines, at(60_099), 10), []);
    assert_eq!(take(&mut deadlines, at(60_100), 10), [(id("a/b/c"), second.epoch)]);
}

#[test]
fn i06_a_registration_with_a_shorter_lease_than_before_lapses_in_time() {
    let mut deadlines = Deadlines::default();
    deadlines.follow(&Change::Put(Arc::new(leased("a/b/c", 300, Revision(2)))), at(0), WALL);
    let second = leased("a/b/c", 5, Revision(3));
    deadlines.follow(&Change::Put(Arc::new(second.clone())), at(1_000), WALL);
    assert_eq!(take(&mut deadlines, at(5_999), 10), []);
    assert_eq!(take(&mut deadlines, at(6_000), 10), [(id("a/b/c"), second.epoch)]);
    assert_eq!(take(&mut deadlines, at(400_000), 10), [], "once");
}

#[test]
fn i05_a_lease_whose_removal_is_under_way_waits_for_what_becomes_of_it() {
    let mut deadlines = Deadlines::default();
    let held = leased("a/b/c", 30, Revision(2));
    deadlines.follow(&Change::Put(Arc::new(held.clone())), at(0), WALL);
    take(&mut deadlines, at(30_000), 10);
    assert_eq!(deadlines.renew("a/b/c", &Holder::default(), held.epoch, at(30_001), WALL), Renewal::Wait);
    deadlines.put_back(&id("a/b/c"), held.epoch);
    assert_eq!(
        deadlines.renew("a/b/c", &Holder::default(), held.epoch, at(30_003), WALL),
        Renewal::Renewed(seconds(30))
    );
    assert_eq!(take(&mut deadlines, at(60_002), 10), []);
}

#[test]
fn registering_again_and_again_leaves_nothing_behind_in_the_queue() {
    let mut deadlines = Deadlines::default();
    for n in 0..400_u64 {
        let change = if n % 2 == 0 {
            Change::Put(Arc::new(leased("a/b/c", if n % 4 == 0 { 30 } else { 5 }, Revision(n + 2))))
        } else {
            Change::Remove(Arc::new(removal("a/b/c", 1, n + 2)))
        };
        deadlines.follow(&change, at(n * 100), WALL);
    }
    let last = leased("a/b/c", 30, Revision(1_000));
    deadlines.follow(&Change::Put(Arc::new(last.clone())), at(40_000), WALL);
    for second in 41..=100 {
        assert_eq!(
            deadlines.renew("a/b/c", &Holder::default(), last.epoch, at(second * 1_000), WALL),
            Renewal::Renewed(seconds(30))
        );
        assert_eq!(take(&mut deadlines, at(second * 1_000), 10), []);
    }
    assert_eq!(deadlines.places(), 1, "one lease, one place");
}

#[test]
fn a_lease_is_live_then_suspect_then_lapsed() {
    let mut deadlines = Deadlines::default();
    deadlines.follow(&Change::Put(Arc::new(registration("a/b/c", 2, 2))), at(1_000), WALL);
    let lease: &Lease = deadlines.get("a/b/c").unwrap();
    // 30 s lease, 10 s beat, 12 s longest gap, 18 s to suspect.
    for (ms, state, missed) in [
        (0, LeaseState::Live, 0),
        (1_000, LeaseState::Live, 0),
        (18_999, LeaseState::Live, 1),
        (19_000, LeaseState::Suspect, 1),
        (30_999, LeaseState::Suspect, 2),
        (31_000, LeaseState::Lapsed, 3),
    ] {
        assert_eq!((lease.state(at(ms)), lease.missed(at(ms))), (state, missed), "at {ms} ms");
    }
}
