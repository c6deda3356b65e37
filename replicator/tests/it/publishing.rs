//! Who publishes a region's feed: one at a time, one after the other, and what a publisher says of itself.

use std::time::Duration;

use rollcall_model::Region;
use rollcall_replicator::feed_log::Topic;
use rollcall_replicator::feed_log::memory::MemoryLog;
use rollcall_replicator::metrics::Figures;
use rollcall_replicator::publisher::Publisher;
use rollcall_replicator::publisher::plan::Schedule;
use rollcall_replicator::source::Source;
use rollcall_runtime::{Metrics, Tasks};

use crate::region::{Cell, DEADLINE, Replicator, follower, get, is_current, memory, publisher, real_clock};

const ACTIVE: &str = "rollcall_replicator_publisher_active";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i33_a_publisher_that_restarts_continues_the_chain() {
    let log = MemoryLog::new();
    let east = Cell::start("us-east").await;
    let b = follower(&log).await;
    for round in 0..3 {
        let a = publisher(&log, &east).await;
        east.change(|origin| drop(origin.put(&format!("ops/mail/{round}"))));
        b.converges(&east).await;
        a.stop().await;
        // What happens while nobody publishes comes with the next publisher.
        for n in 0..100 {
            east.change(|origin| drop(origin.put(&format!("ops/late/{round}-{n}"))));
        }
    }
    let a = publisher(&log, &east).await;
    let view = b.converges(&east).await;
    assert_eq!(view.resyncs(), 0, "everything came by delta");
    let region = Region::parse("us-east").unwrap();
    assert_eq!(
        log.records(&Topic::snapshot(&region)).len(),
        1,
        "the first snapshot is near enough for all of them"
    );
    a.stop().await;
    b.stop().await;
    east.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i32_a_quiet_region_is_current_again_after_its_publisher_restarts() {
    let log = MemoryLog::new();
    let east = Cell::start("us-east").await;
    let b = follower(&log).await;
    let a = publisher(&log, &east).await;
    b.converges(&east).await;
    a.stop().await;
    // The cell beats on, and nothing changes.
    let stopped = b.view("us-east").position().cloned();
    east.origin_when("three beats more", |origin| {
        origin.position().revision.0 > stopped.as_ref().map_or(0, |stopped| stopped.revision.0) + 3
    })
    .await;
    let restarted = east.origin.lock().unwrap().position();
    let a = publisher(&log, &east).await;
    let view = b.view_when("us-east", "a bookmark of the new publisher", |view| {
        view.position().is_some_and(|position| position.revision > restarted.revision)
    });
    assert_eq!(view.await.resyncs(), 0);
    a.stop().await;
    b.stop().await;
    east.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i34_two_publishers_at_once_are_harmless_and_one_soon_leaves_it_to_the_other() {
    let log = MemoryLog::new();
    let east = Cell::start("us-east").await;
    let (a, b) = (publisher(&log, &east).await, follower(&log).await);
    b.converges(&east).await;
    // One that does not stand by, as after a freeze in which the other took over.
    let (region, metrics, tasks) = (Region::parse("us-east").unwrap(), Metrics::new(), Tasks::new());
    let source = Source::new(region.clone(), std::slice::from_ref(&east.endpoint), real_clock()).unwrap();
    let schedule = Schedule { every: Duration::from_secs(300), every_bytes: 1 << 26 };
    let (twin, status) =
        Publisher::new(region, log.clone(), source, schedule, real_clock(), Figures::new(&metrics));
    tasks.spawn("twin", twin.at_once().run(tasks.cancelled()));
    let published = |metrics: &Metrics| {
        let text = metrics.render();
        text.lines().any(|line| line.starts_with("rollcall_replicator_feed_published"))
    };
    let both = async {
        while !published(&metrics) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DEADLINE, both).await.expect("both publish");
    for n in 0..200 {
        east.change(|origin| drop(origin.put(&format!("ops/mail/{n}"))));
    }
    let view = b.converges(&east).await;
    assert_eq!(view.resyncs(), 0, "doubles are duplicates, not faults");
    // Both may leave at once; then one takes it over again.
    let is_one = || (a.figure(ACTIVE, &[]) > 0.0) ^ !status.borrow().is_standing_by;
    let settled = async {
        let mut since = real_clock().now();
        while real_clock().now().since(since) < Duration::from_secs(4) {
            tokio::time::sleep(Duration::from_millis(50)).await;
            if !is_one() {
                since = real_clock().now();
            }
        }
    };
    tokio::time::timeout(DEADLINE, settled).await.expect("one of the two publishes, and only one");
    b.view_when("us-east", "a view that is current", is_current).await;
    assert!(tasks.drain(DEADLINE).await.is_empty());
    for replicator in [a, b] {
        replicator.stop().await;
    }
    east.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b59_a_second_publisher_writes_nothing_until_the_first_is_gone_and_then_goes_on() {
    let log = MemoryLog::new();
    let east = Cell::start("us-east").await;
    let (a, b) = (publisher(&log, &east).await, follower(&log).await);
    east.change(|origin| drop(origin.put("ops/mail/0")));
    b.converges(&east).await;
    let standby = publisher(&log, &east).await;
    let stood_by = async {
        while !standby.get("/readyz?verbose").await.contains("publisher us-east: standing by") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DEADLINE, stood_by).await.expect("it stands by");
    let before = a.figure("rollcall_replicator_feed_published", &["bookmark"]);
    for n in 0..200 {
        east.change(|origin| drop(origin.put(&format!("ops/mail/{n}"))));
    }
    b.converges(&east).await;
    // Longer than its patience with a feed that is behind.
    a.figure_when("rollcall_replicator_feed_published", &["bookmark"], before + 5.0).await;
    assert_eq!(standby.figure("rollcall_replicator_feed_published", &[]), 0.0, "it only stood by");
    a.stop().await;
    east.change(|origin| drop(origin.put("ops/mail/after")));
    let view = b.converges(&east).await;
    assert_eq!(view.resyncs(), 0, "I33: it continued the chain");
    b.view_when("us-east", "a view that is current", is_current).await;
    assert!(standby.figure(ACTIVE, &[]) > 0.0);
    for replicator in [standby, b] {
        replicator.stop().await;
    }
    east.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f52_two_registries_of_one_name_are_told_as_a_conflict_and_never_mixed() {
    let log = MemoryLog::new();
    let (one, other) = (Cell::start("us-east").await, Cell::start_as("us-east", "1-b").await);
    for n in 0..20 {
        one.change(|origin| drop(origin.put(&format!("ops/one/{n}"))));
        other.change(|origin| drop(origin.put(&format!("ops/other/{n}"))));
    }
    let (a, b) = (publisher(&log, &one).await, follower(&log).await);
    b.converges(&one).await;
    let rival = publisher(&log, &other).await;
    let told = async {
        let conflicts = || b.figure("rollcall_replicator_view_resyncs", &["conflict"]);
        while conflicts() == 0.0 {
            let view = b.view("us-east");
            let is_true = |cell: &Cell| cell.origin.lock().unwrap().was_once(&view);
            assert!(is_true(&one) || is_true(&other), "a mixture: {:?}", view.position());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(DEADLINE, told).await.expect("the conflict is counted");
    for n in 0..200 {
        one.change(|origin| drop(origin.put(&format!("ops/one/{n}"))));
        other.change(|origin| drop(origin.put(&format!("ops/other/{n}"))));
        let view = b.view("us-east");
        let is_true = |cell: &Cell| cell.origin.lock().unwrap().was_once(&view);
        assert!(is_true(&one) || is_true(&other), "a mixture: {:?}", view.position());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for replicator in [a, rival, b] {
        replicator.stop().await;
    }
    one.stop().await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publisher_says_where_the_cell_is_that_it_waits_for() {
    let east = Cell::start("us-east").await;
    let mut config = memory("us-east", Some(&east), &[]);
    east.stop().await;
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    config.cell.as_mut().unwrap().endpoints = vec![url.clone()];
    let log = MemoryLog::new();
    let a = Replicator::start(|_| Ok(log.clone()), config, None).await;
    let told = format!("waiting: the cell at {url} cannot be reached: Connection refused");
    let said = async {
        while !get(&a, "/readyz?verbose").await.contains(&told) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(DEADLINE, said).await.is_ok(), "{}", get(&a, "/readyz?verbose").await);
    a.stop().await;
}
