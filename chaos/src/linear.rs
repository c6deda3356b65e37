//! Whether calls that overlapped can be put into one order that explains every answer (Wing & Gong, with Lowe's memory
//! of what was tried).
//!
//! A call takes effect once, somewhere between its sending and its answer; one without an answer at any time after it
//! was sent. The search is exact: it says no only when no order exists. Never here: what a call means; that is the
//! model's.

use std::collections::HashSet;
use std::hash::Hash;
use std::time::Duration;

/// What calls do, one after another.
pub trait Model {
    /// A call with its answer.
    type Call;
    /// What the calls work on.
    type State: Clone + Eq + Hash;

    /// Before the first call.
    fn start(&self) -> Self::State;

    /// The state after a call, if its answer fits the state before it.
    fn step(&self, state: &Self::State, call: &Self::Call) -> Option<Self::State>;
}

/// A call in time.
#[derive(Clone, Debug)]
pub struct Timed<C> {
    /// Not before.
    pub from: Duration,
    /// Not after; none for a call that nobody saw the end of.
    pub until: Option<Duration>,
    /// What.
    pub call: C,
}

/// Gives `Ok` when an order exists; otherwise the most calls that one order explained, and the place of the first
/// call that had to come next and could not.
///
/// # Errors
/// No order explains every answer.
pub fn check<M: Model>(model: &M, calls: &[Timed<M::Call>]) -> Result<(), (usize, usize)> {
    let mut order: Vec<usize> = (0..calls.len()).collect();
    order.sort_by_key(|at| calls[*at].from);
    let ends = |at: usize| calls[at].until.unwrap_or(Duration::MAX);
    let mut done = Done::new(calls.len());
    let mut tried: HashSet<(Done, M::State)> = HashSet::new();
    // What was taken, and the state before it.
    let mut taken: Vec<(usize, M::State)> = Vec::new();
    let mut state = model.start();
    let mut next = 0;
    let (mut most, mut stuck) = (0, 0);
    loop {
        if taken.len() == calls.len() {
            return Ok(());
        }
        // Whoever ends first must come before everything that began later.
        let (end, first) = order
            .iter()
            .filter(|at| !done.has(**at))
            .map(|at| (ends(*at), *at))
            .min_by_key(|(end, _)| *end)
            .unwrap_or_default();
        let mut went = false;
        while next < order.len() {
            let at = order[next];
            next += 1;
            if calls[at].from > end {
                break;
            }
            if done.has(at) {
                continue;
            }
            let Some(after) = model.step(&state, &calls[at].call) else { continue };
            done.set(at, true);
            if tried.insert((done.clone(), after.clone())) {
                taken.push((at, std::mem::replace(&mut state, after)));
                next = 0;
                went = true;
                break;
            }
            done.set(at, false);
        }
        if went {
            if taken.len() > most {
                (most, stuck) = (taken.len(), first);
            }
            continue;
        }
        if taken.len() == most {
            stuck = first;
        }
        let Some((at, before)) = taken.pop() else { return Err((most, stuck)) };
        done.set(at, false);
        state = before;
        next = order.iter().position(|other| *other == at).map_or(order.len(), |place| place + 1);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Done(Vec<u64>);

impl Done {
    fn new(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    fn has(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 == 1
    }

    fn set(&mut self, at: usize, value: bool) {
        let bit = 1 << (at % 64);
        if value {
            self.0[at / 64] |= bit;
        } else {
            self.0[at / 64] &= !bit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One number that is written and read.
    struct Register;

    #[derive(Clone, Copy)]
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
        let history =
            [(0, Some(1), Call::Write(1)), (2, Some(3), Call::Write(2)), (4, Some(5), Call::Read(1))];
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
        let history =
            [(0, None, Call::Write(1)), (10, Some(11), Call::Read(0)), (20, Some(21), Call::Read(1))];
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
}
