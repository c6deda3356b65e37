//! The receiving end of a watch under a damaged stream: nothing but a whole, verified snapshot or a delta that
//! continues ever changes the view, and everything else asks for a restart (I22, I33).

use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use rollcall_model::testing::{Chance, Origin, id, region, registration};
use rollcall_model::{
    Event, Follower, Instant, Next, Position, Region, Registration, SnapshotHead, StateDigest, Timestamp,
    View,
};

use crate::cases;
use crate::view::assert_true;

const WALL: Timestamp = Timestamp(0);

/// The events of one snapshot, in pages of at most `many`.
fn snapshot_events(origin: &Origin, at: &Position, many: usize) -> Vec<Event> {
    let snapshot = origin.snapshot(at);
    let records: Vec<Arc<Registration>> = snapshot.state().iter().cloned().collect();
    let mut events = vec![Event::SnapshotBegin(snapshot.head().clone())];
    events.extend(records.chunks(many).map(|page| Event::Page(page.to_vec())));
    events.push(Event::SnapshotEnd(region(), at.clone()));
    events
}

/// A whole stream: a snapshot of some moment, then the deltas up to the head, then the bookmark.
fn stream(origin: &Origin, chance: &mut Chance) -> Vec<Event> {
    let marks = origin.marks(&origin.head().incarnation);
    let start = chance.pick(&marks).clone();
    let mut events = snapshot_events(origin, &start, 1 + chance.below(4));
    events.extend(origin.cut(&start, chance).into_iter().map(Event::Delta));
    events.push(Event::Bookmark(origin.bookmark(&origin.head(), Duration::ZERO)));
    events
}

/// Damage to a stream.
#[derive(Clone, Debug)]
enum Damage {
    Lose(prop::sample::Index),
    Repeat(prop::sample::Index),
    Swap(prop::sample::Index, prop::sample::Index),
    Lie(prop::sample::Index),
    Tear(prop::sample::Index),
    /// Another stream begins in the middle of this one.
    Insert(prop::sample::Index, u64),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        at().prop_map(Damage::Lose),
        at().prop_map(Damage::Repeat),
        (at(), at()).prop_map(|(a, b)| Damage::Swap(a, b)),
        at().prop_map(Damage::Lie),
        at().prop_map(Damage::Tear),
        (at(), any::<u64>()).prop_map(|(at, seed)| Damage::Insert(at, seed)),
    ]
}

