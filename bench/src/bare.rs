//! What replication is measured beside: a put into etcd, its watch, a record into Kafka, and a consumer of it. No
//! registry, no state, no proof; only the way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use etcd_client::{Client, EventType, WatchOptions};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{Consumer as _, StreamConsumer};
use rdkafka::message::Message as _;
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tokio::task::JoinSet;

/// Bytes of a value: what a small registration takes on both.
const VALUE: usize = 400;
/// How long the last of them may take.
const WITHIN: Duration = Duration::from_secs(30);

/// Times of so many puts at a rate, each from its acknowledgement until its record is consumed, in milliseconds.
///
/// # Panics
/// When one of them does not arrive.
pub async fn times(etcd: &str, kafka: &str, round: usize, changes: usize, per_second: u64) -> Vec<f64> {
    let topic = format!("plain.{round}");
    let client = |more: &[(&str, &str)]| {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", kafka).set("group.id", "plain").set("enable.auto.commit", "false");
        for (key, value) in more {
            config.set(*key, *value);
        }
        config
    };
    let admin: AdminClient<DefaultClientContext> = client(&[]).create().expect("a client");
    let new = NewTopic::new(&topic, 1, TopicReplication::Fixed(1));
    admin.create_topics(&[new], &AdminOptions::new()).await.expect("created");
    let producer: FutureProducer =
        client(&[("acks", "all"), ("enable.idempotence", "true"), ("linger.ms", "0")]).create().expect("one");
    let consumer: StreamConsumer = client(&[]).create().expect("a client");
    let mut from = TopicPartitionList::new();
    from.add_partition_offset(&topic, 0, Offset::Beginning).expect("a topic");
    consumer.assign(&from).expect("assigned");

    let prefix = format!("plain/{round}/");
    let mut watching = Client::connect([etcd], None).await.expect("etcd answers");
    let mut watch =
        watching.watch(prefix.as_str(), Some(WatchOptions::new().with_prefix())).await.expect("a watch");
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while let Ok(Some(message)) = watch.message().await {
            for event in message.events().iter().filter(|event| event.event_type() == EventType::Put) {
                let Some(kv) = event.kv() else { continue };
                let record = FutureRecord::to(&topic).key(kv.key()).payload(kv.value());
                let _ = producer.send_result(record);
            }
        }
    });
    let seen: Arc<Mutex<HashMap<Vec<u8>, Instant>>> = Arc::default();
    let told = Arc::clone(&seen);
    tasks.spawn(async move {
        while let Ok(message) = consumer.recv().await {
            let key = message.key().unwrap_or_default().to_vec();
            told.lock().unwrap().entry(key).or_insert_with(Instant::now);
        }
    });
    let mut writer = Client::connect([etcd], None).await.expect("etcd answers");
    // A consumer that has just met its topic waits half a second before it asks again. That is no part of the way.
    let begun = format!("{prefix}begun");
    writer.put(begun.as_str(), vec![b'x'; VALUE], None).await.expect("etcd takes it");
    let deadline = Instant::now() + WITHIN;
    while !seen.lock().unwrap().contains_key(begun.as_bytes()) {
        assert!(Instant::now() < deadline, "the first of all does not arrive");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut tick = tokio::time::interval(Duration::from_micros(1_000_000 / per_second));
    let acknowledged: Arc<Mutex<HashMap<Vec<u8>, Instant>>> = Arc::default();
    let mut writes = JoinSet::new();
    for at in 0..changes {
        tick.tick().await;
        let (mut writer, acknowledged) = (writer.clone(), Arc::clone(&acknowledged));
        let key = format!("{prefix}{at}");
        writes.spawn(async move {
            if writer.put(key.as_str(), vec![b'x'; VALUE], None).await.is_ok() {
                acknowledged.lock().unwrap().insert(key.into_bytes(), Instant::now());
            }
        });
    }
    while writes.join_next().await.is_some() {}
    let deadline = Instant::now() + WITHIN;
    let acknowledged = std::mem::take(&mut *acknowledged.lock().unwrap());
    while acknowledged.keys().any(|key| !seen.lock().unwrap().contains_key(key)) {
        assert!(Instant::now() < deadline, "{} of {changes} arrived", seen.lock().unwrap().len());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let seen = seen.lock().unwrap();
    acknowledged
        .iter()
        .map(|(key, at)| seen[key].saturating_duration_since(*at).as_secs_f64() * 1e3)
        .collect()
}
