//! One moment of what is known, to resolve from without copying anything.

use std::sync::Arc;

use arc_swap::Guard;
use rollcall_model::resolve::{self as model, Asked, Resolving, Trust, first, resolve};
use rollcall_model::{Instant, Query, Reach, Region, Registration, View};

use crate::ejection::Page;
use crate::local_snapshot::LocalSnapshot;
use crate::resolver::{Candidate, Resolution};

/// What is known at one moment. Short-lived: it keeps the state of its moment in memory.
pub struct Reading<'a> {
    pub(crate) snapshot: Guard<Arc<LocalSnapshot>>,
    pub(crate) page: Option<Page<'a>>,
    pub(crate) now: Instant,
}

impl Reading<'_> {
    /// The same, with everything in it owned.
    pub(crate) fn resolution(&self, query: &Query, reach: &Reach) -> Resolution {
        let found = self.resolve(query, reach);
        Resolution { outcome: found.outcome(), candidates: found.map(Candidate::from).collect() }
    }

    /// Finds the instances that fit, one by one as they are taken, better ones first. Immediate; the first costs
    /// neither a lock nor an allocation.
    #[inline]
    pub fn resolve<'a>(
        &'a self,
        query: &'a Query,
        reach: &'a Reach,
    ) -> Resolving<'a, View, impl FnMut(&Region, &Registration) -> Trust> {
        resolve(self.asked(query, reach), self.now, self.trust())
    }

    /// Finds the best instance that fits: the first one that [`Reading::resolve`] gives, at less cost.
    #[must_use]
    #[inline]
    pub fn first<'a>(&'a self, query: &'a Query, reach: &'a Reach) -> Option<model::Candidate<'a>> {
        first(self.asked(query, reach), self.now, self.trust())
    }

    #[inline]
    fn asked<'a>(&'a self, query: &'a Query, reach: &'a Reach) -> Asked<'a, View> {
        Asked { views: self.snapshot.views(), query, reach, age_max: self.snapshot.age_max() }
    }

    #[inline]
    fn trust(&self) -> impl FnMut(&Region, &Registration) -> Trust {
        let page = self.page.as_ref();
        move |region, one| page.map_or(Trust::Usable, |page| page.trust(region, one))
    }
}
