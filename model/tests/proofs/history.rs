//! A history gives exactly what came after a position, for every position, and stays within its bounds.

use std::sync::Arc;

use proptest::prelude::*;
use rollcall_model::history::Step;
use rollcall_model::testing::{Chance, Origin, declared, position, region, registered};
use rollcall_model::{Card, Change, Delta, Epoch, History, Position, Revision, limits};

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
