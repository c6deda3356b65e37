//! A view under any delivery of its origin's history: lost, doubled, reordered, cut otherwise, of another region, of
//! another incarnation. It always is a true state of the origin (I18, I22, I30, I31, I33, I34).

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use rollcall_model::testing::{Chance, Origin, region};
use rollcall_model::{
    Change, Delta, Instant, Outcome, Position, Region, Relation, RemovalReason, SnapshotBuilder, Timestamp,
    View,
};

use crate::cases;

const WALL: Timestamp = Timestamp(0);

/// One thing that reaches a view; the numbers pick among what the origin has.
#[derive(Clone, Debug)]
pub(crate) enum Delivery {
    /// The origin goes on.
    Steps(u8),
    /// The origin is restored from a backup.
    Restore,
    /// Any delta between two points of any incarnation.
    AnyDelta(usize, usize, usize),
    /// What comes next, as one of many publishers would cut it, perhaps only the first of it.
    Onward(u64, usize),
    /// A bookmark of any point.
    AnyBookmark(usize, usize),
    /// A bookmark of the head.
    Head,
    /// A snapshot of any point.
    AnySnapshot(usize, usize),
    /// Something true, of a region that is not this one.
    Foreign(u8),
    /// A bookmark that does not tell the truth.
    Lie(bool),
    /// A snapshot whose pages were torn.
    Torn(u64),
}

pub(crate) fn delivery() -> impl Strategy<Value = Delivery> {
    let pick = any::<usize>;
    prop_oneof![
        4 => (1..4_u8).prop_map(Delivery::Steps),
        1 => Just(Delivery::Restore),
        4 => (pick(), pick(), pick()).prop_map(|(i, a, b)| Delivery::AnyDelta(i, a, b)),
        4 => (any::<u64>(), 1..4_usize).prop_map(|(seed, many)| Delivery::Onward(seed, many)),
        2 => (pick(), pick()).prop_map(|(i, a)| Delivery::AnyBookmark(i, a)),
        2 => Just(Delivery::Head),
        1 => (pick(), pick()).prop_map(|(i, a)| Delivery::AnySnapshot(i, a)),
        1 => (0..3_u8).prop_map(Delivery::Foreign),
        1 => any::<bool>().prop_map(Delivery::Lie),
        1 => any::<u64>().prop_map(Delivery::Torn),
    ]
}

/// A point of the incarnation that the number picks, and of no other: any revision between start and head.
fn point(origin: &Origin, which: usize, at: usize) -> Position {
    let incarnations: Vec<_> = origin.incarnations().collect();
    // The newest one is the likeliest.
    let incarnation = incarnations[incarnations.len().saturating_sub(1 + which % 3)];
    let marks = origin.marks(incarnation);
    let mark = &marks[at % marks.len()];
    let head = origin.head();
    // Now and then between two changes, where only bookmarks stand.
    let revision =
        if incarnation == &head.incarnation && at.is_multiple_of(5) { head.revision } else { mark.revision };
    Position::new(incarnation.clone(), revision)
}

/// What must become of a delta, said once more and otherwise than the view says it.
fn verdict(delta: &Delta, at: Option<&Position>) -> Outcome {
    let Some(at) = at else { return Outcome::Gap };
    let (theirs, ours) = (delta.to.incarnation.ordinal(), at.incarnation.ordinal());
    if theirs != ours {
        return if theirs < ours { Outcome::Duplicate } else { Outcome::Superseded };
    }
    let continues = (delta.from.revision..delta.to.revision).contains(&at.revision);
    match (continues, delta.to.revision > at.revision) {
        (true, _) => Outcome::Applied,
        (false, true) => Outcome::Gap,
        (false, false) => Outcome::Duplicate,
    }
}

/// I18, I30: the state is the origin's at that position, the history leads to it, and index and digest are right.
pub(crate) fn assert_true(view: &View, origin: &Origin) {
    let (Some(at), Some(state)) = (view.position(), view.state()) else { return };
    let truth = origin.state_at(at);
    assert_eq!(state.digest(), truth.digest(), "I30: the state at {at} is none of its origin's");
    assert!(state.iter().eq(truth.iter()), "I18: the records at {at} are not its origin's");
    assert_eq!(state.prove(), Ok(()));
    let history = view.history().expect("a loaded view has a history");
    let mut end = history.base().clone();
    let mut replayed = origin.state_at(&end).clone();
    for step in history.since(&end.clone()).expect("its base can be continued") {
        assert_eq!(step.delta.from, end, "I33: the history has a gap");
        end = step.delta.to.clone();
        for (change, before) in step.delta.changes.iter().zip(step.before.iter()) {
            assert!(change.revision() > step.delta.from.revision && change.revision() <= end.revision);
            assert_eq!(&replayed.apply(change), before, "the history knows what a change replaced");
        }
        assert_eq!(replayed.digest(), origin.state_at(&end).digest());
    }
    assert_eq!(Some(&end), view.changed());
    assert_eq!(replayed.digest(), state.digest());
}

