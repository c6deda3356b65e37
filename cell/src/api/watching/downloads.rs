//! Who may take a snapshot at the same time.
//!
//! A snapshot under way holds a page in its connection and an old state in memory. After an outage everybody wants one at
//! once; so some take theirs, and the others wait for a place, their streams open. One that takes no page for a second
//! loses its place and goes on without: it holds up nobody but itself. A snapshot of one page needs none.
//!
//! And pages are made one at a time, place or not. Each is milliseconds of work at a stretch; hundreds of them in a row
//! would let a keeper's beat wait for seconds.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rollcall_model::Instant;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Snapshots under way at once: pages of 1 MiB, so some 32 MiB, and enough to fill any network.
const PLACES: usize = 32;
/// How long a place is kept without a page taken: a page in a second is 8 Mbit/s, and who has less waits for nobody.
const KEPT: Duration = Duration::from_secs(1);

/// The places of a process. Cloned for each watch.
#[derive(Clone, Debug)]
pub(crate) struct Downloads {
    shared: Arc<Shared>,
    /// Whose turn it is to make a page.
    turn: Arc<Semaphore>,
}

impl Default for Downloads {
    fn default() -> Self {
        Self { shared: Arc::default(), turn: Arc::new(Semaphore::new(1)) }
    }
}

#[derive(Debug, Default)]
struct Shared {
    places: Mutex<Places>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Places {
    taken: Vec<(u64, Instant)>,
    next: u64,
}

/// A place; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Download {
    shared: Arc<Shared>,
    number: u64,
}

impl Shared {
    fn places(&self) -> MutexGuard<'_, Places> {
        // A list of numbers, whole whoever panicked.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Downloads {
    /// Takes a place, if one is free or was kept for too long.
    pub(crate) fn enter(&self, now: Instant) -> Option<Download> {
        let mut places = self.shared.places();
        places.taken.retain(|(_, since)| now.since(*since) < KEPT);
        if places.taken.len() >= PLACES {
            return None;
        }
        let number = places.next;
        places.next += 1;
        places.taken.push((number, now));
        Some(Download { shared: Arc::clone(&self.shared), number })
    }

    /// Waits for the turn to make a page; it is over when what this gives is dropped. Those who come first are first.
    pub(crate) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        // Never closed.
        Arc::clone(&self.turn).acquire_owned().await.ok()
    }

    /// Waits until a place may be free; also look now and then, for those that are kept for too long.
    pub(crate) async fn freed(&self) {
        self.shared.freed.notified().await;
    }
}

impl Download {
    /// A page was taken.
    pub(crate) fn goes_on(&self, now: Instant) {
        let mut places = self.shared.places();
        for (_, since) in places.taken.iter_mut().filter(|(number, _)| *number == self.number) {
            *since = now;
        }
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        let mut places = self.shared.places();
        places.taken.retain(|(number, _)| *number != self.number);
        drop(places);
        self.shared.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant(Duration::from_secs(seconds))
    }

    #[test]
    fn there_are_so_many_places_and_one_that_is_left_is_free() {
        let downloads = Downloads::default();
        let mut taken: Vec<_> = (0..PLACES).map(|_| downloads.enter(at(1)).unwrap()).collect();
        assert!(downloads.enter(at(1)).is_none());
        taken.pop();
        assert!(downloads.enter(at(1)).is_some());
    }

    #[tokio::test]
    async fn one_page_is_made_at_a_time() {
        let downloads = Downloads::default();
        let turn = downloads.turn().await.unwrap();
        let next = downloads.turn();
        tokio::pin!(next);
        assert!(futures_util::poll!(&mut next).is_pending());
        drop(turn);
        assert!(next.await.is_some());
    }

    #[test]
    fn who_takes_nothing_does_not_hold_up_the_others_and_who_goes_on_stays() {
        let downloads = Downloads::default();
        let slow: Vec<_> = (0..PLACES).map(|_| downloads.enter(at(1)).unwrap()).collect();
        assert!(downloads.enter(at(1)).is_none());
        slow[0].goes_on(at(2));
        let next = downloads.enter(at(2)).unwrap();
        assert_eq!(downloads.shared.places().taken.len(), 2, "the one that goes on, and the next");
        drop(slow);
        assert_eq!(downloads.shared.places().taken.len(), 1, "leaving late gives nobody else's place back");
        drop(next);
    }
}
