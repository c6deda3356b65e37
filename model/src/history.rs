//! The bounded recent part of a feed, kept so that a reconnect costs a delta.

use std::sync::Arc;

use imbl::Vector;

use crate::change::{Change, Delta};
use crate::limits;
use crate::position::{Position, Revision};
use crate::registration::Registration;

/// A delta with what its changes replaced, so that a filtered watcher learns of what no longer fits.
#[derive(Clone, Debug)]
pub struct Step {
    /// What happened.
    pub delta: Arc<Delta>,
    /// For each change, what was there before.
    pub before: Arc<[Option<Arc<Registration>>]>,
    bytes: usize,
}

impl Step {
    /// A delta, and for each of its changes what it replaced.
    #[must_use]
    pub fn new(delta: Arc<Delta>, before: Vec<Option<Arc<Registration>>>) -> Self {
        let bytes = 128 + delta.changes.iter().map(change_bytes).sum::<usize>();
        Self { delta, before: before.into(), bytes }
    }

    /// Record bytes, about.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Recent deltas of one incarnation, without a gap. Cloning shares them.
#[derive(Clone, Debug)]
pub struct History {
    base: Position,
    steps: Vector<Step>,
    bytes: usize,
}

impl History {
    /// A history that begins at this position.
    #[must_use]
    pub fn starting_at(base: Position) -> Self {
        Self { base, steps: Vector::new(), bytes: 0 }
    }

    /// The oldest position that can still be continued.
    #[must_use]
    pub const fn base(&self) -> &Position {
        &self.base
    }

    /// Takes the next delta and forgets the oldest ones over the bounds.
    pub fn push(&mut self, delta: Arc<Delta>, before: Vec<Option<Arc<Registration>>>) {
        let step = Step::new(delta, before);
        self.bytes += step.bytes;
        self.steps.push_back(step);
        while self.steps.len() > limits::HISTORY_DELTAS_MAX || self.bytes > limits::HISTORY_BYTES_MAX {
            let Some(step) = self.steps.pop_front() else { break };
            self.bytes -= step.bytes;
            self.base = step.delta.to.clone();
        }
    }

    /// The steps after `position`, or `None` when they are no longer (or never were) all here.
    #[must_use]
    pub fn since(&self, position: &Position) -> Option<impl Iterator<Item = &Step> + use<'_>> {
        if position.incarnation != self.base.incarnation || position.revision < self.base.revision {
            return None;
        }
        let first = self.first_after(position.revision);
        // By index: an iterator of this list has no shorter way to the end than all of it, for each message to each watcher.
        Some((first..self.steps.len()).map_while(|at| self.steps.get(at)))
    }

    /// The newest steps, as many as are worth keeping beside a copy of the state.
    #[must_use]
    pub fn tail(&self) -> Vec<Step> {
        let mut bytes = 0;
        let newest = self.steps.iter().rev().take(limits::HISTORY_TAIL_DELTAS).take_while(|step| {
            bytes += step.bytes;
            bytes <= limits::HISTORY_TAIL_BYTES
        });
        let mut tail: Vec<Step> = newest.cloned().collect();
        tail.reverse();
        tail
    }

    /// Index of the first step that ends after this revision.
    fn first_after(&self, revision: Revision) -> usize {
        let (mut low, mut high) = (0, self.steps.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.steps.get(middle) {
                Some(step) if step.delta.to.revision <= revision => low = middle + 1,
                Some(_) | None => high = middle,
            }
        }
        low
    }
}

fn change_bytes(change: &Change) -> usize {
    match change {
        Change::Put(registration) => registration.weight_bytes(),
        Change::Remove(removal) => removal.id.as_str().len() + removal.actor.len() + 64,
    }
}
