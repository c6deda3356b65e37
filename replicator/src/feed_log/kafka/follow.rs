//! A topic followed, and how long a record can have lain in it.
//!
//! The broker's clock says nothing about ours. So the log's end is asked for twice a second: a record at or behind the end
//! that the log had at some moment of ours was appended after that moment. That is an upper bound on the time it lay
//! there, by our monotonic clock alone (promise I21).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::RDKafkaErrorCode;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{PARTITION, Shared, error, let_go, settings};
use crate::feed_log::{Follow, LogError, Record, Topic};

/// How often the end is asked for: the error that age gets by it, at most.
const PROBE_EVERY: Duration = Duration::from_millis(500);
/// Probes kept for a follower that lags: a minute. Behind it the bound only gets looser, never wrong.
const PROBES_MAX: usize = 120;

/// Where the log ended at which moment; oldest first, and ends that only rise.
#[derive(Debug, Default)]
struct Probes(VecDeque<(Instant, u64)>);

impl Probes {
    /// The log ended at `end` at some moment after `asked`.
    fn add(&mut self, asked: Instant, end: u64) {
        let length = self.0.len();
        match self.0.back_mut() {
            // The same end at a later moment says more about every record behind it.
            Some((known, at)) if *at == end => *known = asked,
            Some(_) | None if length < PROBES_MAX => self.0.push_back((asked, end)),
            Some(_) | None => {}
        }
    }

    /// How long the record at `offset` can have lain there; offsets are asked for in rising order.
    fn bound(&mut self, offset: u64, now: Instant) -> Option<Duration> {
        while self.0.get(1).is_some_and(|(_, end)| *end <= offset) {
            self.0.pop_front();
        }
        let (asked, end) = self.0.front()?;
        (*end <= offset).then(|| now.duration_since(*asked))
    }
}

/// A topic of Kafka, followed.
pub struct KafkaFollow {
    // Taken out only when dropped.
    consumer: Option<StreamConsumer>,
    log: Arc<Shared>,
    topic: Topic,
    probes: Arc<Mutex<Probes>>,
    /// The client has said that the offset is gone; it says so once.
    is_out_of_range: bool,
    // Ends with the follow.
    _prober: JoinSet<()>,
}

impl KafkaFollow {
    pub(super) async fn open(log: Arc<Shared>, topic: &Topic, from: u64) -> Result<Self, LogError> {
        let asked = Instant::now();
        let there = log.ends(topic).await?;
        if from < there.start || from > there.end {
            return Err(LogError::OutOfRange(there));
        }
        let away = |error: KafkaError| error::of_client(&error);
        let consumer: StreamConsumer = settings::consumer(&log.brokers).create().map_err(away)?;
        let mut assignment = TopicPartitionList::new();
        let offset = Offset::Offset(i64::try_from(from).map_err(|_| LogError::OutOfRange(there.clone()))?);
        assignment.add_partition_offset(topic.name(), PARTITION, offset).map_err(away)?;
        consumer.assign(&assignment).map_err(away)?;

        let probes = Arc::new(Mutex::new(Probes::default()));
        lock(&probes).add(asked, there.end);
        let mut prober = JoinSet::new();
        prober.spawn(probe(Arc::clone(&log), topic.clone(), Arc::clone(&probes)));
        Ok(Self {
            consumer: Some(consumer),
            log,
            topic: topic.clone(),
            probes,
            is_out_of_range: false,
            _prober: prober,
        })
    }

    fn read(&self, message: &BorrowedMessage<'_>) -> Record {
        let offset = u64::try_from(message.offset()).unwrap_or_default();
        let headers = message.headers().map(|headers| {
            let texts = headers.iter().filter_map(|header| {
                Some((header.key.to_owned(), str::from_utf8(header.value?).ok()?.to_owned()))
            });
            texts.collect()
        });
        Record {
            offset,
            headers: headers.unwrap_or_default(),
            body: bytes::Bytes::copy_from_slice(message.payload().unwrap_or_default()),
            lain_at_most: lock(&self.probes).bound(offset, Instant::now()),
        }
    }
}

fn lock(probes: &Mutex<Probes>) -> std::sync::MutexGuard<'_, Probes> {
    probes.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn probe(log: Arc<Shared>, topic: Topic, probes: Arc<Mutex<Probes>>) {
    loop {
        tokio::time::sleep(PROBE_EVERY).await;
        let asked = Instant::now();
        match log.ends(&topic).await {
            Ok(there) => lock(&probes).add(asked, there.end),
            // Without an answer the bounds grow; that is what they are for.
            Err(error) => tracing::debug!(%topic, %error, "the end of the topic is not known"),
        }
    }
}

impl Follow for KafkaFollow {
    async fn next(&mut self) -> Result<Record, LogError> {
        let Some(consumer) = &self.consumer else {
            return Err(LogError::Away("the follow has ended".into()));
        };
        while !self.is_out_of_range {
            match consumer.recv().await {
                Ok(message) => return Ok(self.read(&message)),
                // From now on the client is silent for good.
                Err(KafkaError::MessageConsumption(
                    RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange,
                )) => self.is_out_of_range = true,
                Err(error) if error::is_passing(&error) => {
                    tracing::debug!(topic = %self.topic, %error, "waiting for the broker");
                }
                Err(error) => return Err(error::sorted(&error, &self.topic)),
            }
        }
        Err(LogError::OutOfRange(self.log.ends(&self.topic).await?))
    }
}

impl Drop for KafkaFollow {
    fn drop(&mut self) {
        if let Some(consumer) = self.consumer.take() {
            let_go(move || drop(consumer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i21_a_record_is_as_old_as_the_last_moment_the_log_ended_before_it() {
        let zero = Instant::now();
        let at = |ms| zero + Duration::from_millis(ms);
        let mut probes = Probes::default();
        probes.add(at(0), 10);
        probes.add(at(500), 12);
        probes.add(at(1000), 12);
        assert_eq!(probes.bound(9, at(1100)), None, "it was there before anybody asked");
        assert_eq!(probes.bound(10, at(1100)), Some(Duration::from_millis(1100)));
        assert_eq!(probes.bound(11, at(1100)), Some(Duration::from_millis(1100)));
        assert_eq!(probes.bound(12, at(1100)), Some(Duration::from_millis(100)));
        assert_eq!(
            probes.bound(13, at(9000)),
            Some(Duration::from_millis(8000)),
            "no probe: the bound grows"
        );
    }

    #[test]
    fn a_quiet_log_keeps_its_newest_probe() {
        let zero = Instant::now();
        let mut probes = Probes::default();
        for second in 0..10 * PROBES_MAX as u64 {
            probes.add(zero + Duration::from_secs(second), 7);
        }
        let last = zero + Duration::from_secs(10 * PROBES_MAX as u64 - 1);
        assert_eq!(probes.bound(7, last), Some(Duration::ZERO));
    }

    #[test]
    fn probes_that_nobody_uses_are_bounded() {
        let mut probes = Probes::default();
        for end in 0..10 * PROBES_MAX as u64 {
            probes.add(Instant::now(), end);
        }
        assert_eq!(probes.0.len(), PROBES_MAX);
    }
}
