//! Ages over slow ways: from a region's store to a process of its cell, and from a cell to a caller. Nothing is told to be
//! younger than the way makes it, and over a short way nothing comes near what is called behind.

use std::time::Duration;

use rollcall_client::model::Region;
use rollcall_client::{Registry, RegistryOptions};
use rollcall_tests::eventually::eventually;
use rollcall_tests::http::Http;
use rollcall_tests::paths;
use rollcall_tests::process::Process;
use rollcall_tests::slow_link::{SlowLink, Way};
use rollcall_tests::stage::{REGION, Shape, Stage};
use tokio::sync::Mutex;

const SOON: Duration = Duration::from_secs(60);
/// In each direction. There and back is less than a ping to the store may take, after which that way is left.
const TO_THE_STORE: Duration = Duration::from_millis(1_200);
/// Likewise: callers wait five seconds for a ping.
const TO_A_CALLER: Duration = Duration::from_millis(1_800);
/// The step of a coarse clock, with room.
const STEP: Duration = Duration::from_millis(50);
/// Under this a state is called current.
const CURRENT: Duration = Duration::from_secs(3);

async fn short_way_to(url: &str) -> SlowLink {
    let target = url.trim_start_matches("http://");
    SlowLink::open("127.0.0.1:0", target, Way::NONE).await.expect("a way")
}

/// A second process of the cell, which reaches the store over a way of its own.
async fn second(stage: &Stage, link: &SlowLink) -> (Process, Http) {
    let first = std::fs::read_to_string(stage.folder().join("cell0.toml")).expect("the first one's settings");
    let port: u16 = stage.urls()[0].rsplit(':').next().expect("a port").parse().expect("a number");
    // Where the third process of a stage would listen.
    let listen = |port: u16| format!("127.0.0.1:{port}");
    let (http, grpc) = (listen(port + 20), listen(port + 21));
    let mut text = String::new();
    for line in first.lines() {
        let line = match line.split(" = ").next() {
            Some("data_dir") => format!("data_dir = {:?}", stage.folder().join("far").display().to_string()),
            Some("http") => format!("http = {http:?}"),
            Some("grpc") => format!("grpc = {grpc:?}"),
            Some("endpoints") => format!("endpoints = [\"http://{}\"]", link.address()),
            _ => line.to_owned(),
        };
        text.push_str(&line);
        text.push('\n');
    }
    let file = stage.folder().join("far.toml");
    std::fs::write(&file, text).expect("written");
    let arguments = vec!["cell".to_owned(), "--config".to_owned(), file.display().to_string()];
    let process = Process::start("far", stage.folder(), paths::rollcall(), arguments, &[]);
    let http = Http::new(format!("http://{http}"));
    eventually("the second process is ready", SOON, || async { http.get("/readyz").await.map(drop) }).await;
    (process, http)
}

/// How old the own region's state is, as its word has just come: for so many words, one after the other. `look` gives up to
/// where it is known, and its age.
async fn ages_of_news(
    what: &str,
    many: usize,
    look: impl AsyncFn() -> Option<(String, Duration)>,
) -> Vec<Duration> {
    let known = Mutex::new(look().await.map(|(position, _)| position));
    let (condition, mut ages) = (format!("{what} hears of the region"), Vec::new());
    for _ in 0..many {
        let next = eventually(&condition, SOON, || async {
            let (position, age) = look().await.ok_or("nothing is known")?;
            let mut known = known.lock().await;
            if known.replace(position.clone()).as_ref() == Some(&position) {
                return Err(format!("{position}, {age:?} old"));
            }
            Ok(age)
        });
        ages.push(next.await);
    }
    ages
}

async fn at_the_cell(http: &Http) -> Option<(String, Duration)> {
    let regions = http.get("/v1/regions").await.ok()?;
    let own = &regions["regions"][0];
    Some((own["position"].to_string(), Duration::from_millis(own["age_ms"].as_u64()?)))
}

fn at_the_caller(registry: &Registry) -> Option<(String, Duration)> {
    let own = registry.regions().into_iter().next()?;
    Some((own.position?.to_string(), own.age?))
}

async fn caller(link: &SlowLink) -> Registry {
    let own = Region::parse(REGION).expect("a region");
    let registry =
        Registry::connect(RegistryOptions::new([format!("http://{}", link.address())], own.clone()));
    let registry = registry.await.expect("options that are right");
    tokio::time::timeout(SOON, registry.loaded(&own)).await.expect("it is loaded");
    registry
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i21_no_age_is_younger_than_a_slow_way_makes_it_and_over_a_short_one_all_is_current() {
    let stage = Stage::up(&Shape { members: 1, cells: 1, ..Shape::default() }).await;
    let store_link = short_way_to(&stage.etcd.address(0)).await;
    let (_far, far) = second(&stage, &store_link).await;
    let caller_link = short_way_to(&stage.listens()[0].1).await;
    let near_caller = caller(&caller_link).await;

    let at_far = async || at_the_cell(&far).await;
    let at_near = async || at_the_caller(&near_caller);
    let (by_cell, by_caller) =
        tokio::join!(ages_of_news("the cell", 6, at_far), ages_of_news("the caller", 6, at_near));
    for ages in [&by_cell[1..], &by_caller[1..]] {
        assert!(ages.iter().all(|age| *age < CURRENT - Duration::from_secs(1)), "over a short way: {ages:?}");
    }

    store_link.set(Way::delayed(TO_THE_STORE));
    caller_link.set(Way::delayed(TO_A_CALLER));
    let far_caller = caller(&caller_link).await;
    let at_other = async || at_the_caller(&far_caller);
    let (by_cell, by_caller, by_other) = tokio::join!(
        ages_of_news("the cell", 6, at_far),
        ages_of_news("the caller", 6, at_near),
        ages_of_news("a caller that came over the long way", 6, at_other)
    );
    // The first of them may have been under way before.
    for (ages, way) in
        [(&by_cell[2..], TO_THE_STORE), (&by_caller[2..], TO_A_CALLER), (&by_other[2..], TO_A_CALLER)]
    {
        assert!(ages.iter().all(|age| *age + STEP >= way), "{ages:?} over a way of {way:?}");
        // It may look older by a round trip, and by what comes once a second.
        assert!(ages.iter().all(|age| *age < way * 3 + CURRENT), "{ages:?} over a way of {way:?}");
    }
}
