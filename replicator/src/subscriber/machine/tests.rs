//! The subscriber against logs that lose, double, reorder and tear.

use std::cmp::Ordering;
use std::sync::Arc;

use proptest::prelude::*;
use rollcall_model::{Delta, Snapshot};
use rollcall_proto::convert::FeedItem;

use super::*;
use crate::feed_log::Outgoing;
use crate::testing::Origin;

mod faults;

const REGION: &str = "us-east";

/// A log as a list, its snapshots, and a clock that moves only when somebody waits.
struct World {
    log: Vec<Outgoing>,
    snapshots: Vec<(Snapshot, u64)>,
    now: Instant,
    resyncs: Vec<&'static str>,
    /// Snapshots that were read whole: the dear part of a resync.
    reads: usize,
}

impl World {
    fn new() -> Self {
        Self {
            log: Vec::new(),
            snapshots: Vec::new(),
            now: Instant(Duration::from_secs(1)),
            resyncs: Vec::new(),
            reads: 0,
        }
    }

    fn end(&self) -> u64 {
        self.log.len() as u64
    }

    fn append(&mut self, item: &FeedItem) {
        self.log.push(record::outgoing(item));
    }

    fn write_snapshot(&mut self, origin: &Origin) {
        self.snapshots.push((origin.view().snapshot().unwrap(), self.end()));
    }

    fn at(&self, offset: u64) -> Option<Record> {
        let outgoing = self.log.get(usize::try_from(offset).unwrap())?;
        let headers =
            outgoing.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        Some(Record { offset, headers, body: outgoing.body.clone(), lain_at_most: Some(Duration::ZERO) })
    }

    /// Carries out one order; false when there is nothing more to read.
    fn step(&mut self, machine: &mut Machine) -> bool {
        let (now, wall, chance) = (self.now, Timestamp(0), 0.5);
        let step = match machine.order(now) {
            Order::Wait(wait) => {
                self.now = now.plus(wait);
                Step::Nothing
            }
            Order::Find(wanted) => {
                let fits = |(snapshot, offset): &&(Snapshot, u64)| {
                    wanted.fits(&snapshot.head().position) && *offset <= self.end()
                };
                let found = self.snapshots.iter().rev().find(fits).map(|(snapshot, feed_offset)| Found {
                    snapshot: snapshot.clone(),
                    feed_offset: *feed_offset,
                });
                self.reads += usize::from(found.is_some());
                machine.found(found, now, wall, chance)
            }
            Order::Read(offset) if offset > self.end() => {
                machine.broke(&LogError::OutOfRange(0..self.end()), now, chance)
            }
            Order::Read(offset) => match self.at(offset) {
                None => return false,
                Some(record) => machine.record(&record, now, wall, chance),
            },
        };
        if let Step::Resync(reason) = step {
            self.resyncs.push(reason);
        }
        true
    }

    /// At most so many steps, each checked for what readers would see; true when everything is read.
    fn go(&mut self, steps: usize, machine: &mut Machine, origin: &Origin) -> bool {
        for _ in 0..steps {
            let before = machine.shown().position().cloned();
            let went_on = self.step(machine);
            assert!(origin.was_once(machine.shown()), "I30: {:?} never was", machine.shown().position());
            if let (Some(before), Some(after)) = (before, machine.shown().position()) {
                assert_ne!(
                    after.relation(&before),
                    Relation::Same(Ordering::Less),
                    "I31: {after} after {before}"
                );
                assert_ne!(after.relation(&before), Relation::OlderHistory, "I31: {after} after {before}");
            }
            if !went_on {
                return true;
            }
        }
        false
    }

    /// Runs until everything is read.
    fn run(&mut self, machine: &mut Machine, origin: &Origin) {
        assert!(self.go(20_000, machine, origin), "the subscriber never came to rest: {:?}", self.resyncs);
    }
}

fn machine() -> Machine {
    Machine::new(View::new(Region::parse(REGION).unwrap()), None, Instant::default())
}

fn is_at(machine: &Machine, origin: &Origin) -> bool {
    machine.shown().position() == Some(&origin.position())
        && machine.shown().state().unwrap().digest() == origin.digest()
}

