//! A store that can be told to fail.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use rollcall_cell::store::embedded::{Embedded, EmbeddedFollow};
use rollcall_cell::store::space::Bound;
use rollcall_cell::store::{
    Committed, Effect, Entry, Follow, Group, Happened, Page, Store, StoreError, Tenure,
};
use rollcall_model::Revision;

/// What the store does now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mood {
    /// It works.
    Well,
    /// It cannot be reached.
    Away,
    /// It takes owners' writes and does not answer.
    Mute,
    /// Its history is told late: not before the mood is another.
    Late,
    /// It gives no page of a state that was begun before the mood is another.
    Slow,
    /// It cannot be reached, and what was followed breaks off.
    Severed,
    /// It has no space within its quota, as etcd: it takes no write that puts anything.
    Full,
    /// The same, and it is the disk that is full.
    DiskFull,
    /// Its history leaves out what happened to registrations, as watches of etcd have.
    Forgetful,
    /// The same, and whoever begins to read its state is told that it cannot be reached.
    Headless,
}

/// Far more than any test asks. Whoever asks in a loop without a pause would keep a test's only thread for ever.
const ASKED_MAX: usize = 1_000_000;

/// An embedded store with a mood; clones share it.
#[derive(Clone)]
pub(super) struct Moody {
    inner: Arc<RwLock<Embedded>>,
    mood: Arc<AtomicU8>,
    asked: Arc<AtomicUsize>,
    waits: Arc<AtomicBool>,
    refused: Arc<AtomicUsize>,
}

/// The history, which may come late.
pub(super) struct MoodyFollow {
    inner: EmbeddedFollow,
    store: Moody,
    /// Taken and not told yet: a dropped wait must lose nothing.
    held: Option<Vec<Happened>>,
}

impl Follow for MoodyFollow {
    async fn next(&mut self) -> Result<Vec<Happened>, StoreError> {
        while self.held.is_none() {
            if self.store.is(Mood::Severed) {
                return Err(StoreError::Unavailable("it broke off".into()));
            }
            let happened = tokio::time::timeout(Duration::from_millis(10), self.inner.next());
            if let Ok(happened) = happened.await {
                self.held = Some(happened?);
            }
        }
        // Of nobody's waking: a test's store need not be efficient.
        while self.store.is(Mood::Late) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let mut happened = self.held.take().unwrap_or_default();
        if self.store.is(Mood::Forgetful) || self.store.is(Mood::Headless) {
            for revision in &mut happened {
                revision.effects.retain(|effect| match effect {
                    Effect::Put(entry) => !entry.key.starts_with("reg/"),
                    Effect::Removed(_) => true,
                });
            }
        }
        Ok(happened)
    }
}

impl Moody {
    pub(super) fn new(mood: Mood) -> Self {
        Self::over(Embedded::memory().unwrap(), mood)
    }

    /// Over a store that others share.
    pub(super) fn over(inner: Embedded, mood: Mood) -> Self {
        let inner = Arc::new(RwLock::new(inner));
        Self {
            inner,
            mood: Arc::new(AtomicU8::new(mood as u8)),
            asked: Arc::default(),
            waits: Arc::default(),
            refused: Arc::default(),
        }
    }

    pub(super) fn becomes(&self, mood: Mood) {
        self.mood.store(mood as u8, Ordering::SeqCst);
    }

    /// It holds what another store holds from now on, as after a restore; nobody who follows it is told.
    pub(super) fn holds(&self, other: Embedded) {
        *self.inner.write().unwrap() = other;
    }

    /// How often it was asked anything.
    pub(super) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// Whether anybody waited for a page of a state that was begun.
    pub(super) fn was_waited_for(&self) -> bool {
        self.waits.load(Ordering::SeqCst)
    }

    /// How often somebody began to read its state and was refused.
    pub(super) fn refused(&self) -> usize {
        self.refused.load(Ordering::SeqCst)
    }

    fn inner(&self) -> Embedded {
        self.inner.read().unwrap().clone()
    }

    fn is(&self, mood: Mood) -> bool {
        self.mood.load(Ordering::SeqCst) == mood as u8
    }

    fn reached(&self) -> Result<(), StoreError> {
        let before = self.asked.fetch_add(1, Ordering::SeqCst);
        assert!(before < ASKED_MAX, "it is asked without a pause");
        if self.is(Mood::Away) || self.is(Mood::Severed) {
            return Err(StoreError::Unavailable("it is away".into()));
        }
        Ok(())
    }
}

impl Store for Moody {
    type Follow = MoodyFollow;

    async fn commit(&self, group: Group) -> Result<Committed, StoreError> {
        self.reached()?;
        for (mood, bound) in [(Mood::Full, Bound::Quota), (Mood::DiskFull, Bound::Disk)] {
            if self.is(mood) && group.puts() {
                return Err(StoreError::Full(bound));
            }
        }
        let is_owners = !group.writes.is_empty();
        let committed = self.inner().commit(group).await;
        if is_owners && self.is(Mood::Mute) {
            return Err(StoreError::Unknown("no answer came".into()));
        }
        committed
    }

    async fn get(&self, key: &str, at: Option<Revision>) -> Result<(Option<Entry>, Revision), StoreError> {
        self.reached()?;
        self.inner().get(key, at).await
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        at: Option<Revision>,
        most: usize,
    ) -> Result<Page, StoreError> {
        self.reached()?;
        if at.is_none() && self.is(Mood::Headless) {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return Err(StoreError::Unavailable("it broke off".into()));
        }
        while at.is_some() && self.is(Mood::Slow) {
            self.waits.store(true, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.inner().list(prefix, after, at, most).await
    }

    async fn follow(&self, from: Revision) -> Result<Self::Follow, StoreError> {
        self.reached()?;
        Ok(MoodyFollow { inner: self.inner().follow(from).await?, store: self.clone(), held: None })
    }

    async fn campaign(&self, candidate: &str) -> Result<Tenure, StoreError> {
        self.reached()?;
        self.inner().campaign(candidate).await
    }

    async fn resign(&self, tenure: &Tenure) {
        self.inner().resign(tenure).await;
    }

    async fn compact(&self, before: Revision) -> Result<(), StoreError> {
        self.reached()?;
        self.inner().compact(before).await
    }
}
