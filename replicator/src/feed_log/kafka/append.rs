//! A writer's way into Kafka: one producer, from its first record to its first failure.
//!
//! An idempotent producer keeps the order and leaves nothing out, as long as it gives up no record by itself (see
//! `settings`). What it cannot keep is a promise about those behind a record that failed in its own queue; so after the
//! first failure this takes none. Let go of, it gives up all that it still holds: what it would deliver later, behind the
//! back of the writer that has begun anew from the log's end, could stand there behind a hole.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer as _, PurgeConfig};

use super::trouble::Trouble;
use super::{PARTITION, error, let_go, settings};
use crate::config::Brokers;
use crate::feed_log::{Appender, Appending, BODY_BYTES_MAX, LogError, Outgoing, Topic};

/// A producer and whether it still keeps its promise.
#[derive(Clone)]
pub struct KafkaAppender {
    writer: Arc<Writer>,
}

struct Writer {
    // Taken out only when dropped.
    producer: Option<FutureProducer<Trouble>>,
    trouble: Trouble,
    is_broken: Arc<AtomicBool>,
}

impl KafkaAppender {
    pub(super) fn open(brokers: &Brokers) -> Result<Self, LogError> {
        let trouble = Trouble::default();
        let producer = settings::producer(brokers)
            .create_with_context(trouble.clone())
            .map_err(|error| error::of_client(&error))?;
        Ok(Self { writer: Arc::new(Writer { producer: Some(producer), trouble, is_broken: Arc::default() }) })
    }
}

impl Appender for KafkaAppender {
    fn append(&self, topic: &Topic, record: Outgoing) -> Appending {
        let refused = |error| -> Appending { Box::pin(std::future::ready(Err(error))) };
        if record.body.len() > BODY_BYTES_MAX {
            return refused(LogError::TooLarge);
        }
        let is_broken = Arc::clone(&self.writer.is_broken);
        let producer = self.writer.producer.as_ref().filter(|_| !is_broken.load(Ordering::Acquire));
        let Some(producer) = producer else {
            return refused(LogError::Away("an append before this one failed".into()));
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
        let (topic, trouble) = (topic.clone(), self.writer.trouble.clone());
        match queued {
            Ok(delivery) => Box::pin(async move {
                let failed = match delivery.await {
                    Ok(Ok(delivered)) => {
                        trouble.is_over();
                        return Ok(u64::try_from(delivered.offset).unwrap_or_default());
                    }
                    Ok(Err((failed, _))) => error::sorted(&failed, &topic),
                    Err(_) => LogError::Away("the producer was let go of".into()),
                };
                is_broken.store(true, Ordering::Release);
                Err(failed)
            }),
            Err((failed, _)) => {
                is_broken.store(true, Ordering::Release);
                refused(error::sorted(&failed, &topic))
            }
        }
    }

    fn trouble(&self) -> Option<String> {
        self.writer.trouble.last()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let Some(producer) = self.producer.take() else { return };
        let_go(move || {
            producer.purge(PurgeConfig::default().queue().inflight());
            drop(producer);
        });
    }
}
