//! Single facts about a view, each with the least that shows it.

use std::sync::Arc;
use std::time::Duration;

use rollcall_model::testing::{Origin, id, position, region, registration, removal};
use rollcall_model::{
    Bookmark, Change, Delta, Heard, Incarnation, Instant, Outcome, Position, Revision, Snapshot, State,
    StateDigest, Timestamp, View, limits,
};

const WALL: Timestamp = Timestamp(0);

fn loaded() -> View {
    let mut view = View::new(region());
    let mut origin = Origin::with_ids(3, vec![id("a/b/c")]);
    origin.change();
    view.install(origin.snapshot(&origin.head()), None, "test", WALL);
    view
}

#[test]
fn i22_a_view_that_was_never_loaded_is_not_empty_but_unknown() {
    let view = View::new(region());
    assert!(
        view.state().is_none() && view.position().is_none() && view.bookmark(Instant::default()).is_none()
    );
    assert!(view.snapshot().is_none() && view.history().is_none());
    assert_eq!(view.age(Instant::default()), None);
}

#[test]
fn i22_a_snapshot_of_an_older_history_changes_nothing_not_even_the_removals() {
    let mut origin = Origin::with_ids(3, vec![id("a/b/c")]);
    let old = origin.head();
    origin.begin_incarnation();
    let start = origin.head();
    let mut view = View::new(region());
    view.install(origin.snapshot(&start), None, "test", WALL);
    (0..20).for_each(|_| origin.change());
    view.apply(&origin.delta(&start, &origin.head()));
    let removals = view.removals().clone();
    assert!(!removals.is_empty(), "the fixture has removals");
    assert_eq!(view.install(origin.snapshot(&old), None, "test", WALL), Outcome::Duplicate);
    assert_eq!((view.removals(), view.resyncs()), (&removals, 0));
    assert_eq!(view.position(), Some(&origin.head()));
    // A newer one has removals of its own.
    origin.begin_incarnation();
    assert_eq!(view.install(origin.snapshot(&origin.head()), None, "test", WALL), Outcome::Applied);
    assert!(view.removals().is_empty());
}

#[test]
fn i33_a_delta_that_does_not_continue_changes_nothing() {
    let mut view = loaded();
    let at = view.position().unwrap().clone();
    let ahead = Position::new(at.incarnation.clone(), Revision(at.revision.0 + 1));
    let to = Position::new(at.incarnation.clone(), Revision(at.revision.0 + 2));
    let gone = removal("a/b/c", 1, to.revision.0);
    let delta = Delta { region: region(), from: ahead, to, changes: vec![Change::Remove(Arc::new(gone))] };
    let digest = view.state().unwrap().digest();
    assert_eq!(view.apply(&Arc::new(delta)), Outcome::Gap);
    assert_eq!((view.position(), view.state().unwrap().digest()), (Some(&at), digest));
    assert_ne!(digest, StateDigest::EMPTY);
}

#[test]
fn i31_a_delta_out_of_another_history_changes_nothing() {
    let mut view = loaded();
    let at = view.position().unwrap().clone();
    let to = Position::new(at.incarnation.clone(), Revision(at.revision.0 + 9));
    let put = Change::Put(Arc::new(registration("x/y/z", 9, to.revision.0)));
    // It claims to lead from another incarnation into this one, at a revision that would fit.
    let from = Position::new(position(9, 1).incarnation, at.revision);
    let delta = Arc::new(Delta { region: region(), from, to, changes: vec![put] });
    assert_eq!(view.apply(&delta), Outcome::Gap);
    assert_eq!(view.position(), Some(&at));
}

#[test]
fn f52_two_histories_with_one_ordinal_are_never_mixed() {
    let mut view = loaded();
    let at = view.position().unwrap().clone();
    let other = |by| {
        Position::new(
            Incarnation::new(at.incarnation.ordinal(), "twin").unwrap(),
            Revision(at.revision.0 + by),
        )
    };
    let put = Change::Put(Arc::new(registration("x/y/z", 9, at.revision.0 + 1)));
    let delta = Arc::new(Delta { region: region(), from: other(0), to: other(1), changes: vec![put] });
    assert_eq!(view.apply(&delta), Outcome::Superseded);
    let bookmark = Bookmark { position: other(0), ..view.bookmark(Instant::default()).unwrap() };
    assert_eq!(view.mark(&bookmark, Instant::default()), Outcome::Superseded);
    assert_eq!(view.position(), Some(&at));
}

#[test]
fn i21_a_resync_into_the_same_or_a_newer_history_keeps_the_age_that_bounds_it() {
    let mut origin = Origin::with_ids(3, vec![id("a/b/c")]);
    let mut view = View::new(region());
    view.install(origin.snapshot(&origin.head()), None, "test", WALL);
    let second = |n| Instant(Duration::from_secs(n));
    view.mark(&origin.bookmark(&origin.head(), Duration::from_secs(1)), second(10));
    origin.change();
    view.install(origin.snapshot(&origin.head()), None, "test", WALL);
    assert_eq!(view.age(second(12)), Some(Duration::from_secs(3)));
    origin.begin_incarnation();
    view.install(origin.snapshot(&origin.head()), None, "test", WALL);
    assert_eq!(view.age(second(13)), Some(Duration::from_secs(4)), "founded after the old one was the head");
    let twin = Incarnation::new(origin.head().incarnation.ordinal(), "twin").unwrap();
    let (_, state) = origin.snapshot(&origin.head()).into_parts();
    let strange = Snapshot::of(region(), Position::new(twin, Revision(1)), state);
    view.install(strange, None, "test", WALL);
    assert!(
        view.age(second(13)) > Some(Duration::from_secs(3_600)),
        "nobody said that a stranger's is the head"
    );
}

