//! What a watcher is sent comes in pieces of bounded size: together they are one moment, whole, and nothing twice (I19).

use std::sync::Arc;

use rollcall_model::testing::{declared, ids, position, region, registered};
use rollcall_model::{
    Card, Cursor, Epoch, Event, Follower, Instant, Next, Outcome, Query, Registration, Revision, Snapshot,
    State, Timestamp, View, limits,
};

use crate::cursor::{followed, names};

const WALL: Timestamp = Timestamp(0);

#[test]
fn a_snapshot_being_paged_is_of_one_moment_while_the_view_moves_on() {
    let all: Vec<_> = ids(limits::SNAPSHOT_PAGE_RECORDS_MAX + 10);
    let record = |nth: usize, revision| {
        let declared = declared(all[nth].as_str());
        Arc::new(registered(declared, Epoch::new(1, Revision(revision)), Revision(revision)))
    };
    let mut state = State::default();
    (0..all.len()).for_each(|nth| drop(state.put(record(nth, 1))));
    let start = position(1, 5);
    let mut holder = View::new(region());
    holder.install(Snapshot::of(region(), start.clone(), state), None, "test", WALL);
    let mut cursor = Cursor::new(Query::default(), None);
    let (mut watcher, mut follower) = (View::new(region()), Follower::new(None));
    let mut seen = Vec::new();
    for revision in 6..12 {
        let events = cursor.advance(&holder, Instant::default());
        seen.extend(names(&events));
        for event in events {
            let next = follower.accept(&mut watcher, event, Instant::default(), WALL);
            assert!(!matches!(next, Next::Restart(_)), "{next:?}");
        }
        let put = rollcall_model::Change::Put(record(revision as usize, revision));
        let (from, to) = (position(1, revision - 1), position(1, revision));
        let delta = Arc::new(rollcall_model::Delta { region: region(), from, to, changes: vec![put] });
        assert_eq!(holder.apply(&delta), Outcome::Applied);
    }
    assert_eq!(seen[..5], ["begin", "page", "page", "end", "delta"]);
    while let Some(event) = cursor.advance(&holder, Instant::default()).into_iter().next() {
        follower.accept(&mut watcher, event, Instant::default(), WALL);
    }
    assert_eq!(watcher.state().unwrap().digest(), holder.state().unwrap().digest());
}

#[test]
fn i19_no_page_is_over_its_limits_and_the_pages_are_everything_once() {
    let card = format!("{{\"name\":\"{}\"}}", "x".repeat(limits::CARD_BYTES_MAX - 64));
    let card = Card::parse(&card).unwrap().0;
    let mut state = State::default();
    let mut all = ids(1_300);
    all.sort();
    for (nth, id) in all.into_iter().enumerate() {
        let mut declared = declared(id.as_str());
        // A stretch of heavy ones, so that both bounds are met.
        declared.card = (300..330).contains(&nth).then(|| card.clone());
        state.put(Arc::new(registered(declared, Epoch::new(1, Revision(1)), Revision(1))));
    }
    let everything = Query::default();
    let (mut after, mut got, mut full) = (None, Vec::<Arc<Registration>>::new(), [false; 2]);
    loop {
        let page = rollcall_model::watch::page(&state, after.as_ref(), &everything);
        let bytes: usize = page.records.iter().map(|record| record.weight_bytes()).sum();
        assert!(bytes <= limits::SNAPSHOT_PAGE_BYTES_MAX, "{bytes} bytes in one page");
        assert!(page.records.len() <= limits::SNAPSHOT_PAGE_RECORDS_MAX);
        full[0] |= page.records.len() == limits::SNAPSHOT_PAGE_RECORDS_MAX;
        full[1] |= bytes > limits::SNAPSHOT_PAGE_BYTES_MAX - limits::CARD_BYTES_MAX - 1_024;
        got.extend(page.records);
        after = page.last;
        if page.is_last {
            break;
        }
    }
    assert!(state.iter().eq(got.iter()));
    assert_eq!(full, [true; 2], "the fixture meets both bounds");
}

#[test]
fn what_came_while_a_watcher_was_busy_is_one_delta_and_a_bounded_one() {
    let (origin, holder, start) = followed(200);
    let mut cursor = Cursor::new(Query::default(), Some(start.clone()));
    let events = cursor.advance(&holder, Instant::default());
    let [Event::Delta(delta)] = events.as_slice() else { panic!("{:?}", names(&events)) };
    assert_eq!((&delta.from, &delta.to), (&start, &origin.head()), "it spans all of them");

    // Far behind, it comes in several.
    let (origin, holder, start) = followed(3_000);
    let mut cursor = Cursor::new(Query::default(), Some(start.clone()));
    let (mut at, mut deltas) = (start, 0);
    while let Some(Event::Delta(delta)) = cursor.advance(&holder, Instant::default()).into_iter().next() {
        assert_eq!(delta.from, at, "they follow from one another");
        (at, deltas) = (delta.to.clone(), deltas + 1);
    }
    assert_eq!(at, origin.head());
    assert!(deltas > 2, "{deltas}");
}
