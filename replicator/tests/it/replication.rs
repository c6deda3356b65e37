//! From one region's cell to the other's view, over the log in memory, through its faults.

use std::time::Duration;

use rollcall_model::{Event, Instant, Region};
use rollcall_proto::convert::{self, FeedItem};
use rollcall_proto::v1::ListRequest;
use rollcall_proto::v1::discovery_client::DiscoveryClient;
use rollcall_replicator::feed_log::contract::{append, within};
use rollcall_replicator::feed_log::memory::MemoryLog;
use rollcall_replicator::feed_log::{FeedLog, Outgoing, Topic, record};
use rollcall_replicator::source::Source;
use rollcall_replicator::testing::Origin;

use crate::region::{Cell, DEADLINE, Replicator, follower, get, memory, publisher, real_clock};

fn feed() -> Topic {
    Topic::feed(&Region::parse("us-east").unwrap())
}

fn rubbish() -> Outgoing {
    Outgoing { headers: vec![("region", "us-east".into())], body: b"rubbish"[..].into() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_in_one_region_reaches_the_view_of_the_other() {
    let log = MemoryLog::new();
    let east = Cell::start("us-east").await;
    let west = Cell::start("eu-west").await;
    east.change(|origin| drop(origin.put("ops/mail/1")));
    let a = Replicator::start(|_| Ok(log.clone()), memory("us-east", Some(&east), &["eu-west"]), None).await;
    let b = Replicator::start(|_| Ok(log.clone()), memory("eu-west", Some(&west), &["us-east"]), None).await;
    b.converges(&east).await;
    east.change(|origin| drop(origin.put("ops/mail/2")));
    east.change(|origin| drop(origin.remove("ops/mail/1")));
    west.change(|origin| drop(origin.put("ops/cal/1")));
    let view = b.converges(&east).await;
    let ids: Vec<_> = view.state().unwrap().iter().map(|r| r.declared.id.to_string()).collect();
    assert_eq!(ids, ["ops/mail/2"]);
    a.converges(&west).await;
    assert_eq!(b.view("us-east").resyncs(), 0, "everything came by delta");
    // I35: nothing of the one stands on the topic of the other.
    for (topic, region) in [(feed(), "us-east"), (Topic::feed(&Region::parse("eu-west").unwrap()), "eu-west")]
    {
        let region = Region::parse(region).unwrap();
        assert!(log.records(&topic).iter().all(|record| record::read_item(&region, record).is_ok()));
    }
    for replicator in [a, b] {
        replicator.stop().await;
    }
    east.stop().await;
    west.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i37_bad_records_are_counted_and_cost_no_other_region_anything() {
    let log = MemoryLog::new();
    let (east, south) = (Cell::start("us-east").await, Cell::start("ap-south").await);
    let a = publisher(&log, &east).await;
    let c = Replicator::start(|_| Ok(log.clone()), memory("ap-south", Some(&south), &[]), None).await;
    let b =
        Replicator::start(|_| Ok(log.clone()), memory("eu-west", None, &["us-east", "ap-south"]), None).await;
    south.change(|origin| drop(origin.put("ops/cal/1")));
    b.converges(&south).await;
    east.change(|origin| drop(origin.put("ops/mail/1")));
    b.converges(&east).await;
    append(&log, &feed(), rubbish()).await;
    let mut elsewhere = Origin::new("elsewhere", "1-a");
    append(&log, &feed(), record::outgoing(&FeedItem::Delta(elsewhere.put("x/y/z")))).await;
    east.change(|origin| drop(origin.put("ops/mail/2")));
    b.view_when("us-east", "a resync", |view| view.resyncs() == 1).await;
    b.converges(&east).await;
    assert_eq!(b.figure("rollcall_replicator_feed_refused", &["us-east"]), 2.0);
    assert_eq!(b.figure("rollcall_replicator_view_resyncs", &["us-east"]), 1.0);
    assert_eq!(b.figure("rollcall_replicator_view_resyncs", &["ap-south"]), 0.0);
    assert_eq!(b.view("ap-south").resyncs(), 0);
    for replicator in [a, b, c] {
        replicator.stop().await;
    }
    east.stop().await;
    south.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i33_a_lost_record_stops_the_view_until_a_snapshot_brings_it() {
    let log = MemoryLog::new();
    let region = Region::parse("us-east").unwrap();
    log.ensure(&region).await.unwrap();
    let mut origin = Origin::new("us-east", "1-a");
    let snapshot = async |origin: &Origin| {
        let snapshot = origin.view().snapshot().unwrap();
        let offset = log.ends(&feed()).await.unwrap().end;
        for page in convert::snapshot_pages(&snapshot, offset) {
            append(&log, &Topic::snapshot(&region), record::outgoing_page(snapshot.head(), &page)).await;
        }
    };
    snapshot(&origin).await;
    append(&log, &feed(), record::outgoing(&FeedItem::Delta(origin.put("ops/mail/1")))).await;
    let b = follower(&log).await;
    let before = origin.position();
    b.view_when("us-east", "the first change", |view| view.position() == Some(&before)).await;
    origin.put("ops/mail/lost");
    append(&log, &feed(), record::outgoing(&FeedItem::Delta(origin.put("ops/mail/2")))).await;
    b.figure_when("rollcall_replicator_view_resyncs", &["reason=\"gap\""], 1.0).await;
    assert_eq!(b.view("us-east").position(), Some(&before), "the gap was crossed");
    snapshot(&origin).await;
    append(&log, &feed(), record::outgoing(&FeedItem::Bookmark(origin.beat(Instant::default())))).await;
    let after = origin.position();
    let view = b.view_when("us-east", "what was lost", |view| view.position() == Some(&after)).await;
    assert_eq!(view.state().unwrap().digest(), origin.digest());
    assert_eq!(view.last_resync().map(|resync| resync.reason), Some("gap"));
    b.stop().await;
}

/// B67: whoever came a day later missed what had been announced before, until it was announced again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b67_who_starts_when_the_beginning_is_forgotten_has_everything_all_the_same() {
    let log = MemoryLog::bounded(40, 1 << 26);
    let east = Cell::start("us-east").await;
    let a = publisher(&log, &east).await;
    for n in 0..200 {
        east.change(|origin| drop(origin.put(&format!("ops/mail/{n}"))));
    }
    let region = Region::parse("us-east").unwrap();
    let forgotten = async {
        while log.ends(&Topic::feed(&region)).await.expect("a topic").start == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DEADLINE, forgotten).await.expect("the feed forgets its beginning");
    // In a day the publisher has written many snapshots; here it writes one because it begins anew.
    a.stop().await;
    let a = publisher(&log, &east).await;
    let late = follower(&log).await;
    let view = late.converges(&east).await;
    assert_eq!(view.state().unwrap().count(), 200);
    for replicator in [a, late] {
        replicator.stop().await;
    }
    east.stop().await;
}

/// B53: changes of one instance were filed under the wrong region, the hash no longer fitted, and full fetches surged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b53_one_instance_that_changes_all_the_time_costs_deltas_alone() {
    let log = MemoryLog::new();
    let (east, west) = (Cell::start("us-east").await, Cell::start("eu-west").await);
    let a = publisher(&log, &east).await;
    let b = Replicator::start(|_| Ok(log.clone()), memory("eu-west", Some(&west), &["us-east"]), None).await;
    for _ in 0..500 {
        // One id in two regions: each has its own.
        east.change(|origin| drop(origin.put("ops/mail/1")));
        west.change(|origin| drop(origin.put("ops/mail/1")));
    }
    let view = b.converges(&east).await;
    assert_eq!(view.resyncs(), 0);
    assert_eq!(b.figure("rollcall_replicator_view_resyncs", &[]), 0.0);
    for replicator in [a, b] {
        replicator.stop().await;
    }
    for cell in [east, west] {
        cell.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f26_what_happens_while_the_log_is_away_comes_afterwards() {
    let log = MemoryLog::new();
    let east = Cell::start("us-east").await;
    let (a, b) = (publisher(&log, &east).await, follower(&log).await);
    east.change(|origin| drop(origin.put("ops/mail/0")));
    let before = b.converges(&east).await;
    log.set_away(true);
    for n in 0..2_000 {
        east.change(|origin| drop(origin.put(&format!("ops/mail/{n}"))));
    }
    east.change(|origin| drop(origin.remove("ops/mail/0")));
    assert_eq!(b.view("us-east").position(), before.position(), "I36: the last copy stays");
    log.set_away(false);
    let view = b.converges(&east).await;
    assert_eq!(view.resyncs(), 0, "the cell's history had it all");
    a.stop().await;
    b.stop().await;
    east.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_incarnation_replaces_the_view_by_its_snapshot() {
    let log = MemoryLog::new();
    let east = Cell::start("us-east").await;
    let (a, b) = (publisher(&log, &east).await, follower(&log).await);
    east.change(|origin| drop(origin.put("ops/mail/1")));
    b.converges(&east).await;
    east.change(|origin| {
        origin.rebuild("2-b");
        origin.put("ops/mail/2");
    });
    let view = b.converges(&east).await;
    assert_eq!(view.position().unwrap().incarnation.ordinal(), 2);
    assert!(view.state().unwrap().get("ops/mail/1").is_none());
    a.stop().await;
    b.stop().await;
    east.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f29_a_follower_that_was_away_longer_than_retention_takes_a_snapshot() {
    let log = MemoryLog::new();
    let east = Cell::start("us-east").await;
    let disk = tempfile::tempdir().unwrap();
    let follow = || memory("eu-west", None, &["us-east"]);
    let at = || Some(disk.path().to_owned());
    let a = publisher(&log, &east).await;
    east.change(|origin| drop(origin.put("ops/mail/1")));
    let b = Replicator::start(|_| Ok(log.clone()), follow(), at()).await;
    b.converges(&east).await;
    b.stop().await;
    a.stop().await;
    east.change(|origin| drop(origin.put("ops/mail/2")));
    let end = log.ends(&feed()).await.unwrap().end;
    log.forget_before(&feed(), end);
    log.forget_before(&Topic::snapshot(&Region::parse("us-east").unwrap()), u64::MAX);
    let b = Replicator::start(|_| Ok(log.clone()), follow(), at()).await;
    assert!(b.view("us-east").state().is_some(), "I36: it serves the copy from disk at once");
    let a = publisher(&log, &east).await;
    b.converges(&east).await;
    a.stop().await;
    b.stop().await;
    east.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_replicator_does_not_serve_is_refused_as_everywhere() {
    let replicator = follower(&MemoryLog::new()).await;
    let not_found = get(&replicator, "/v1/agents").await;
    assert!(not_found.starts_with("HTTP/1.1 404"), "{not_found}");
    assert!(not_found.contains("content-type: application/problem+json"), "{not_found}");
    for part in ["\"type\":\"urn:rollcall:error:not_found\"", "\"code\":\"not_found\"", "at /v1/agents"] {
        assert!(not_found.contains(part), "{not_found}");
    }
    let too_long = get(&replicator, &format!("/{}", "x".repeat(9_000))).await;
    assert!(too_long.starts_with("HTTP/1.1 400") && too_long.contains("invalid_parameter"), "{too_long}");
    replicator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cell_watches_a_view_as_it_would_watch_its_origin() {
    let log = MemoryLog::new();
    let east = Cell::start("us-east").await;
    let b = follower(&log).await;
    let region = Region::parse("us-east").unwrap();
    let endpoint = format!("http://{}", b.running.grpc);
    // Before the view is loaded the watch opens and waits.
    let mut events = Source::new(region.clone(), std::slice::from_ref(&endpoint), real_clock())
        .unwrap()
        .open(None)
        .await
        .unwrap();
    let began = tokio::time::Instant::now();
    east.change(|origin| drop(origin.put("ops/mail/1")));
    let a = publisher(&log, &east).await;
    let mut kinds = Vec::new();
    let age = loop {
        match within(events.next()).await.unwrap() {
            Event::SnapshotBegin(head) => assert_eq!(head.region, region),
            Event::Page(records) => kinds.push(records.len()),
            // Until the end of the log was met nobody knows how old it is, and nobody guesses.
            Event::Bookmark(bookmark) if bookmark.count == 1 => {
                if let Some(age) = bookmark.age {
                    break age;
                }
            }
            Event::SnapshotEnd(_, _) | Event::Delta(_) | Event::Bookmark(_) | Event::Resync(_, _) => {}
        }
    };
    // It is told from above, by as much as a record may have lain unseen.
    let most = began.elapsed() + Duration::from_secs(2);
    assert!(age < most, "the first age that is told is true: {age:?} of {most:?}");
    assert_eq!(kinds, [1]);
    let own = Source::new(Region::parse("eu-west").unwrap(), std::slice::from_ref(&endpoint), real_clock())
        .unwrap()
        .open(None)
        .await;
    assert!(own.is_err(), "the own region is its cell's to serve");
    let mut client = DiscoveryClient::connect(endpoint).await.unwrap();
    let refused = client.list(ListRequest::default()).await.expect_err("not here");
    assert_eq!(refused.code(), tonic::Code::Unimplemented);
    let is_told = async {
        let told = r#""region":"us-east","role":"view","state":"current""#;
        while !get(&b, "/v1/regions").await.contains(told) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within(is_told).await;
    a.stop().await;
    b.stop().await;
    east.stop().await;
}
