//! How long a change takes from one region to another, over real etcd and Kafka, at 1,000 changes a second.
//!
//! Each registration in us-east is timed from its acknowledgement until eu-west's cell tells it on a watch. Beside it, in
//! turn, the bare way on the same etcd and broker: put → etcd's watch → produce → consume. Then the same with 50 ms each
//! way between broker and eu-west. Goals: p99 ≤ 100 ms and ≤ 3 × the bare way; over the long way one round trip more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::pair::Pair;
use crate::{bare, load, machine, quantile, spread};
use rollcall_tests::agents::agent;

const CHANGES: usize = 10_000;
const PER_SECOND: u64 = 1_000;
const ROUNDS: usize = 5;
const DELAY: Duration = Duration::from_millis(50);

pub(super) async fn run() {
    println!(
        "change acknowledged in us-east → told by eu-west's cell, {PER_SECOND} changes/s, {CHANGES} a round, beside \
         put → watch → produce → consume"
    );
    println!("{}", machine());
    let pair = Pair::up().await;
    let (mut near, mut bare, mut far) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let ours = told(&pair, &format!("near{round}")).await;
        let (etcd, kafka) = (pair.regions.etcd("us-east"), pair.regions.kafka());
        let plain = bare::times(&etcd, &kafka, round, CHANGES, PER_SECOND).await;
        pair.set_way(DELAY);
        let long = told(&pair, &format!("far{round}")).await;
        pair.set_way(Duration::ZERO);
        if round == 0 {
            continue; // the first round warms everything up
        }
        for (name, times, p99s) in [
            ("us-east → eu-west", ours, &mut near),
            ("bare", plain, &mut bare),
            ("50 ms each way", long, &mut far),
        ] {
            let (p50, p99, most) = quantiles(times);
            println!(
                "round {round}: {name}: p50 {p50:.1} ms, p99 {p99:.1} ms, max {most:.1} ms; load {}",
                load()
            );
            p99s.push(p99);
        }
    }
    let ratios: Vec<f64> = near.iter().zip(&bare).map(|(near, bare)| near / bare).collect();
    println!("p99, min / median / max");
    println!("  us-east → eu-west  {} ms  (goal 100)", spread(&near, 1));
    println!("  bare               {} ms", spread(&bare, 1));
    println!("  ratio              {}  (goal 3)", spread(&ratios, 2));
    println!("  50 ms each way     {} ms  (goal 200)", spread(&far, 1));
}

fn quantiles(mut times: Vec<f64>) -> (f64, f64, f64) {
    times.sort_by(f64::total_cmp);
    (quantile(&times, 0.5), quantile(&times, 0.99), quantile(&times, 1.0))
}

/// Times of changes in a namespace, in milliseconds.
async fn told(pair: &Pair, namespace: &str) -> Vec<f64> {
    let seen: Arc<Mutex<HashMap<String, Instant>>> = Arc::default();
    let url = format!("{}/v1/watch?region=us-east&namespace={namespace}", pair.regions.url("eu-west"));
    let mut stream = reqwest::get(url).await.expect("a watch opens");
    let told = Arc::clone(&seen);
    let watcher = tokio::spawn(async move {
        let mut rest = String::new();
        while let Ok(Some(chunk)) = stream.chunk().await {
            let now = Instant::now();
            rest.push_str(&String::from_utf8_lossy(&chunk));
            let whole = rest.rfind('\n').map_or(0, |end| end + 1);
            let lines: String = rest.drain(..whole).collect();
            for data in lines.lines().filter_map(|line| line.strip_prefix("data:")) {
                let Ok(data) = serde_json::from_str::<serde_json::Value>(data) else { continue };
                for change in data["changes"].as_array().into_iter().flatten() {
                    if let Some(id) = change["put"]["id"].as_str() {
                        told.lock().unwrap().entry(id.to_owned()).or_insert(now);
                    }
                }
            }
        }
    });
    let us = pair.regions.cell("us-east");
    let mut tick = tokio::time::interval(Duration::from_micros(1_000_000 / PER_SECOND));
    let acknowledged: Arc<Mutex<HashMap<String, Instant>>> = Arc::default();
    let mut writes = tokio::task::JoinSet::new();
    for at in 0..CHANGES {
        tick.tick().await;
        let (us, acknowledged) = (us.clone(), Arc::clone(&acknowledged));
        let id = format!("{namespace}/agent/{at}");
        writes.spawn(async move {
            // A lease that outlasts the measurement: what lapses in between would be told as well.
            let mut body = agent(&id, "bench:visible:v1");
            body["lease_seconds"] = 300.into();
            // What is not acknowledged has no beginning to be timed from; it is counted.
            if us.register(&body).await.is_ok() {
                acknowledged.lock().unwrap().insert(id, Instant::now());
            }
        });
    }
    while writes.join_next().await.is_some() {}
    let deadline = Instant::now() + Duration::from_secs(60);
    let acknowledged = std::mem::take(&mut *acknowledged.lock().unwrap());
    if acknowledged.len() < CHANGES {
        println!("  {namespace}: {} of {CHANGES} were acknowledged", acknowledged.len());
    }
    while acknowledged.keys().any(|id| !seen.lock().unwrap().contains_key(id)) {
        assert!(Instant::now() < deadline, "{} of {CHANGES} were seen", seen.lock().unwrap().len());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    watcher.abort();
    let seen = seen.lock().unwrap();
    acknowledged.iter().map(|(id, at)| seen[id].saturating_duration_since(*at).as_secs_f64() * 1e3).collect()
}
