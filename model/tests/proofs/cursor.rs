//! A watcher's place in a view that moves, is cut off, is restored and is changed for another holder: what it is sent
//! always ends at the holder's state, and a delta never crosses a gap (I17, I19, I26).

use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use rollcall_model::testing::{Chance, Origin, declared, position, region, registered};
use rollcall_model::{
    Card, Cursor, Epoch, Event, Follower, Incarnation, Instant, Next, Outcome, Position, Query, Relation,
    Revision, Snapshot, State, Timestamp, View, limits,
};

use crate::cases;
use crate::view::assert_true;

const WALL: Timestamp = Timestamp(0);

/// One thing that happens around a watcher.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    /// The origin goes on, and one of the two holders with it.
    Steps(u8, bool),
    /// The origin goes on alone.
    Lag(u8),
    /// One holder takes what it lacks, as some publisher cuts it.
    CatchUp(u64, bool),
    /// One holder loads anew at the head: its history is gone.
    Reload(bool),
    /// The origin is restored; one holder knows it already.
    Restore(bool),
    /// The watcher takes a few steps.
    Advance(u8),
    /// The watcher connects again, to one of the two, from where it is.
    Reconnect(bool),
}

pub(crate) fn happening() -> impl Strategy<Value = Happening> {
    let which = any::<bool>;
    prop_oneof![
        4 => (1..4_u8, which()).prop_map(|(many, which)| Happening::Steps(many, which)),
        1 => (1..4_u8).prop_map(Happening::Lag),
        2 => (any::<u64>(), which()).prop_map(|(seed, which)| Happening::CatchUp(seed, which)),
        1 => which().prop_map(Happening::Reload),
        1 => which().prop_map(Happening::Restore),
        6 => (1..5_u8).prop_map(Happening::Advance),
        1 => which().prop_map(Happening::Reconnect),
    ]
}

/// An origin, two holders that follow it at their own pace, and the place of one watcher in one of them.
pub(crate) struct World {
    pub(crate) origin: Origin,
    holders: [View; 2],
    at: usize,
    query: Query,
    cursor: Cursor,
}

impl World {
    pub(crate) fn new(seed: u64, query: Query) -> Self {
        let origin = Origin::new(seed);
        let mut holders = [View::new(region()), View::new(region())];
        for holder in &mut holders {
            holder.install(origin.snapshot(&origin.head()), None, "test", WALL);
        }
        Self { origin, holders, at: 0, cursor: Cursor::new(query.clone(), None), query }
    }

    pub(crate) fn holder(&self) -> &View {
        &self.holders[self.at]
    }

    /// Brings one holder to the origin's head.
    fn catch_up(&mut self, which: usize, seed: u64) {
        let (origin, holder) = (&self.origin, &mut self.holders[which]);
        let head = origin.head();
        let at = holder.position().unwrap().clone();
        if at.incarnation != head.incarnation {
            assert_eq!(holder.install(origin.snapshot(&head), None, "test", WALL), Outcome::Applied);
        }
        let at = holder.position().unwrap().clone();
        for delta in origin.cut(&at, &mut Chance::new(seed)) {
            assert_eq!(holder.apply(&delta), Outcome::Applied);
        }
        let bookmark = origin.bookmark(&head, Duration::ZERO);
        assert_eq!(holder.mark(&bookmark, Instant::default()), Outcome::Applied);
    }

    /// Gives back what the watcher is sent; `position` is where it is now.
    pub(crate) fn happen(&mut self, happening: &Happening, position: Option<&Position>) -> Vec<Event> {
        match *happening {
            Happening::Steps(many, which) => {
                (0..many).for_each(|_| self.origin.step());
                self.catch_up(usize::from(which), u64::from(many));
            }
            Happening::Lag(many) => (0..many).for_each(|_| self.origin.step()),
            Happening::CatchUp(seed, which) => self.catch_up(usize::from(which), seed),
            Happening::Reload(which) => {
                let snapshot = self.origin.snapshot(&self.origin.head());
                self.holders[usize::from(which)].install(snapshot, None, "test", WALL);
            }
            Happening::Restore(which) => {
                self.origin.begin_incarnation();
                self.catch_up(usize::from(which), 0);
            }
            Happening::Advance(many) => return (0..many).flat_map(|_| self.advance()).collect(),
            Happening::Reconnect(which) => {
                self.at = usize::from(which);
                self.cursor = Cursor::new(self.query.clone(), position.cloned());
            }
        }
        Vec::new()
    }

