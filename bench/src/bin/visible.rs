//! How long a change takes from one region to another, over real etcd and Kafka.
//!
//! Registers at 100 changes a second in us-east; each is timed from its acknowledgement until eu-west's cell tells it
//! on a watch. Goal: p99 ≤ 100 ms.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench fails by panicking and prints"
)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rollcall_bench::{load, machine, quantile};
use rollcall_tests::agents::agent;
use rollcall_tests::regions::Regions;

const CHANGES: usize = 2_000;
const PER_SECOND: u64 = 100;
const ROUNDS: usize = 3;

#[tokio::main]
async fn main() {
    println!(
        "change acknowledged in us-east → told by eu-west's cell, {PER_SECOND} changes/s, {CHANGES} a round"
    );
    println!("{}", machine());
    let regions = Regions::up(None);
    for round in 0..ROUNDS {
        let seen: Arc<Mutex<HashMap<String, Instant>>> = Arc::default();
        let url = format!("{}/v1/watch?region=us-east&namespace=bench{round}", regions.url("eu-west"));
        let mut stream = reqwest::get(url).await.expect("a watch opens");
        let told = Arc::clone(&seen);
        let watcher = tokio::spawn(async move {
            let mut rest = String::new();
            while let Ok(Some(chunk)) = stream.chunk().await {
                let now = Instant::now();
                rest.push_str(&String::from_utf8_lossy(&chunk));
                while let Some(end) = rest.find('\n') {
                    let line: String = rest.drain(..=end).collect();
                    let Some(data) = line.strip_prefix("data:") else { continue };
                    let Ok(data) = serde_json::from_str::<serde_json::Value>(data) else { continue };
                    for change in data["changes"].as_array().into_iter().flatten() {
                        if let Some(id) = change["put"]["id"].as_str() {
                            told.lock().unwrap().entry(id.to_owned()).or_insert(now);
                        }
                    }
                }
            }
        });
        let us = regions.cell("us-east");
        let mut tick = tokio::time::interval(Duration::from_millis(1_000 / PER_SECOND));
        let acknowledged: Arc<Mutex<HashMap<String, Instant>>> = Arc::default();
        let mut writes = tokio::task::JoinSet::new();
        for at in 0..CHANGES {
            tick.tick().await;
            let (us, acknowledged) = (us.clone(), Arc::clone(&acknowledged));
            writes.spawn(async move {
                let id = format!("bench{round}/agent/{at}");
                us.register(&agent(&id, "bench:visible:v1")).await.expect("registered");
                acknowledged.lock().unwrap().insert(id, Instant::now());
            });
        }
        while writes.join_next().await.is_some() {}
        let deadline = Instant::now() + Duration::from_secs(20);
        while seen.lock().unwrap().len() < CHANGES && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        watcher.abort();
        let seen = seen.lock().unwrap();
        let mut waits: Vec<f64> = acknowledged
            .lock()
            .unwrap()
            .iter()
            .filter_map(|(id, at)| {
                seen.get(id).map(|seen| seen.saturating_duration_since(*at).as_secs_f64() * 1e3)
            })
            .collect();
        assert!(waits.len() == CHANGES, "{} of {CHANGES} were seen", waits.len());
        waits.sort_by(f64::total_cmp);
        let of = |share| quantile(&waits, share);
        println!(
            "round {}: p50 {:.1} ms, p90 {:.1} ms, p99 {:.1} ms, max {:.1} ms; load {}",
            round + 1,
            of(0.5),
            of(0.9),
            of(0.99),
            of(1.0),
            load()
        );
    }
}
