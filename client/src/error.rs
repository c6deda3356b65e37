//! What can go wrong, in the caller's terms: fix the options, or know why the registry did not do it.

use std::time::Duration;

use rollcall_model::{Code, Invalid};

/// Why nothing was started: the options are wrong, and the same options will fail again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The declaration would be refused by every registry; each finding names its member.
    #[error("the declaration is refused: {}", findings(.0))]
    Declaration(Vec<Invalid>),
    /// No URL of a cell was given.
    #[error("no URL of a cell was given, and ROLLCALL_URL names none")]
    NoUrl,
    /// This URL is not one of a cell.
    #[error("{url:?} is no URL of a cell: {why}")]
    Url {
        /// As given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// A region stands twice among those to follow.
    #[error("the region {0} stands twice among those to follow")]
    RegionTwice(String),
    /// The process could not start the thread that keeps registrations alive.
    #[error("the thread that keeps registrations alive did not start: {0}")]
    Thread(String),
}

/// Why a call to the registry did not succeed. The client goes on by itself after each of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The registry refused it, and nothing was changed.
    #[error("{url} says {}: {detail}", code.as_str())]
    Refused {
        /// Who refused it.
        url: String,
        /// The stable code.
        code: Code,
        /// What the registry says about it.
        detail: String,
        /// When to try again, if the registry said so.
        retry_after: Option<Duration>,
    },
    /// No cell could be reached, or the connection broke. A write may have happened.
    #[error("the cell at {url} cannot be reached: {why}")]
    Unreachable {
        /// Where it was looked for.
        url: String,
        /// What happened there.
        why: String,
    },
    /// No answer came in time. A write may have happened.
    #[error("the cell at {url} gave no answer within {within:?}")]
    Unanswered {
        /// Where it was asked.
        url: String,
        /// How long an answer was waited for.
        within: Duration,
    },
    /// The answer is of a version that this one cannot read.
    #[error("the answer cannot be read: {0}")]
    Unreadable(String),
}

impl CallError {
    /// The wait that the registry asked for.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            Self::Unreachable { .. } | Self::Unanswered { .. } | Self::Unreadable(_) => None,
        }
    }

    /// The same, with the cell that it came from.
    pub(crate) fn at(mut self, from: &str) -> Self {
        if let Self::Refused { url, .. } = &mut self
            && url.is_empty()
        {
            from.clone_into(url);
        }
        self
    }

    /// Whether another cell of the region may do better at once.
    pub(crate) const fn is_of_this_cell(&self) -> bool {
        match self {
            Self::Refused { code, .. } => matches!(code.status(), 500 | 503 | 504),
            Self::Unreachable { .. } | Self::Unanswered { .. } | Self::Unreadable(_) => true,
        }
    }
}

fn findings(found: &[Invalid]) -> String {
    found.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