    pub(crate) fn advance(&mut self) -> Vec<Event> {
        let events = self.cursor.advance(&self.holders[self.at], Instant::default());
        for event in &events {
            if let Event::Page(records) = event {
                assert!(!records.is_empty() && records.len() <= limits::SNAPSHOT_PAGE_RECORDS_MAX);
            }
        }
        events
    }

    /// Everything settles: both holders reach the head, and the watcher is sent all there is.
    pub(crate) fn settle(&mut self) -> Vec<Event> {
        self.catch_up(0, 1);
        self.catch_up(1, 2);
        let mut events = Vec::new();
        for _ in 0..1_000 {
            let more = self.advance();
            if more.is_empty() {
                return events;
            }
            events.extend(more);
        }
        panic!("a watcher of a view that stands still is never told to wait");
    }
}

/// Whether a watcher that was told to wait has all that its holder has, unless it is ahead of it.
fn assert_caught_up(watcher: &View, holder: &View) {
    let (Some(own), Some(theirs)) = (watcher.position(), holder.position()) else { return };
    match own.relation(theirs) {
        Relation::Same(std::cmp::Ordering::Greater) | Relation::NewerHistory => {}
        Relation::Same(_) | Relation::OlderHistory | Relation::Conflict => {
            assert_eq!(own, theirs, "I19: told to wait, and not at the holder's position");
        }
    }
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn i19_a_watcher_always_ends_at_its_holders_state(seed: u64, happenings in vec(happening(), 0..60)) {
        let mut world = World::new(seed, Query::default());
        let (mut watcher, mut follower) = (View::new(region()), Follower::new(None));
        let mut accept = |watcher: &mut View, origin: &Origin, events: Vec<Event>| {
            for event in events {
                let before = watcher.position().cloned();
                let next = follower.accept(watcher, event, Instant::default(), WALL);
                assert!(!matches!(next, Next::Restart(_)), "I33: an honest stream led to {next:?}");
                assert_true(watcher, origin);
                // I17: what a client knows never goes back, whichever holder it asks.
                if let (Some(was), Some(is)) = (before, watcher.position()) {
                    let onward = matches!(
                        was.relation(is),
                        Relation::OlderHistory | Relation::Same(std::cmp::Ordering::Less | std::cmp::Ordering::Equal)
                    );
                    assert!(onward, "I17: {was} went back to {is}");
                }
            }
        };
        for happening in &happenings {
            let position = watcher.position().cloned();
            let events = world.happen(happening, position.as_ref());
            let waits = matches!(happening, Happening::Advance(_)) && events.is_empty();
            accept(&mut watcher, &world.origin, events);
            if waits {
                assert_caught_up(&watcher, world.holder());
            }
        }
        let events = world.settle();
        accept(&mut watcher, &world.origin, events);
        prop_assert_eq!(watcher.position(), Some(&world.origin.head()));
        assert_true(&watcher, &world.origin);
    }
}

/// An origin with some history, and a holder of all of it.
pub(crate) fn followed(steps: usize) -> (Origin, View, Position) {
    let mut origin = Origin::new(21);
    let start = origin.head();
    let mut holder = View::new(region());
    holder.install(origin.snapshot(&start), None, "test", WALL);
    (0..steps).for_each(|_| origin.change());
    for delta in origin.cut(&start, &mut Chance::new(0)) {
        holder.apply(&delta);
    }
    (origin, holder, start)
}

pub(crate) fn names(events: &[Event]) -> Vec<&'static str> {
    let name = |event: &Event| match event {
        Event::SnapshotBegin(_) => "begin",
        Event::Page(_) => "page",
        Event::SnapshotEnd(..) => "end",
        Event::Delta(_) => "delta",
        Event::Bookmark(_) => "bookmark",
        Event::Resync(_, reason) => reason,
    };
    events.iter().map(name).collect()
}

fn advance(cursor: &mut Cursor, view: &View) -> Vec<&'static str> {
    names(&cursor.advance(view, Instant::default()))
}

/// Two steps: what is told, and the snapshot that follows.
fn twice(cursor: &mut Cursor, view: &View, now: Instant) -> Vec<&'static str> {
    let mut both = names(&cursor.advance(view, now));
    both.extend(names(&cursor.advance(view, now)));
    both
}

#[test]
fn a_watch_on_a_view_that_was_never_loaded_waits() {
    for since in [None, Some(position(1, 5))] {
        let mut cursor = Cursor::new(Query::default(), since);
        assert!(advance(&mut cursor, &View::new(region())).is_empty());
        let (_, holder, _) = followed(3);
        assert!(!advance(&mut cursor, &holder).is_empty(), "and begins once it is loaded");
    }
}

