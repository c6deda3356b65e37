//! From one region's cell to the other's view over a real broker, through its faults.

use std::time::Duration;

use rollcall_model::{Freshness, Position, Region};
use rollcall_replicator::ReplicatorConfig;
use rollcall_replicator::config::LogKind;
use rollcall_replicator::feed_log::kafka::KafkaLog;
use rollcall_replicator::feed_log::{FeedLog, Topic, read, record};

use crate::broker::{self, Broker};
use crate::region::{Cell, DEADLINE, Replicator, config, real_clock};

fn kafka(broker: &Broker, region: &str, cell: Option<&Cell>, follow: &[&str]) -> ReplicatorConfig {
    config(region, LogKind::Kafka, &broker.brokers, cell, follow)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_reaches_the_other_region_and_its_age_is_under_three_seconds() {
    let (broker, _shared) = broker::shared().await;
    let east = Cell::start("k-east").await;
    let west = Cell::start("k-west").await;
    let a = Replicator::start(KafkaLog::open, kafka(broker, "k-east", Some(&east), &["k-west"]), None).await;
    let b = Replicator::start(KafkaLog::open, kafka(broker, "k-west", Some(&west), &["k-east"]), None).await;
    tokio::time::timeout(DEADLINE, b.running.ready.wait()).await.expect("ready");
    for n in 0..50 {
        east.change(|origin| drop(origin.put(&format!("ops/mail/{n}"))));
        west.change(|origin| drop(origin.put(&format!("ops/cal/{n}"))));
    }
    b.converges(&east).await;
    a.converges(&west).await;
    b.view_when("k-east", "a view that is current", |view| {
        view.freshness(real_clock().now()) == Freshness::Current
    })
    .await;
    assert_eq!(b.view("k-east").resyncs(), 0, "everything came by delta");
    for replicator in [a, b] {
        replicator.stop().await;
    }
    east.stop().await;
    west.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f27_a_broker_that_is_killed_and_restarted_costs_no_change() {
    let (broker, _alone) = broker::alone().await;
    let east = Cell::start("kill-east").await;
    let a = Replicator::start(KafkaLog::open, kafka(broker, "kill-east", Some(&east), &[]), None).await;
    let b = Replicator::start(KafkaLog::open, kafka(broker, "kill-west", None, &["kill-east"]), None).await;
    east.change(|origin| drop(origin.put("ops/mail/0")));
    b.converges(&east).await;
    b.view_when("kill-east", "a view that is current", |view| {
        view.freshness(real_clock().now()) == Freshness::Current
    })
    .await;
    tokio::task::block_in_place(|| broker.kill());
    for n in 1..200 {
        east.change(|origin| drop(origin.put(&format!("ops/mail/{n}"))));
    }
    // Nobody publishes the view while nothing arrives: its age grows all the same.
    let aged = async {
        while b.view("kill-east").freshness(real_clock().now()) == Freshness::Current {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(DEADLINE, aged).await.expect("the view aged");
    assert!(b.view("kill-east").state().is_some(), "I36: the last copy stays");
    tokio::task::block_in_place(|| broker.start_again());
    let view = b.converges(&east).await;
    assert_eq!(view.resyncs(), 0, "I33: the chain went on, nothing was lost");
    a.stop().await;
    b.stop().await;
    east.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f26_brokers_that_take_nothing_are_told_with_the_first_record_that_waits() {
    let (broker, _alone) = broker::alone().await;
    let east = Cell::start("told-east").await;
    let a = Replicator::start(KafkaLog::open, kafka(broker, "told-east", Some(&east), &[]), None).await;
    let says = async |what: &str| {
        let said = async {
            loop {
                let ready = a.get("/readyz?verbose").await;
                let line = ready.lines().find_map(|line| line.strip_prefix("publisher told-east: "));
                if let Some(line) = line.filter(|line| line.starts_with(what)) {
                    return line.to_owned();
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(DEADLINE, said).await.unwrap_or_else(|_| panic!("it did not say {what}"))
    };
    east.change(|origin| drop(origin.put("ops/mail/1")));
    says("publishing").await;
    tokio::task::block_in_place(|| broker.kill());
    east.change(|origin| drop(origin.put("ops/mail/2")));
    // The first word of it, before anything was given up.
    let told = says("waiting: ").await;
    let active = a.figure("rollcall_replicator_publisher_active", &[]);
    // Whatever is wrong here, others need the broker.
    tokio::task::block_in_place(|| broker.start_again());
    assert!(told.starts_with("waiting: the log has acknowledged nothing for "), "{told}");
    assert!(
        told.contains(&broker.brokers) && told.to_lowercase().contains("connect"),
        "where and why: {told}"
    );
    assert_eq!(active, 0.0);
    says("publishing").await;
    a.stop().await;
    east.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f28_topics_that_are_removed_and_made_again_are_filled_again() {
    let (broker, _shared) = broker::shared().await;
    let east = Cell::start("gone-east").await;
    let a = Replicator::start(KafkaLog::open, kafka(broker, "gone-east", Some(&east), &[]), None).await;
    let b = Replicator::start(KafkaLog::open, kafka(broker, "gone-west", None, &["gone-east"]), None).await;
    east.change(|origin| drop(origin.put("ops/mail/1")));
    b.converges(&east).await;
    let region = Region::parse("gone-east").expect("a region");
    tokio::time::timeout(DEADLINE, broker.log().remove(&region)).await.expect("in time").expect("removed");
    east.change(|origin| drop(origin.remove("ops/mail/1")));
    east.change(|origin| drop(origin.put("ops/mail/2")));
    b.converges(&east).await;
    b.view_when("gone-east", "a view that is current again", |view| {
        view.freshness(real_clock().now()) == Freshness::Current
    })
    .await;
    a.stop().await;
    b.stop().await;
    east.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f28_snapshots_that_are_removed_are_written_again_for_the_next_that_starts() {
    let (broker, _shared) = broker::shared().await;
    let east = Cell::start("lost-east").await;
    let a = Replicator::start(KafkaLog::open, kafka(broker, "lost-east", Some(&east), &[]), None).await;
    let b = Replicator::start(KafkaLog::open, kafka(broker, "lost-west", None, &["lost-east"]), None).await;
    east.change(|origin| drop(origin.put("ops/mail/1")));
    b.converges(&east).await;
    let region = Region::parse("lost-east").expect("a region");
    let (log, topic) = (broker.log(), Topic::snapshot(&region));
    tokio::time::timeout(DEADLINE, log.remove_topic(&topic)).await.expect("in time").expect("removed");
    let late =
        Replicator::start(KafkaLog::open, kafka(broker, "lost-late", None, &["lost-east"]), None).await;
    late.converges(&east).await;
    for replicator in [a, b, late] {
        replicator.stop().await;
    }
    east.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i21_age_is_honest_while_the_broker_is_frozen_and_after_it() {
    let (broker, _alone) = broker::alone().await;
    let east = Cell::start("ice-east").await;
    let a = Replicator::start(KafkaLog::open, kafka(broker, "ice-east", Some(&east), &[]), None).await;
    let b = Replicator::start(KafkaLog::open, kafka(broker, "ice-west", None, &["ice-east"]), None).await;
    let current = |view: &rollcall_model::View| view.freshness(real_clock().now()) == Freshness::Current;
    b.view_when("ice-east", "a view that is current", current).await;
    let (mut is_frozen, mut is_thawed) = (false, false);
    let mut oldest = Duration::ZERO;
    let began = real_clock().now();
    loop {
        let now = real_clock().now();
        let passed = now.since(began);
        if !is_frozen && passed > Duration::from_secs(2) {
            tokio::task::block_in_place(|| broker.freeze());
            is_frozen = true;
        }
        if !is_thawed && passed > Duration::from_secs(9) {
            tokio::task::block_in_place(|| broker.thaw());
            is_thawed = true;
        }
        let view = b.view("ice-east");
        let now = real_clock().now();
        let (said, revision) = (view.age(now).expect("loaded"), view.position().expect("loaded").revision.0);
        let really = east.age_of(revision, now);
        assert!(said + Duration::from_secs(1) >= really, "I21: it says {said:?} and is {really:?} old");
        oldest = oldest.max(said);
        if is_thawed && (current(&view) && passed > Duration::from_secs(14) || passed > DEADLINE) {
            break;
        }
        // The period of a sampler; nothing is waited for.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(oldest > Duration::from_secs(5), "the freeze was seen: {oldest:?}");
    assert!(current(&b.view("ice-east")), "I32: it is current again");
    a.stop().await;
    b.stop().await;
    east.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f27_a_broker_that_freezes_under_changes_leaves_no_hole_in_the_feed() {
    let (broker, _alone) = broker::alone().await;
    let east = Cell::start("hole-east").await;
    let a = Replicator::start(KafkaLog::open, kafka(broker, "hole-east", Some(&east), &[]), None).await;
    let b = Replicator::start(KafkaLog::open, kafka(broker, "hole-west", None, &["hole-east"]), None).await;
    east.change(|origin| drop(origin.put("ops/mail/0")));
    b.converges(&east).await;
    // Longer than any limit of a client, with changes all the while: each may be lost, sent twice or late, but not missing
    // between two that arrive.
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    for n in 0..900_u32 {
        match n {
            50 => tokio::task::block_in_place(|| broker.freeze()),
            750 => tokio::task::block_in_place(|| broker.thaw()),
            _ => {}
        }
        ticks.tick().await;
        east.change(|origin| drop(origin.put(&format!("ops/mail/{}", n % 100))));
    }
    let view = b.converges(&east).await;
    assert_eq!(view.resyncs(), 0, "I33: the chain went on");
    let region = Region::parse("hole-east").expect("a region");
    let (log, feed) = (broker.log(), Topic::feed(&region));
    let there = log.ends(&feed).await.expect("there");
    let mut reached: Option<Position> = None;
    for record in read(&log, &feed, there).await.expect("read") {
        let item = record::read_item(&region, &record).expect("ours");
        let (_, from, to) = record::ends(&item);
        if let Some(reached) = &reached {
            assert!(from.revision <= reached.revision, "{}: a hole before {from}", record.offset);
        }
        reached = reached.filter(|reached| reached.revision >= to.revision).or_else(|| Some(to.clone()));
    }
    b.view_when("hole-east", "a view that is current", |view| {
        view.freshness(real_clock().now()) == Freshness::Current
    })
    .await;
    a.stop().await;
    b.stop().await;
    east.stop().await;
}
