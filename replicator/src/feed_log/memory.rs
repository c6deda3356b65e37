//! The log in one process's memory, shared by clones: for `rollcall dev`, for tests and for the simulation.
//!
//! Bounded like a broker with retention: old records are forgotten, and who wanted them is told. Never on disk.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rollcall_model::Region;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::feed_log::{
    Appender, Appending, BODY_BYTES_MAX, Drift, FeedLog, Follow, LogError, Outgoing, Record, Topic,
};

/// Records kept of one topic: bookmarks alone fill it in eighteen hours, as Kafka's retention of a day would.
const RECORDS_MAX: usize = 65_536;
/// Bytes kept of one topic: the snapshots of some ten thousand agents, several times over.
const BYTES_MAX: usize = 256 * 1024 * 1024;
/// What headers and framing may add to a body, as on a broker's topic.
const FRAMING_BYTES_MAX: usize = 64 * 1024;

/// The log in memory.
#[derive(Clone, Debug)]
pub struct MemoryLog {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    topics: Mutex<BTreeMap<Topic, Records>>,
    /// Counts what happened; followers wait for it to rise.
    happened: watch::Sender<u64>,
    records_max: usize,
    bytes_max: usize,
    away: AtomicBool,
}

#[derive(Debug, Default)]
struct Records {
    start: u64,
    kept: VecDeque<(Record, Instant)>,
    bytes: usize,
}

/// A topic of the log in memory, followed.
#[derive(Debug)]
pub struct MemoryFollow {
    shared: Arc<Shared>,
    happened: watch::Receiver<u64>,
    topic: Topic,
    next: u64,
}

/// A writer's way into the log in memory.
#[derive(Clone, Debug)]
pub struct MemoryAppender {
    shared: Arc<Shared>,
    is_broken: Arc<AtomicBool>,
}

impl MemoryLog {
    /// An empty log.
    #[must_use]
    pub fn new() -> Self {
        Self::bounded(RECORDS_MAX, BYTES_MAX)
    }

    /// An empty log that keeps at most so many records and bytes of each topic.
    #[must_use]
    pub fn bounded(records_max: usize, bytes_max: usize) -> Self {
        let (happened, _) = watch::channel(0);
        let shared = Shared {
            topics: Mutex::default(),
            happened,
            records_max,
            bytes_max,
            away: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared) }
    }
}

impl Default for MemoryLog {
    fn default() -> Self {
        Self::new()
    }
}

impl Shared {
    fn topics(&self) -> MutexGuard<'_, BTreeMap<Topic, Records>> {
        // Every change is one push or pop; a panic elsewhere leaves the map whole.
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reach(&self) -> Result<(), LogError> {
        if self.away.load(Ordering::Relaxed) {
            return Err(LogError::Away("the log in memory was switched off".into()));
        }
        Ok(())
    }

    fn append(&self, topic: &Topic, record: Outgoing) -> Result<u64, LogError> {
        self.reach()?;
        if record.body.len() > BODY_BYTES_MAX + FRAMING_BYTES_MAX {
            return Err(LogError::TooLarge);
        }
        let offset = {
            let mut topics = self.topics();
            let records = topics.get_mut(topic).ok_or_else(|| LogError::NoTopic(topic.to_string()))?;
            let offset = records.end();
            let headers = record.headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            records.bytes += record.body.len();
            let record = Record { offset, headers, body: record.body, lain_at_most: None };
            records.kept.push_back((record, Instant::now()));
            while records.kept.len() > self.records_max || records.bytes > self.bytes_max {
                records.forget_first();
            }
            offset
        };
        self.happened.send_modify(|count| *count += 1);
        Ok(offset)
    }
}

impl Records {
    fn end(&self) -> u64 {
        self.start + self.kept.len() as u64
    }

    fn forget_first(&mut self) {
        if let Some((record, _)) = self.kept.pop_front() {
            self.bytes -= record.body.len();
            self.start += 1;
        }
    }

    fn at(&self, offset: u64) -> Option<Record> {
        let at = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let (record, appended) = self.kept.get(at)?;
        Some(Record { lain_at_most: Some(appended.elapsed()), ..record.clone() })
    }
}

