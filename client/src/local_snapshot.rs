//! What a caller resolves from: the own region's state and the views of others, immutable, swapped whole.
//!
//! Promises: one value never changes under its reader, so that whoever holds it sees one consistent state. A failed
//! refresh leaves the last one in place with a growing age (promise I22).

use std::time::Duration;

use rollcall_model::{Freshness, Instant, Position, Region, View};

use crate::cache::CacheProfile;

/// The states of the followed regions at one moment.
#[derive(Clone, Debug)]
pub struct LocalSnapshot {
    /// In the order they are asked, the own region first.
    views: Vec<View>,
    cache: CacheProfile,
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
}

impl LocalSnapshot {
    /// The same with another state of one region.
    pub(crate) fn with(&self, view: &View) -> Self {
        let replaced = |old: &View| if old.region() == view.region() { view.clone() } else { old.clone() };
        Self { views: self.views.iter().map(replaced).collect(), cache: self.cache }
    }

    /// These states.
    pub(crate) const fn of(views: Vec<View>, cache: CacheProfile) -> Self {
        Self { views, cache }
    }

    pub(crate) const fn age_max(&self) -> Duration {
        self.cache.age_max
    }

    pub(crate) fn regions(&self, now: Instant) -> Vec<RegionStatus> {
        let status = |view: &View| RegionStatus {
            region: view.region().clone(),
            freshness: Freshness::within(view.age(now), self.cache.stale_after),
            age: view.age(now),
            position: view.position().cloned(),
            count: view.state().map_or(0, rollcall_model::State::count),
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
