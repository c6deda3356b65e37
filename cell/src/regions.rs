//! All regions that a cell serves at one address: its own replica and the views it follows.

use std::collections::BTreeMap;
use std::sync::Arc;

use rollcall_model::{Code, Freshness, Instant, Region, View};
use tokio::sync::watch;

use crate::refusal::Refusal;

/// Readers' side of every view. Cheap to clone; a reader never waits.
#[derive(Clone)]
pub struct Regions {
    own: Region,
    views: Arc<BTreeMap<Region, watch::Receiver<Arc<View>>>>,
}

/// Which regions a question is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Which {
    /// The cell's own.
    #[default]
    Own,
    /// Every one.
    All,
    /// One by name.
    Named(Region),
}

impl Which {
    /// Reads `own`, `all` or a name.
    ///
    /// # Errors
    /// No region's name.
    pub fn parse(text: &str) -> Result<Self, rollcall_model::Invalid> {
        match text {
            "own" => Ok(Self::Own),
            "all" => Ok(Self::All),
            name => Region::parse(name).map(Self::Named),
        }
    }
}

impl Regions {
    /// All views of a cell; the own region's must be among them.
    #[must_use]
    pub fn new(own: Region, views: BTreeMap<Region, watch::Receiver<Arc<View>>>) -> Self {
        Self { own, views: Arc::new(views) }
    }

    /// The cell's own region.
    #[must_use]
    pub const fn own(&self) -> &Region {
        &self.own
    }

    /// Whether there is a view of this region, loaded or not.
    #[must_use]
    pub fn serves(&self, region: &Region) -> bool {
        self.views.contains_key(region)
    }

    /// The own region's view as it is now.
    #[must_use]
    pub fn own_view(&self) -> Arc<View> {
        match self.views.get(&self.own) {
            Some(view) => view.borrow().clone(),
            None => Arc::new(View::new(self.own.clone())),
        }
    }

    /// The receivers that a question is about, the own region first.
    ///
    /// # Errors
    /// A region that this cell does not serve.
    pub fn select(&self, which: &Which) -> Result<Vec<watch::Receiver<Arc<View>>>, Refusal> {
        let named = |region: &Region| {
            self.views.get(region).cloned().ok_or_else(|| {
                let known: Vec<_> = self.views.keys().map(Region::as_str).collect();
                Refusal::invalid(vec![rollcall_model::Invalid::new(
                    Code::InvalidParameter,
                    "region",
                    format!("this cell does not serve {region}; it serves {}", known.join(", ")),
                )])
            })
        };
        match which {
            Which::Own => Ok(vec![named(&self.own)?]),
            Which::Named(region) => Ok(vec![named(region)?]),
            Which::All => {
                let others = self.views.iter().filter(|(region, _)| **region != self.own);
                Ok(std::iter::once(named(&self.own)?).chain(others.map(|(_, view)| view.clone())).collect())
            }
        }
    }

    /// The views that a question is about, as they are now; the own region first.
    ///
    /// # Errors
    /// A region that this cell does not serve.
    pub fn now(&self, which: &Which) -> Result<Vec<Arc<View>>, Refusal> {
        Ok(self.select(which)?.iter().map(|view| view.borrow().clone()).collect())
    }

    /// Whether the own region's state can be served: loaded, from the store or from disk.
    #[must_use]
    pub fn can_serve(&self) -> bool {
        self.own_view().state().is_some()
    }

    /// Freshness of the own region.
    #[must_use]
    pub fn own_freshness(&self, now: Instant) -> Freshness {
        self.own_view().freshness(now)
    }
}
