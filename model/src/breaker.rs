//! When a registry that fails is left alone: after so many failures in a row, for a while (acceptance SNP-10).
//!
//! Promises: one success forgets the failures before it, and failures that lie further apart than the limit do not add
//! up. Never here: the waits between attempts, which [backoff](crate::backoff) spreads in any case; the breaker of an
//! instance, which is the [ejection's](crate::ejection).

use std::time::Duration;

use crate::time::Instant;

/// When it opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerLimits {
    /// So many failures in a row; at least one.
    pub failures: u32,
    /// Within this time, from the first of them to the last.
    pub within: Duration,
    /// The registry is left alone for this long.
    pub open: Duration,
}

impl BreakerLimits {
    /// Three failures within a minute, and then five minutes.
    pub const QUERIES: Self =
        Self { failures: 3, within: Duration::from_secs(60), open: Duration::from_secs(300) };
}

/// Counts the failures of one registry.
#[derive(Clone, Debug)]
pub struct RegistryBreaker {
    limits: BreakerLimits,
    /// The failures in a row that may still count, oldest first; fewer than the limit.
    failed: Vec<Instant>,
}

impl RegistryBreaker {
    /// One that is closed.
    #[must_use]
    pub const fn new(limits: BreakerLimits) -> Self {
        Self { limits, failed: Vec::new() }
    }

    /// Takes a failure; says how long to leave the registry alone, if this one opens the breaker. It is closed again
    /// after that, and counts anew.
    pub fn failed(&mut self, now: Instant) -> Option<Duration> {
        self.failed.retain(|at| now.since(*at) <= self.limits.within);
        self.failed.push(now);
        let is_open = u32::try_from(self.failed.len()).is_ok_and(|failed| failed >= self.limits.failures);
        if !is_open {
            return None;
        }
        self.failed.clear();
        Some(self.limits.open)
    }

    /// Takes a success.
    pub fn succeeded(&mut self) {
        self.failed.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::default().plus(Duration::from_secs(seconds))
    }

    /// What becomes of failures at these seconds.
    fn opened(seconds: &[u64]) -> Vec<bool> {
        let mut breaker = RegistryBreaker::new(BreakerLimits::QUERIES);
        seconds.iter().map(|second| breaker.failed(at(*second)).is_some()).collect()
    }

    #[test]
    fn snp_10_three_failures_within_a_minute_open_it_for_five() {
        assert_eq!(opened(&[0, 30, 60]), [false, false, true]);
        let mut breaker = RegistryBreaker::new(BreakerLimits::QUERIES);
        breaker.failed(at(0));
        breaker.failed(at(1));
        assert_eq!(breaker.failed(at(2)), Some(Duration::from_secs(300)));
    }

    #[test]
    fn snp_10_failures_further_apart_do_not_add_up() {
        assert_eq!(opened(&[0, 31, 61, 92, 122]), [false, false, false, false, false]);
        assert_eq!(opened(&[0, 31, 61, 90]), [false, false, false, true]);
    }

    #[test]
    fn snp_10_a_success_between_forgets_them_and_after_it_was_open_it_counts_anew() {
        let mut breaker = RegistryBreaker::new(BreakerLimits::QUERIES);
        breaker.failed(at(0));
        breaker.failed(at(1));
        breaker.succeeded();
        assert_eq!(breaker.failed(at(2)), None);
        assert_eq!(opened(&[0, 1, 2, 3, 4, 5]), [false, false, true, false, false, true]);
    }
}
