//! Bugs that are planted on purpose, so that the checkers can be seen to find them.
//!
//! Promises that without the feature `planted` there are none: [`is`] is then a constant, and what depends on it is not
//! compiled in. No shipped binary has the feature; one that has it says so when it starts. Never here: what a bug does,
//! which stands where it would be made.

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// A delta of another region now and then moves the view on and changes nothing.
    SkipADelta = 1,
    /// A word said under an epoch that was replaced is taken.
    AcceptAStaleEpoch = 2,
    /// Where nothing was found or nothing answered, a view is emptied.
    WipeOnEmpty = 3,
    /// A delta is skipped, and that the digest differs is not looked at.
    IgnoreTheDigest = 4,
    /// What the guard holds is removed.
    DeleteWhileHeld = 5,
    /// A copy on disk has the place of a newer view.
    OffsetBeforeView = 6,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::SkipADelta,
        Self::AcceptAStaleEpoch,
        Self::WipeOnEmpty,
        Self::IgnoreTheDigest,
        Self::DeleteWhileHeld,
        Self::OffsetBeforeView,
    ];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SkipADelta => "skip-a-delta",
            Self::AcceptAStaleEpoch => "accept-a-stale-epoch",
            Self::WipeOnEmpty => "wipe-on-empty",
            Self::IgnoreTheDigest => "ignore-the-digest",
            Self::DeleteWhileHeld => "delete-while-held",
            Self::OffsetBeforeView => "offset-before-view",
        }
    }
}

/// Whether this bug is planted.
#[cfg(not(feature = "planted"))]
#[must_use]
pub const fn is(_: Bug) -> bool {
    false
}

#[cfg(feature = "planted")]
static PLANTED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Whether this bug is planted.
#[cfg(feature = "planted")]
#[must_use]
pub fn is(bug: Bug) -> bool {
    PLANTED.load(std::sync::atomic::Ordering::Relaxed) == bug as u8
}

/// Plants the bug of this name, and no other; tells which.
#[cfg(feature = "planted")]
pub fn plant(name: &str) -> Option<Bug> {
    let bug = Bug::ALL.into_iter().find(|bug| bug.as_str() == name);
    PLANTED.store(bug.map_or(0, |bug| bug as u8), std::sync::atomic::Ordering::Relaxed);
    bug
}
