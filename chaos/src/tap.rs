//! The independent tap: every revision of a region's etcd, read past the product.
//!
//! Promises that nothing is missing below what [`Tap::finish`] has seen: each member is watched from revision 1 on a
//! stream of its own, which after a break goes on behind the last revision it has seen whole. The first stream that
//! brings an event says when it happened; the others must say the same of it, or the tap says so. Never here: a
//! judgement, or the product's word for anything.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, EventType, WatchOptions};

use crate::timeline::Timeline;

/// Keys that a run writes itself.
pub const OURS: &str = "chaos/";
/// The key that is written to see the end of the history.
pub const MARK: &str = "chaos/mark";
/// Between two tries of a stream.
const AGAIN: Duration = Duration::from_millis(200);

/// One key's part in one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The revision.
    pub revision: u64,
    /// The key, as it stands in etcd.
    pub key: String,
    /// What happened to it.
    pub what: What,
    /// When the tap saw it first; never before it happened.
    pub at: Duration,
}

/// What happened to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It was written.
    Put {
        /// With this value.
        value: Vec<u8>,
        /// It exists since this revision.
        create_revision: u64,
        /// It hangs on this lease; 0 for none.
        lease: i64,
    },
    /// It was removed.
    Removed,
}

#[derive(Debug, Default)]
struct Seen {
    events: BTreeMap<(u64, String), Event>,
    disagreements: Vec<String>,
}

/// A running tap on one history.
#[derive(Debug)]
pub struct Tap {
    endpoints: Vec<String>,
    seen: Arc<Mutex<Seen>>,
    reached: Arc<AtomicU64>,
    /// The same of each member's stream alone.
    each: Vec<Arc<AtomicU64>>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Tap {
    /// Watches every member from revision 1.
    #[must_use]
    pub fn start(endpoints: Vec<String>, timeline: Timeline) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let reached = Arc::new(AtomicU64::new(0));
        let each: Vec<Arc<AtomicU64>> = endpoints.iter().map(|_| Arc::default()).collect();
        let tasks = endpoints
            .iter()
            .zip(&each)
            .map(|(endpoint, own)| {
                let stream = Stream {
                    own: Arc::clone(own),
                    endpoint: endpoint.clone(),
                    seen: Arc::clone(&seen),
                    reached: Arc::clone(&reached),
                    timeline,
                };
                tokio::spawn(stream.run())
            })
            .collect();
        Self { endpoints, seen, reached, each, tasks }
    }

    /// Everything up to this revision has been seen.
    #[must_use]
    pub fn reached(&self) -> u64 {
        self.reached.load(Ordering::Relaxed)
    }

    /// Every member's stream has seen everything up to this revision: what is before it may be compacted.
    #[must_use]
    pub fn everywhere(&self) -> u64 {
        self.each.iter().map(|own| own.load(Ordering::Relaxed)).min().unwrap_or(0)
    }

    /// How many events of this kind were seen so far.
    #[must_use]
    pub fn count(&self, of: impl Fn(&Event) -> bool) -> usize {
        self.seen.lock().unwrap().events.values().filter(|event| of(event)).count()
    }

    /// Writes the mark, waits until it was seen, and gives everything in order; with what the members disagree on.
    ///
    /// # Errors
    /// etcd took no write, or the mark was not seen, within the deadline.
    pub async fn finish(self, deadline: Duration) -> Result<(Vec<Event>, Vec<String>), String> {
        let marked = tokio::time::timeout(deadline, self.mark()).await;
        let revision = marked.map_err(|_| "etcd took no mark in time".to_owned())?;
        let waited = tokio::time::timeout(deadline, async {
            while self.reached() < revision {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        waited.await.map_err(|_| format!("the tap ends at {}, the mark is at {revision}", self.reached()))?;
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
        let mut seen = self.seen.lock().unwrap();
        let events =
            std::mem::take(&mut seen.events).into_values().filter(|event| event.revision <= revision);
        Ok((events.collect(), std::mem::take(&mut seen.disagreements)))
    }

    /// Ends without a mark, because the history has ended: gives what was seen.
    #[must_use]
    pub fn cut(self) -> (Vec<Event>, Vec<String>) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
        let mut seen = self.seen.lock().unwrap();
        (std::mem::take(&mut seen.events).into_values().collect(), std::mem::take(&mut seen.disagreements))
    }

    async fn mark(&self) -> u64 {
        for endpoint in self.endpoints.iter().cycle() {
            let options = ConnectOptions::new().with_timeout(Duration::from_secs(3));
            if let Ok(mut client) = Client::connect([endpoint], Some(options)).await
                && let Ok(answer) = client.put(MARK, "", None).await
                && let Some(header) = answer.header()
            {
                return unsigned(header.revision());
            }
            tokio::time::sleep(AGAIN).await;
        }
        0
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

struct Stream {
    own: Arc<AtomicU64>,
    endpoint: String,
    seen: Arc<Mutex<Seen>>,
    reached: Arc<AtomicU64>,
    timeline: Timeline,
}

impl Stream {
    async fn run(self) {
        let mut next = 1;
        loop {
            // Why it broke is of no interest: the member was killed, or paused, or cut off.
            let _ = self.follow(&mut next).await;
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn follow(&self, next: &mut u64) -> Result<(), etcd_client::Error> {
        let options = ConnectOptions::new()
            .with_connect_timeout(Duration::from_secs(1))
            .with_keep_alive(Duration::from_secs(6), Duration::from_secs(3));
        let mut client = Client::connect([&self.endpoint], Some(options)).await?;
        let from = i64::try_from(*next).unwrap_or(i64::MAX);
        let options = WatchOptions::new().with_all_keys().with_start_revision(from);
        let mut stream = client.watch("", Some(options)).await?;
        while let Some(message) = stream.message().await? {
            if message.canceled() {
                let why =
                    format!("{}: watch from {next} cancelled: {}", self.endpoint, message.cancel_reason());
                if message.compact_revision() > 0 {
                    self.seen.lock().unwrap().disagreements.push(why);
                }
                break;
            }
            let at = self.timeline.now();
            let events: Vec<Event> = message.events().iter().filter_map(|event| read(event, at)).collect();
            // Without fragments a message holds revisions whole.
            if let Some(last) = events.last().map(|event| event.revision) {
                self.record(events);
                *next = last + 1;
                self.own.store(last, Ordering::Relaxed);
                self.reached.fetch_max(last, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    fn record(&self, events: Vec<Event>) {
        let mut seen = self.seen.lock().unwrap();
        for event in events {
            let place = (event.revision, event.key.clone());
            match seen.events.get(&place) {
                None => drop(seen.events.insert(place, event)),
                Some(known) if known.what == event.what => {}
                Some(known) => {
                    let words = format!("{}: {known:?} elsewhere, here {event:?}", self.endpoint);
                    seen.disagreements.push(words);
                }
            }
        }
    }
}

fn read(event: &etcd_client::Event, at: Duration) -> Option<Event> {
    let kv = event.kv()?;
    let what = match event.event_type() {
        EventType::Delete => What::Removed,
        EventType::Put => What::Put {
            value: kv.value().to_vec(),
            create_revision: unsigned(kv.create_revision()),
            lease: kv.lease(),
        },
    };
    let key = String::from_utf8_lossy(kv.key()).into_owned();
    Some(Event { revision: unsigned(kv.mod_revision()), key, what, at })
}

/// etcd counts in signed numbers that are never negative.
fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
