//! The log on Kafka. With its submodules the only code that knows rdkafka, and the only that knows Kafka's words.
//!
//! Promises: what was acknowledged is on all in-sync replicas; an offset that is gone is reported and never skipped, for
//! nothing here resets to an end. It joins no consumer group and commits no offset: a follower's place is kept beside its
//! view. A broker that freezes says nothing, so nothing here may mistake silence for "nothing new".
//!
//! A topic that was removed and made again under the same name cannot be told by its id without unsafe code; it is told
//! by the positions in its records (fault F28).

mod error;
#[cfg(any(test, feature = "testing"))]
mod faults;
mod follow;
mod settings;

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use rdkafka::types::RDKafkaErrorCode;
use rollcall_model::Region;

use crate::feed_log::topic::{Settings, TopicSettings};
use crate::feed_log::{Appending, BODY_BYTES_MAX, FeedLog, LogError, Outgoing, Topic};

pub use follow::KafkaFollow;

/// Longest answer to a question about topics: a broker that needs longer is away, and the caller tries again.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Between two looks for a topic that was just created.
const ASK_AGAIN: Duration = Duration::from_millis(50);
/// The one partition of each topic.
const PARTITION: i32 = 0;

/// The log on the brokers of one list.
#[derive(Clone)]
pub struct KafkaLog {
    shared: Arc<Shared>,
}

struct Shared {
    brokers: String,
    topics: Settings,
    producer: Mutex<FutureProducer>,
    admin: AdminClient<DefaultClientContext>,
    asker: Arc<BaseConsumer>,
}

