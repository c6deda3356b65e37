//! When a source that tells nothing new is left for another one.
//!
//! It answers, so nothing breaks: its store is away, or it never had a state, while another process may have both.
//! Promises: one that delivers is never left; those that are no better either are gone through ever more slowly. Never
//! here: which source is next.

use std::time::Duration;

use crate::limits;
use crate::time::Instant;

/// A source without any state is left after this: it loads in less, and who follows it has nothing.
const WAIT_UNLOADED: Duration = Duration::from_secs(4);
/// One whose state is old. Waits are drawn between this and twice as much, or all who follow a source would leave it
/// together.
const WAIT: Duration = limits::BEHIND_AGE;
/// Longest wait, where all sources are alike.
const WAIT_MOST: Duration = Duration::from_secs(600);

/// How long the present source of one region is put up with.
#[derive(Debug)]
pub struct Elsewhere {
    /// How many were left in a row, none of which was better.
    left: u32,
    since: Instant,
    wait: Duration,
}

impl Default for Elsewhere {
    fn default() -> Self {
        Self { left: 0, since: Instant::default(), wait: WAIT_MOST }
    }
}

impl Elsewhere {
    /// One is followed from now on by a state that is as old as `age`; `None` when there is none. `chance` is in [0, 1).
    pub fn opened(&mut self, age: Option<Duration>, now: Instant, chance: f64) {
        let first = if age.is_none() { WAIT_UNLOADED } else { WAIT };
        self.since = now;
        self.wait = first.saturating_mul(1 << self.left.min(16)).mul_f64(1.0 + chance).min(WAIT_MOST);
    }

    /// Something of the state came.
    pub const fn delivers(&mut self, now: Instant) {
        self.since = now;
    }

    /// Whether to leave it now.
    #[must_use]
    pub fn leaves(&mut self, age: Option<Duration>, now: Instant) -> bool {
        if age.is_some_and(|age| age < limits::BEHIND_AGE) {
            self.left = 0;
            return false;
        }
        let leaves = now.since(self.since) >= self.wait;
        if leaves {
            self.left += 1;
        }
        leaves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Instant {
        Instant(Duration::from_secs(seconds))
    }

    const OLD: Option<Duration> = Some(Duration::from_secs(40));

    #[test]
    fn a_source_without_a_state_is_left_soon_one_with_an_old_one_later_and_one_with_a_young_one_never() {
        for (age, stays, leaves) in
            [(None, 3, 4), (OLD, 29, 30), (Some(Duration::from_secs(2)), 9_999, u64::MAX)]
        {
            let mut elsewhere = Elsewhere::default();
            elsewhere.opened(age, at(0), 0.0);
            assert!(!elsewhere.leaves(age, at(stays)), "{age:?}");
            assert!(leaves == u64::MAX || elsewhere.leaves(age, at(leaves)), "{age:?}");
        }
    }

    #[test]
    fn a_source_that_delivers_is_not_left_however_long_it_takes() {
        let mut elsewhere = Elsewhere::default();
        elsewhere.opened(None, at(0), 0.0);
        for second in 1..100 {
            elsewhere.delivers(at(second));
            assert!(!elsewhere.leaves(None, at(second + 3)));
        }
        assert!(elsewhere.leaves(None, at(99 + 4)));
    }

    #[test]
    fn sources_that_are_all_alike_are_gone_through_ever_more_slowly_until_one_is_better() {
        let (mut elsewhere, mut now, mut stays) = (Elsewhere::default(), 0, Vec::new());
        for _ in 0..8 {
            elsewhere.opened(OLD, at(now), 0.0);
            let began = now;
            while !elsewhere.leaves(OLD, at(now)) {
                now += 1;
            }
            stays.push(now - began);
        }
        assert_eq!(stays, [30, 60, 120, 240, 480, 600, 600, 600]);
        assert!(!elsewhere.leaves(Some(Duration::ZERO), at(now)));
        elsewhere.opened(OLD, at(now), 0.5);
        assert!(!elsewhere.leaves(OLD, at(now + 44)));
        assert!(elsewhere.leaves(OLD, at(now + 45)), "from the beginning, and half as long again by chance");
    }
}
