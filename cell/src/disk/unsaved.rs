//! Which copies on disk could not be written, as the writers of this process find it: the alarm, the figure, and what
//! readiness says.
//!
//! Promises one line at the beginning of a failure, one when its reason changes and one at its end, however often it is
//! tried meanwhile. Never here: a way out. The copy before stays, and the next time is another try.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rollcall_model::Region;
use rollcall_runtime::meter::{KeyValue, Metrics};

/// What the operator is told to do, in the alarm and in readiness alike. It holds no colon, which is what ends the reason
/// before it.
pub const REMEDY: &str = "make room, or rights, or put away what stands there; it is tried again every ten seconds, and a \
                          restart before that begins with the older copy";

/// What is known; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Unsaved(Arc<Mutex<BTreeMap<Region, Option<String>>>>);

impl Unsaved {
    /// The regions whose copy could not be written when it was last tried, each with the reason.
    #[must_use]
    pub fn now(&self) -> Vec<(Region, String)> {
        let known = self.known();
        known.iter().filter_map(|(region, why)| Some((region.clone(), why.clone()?))).collect()
    }

    /// Shows it.
    pub fn register(&self, metrics: &Metrics) {
        let unsaved = self.clone();
        metrics.observable_gauge(
            "rollcall.cell.copy.unsaved",
            "",
            "1 while the region's copy on disk cannot be written.",
            move |gauge| {
                for (region, why) in unsaved.known().iter() {
                    let value = if why.is_some() { 1.0 } else { 0.0 };
                    gauge.observe(value, &[KeyValue::new("region", region.as_str().to_owned())]);
                }
            },
        );
    }

    pub(super) fn failed(&self, region: &Region, error: &str) {
        let before = self.known().insert(region.clone(), Some(error.to_owned())).flatten();
        if before.as_deref() != Some(error) {
            tracing::error!(%region, error, "disk copy not written; the old one stays: {REMEDY}");
        }
    }

    pub(super) fn written(&self, region: &Region) {
        if self.known().insert(region.clone(), None).flatten().is_some() {
            tracing::warn!(%region, "disk copy is written again");
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Region, Option<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