fn spoil(events: &mut Vec<Event>, damage: &Damage, origin: &Origin) {
    if events.is_empty() {
        return;
    }
    match damage {
        Damage::Lose(at) => drop(events.remove(at.index(events.len()))),
        Damage::Repeat(at) => {
            let at = at.index(events.len());
            events.insert(at, events[at].clone());
        }
        Damage::Swap(a, b) => {
            let (a, b) = (a.index(events.len()), b.index(events.len()));
            events.swap(a, b);
        }
        Damage::Lie(at) => match at.get_mut(events) {
            Event::SnapshotBegin(head) => head.digest = head.digest.with(1),
            Event::Bookmark(bookmark) => bookmark.count += 1,
            Event::Page(_) | Event::SnapshotEnd(..) | Event::Delta(_) | Event::Resync(..) => {}
        },
        Damage::Tear(at) => match at.get_mut(events) {
            Event::Page(records) => drop(records.pop()),
            Event::SnapshotBegin(_)
            | Event::Bookmark(_)
            | Event::SnapshotEnd(..)
            | Event::Delta(_)
            | Event::Resync(..) => {}
        },
        Damage::Insert(at, seed) => {
            let at = at.index(events.len());
            drop(events.splice(at..at, stream(origin, &mut Chance::new(*seed))));
        }
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn i22_a_damaged_stream_never_makes_an_untrue_state(
        seed: u64, steps in 1..30_usize, restores in 0..3_usize, damages in vec(damage(), 0..6), loaded: bool,
    ) {
        let mut origin = Origin::new(seed);
        for restore in 0..=restores {
            (0..steps).for_each(|_| origin.step());
            if restore < restores {
                origin.begin_incarnation();
            }
        }
        let mut view = View::new(region());
        if loaded {
            let start = origin.marks(&origin.head().incarnation).remove(0);
            view.install(origin.snapshot(&start), None, "test", WALL);
        }
        let mut events = stream(&origin, &mut Chance::new(seed));
        damages.iter().for_each(|damage| spoil(&mut events, damage, &origin));
        let mut follower = Follower::new(None);
        for event in events {
            let before = view.position().cloned();
            match follower.accept(&mut view, event, Instant::default(), WALL) {
                Next::Publish => {}
                Next::Nothing | Next::Older => prop_assert_eq!(view.position(), before.as_ref()),
                Next::Restart(_) => {
                    prop_assert_eq!(view.position(), before.as_ref(), "the view is as it was");
                    break;
                }
            }
            assert_true(&view, &origin);
        }
        // The stream that is opened again is whole.
        let mut follower = Follower::new(Some("restarted"));
        for event in stream(&origin, &mut Chance::new(!seed)) {
            let next = follower.accept(&mut view, event, Instant::default(), WALL);
            prop_assert!(!matches!(next, Next::Restart(_)), "{:?}", next);
        }
        assert_true(&view, &origin);
        prop_assert_eq!(view.position(), Some(&origin.head()));
    }
}

/// A view with some records, the origin it came from, and the head of an honest snapshot of it.
fn holding() -> (View, Origin, SnapshotHead) {
    let mut origin = Origin::new(11);
    (0..20).for_each(|_| origin.change());
    let head = origin.head();
    assert!(origin.state_at(&head).count() >= 3, "the fixture holds something");
    let mut view = View::new(region());
    view.install(origin.snapshot(&head), None, "test", WALL);
    (0..3).for_each(|_| origin.change());
    let head = origin.snapshot(&origin.head()).head().clone();
    (view, origin, head)
}

fn last_of(view: &mut View, events: Vec<Event>) -> Next {
    let mut follower = Follower::new(None);
    let mut last = Next::Nothing;
    for event in events {
        last = follower.accept(view, event, Instant::default(), WALL);
    }
    last
}

fn refused(events: impl FnOnce(&Origin, SnapshotHead) -> Vec<Event>, reason: &'static str) {
    let (mut view, origin, head) = holding();
    let (position, digest, resyncs) =
        (view.position().cloned(), view.state().unwrap().digest(), view.resyncs());
    assert_eq!(last_of(&mut view, events(&origin, head)), Next::Restart(reason));
    assert_eq!((view.position(), view.resyncs()), (position.as_ref(), resyncs));
    assert_eq!(view.state().unwrap().digest(), digest);
}

#[test]
fn i22_an_empty_snapshot_of_a_region_that_is_not_empty_changes_nothing() {
    let end = |head: &SnapshotHead| Event::SnapshotEnd(region(), head.position.clone());
    refused(|_, head| vec![Event::SnapshotBegin(head.clone()), end(&head)], "snapshot_count");
    // It even admits to be empty, and its digest is another's.
    refused(
        |_, head| vec![Event::SnapshotBegin(SnapshotHead { count: 0, ..head.clone() }), end(&head)],
        "snapshot_digest",
    );
}

#[test]
fn i22_a_short_a_long_and_an_untrue_snapshot_change_nothing() {
    refused(
        |origin, head| {
            let mut events = snapshot_events(origin, &head.position, 1);
            events.remove(1);
            events
        },
        "snapshot_count",
    );
    refused(
        |origin, head| {
            let mut events = snapshot_events(origin, &head.position, 1);
            let extra = registration("not/of/this", 1, 1);
            events.insert(1, Event::Page(vec![Arc::new(extra)]));
            events
        },
        "snapshot_count",
    );
    refused(
        |origin, head| {
            let mut events = snapshot_events(origin, &head.position, 1);
            events[0] = Event::SnapshotBegin(SnapshotHead { digest: StateDigest::EMPTY, ..head });
            events
        },
        "snapshot_digest",
    );
}

#[test]
fn i22_a_page_or_an_end_without_a_beginning_asks_for_a_restart() {
    refused(|_, _| vec![Event::Page(Vec::new())], "page_without_snapshot");
    refused(|_, head| vec![Event::SnapshotEnd(region(), head.position)], "page_without_snapshot");
}

#[test]
fn i22_a_snapshot_of_another_region_changes_nothing() {
    refused(
        |origin, head| {
            let mut events = snapshot_events(origin, &head.position, 4);
            events[0] = Event::SnapshotBegin(SnapshotHead { region: Region::parse("us").unwrap(), ..head });
            events
        },
        "new_incarnation",
    );
}

#[test]
fn i33_a_gap_and_a_wrong_digest_ask_for_a_restart() {
    refused(
        |origin, head| {
            let marks = origin.marks(&head.position.incarnation);
            let last_two = &marks[marks.len() - 2..];
            vec![Event::Delta(origin.delta(&last_two[0], &last_two[1]))]
        },
        "gap",
    );
    let (mut view, _, _) = holding();
    let mut untrue = view.bookmark(Instant::default()).unwrap();
    untrue.digest = StateDigest::EMPTY;
    assert_eq!(last_of(&mut view, vec![Event::Bookmark(untrue)]), Next::Restart("digest"));
}

#[test]
fn a_second_beginning_drops_what_came_of_the_first() {
    for resync in [None, Some("history_passed")] {
        let (mut view, origin, head) = holding();
        let old = view.position().unwrap().clone();
        let mut events = snapshot_events(&origin, &old, 2);
        events.truncate(2);
        // It is in the first, and not in the second.
        events.push(Event::Page(vec![Arc::new(registration("not/of/this", 1, 1))]));
        events.extend(resync.map(|reason| Event::Resync(region(), reason)));
        events.extend(snapshot_events(&origin, &head.position, 2));
        assert_eq!(last_of(&mut view, events), Next::Publish);
        assert_eq!(view.position(), Some(&head.position));
        let reason = view.last_resync().map(|resync| resync.reason);
        assert_eq!(reason, resync.or(Some("started")));
    }
}

#[test]
fn i31_a_whole_snapshot_that_is_older_changes_nothing_and_is_no_fault() {
    let mut origin = Origin::with_ids(5, vec![id("a/b/c")]);
    origin.change();
    let old = origin.head();
    origin.change();
    let mut view = View::new(region());
    view.install(origin.snapshot(&origin.head()), None, "test", WALL);
    assert_eq!(last_of(&mut view, snapshot_events(&origin, &old, 1)), Next::Nothing);
    assert_eq!(view.position(), Some(&origin.head()));
}

#[test]
fn i17_a_source_of_an_older_history_changes_nothing_and_is_said_to_be_one() {
    let mut origin = Origin::with_ids(5, vec![id("a/b/c")]);
    origin.change();
    let old = origin.head();
    let bookmark = origin.bookmark(&old, Duration::ZERO);
    origin.begin_incarnation();
    let mut view = View::new(region());
    view.install(origin.snapshot(&origin.head()), None, "test", WALL);
    assert_eq!(last_of(&mut view, snapshot_events(&origin, &old, 1)), Next::Nothing);
    assert_eq!(last_of(&mut view, vec![Event::Bookmark(bookmark)]), Next::Older);
    assert_eq!(view.position(), Some(&origin.head()));
}
