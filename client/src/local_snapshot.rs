//! What a caller resolves from: the own region's state and the views of others, immutable, swapped whole.
//!
//! Promises: one value never changes under its reader, so that whoever holds it sees one consistent state. A failed
//! refresh leaves the last one in place with a growing age (promise I22).

use std::sync::Arc;
use std::time::Duration;

use rollcall_model::{Freshness, Instant, Position, Region, View};

use crate::cache::CacheProfile;

/// The states of the followed regions at one moment.
#[derive(Clone, Debug)]
pub struct LocalSnapshot {
    /// In the order they are asked, the own region first.
    views: Vec<View>,
    /// Those that are not followed now, and why.
    failures: Vec<(Region, Failure)>,
    cache: CacheProfile,
}

/// Why a region is not followed now, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) why: Arc<str>,
    pub(crate) since: Instant,
}

/// Why a region is not followed at the moment; it is tried on and on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// What became of the last try, for people.
    pub why: String,
    /// Time since the first of the tries in a row that failed.
    pub lasting: Duration,
}

/// How one region's state stands.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionStatus {
    /// The region.
    pub region: Region,
    /// The word for the age.
    pub freshness: Freshness,
    /// Time since the state was last known to be its region's head; none when it was never loaded.
    pub age: Option<Duration>,
    /// Up to where it is known.
    pub position: Option<Position>,
    /// How many registrations it has.
    pub count: u64,
    /// Why nothing is heard of it at the moment; none while a cell is there to be heard.
    pub failing: Option<Failing>,
}

impl LocalSnapshot {
    /// The same with another state of one region.
    pub(crate) fn with(&self, view: &View) -> Self {
        let replaced = |old: &View| if old.region() == view.region() { view.clone() } else { old.clone() };
        Self { views: self.views.iter().map(replaced).collect(), ..self.clone() }
    }

    /// The same with what became of following one region.
    pub(crate) fn with_failure(&self, region: &Region, failure: Option<Failure>) -> Self {
        let others = self.failures.iter().filter(|(other, _)| other != region).cloned();
        let failures = others.chain(failure.map(|failure| (region.clone(), failure))).collect();
        Self { failures, ..self.clone() }
    }

    /// These states.
    pub(crate) const fn of(views: Vec<View>, cache: CacheProfile) -> Self {
        Self { views, failures: Vec::new(), cache }
    }

    pub(crate) const fn age_max(&self) -> Duration {
        self.cache.age_max
    }

    pub(crate) fn regions(&self, now: Instant) -> Vec<RegionStatus> {
        let failing = |view: &View| {
            let (_, failure) = self.failures.iter().find(|(region, _)| region == view.region())?;
            Some(Failing { why: failure.why.to_string(), lasting: now.since(failure.since) })
        };
        let status = |view: &View| RegionStatus {
            region: view.region().clone(),
            freshness: Freshness::within(view.age(now), self.cache.stale_after),
            age: view.age(now),
            position: view.position().cloned(),
            count: view.state().map_or(0, rollcall_model::State::count),
            failing: failing(view),
        };
        self.views.iter().map(status).collect()
    }

    /// The states, in the order they are asked, the own region first.
    #[must_use]
    pub fn views(&self) -> &[View] {
        &self.views
    }

    /// Whether this region's state is there.
    #[must_use]
    pub fn is_loaded(&self, region: &Region) -> bool {
        self.views.iter().any(|view| view.region() == region && view.state().is_some())
    }
}
