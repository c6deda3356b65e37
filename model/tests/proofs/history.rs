//! A history gives exactly what came after a position, for every position, and stays within its bounds.

use std::sync::Arc;

use proptest::prelude::*;
use rollcall_model::history::Step;
use rollcall_model::testing::{Chance, Origin, any_query, declared, position, region, registered};
use rollcall_model::{
    Card, Change, Cursor, Delta, Epoch, History, Instant, Outcome, Position, Revision, Snapshot, State,
    Timestamp, View, limits,
};

use crate::cases;

fn ends(steps: impl Iterator<Item = impl std::borrow::Borrow<Step>>) -> Vec<u64> {
    steps.map(|step| step.borrow().delta.to.revision.0).collect()
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn i33_a_history_gives_every_step_after_any_position_and_none_before(
        seed: u64, steps in 0..40_usize, cut: u64,
    ) {
        let mut origin = Origin::new(seed);
        let start = origin.head();
        (0..steps).for_each(|_| origin.step());
        let deltas = origin.cut(&start, &mut Chance::new(cut));
        let mut history = History::starting_at(start.clone());
        for delta in &deltas {
            history.push(Arc::clone(delta), vec![None; delta.changes.len()]);
        }
        for revision in 0..origin.head().revision.0 + 3 {
            let at = Position::new(start.incarnation.clone(), Revision(revision));
            let expected = (revision >= start.revision.0).then(|| {
                deltas.iter().map(|d| d.to.revision.0).filter(|to| *to > revision).collect::<Vec<_>>()
            });
            let given = history.since(&at).map(ends);
            prop_assert_eq!(&given, &expected, "since {}", revision);
            // What is given continues the position: there is nothing in between.
            if let Some(first) = history.since(&at).and_then(|mut steps| steps.next()) {
                prop_assert!(first.delta.from.revision.0 <= revision);
            }
        }
        let other = Position::new(rollcall_model::testing::incarnation(9), start.revision);
        prop_assert!(history.since(&other).is_none(), "another incarnation is never continued");
    }
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn rcv_02_who_was_a_little_behind_a_holder_goes_on_by_deltas_after_it_starts_anew(
        seed: u64, before in 0..20_usize, steps in 1..40_usize, cut: u64, query: u64,
    ) {
        let mut origin = Origin::new(seed);
        (0..before).for_each(|_| origin.step());
        let start = origin.head();
        let mut holder = View::new(region());
        holder.install(origin.snapshot(&start), None, "test", Timestamp(0));
        (0..steps).for_each(|_| origin.step());
        for delta in origin.cut(&start, &mut Chance::new(cut)) {
            prop_assert_eq!(holder.apply(&delta), Outcome::Applied);
        }
        let tail = holder.history().unwrap().tail();
        let mut anew = View::new(region());
        anew.install(holder.snapshot().unwrap(), None, "disk", Timestamp(0));
        let position = anew.position().cloned().unwrap();
        prop_assert_eq!(anew.recall(tail.clone()), !tail.is_empty());
        let query = any_query(&mut Chance::new(query));
        for revision in start.revision.0..=position.revision.0 {
            let at = Position::new(start.incarnation.clone(), Revision(revision));
            let told = |view: &View| Cursor::new(query.clone(), Some(at.clone())).advance(view, Instant::default());
            prop_assert_eq!(told(&anew), told(&holder), "since {}", revision);
        }
        // What comes next continues what those were told, too.
        let head = origin.head();
        origin.step();
        for delta in origin.cut(&head, &mut Chance::new(cut)) {
            prop_assert_eq!(anew.apply(&delta), holder.apply(&delta));
        }
        prop_assert_eq!(anew.changed(), holder.changed());

        // A history of something else is not taken.
        let mut other = View::new(region());
        other.install(origin.snapshot(&start), None, "disk", Timestamp(0));
        let is_of_it = tail.is_empty();
        prop_assert!(is_of_it || !other.recall(tail.clone()), "it ends behind the state");
        let mut gap = View::new(region());
        gap.install(holder.snapshot().unwrap(), None, "disk", Timestamp(0));
        if tail.len() > 2 {
            let mut torn = tail;
            torn.remove(1);
            prop_assert!(!gap.recall(torn), "a step is missing");
            prop_assert_eq!(gap.history().unwrap().base(), gap.position().unwrap());
        }
    }
}