#[test]
fn i17_a_position_ahead_of_the_holder_waits_and_is_sent_nothing_older() {
    let (mut origin, mut holder, _) = followed(3);
    let behind = origin.head();
    (0..2).for_each(|_| origin.change());
    let mut cursor = Cursor::new(Query::default(), Some(origin.head()));
    for _ in 0..3 {
        assert!(advance(&mut cursor, &holder).is_empty());
    }
    for delta in origin.cut(&behind, &mut Chance::new(0)) {
        holder.apply(&delta);
    }
    assert_eq!(advance(&mut cursor, &holder), ["bookmark"]);
    let from = origin.head();
    origin.change();
    holder.apply(&origin.delta(&from, &origin.head()));
    assert_eq!(advance(&mut cursor, &holder), ["delta"]);
}

#[test]
fn i17_a_holder_that_stays_behind_says_so_and_sends_its_snapshot_once_it_is_no_older() {
    let at = |millis: u64| Instant(Duration::from_millis(millis));
    let (mut origin, mut holder, _) = followed(3);
    let behind = origin.head();
    (0..2).for_each(|_| origin.change());
    let mut cursor = Cursor::new(Query::default(), Some(origin.head()));
    assert!(cursor.advance(&holder, at(5_000)).is_empty());
    assert_eq!(cursor.due(), Some(at(6_000)));
    assert!(cursor.advance(&holder, at(5_999)).is_empty());
    assert_eq!(names(&cursor.advance(&holder, at(6_000))), ["behind"]);
    assert!(cursor.advance(&holder, at(14_999)).is_empty());
    assert_eq!(cursor.due(), Some(at(15_000)));
    let mut forgetful = cursor.clone();
    for delta in origin.cut(&behind, &mut Chance::new(0)) {
        holder.apply(&delta);
    }
    let Some(Event::SnapshotBegin(head)) = cursor.advance(&holder, at(14_999)).pop() else {
        panic!("no snapshot")
    };
    assert_eq!(head.position, origin.head());
    assert_eq!(cursor.due(), None);
    // What is never reached is not waited for for ever.
    let (_, lagging, _) = followed(3);
    assert_eq!(names(&forgetful.advance(&lagging, at(15_000))), ["begin"]);
    let mut late = Cursor::new(Query::default(), Some(origin.head()));
    assert!(late.advance(&lagging, at(0)).is_empty());
    assert_eq!(twice(&mut late, &lagging, at(10_000)), ["behind", "begin"]);
}

#[test]
fn a_position_that_a_current_holder_cannot_have_missed_is_not_waited_for() {
    let (origin, mut holder, start) = followed(3);
    let at = |ahead| Position::new(start.incarnation.clone(), Revision(origin.head().revision.0 + ahead));
    let (far, near) = (at(1_000_000), at(50_000));
    let begin = |since: &Position, holder: &View| {
        twice(&mut Cursor::new(Query::default(), Some(since.clone())), holder, Instant::default())
    };
    assert!(begin(&far, &holder).is_empty(), "nobody knows how far behind this one is");
    holder.mark(&origin.bookmark(&origin.head(), Duration::ZERO), Instant::default());
    assert_eq!(begin(&far, &holder), ["unknown_position", "begin"]);
    assert!(begin(&near, &holder).is_empty(), "it may come within moments");
}

#[test]
fn i31_a_position_of_another_history_is_told_to_resync() {
    let (mut origin, mut holder, start) = followed(3);
    let old = origin.head();
    let own = Cursor::new(
        Query::default(),
        Some(Position::new(rollcall_model::testing::incarnation(7), start.revision)),
    );
    // A newer one may be what this holder will learn of: nothing older is sent meanwhile.
    assert!(advance(&mut own.clone(), &holder).is_empty());
    let conflict =
        Position::new(Incarnation::new(start.incarnation.ordinal(), "other").unwrap(), start.revision);
    assert_eq!(
        twice(&mut Cursor::new(Query::default(), Some(conflict)), &holder, Instant::default()),
        ["new_incarnation", "begin"]
    );
    origin.begin_incarnation();
    holder.install(origin.snapshot(&origin.head()), None, "test", WALL);
    let mut cursor = Cursor::new(Query::default(), Some(old));
    assert_eq!(twice(&mut cursor, &holder, Instant::default()), ["new_incarnation", "begin"]);
}

