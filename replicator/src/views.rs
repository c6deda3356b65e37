//! The views of all followed regions, each swapped whole, read by everybody without waiting.

use std::collections::BTreeMap;
use std::sync::Arc;

use rollcall_model::{Region, View};
use tokio::sync::watch;

/// The views by region; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Views {
    views: Arc<BTreeMap<Region, watch::Receiver<Arc<View>>>>,
}

impl Views {
    /// The views of these regions. A region is taken out only by configuration (I38).
    #[must_use]
    pub fn new(views: BTreeMap<Region, watch::Receiver<Arc<View>>>) -> Self {
        Self { views: Arc::new(views) }
    }

    /// One region's view as it changes.
    #[must_use]
    pub fn of(&self, region: &Region) -> Option<watch::Receiver<Arc<View>>> {
        self.views.get(region).cloned()
    }

    /// All views as they are now, in order of region.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<View>> {
        self.views.values().map(|view| Arc::clone(&view.borrow())).collect()
    }
}
