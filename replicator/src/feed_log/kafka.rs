//! The log on Kafka. With its submodules the only code that knows rdkafka, and the only that knows Kafka's words.
//!
//! Promises: what was acknowledged is on all in-sync replicas; an offset that is gone is reported and never skipped, for
//! nothing here resets to an end. It joins no consumer group and commits no offset: a follower's place is kept beside its
//! view. A broker that freezes says nothing, so nothing here may mistake silence for "nothing new".
//!
//! A topic that was removed and made again under the same name cannot be told by its id without unsafe code; it is told
//! by the positions in its records (fault F28).

mod append;
mod asking;
mod error;
#[cfg(any(test, feature = "testing"))]
mod faults;
mod follow;
mod settings;
mod trouble;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::metadata::{Metadata, MetadataTopic};
use rdkafka::types::RDKafkaErrorCode;
use rollcall_model::Region;

use crate::config::Brokers;
use crate::feed_log::topic::{Drift, Settings, TopicSettings};
use crate::feed_log::{FeedLog, LogError, Topic};

pub use append::KafkaAppender;
use asking::Asking;
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
    brokers: Brokers,
    topics: Settings,
    admin: Asking<AdminClient<DefaultClientContext>>,
    asker: Asking<BaseConsumer>,
}

impl KafkaLog {
    /// Makes the clients for a list of brokers. Connects to nobody yet.
    ///
    /// # Errors
    /// [`LogError::Refused`] for settings that the client refuses.
    pub fn open(brokers: &Brokers) -> Result<Self, LogError> {
        let shared = Shared {
            brokers: brokers.clone(),
            topics: Settings::built_in().map_err(LogError::Refused)?,
            admin: Asking::new(settings::client(brokers))?,
            asker: Asking::new(settings::consumer(brokers))?,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    async fn create(&self, topics: &[NewTopic<'_>]) -> Result<(), LogError> {
        let options =
            AdminOptions::new().request_timeout(Some(ANSWER_WITHIN)).operation_timeout(Some(ANSWER_WITHIN));
        let admin = self.shared.admin.get();
        let answers = admin.create_topics(topics, &options).await;
        let answers =
            answers.map_err(|error| self.shared.admin.unanswered(&admin, error::of_client(&error)))?;
        for answer in answers {
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

    async fn metadata(&self, topic: Option<&Topic>) -> Result<Metadata, LogError> {
        let (asker, name) = (self.shared.asker.get(), topic.map(|topic| topic.name().to_owned()));
        let asked = Arc::clone(&asker);
        let metadata = blocking(move || asked.fetch_metadata(name.as_deref(), ANSWER_WITHIN)).await?;
        metadata.map_err(|error| {
            let why = topic.map_or_else(|| error::of_client(&error), |topic| error::sorted(&error, topic));
            self.shared.asker.unanswered(&asker, why)
        })
    }

    /// A topic that can carry a feed, and what of its settings is otherwise than it would be created.
    async fn check(&self, topic: &Topic, settings: &TopicSettings) -> Result<Vec<Drift>, LogError> {
        let metadata = self.metadata(Some(topic)).await?;
        let partitions = metadata.topics().first().map(MetadataTopic::partitions).unwrap_or_default();
        let Some(first) = partitions.first() else { return Err(LogError::NoTopic(topic.to_string())) };
        if i32::try_from(partitions.len()) != Ok(settings.partitions) {
            return Err(LogError::Refused(format!(
                "{topic} has {} partitions; a feed has one, or it has no order",
                partitions.len()
            )));
        }
        let (brokers, copies) = (metadata.brokers().len(), first.replicas().len());
        Ok(settings.drift(topic, brokers, copies, &self.settings_of(topic).await?))
    }

    /// The settings of a topic, as far as this process may see them: none where it may not.
    async fn settings_of(&self, topic: &Topic) -> Result<BTreeMap<String, String>, LogError> {
        let options = AdminOptions::new().request_timeout(Some(ANSWER_WITHIN));
        let (admin, asked) = (self.shared.admin.get(), [ResourceSpecifier::Topic(topic.name())]);
        let answers = admin.describe_configs(&asked, &options).await;
        let answers =
            answers.map_err(|error| self.shared.admin.unanswered(&admin, error::of_client(&error)))?;
        let mut settings = BTreeMap::new();
        for answer in answers {
            match answer {
                Ok(answer) => {
                    let said = answer.entries.into_iter();
                    settings.extend(said.filter_map(|entry| Some((entry.name, entry.value?))));
                }
                // Rights to write a topic need not be rights to read its settings.
                Err(code) if error::is_lasting(code) => {
                    tracing::info!(%topic, %code, "the settings of the topic cannot be seen");
                }
                Err(code) => return Err(LogError::Away(format!("{topic}: {code}"))),
            }
        }
        Ok(settings)
    }
}

/// Asks the client something that blocks.
async fn blocking<T: Send + 'static>(ask: impl FnOnce() -> T + Send + 'static) -> Result<T, LogError> {
    tokio::task::spawn_blocking(ask).await.map_err(|error| LogError::Away(error.to_string()))
}

/// Ends a client: that may wait for its threads, which is not for an async one.
fn let_go(end: impl FnOnce() + Send + 'static) {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(end)),
        Err(_) => end(),
    }
}

impl Shared {
    async fn ends(&self, topic: &Topic) -> Result<Range<u64>, LogError> {
        let (asker, name) = (self.asker.get(), topic.name().to_owned());
        let asked = Arc::clone(&asker);
        let marks = blocking(move || asked.fetch_watermarks(&name, PARTITION, ANSWER_WITHIN)).await?;
        let (low, high) =
            marks.map_err(|error| self.asker.unanswered(&asker, error::sorted(&error, topic)))?;
        let offset = |mark: i64| u64::try_from(mark).unwrap_or_default();
        Ok(offset(low)..offset(high))
    }
}

impl FeedLog for KafkaLog {
    type Follow = KafkaFollow;
    type Appender = KafkaAppender;

    fn address(&self) -> &str {
        &self.shared.brokers.list
    }

    fn appender(&self) -> Result<KafkaAppender, LogError> {
        KafkaAppender::open(&self.shared.brokers)
    }

    async fn ensure(&self, region: &Region) -> Result<Vec<Drift>, LogError> {
        let brokers = self.metadata(None).await?.brokers().len();
        let topics = [
            (Topic::feed(region), &self.shared.topics.feed),
            (Topic::snapshot(region), &self.shared.topics.snapshot),
        ];
        let fitting = topics.each_ref().map(|(topic, settings)| (topic, settings.on(brokers)));
        let new: Vec<NewTopic<'_>> = fitting
            .iter()
            .map(|(topic, settings)| {
                let copies = TopicReplication::Fixed(settings.replication_factor);
                let new = NewTopic::new(topic.name(), settings.partitions, copies);
                settings.config.iter().fold(new, |new, (key, value)| new.set(key, value))
            })
            .collect();
        self.create(&new).await?;
        let mut drifts = Vec::new();
        for (topic, settings) in &topics {
            // Right after its creation a topic is not known everywhere yet.
            let deadline = tokio::time::Instant::now() + ANSWER_WITHIN;
            loop {
                match self.check(topic, settings).await {
                    Err(LogError::NoTopic(_)) if tokio::time::Instant::now() < deadline => {
                        tokio::time::sleep(ASK_AGAIN).await;
                    }
                    checked => {
                        drifts.extend(checked?);
                        break;
                    }
                }
            }
        }
        Ok(drifts)
    }

    async fn ends(&self, topic: &Topic) -> Result<Range<u64>, LogError> {
        self.shared.ends(topic).await
    }

    async fn follow(&self, topic: &Topic, from: u64) -> Result<Self::Follow, LogError> {
        KafkaFollow::open(Arc::clone(&self.shared), topic, from).await
    }
}