impl FeedLog for MemoryLog {
    type Follow = MemoryFollow;
    type Appender = MemoryAppender;

    fn address(&self) -> &'static str {
        "memory"
    }

    fn appender(&self) -> Result<MemoryAppender, LogError> {
        Ok(MemoryAppender { shared: Arc::clone(&self.shared), is_broken: Arc::default() })
    }

    async fn ensure(&self, region: &Region) -> Result<Vec<Drift>, LogError> {
        self.shared.reach()?;
        let mut topics = self.shared.topics();
        for topic in [Topic::feed(region), Topic::snapshot(region)] {
            topics.entry(topic).or_default();
        }
        Ok(Vec::new())
    }

    async fn ends(&self, topic: &Topic) -> Result<Range<u64>, LogError> {
        self.shared.reach()?;
        let topics = self.shared.topics();
        let records = topics.get(topic).ok_or_else(|| LogError::NoTopic(topic.to_string()))?;
        Ok(records.start..records.end())
    }

    async fn follow(&self, topic: &Topic, from: u64) -> Result<Self::Follow, LogError> {
        let there = self.ends(topic).await?;
        if from < there.start || from > there.end {
            return Err(LogError::OutOfRange(there));
        }
        let happened = self.shared.happened.subscribe();
        Ok(MemoryFollow { shared: Arc::clone(&self.shared), happened, topic: topic.clone(), next: from })
    }
}

impl Appender for MemoryAppender {
    fn append(&self, topic: &Topic, record: Outgoing) -> Appending {
        let taken = if self.is_broken.load(Ordering::Relaxed) {
            Err(LogError::Away("an append before this one failed".into()))
        } else {
            self.shared.append(topic, record)
        };
        if !matches!(taken, Ok(_) | Err(LogError::TooLarge)) {
            self.is_broken.store(true, Ordering::Relaxed);
        }
        Box::pin(std::future::ready(taken))
    }
}

impl Follow for MemoryFollow {
    async fn next(&mut self) -> Result<Record, LogError> {
        loop {
            self.happened.borrow_and_update();
            // Away is silent for a follower, as a broker is; it hopes and waits.
            if self.shared.reach().is_ok() {
                let topics = self.shared.topics();
                // A topic that was removed is silent, too.
                if let Some(records) = topics.get(&self.topic) {
                    if self.next < records.start || self.next > records.end() {
                        return Err(LogError::OutOfRange(records.start..records.end()));
                    }
                    if let Some(record) = records.at(self.next) {
                        self.next += 1;
                        return Ok(record);
                    }
                }
            }
            if self.happened.changed().await.is_err() {
                return Err(LogError::Away("the log in memory is gone".into()));
            }
        }
    }
}

/// Faults, for tests.
#[cfg(any(test, feature = "testing"))]
impl MemoryLog {
    /// Forgets the records before an offset, as retention does.
    pub fn forget_before(&self, topic: &Topic, offset: u64) {
        if let Some(records) = self.shared.topics().get_mut(topic) {
            while records.start < offset && !records.kept.is_empty() {
                records.forget_first();
            }
        }
        self.shared.happened.send_modify(|count| *count += 1);
    }

    /// Replaces a topic by an empty one of the same name.
    pub fn recreate(&self, topic: &Topic) {
        if let Some(records) = self.shared.topics().get_mut(topic) {
            *records = Records::default();
        }
        self.shared.happened.send_modify(|count| *count += 1);
    }

    /// Takes the log away, or gives it back: appends and questions fail, followers hear nothing.
    pub fn set_away(&self, away: bool) {
        self.shared.away.store(away, Ordering::Relaxed);
        self.shared.happened.send_modify(|count| *count += 1);
    }

    /// All records of a topic that are still there.
    #[must_use]
    pub fn records(&self, topic: &Topic) -> Vec<Record> {
        let topics = self.shared.topics();
        topics
            .get(topic)
            .map(|records| records.kept.iter().map(|(record, _)| record.clone()).collect())
            .unwrap_or_default()
    }
}