impl KafkaLog {
    /// Makes the clients for a list of brokers (`host:port`, by commas). Connects to nobody yet.
    ///
    /// # Errors
    /// [`LogError::Refused`] for settings that the client refuses.
    pub fn open(brokers: &str) -> Result<Self, LogError> {
        let refused = |error: rdkafka::error::KafkaError| LogError::Refused(error.to_string());
        let shared = Shared {
            brokers: brokers.to_owned(),
            topics: Settings::built_in().map_err(LogError::Refused)?,
            producer: Mutex::new(settings::producer(brokers).create().map_err(refused)?),
            admin: settings::client(brokers).create().map_err(refused)?,
            asker: Arc::new(settings::consumer(brokers).create().map_err(refused)?),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    fn producer(&self) -> MutexGuard<'_, FutureProducer> {
        // It holds one handle that is replaced whole.
        self.shared.producer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The producer; a new one where the old one lost its sequence for good. What it had under way is then open.
    fn working_producer(&self) -> Result<FutureProducer, LogError> {
        let mut producer = self.producer();
        if let Some((code, reason)) = producer.client().fatal_error() {
            tracing::warn!(%code, %reason, "producer failed for good, making a new one");
            *producer = settings::producer(&self.shared.brokers)
                .create()
                .map_err(|error| LogError::Away(error.to_string()))?;
        }
        Ok(producer.clone())
    }

    async fn create(&self, topics: &[NewTopic<'_>]) -> Result<(), LogError> {
        let options =
            AdminOptions::new().request_timeout(Some(ANSWER_WITHIN)).operation_timeout(Some(ANSWER_WITHIN));
        let answers = self.shared.admin.create_topics(topics, &options).await;
        for answer in answers.map_err(|error| LogError::Away(error.to_string()))? {
            match answer {
                Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                Err((name, code)) if error::is_lasting(code) => {
                    return Err(LogError::Refused(format!("{name}: {code}")));
                }
                Err((name, code)) => return Err(LogError::Away(format!("{name}: {code}"))),
            }
        }
        Ok(())
    }

    async fn check(&self, topic: &Topic, settings: &TopicSettings) -> Result<(), LogError> {
        let (asker, name) = (Arc::clone(&self.shared.asker), topic.name().to_owned());
        let metadata = blocking(move || asker.fetch_metadata(Some(&name), ANSWER_WITHIN)).await?;
        let metadata = metadata.map_err(|error| error::sorted(&error, topic))?;
        let found = metadata.topics().first().map_or(0, |topic| topic.partitions().len());
        if found == 0 {
            return Err(LogError::NoTopic(topic.to_string()));
        }
        if i32::try_from(found) != Ok(settings.partitions) {
            return Err(LogError::Refused(format!(
                "{topic} has {found} partitions; a feed has one, or it has no order"
            )));
        }
        Ok(())
    }
}

/// Asks the client something that blocks.
async fn blocking<T: Send + 'static>(ask: impl FnOnce() -> T + Send + 'static) -> Result<T, LogError> {
    tokio::task::spawn_blocking(ask).await.map_err(|error| LogError::Away(error.to_string()))
}

async fn ends(asker: Arc<BaseConsumer>, topic: &Topic) -> Result<Range<u64>, LogError> {
    let name = topic.name().to_owned();
    let marks = blocking(move || asker.fetch_watermarks(&name, PARTITION, ANSWER_WITHIN)).await?;
    let (low, high) = marks.map_err(|error| error::sorted(&error, topic))?;
    let offset = |mark: i64| u64::try_from(mark).unwrap_or_default();
    Ok(offset(low)..offset(high))
}

impl FeedLog for KafkaLog {
    type Follow = KafkaFollow;

    async fn ensure(&self, region: &Region) -> Result<(), LogError> {
        let topics = [
            (Topic::feed(region), &self.shared.topics.feed),
            (Topic::snapshot(region), &self.shared.topics.snapshot),
        ];
        let new: Vec<NewTopic<'_>> = topics
            .iter()
            .map(|(topic, settings)| {
                let copies = TopicReplication::Fixed(settings.replication_factor);
                let new = NewTopic::new(topic.name(), settings.partitions, copies);
                settings.config.iter().fold(new, |new, (key, value)| new.set(key, value))
            })
            .collect();
        self.create(&new).await?;
        for (topic, settings) in &topics {
            // Right after its creation a topic is not known everywhere yet.
            let deadline = tokio::time::Instant::now() + ANSWER_WITHIN;
            loop {
                match self.check(topic, settings).await {
                    Err(LogError::NoTopic(_)) if tokio::time::Instant::now() < deadline => {
                        tokio::time::sleep(ASK_AGAIN).await;
                    }
                    checked => break checked?,
                }
            }
        }
        Ok(())
    }

    fn append(&self, topic: &Topic, record: Outgoing) -> Appending {
        if record.body.len() > BODY_BYTES_MAX {
            return Box::pin(std::future::ready(Err(LogError::TooLarge)));
        }
        let producer = match self.working_producer() {
            Ok(producer) => producer,
            Err(error) => return Box::pin(std::future::ready(Err(error))),
        };
        let mut headers = OwnedHeaders::new_with_capacity(record.headers.len());
        for (key, value) in &record.headers {
            headers = headers.insert(Header { key, value: Some(value) });
        }
        let queued = producer.send_result(
            FutureRecord::<(), [u8]>::to(topic.name())
                .partition(PARTITION)
                .headers(headers)
                .payload(&record.body),
        );
        let topic = topic.clone();
        match queued {
            Ok(delivery) => Box::pin(async move {
                match delivery.await {
                    Ok(Ok(delivered)) => Ok(u64::try_from(delivered.offset).unwrap_or_default()),
                    Ok(Err((error, _))) => Err(error::sorted(&error, &topic)),
                    Err(_) => Err(LogError::Away("the producer was replaced".into())),
                }
            }),
            Err((error, _)) => Box::pin(std::future::ready(Err(error::sorted(&error, &topic)))),
        }
    }

    async fn ends(&self, topic: &Topic) -> Result<Range<u64>, LogError> {
        ends(Arc::clone(&self.shared.asker), topic).await
    }

    async fn follow(&self, topic: &Topic, from: u64) -> Result<Self::Follow, LogError> {
        KafkaFollow::open(&self.shared.brokers, Arc::clone(&self.shared.asker), topic, from).await
    }
}
