//! One moment of what is known, to resolve from without copying anything.

use std::sync::Arc;

use arc_swap::Guard;
use rollcall_model::resolve::{Asked, Resolving, Trust, resolve};
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
        let asked = Asked { views: self.snapshot.views(), query, reach, age_max: self.snapshot.age_max() };
        let page = self.page.as_ref();
        resolve(asked, self.now, move |region: &Region, one: &Registration| {
            page.map_or(Trust::Usable, |page| page.trust(region, one))
        })
    }
}
