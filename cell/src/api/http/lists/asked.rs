//! A question, and its answer as it is written for the first time. Never here: who matches a question.

use std::sync::{Arc, Mutex};

use rollcall_model::{Instant, Query, Registration, View};

use crate::api::http::json;
use crate::api::http::lists::page::Page;
use crate::api::http::lists::{Kept, Source};
use crate::api::http::parameters::Parameters;
use crate::api::http::row::Row;
use crate::api::reading::{self, Place};
use crate::api::unread::Held;
use crate::refusal::Refusal;
use crate::regions::Which;

/// Which of the views it is in, and what it is.
type Found<'a> = (usize, &'a Arc<Registration>);

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

    /// Writes its answer, with the room that it has until it goes out; or takes a page of just its registrations, if the
    /// marks in it are right.
    pub(super) async fn write(
        self: Arc<Self>,
        page: Option<Arc<Page>>,
        views: &[Arc<View>],
        from: Source<'_>,
        now: Instant,
    ) -> Result<(Kept, Option<Arc<Held>>), Refusal> {
        let (mut found, mut has_more) = self.found(views)?;
        let own = from.regions.own();
        let is_own = |view: usize| views.get(view).is_some_and(|view| view.region() == own);
        let leased = found.iter().filter(|(view, _)| is_own(*view)).map(|(_, registration)| &***registration);
        let (overdue, calm) = from.keeper.overdue(leased, now);
        if let Some(page) = page.filter(|page| page.overdue == overdue) {
            return Ok((Kept { asked: Arc::clone(&self), page, calm }, None));
        }
        let mut row = Row::behind(b"{\"agents\":[", from.unread);
        let mut marks = overdue.iter();
        for (view, registration) in &found {
            let Some(region) = views.get(*view).map(|view| view.region()) else { continue };
            // The own region's keeper knows at once who is overdue; the others tell by their feeds.
            let mark = if is_own(*view) { marks.next().copied() } else { None };
            let overdue = mark.unwrap_or(registration.owned.overdue);
            if !row.add(&json::agent(region, registration, self.query.internal, overdue)).await? {
                break;
            }
        }
        let is_full = row.many() < found.len();
        found.truncate(row.many());
        has_more |= is_full;
        let (agents, held) = row.end(b"],\"regions\":");
        let held = held.map(Arc::new);
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
            is_full,
            agents,
            held: Mutex::new(held.as_ref().map(Arc::downgrade).unwrap_or_default()),
            next: next.into(),
            seen: Mutex::new(views.iter().map(Arc::downgrade).collect()),
        };
        Ok((Kept { asked: Arc::clone(&self), page: Arc::new(page), calm }, held))
    }

    /// Whom it finds, and whether there are more behind them.
    fn found<'a>(&'a self, views: &'a [Arc<View>]) -> Result<(Vec<Found<'a>>, bool), Refusal> {
        let mut walk = reading::walk(views, &self.query, self.place.as_ref())?;
        let found = walk.by_ref().take(self.limit).collect();
        Ok((found, walk.next().is_some()))
    }
}