/// I31: never back within an incarnation, never to an older one, and to a newer one only by a snapshot.
fn assert_onward(before: &View, after: &View, installed: bool) {
    let Some(was) = before.position() else { return };
    let Some(is) = after.position() else { panic!("I22: a loaded view was emptied") };
    match was.relation(is) {
        Relation::Same(order) => assert_ne!(order, Ordering::Greater, "I31: {was} went back to {is}"),
        Relation::OlderHistory => assert!(installed, "I31: {was} became {is} without a snapshot"),
        Relation::NewerHistory | Relation::Conflict => panic!("I31: {was} went back to {is}"),
    }
}

fn foreign() -> Region {
    Region::parse("us").unwrap()
}

fn deliver(view: &mut View, origin: &mut Origin, delivery: &Delivery) {
    let before = view.clone();
    let unchanged = |view: &View| {
        assert_eq!(view.removals(), before.removals());
        assert_eq!(view.position(), before.position());
        assert_eq!(view.state().map(|s| s.digest()), before.state().map(|s| s.digest()));
    };
    match *delivery {
        Delivery::Steps(many) => (0..many).for_each(|_| origin.step()),
        Delivery::Restore => origin.begin_incarnation(),
        Delivery::AnyDelta(which, a, b) => {
            let (a, b) = (point(origin, which, a), point(origin, which, b));
            let (from, to) = if a.revision < b.revision { (a, b) } else { (b, a) };
            if from == to {
                return;
            }
            let delta = origin.delta(&from, &to);
            let expected = verdict(&delta, before.position());
            assert_eq!(view.apply(&delta), expected, "{from}..{to} on {:?}", before.position());
            if expected != Outcome::Applied {
                unchanged(view);
            }
        }
        Delivery::Onward(seed, many) => {
            let Some(at) = before.position() else { return };
            for delta in origin.cut(at, &mut Chance::new(seed)).iter().take(many) {
                assert_eq!(view.apply(delta), Outcome::Applied, "I33: what continues is applied");
                assert_eq!(view.apply(delta), Outcome::Duplicate, "I34: once");
            }
        }
        Delivery::AnyBookmark(which, at) => mark(view, origin, &point(origin, which, at)),
        Delivery::Head => mark(view, origin, &origin.head()),
        Delivery::AnySnapshot(which, at) => {
            let at = point(origin, which, at);
            let outcome = view.install(origin.snapshot(&at), None, "test", WALL);
            let older = before.position().is_some_and(|own| {
                matches!(at.relation(own), Relation::OlderHistory | Relation::Same(Ordering::Less))
            });
            assert_eq!(outcome, if older { Outcome::Duplicate } else { Outcome::Applied });
            assert_eq!(view.position(), if older { before.position() } else { Some(&at) });
            if older {
                unchanged(view);
            }
            assert_onward(&before, view, true);
            return;
        }
        Delivery::Foreign(what) => {
            let head = origin.head();
            let outcome = match what {
                0 => view.apply(&Arc::new(Delta {
                    region: foreign(),
                    ..(*origin.delta(&origin.changed(&head), &Position { ..head.clone() })).clone()
                })),
                1 => {
                    let mut bookmark = origin.bookmark(&head, Duration::ZERO);
                    bookmark.region = foreign();
                    view.mark(&bookmark, Instant::default())
                }
                _ => {
                    let state = origin.state_at(&head).clone();
                    view.install(rollcall_model::Snapshot::of(foreign(), head, state), None, "test", WALL)
                }
            };
            assert_eq!(outcome, Outcome::Superseded, "another region's {what} is refused");
            unchanged(view);
        }
        Delivery::Lie(about_count) => {
            let Some(at) = before.position() else { return };
            let mut bookmark = origin.bookmark(at, Duration::ZERO);
            if about_count {
                bookmark.count += 1;
            } else {
                bookmark.digest = bookmark.digest.with(1);
            }
            assert_eq!(view.mark(&bookmark, Instant::default()), Outcome::Diverged);
            unchanged(view);
        }
        Delivery::Torn(seed) => {
            torn(view, origin, &mut Chance::new(seed));
            assert_onward(&before, view, true);
            return;
        }
    }
    assert_onward(&before, view, false);
}

fn mark(view: &mut View, origin: &Origin, at: &Position) {
    let expected = match view.position().map(|own| (own, at.relation(own))) {
        None => Outcome::Gap,
        Some((_, Relation::OlderHistory | Relation::Same(Ordering::Less))) => Outcome::Duplicate,
        Some((_, Relation::NewerHistory | Relation::Conflict)) => Outcome::Superseded,
        // A bookmark proves the state only if nothing changed in between.
        Some((own, Relation::Same(_))) if origin.changed(at).revision > own.revision => Outcome::Gap,
        Some((_, Relation::Same(_))) => Outcome::Applied,
    };
    assert_eq!(view.mark(&origin.bookmark(at, Duration::ZERO), Instant::default()), expected);
}

