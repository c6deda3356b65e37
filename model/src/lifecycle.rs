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

/// The load that an instance last reported, if it reported one; as long as a load itself, so that a million instances
/// hold no word each that says whether there is one.
#[derive(Clone, Copy)]
pub struct LastLoad {
    queue_depth: u32,
    in_flight: u32,
    /// Bits of the share of failures, or [`Self::NEVER`].
    error_rate: u64,
}

impl LastLoad {
    /// What is no share of failures: it reads as no number, which no door lets in.
    const NEVER: u64 = u64::MAX;
    /// Nothing was reported.
    pub const NONE: Self = Self { queue_depth: 0, in_flight: 0, error_rate: Self::NEVER };

    /// What was reported.
    #[must_use]
    pub const fn get(self) -> Option<Load> {
        if self.error_rate == Self::NEVER {
            return None;
        }
        let error_rate = f64::from_bits(self.error_rate);
        Some(Load { queue_depth: self.queue_depth, in_flight: self.in_flight, error_rate })
    }
}

impl From<Load> for LastLoad {
    fn from(load: Load) -> Self {
        let error_rate = load.error_rate.to_bits();
        Self { queue_depth: load.queue_depth, in_flight: load.in_flight, error_rate }
    }
}

impl From<Option<Load>> for LastLoad {
    fn from(load: Option<Load>) -> Self {
        load.map_or(Self::NONE, Self::from)
    }
}

impl PartialEq for LastLoad {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl std::fmt::Debug for LastLoad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
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
