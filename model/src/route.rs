//! Routes: the order in which a caller tries the candidates of an answer.
//!
//! Promises: a route only orders, it takes nobody in and leaves nobody out. Healthy ones come before degraded, these
//! before unknown, and overdue ones last; a route orders within these. Where it makes no difference, instances of the
//! caller's zone come first, and among equals chance decides, by weight. Sticky alone may put one before better ones: the
//! instance that holds a conversation, as long as it may be called.
//!
//! Never here: a memory. What a route needs to know of earlier answers, a turn or what was measured, is told to it.

mod canary;
mod latency;
mod least_loaded;
mod round_robin;
mod specialist;
mod sticky;
mod wish;
mod zone;

use std::time::Duration;

use crate::name::Zone;
use crate::resolve::{Candidate, rank};

pub use wish::{Policy, Wish};

/// How candidates are ordered.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Route {
    /// The caller's zone first.
    #[default]
    Zone,
    /// Each in its turn, evenly.
    RoundRobin,
    /// Those with the most room first, as they last reported.
    LeastLoaded,
    /// Those that answered fastest first.
    Latency,
    /// Those that fit these words best, and little else, first.
    Specialist(Vec<String>),
    /// This share of answers begins with this version, the others with any other.
    Canary {
        /// Which version is on trial.
        version: semver::VersionReq,
        /// Its share, 0-1.
        share: f64,
    },
    /// The same instance for the same key, while it may be called.
    Sticky(String),
}

/// Whom the order is for, and what was seen before.
#[derive(Clone, Copy)]
pub struct For<'a> {
    /// The caller's zone.
    pub zone: Option<&'a Zone>,
    /// How many answers to the same question came before this one; only [`Route::RoundRobin`] asks.
    pub turn: u64,
    /// How fast an instance has answered, where that is known; only [`Route::Latency`] asks.
    pub measured: &'a dyn Fn(&Candidate<'_>) -> Option<Duration>,
}

/// Nothing was measured.
#[must_use]
pub const fn unmeasured(_: &Candidate<'_>) -> Option<Duration> {
    None
}

impl Route {
    /// Puts candidates, as [`resolve`](crate::resolve::resolve()) gives them, in their order. `chance` gives numbers in
    /// [0, 1).
    pub fn order(&self, candidates: &mut [Candidate<'_>], caller: For<'_>, chance: &mut dyn FnMut() -> f64) {
        match self {
            Self::Zone => zone::order(candidates, caller.zone, chance),
            Self::RoundRobin => round_robin::order(candidates, caller.turn),
            Self::LeastLoaded => least_loaded::order(candidates, caller.zone, chance),
            Self::Latency => latency::order(candidates, caller.zone, caller.measured, chance),
            Self::Specialist(prefer) => specialist::order(candidates, prefer, caller.zone, chance),
            Self::Canary { version, share } => {
                canary::order(candidates, version, *share, caller.zone, chance)
            }
            Self::Sticky(key) => sticky::order(candidates, key),
        }
    }
}

/// Orders by rank, then by this key, then the caller's zone first, then by lot.
fn by<'c, K: Ord>(
    candidates: &mut [Candidate<'c>],
    zone: Option<&Zone>,
    chance: &mut dyn FnMut() -> f64,
    key: impl Fn(&Candidate<'c>) -> K,
) {
    candidates.sort_by_cached_key(|candidate| {
        (ranked(candidate), key(candidate), zone::is_elsewhere(candidate, zone), lot(candidate, chance()))
    });
}

/// The rank of a candidate: it has one, or it were none.
fn ranked(candidate: &Candidate<'_>) -> u8 {
    rank(candidate.registration).unwrap_or(u8::MAX)
}

/// A lot by weight: of several, each is the lowest as often as its weight is a share of all. An instance of weight 0 is
/// behind all others.
fn lot(candidate: &Candidate<'_>, chance: f64) -> u64 {
    let weight = f64::from(candidate.registration.declared.weight);
    let wait = -(1.0 - chance).ln() / weight;
    // Of numbers that are not negative the bits are in the numbers' order; what is none is behind all of them.
    if wait.is_nan() { u64::MAX } else { wait.abs().to_bits() }
}
