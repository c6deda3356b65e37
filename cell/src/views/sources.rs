//! From where the views of other regions come, and what became of asking there: what readiness says of a view that is not
//! heard, so that nobody has to look for it in a log.
//!
//! Promises: what is told is of the last try. Never here: whether a view is old; it tells that itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rollcall_model::{Region, View};

/// What is known; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Sources(Arc<Mutex<BTreeMap<Region, Tried>>>);

#[derive(Debug)]
struct Tried {
    url: String,
    /// Why nothing comes from there; none while it answers.
    why: Option<String>,
}

impl Sources {
    /// It answers.
    pub(super) fn answers(&self, region: &Region, url: String) {
        self.known().insert(region.clone(), Tried { url, why: None });
    }

    /// It does not, for this reason.
    pub(super) fn fails(&self, region: &Region, url: String, why: &str) {
        self.known().insert(region.clone(), Tried { url, why: Some(why.to_owned()) });
    }

    /// A line for readiness about a view that does not come; none where all is well, and while nothing was tried.
    #[must_use]
    pub fn line(&self, view: &View) -> Option<String> {
        let known = self.known();
        let Tried { url, why } = known.get(view.region())?;
        let said = match why {
            Some(why) => format!("{url} fails: {why}"),
            None if view.state().is_none() => format!("{url} answers and has not loaded it either"),
            None => return None,
        };
        Some(format!("source of {} (not needed to be ready): {said}", view.region()))
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Region, Tried>> {
        // Plain values, whole whoever panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use rollcall_model::testing::{position, region};
    use rollcall_model::{Snapshot, State, Timestamp};

    use super::*;

    #[test]
    fn a_view_that_does_not_come_is_told_with_its_source_and_the_last_reason() {
        let (sources, mut view) = (Sources::default(), View::new(region()));
        assert_eq!(sources.line(&view), None);
        let url = || "http://h:1".to_owned();
        let told =
            |said: &str| Some(format!("source of {} (not needed to be ready): http://h:1 {said}", region()));
        sources.fails(&region(), url(), "first");
        sources.fails(&region(), url(), "refused");
        assert_eq!(sources.line(&view), told("fails: refused"));
        sources.answers(&region(), url());
        assert_eq!(sources.line(&view), told("answers and has not loaded it either"));
        view.install(Snapshot::of(region(), position(1, 1), State::default()), None, "started", Timestamp(0));
        assert_eq!(sources.line(&view), None);
        sources.fails(&region(), url(), "refused");
        assert_eq!(sources.line(&view), told("fails: refused"));
    }
}
