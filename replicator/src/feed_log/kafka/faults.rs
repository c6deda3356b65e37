//! Faults of a broker, for tests: retention that has passed, a topic that is made again.

use rdkafka::admin::AdminOptions;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rollcall_model::Region;

use super::{ANSWER_WITHIN, KafkaLog, PARTITION};
use crate::feed_log::{FeedLog, LogError, Topic};

impl KafkaLog {
    /// Forgets the records before an offset.
    ///
    /// # Errors
    /// When the broker refuses.
    pub async fn forget_before(&self, topic: &Topic, offset: u64) -> Result<(), LogError> {
        let away = |error: rdkafka::error::KafkaError| LogError::Away(error.to_string());
        let mut offsets = TopicPartitionList::new();
        let offset = Offset::Offset(i64::try_from(offset).unwrap_or(i64::MAX));
        offsets.add_partition_offset(topic.name(), PARTITION, offset).map_err(away)?;
        let options = AdminOptions::new().operation_timeout(Some(ANSWER_WITHIN));
        self.shared.admin.get().delete_records(&offsets, &options).await.map_err(away)?;
        Ok(())
    }

    /// Removes a region's topics and waits until they are gone.
    ///
    /// # Errors
    /// When the broker refuses.
    pub async fn remove(&self, region: &Region) -> Result<(), LogError> {
        self.remove_topic(&Topic::feed(region)).await?;
        self.remove_topic(&Topic::snapshot(region)).await
    }

    /// Removes one topic and waits until it is gone, or made again by somebody.
    ///
    /// # Errors
    /// When the broker refuses.
    pub async fn remove_topic(&self, topic: &Topic) -> Result<(), LogError> {
        let options = AdminOptions::new().operation_timeout(Some(ANSWER_WITHIN));
        let before = self.ends(topic).await?.end;
        let answers = self.shared.admin.get().delete_topics(&[topic.name()], &options).await;
        answers.map_err(|error| LogError::Away(error.to_string()))?;
        while self.ends(topic).await.is_ok_and(|there| there.end >= before) {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        Ok(())
    }
}