/// Puts a snapshot together from pages of which some are missing, doubled or of another moment.
fn torn(view: &mut View, origin: &Origin, chance: &mut Chance) {
    let head = origin.head();
    let marks = origin.marks(&head.incarnation);
    let other = origin.state_at(chance.pick(&marks)).clone();
    let truth = origin.state_at(&head);
    let mut builder = SnapshotBuilder::begin(origin.snapshot(&head).head().clone());
    for record in truth.iter() {
        match chance.below(6) {
            0 => {}
            1 => builder.add([Arc::clone(record), Arc::clone(record)]),
            2 => builder.add(other.get(record.declared.id.as_str()).cloned()),
            _ => builder.add([Arc::clone(record)]),
        }
    }
    // Only what equals the claim gets through, however it came to be.
    if let Ok(snapshot) = builder.finish() {
        assert!(snapshot.state().iter().eq(truth.iter()), "I22: a torn snapshot was verified");
        view.install(snapshot, None, "test", WALL);
    }
}

/// Brings a view to the head, as a follower does that lacks nothing.
fn complete(view: &mut View, origin: &Origin) {
    let head = origin.head();
    if view.position().is_none_or(|at| at.incarnation != head.incarnation) {
        assert_eq!(view.install(origin.snapshot(&head), None, "test", WALL), Outcome::Applied);
    }
    let at = view.position().unwrap().clone();
    for delta in origin.cut(&at, &mut Chance::new(1)) {
        assert_eq!(view.apply(&delta), Outcome::Applied);
    }
    let outcome = view.mark(&origin.bookmark(&head, Duration::ZERO), Instant::default());
    assert_eq!(outcome, Outcome::Applied, "I32: the head proves the view");
    assert_eq!(view.position(), Some(&head));
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn i30_a_view_is_always_a_true_state_of_its_origin(seed: u64, deliveries in vec(delivery(), 0..60)) {
        let mut origin = Origin::new(seed);
        let mut view = View::new(region());
        for delivery in &deliveries {
            deliver(&mut view, &mut origin, delivery);
            assert_true(&view, &origin);
        }
        complete(&mut view, &origin);
        assert_true(&view, &origin);
    }

    #[test]
    fn i34_any_permutation_with_repeats_of_two_publishers_ends_at_the_head(
        seed: u64, steps in 1..25_usize, cuts: [u64; 2], order in vec(any::<prop::sample::Index>(), 0..80),
    ) {
        let mut origin = Origin::new(seed);
        let start = origin.head();
        (0..steps).for_each(|_| origin.step());
        let mut view = View::new(region());
        view.install(origin.snapshot(&start), None, "test", WALL);
        let deltas: Vec<_> =
            cuts.iter().flat_map(|cut| origin.cut(&start, &mut Chance::new(*cut))).collect();
        prop_assume!(!deltas.is_empty());
        for index in &order {
            let delta = index.get(&deltas);
            let expected = verdict(delta, view.position());
            assert_eq!(view.apply(delta), expected);
            assert_true(&view, &origin);
        }
        // Then everything comes again, in the order of either.
        for delta in &deltas {
            assert_ne!(view.apply(delta), Outcome::Gap);
        }
        prop_assert_eq!(view.state().unwrap().digest(), origin.state_at(&origin.head()).digest());
        assert_true(&view, &origin);
    }

    #[test]
    fn each_removal_is_seen_once_however_the_history_is_cut(seed: u64, steps in 1..40_usize, cuts: [u64; 2]) {
        let mut origin = Origin::new(seed);
        let start = origin.head();
        (0..steps).for_each(|_| origin.step());
        let mut view = View::new(region());
        view.install(origin.snapshot(&start), None, "test", WALL);
        let mut deltas: Vec<_> =
            cuts.iter().flat_map(|cut| origin.cut(&start, &mut Chance::new(*cut))).collect();
        deltas.sort_by_key(|delta| (delta.to.revision, delta.from.revision));
        for delta in &deltas {
            assert_ne!(view.apply(delta), Outcome::Gap);
        }
        let mut expected = Vec::new();
        let mut state = origin.state_at(&start).clone();
        for change in &origin.delta(&start, &origin.head()).changes {
            let was = state.apply(change);
            match (change, was) {
                (Change::Remove(gone), _) => expected.push((gone.id.clone(), gone.epoch, gone.reason)),
                (Change::Put(put), Some(was)) if was.epoch != put.epoch => {
                    expected.push((was.declared.id.clone(), was.epoch, RemovalReason::Replaced));
                }
                (Change::Put(_), _) => {}
            }
        }
        let seen: Vec<_> = view.removals().iter().map(|r| (r.id.clone(), r.epoch, r.reason)).collect();
        prop_assert_eq!(seen, expected);
    }
}
