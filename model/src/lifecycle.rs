//! Lifecycle, kind, scope and load: closed words with one text form each.

/// How an instance says it is doing. Full is load, not lifecycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lifecycle {
    /// Registered, not serving yet.
    Starting,
    /// Serving.
    Healthy,
    /// Serving, worse than it should.
    Degraded,
    /// Finishes what it has, takes nothing new.
    Draining,
    /// Will not serve.
    Offline,
    /// Never told.
    Unknown,
}

/// What registers: tools only register; agents register and discover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Registers and discovers.
    Agent,
    /// Registers only.
    Tool,
}

/// What one entry stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// One process.
    Instance,
    /// All replicas of a deployment.
    Service,
}

/// What an instance last reported of its work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Waiting pieces of work.
    pub queue_depth: u32,
    /// Pieces of work in progress.
    pub in_flight: u32,
    /// Share of failures, 0–1.
    pub error_rate: f64,
}

impl Lifecycle {
    /// Every lifecycle, in order of life.
    pub const ALL: [Self; 6] =
        [Self::Starting, Self::Healthy, Self::Degraded, Self::Draining, Self::Offline, Self::Unknown];

    /// The contract's word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Draining => "draining",
            Self::Offline => "offline",
            Self::Unknown => "unknown",
        }
    }

    /// Reads the word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|l| l.as_str() == text)
    }
}

impl Kind {
    /// The contract's word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Tool => "tool",
        }
    }

    /// Reads the word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Agent, Self::Tool].into_iter().find(|k| k.as_str() == text)
    }
}

impl Scope {
    /// The contract's word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Instance => "instance",
            Self::Service => "service",
        }
    }

    /// Reads the word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Instance, Self::Service].into_iter().find(|s| s.as_str() == text)
    }
}
