//! Kafka keeps the contract.

use rollcall_replicator::feed_log::Topic;
use rollcall_replicator::feed_log::contract::Bench;
use rollcall_replicator::feed_log::kafka::KafkaLog;
use tokio::sync::RwLockReadGuard;

use crate::broker;

struct Kafka {
    log: KafkaLog,
    _shared: RwLockReadGuard<'static, ()>,
}

impl Bench for Kafka {
    type Log = KafkaLog;

    fn log(&self) -> &KafkaLog {
        &self.log
    }

    async fn forget_before(&self, topic: &Topic, offset: u64) {
        self.log.forget_before(topic, offset).await.expect("forgotten");
    }
}

async fn open() -> Kafka {
    let (broker, shared) = broker::shared().await;
    Kafka { log: broker.log(), _shared: shared }
}

rollcall_replicator::feed_log_contract!(open);
