//! Whether the store has space, as the writes of this process find it: the alarm, the figure, and what readiness says.
//!
//! Promises one line at the beginning of a lack and one at its end, whoever writes how often. Never here: a write of
//! its own to find out; the keeper's beat asks once a second anyway, and the others hear that beat again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rollcall_model::Revision;
use rollcall_runtime::meter::Metrics;
use tokio::time::Instant;

use super::{Committed, Effect, Entry, Follow, Group, Happened, Op, Page, Store, StoreError, Tenure};

/// What the operator is told to do, in the alarm, in readiness and in refusals alike.
pub const REMEDY: &str = "renewals go on and nothing new is written: compact and defragment the store or give it more \
                          space; an etcd then wants `etcdctl alarm disarm`";
/// A put that is heard may have been written before the last refusal, and be late by so much.
const LATE: Duration = Duration::from_secs(5);

/// What is known; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Space(Arc<Mutex<Option<Lack>>>);

#[derive(Clone, Copy, Debug)]
struct Lack {
    since: Instant,
    last: Instant,
}

impl Space {
    /// Since when there is none; `None` while there is.
    #[must_use]
    pub fn lacks_for(&self) -> Option<Duration> {
        self.lack().map(|lack| lack.since.elapsed())
    }

    /// Shows it.
    pub fn register(&self, metrics: &Metrics) {
        let space = self.clone();
        metrics.observable_gauge(
            "rollcall.cell.store.full",
            "",
            "1 while the store refuses this process's writes for want of space.",
            move |gauge| gauge.observe(if space.lack().is_some() { 1.0 } else { 0.0 }, &[]),
        );
    }

    fn lack(&self) -> Option<Lack> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refused(&self) {
        let now = Instant::now();
        let mut lack = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lack.is_none() {
            tracing::error!("store out of space: {REMEDY}");
        }
        *lack = Some(Lack { since: lack.map_or(now, |lack| lack.since), last: now });
    }

    fn took(&self) {
        if let Some(lack) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            tracing::warn!(seconds = lack.since.elapsed().as_secs(), "store has space again");
        }
    }

    fn heard_a_put(&self) {
        if self.lack().is_some_and(|lack| lack.last.elapsed() > LATE) {
            self.took();
        }
    }
}

/// A store whose space is noticed on the way.
pub struct Noticed<S> {
    store: S,
    space: Space,
}

/// Its history, likewise.
pub struct NoticedFollow<F> {
    follow: F,
    space: Space,
}

impl<S> Noticed<S> {
    /// Over a store.
    pub const fn new(store: S, space: Space) -> Self {
        Self { store, space }
    }
}

impl<F: Follow> Follow for NoticedFollow<F> {
    async fn next(&mut self) -> Result<Vec<Happened>, StoreError> {
        let happened = self.follow.next().await?;
        let mut effects = happened.iter().flat_map(|revision| &revision.effects);
        if effects.any(|effect| matches!(effect, Effect::Put(_))) {
            self.space.heard_a_put();
        }
        Ok(happened)
    }
}

impl<S: Store> Store for Noticed<S> {
    type Follow = NoticedFollow<S::Follow>;

    async fn commit(&self, group: Group) -> Result<Committed, StoreError> {
        let mut effects = group.also.iter().chain(group.writes.iter().flat_map(|write| &write.then));
        // A store without space goes on to take what only removes.
        let puts = effects.any(|effect| matches!(effect, Op::Put(..)));
        let committed = self.store.commit(group).await;
        match &committed {
            Err(StoreError::Full) => self.space.refused(),
            Ok(Committed::Done { .. }) if puts => self.space.took(),
            Ok(_) | Err(_) => {}
        }
        committed
    }

    async fn get(&self, key: &str, at: Option<Revision>) -> Result<(Option<Entry>, Revision), StoreError> {
        self.store.get(key, at).await
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        at: Option<Revision>,
        most: usize,
    ) -> Result<Page, StoreError> {
        self.store.list(prefix, after, at, most).await
    }

    async fn follow(&self, from: Revision) -> Result<Self::Follow, StoreError> {
        Ok(NoticedFollow { follow: self.store.follow(from).await?, space: self.space.clone() })
    }

    async fn campaign(&self, candidate: &str) -> Result<Tenure, StoreError> {
        let tenure = self.store.campaign(candidate).await;
        if matches!(tenure, Err(StoreError::Full)) {
            self.space.refused();
        }
        tenure
    }

    async fn resign(&self, tenure: &Tenure) {
        self.store.resign(tenure).await;
    }

    async fn compact(&self, before: Revision) -> Result<(), StoreError> {
        self.store.compact(before).await
    }
}
