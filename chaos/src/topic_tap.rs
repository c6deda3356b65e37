//! An independent reader of a region's two topics: every record that was ever in them, in order, with the time it came.
//!
//! It reads from the beginning, joins no group and judges nothing. A broker that is away costs it only time. Who removes
//! a topic tells it, because nothing else does: a topic that was made again may go on at the old offset.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::{Headers as _, Message as _};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use crate::timeline::Timeline;

/// How long one look waits for a record.
const LOOK: Duration = Duration::from_millis(100);
/// How long the broker may take to say where its topics end.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// A record as it stood in a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw {
    /// How often the topic had been made again.
    pub life: u32,
    /// Where it stood.
    pub offset: u64,
    /// When it was read.
    pub at: Duration,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// What stood in a region's topics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topics {
    /// Records of the feed.
    pub feed: Vec<Raw>,
    /// Records of the snapshots.
    pub snapshots: Vec<Raw>,
}

/// The reader; dropping it ends it.
#[derive(Debug)]
pub struct TopicTap {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    broker: String,
    names: [String; 2],
    timeline: Timeline,
    life: AtomicU32,
    ends: AtomicBool,
    seen: Mutex<BTreeMap<(usize, u32, u64), Raw>>,
}

impl TopicTap {
    /// Starts reading.
    #[must_use]
    pub fn start(broker: &str, region: &str, timeline: Timeline) -> Self {
        let shared = Arc::new(Shared {
            broker: broker.to_owned(),
            names: [format!("feed.{region}.v1"), format!("snapshot.{region}.v1")],
            timeline,
            life: AtomicU32::new(0),
            ends: AtomicBool::new(false),
            seen: Mutex::default(),
        });
        let reading = Arc::clone(&shared);
        // The client's calls block.
        let thread = std::thread::spawn(move || reading.run());
        Self { shared, thread: Some(thread) }
    }

    /// The topics were removed: what comes from now on is of others under their names.
    pub fn removed(&self) {
        self.shared.life.fetch_add(1, Ordering::SeqCst);
    }

    /// Reads up to where the topics end now, and ends.
    ///
    /// # Errors
    /// It did not get there in time.
    pub fn finish(mut self, within: Duration) -> Result<Topics, String> {
        let deadline = Instant::now() + within;
        let asker = self.shared.client().ok_or("no client")?;
        for (at, name) in self.shared.names.iter().enumerate() {
            let (low, end) = loop {
                match asker.fetch_watermarks(name, 0, ANSWER_WITHIN) {
                    Ok(marks) => break marks,
                    Err(error) if Instant::now() > deadline => return Err(format!("{name}: {error}")),
                    Err(_) => std::thread::sleep(LOOK),
                }
            };
            let life = self.shared.life.load(Ordering::SeqCst);
            let last = u64::try_from(end).unwrap_or_default().saturating_sub(1);
            while end > low && !self.shared.seen.lock().unwrap().contains_key(&(at, life, last)) {
                if Instant::now() > deadline {
                    return Err(format!("the tap of {name} has not read offset {last}"));
                }
                std::thread::sleep(LOOK);
            }
        }
        self.end();
        let mut topics = Topics::default();
        for ((topic, _, _), raw) in std::mem::take(&mut *self.shared.seen.lock().unwrap()) {
            if topic == 0 { topics.feed.push(raw) } else { topics.snapshots.push(raw) }
        }
        Ok(topics)
    }

    fn end(&mut self) {
        self.shared.ends.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for TopicTap {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn client(&self) -> Option<BaseConsumer> {
        let mut settings = ClientConfig::new();
        settings
            .set("bootstrap.servers", &self.broker)
            .set("group.id", "rollcall-tap")
            .set("enable.auto.commit", "false")
            .set("auto.offset.reset", "earliest")
            .set("reconnect.backoff.max.ms", "1000")
            .set("topic.metadata.refresh.interval.ms", "1000");
        settings.create().ok()
    }

    fn run(&self) {
        while !self.ends.load(Ordering::SeqCst) {
            let life = self.life.load(Ordering::SeqCst);
            if let Some(client) = self.client() {
                self.read(&client, life);
            }
        }
    }

    /// Reads with one client for as long as the topics are the same.
    fn read(&self, client: &BaseConsumer, life: u32) {
        let mut all = TopicPartitionList::new();
        for name in &self.names {
            let _ = all.add_partition_offset(name, 0, Offset::Beginning);
        }
        if client.assign(&all).is_err() {
            std::thread::sleep(LOOK);
            return;
        }
        while !self.ends.load(Ordering::SeqCst) && self.life.load(Ordering::SeqCst) == life {
            // Why nothing came is of no interest: the broker was killed, or paused, or has no such topic yet.
            let Some(Ok(message)) = client.poll(LOOK) else { continue };
            let headers = message.headers().map(|headers| {
                let text =
                    |value: Option<&[u8]>| String::from_utf8_lossy(value.unwrap_or_default()).into_owned();
                headers.iter().map(|header| (header.key.to_owned(), text(header.value))).collect()
            });
            let topic = usize::from(message.topic() != self.names[0]);
            let offset = u64::try_from(message.offset()).unwrap_or_default();
            let raw = Raw {
                life,
                offset,
                at: self.timeline.now(),
                headers: headers.unwrap_or_default(),
                body: message.payload().unwrap_or_default().to_vec(),
            };
            self.seen.lock().unwrap().insert((topic, life, offset), raw);
        }
    }
}