#[test]
fn a_history_that_says_something_else_than_the_state_is_not_taken() {
    let put = |revision: u64| registered(declared("a/b/c"), Epoch::new(1, Revision(1)), Revision(revision));
    let mut state = State::default();
    state.put(Arc::new(put(4)));
    let holding = |state: &State| {
        let mut view = View::new(region());
        view.install(Snapshot::of(region(), position(1, 5), state.clone()), None, "disk", Timestamp(0));
        view
    };
    let steps =
        |revision: u64| vec![Step::new(step(3, vec![Change::Put(Arc::new(put(revision)))]), vec![None])];
    assert!(holding(&state).recall(steps(4)));
    assert!(!holding(&state).recall(steps(3)), "another record than the state's");
    assert!(!holding(&State::default()).recall(steps(4)), "a record that the state has not");
    assert!(!View::new(region()).recall(steps(4)), "there is no state");
}

#[test]
fn a_tail_is_the_newest_part_and_bounded() {
    let mut history = History::starting_at(position(1, 0));
    let many = limits::HISTORY_TAIL_DELTAS as u64 + 10;
    (0..many).for_each(|revision| history.push(step(revision, Vec::new()), Vec::new()));
    let tail = history.tail();
    assert_eq!(tail.len(), limits::HISTORY_TAIL_DELTAS);
    assert_eq!(ends(tail.iter().rev().take(2)), [many, many - 1]);
    let card = format!("{{\"name\":\"{}\"}}", "x".repeat(limits::CARD_BYTES_MAX - 64));
    let mut heavy = declared("a/b/c");
    heavy.card = Some(Card::parse(&card).unwrap().0);
    let record = Arc::new(registered(heavy, Epoch::new(1, Revision(1)), Revision(1)));
    for revision in many..many + 100 {
        history.push(step(revision, vec![Change::Put(Arc::clone(&record))]), vec![None]);
    }
    let bytes: usize = history.tail().iter().map(Step::bytes).sum();
    assert!((limits::HISTORY_TAIL_BYTES / 2..=limits::HISTORY_TAIL_BYTES).contains(&bytes), "{bytes}");
}

fn step(from: u64, changes: Vec<Change>) -> Arc<Delta> {
    Arc::new(Delta { region: region(), from: position(1, from), to: position(1, from + 1), changes })
}

#[test]
fn a_history_keeps_so_many_deltas_and_forgets_the_oldest() {
    let mut history = History::starting_at(position(1, 0));
    let many = limits::HISTORY_DELTAS_MAX as u64;
    for revision in 0..many + 10 {
        history.push(step(revision, Vec::new()), Vec::new());
    }
    assert_eq!(history.base(), &position(1, 10));
    assert!(history.since(&position(1, 9)).is_none());
    assert_eq!(history.since(&position(1, 10)).unwrap().count(), limits::HISTORY_DELTAS_MAX);
    assert_eq!(ends(history.since(&position(1, many + 8)).unwrap()), [many + 9, many + 10]);
}

#[test]
fn a_history_keeps_so_many_bytes_and_forgets_the_oldest() {
    let card = format!("{{\"name\":\"{}\"}}", "x".repeat(limits::CARD_BYTES_MAX - 64));
    let mut heavy = declared("a/b/c");
    heavy.card = Some(Card::parse(&card).unwrap().0);
    let mut history = History::starting_at(position(1, 0));
    let full = (limits::HISTORY_BYTES_MAX / limits::CARD_BYTES_MAX) as u64;
    for revision in 0..full * 2 {
        let record = registered(heavy.clone(), Epoch::new(1, Revision(1)), Revision(revision + 1));
        history.push(step(revision, vec![Change::Put(Arc::new(record))]), vec![None]);
        let kept: usize = history
            .since(&history.base().clone())
            .unwrap()
            .flat_map(|step| step.delta.changes.iter())
            .map(|change| match change {
                Change::Put(put) => put.weight_bytes(),
                Change::Remove(_) => 0,
            })
            .sum();
        assert!(kept <= limits::HISTORY_BYTES_MAX, "{kept} bytes kept");
        assert!(revision < full || kept > limits::HISTORY_BYTES_MAX / 2, "no more is forgotten than must be");
    }
    assert!(history.base().revision.0 > full / 2);
}
