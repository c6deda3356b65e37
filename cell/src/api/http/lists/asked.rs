//! A question, and its answer as it is written for the first time. Never here: who matches a question.

use std::sync::{Arc, Mutex};

use rollcall_model::{Instant, Query, View};

use crate::api::http::json;
use crate::api::http::lists::page::Page;
use crate::api::http::lists::{Kept, Source};
use crate::api::http::parameters::Parameters;
use crate::api::reading::{self, Place};
use crate::refusal::Refusal;
use crate::regions::Which;

/// A question, as its text says it.
pub(super) struct Asked {
    pub(super) which: Which,
    limit: usize,
    pub(super) place: Option<Place>,
    pub(super) query: Query,
}

impl Asked {
    /// Reads it.
    ///
    /// # Errors
    /// The text is no question.
    pub(super) fn read(text: &str) -> Result<Self, Refusal> {
        let mut parameters = Parameters::read(text)?;
        let which = parameters.which();
        let limit = parameters.limit();
        let place = parameters.place();
        let internal = parameters.flag("internal");
        let query = Query { internal, ..parameters.query() };
        parameters.close()?;
        Ok(Self { which, limit, place, query })
    }

    /// Writes its answer; or takes a page of just its registrations, if the marks in it are right.
    pub(super) fn write(
        self: Arc<Self>,
        page: Option<Arc<Page>>,
        views: &[Arc<View>],
        from: Source<'_>,
        now: Instant,
    ) -> Result<Kept, Refusal> {
        let mut walk = reading::walk(views, &self.query, self.place.as_ref())?;
        let found: Vec<_> = walk.by_ref().take(self.limit).collect();
        let has_more = walk.next().is_some();
        let own = from.regions.own();
        let is_own = |view: usize| views.get(view).is_some_and(|view| view.region() == own);
        let leased = found.iter().filter(|(view, _)| is_own(*view)).map(|(_, registration)| &***registration);
        let (overdue, calm) = from.keeper.overdue(leased, now);
        if let Some(page) = page.filter(|page| page.overdue == overdue) {
            return Ok(Kept { asked: Arc::clone(&self), page, calm });
        }
        let mut agents = b"{\"agents\":[".to_vec();
        let mut marks = overdue.iter();
        for (nth, (view, registration)) in found.iter().enumerate() {
            let Some(region) = views.get(*view).map(|view| view.region()) else { continue };
            if nth > 0 {
                agents.push(b',');
            }
            // The own region's keeper knows at once who is overdue; the others tell by their feeds.
            let mark = if is_own(*view) { marks.next().copied() } else { None };
            let overdue = mark.unwrap_or(registration.owned.overdue);
            json::write(&mut agents, &json::agent(region, registration, self.query.internal, overdue))?;
        }
        agents.extend_from_slice(b"],\"regions\":");
        let last = found.last().filter(|_| has_more);
        let behind = |view: &Arc<View>, last| Place::behind(last, view.region(), views, &self.query);
        let place = last.and_then(|(view, last)| Some(behind(views.get(*view)?, last)));
        let mut next = b",\"next_page_token\":".to_vec();
        json::write(&mut next, &place.as_ref().map(Place::token))?;
        next.push(b'}');
        let page = Page {
            written_from: found.iter().map(|(_, registration)| Arc::downgrade(registration)).collect(),
            has_more,
            overdue,
            agents: agents.into_boxed_slice().into(),
            next: next.into(),
            seen: Mutex::new(views.iter().map(Arc::downgrade).collect()),
        };
        Ok(Kept { asked: Arc::clone(&self), page: Arc::new(page), calm })
    }
}
