//! All regions that a cell serves at one address: its own replica and the views it follows.

mod paced;

use std::collections::BTreeMap;
use std::sync::Arc;

use rollcall_model::{Code, Freshness, Instant, Region, View};
use tokio::sync::watch;

use crate::api::{Downloads, Encodings};
use crate::refusal::Refusal;

/// Readers' side of every view. Cheap to clone; a reader never waits.
#[derive(Clone)]
pub struct Regions {
    own: Region,
    /// The others, as they were configured: the order of failover.
    others: Arc<[Region]>,
    views: Arc<BTreeMap<Region, Served>>,
    downloads: Downloads,
}

/// One region as it is served.
#[derive(Clone)]
pub(crate) struct Served {
    pub(crate) view: watch::Receiver<Arc<View>>,
    /// The same for those who follow it: at a pace, so that they take what comes within a few milliseconds together and
    /// alike. Without one it is the view itself, and each change wakes them.
    pub(crate) paced: watch::Receiver<Arc<View>>,
    /// What watchers of it share.
    pub(crate) encodings: Encodings,
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
    /// All views of a cell: the own region's, and the others' in the order of failover.
    #[must_use]
    pub fn new(
        own: (Region, watch::Receiver<Arc<View>>),
        others: Vec<(Region, watch::Receiver<Arc<View>>)>,
    ) -> Self {
        let order = others.iter().map(|(region, _)| region.clone()).collect();
        let name = own.0.clone();
        let served = |view: watch::Receiver<Arc<View>>| Served {
            paced: view.clone(),
            view,
            encodings: Encodings::default(),
        };
        let views = std::iter::once(own).chain(others);
        let views = views.map(|(region, view)| (region, served(view))).collect();
        Self { own: name, others: order, views: Arc::new(views), downloads: Downloads::default() }
    }

    /// The same with watchers that are shown changes at a pace, by the tasks that are given with it.
    #[must_use]
    pub fn paced(self) -> (Self, Vec<impl Future<Output = ()> + Send>) {
        let mut tasks = Vec::new();
        let mut pace = |(region, served): (&Region, &Served)| {
            let (paced, task) = paced::paced(served.view.clone());
            tasks.push(task);
            (region.clone(), Served { paced, ..served.clone() })
        };
        let views = Arc::new(self.views.iter().map(&mut pace).collect());
        (Self { views, ..self }, tasks)
    }

    /// The places for snapshots under way.
    pub(crate) fn downloads(&self) -> &Downloads {
        &self.downloads
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
            Some(served) => served.view.borrow().clone(),
            None => Arc::new(View::new(self.own.clone())),
        }
    }

    /// The regions that a question is about, the own one first.
    ///
    /// # Errors
    /// A region that this cell does not serve.
    pub(crate) fn select(&self, which: &Which) -> Result<Vec<Served>, Refusal> {
        Ok(self.chosen(which)?.into_iter().cloned().collect())
    }

    fn chosen(&self, which: &Which) -> Result<Vec<&Served>, Refusal> {
        let named = |region: &Region| {
            self.views.get(region).ok_or_else(|| {
                let detail = self.foreign(region);
                Refusal::invalid(vec![rollcall_model::Invalid::new(Code::InvalidParameter, "region", detail)])
            })
        };
        match which {
            Which::Own => Ok(vec![named(&self.own)?]),
            Which::Named(region) => Ok(vec![named(region)?]),
            Which::All => {
                let others = self.views.iter().filter(|(region, _)| **region != self.own);
                Ok(std::iter::once(named(&self.own)?).chain(others.map(|(_, served)| served)).collect())
            }
        }
    }

    /// The views that a question is about, as they are now; the own region first.
    ///
    /// # Errors
    /// A region that this cell does not serve.
    pub fn now(&self, which: &Which) -> Result<Vec<Arc<View>>, Refusal> {
        // A receiver is dear to clone: its sender is told of each one that comes and goes.
        Ok(self.chosen(which)?.into_iter().map(|served| served.view.borrow().clone()).collect())
    }

    /// The views as they are now, in the order in which they are asked when those before have nobody: the region that a
    /// question is about, then the others as they were configured.
    ///
    /// # Errors
    /// A region that this cell does not serve.
    pub fn in_order(&self, which: &Which) -> Result<Vec<Arc<View>>, Refusal> {
        let first = match which {
            Which::Own | Which::All => &self.own,
            Which::Named(region) => region,
        };
        let others = std::iter::once(&self.own).chain(self.others.iter()).filter(|other| *other != first);
        let mut views = self.now(&Which::Named(first.clone()))?;
        views.extend(others.filter_map(|other| Some(self.views.get(other)?.view.borrow().clone())));
        Ok(views)
    }

    /// What is said about a region that is not served.
    #[must_use]
    pub fn foreign(&self, region: &Region) -> String {
        let known: Vec<_> = self.views.keys().map(Region::as_str).collect();
        format!("this cell does not serve {region}; it serves {}", known.join(", "))
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
