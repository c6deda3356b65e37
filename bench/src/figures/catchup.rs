//! How soon a region's view is current: a replicator that starts with nothing, and one behind an outage of Kafka.
//!
//! First us-east holds 100,000 instances, and a replicator of eu-west starts without a copy and without an offset: timed
//! from its start until it calls the view current and holds them all. Goal 2 s. Then Kafka is frozen while us-east makes
//! 60,000 changes, as ten minutes at 100 a second would: timed from its return until eu-west's cell holds what us-east's
//! does. Goal 5 s, with the publisher's memory no larger than before by more than its window.

use std::time::Instant;

use crate::pair::{Pair, status};
use crate::{load, machine, resident_mib, spread};
use rollcall_tests::agents::agent;
use rollcall_tests::http::Http;
use tokio::task::JoinSet;

const INSTANCES: usize = 100_000;
const PILED: usize = 60_000;
const ROUNDS: usize = 3;
/// Calls under way: as fast as the cell takes them.
const UNDER_WAY: usize = 64;

pub(super) async fn run() {
    println!("views of {INSTANCES} instances from nothing, and after {PILED} changes that piled up");
    println!("{}", machine());
    let pair = Pair::up().await;
    register(&pair, "held", INSTANCES).await;
    let us = pair.regions.cell("us-east");
    let (_, own) = status(&us, "us-east", |own| own["count"].as_u64() >= Some(INSTANCES as u64)).await;
    // The snapshot that a new follower begins with: the publisher writes one at its start where none is near.
    pair.again("us-east/replicator");
    pair.sees("eu-west", "us-east", |view| revision(view) >= revision(&own)).await;

    let mut starts = Vec::new();
    for round in 0..ROUNDS {
        pair.regions.control("stop", "eu-west/replicator").expect("stopped");
        let data = pair.regions.run_dir().join("eu-west/replicator/data");
        std::fs::remove_dir_all(&data).expect("its copies are removed");
        let replicator = Http::new(format!("http://127.0.0.1:{}", port(&pair, "eu-west") + 101));
        let began = Instant::now();
        pair.regions.control("start", "eu-west/replicator").expect("started");
        let whole = |view: &serde_json::Value| {
            view["state"] == "current" && view["count"].as_u64() >= Some(INSTANCES as u64)
        };
        status(&replicator, "us-east", whole).await;
        let took = began.elapsed();
        println!("round {round}: from nothing to current in {:.2} s; load {}", took.as_secs_f64(), load());
        starts.push(took.as_secs_f64());
    }
    pair.sees("eu-west", "us-east", |view| view["state"] == "current").await;

    let (mut catches, mut grown) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let publisher = pair.pid("us-east/replicator");
        let before = resident_mib(publisher);
        pair.signal("kafka", "STOP");
        register(&pair, "piled", PILED).await;
        let during = resident_mib(publisher);
        let (_, own) = status(&us, "us-east", |own| own["state"] == "current").await;
        let began = Instant::now();
        pair.signal("kafka", "CONT");
        let (_, view) = pair.sees("eu-west", "us-east", |view| revision(view) >= revision(&own)).await;
        let took = began.elapsed();
        println!(
            "round {round}: {PILED} changes caught up in {:.2} s (last resync {}); publisher {before:.0} MiB before, {during:.0} in the outage, {:.0} after; load {}",
            took.as_secs_f64(),
            view["last_resync"]["reason"],
            resident_mib(publisher),
            load()
        );
        catches.push(took.as_secs_f64());
        grown.push(during - before);
        pair.sees("eu-west", "us-east", |view| view["state"] == "current").await;
    }
    println!("min / median / max");
    println!("  from nothing to current  {} s  (goal 2)", spread(&starts, 2));
    println!("  caught up                {} s  (goal 5)", spread(&catches, 2));
    println!("  publisher grew by        {} MiB", spread(&grown, 0));
}

fn port(pair: &Pair, region: &str) -> u16 {
    pair.regions.url(region).rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
}

/// Registers so many instances of a namespace, anew where they are there.
async fn register(pair: &Pair, namespace: &str, count: usize) {
    let us = pair.regions.cell("us-east");
    let mut calls = JoinSet::new();
    for caller in 0..UNDER_WAY {
        let (us, namespace) = (us.clone(), namespace.to_owned());
        calls.spawn(async move {
            for at in (caller..count).step_by(UNDER_WAY) {
                let mut body = agent(&format!("{namespace}/agent/{at}"), "bench:many:v1");
                // The longest there is. Those that lapse are held by the guard, so that they stay.
                body["lease_seconds"] = 300.into();
                // A busy machine's store is late now and then; the change is made all the same.
                while us.register(&body).await.is_err() {}
            }
        });
    }
    calls.join_all().await;
}

fn revision(status: &serde_json::Value) -> u64 {
    status["position"]["revision"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}
