//! How long to wait before a watch is opened again.
//!
//! Promises: waits grow and are spread by full jitter, and the spread shrinks only after a watch that lasted; where a
//! breaker is set, the registry is left alone once it opens, and the spread comes on top, so that those who opened
//! together do not come back together.

use std::time::Duration;

use rollcall_model::{Backoff, BreakerLimits, Instant, RegistryBreaker};

/// First wait before a watch is opened again is at most this: a restarted cell is missed for a second at most.
const BACKOFF_FIRST: Duration = Duration::from_secs(1);
/// Later waits are at most this.
const BACKOFF_MOST: Duration = Duration::from_secs(16);
/// Shortest wait: full jitter may draw zero, and a refused connection answers in microseconds.
const FLOOR: Duration = Duration::from_millis(100);
/// A watch that lived this long was a lasting success. Longer than the longest wait, so that a cell that goes down again
/// and again does not gather its clients in the first second (museum B77).
pub(super) const LASTING: Duration = Duration::from_secs(20);

/// The waits of one region's watch.
#[derive(Debug)]
pub(super) struct Pauses {
    backoff: Backoff,
    breaker: Option<RegistryBreaker>,
}

impl Pauses {
    pub(super) fn new(breaker: Option<BreakerLimits>) -> Self {
        let backoff = Backoff::new(BACKOFF_FIRST, BACKOFF_MOST);
        Self { backoff, breaker: breaker.map(RegistryBreaker::new) }
    }

    /// After a watch that lasted so long, and delivered something or did not; `chance` is in [0, 1).
    pub(super) fn after(&mut self, lasted: Duration, delivered: bool, now: Instant, chance: f64) -> Duration {
        if lasted >= LASTING {
            self.backoff.reset();
        }
        let left_alone = match &mut self.breaker {
            Some(breaker) if delivered => {
                breaker.succeeded();
                None
            }
            Some(breaker) => breaker.failed(now),
            None => None,
        };
        left_alone.unwrap_or_default() + self.backoff.next(chance).max(FLOOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failing(pauses: &mut Pauses, many: usize) -> Vec<Duration> {
        let mut now = Instant::default();
        let one = |_| {
            let pause = pauses.after(Duration::ZERO, false, now, 0.5);
            now = now.plus(pause);
            pause
        };
        (0..many).map(one).collect()
    }

    #[test]
    fn snp_10_the_third_failure_leaves_the_registry_alone_for_five_minutes_and_a_spread() {
        let pauses = failing(&mut Pauses::new(Some(BreakerLimits::QUERIES)), 6);
        let is_long = |pause: &Duration| *pause > BreakerLimits::QUERIES.open;
        assert_eq!(pauses.iter().map(is_long).collect::<Vec<_>>(), [false, false, true, false, false, true]);
        assert!(pauses[2] <= BreakerLimits::QUERIES.open + BACKOFF_MOST);
    }

    #[test]
    fn without_a_breaker_no_wait_is_longer_than_the_backoff() {
        assert!(failing(&mut Pauses::new(None), 50).iter().all(|pause| *pause <= BACKOFF_MOST));
    }

    #[test]
    fn a_watch_that_delivered_is_no_failure() {
        let mut pauses = Pauses::new(Some(BreakerLimits::QUERIES));
        for _ in 0..5 {
            assert!(pauses.after(Duration::ZERO, true, Instant::default(), 0.5) <= BACKOFF_MOST);
        }
    }
}