/// A world with a snapshot, three deltas and a bookmark, followed to its end.
fn followed() -> (World, Machine, Origin) {
    let (mut world, mut machine, mut origin) = (World::new(), machine(), Origin::new(REGION, "1-a"));
    world.write_snapshot(&origin);
    for id in ["a/b/1", "a/b/2", "a/b/3"] {
        world.append(&FeedItem::Delta(origin.put(id)));
    }
    world.append(&FeedItem::Bookmark(origin.beat(Instant::default())));
    world.run(&mut machine, &origin);
    assert!(is_at(&machine, &origin));
    assert!(world.resyncs.is_empty(), "{:?}", world.resyncs);
    (world, machine, origin)
}

#[test]
fn i37_a_record_that_cannot_be_read_leads_to_one_resync_and_the_chain_goes_on() {
    let (mut world, mut machine, mut origin) = followed();
    for _ in 0..50 {
        world.log.push(Outgoing { headers: Vec::new(), body: b"rubbish"[..].into() });
    }
    world.append(&FeedItem::Delta(origin.put("a/b/4")));
    world.run(&mut machine, &origin);
    assert!(is_at(&machine, &origin));
    assert_eq!(world.resyncs, ["unreadable"], "a row of bad records is answered once");
    assert_eq!(machine.shown().last_resync().map(|resync| resync.reason), Some("unreadable"));
}

#[test]
fn i21_what_is_read_before_the_logs_end_was_met_is_of_unknown_age_and_stays_usable() {
    let (mut world, mut machine, mut origin) = (World::new(), machine(), Origin::new(REGION, "1-a"));
    origin.put("ops/mail/1");
    world.write_snapshot(&origin);
    world.append(&FeedItem::Bookmark(origin.beat(world.now)));
    assert!(world.step(&mut machine) && machine.shown().state().is_some());
    let later = world.now.plus(Duration::from_secs(60));
    let is_unknown =
        |view: &View| view.heard_age(later).is_none() && view.age(later) == view.age(Instant::default());
    assert!(is_unknown(machine.shown()), "a snapshot says nothing of its age");
    let behind = Record { lain_at_most: None, ..world.at(0).unwrap() };
    assert_eq!(machine.record(&behind, world.now, Timestamp(0), 0.5), Step::Applied);
    assert!(is_unknown(machine.shown()), "nor does a bookmark that may have lain there for hours");
    world.append(&FeedItem::Bookmark(origin.beat(world.now)));
    assert_eq!(machine.record(&world.at(1).unwrap(), world.now, Timestamp(0), 0.5), Step::Applied);
    assert_eq!(machine.shown().heard_age(world.now), Some(Duration::ZERO));
}

#[test]
fn i45_a_record_of_another_region_is_refused() {
    let (mut world, mut machine, mut origin) = followed();
    let mut other = Origin::new("elsewhere", "1-a");
    let mut forged = record::outgoing(&FeedItem::Delta(other.put("x/y/z")));
    world.log.push(forged.clone());
    world.run(&mut machine, &origin);
    assert_eq!(world.resyncs, ["wrong_region"]);
    // With the right header it is still the body that counts.
    forged.headers[0].1 = REGION.to_owned();
    world.append(&FeedItem::Bookmark(origin.beat(Instant::default())));
    world.log.push(forged);
    world.run(&mut machine, &origin);
    assert_eq!(world.resyncs, ["wrong_region", "wrong_region"]);
}

#[test]
fn i33_a_gap_waits_for_a_snapshot_behind_it_and_reads_few_before() {
    let (mut world, mut machine, mut origin) = followed();
    let shown = machine.shown().position().cloned();
    origin.put("a/b/lost");
    // Five minutes of beats, until the publisher's next snapshot.
    for _ in 0..300 {
        world.append(&FeedItem::Bookmark(origin.beat(Instant::default())));
        let until = world.now.plus(Duration::from_secs(1));
        while world.now < until && world.step(&mut machine) {}
        world.now = until;
        assert_eq!(machine.shown().position().cloned(), shown, "I33: the gap was crossed");
    }
    assert!(world.resyncs.iter().all(|reason| *reason == "gap"));
    assert!(world.reads <= 12, "{} snapshots were read in vain", world.reads);
    world.write_snapshot(&origin);
    world.run(&mut machine, &origin);
    assert!(is_at(&machine, &origin));
}

