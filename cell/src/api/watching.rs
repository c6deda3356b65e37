//! One watch: a cursor for each region that is watched, driven by the views as they change.
//!
//! Promises: nothing is queued for a watcher. It is asked for more only when its connection has taken what it got, so a
//! slow one falls behind its view's history and resyncs, and no other notices (I26). It ends when the process stops.

mod downloads;
mod recent;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, select_all};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use rollcall_model::{Clock, Cursor, Delta, Event, Instant, Position, Query, Region, State, View};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use downloads::Download;
pub(crate) use downloads::Downloads;
pub(crate) use recent::{Encodings, Form, Recent};

use crate::regions::{Regions, Served};

/// A region whose snapshots need no place has at most so many instances,
const SMALL: u64 = 100;
/// and at most so many bytes of them, about: thousands of watchers may leave a page lying at the same time.
const SMALL_BYTES: usize = 64 * 1024;
/// How often a watch that waits for its snapshot looks for a place that was kept for too long.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Bookmarks come once a second, give or take what a busy process is late.
const BETWEEN_BOOKMARKS: Duration = Duration::from_millis(900);

/// A watch of one region or several.
pub(super) struct Watching {
    lanes: Vec<Lane>,
    turn: usize,
    downloads: Downloads,
    clock: Clock,
    /// The process stops. One future in a set of its own, which asks it only when it has something to say: asked at every
    /// step, it would be a lock that all watchers take turns at.
    stopping: FuturesUnordered<Pin<Box<WaitForCancellationFutureOwned>>>,
}

struct Lane {
    region: Region,
    view: watch::Receiver<Arc<View>>,
    paced: watch::Receiver<Arc<View>>,
    cursor: Cursor,
    recent: Arc<Recent>,
    download: Option<Download>,
    bookmarked: Option<Instant>,
}

/// Events of a region, and what its watchers share.
type Ready = (Region, Arc<Recent>, Vec<Event>);

/// What a watch has to say next.
pub(super) enum Said {
    /// Events of one region, in order, never none; what its watchers with this filter share; and for a page of a snapshot
    /// the turn to write it, which ends when this is dropped.
    Events(Region, Arc<Recent>, Vec<Event>, Option<OwnedSemaphorePermit>),
    /// Nothing happened for the time given.
    Nothing,
    /// The process stops.
    Over,
}

impl Watching {
    /// A watch that has nothing yet, or each region up to the position that `since` gives.
    pub(super) fn new(
        regions: &Regions,
        served: Vec<Served>,
        (form, query): (Form, &Query),
        since: impl Fn(&Region) -> Option<Position>,
        clock: Clock,
        stopping: CancellationToken,
    ) -> Self {
        let lane = |Served { view, paced, encodings }: Served| {
            let region = view.borrow().region().clone();
            Lane {
                cursor: Cursor::new(query.clone(), since(&region)),
                recent: encodings.of(form, query),
                region,
                view,
                paced,
                download: None,
                bookmarked: None,
            }
        };
        let lanes = served.into_iter().map(lane).collect();
        let stopping = FuturesUnordered::from_iter([Box::pin(stopping.cancelled_owned())]);
        Self { lanes, turn: 0, downloads: regions.downloads().clone(), clock, stopping }
    }

    /// Waits for the next events, at most for `patience`, if there is an end to it.
    pub(super) async fn next(&mut self, patience: Option<Duration>) -> Said {
        loop {
            if self.stopping.next().now_or_never().is_some() {
                return Said::Over;
            }
            let turn = if self.takes_snapshot() { self.downloads.turn().await } else { None };
            let (said, is_waiting) = self.ready();
            if let Some((region, recent, events)) = said {
                return Said::Events(region, recent, events, turn);
            }
            drop(turn);
            let now = self.clock.now();
            let due = self.lanes.iter().filter_map(|lane| lane.cursor.due()).min();
            let due = due.map(|due| due.since(now)).into_iter().chain(is_waiting.then_some(ASK_AGAIN)).min();
            let due = due.filter(|due| patience.is_none_or(|patience| *due < patience));
            let downloads = self.downloads.clone();
            tokio::select! {
                biased;
                _ = self.stopping.next() => return Said::Over,
                is_open = changed(&mut self.lanes) => if !is_open {
                    return Said::Over;
                },
                () = downloads.freed(), if is_waiting => {}
                () = rest(due.or(patience)) => if due.is_none() {
                    return Said::Nothing;
                },
            }
        }
    }

