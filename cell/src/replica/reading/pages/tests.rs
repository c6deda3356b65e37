//! A store behind a slow way, by virtual time.

use std::sync::Mutex;

use bytes::Bytes;
use rollcall_model::Region;

use super::*;
use crate::logged::Logged;
use crate::store::embedded::{Embedded, EmbeddedFollow};
use crate::store::{Committed, Group, Op, Tenure};

/// What a call may take, as with etcd.
const CALL: Duration = Duration::from_secs(3);
/// About what a registration takes with a card's worth of metadata.
const VALUE: usize = 2800;
/// Bytes a second within one place.
const QUICK_RATE: f64 = 1e9;

/// A store whose pages take time by their bytes.
struct Slow {
    inner: Embedded,
    /// None: nothing comes.
    bytes_per_second: Option<f64>,
    /// From when on the way is quick, if ever.
    slow_until: Option<Instant>,
    /// After so many pages nothing comes any more, or what comes is slow.
    turns_after: Option<usize>,
    /// How many entries each page was asked for, and whether it came.
    asked: Mutex<Vec<(usize, bool)>>,
}

impl Slow {
    /// It holds this many entries.
    async fn holding(count: usize, bytes_per_second: Option<f64>) -> Self {
        let inner = Embedded::memory().unwrap();
        for first in (0..count).step_by(100) {
            let put = |n: usize| Op::Put(format!("reg/{n:05}"), Bytes::from(vec![b'x'; VALUE]));
            let also = (first..count.min(first + 100)).map(put).collect();
            inner.commit(Group { also, ..Group::default() }).await.unwrap();
        }
        Self { inner, bytes_per_second, slow_until: None, turns_after: None, asked: Mutex::default() }
    }

    async fn read(&self) -> Result<(Vec<Entry>, Revision), StoreError> {
        let pace = Pace::Awaited(Region::parse("us").unwrap());
        Pages::new(self, None, pace).all("reg/").await
    }

    fn asked(&self) -> Vec<(usize, bool)> {
        self.asked.lock().unwrap().clone()
    }
}

