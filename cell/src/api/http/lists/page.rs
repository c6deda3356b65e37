//! What is kept of an answer, and how the answer is made of it: byte for byte what it would be if nothing were kept.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use rollcall_model::{Instant, Registration, View};

use crate::api::http::lists::Source;
use crate::api::http::lists::asked::Asked;
use crate::api::http::lists::body::Written;
use crate::api::http::lists::standings::Standings;
use crate::api::reading;
use crate::api::unread::{Held, Unread};
use crate::refusal::Refusal;

/// Room for what is written into every answer about a region.
const REGION_BYTES: usize = 320;
/// Up to so many bytes are copied beside what is written anew. More are handed on as they are kept, in a piece of their
/// own: the network is given it in the same call, and another piece costs what a copy of a few KiB does.
const COPIED_BYTES_MAX: usize = 8 * 1024;

/// The part of an answer that follows from its registrations and their marks.
pub(super) struct Page {
    /// Its registrations, held weakly: one goes from memory when it goes from the state, and still no other one can stand
    /// at its address while it is kept here.
    pub(super) written_from: Box<[Weak<Registration>]>,
    /// Whether there are more behind them.
    pub(super) has_more: bool,
    /// Whether the next one had no room.
    pub(super) is_full: bool,
    /// Those of the own region, in order.
    pub(super) overdue: Vec<bool>,
    /// `{"agents":[…],"regions":`
    pub(super) agents: Bytes,
    /// The room of these bytes, as long as a caller has yet to take them: those who do at the same time share it.
    pub(super) held: Mutex<Weak<Held>>,
    /// `,"next_page_token":…}`
    pub(super) next: Box<[u8]>,
    /// The views in which it was last seen to be right, held weakly like its registrations.
    pub(super) seen: Mutex<Box<[Weak<View>]>>,
}

impl Page {
    /// Whether just its registrations are what a question asks for now. While the views are those in which they were the
    /// last time, nobody needs to be met again: a view never changes.
    pub(super) fn is_of(&self, asked: &Asked, views: &[Arc<View>]) -> Result<bool, Refusal> {
        if self.seen().iter().map(Weak::as_ptr).eq(views.iter().map(Arc::as_ptr)) {
            return Ok(true);
        }
        let mut walk = reading::walk(views, &asked.query, asked.place.as_ref())?;
        let is_met =
            |one: &Weak<_>| walk.next().is_some_and(|(_, met)| std::ptr::eq(one.as_ptr(), Arc::as_ptr(met)));
        let is_of = self.written_from.iter().all(is_met) && walk.next().is_some() == self.has_more;
        if is_of {
            *self.seen() = views.iter().map(Arc::downgrade).collect();
        }
        Ok(is_of)
    }

    /// In how many views it is seen.
    pub(super) fn views(&self) -> usize {
        self.seen().len()
    }

    fn seen(&self) -> MutexGuard<'_, Box<[Weak<View>]>> {
        // Nothing in it is half done when somebody panics.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer, with the regions as they stand now.
    pub(super) fn answer(
        &self,
        standings: &Standings,
        from: Source<'_>,
        views: &[Arc<View>],
        now: Instant,
    ) -> Result<Written, Refusal> {
        let is_copied = self.agents.len() <= COPIED_BYTES_MAX;
        let copied = if is_copied { &*self.agents } else { &[] };
        let mut rest = Vec::with_capacity(copied.len() + self.next.len() + REGION_BYTES * views.len());
        rest.extend_from_slice(copied);
        standings.write(&mut rest, from.regions.own(), views, now)?;
        rest.extend_from_slice(&self.next);
        Ok(Written::new(if is_copied { Bytes::new() } else { self.handed_out(from.unread)? }, rest))
    }

    /// Its bytes for one caller more.
    fn handed_out(&self, unread: &Unread) -> Result<Bytes, Refusal> {
        let agents = self.agents.clone();
        if Unread::passes(agents.len()) {
            return Ok(agents);
        }
        let mut shared = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let held = match shared.upgrade() {
            Some(held) => held,
            None => Arc::new(unread.take(agents.len())?),
        };
        *shared = Arc::downgrade(&held);
        Ok(held.over(agents))
    }
}
