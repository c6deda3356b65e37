//! What every feed log promises, as tests that each adapter runs.
//!
//! A fact is an async function over a [`Bench`] and panics where it does not hold. Facts share a log with others that run
//! at the same time, each with a region of its own. [`feed_log_contract!`] makes a test of each, so that no adapter can
//! leave one out. Never here: what only one adapter does, such as surviving a restart.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a promise that is not kept ends the test")]

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use rollcall_model::{Instant, Position, Region, Revision};
use rollcall_proto::convert::{self, FeedItem};

use super::newest::{self, Found, Wanted};
use super::{Appender, BODY_BYTES_MAX, FeedLog, Follow, LogError, Outgoing, Record, Topic, read, record};
use crate::testing::Origin;

/// How long anything may take that a busy machine does at once.
const DEADLINE: Duration = Duration::from_secs(60);

/// A log to be judged.
pub trait Bench: Send + Sync {
    /// The adapter.
    type Log: FeedLog;

    /// The log.
    fn log(&self) -> &Self::Log;

    /// Makes the log forget what stands before an offset, as retention does.
    fn forget_before(&self, topic: &Topic, offset: u64) -> impl Future<Output = ()> + Send;
}

/// Makes a test of each fact. `$open` is an async function that gives a [`Bench`].
#[macro_export]
macro_rules! feed_log_contract {
    ($open:path) => {
        $crate::feed_log_contract!(@tests $open:
            records_stand_in_the_order_of_the_calls
            f27_what_was_given_up_is_there_as_a_beginning_or_not_at_all
            headers_and_body_come_back_as_they_were_appended
            a_follower_at_the_end_waits_for_the_next_record
            a_dropped_wait_loses_nothing
            an_offset_behind_the_end_is_out_of_range
            a_forgotten_offset_is_out_of_range_and_never_skipped
            a_topic_that_is_missing_is_said
            topics_that_are_there_stay_as_they_are
            a_record_over_the_limit_is_refused_and_the_next_is_taken
            a_range_is_read_whole
            i21_a_record_never_looks_younger_than_it_is
            the_tail_is_the_last_record_that_can_be_read
            a_hole_is_seen_back_to_where_the_end_was_known
            the_newest_whole_snapshot_is_found
            i18_a_torn_snapshot_is_passed_over_for_the_one_before
            a_snapshot_whose_place_is_forgotten_is_of_no_use
        );
    };
    (@tests $open:path: $($fact:ident)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $fact() {
                let bench = $open().await;
                $crate::feed_log::contract::$fact(&bench).await;
            }
        )+
    };
}

/// A region that no other fact uses, its two topics made.
async fn region(bench: &impl Bench, name: &str) -> Region {
    let region = Region::parse(name).unwrap();
    bench.log().ensure(&region).await.expect("topics");
    region
}

fn plain(text: &str) -> Outgoing {
    Outgoing { headers: vec![("region", "somewhere".into())], body: text.as_bytes().to_vec().into() }
}

/// Appends and waits for the offset.
pub async fn append(log: &impl FeedLog, topic: &Topic, outgoing: Outgoing) -> u64 {
    let appender = log.appender().expect("an appender");
    within(appender.append(topic, outgoing)).await.expect("appended")
}

/// The future's value, or a failed test.
pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.expect("in time")
}

async fn next(follow: &mut impl Follow) -> Record {
    within(follow.next()).await.expect("a record")
}

fn text(record: &Record) -> String {
    String::from_utf8(record.body.to_vec()).unwrap()
}

/// Appends that were not waited for stand in order, and their offsets rise by one.
pub async fn records_stand_in_the_order_of_the_calls(bench: &impl Bench) {
    let topic = Topic::feed(&region(bench, "c-order").await);
    let appender = bench.log().appender().unwrap();
    let under_way: Vec<_> = (0..200).map(|n| appender.append(&topic, plain(&n.to_string()))).collect();
    for (n, appending) in under_way.into_iter().enumerate() {
        assert_eq!(within(appending).await.unwrap(), n as u64);
    }
    let mut follow = bench.log().follow(&topic, 0).await.unwrap();
    for n in 0..200 {
        let record = next(&mut follow).await;
        assert_eq!((record.offset, text(&record)), (n, n.to_string()));
    }
}

