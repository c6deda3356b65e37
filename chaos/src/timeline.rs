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

    /// Time since the beginning.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.0.elapsed()
    }
}