#[test]
fn i21_an_older_statement_never_makes_the_age_look_younger() {
    let mut view = loaded();
    let at = view.position().unwrap().clone();
    let bookmark = |age| Bookmark { age: Some(age), ..loaded().bookmark(Instant::default()).unwrap() };
    let second = |n| Instant(Duration::from_secs(n));
    let seconds = Duration::from_secs;
    assert_eq!(view.mark(&bookmark(seconds(2)), second(10)), Outcome::Applied);
    assert_eq!(view.age(second(11)), Some(seconds(3)));
    // The same position again, by a slower way: what is known already stands.
    assert_eq!(view.mark(&bookmark(seconds(9)), second(12)), Outcome::Applied);
    assert_eq!(view.age(second(12)), Some(seconds(4)));
    assert_eq!(view.mark(&bookmark(seconds(1)), second(12)), Outcome::Applied);
    assert_eq!(view.age(second(12)), Some(seconds(1)));
    assert_eq!(view.position(), Some(&at));
    let heard = Heard { at: second(5), age: seconds(7) };
    assert_eq!(heard.age(second(4)), seconds(7), "a clock that stands behind adds nothing");
}

#[test]
fn i21_a_state_whose_age_nobody_knows_is_not_made_older_by_the_next_holder() {
    let second = |n| Instant(Duration::from_secs(n));
    // Installed from a log: nothing says yet how old it is.
    let first = loaded();
    let mut next = loaded();
    let told = first.bookmark(second(1)).unwrap();
    assert_eq!(next.mark(&told, second(1)), Outcome::Applied);
    let mut last = loaded();
    assert_eq!(last.mark(&next.bookmark(second(2)).unwrap(), second(2)), Outcome::Applied);
    for view in [&first, &next, &last] {
        assert_eq!(view.age(second(60)), first.age(second(0)), "unknown, and no older than that");
    }
    // Whoever knows it already goes on knowing it.
    let mut known = loaded();
    known.mark(&Bookmark { age: Some(Duration::from_secs(2)), ..told.clone() }, second(10));
    assert_eq!(known.mark(&told, second(12)), Outcome::Applied);
    assert_eq!(known.age(second(12)), Some(Duration::from_secs(4)));
}

#[test]
fn i23_a_state_whose_age_nobody_ever_says_is_too_old_once_it_was_here_for_the_limit() {
    let hour = |n: u64| Instant(Duration::from_secs(3600 * n));
    let mut view = loaded();
    for n in 0..=24 {
        assert_eq!(view.mark(&loaded().bookmark(hour(n)).unwrap(), hour(n)), Outcome::Applied);
        assert_eq!(view.age(hour(n)), Some(limits::AGE_MAX), "{n} h: as old as may be used");
    }
    assert_eq!(view.age(hour(25)), Some(Duration::from_secs(3600 * 25)));
    // Reading it anew makes it no younger; who says its age does.
    let head = view.position().unwrap().clone();
    let snapshot = Snapshot::of(view.region().clone(), head, view.state().unwrap().clone());
    assert_eq!(view.install(snapshot, None, "test", Timestamp(0)), Outcome::Applied);
    assert_eq!(view.age(hour(26)), Some(Duration::from_secs(3600 * 26)));
    let told = Bookmark { age: Some(Duration::from_secs(2)), ..view.bookmark(hour(26)).unwrap() };
    assert_eq!(view.mark(&told, hour(26)), Outcome::Applied);
    assert_eq!(view.age(hour(26)), Some(Duration::from_secs(2)));
}

#[test]
fn a_view_that_nobody_follows_lets_go_of_what_is_replaced() {
    let follow = |mut view: View| {
        let first = Arc::new(registration("a/b/c", 1, 1));
        let was = Arc::downgrade(&first);
        let mut state = State::default();
        state.put(first);
        view.install(Snapshot::of(region(), position(1, 1), state), None, "test", WALL);
        let changes = vec![Change::Put(Arc::new(registration("a/b/c", 1, 2)))];
        let delta = Delta { region: region(), from: position(1, 1), to: position(1, 2), changes };
        assert_eq!(view.apply(&Arc::new(delta)), Outcome::Applied);
        (view, was)
    };
    let (followed, was) = follow(View::new(region()));
    assert!(was.upgrade().is_some(), "a watcher behind it is told what went");
    let (view, was) = follow(View::new(region()).without_history());
    assert!(was.upgrade().is_none());
    assert!(view.history().is_some_and(|history| history.since(&position(1, 1)).is_none()));
    assert_eq!(view.bookmark(Instant::default()), followed.bookmark(Instant::default()));
}
