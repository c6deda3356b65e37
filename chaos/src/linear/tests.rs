//! The search against one that tries every order.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

/// One number that is written and read.
struct Register;

#[derive(Clone, Copy, Debug)]
enum Call {
    Write(u8),
    Read(u8),
}

impl Model for Register {
    type Call = Call;
    type State = u8;

    fn start(&self) -> u8 {
        0
    }

    fn step(&self, state: &u8, call: &Call) -> Option<u8> {
        match call {
            Call::Write(value) => Some(*value),
            Call::Read(value) => (value == state).then_some(*state),
        }
    }

    fn changes_nothing(&self, call: &Call) -> bool {
        matches!(call, Call::Read(_))
    }

    fn is_past(&self, _: &u8, _: &Call) -> bool {
        false
    }
}

fn calls(calls: &[(u64, Option<u64>, Call)]) -> Vec<Timed<Call>> {
    let at = Duration::from_millis;
    calls
        .iter()
        .map(|(from, until, call)| Timed { from: at(*from), until: until.map(at), call: *call })
        .collect()
}

#[test]
fn calls_that_overlap_may_be_put_in_either_order() {
    let overlapping = [(0, Some(10), Call::Write(1)), (5, Some(15), Call::Write(2))];
    for last in [1, 2] {
        let mut history = overlapping.to_vec();
        history.push((20, Some(21), Call::Read(last)));
        assert_eq!(check(&Register, &calls(&history)), Ok(()));
    }
}

#[test]
fn a_read_of_what_was_overwritten_before_it_began_has_no_order() {
    let history = [(0, Some(1), Call::Write(1)), (2, Some(3), Call::Write(2)), (4, Some(5), Call::Read(1))];
    assert_eq!(check(&Register, &calls(&history)), Err((2, 2)));
}

#[test]
fn two_reads_that_see_two_writes_in_opposite_order_have_none() {
    let history = [
        (0, Some(100), Call::Write(1)),
        (0, Some(100), Call::Write(2)),
        (10, Some(20), Call::Read(1)),
        (30, Some(40), Call::Read(2)),
        (50, Some(60), Call::Read(1)),
    ];
    assert!(check(&Register, &calls(&history)).is_err());
}

#[test]
fn a_call_without_an_answer_may_have_happened_late_or_never_seen() {
    let history = [(0, None, Call::Write(1)), (10, Some(11), Call::Read(0)), (20, Some(21), Call::Read(1))];
    assert_eq!(check(&Register, &calls(&history)), Ok(()));
    let history = [(0, None, Call::Write(1)), (10, Some(11), Call::Read(0))];
    assert_eq!(check(&Register, &calls(&history)), Ok(()));
    let back = [(0, None, Call::Write(1)), (20, Some(21), Call::Read(1)), (30, Some(31), Call::Read(0))];
    assert!(check(&Register, &calls(&back)).is_err());
}

#[test]
fn a_thousand_calls_of_five_at_a_time_are_checked_at_once() {
    let mut history = Vec::new();
    for round in 0..200_u64 {
        for client in 0..5_u64 {
            let value = u8::try_from((round * 5 + client) % 251).unwrap();
            history.push((round * 10 + client, Some(round * 10 + 9), Call::Write(value)));
        }
    }
    assert_eq!(check(&Register, &calls(&history)), Ok(()));
}

/// A few calls that overlap much, some without an end.
pub(crate) fn random_calls<C>(chance: &mut StdRng, mut call: impl FnMut(&mut StdRng) -> C) -> Vec<Timed<C>> {
    let count = chance.random_range(2..7);
    let at = Duration::from_millis;
    (0..count)
        .map(|_| {
            let from = chance.random_range(0..12);
            let until = chance.random_bool(0.8).then(|| at(from + chance.random_range(1..8)));
            Timed { from: at(from), until, call: call(chance) }
        })
        .collect()
}

/// Whether an order exists, by trying each that time allows.
pub(crate) fn some_order<M: Model>(model: &M, calls: &[Timed<M::Call>]) -> bool {
    fn go<M: Model>(model: &M, state: &M::State, left: &[&Timed<M::Call>]) -> bool {
        let end = left.iter().filter_map(|call| call.until).min().unwrap_or(Duration::MAX);
        left.is_empty()
            || left.iter().enumerate().any(|(at, call)| {
                let others: Vec<_> = left
                    .iter()
                    .enumerate()
                    .filter(|(other, _)| *other != at)
                    .map(|(_, call)| *call)
                    .collect();
                call.from <= end
                    && model.step(state, &call.call).is_some_and(|after| go(model, &after, &others))
            })
    }
    go(model, &model.start(), &calls.iter().collect::<Vec<_>>())
}

#[test]
fn an_order_is_found_exactly_where_trying_every_order_finds_one() {
    let (mut found, mut none) = (0, 0);
    for seed in 0..4_000 {
        let calls =
            random_calls(&mut StdRng::seed_from_u64(seed), |chance| match chance.random_range(0..4) {
                0 | 1 => Call::Write(chance.random_range(1..4)),
                _ => Call::Read(chance.random_range(0..4)),
            });
        let exists = some_order(&Register, &calls);
        assert_eq!(check(&Register, &calls).is_ok(), exists, "{seed}: {calls:?}");
        found += usize::from(exists);
        none += usize::from(!exists);
    }
    assert!(found > 100 && none > 100, "{found} with an order, {none} without");
}

#[test]
fn a_reader_that_fits_nowhere_among_many_that_overlap_is_found_at_once() {
    // Sixty reads of what stands may each come before or after one another: more orders than can be tried.
    let mut history: Vec<_> = (0..60).map(|n| (n, Some(1_000), Call::Read(0))).collect();
    history.extend((0..20).map(|n| (n, None, Call::Read(0))));
    history.push((0, Some(1_000), Call::Write(1)));
    history.push((500, Some(1_000), Call::Read(2)));
    assert!(check(&Register, &calls(&history)).is_err());
}