#[test]
fn a_position_inside_the_history_costs_deltas_and_not_a_snapshot() {
    let (origin, holder, start) = followed(6);
    let marks = origin.marks(&start.incarnation);
    for (behind, mark) in marks.iter().rev().enumerate() {
        let mut cursor = Cursor::new(Query::default(), Some(mark.clone()));
        let events = advance(&mut cursor, &holder);
        assert!(events.iter().all(|event| ["delta", "bookmark"].contains(event)), "{behind}: {events:?}");
    }
}

#[test]
fn i17_what_another_was_given_is_taken_only_where_it_comes_next() {
    let (_, holder, start) = followed(6);
    let here = || Cursor::new(Query::default(), Some(start.clone()));
    let (mut first, mut second, mut starting) = (here(), here(), here());
    // Both take what there is; only then do they follow.
    for cursor in [&mut first, &mut second] {
        while !cursor.advance(&holder, Instant::default()).is_empty() {}
    }
    let (mut origin, mut holder) = (Origin::new(21), holder);
    (0..6).for_each(|_| origin.change());
    let before = origin.head();
    (0..3).for_each(|_| origin.change());
    for delta in origin.cut(&before, &mut Chance::new(0)) {
        holder.apply(&delta);
    }
    let events = first.advance(&holder, Instant::default());
    let [Event::Delta(delta)] = events.as_slice() else { panic!("{events:?}") };
    assert!(!starting.takes(delta), "it has not begun");
    assert!(second.takes(delta));
    assert_eq!((second.following(), first.following()), (Some(&delta.to), Some(&delta.to)));
    assert!(!second.takes(delta), "a second time it is no news");
    assert_eq!(second.following(), Some(&delta.to), "and leads nobody back");
}

#[test]
fn i26_only_the_watcher_that_falls_behind_the_history_is_told_to_resync() {
    let heavy = |nth: u64| {
        let json = format!("{{\"name\":\"{nth}{}\"}}", "x".repeat(limits::CARD_BYTES_MAX - 64));
        let mut declared = declared("a/b/c");
        declared.card = Some(Card::from_parts(&json, ""));
        Arc::new(registered(declared, Epoch::new(1, Revision(nth)), Revision(nth)))
    };
    let start = position(1, 1);
    let mut holder = View::new(region());
    holder.install(Snapshot::of(region(), start.clone(), State::default()), None, "test", WALL);
    let mut slow = Cursor::new(Query::default(), Some(start.clone()));
    let mut quick = slow.clone();
    assert_eq!(advance(&mut slow, &holder), ["bookmark"]);
    let steps = (limits::HISTORY_BYTES_MAX / limits::CARD_BYTES_MAX) as u64 + 16;
    for revision in 2..steps {
        holder.apply(&Arc::new(rollcall_model::Delta {
            region: region(),
            from: position(1, revision - 1),
            to: position(1, revision),
            changes: vec![rollcall_model::Change::Put(heavy(revision))],
        }));
        assert!(advance(&mut quick, &holder).contains(&"delta"), "who keeps up never notices");
    }
    assert!(holder.history().unwrap().base().revision > start.revision, "the history was cut");
    assert!(!slow.takes_snapshot(&holder));
    assert_eq!(advance(&mut slow, &holder), ["history_passed"]);
    assert!(slow.takes_snapshot(&holder), "and may have to wait for its turn");
    assert_eq!(advance(&mut slow, &holder), ["begin"]);
    assert_eq!(advance(&mut slow, &holder), ["page", "end"]);
    assert_eq!(advance(&mut slow, &holder), ["bookmark"]);
}

#[test]
fn i17_a_watcher_that_began_with_a_fresher_view_is_not_led_back_by_an_older_one() {
    let (mut origin, mut holder, _) = followed(3);
    let older = holder.clone();
    let from = origin.head();
    origin.change();
    holder.apply(&origin.delta(&from, &origin.head()));
    let mut cursor = Cursor::new(Query::default(), None);
    while !cursor.is_following() {
        assert!(!advance(&mut cursor, &holder).is_empty());
    }
    for _ in 0..2 {
        assert!(advance(&mut cursor, &older).is_empty(), "nothing until the view has come so far");
    }
    let from = origin.head();
    origin.change();
    let delta = origin.delta(&from, &origin.head());
    holder.apply(&delta);
    assert_eq!(cursor.advance(&holder, Instant::default()), [Event::Delta(delta)], "and then what is new");
    origin.begin_incarnation();
    holder.install(origin.snapshot(&origin.head()), None, "test", WALL);
    let mut cursor = Cursor::new(Query::default(), None);
    while !cursor.is_following() {
        assert!(!advance(&mut cursor, &holder).is_empty());
    }
    assert!(advance(&mut cursor, &older).is_empty(), "nor by one of an older history");
}