#[test]
fn a_new_incarnation_comes_only_with_its_snapshot() {
    let (mut world, mut machine, mut origin) = followed();
    let shown = machine.shown().position().cloned();
    origin.rebuild("2-b");
    let snapshot = (origin.view().snapshot().unwrap(), world.end());
    world.append(&FeedItem::Delta(origin.put("a/b/9")));
    for _ in 0..20 {
        world.step(&mut machine);
        assert_eq!(machine.shown().position().cloned(), shown);
    }
    world.snapshots.push(snapshot);
    world.append(&FeedItem::Bookmark(origin.beat(Instant::default())));
    world.run(&mut machine, &origin);
    assert!(is_at(&machine, &origin));
    assert_eq!(machine.shown().last_resync().map(|resync| resync.reason), Some("new_incarnation"));
}

#[test]
fn a_forged_incarnation_does_not_stop_the_true_chain() {
    let (mut world, mut machine, mut origin) = followed();
    world.append(&FeedItem::Delta(Origin::new(REGION, "4000-f").put("x/y/z")));
    world.append(&FeedItem::Delta(origin.put("a/b/4")));
    world.append(&FeedItem::Bookmark(origin.beat(Instant::default())));
    world.run(&mut machine, &origin);
    assert!(is_at(&machine, &origin));
    assert_eq!(world.resyncs, ["new_incarnation"]);
}

#[test]
fn a_digest_that_differs_leads_to_a_state_that_does_not() {
    let (mut world, mut machine, mut origin) = followed();
    let mut bookmark = origin.beat(Instant::default());
    bookmark.count += 1;
    world.append(&FeedItem::Bookmark(bookmark));
    world.append(&FeedItem::Delta(origin.put("a/b/4")));
    while world.resyncs.is_empty() {
        assert!(world.step(&mut machine));
    }
    assert_eq!(world.resyncs, ["digest"]);
    world.write_snapshot(&origin);
    world.run(&mut machine, &origin);
    assert!(is_at(&machine, &origin));
}

#[test]
fn f33_a_copy_from_disk_newer_than_the_log_stays_until_the_log_has_passed_it() {
    let (mut world, _, mut origin) = followed();
    let (mut ahead, old) = (origin.clone(), world.log.len());
    ahead.put("a/b/4");
    let mut machine = Machine::new(ahead.view().clone(), Some(900), Instant::default());
    for _ in 0..50 {
        world.step(&mut machine);
        assert!(is_at(&machine, &ahead), "I31: readers saw the view go back");
    }
    assert_eq!(world.resyncs, ["out_of_range"]);
    world.append(&FeedItem::Delta(origin.put("a/b/4")));
    world.append(&FeedItem::Delta(origin.put("a/b/5")));
    assert_eq!(world.log.len(), old + 2);
    world.run(&mut machine, &origin);
    assert!(is_at(&machine, &origin));
}

#[test]
fn a_log_that_is_away_is_asked_less_and_less_often() {
    let (mut world, mut machine, _) = followed();
    let mut waited = Vec::new();
    for _ in 0..12 {
        machine.broke(&LogError::Away("test".into()), world.now, 1.0);
        let Order::Wait(wait) = machine.order(world.now) else { panic!("it loops") };
        world.now = world.now.plus(wait);
        waited.push(wait);
    }
    assert!(waited.is_sorted(), "{waited:?}");
    assert_eq!(waited.last(), Some(&READ_WAIT.1));
}

/// What happens at the origin.
#[derive(Clone, Debug)]
enum Act {
    Put(u8),
    Remove(u8),
    Beat,
    Rebuild,
    Snapshot,
}

/// What the log does to what was published.
#[derive(Clone, Debug)]
enum Fault {
    Drop(prop::sample::Index),
    Double(prop::sample::Index, prop::sample::Index),
    Move(prop::sample::Index, prop::sample::Index),
    Tear(prop::sample::Index, prop::sample::Index),
    Rubbish(prop::sample::Index),
    /// A second publisher that cut the same history differently.
    Merge(prop::sample::Index, prop::sample::Index),
    /// A snapshot with a place in the feed that is wrong.
    Misplace(prop::sample::Index, prop::sample::Index),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0..6_u8).prop_map(Act::Put),
        3 => (0..6_u8).prop_map(Act::Remove),
        4 => Just(Act::Beat),
        1 => Just(Act::Rebuild),
        1 => Just(Act::Snapshot),
    ]
}

