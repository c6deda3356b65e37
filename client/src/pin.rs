//! A conversation that resolves from one snapshot until it ends.
//!
//! Promises (I29): all that a pin resolves comes from the snapshot that it was made with, so that nobody changes under
//! a conversation, until it is dropped or its limit passes; then from what is known by then. Made before the own region was
//! loaded, it holds the first state that it finds there: there is no snapshot before that. Ages go on honestly, and
//! whoever fails its callers is left out also of what was pinned. Never here: a hold on an instance; one that has gone
//! is still resolved, and calling it tells.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::Guard;
use rollcall_model::{Instant, Query, Reach};

use crate::local_snapshot::LocalSnapshot;
use crate::reading::Reading;
use crate::registry::Registry;
use crate::resolver::Resolution;

/// One snapshot to resolve from, for a conversation. It keeps that state in memory: what changed since takes room twice.
#[derive(Clone, Debug)]
pub struct Pin {
    registry: Registry,
    /// Clones share it.
    snapshot: Arc<OnceLock<Arc<LocalSnapshot>>>,
    until: Instant,
}

impl Pin {
    pub(crate) fn new(registry: Registry, limit: Duration) -> Self {
        let until = registry.now().plus(limit);
        let pin = Self { snapshot: Arc::default(), registry, until };
        pin.snapshot();
        pin
    }

    fn snapshot(&self) -> Option<&Arc<LocalSnapshot>> {
        if let Some(pinned) = self.snapshot.get() {
            return Some(pinned);
        }
        let now = self.registry.snapshot();
        let is_loaded = now.views().first().is_some_and(|own| own.state().is_some());
        is_loaded.then(|| self.snapshot.get_or_init(|| now))
    }

    /// Finds the instances that fit, as [`Registry::resolve`] does.
    #[must_use]
    pub fn resolve(&self, query: &Query) -> Resolution {
        self.read().resolution(query, &Reach::default())
    }

    /// Finds the instances that fit in the regions that this answer may come from, as [`Registry::resolve_within`] does.
    #[must_use]
    pub fn resolve_within(&self, query: &Query, reach: &Reach) -> Resolution {
        self.read().resolution(query, reach)
    }

    /// What is pinned, to resolve from without copying anything.
    #[must_use]
    pub fn read(&self) -> Reading<'_> {
        let mut reading = self.registry.read();
        if reading.now < self.until
            && let Some(pinned) = self.snapshot()
        {
            reading.snapshot = Guard::from_inner(Arc::clone(pinned));
        }
        reading
    }

    /// Whether the limit has passed, so that it resolves from what is known now.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.registry.now() >= self.until
    }
}
