//! One watch: a cursor for each region that is watched, driven by the views as they change.
//!
//! Promises: nothing is queued for a watcher. It is asked for more only when its connection has taken what it got, so a
//! slow one falls behind its view's history and resyncs, and no other notices (I26). It ends when the process stops.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, select_all};
use rollcall_model::{Clock, Cursor, Event, Instant, Position, Query, Region, View};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Bookmarks come once a second, give or take what a busy process is late.
const BETWEEN_BOOKMARKS: Duration = Duration::from_millis(900);

/// A watch of one region or several.
pub(super) struct Watching {
    lanes: Vec<Lane>,
    turn: usize,
    clock: Clock,
    stopping: CancellationToken,
}

struct Lane {
    region: Region,
    view: watch::Receiver<Arc<View>>,
    cursor: Cursor,
    bookmarked: Option<Instant>,
}

/// What a watch has to say next.
pub(super) enum Said {
    /// Events of one region, in order; never none.
    Events(Region, Vec<Event>),
    /// Nothing happened for the time given.
    Nothing,
    /// The process stops.
    Over,
}

impl Watching {
    /// A watch that has nothing yet, or each region up to the position that `since` gives.
    pub(super) fn new(
        views: Vec<watch::Receiver<Arc<View>>>,
        query: &Query,
        since: impl Fn(&Region) -> Option<Position>,
        clock: Clock,
        stopping: CancellationToken,
    ) -> Self {
        let lanes = views
            .into_iter()
            .map(|view| {
                let region = view.borrow().region().clone();
                Lane { cursor: Cursor::new(query.clone(), since(&region)), region, view, bookmarked: None }
            })
            .collect();
        Self { lanes, turn: 0, clock, stopping }
    }

    /// Waits for the next events, at most for `patience`.
    pub(super) async fn next(&mut self, patience: Duration) -> Said {
        loop {
            if self.stopping.is_cancelled() {
                return Said::Over;
            }
            if let Some((region, events)) = self.ready() {
                return Said::Events(region, events);
            }
            let stopping = self.stopping.clone();
            let now = self.clock.now();
            let due = self.lanes.iter().filter_map(|lane| lane.cursor.due()).min();
            let due = due.map(|due| due.since(now)).filter(|due| *due < patience);
            tokio::select! {
                () = stopping.cancelled() => return Said::Over,
                is_open = self.changed() => if !is_open {
                    return Said::Over;
                },
                () = tokio::time::sleep(due.unwrap_or(patience)) => if due.is_none() {
                    return Said::Nothing;
                },
            }
        }
    }

    /// What can be said now. Regions take turns, so that a busy one does not silence the others.
    fn ready(&mut self) -> Option<(Region, Vec<Event>)> {
        let lanes = self.lanes.len();
        for step in 0..lanes {
            let at = (self.turn + step) % lanes;
            let Some(lane) = self.lanes.get_mut(at) else { continue };
            // Marked as seen before it is read: a change in between wakes the wait again.
            let view = lane.view.borrow_and_update().clone();
            let now = self.clock.now();
            let mut events = lane.cursor.advance(&view, now);
            events.retain(|event| lane.is_due(event, now));
            if !events.is_empty() {
                self.turn = at + 1;
                return Some((lane.region.clone(), events));
            }
        }
        None
    }

    /// Waits until a view changes; false when its keeper is gone, which is at the end of the process.
    async fn changed(&mut self) -> bool {
        let changes: Vec<BoxFuture<'_, bool>> =
            self.lanes.iter_mut().map(|lane| lane.view.changed().map(|end| end.is_ok()).boxed()).collect();
        select_all(changes).await.0
    }
}

impl Lane {
    /// Whether an event is worth sending. A bookmark that says no more than the delta before it waits its second: one
    /// behind every delta would double what a busy region sends.
    fn is_due(&mut self, event: &Event, now: Instant) -> bool {
        let Event::Bookmark(mark) = event else { return true };
        let is_due = mark.position != mark.from
            || self.bookmarked.is_none_or(|last| now.since(last) >= BETWEEN_BOOKMARKS);
        if is_due {
            self.bookmarked = Some(now);
        }
        is_due
    }
}