impl Store for Slow {
    type Follow = EmbeddedFollow;

    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        at: Option<Revision>,
        most: usize,
    ) -> Result<Page, StoreError> {
        let page = self.inner.list(prefix, after, at, most).await?;
        let bytes: usize = page.entries.iter().map(|entry| entry.value.len()).sum();
        let before_turn = self.turns_after.is_some_and(|pages| self.asked.lock().unwrap().len() < pages);
        let is_quick = before_turn || self.slow_until.is_some_and(|until| Instant::now() >= until);
        let rate = if is_quick { Some(QUICK_RATE) } else { self.bytes_per_second };
        let takes = rate.map(|rate| Duration::from_secs_f64(bytes as f64 / rate));
        let came = takes.filter(|takes| *takes <= CALL);
        self.asked.lock().unwrap().push((most, came.is_some()));
        tokio::time::sleep(came.unwrap_or(CALL)).await;
        // Somebody writes meanwhile: pages that are not pinned would show it.
        let also = vec![Op::Put("reg/00299".into(), Bytes::new())];
        self.inner.commit(Group { also, ..Group::default() }).await?;
        came.map(|_| page).ok_or_else(|| StoreError::Late("no answer from store-1 within 3 s".into()))
    }

    async fn get(&self, key: &str, at: Option<Revision>) -> Result<(Option<Entry>, Revision), StoreError> {
        self.inner.get(key, at).await
    }

    async fn commit(&self, group: Group) -> Result<Committed, StoreError> {
        self.inner.commit(group).await
    }

    async fn follow(&self, from: Revision) -> Result<EmbeddedFollow, StoreError> {
        self.inner.follow(from).await
    }

    async fn campaign(&self, candidate: &str) -> Result<Tenure, StoreError> {
        self.inner.campaign(candidate).await
    }

    async fn resign(&self, tenure: &Tenure) {
        self.inner.resign(tenure).await;
    }

    async fn compact(&self, before: Revision) -> Result<(), StoreError> {
        self.inner.compact(before).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_quick_store_is_read_by_pages_of_the_largest_size_soon_and_nothing_is_said() {
    let store = Slow::holding(3000, Some(QUICK_RATE)).await;
    let logged = Logged::begin();
    let (entries, _) = store.read().await.unwrap();
    assert_eq!(entries.len(), 3000);
    let sizes: Vec<_> = store.asked().iter().map(|(most, _)| *most).collect();
    assert_eq!(sizes[..7], [8, 16, 32, 64, 128, 256, 500]);
    assert!(sizes[7..].iter().all(|most| *most == 500), "{sizes:?}");
    assert_eq!(logged.lines(&["WARN"]), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_store_behind_a_slow_way_is_read_whole_at_one_revision() {
    // From one at which the first page is in time down to one at which a single entry just is.
    for rate in [250_000.0, 100_000.0, 20_000.0, 1_000.0] {
        let store = Slow::holding(300, Some(rate)).await;
        let (entries, at) = store.read().await.unwrap();
        assert_eq!(entries.len(), 300, "at {rate} bytes a second");
        assert!(entries.iter().all(|entry| entry.mod_revision <= at), "at {rate} bytes a second");
        // Each page that came late was followed by the smallest, and that one came.
        for pair in store.asked().windows(2).filter(|pair| !pair[0].1) {
            assert_eq!(pair[1], (1, true), "at {rate} bytes a second");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_way_that_grows_slow_in_the_middle_is_read_on_by_pages_that_it_carries() {
    for rate in [100_000.0, 20_000.0, 1_000.0] {
        let mut store = Slow::holding(1500, Some(rate)).await;
        store.turns_after = Some(7);
        let (entries, _) = store.read().await.unwrap();
        assert_eq!(entries.len(), 1500, "at {rate} bytes a second");
        let asked = store.asked();
        assert_eq!(asked[7..9], [(500, false), (1, true)], "at {rate} bytes a second");
        let late = asked.iter().filter(|(_, came)| !came).count();
        assert_eq!(late, 1, "it grows no further than what comes in time, at {rate} bytes a second");
    }
}

#[tokio::test(start_paused = true)]
async fn pages_grow_again_where_the_way_is_quick_again() {
    let mut store = Slow::holding(3000, Some(10_000.0)).await;
    store.slow_until = Some(Instant::now() + Duration::from_secs(30));
    store.read().await.unwrap();
    let asked = store.asked();
    assert!(asked.iter().any(|(most, came)| *most <= 8 && *came), "{asked:?}");
    assert_eq!(asked.last(), Some(&(500, true)));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_at_all_ends_the_reading() {
    let store = Slow::holding(10, None).await;
    let began = Instant::now();
    let ended = store.read().await;
    assert_eq!(ended, Err(StoreError::Late("no answer from store-1 within 3 s".into())));
    let sizes: Vec<_> = store.asked().iter().map(|(most, _)| *most).collect();
    assert_eq!(sizes, [8, 1]);
    assert_eq!(began.elapsed(), CALL * 2);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_falls_silent_in_the_middle_ends_the_reading_after_two_calls() {
    let mut store = Slow::holding(3000, None).await;
    store.turns_after = Some(10);
    let ended = store.read().await;
    assert_eq!(ended, Err(StoreError::Late("no answer from store-1 within 3 s".into())));
    let silent: Vec<_> = store.asked().into_iter().skip(10).collect();
    assert_eq!(silent, [(500, false), (1, false)]);
}

#[tokio::test(start_paused = true)]
async fn a_reading_that_takes_long_says_how_far_it_is_where_and_why_every_ten_seconds() {
    let mut store = Slow::holding(719, Some(20_000.0)).await;
    store.turns_after = Some(4);
    let (logged, began) = (Logged::begin(), Instant::now());
    store.read().await.unwrap();
    let warnings = logged.lines(&["WARN"]);
    let tens = usize::try_from(began.elapsed().as_secs() / 10).unwrap();
    assert!((1..=tens).contains(&warnings.len()), "{tens} times ten seconds: {warnings:#?}");
    assert!(warnings.len() * 2 >= tens, "{tens} times ten seconds: {warnings:#?}");
    let last = warnings.last().unwrap();
    for fact in
        ["region=us", "entries=", "under=\"reg/\"", "page=8", "late=1", "no answer from store-1 within 3 s"]
    {
        assert!(last.contains(fact), "{fact} in {last}");
    }
    assert!(!last.contains("entries=0"), "{last}");
}

#[tokio::test(start_paused = true)]
async fn a_reading_that_nobody_waits_for_says_nothing() {
    let store = Slow::holding(200, Some(20_000.0)).await;
    let logged = Logged::begin();
    Pages::new(&store, None, Pace::Resting(Duration::from_millis(20))).all("reg/").await.unwrap();
    assert_eq!(logged.lines(&["WARN"]), Vec::<String>::new());
}