fn fault() -> impl Strategy<Value = Fault> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        at().prop_map(Fault::Drop),
        (at(), at()).prop_map(|(from, to)| Fault::Double(from, to)),
        (at(), at()).prop_map(|(from, to)| Fault::Move(from, to)),
        (at(), at()).prop_map(|(which, cut)| Fault::Tear(which, cut)),
        at().prop_map(Fault::Rubbish),
        (at(), at()).prop_map(|(from, to)| Fault::Merge(from, to)),
        (at(), at()).prop_map(|(which, to)| Fault::Misplace(which, to)),
    ]
}

/// The history that the acts make, published without a fault.
fn publish(acts: &[Act]) -> (World, Origin, Vec<Arc<Delta>>) {
    let (mut world, mut origin, mut deltas) = (World::new(), Origin::new(REGION, "1-a"), Vec::new());
    world.write_snapshot(&origin);
    for act in acts {
        let id = |n: &u8| format!("a/b/{n}");
        match act {
            Act::Put(n) => deltas.push(origin.put(&id(n))),
            Act::Remove(n) if origin.view().state().unwrap().get(&id(n)).is_some() => {
                deltas.push(origin.remove(&id(n)));
            }
            Act::Remove(_) | Act::Beat => {
                world.append(&FeedItem::Bookmark(origin.beat(Instant::default())));
                continue;
            }
            Act::Rebuild => {
                origin.rebuild(&format!("{}-r", origin.position().incarnation.ordinal() + 1));
                world.write_snapshot(&origin);
                continue;
            }
            Act::Snapshot => {
                world.write_snapshot(&origin);
                continue;
            }
        }
        world.append(&FeedItem::Delta(deltas.last().unwrap().clone()));
    }
    (world, origin, deltas)
}

fn harm(world: &mut World, deltas: &[Arc<Delta>], fault: &Fault) {
    let length = world.log.len();
    if length == 0 {
        return;
    }
    match fault {
        Fault::Drop(at) => drop(world.log.remove(at.index(length))),
        Fault::Double(from, to) => {
            let record = world.log[from.index(length)].clone();
            world.log.insert(to.index(length), record);
        }
        Fault::Move(from, to) => {
            let record = world.log.remove(from.index(length));
            world.log.insert(to.index(length), record);
        }
        Fault::Tear(at, cut) => {
            let record = &mut world.log[at.index(length)];
            let kept = cut.index(record.body.len().max(1));
            record.body = record.body.slice(..kept);
        }
        Fault::Rubbish(at) => {
            world.log.insert(at.index(length), Outgoing { headers: Vec::new(), body: b"?"[..].into() });
        }
        Fault::Merge(first, last) if !deltas.is_empty() => {
            let (first, last) = (first.index(deltas.len()), last.index(deltas.len()));
            let some = &deltas[first.min(last)..=first.max(last)];
            let (first, last) = (&some[0], &some[some.len() - 1]);
            if first.from.incarnation == last.to.incarnation {
                let changes = some.iter().flat_map(|delta| delta.changes.clone()).collect();
                let (from, to) = (first.from.clone(), last.to.clone());
                let whole = Delta { region: first.region.clone(), from, to, changes };
                world.append(&FeedItem::Delta(Arc::new(whole)));
            }
        }
        Fault::Merge(_, _) => {}
        Fault::Misplace(which, to) => {
            let at = which.index(world.snapshots.len());
            world.snapshots[at].1 = to.index(length) as u64;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// I30, I31, I34, I37: whatever the log did, every view that was shown is a state the origin was once in, and once the
    /// origin has written a snapshot the view is what the origin is.
    #[test]
    fn i34_whatever_the_log_does_views_are_true_and_converge(
        acts in prop::collection::vec(act(), 1..60),
        faults in prop::collection::vec(fault(), 0..12),
        cut in any::<prop::sample::Index>(),
    ) {
        let (mut world, mut origin, deltas) = publish(&acts);
        for fault in &faults {
            harm(&mut world, &deltas, fault);
        }
        let mut machine = machine();
        // Some of it is read before the rest comes.
        let later = world.log.split_off(cut.index(world.log.len() + 1));
        // While something is missing the subscriber waits for a snapshot, however long: a bounded look at that.
        world.go(1_000, &mut machine, &origin);
        world.log.extend(later);
        world.go(1_000, &mut machine, &origin);
        world.write_snapshot(&origin);
        world.append(&FeedItem::Bookmark(origin.beat(Instant::default())));
        world.run(&mut machine, &origin);
        prop_assert!(is_at(&machine, &origin), "I32: {:?}, not {:?}", machine.shown().position(), origin.position());
    }
}
