//! One monotonic clock for everything that a run writes down, so that its records can be compared.

use std::time::{Duration, Instant};

/// The run's clock; copies agree.
#[derive(Clone, Copy, Debug)]
pub struct Timeline(Instant);

impl Timeline {
    /// Begins now.
    #[must_use]
    pub fn begin() -> Self {
        Self(Instant::now())
    }

    /// A clock that shows this now: for another process of the same run, which is told the time.
    ///
    /// It is late by as long as the telling took, so that what it stamps seems to be earlier than it was, never later.
    #[must_use]
    pub fn at(now: Duration) -> Self {
        let here = Instant::now();
        Self(here.checked_sub(now).unwrap_or(here))
    }

    /// Time since the beginning.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.0.elapsed()
    }
}
