//! Whether calls that overlapped can be put into one order that explains every answer (Wing & Gong, with Lowe's memory
//! of what was tried).
//!
//! A call takes effect once, somewhere between its sending and its answer; one without an answer at any time after it
//! was sent. The search is exact: it says no only when no order exists. Two things keep it short, and both are exact:
//!
//! - A call that changes nothing is taken as soon as it may come next and its answer fits. Any order from here on that
//!   has it later has a twin that has it now: nobody else sees the difference. So no other place is tried for it, and
//!   of the calls that overlap only those that change something are put into different orders.
//! - Where a call is still to come that fits no state any more, no order leads on.
//!
//! Calls on parts that have nothing to do with each other are for the caller to take apart: each part has an order
//! exactly when the whole has one. Never here: what a call means; that is the model's.

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

    /// Whether the call leaves every state that it fits as it was. False is always right, and slow.
    fn changes_nothing(&self, call: &Self::Call) -> bool;

    /// Whether the call fits neither this state nor any that can come after it. False is always right, and slow.
    fn is_past(&self, state: &Self::State, call: &Self::Call) -> bool;
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
    let mut search = Search::new(model, calls);
    let mut tried: HashSet<(Done, M::State)> = HashSet::new();
    let (mut most, mut stuck) = (0, 0);
    let mut next = 0;
    loop {
        search.take_what_changes_nothing();
        if search.taken.len() == calls.len() {
            return Ok(());
        }
        let window = search.window();
        if search.taken.len() >= most {
            (most, stuck) = (search.taken.len(), window.first);
        }
        // A configuration that was entered before, by another order, led nowhere.
        let is_new = next > 0 || tried.insert((search.done.clone(), search.state.clone()));
        if !(is_new && !window.is_hopeless && search.take_one_that_changes(next, window.end)) {
            match search.back() {
                Some(place) => next = place + 1,
                None => return Err((most, search.order[stuck])),
            }
            continue;
        }
        next = 0;
    }
}

/// Where a search is: what it took, in order, and what came of it.
struct Search<'a, M: Model> {
    model: &'a M,
    calls: &'a [Timed<M::Call>],
    /// The calls by their beginning. A place is one in here.
    order: Vec<usize>,
    done: Done,
    /// Everything before this place is done.
    low: usize,
    state: M::State,
    /// The places that were taken, with the state before those that another one may be tried for.
    taken: Vec<(usize, Option<M::State>)>,
}

/// The calls that may come next: those that began before the first of all that are left had to end.
struct Window {
    end: Duration,
    /// Whose end that is.
    first: usize,
    /// One of them fits no state any more.
    is_hopeless: bool,
}

impl<'a, M: Model> Search<'a, M> {
    fn new(model: &'a M, calls: &'a [Timed<M::Call>]) -> Self {
        let mut order: Vec<usize> = (0..calls.len()).collect();
        order.sort_by_key(|at| calls[*at].from);
        let done = Done::new(calls.len());
        Self { model, calls, order, done, low: 0, state: model.start(), taken: Vec::new() }
    }

    fn call(&self, place: usize) -> &'a Timed<M::Call> {
        &self.calls[self.order[place]]
    }

    /// Those left that began by a moment, from a place on.
    fn left(&self, from: usize, by: Duration) -> impl Iterator<Item = usize> + '_ {
        (from.max(self.low)..self.order.len())
            .take_while(move |place| self.call(*place).from <= by)
            .filter(|place| !self.done.has(*place))
    }

    fn window(&mut self) -> Window {
        while self.low < self.order.len() && self.done.has(self.low) {
            self.low += 1;
        }
        // Whoever begins after an end cannot end before it, so the look ends there.
        let mut window = Window { end: Duration::MAX, first: self.low, is_hopeless: false };
        for place in self.low..self.order.len() {
            let call = self.call(place);
            if call.from > window.end {
                break;
            }
            if self.done.has(place) {
                continue;
            }
            if let Some(end) = call.until
                && end < window.end
            {
                (window.end, window.first) = (end, place);
            }
            window.is_hopeless |= self.model.is_past(&self.state, &call.call);
        }
        window
    }

    fn take_what_changes_nothing(&mut self) {
        loop {
            let end = self.window().end;
            let fits = |place: &usize| {
                let call = &self.call(*place).call;
                self.model.changes_nothing(call) && self.model.step(&self.state, call).is_some()
            };
            let fitting: Vec<usize> = self.left(0, end).filter(fits).collect();
            if fitting.is_empty() {
                return;
            }
            // Taking one lets no other end sooner, so all of them may come next, one after another.
            for place in fitting {
                self.done.set(place, true);
                self.taken.push((place, None));
            }
        }
    }

    fn take_one_that_changes(&mut self, from: usize, end: Duration) -> bool {
        let found = self.left(from, end).find_map(|place| {
            let call = &self.call(place).call;
            // One that changes nothing and is still here did not fit.
            let after =
                if self.model.changes_nothing(call) { None } else { self.model.step(&self.state, call) };
            Some((place, after?))
        });
        let Some((place, after)) = found else { return false };
        self.done.set(place, true);
        self.taken.push((place, Some(std::mem::replace(&mut self.state, after))));
        true
    }

    /// Back to before the last one that another may be tried for, and its place.
    fn back(&mut self) -> Option<usize> {
        while let Some((place, before)) = self.taken.pop() {
            self.done.set(place, false);
            self.low = self.low.min(place);
            if let Some(before) = before {
                self.state = before;
                return Some(place);
            }
        }
        None
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
pub(crate) mod tests;
