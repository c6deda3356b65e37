//! How long what is known may be used, under the names that other registries gave to such rules.
//!
//! Promises: whatever the rule, a change is heard of when it happens and not when an entry ends, and a rule only says
//! what is still used once nothing is heard. Never here: a rule that asks the registry on the path of a call.

use std::time::Duration;

use rollcall_model::{BreakerLimits, limits};

/// How long what is known may be used, and when the registry is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheProfile {
    /// From this age on a state is called stale; it is used all the same.
    pub stale_after: Duration,
    /// A state older than this is not resolved from.
    pub age_max: Duration,
    /// When the registry is left alone for a while; `None` never. Backoff with full jitter is always there.
    pub breaker: Option<BreakerLimits>,
}

impl CacheProfile {
    /// What is known stays usable for a day: callers go on whatever becomes of the registry. The default.
    pub const LASTING: Self =
        Self { stale_after: limits::BEHIND_AGE, age_max: limits::AGE_MAX, breaker: None };

    /// Entries that live for five minutes (acceptance SNP-08).
    pub const FIVE_MINUTES: Self = Self { age_max: Duration::from_secs(300), ..Self::LASTING };

    /// Fresh for five minutes, usable for fifteen in a long outage (acceptance SNP-09), and after three failures within
    /// a minute the registry is left alone for five (acceptance SNP-10).
    pub const LONG_OUTAGE: Self = Self {
        stale_after: Duration::from_secs(300),
        age_max: Duration::from_secs(900),
        breaker: Some(BreakerLimits::QUERIES),
    };

    /// Nothing but what the registry confirmed within three seconds: the cache switched off (acceptance SNP-08).
    pub const OFF: Self =
        Self { stale_after: limits::CURRENT_AGE, age_max: limits::CURRENT_AGE, breaker: None };
}

impl Default for CacheProfile {
    fn default() -> Self {
        Self::LASTING
    }
}
