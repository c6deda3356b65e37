//! What a local registration costs while everything else is gone: Kafka black-holed, the other region unreachable.
//!
//! The broker and every process of eu-west are frozen, so that their connections stay open and nothing answers on them.
//! Calm and dark take turns on the same cell. Goal: p99 ≤ 1.5 × of the calm, and no error.

use std::time::{Duration, Instant};

use crate::pair::Pair;
use crate::{load, machine, quantile, resident_mib, spread};
use rollcall_tests::agents::agent;
use tokio::task::JoinSet;

const CHANGES: usize = 4_000;
const PER_SECOND: u64 = 200;
const ROUNDS: usize = 5;
const FROZEN: [&str; 4] = ["kafka", "eu-west/replicator", "eu-west/cell", "eu-west/etcd"];

pub(super) async fn run() {
    println!(
        "register in us-east at {PER_SECOND}/s, {CHANGES} a round: calm, and with kafka and eu-west frozen"
    );
    println!("{}", machine());
    let pair = Pair::up().await;
    let replicator = pair.pid("us-east/replicator");
    let _ = measured(&pair, "warm").await;
    let (mut calms, mut darks, mut ratios, mut memories) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let calm = measured(&pair, &format!("calm{round}")).await;
        FROZEN.iter().for_each(|name| pair.signal(name, "STOP"));
        let dark = measured(&pair, &format!("dark{round}")).await;
        let memory = resident_mib(replicator);
        FROZEN.iter().rev().for_each(|name| pair.signal(name, "CONT"));
        pair.sees("eu-west", "us-east", |view| view["state"] == "current").await;
        println!(
            "round {round}: p99 calm {:.1} ms ({} errors), dark {:.1} ms ({} errors); p50 {:.1} and {:.1}; replicator {memory:.0} MiB; load {}",
            calm.p99,
            calm.errors,
            dark.p99,
            dark.errors,
            calm.p50,
            dark.p50,
            load()
        );
        calms.push(calm.p99);
        darks.push(dark.p99);
        ratios.push(dark.p99 / calm.p99);
        memories.push(memory);
    }
    println!("min / median / max");
    println!("  calm p99 {} ms", spread(&calms, 1));
    println!("  dark p99 {} ms", spread(&darks, 1));
    println!("  ratio    {}  (goal 1.5)", spread(&ratios, 2));
    println!("  replicator in the dark {} MiB", spread(&memories, 0));
}

struct Measured {
    p50: f64,
    p99: f64,
    errors: usize,
}

async fn measured(pair: &Pair, namespace: &str) -> Measured {
    let us = pair.regions.cell("us-east");
    let mut tick = tokio::time::interval(Duration::from_micros(1_000_000 / PER_SECOND));
    let mut calls = JoinSet::new();
    for at in 0..CHANGES {
        tick.tick().await;
        let us = us.clone();
        let mut body = agent(&format!("{namespace}/agent/{at}"), "bench:dark:v1");
        body["lease_seconds"] = 300.into();
        calls.spawn(async move {
            let began = Instant::now();
            let is_done = us.register(&body).await.is_ok();
            (began.elapsed().as_secs_f64() * 1e3, is_done)
        });
    }
    let done = calls.join_all().await;
    let errors = done.iter().filter(|(_, is_done)| !is_done).count();
    let mut times: Vec<f64> = done.into_iter().map(|(time, _)| time).collect();
    times.sort_by(f64::total_cmp);
    Measured { p50: quantile(&times, 0.5), p99: quantile(&times, 0.99), errors }
}
