//! The log in memory keeps the contract, and its bounds.

use rollcall_replicator::feed_log::contract::{Bench, append};
use rollcall_replicator::feed_log::memory::MemoryLog;
use rollcall_replicator::feed_log::{FeedLog, LogError, Outgoing, Topic};

struct Memory(MemoryLog);

impl Bench for Memory {
    type Log = MemoryLog;

    fn log(&self) -> &MemoryLog {
        &self.0
    }

    async fn forget_before(&self, topic: &Topic, offset: u64) {
        self.0.forget_before(topic, offset);
    }
}

async fn open() -> Memory {
    Memory(MemoryLog::new())
}

rollcall_replicator::feed_log_contract!(open);

#[tokio::test]
async fn old_records_are_forgotten_over_the_bounds() {
    let region = rollcall_model::Region::parse("us-east").unwrap();
    let topic = Topic::feed(&region);
    let large = || Outgoing { headers: Vec::new(), body: vec![0; 100].into() };
    for (log, kept) in [(MemoryLog::bounded(5, 10_000), 5), (MemoryLog::bounded(100, 350), 3)] {
        log.ensure(&region).await.unwrap();
        for _ in 0..20 {
            append(&log, &topic, large()).await;
        }
        assert_eq!(log.ends(&topic).await, Ok(20 - kept..20));
        assert_eq!(log.follow(&topic, 0).await.map(|_| ()), Err(LogError::OutOfRange(20 - kept..20)));
    }
}