    /// Whether the next step of a region is part of a snapshot.
    fn takes_snapshot(&self) -> bool {
        self.lanes.iter().any(|lane| lane.cursor.takes_snapshot(&lane.view.borrow()))
    }

    /// What can be said now, and whether a snapshot waits for its place. Regions take turns, so that a busy one does not
    /// silence the others.
    fn ready(&mut self) -> (Option<Ready>, bool) {
        let lanes = self.lanes.len();
        let mut is_waiting = false;
        for step in 0..lanes {
            let at = (self.turn + step) % lanes;
            let Some(lane) = self.lanes.get_mut(at) else { continue };
            let view = lane.look();
            let now = self.clock.now();
            if lane.cursor.takes_snapshot(&view) && !is_small(&view) {
                match &lane.download {
                    Some(download) => download.goes_on(now),
                    None => lane.download = self.downloads.enter(now),
                }
                if lane.download.is_none() {
                    is_waiting = true;
                    continue;
                }
            }
            if let Some(delta) = lane.told() {
                self.turn = at + 1;
                return (
                    Some((lane.region.clone(), Arc::clone(&lane.recent), vec![Event::Delta(delta)])),
                    false,
                );
            }
            let mut events = lane.cursor.advance(&view, now);
            if !lane.cursor.takes_snapshot(&view) {
                lane.download = None;
            }
            events.retain(|event| lane.is_due(event, now));
            if !events.is_empty() {
                self.turn = at + 1;
                return (Some((lane.region.clone(), Arc::clone(&lane.recent), events)), false);
            }
        }
        (None, is_waiting)
    }
}

/// Waits until a view changes; false when its keeper is gone, which is at the end of the process.
async fn changed(lanes: &mut [Lane]) -> bool {
    if let [lane] = lanes {
        return lane.paced.changed().await.is_ok();
    }
    let changes = lanes.iter_mut().map(|lane| lane.paced.changed().map(|end| end.is_ok()).boxed());
    select_all(changes.collect::<Vec<BoxFuture<'_, bool>>>()).await.0
}

/// Waits for so long; without an end, for ever.
async fn rest(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

/// Whether a snapshot of this is no more than other answers are.
fn is_small(view: &View) -> bool {
    let bytes = |state: &State| state.iter().map(|registration| registration.weight_bytes()).sum::<usize>();
    view.state().is_none_or(|state| state.count() <= SMALL && bytes(state) <= SMALL_BYTES)
}

impl Lane {
    /// The view to go on with. Who follows takes the steps that all others take; who begins must find what was
    /// acknowledged before, so it takes the newest, and then waits until the steps have come so far.
    fn look(&mut self) -> Arc<View> {
        // Marked as seen before the newest is read: a change in between wakes the wait again.
        let paced = self.paced.borrow_and_update().clone();
        if self.cursor.is_following() { paced } else { self.view.borrow().clone() }
    }

    /// What another watcher with the same filter was told from the same place: it is what comes next here, and need not be
    /// put together again.
    fn told(&mut self) -> Option<Arc<Delta>> {
        let delta = self.recent.after(self.cursor.following()?)?;
        self.cursor.takes(&delta).then_some(delta)
    }

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

#[cfg(test)]
mod tests {
    use rollcall_model::testing::{position, region, registration};
    use rollcall_model::{Change, Owned, Registration, Snapshot, Timestamp};

    use super::*;

    /// So many instances, each with so many bytes of what its owner says.
    fn of(many: u64, bytes: usize) -> View {
        let mut state = State::default();
        for n in 0..many {
            let plain = registration(&format!("a/b/{n}"), n + 1, 1);
            let said = [("note".to_owned(), "x".repeat(bytes))]
                .into_iter()
                .collect::<std::collections::BTreeMap<_, _>>();
            let owned = Owned { metadata: said.into(), ..plain.owned.clone() };
            state.apply(&Change::Put(Arc::new(Registration { owned, ..plain })));
        }
        let mut view = View::new(region());
        view.install(Snapshot::of(region(), position(1, many), state), None, "test", Timestamp(0));
        view
    }

    #[test]
    fn f39_a_snapshot_needs_no_place_only_if_it_is_few_instances_and_few_bytes() {
        assert!(is_small(&View::new(region())));
        assert!(is_small(&of(SMALL, 10)));
        assert!(!is_small(&of(SMALL + 1, 10)));
        assert!(is_small(&of(2, SMALL_BYTES / 4)));
        assert!(!is_small(&of(2, SMALL_BYTES)), "two instances can be half a megabyte");
    }
}
