//! Pages of one revision, as large as the way to the store carries in time.
//!
//! Promises that a store which answers one entry in time is read to the end, however slow it is, and that one which falls
//! silent, at the first page or in the middle, ends the reading after two calls. Never here: what the entries mean.

use std::time::Duration;

use rollcall_model::Revision;
use tokio::time::Instant;

use super::Pace;
use crate::store::{Entry, Page, Store, StoreError, limits};

/// Entries of the first page. A page that was given up goes on to fill a slow way, so it begins small: these are there in
/// time at 10 KB/s, and the six pages more that a fast way costs are not felt.
const FIRST: usize = 8;

/// What is asked for when a page did not come. Only one entry tells a slow store from a silent one, and each page between
/// would be another call that a silent one is waited for: from 500 entries by halves it was three quarters of a minute.
const LEAST: usize = 1;

/// A page that came within this may be twice as large the next time, and is still in time: a call may take thrice as long.
const QUICK: Duration = Duration::from_secs(1);

/// A reading that somebody waits for and that takes this long is told, and told again as often. A hundred thousand
/// registrations take two seconds.
const LONG: Duration = Duration::from_secs(10);

/// One reading of a store.
pub(super) struct Pages<'a, S> {
    store: &'a S,
    pace: Pace,
    /// Where it is pinned; none before the first answer.
    at: Option<Revision>,
    /// Entries to ask for.
    most: usize,
    /// Entries that are there, under all prefixes.
    count: usize,
    /// Pages that were not answered in time, and what was said of the last.
    late: u32,
    why: String,
    began: Instant,
    told: Instant,
}

impl<'a, S: Store> Pages<'a, S> {
    /// Nothing is read yet.
    pub(super) fn new(store: &'a S, pinned: Option<Revision>, pace: Pace) -> Self {
        let began = Instant::now();
        let why = "its answers take long".to_owned();
        Self { store, pace, at: pinned, most: FIRST, count: 0, late: 0, why, began, told: began }
    }

    /// Everything under a prefix, at the revision of everything before it.
    ///
    /// # Errors
    /// As the store's; [`StoreError::Late`] when not even one entry comes in time.
    pub(super) async fn all(&mut self, prefix: &str) -> Result<(Vec<Entry>, Revision), StoreError> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let after = entries.last().map(|entry| entry.key.clone());
            let page = self.next(prefix, after.as_deref()).await?;
            self.at = Some(page.at);
            self.count += page.entries.len();
            entries.extend(page.entries);
            if !page.more {
                return Ok((entries, page.at));
            }
            if let Pace::Resting(rest) = self.pace {
                tokio::time::sleep(rest).await;
            }
        }
    }

    /// The next page. One that does not come is asked for again with a single entry, and from there they grow again.
    async fn next(&mut self, prefix: &str, after: Option<&str>) -> Result<Page, StoreError> {
        loop {
            let asked = Instant::now();
            let answer = self.store.list(prefix, after, self.at, self.most).await;
            match answer {
                Err(StoreError::Late(why)) if self.most > LEAST => {
                    self.most = LEAST;
                    self.late += 1;
                    self.why = why;
                }
                answer => {
                    let is_quick = asked.elapsed() < QUICK;
                    if is_quick && answer.as_ref().is_ok_and(|page| page.more) {
                        self.most = (self.most * 2).min(limits::PAGE_ENTRIES);
                    }
                    self.tell(prefix);
                    return answer;
                }
            }
            self.tell(prefix);
        }
    }

    /// Says how far it is, where somebody waits and it takes long.
    fn tell(&mut self, prefix: &str) {
        let Pace::Awaited(region) = &self.pace else { return };
        if self.told.elapsed() < LONG {
            return;
        }
        self.told = Instant::now();
        let seconds = self.began.elapsed().as_secs();
        tracing::warn!(
            %region, seconds, entries = self.count, under = prefix, at = self.at.map(|at| at.0), page = self.most,
            late = self.late, why = self.why, "the store is slow to read; the state is not loaded yet"
        );
    }
}

#[cfg(test)]
mod tests;
