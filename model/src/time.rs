//! Time as a value: the core never reads a clock, it is told.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::moment::{Moment, Uptime};

/// A point on one process's monotonic clock, since that process's own zero. Never leaves the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub Duration);

impl Instant {
    /// Time from `earlier` to `self`; zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// This instant moved into the future.
    #[must_use]
    pub const fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by))
    }
}

/// Wall-clock time in milliseconds since 1970, for people to read. No decision is made on it (fault F15).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

/// What a process's monotonic clock shows, told to another process: it means nothing there but beside other readings of the
/// same clock (see [`Way`](crate::way::Way)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Whose clock: drawn by chance when the process starts.
    pub teller: u64,
    /// What it shows.
    pub at: Duration,
}

/// Where the kinds of time come from: functions that the composition root hands in. Tests hand in their own.
#[derive(Clone)]
pub struct Clock {
    monotonic: Arc<dyn Fn() -> Duration + Send + Sync>,
    wall_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    uptime: Arc<dyn Fn() -> Option<Uptime> + Send + Sync>,
    teller: Option<u64>,
}

impl Clock {
    /// A clock of a monotonic reading and a wall reading in milliseconds since 1970.
    pub fn new(
        monotonic: impl Fn() -> Duration + Send + Sync + 'static,
        wall_ms: impl Fn() -> i64 + Send + Sync + 'static,
    ) -> Self {
        Self {
            monotonic: Arc::new(monotonic),
            wall_ms: Arc::new(wall_ms),
            uptime: Arc::new(|| None),
            teller: None,
        }
    }

    /// The same of a process that others follow, under a name that is drawn by chance.
    #[must_use]
    pub const fn with_teller(mut self, teller: u64) -> Self {
        self.teller = Some(teller);
        self
    }

    /// Now, for another process; none where nobody follows this one.
    #[must_use]
    pub fn stamp(&self) -> Option<Stamp> {
        Some(Stamp { teller: self.teller?, at: self.now().0 })
    }

    /// The same with a reading of the machine's uptime, for what is remembered in files.
    #[must_use]
    pub fn with_uptime(mut self, uptime: impl Fn() -> Option<Uptime> + Send + Sync + 'static) -> Self {
        self.uptime = Arc::new(uptime);
        self
    }

    /// Now, as a file remembers it.
    #[must_use]
    pub fn moment(&self) -> Moment {
        Moment { wall: self.wall(), uptime: (self.uptime)() }
    }

    /// The monotonic clock.
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant((self.monotonic)())
    }

    /// The wall clock.
    #[must_use]
    pub fn wall(&self) -> Timestamp {
        Timestamp((self.wall_ms)())
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}
