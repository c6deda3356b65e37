//! A process that starts while the registry is away goes on with what was known, and catches up by a delta.

use std::path::Path;
use std::time::Duration;

use rollcall_client::model::{Freshness, Lifecycle, Moment, Query, Timestamp};
use rollcall_client::{CacheProfile, Outcome, Registry, RegistryOptions};
use rollcall_proto::disk;

use crate::cell::{Call, Cell, DEADLINE, region};

const HEALTHY: Lifecycle = Lifecycle::Healthy;

fn options(url: String, directory: &Path, first_load: Duration) -> RegistryOptions {
    let mut options =
        RegistryOptions::new([url], region("us")).with_failover([region("eu")]).with_directory(directory);
    options.first_load = first_load;
    options
}

fn mail(registry: &Registry) -> (Outcome, usize) {
    let found = registry.resolve(&Query { name: Some("mail".into()), ..Query::default() });
    (found.outcome, found.candidates.len())
}

async fn saved(directory: &Path) {
    let by = tokio::time::Instant::now() + DEADLINE;
    while !["us.state", "eu.state"].iter().all(|name| directory.join(name).exists()) {
        assert!(tokio::time::Instant::now() < by, "never saved");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn snp_06_a_process_that_starts_during_an_outage_resolves_from_disk_and_catches_up_by_a_delta() {
    let directory = tempfile::tempdir().unwrap();
    let cell = Cell::new();
    let serving = cell.serve();
    let address = serving.address;
    cell.load("us", 1, &[("ops/mail/1", HEALTHY)]);
    cell.load("eu", 1, &[("ops/mail/2", HEALTHY), ("ops/bill/1", HEALTHY)]);
    let position = cell.position("us");
    let first = Registry::connect(options(serving.url(), directory.path(), DEADLINE)).await.unwrap();
    saved(directory.path()).await;
    drop(first);
    drop(serving);

    let url = format!("http://{address}");
    let short = Duration::from_millis(100);
    let second = Registry::connect(options(url, directory.path(), short)).await.unwrap();
    assert_eq!(mail(&second), (Outcome::Found, 1));
    // The other region's copy, too; and its age is what passed since, not that of a stranger's file.
    let bill = second.resolve(&Query { name: Some("bill".into()), ..Query::default() });
    assert_eq!(bill.candidates[0].region, region("eu"));
    assert!(second.regions().iter().all(|status| status.age.unwrap() < DEADLINE));

    cell.put("us", "ops/mail/3");
    let _serving = cell.serve_at(address);
    let caught_up = second.until(|snapshot| snapshot.views()[0].state().unwrap().count() == 2);
    tokio::time::timeout(DEADLINE, caught_up).await.expect("what happened meanwhile");
    assert_eq!(second.snapshot().views()[0].resyncs(), 0);
    let sinces: Vec<_> = cell
        .calls()
        .into_iter()
        .filter_map(|(_, call)| match call {
            Call::Watch { region, since } if region == "us" => Some(since),
            _ => None,
        })
        .collect();
    assert_eq!(sinces, [None, Some(position)]);
}

#[tokio::test]
async fn b41_the_copy_on_disk_is_the_floor_of_what_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let cell = Cell::new();
    let serving = cell.serve();
    cell.load("us", 1, &[("ops/mail/1", HEALTHY)]);
    cell.load("eu", 1, &[]);
    cell.put("us", "ops/mail/2");
    let first = Registry::connect(options(serving.url(), directory.path(), DEADLINE)).await.unwrap();
    saved(directory.path()).await;
    drop(first);

    // Another process of the cell, which is behind.
    let lagging = Cell::new();
    let lagging_serving = lagging.serve();
    lagging.load("us", 1, &[("ops/mail/1", HEALTHY)]);
    lagging.load("eu", 1, &[]);
    let short = Duration::from_millis(100);
    let second = Registry::connect(options(lagging_serving.url(), directory.path(), short)).await.unwrap();
    lagging.saw("a watch", |calls| !calls.is_empty()).await;
    assert_eq!(mail(&second), (Outcome::Found, 2));
    lagging.put("us", "ops/mail/2");
    lagging.put("us", "ops/mail/3");
    let caught_up = second.until(|snapshot| snapshot.views()[0].state().unwrap().count() == 3);
    tokio::time::timeout(DEADLINE, caught_up).await.expect("it caught up");
}

/// What a process finds that starts while the registry is away, by the age of its copy in seconds.
async fn found_at(age: i64, cache: CacheProfile) -> (Outcome, Freshness) {
    let directory = tempfile::tempdir().unwrap();
    let cell = Cell::new();
    let serving = cell.serve();
    cell.load("us", 1, &[("ops/mail/1", HEALTHY)]);
    cell.load("eu", 1, &[]);
    let first = Registry::connect(options(serving.url(), directory.path(), DEADLINE)).await.unwrap();
    saved(directory.path()).await;
    let url = serving.url();
    drop(first);
    drop(serving);
    let path = directory.path().join("us.state");
    let mut copy = disk::decode(&std::fs::read(&path).unwrap()).unwrap();
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    copy.saved_at = Moment::of_wall(Timestamp(i64::try_from(wall.as_millis()).unwrap() - age * 1_000));
    std::fs::write(&path, disk::encode(&copy)).unwrap();
    let options = options(url, directory.path(), Duration::ZERO).with_failover([]).with_cache(cache);
    let second = Registry::connect(options).await.unwrap();
    (mail(&second).0, second.regions()[0].freshness)
}

#[tokio::test]
async fn snp_08_an_entry_lives_for_five_minutes_or_the_cache_is_off() {
    let five = CacheProfile::FIVE_MINUTES;
    assert_eq!(found_at(270, five).await, (Outcome::Found, Freshness::Stale));
    assert_eq!(found_at(301, five).await.0, Outcome::TooOld);
    assert_eq!(found_at(10, CacheProfile::OFF).await.0, Outcome::TooOld);
    assert_eq!(found_at(301, CacheProfile::default()).await, (Outcome::Found, Freshness::Stale));
}

#[tokio::test]
async fn snp_09_it_is_fresh_for_five_minutes_and_used_for_fifteen() {
    let outage = CacheProfile::LONG_OUTAGE;
    assert_eq!(found_at(270, outage).await, (Outcome::Found, Freshness::Behind));
    assert_eq!(found_at(301, outage).await, (Outcome::Found, Freshness::Stale));
    assert_eq!(found_at(870, outage).await, (Outcome::Found, Freshness::Stale));
    assert_eq!(found_at(901, outage).await.0, Outcome::TooOld);
}

/// B71: copies were written to files that were named by what they held, and names with odd characters, or long ones,
/// were never found again.
#[tokio::test]
async fn b71_every_name_that_may_be_registered_is_there_after_a_cold_start_in_one_file_a_region() {
    let long = format!("{}/{}", "n".repeat(60), "a".repeat(60));
    let ids = [
        "a/b/c".to_owned(),
        format!("{long}/i.0_1"),
        "ops/x.y_z-1/con".to_owned(),
        "ops/nul.state/us.state".to_owned(),
        "0/0/0".to_owned(),
    ];
    let directory = tempfile::tempdir().unwrap();
    let cell = Cell::new();
    let serving = cell.serve();
    let instances: Vec<_> = ids.iter().map(|id| (id.as_str(), HEALTHY)).collect();
    cell.load("us", 1, &instances);
    cell.load("eu", 1, &[]);
    let url = serving.url();
    drop(Registry::connect(options(url.clone(), directory.path(), DEADLINE)).await.unwrap());
    saved(directory.path()).await;
    drop(serving);

    let short = Duration::from_millis(100);
    let second = Registry::connect(options(url, directory.path(), short)).await.unwrap();
    for id in &ids {
        let name = id.split('/').nth(1).unwrap().to_owned();
        let found = second.resolve(&Query { name: Some(name), ..Query::default() }).candidates;
        assert!(found.iter().any(|one| one.registration.declared.id.as_str() == id), "{id}");
    }
    let files: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(files.len() <= 6, "two generations of two regions, and what guards them: {files:?}");
}
