//! Age, and the words for it.

use std::time::Duration;

use crate::limits;
use crate::time::Instant;

/// When a statement about the head was last heard, and how old it was then. Only the monotonic clock counts (I21).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// When it arrived here.
    pub at: Instant,
    /// How old it was on arrival.
    pub age: Duration,
}

impl Heard {
    /// How old it is now.
    #[must_use]
    pub fn age(&self, now: Instant) -> Duration {
        self.age.saturating_add(now.since(self.at))
    }

    /// Takes a newer statement; never makes the age look older than what is known already.
    #[must_use]
    pub fn or_newer(self, other: Self, now: Instant) -> Self {
        if other.age(now) <= self.age(now) { other } else { self }
    }
}

/// What a state may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Freshness {
    /// Heard of within three seconds.
    Current,
    /// Within thirty.
    Behind,
    /// Older; served with its age.
    Stale,
    /// Never loaded: says nothing, least of all "empty".
    NotLoaded,
}

impl Freshness {
    /// The word for an age; `None` is a state that was never loaded.
    #[must_use]
    pub fn of(age: Option<Duration>) -> Self {
        Self::within(age, limits::BEHIND_AGE)
    }

    /// The same where a state is called stale from another age on.
    #[must_use]
    pub fn within(age: Option<Duration>, stale_after: Duration) -> Self {
        match age {
            None => Self::NotLoaded,
            Some(age) if age < limits::CURRENT_AGE => Self::Current,
            Some(age) if age < stale_after => Self::Behind,
            Some(_) => Self::Stale,
        }
    }

    /// The contract's word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Behind => "behind",
            Self::Stale => "stale",
            Self::NotLoaded => "not_loaded",
        }
    }
}