/// Whatever an appender had under way when it was let go of: it has no hole, and none of it comes behind the next one's.
pub async fn f27_what_was_given_up_is_there_as_a_beginning_or_not_at_all(bench: &impl Bench) {
    let topic = Topic::feed(&region(bench, "c-given-up").await);
    for round in 0..5 {
        let appender = bench.log().appender().unwrap();
        let first = within(appender.append(&topic, plain(&format!("{round} begins")))).await.unwrap();
        for n in 0..2_000 {
            drop(appender.append(&topic, plain(&n.to_string())));
        }
        drop(appender);
        append(bench.log(), &topic, plain("end")).await;
        let there = bench.log().ends(&topic).await.unwrap();
        let stand: Vec<String> =
            read(bench.log(), &topic, first + 1..there.end).await.unwrap().iter().map(text).collect();
        let old = stand.iter().filter(|text| *text != "end");
        assert!(old.enumerate().all(|(n, text)| *text == n.to_string()), "round {round}: {stand:?}");
    }
}

/// Nothing is added, lost or reordered.
pub async fn headers_and_body_come_back_as_they_were_appended(bench: &impl Bench) {
    let topic = Topic::feed(&region(bench, "c-headers").await);
    let headers = vec![("region", "c-headers".to_owned()), ("from", "1-a:1".into()), ("to", String::new())];
    let body: Vec<u8> = (0..=255).collect();
    append(bench.log(), &topic, Outgoing { headers: headers.clone(), body: body.clone().into() }).await;
    append(bench.log(), &topic, Outgoing { headers: Vec::new(), body: bytes::Bytes::new() }).await;
    let mut follow = bench.log().follow(&topic, 0).await.unwrap();
    let record = next(&mut follow).await;
    let expected: Vec<(String, String)> = headers.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
    assert_eq!((record.headers, record.body.to_vec()), (expected, body));
    assert!(next(&mut follow).await.body.is_empty());
}

/// The end is a place to follow from.
pub async fn a_follower_at_the_end_waits_for_the_next_record(bench: &impl Bench) {
    let topic = Topic::feed(&region(bench, "c-end").await);
    append(bench.log(), &topic, plain("before")).await;
    let mut follow = bench.log().follow(&topic, 1).await.unwrap();
    let waited = tokio::time::timeout(Duration::from_millis(300), follow.next()).await;
    assert!(waited.is_err(), "there was nothing to give: {waited:?}");
    append(bench.log(), &topic, plain("after")).await;
    assert_eq!(text(&next(&mut follow).await), "after");
}

