//! What readers are told of leases that are kept past their deadline.

use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use rollcall_model::deadlines::Mark;
use rollcall_model::sweep::sweep;
use rollcall_model::testing::{declared, registered};
use rollcall_model::{
    Change, Deadlines, Epoch, ExpiryGuard, GuardLimits, Holder, Instant, LeaseState, Registration, Revision,
    Timestamp,
};

use crate::cases;

const WALL: Timestamp = Timestamp(0);

fn at(seconds: u64) -> Instant {
    Instant(Duration::from_secs(seconds))
}

fn epoch() -> Epoch {
    Epoch::new(1, Revision(2))
}

struct World {
    records: Vec<Registration>,
    deadlines: Deadlines,
    guard: ExpiryGuard,
    head: u64,
}

impl World {
    fn new(many: usize) -> Self {
        let mut deadlines = Deadlines::default();
        let records: Vec<_> =
            (0..many).map(|n| registered(declared(&format!("a/b/{n}")), epoch(), Revision(2))).collect();
        for record in &records {
            deadlines.follow(&Change::Put(Arc::new(record.clone())), at(0), WALL);
        }
        Self { records, deadlines, guard: ExpiryGuard::new(GuardLimits::default()), head: 2 }
    }

    fn renew(&mut self, n: usize, second: u64) {
        let id = self.records[n].declared.id.clone();
        let _ = self.deadlines.renew(id.as_str(), &Holder::default(), epoch(), at(second), WALL);
    }

    /// Sweeps; the store writes each mark, and the history brings it back.
    fn sweep(&mut self, second: u64, most: usize) -> Vec<Mark> {
        let plan = sweep(&mut self.deadlines, &mut self.guard, at(second), usize::MAX, most);
        assert_eq!(plan.remove, [], "held");
        for mark in &plan.marks {
            self.head += 1;
            let record = self.records.iter_mut().find(|record| record.declared.id == mark.id).unwrap();
            assert_ne!(record.owned.overdue, mark.overdue, "nothing is told twice");
            (record.owned.overdue, record.revision) = (mark.overdue, Revision(self.head));
            self.deadlines.follow(&Change::Put(Arc::new(record.clone())), at(second), WALL);
        }
        plan.marks
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn readers_see_exactly_those_that_are_past_their_deadline(renewals in vec((0..40_usize, 1..8_u64), 0..80)) {
        let mut world = World::new(40);
        let mut second = 31;
        world.sweep(second, usize::MAX);
        for (who, later) in renewals {
            // More than half stay silent, so that the guard never lets go.
            if who < 15 {
                world.renew(who, second);
            }
            second += later;
            world.sweep(second, usize::MAX);
            for record in &world.records {
                let lease = world.deadlines.get(record.declared.id.as_str()).unwrap();
                prop_assert_eq!(record.owned.overdue, lease.state(at(second)) == LeaseState::Lapsed);
            }
        }
    }
}

#[test]
fn a_sweep_tells_of_a_bounded_number_and_of_the_living_first() {
    let mut world = World::new(40);
    assert_eq!(world.sweep(29, 10), [], "nobody is overdue");
    for sweep in 0..4 {
        let marks = world.sweep(31 + sweep, 10);
        assert_eq!((marks.len(), marks.iter().all(|mark| mark.overdue)), (10, true));
    }
    assert_eq!(world.sweep(36, 10), [], "all are told");
    for n in 0..8 {
        world.renew(n, 37);
    }
    let marks = world.sweep(38, 10);
    assert_eq!((marks.len(), marks.iter().any(|mark| mark.overdue)), (8, false));
}

#[test]
fn a_new_keepers_grace_is_no_sign_of_life_and_a_renewal_is() {
    let mut record = registered(declared("a/b/c"), epoch(), Revision(5));
    record.owned.overdue = true;
    let mut state = rollcall_model::State::default();
    state.put(Arc::new(record.clone()));
    let mut deadlines = Deadlines::begin(&state, 1, Revision(9), at(100), WALL, 0);
    assert_eq!(deadlines.marks(&deadlines.overdue(at(101)), at(101), 10), []);
    assert!(deadlines.get("a/b/c").unwrap().is_overdue(at(101)));
    let _ = deadlines.renew("a/b/c", &Holder::default(), epoch(), at(102), WALL);
    let expected = Mark { id: record.declared.id.clone(), epoch: epoch(), overdue: false };
    assert_eq!(deadlines.marks(&deadlines.overdue(at(103)), at(103), 10), [expected]);
}

#[test]
fn lea_24_who_is_silent_for_two_minutes_is_tried_last_however_long_its_lease() {
    for (lease, marked) in [(300, 180), (220, 132), (150, 120), (60, 60)] {
        let mut deadlines = Deadlines::default();
        let mut given = declared("a/b/c");
        given.lease_seconds = lease;
        let record = registered(given, epoch(), Revision(2));
        deadlines.follow(&Change::Put(Arc::new(record)), at(0), WALL);
        let told =
            |deadlines: &Deadlines, second| deadlines.marks(&deadlines.overdue(at(second)), at(second), 10);
        assert_eq!(told(&deadlines, marked - 1), [], "a beat may still come: lease of {lease}");
        assert!(!deadlines.get("a/b/c").unwrap().is_overdue(at(marked - 1)));
        let marks = told(&deadlines, marked);
        assert_eq!((marks.len(), marks[0].overdue), (1, true), "lease of {lease}");
        assert!(deadlines.get("a/b/c").unwrap().is_overdue(at(marked)));
        // Heard again, it is as good as before.
        if marked < u64::from(lease) {
            let _ = deadlines.renew("a/b/c", &Holder::default(), epoch(), at(marked + 1), WALL);
            assert!(!deadlines.get("a/b/c").unwrap().is_overdue(at(marked + 2)));
        }
    }
}

#[test]
fn a_lease_stays_small() {
    // Beside it there is its place in the order of ids and its tick: well under 400 bytes a registration.
    assert!(size_of::<rollcall_model::Lease>() <= 192, "{} bytes", size_of::<rollcall_model::Lease>());
}
