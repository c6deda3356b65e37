//! What one cohort had, and what of it went without evidence: what the bound of I07 is counted on.
//!
//! The bound speaks of every window of one lease, and leases differ, so an account is kept for the longest of them and
//! is asked with a window each time.

use std::collections::VecDeque;
use std::time::Duration;

use crate::limits::LEASE_SECONDS_MAX;
use crate::time::Instant;

/// Nothing older counts for any window.
const KEPT: Duration = Duration::from_secs(LEASE_SECONDS_MAX);

/// One cohort's account. A few bytes for each sweep within [`KEPT`] in which something changed.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    /// At each moment at which some went: how many have gone since the account began.
    gone: VecDeque<(Instant, u64)>,
    /// How many have gone since the account began.
    total: u64,
    /// How many there were, with those that had gone before: from each moment on at least so many, to now. Rising, so
    /// the least within a window stands where the window begins. With what went in the number, it tells newcomers, who
    /// count for no window that began before them, from the removals that are being bounded.
    least: VecDeque<(Instant, u64)>,
}

impl Account {
    /// A sweep found so many registered.
    pub(super) fn found(&mut self, registered: u64, now: Instant) {
        let all = registered + self.total;
        let mut since = now;
        while let Some((at, least)) = self.least.back().copied()
            && least >= all
        {
            since = at;
            self.least.pop_back();
        }
        self.least.push_back((since, all));
        // The newest entry that is older than any window still says what its beginning had.
        while self.least.get(1).is_some_and(|(at, _)| now.since(*at) >= KEPT) {
            self.least.pop_front();
        }
        while self.gone.get(1).is_some_and(|(at, _)| now.since(*at) >= KEPT) {
            self.gone.pop_front();
        }
    }

    /// One goes without evidence.
    pub(super) fn goes(&mut self, now: Instant) {
        self.total += 1;
        match self.gone.back_mut() {
            Some((at, total)) if *at == now => *total = self.total,
            Some(_) | None => self.gone.push_back((now, self.total)),
        }
    }

    /// How many went within the window that ends now.
    pub(super) fn gone(&self, window: Duration, now: Instant) -> u64 {
        self.total - self.gone_before(window, now)
    }

    /// How many were registered when that window began, of those that were there all the time since or went without
    /// evidence: never more than were registered then.
    pub(super) fn registered(&self, window: Duration, now: Instant) -> u64 {
        let later = self.least.partition_point(|(at, _)| now.since(*at) >= window);
        // In a window that is older than the account the oldest entry is the least.
        let least = self.least.get(later.saturating_sub(1)).map_or(0, |(_, least)| *least);
        least.saturating_sub(self.gone_before(window, now))
    }

    fn gone_before(&self, window: Duration, now: Instant) -> u64 {
        let later = self.gone.partition_point(|(at, _)| now.since(*at) >= window);
        later.checked_sub(1).and_then(|last| self.gone.get(last)).map_or(0, |(_, total)| *total)
    }
}