/// A wait that is given up again and again.
pub async fn a_dropped_wait_loses_nothing(bench: &impl Bench) {
    let topic = Topic::feed(&region(bench, "c-dropped").await);
    let mut follow = bench.log().follow(&topic, 0).await.unwrap();
    for n in 0..20 {
        append(bench.log(), &topic, plain(&n.to_string())).await;
    }
    let mut seen = Vec::new();
    within(async {
        while seen.len() < 20 {
            if let Ok(record) = tokio::time::timeout(Duration::from_micros(200), follow.next()).await {
                seen.push(text(&record.unwrap()));
            }
        }
    })
    .await;
    assert_eq!(seen, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
}

/// Of another topic, perhaps.
pub async fn an_offset_behind_the_end_is_out_of_range(bench: &impl Bench) {
    let topic = Topic::feed(&region(bench, "c-behind").await);
    append(bench.log(), &topic, plain("one")).await;
    assert_eq!(bench.log().ends(&topic).await, Ok(0..1));
    let refused = bench.log().follow(&topic, 2).await.map(|_| ());
    assert_eq!(refused, Err(LogError::OutOfRange(0..1)));
}

/// Never moved to another offset in silence (F29).
pub async fn a_forgotten_offset_is_out_of_range_and_never_skipped(bench: &impl Bench) {
    let topic = Topic::feed(&region(bench, "c-forgotten").await);
    for n in 0..6 {
        append(bench.log(), &topic, plain(&n.to_string())).await;
    }
    bench.forget_before(&topic, 4).await;
    assert_eq!(bench.log().ends(&topic).await, Ok(4..6));
    assert_eq!(bench.log().follow(&topic, 3).await.map(|_| ()), Err(LogError::OutOfRange(4..6)));
    let mut follow = bench.log().follow(&topic, 4).await.unwrap();
    assert_eq!(text(&next(&mut follow).await), "4");
}

/// It is not made by asking.
pub async fn a_topic_that_is_missing_is_said(bench: &impl Bench) {
    let topic = Topic::feed(&Region::parse("c-missing").unwrap());
    for _ in 0..2 {
        let asked = within(bench.log().ends(&topic)).await;
        assert!(matches!(asked, Err(LogError::NoTopic(_))), "{asked:?}");
        let followed = within(bench.log().follow(&topic, 0)).await.map(|_| ());
        assert!(matches!(followed, Err(LogError::NoTopic(_))), "{followed:?}");
    }
}

/// Every start of a publisher makes sure of its topics.
pub async fn topics_that_are_there_stay_as_they_are(bench: &impl Bench) {
    let region = region(bench, "c-ensure").await;
    append(bench.log(), &Topic::feed(&region), plain("kept")).await;
    bench.log().ensure(&region).await.expect("nothing to do");
    assert_eq!(bench.log().ends(&Topic::feed(&region)).await, Ok(0..1));
    assert_eq!(bench.log().ends(&Topic::snapshot(&region)).await, Ok(0..0));
}

/// One large record is no reason to stop.
pub async fn a_record_over_the_limit_is_refused_and_the_next_is_taken(bench: &impl Bench) {
    let topic = Topic::feed(&region(bench, "c-large").await);
    let large = |bytes: usize| Outgoing { headers: Vec::new(), body: vec![b'x'; bytes].into() };
    let appender = bench.log().appender().unwrap();
    let refused = within(appender.append(&topic, large(BODY_BYTES_MAX + 128 * 1024))).await;
    assert_eq!(refused, Err(LogError::TooLarge));
    assert_eq!(within(appender.append(&topic, large(BODY_BYTES_MAX))).await, Ok(0));
    let mut follow = bench.log().follow(&topic, 0).await.unwrap();
    assert_eq!(next(&mut follow).await.body.len(), BODY_BYTES_MAX);
}

/// And nothing of what stands around it.
pub async fn a_range_is_read_whole(bench: &impl Bench) {
    let topic = Topic::feed(&region(bench, "c-range").await);
    for n in 0..10 {
        append(bench.log(), &topic, plain(&n.to_string())).await;
    }
    let texts = |records: Vec<Record>| records.iter().map(text).collect::<Vec<_>>();
    assert_eq!(texts(read(bench.log(), &topic, 3..6).await.unwrap()), ["3", "4", "5"]);
    assert_eq!(texts(read(bench.log(), &topic, 9..10).await.unwrap()), ["9"]);
    assert!(read(bench.log(), &topic, 4..4).await.unwrap().is_empty());
}

/// `lain_at_most` is a bound from above, also for what was there before; for what has just come it is small.
pub async fn i21_a_record_never_looks_younger_than_it_is(bench: &impl Bench) {
    let topic = Topic::feed(&region(bench, "c-age").await);
    append(bench.log(), &topic, plain("old")).await;
    let appended = tokio::time::Instant::now();
    let mut late = bench.log().follow(&topic, 0).await.unwrap();
    // Time must pass for a record to be old; nothing else is waited for.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let lain = appended.elapsed();
    let old = next(&mut late).await;
    // Kafka's times are whole milliseconds of another clock.
    let is_true = |bound| bound >= lain - Duration::from_millis(50);
    assert!(old.lain_at_most.is_none_or(is_true), "{lain:?}, {old:?}");
    let before = tokio::time::Instant::now();
    append(bench.log(), &topic, plain("new")).await;
    let new = next(&mut late).await;
    let bound = new.lain_at_most.expect("the follower stood at the end when it came");
    assert!(bound < before.elapsed() + Duration::from_secs(2), "{bound:?}");
}

/// Also when somebody wrote rubbish behind it.
pub async fn the_tail_is_the_last_record_that_can_be_read(bench: &impl Bench) {
    let region = region(bench, "c-tail").await;
    let topic = Topic::feed(&region);
    let empty = newest::feed_tail(bench.log(), &region, None).await.unwrap();
    assert_eq!((empty.position, empty.offsets), (None, 0..0));
    let mut origin = Origin::new("c-tail", "1-a");
    append(bench.log(), &topic, record::outgoing(&FeedItem::Delta(origin.put("a/b/1")))).await;
    append(bench.log(), &topic, record::outgoing(&FeedItem::Bookmark(origin.beat(Instant::default())))).await;
    append(bench.log(), &topic, plain("rubbish")).await;
    let tail = newest::feed_tail(bench.log(), &region, None).await.unwrap();
    assert_eq!((tail.position, tail.offsets), (Some(origin.position()), 0..3));
}

/// Doubles are none.
pub async fn a_hole_is_seen_back_to_where_the_end_was_known(bench: &impl Bench) {
    let region = region(bench, "c-hole").await;
    let appender = bench.log().appender().unwrap();
    let mut origin = Origin::new("c-hole", "1-a");
    let mut deltas: Vec<_> = (0..40).map(|n| origin.put(&format!("a/b/{n}"))).collect();
    deltas.insert(9, Arc::clone(&deltas[3]));
    deltas.remove(12);
    for delta in deltas {
        within(appender.append(&Topic::feed(&region), record::outgoing(&FeedItem::Delta(delta))))
            .await
            .unwrap();
    }
    let seen = async |known| newest::feed_tail(bench.log(), &region, known).await.unwrap().torn_at;
    assert_eq!(seen(Some(5)).await, Some(12));
    assert_eq!(seen(Some(13)).await, None, "it was there before");
    assert_eq!(seen(None).await, None, "it is further back than the tail");
}

async fn write_snapshot(bench: &impl Bench, origin: &Origin, feed_offset: u64, pages: usize) {
    let snapshot = origin.view().snapshot().unwrap();
    let topic = Topic::snapshot(&snapshot.head().region);
    for page in convert::snapshot_pages(&snapshot, feed_offset).iter().take(pages) {
        append(bench.log(), &topic, record::outgoing_page(snapshot.head(), page)).await;
    }
}

/// A region with enough registrations for three pages.
fn large(region: &str) -> Origin {
    let mut origin = Origin::new(region, "1-a");
    for n in 0..1_100 {
        origin.put(&format!("a/b/{n}"));
    }
    origin
}

async fn newest(bench: &impl Bench, region: &Region, wanted: &Wanted) -> Option<Found> {
    within(newest::newest_snapshot(bench.log(), region, wanted)).await.unwrap().found
}

/// Complete, verified, and of several pages.
pub async fn the_newest_whole_snapshot_is_found(bench: &impl Bench) {
    let region = region(bench, "c-newest").await;
    let mut origin = large("c-newest");
    assert!(newest(bench, &region, &Wanted::default()).await.is_none());
    write_snapshot(bench, &origin, 0, usize::MAX).await;
    origin.put("a/b/last");
    append(bench.log(), &Topic::feed(&region), plain("one")).await;
    write_snapshot(bench, &origin, 1, usize::MAX).await;
    let found = newest(bench, &region, &Wanted::default()).await.expect("found");
    assert_eq!(found.snapshot.state().digest(), origin.digest());
    assert_eq!((found.snapshot.head().position.clone(), found.feed_offset), (origin.position(), 1));
    let ahead = Position::new(origin.position().incarnation, Revision(origin.position().revision.0 + 1));
    let wanted = Wanted { at_least: Some(ahead), not_before: None };
    assert!(newest(bench, &region, &wanted).await.is_none(), "none reaches that far");
}

/// A publisher that died while writing, and a page that is not ours.
pub async fn i18_a_torn_snapshot_is_passed_over_for_the_one_before(bench: &impl Bench) {
    let region = region(bench, "c-torn").await;
    let mut origin = large("c-torn");
    write_snapshot(bench, &origin, 0, usize::MAX).await;
    let whole = origin.digest();
    origin.put("a/b/last");
    append(bench.log(), &Topic::snapshot(&region), plain("rubbish")).await;
    write_snapshot(bench, &origin, 0, 2).await;
    let other = Arc::new(large("elsewhere"));
    let snapshot = other.view().snapshot().unwrap();
    let page = convert::snapshot_pages(&snapshot, 0).pop().unwrap();
    append(bench.log(), &Topic::snapshot(&region), record::outgoing_page(snapshot.head(), &page)).await;
    let looked = within(newest::newest_snapshot(bench.log(), &region, &Wanted::default())).await.unwrap();
    assert_eq!(looked.refused, 2, "rubbish, and another region's page");
    assert_eq!(looked.found.expect("the one before").snapshot.state().digest(), whole);
}

/// The feed behind it cannot be followed.
pub async fn a_snapshot_whose_place_is_forgotten_is_of_no_use(bench: &impl Bench) {
    let region = region(bench, "c-place").await;
    let origin = Origin::new("c-place", "1-a");
    for _ in 0..3 {
        append(bench.log(), &Topic::feed(&region), plain("x")).await;
    }
    write_snapshot(bench, &origin, 1, usize::MAX).await;
    assert!(newest(bench, &region, &Wanted::default()).await.is_some());
    bench.forget_before(&Topic::feed(&region), 2).await;
    assert!(newest(bench, &region, &Wanted::default()).await.is_none());
    write_snapshot(bench, &origin, 4, usize::MAX).await;
    assert!(newest(bench, &region, &Wanted::default()).await.is_none(), "it is of another topic");
}
