//! One monotonic clock for everything that a run writes down, so that its records can be compared.

use std::time::{Duration, Instant, SystemTime};

/// The run's clock; copies agree.
#[derive(Clone, Copy, Debug)]
pub struct Timeline(Instant);

impl Timeline {
    /// Begins now.
    #[must_use]
    pub fn begin() -> Self {
        Self(Instant::now())
    }

    /// A clock that showed `then` at `told`: for another process of the same run, which is told the time.
    ///
    /// How long the telling took is known from the machine's own clock: on a loaded machine a process takes seconds to
    /// begin, and a clock that is late by them calls what came after a heal a thing of the cut.
    #[must_use]
    pub fn at(then: Duration, told: SystemTime) -> Self {
        let here = Instant::now();
        let since = SystemTime::now().duration_since(told).unwrap_or_default();
        Self(here.checked_sub(then + since).unwrap_or(here))
    }

    /// Time since the beginning.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.0.elapsed()
    }
}
