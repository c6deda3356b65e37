//! How long a registration takes at 1,000 a second, beside etcd's compare-and-put at the same rate.
//!
//! An open loop: calls are due at a steady rate and timed from when they were due until their answer is here. The two take
//! turns on one etcd. Registrations go over sessions as the SDK's do, each with an id of its own; puts have keys and values
//! as long. Goal: p50 and p99 ≤ 3 × etcd's.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::offered::offer;
use crate::region::Region;
use crate::session::{Session, small};
use crate::{load, machine, quantile, spread};
use etcd_client::{Client, Compare, CompareOp, Txn, TxnOp};
use rollcall_proto::v1::session_request::Request;
use rollcall_proto::v1::session_response::Response;
use tokio::task::JoinSet;

const ROUNDS: usize = 5;
const PER_SECOND: u32 = 1_000;
const CALLS: usize = 5_000;
const CONNECTIONS: usize = 8;
/// Longest wait for the last answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of one raw value: what a small registration takes in the store.
const VALUE: usize = 200;

/// How long calls took, in milliseconds.
struct Measured {
    p50: f64,
    p99: f64,
    most: f64,
    /// Processor seconds of the cell and of etcd.
    cpu: (f64, f64),
}

pub(super) async fn run() {
    println!(
        "registrations beside compare-and-put, {PER_SECOND}/s offered to each in turn, {CALLS} calls, {CONNECTIONS} connections; from due to answered"
    );
    println!("{}", machine());
    let region = Region::up();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let cell = timed(&region, register(&region, round)).await;
        let etcd = timed(&region, put(&region, round)).await;
        if round == 0 {
            continue; // the first round warms both up
        }
        for (name, of) in [("cell", &cell), ("etcd", &etcd)] {
            println!(
                "round {round}: {name} p50 {:.2} ms, p99 {:.1} ms, longest {:.0} ms; CPU s: cell {:.2}, etcd {:.2}; load {}",
                of.p50,
                of.p99,
                of.most,
                of.cpu.0,
                of.cpu.1,
                load()
            );
        }
        ours.push(cell);
        theirs.push(etcd);
    }
    println!("min / median / max");
    for (name, of) in [("p50", (|m| m.p50) as fn(&Measured) -> f64), ("p99", |m| m.p99)] {
        let (cell, etcd): (Vec<_>, Vec<_>) = (ours.iter().map(of).collect(), theirs.iter().map(of).collect());
        let ratio: Vec<f64> = cell.iter().zip(&etcd).map(|(cell, etcd)| cell / etcd).collect();
        println!("  {name}, ms: cell {}, etcd {}", spread(&cell, 2), spread(&etcd, 2));
        println!("  {name}, cell to etcd    {}  (goal 3)", spread(&ratio, 2));
    }
}

/// What the calls took, and the servers for them.
async fn timed(region: &Region, calls: impl Future<Output = Vec<f64>>) -> Measured {
    let before = (region.cell_time(), region.etcd_time());
    let mut waits = tokio::time::timeout(PATIENCE, calls).await.expect("every call is answered");
    assert!(waits.len() == CALLS, "{} of {CALLS} calls succeeded", waits.len());
    waits.sort_by(f64::total_cmp);
    Measured {
        p50: quantile(&waits, 0.5),
        p99: quantile(&waits, 0.99),
        most: quantile(&waits, 1.0),
        cpu: ((region.cell_time() - before.0).as_secs_f64(), (region.etcd_time() - before.1).as_secs_f64()),
    }
}

fn since(due: Instant) -> f64 {
    due.elapsed().as_secs_f64() * 1e3
}

/// Registers, on one session a connection; how long each call took.
async fn register(region: &Region, round: usize) -> Vec<f64> {
    let (mut sessions, mut readers) = (Vec::new(), JoinSet::new());
    let dues: Arc<[OnceLock<Instant>]> = (0..CALLS).map(|_| OnceLock::new()).collect();
    for _ in 0..CONNECTIONS {
        let (asks, mut answers) = Session::open(&region.cell()).await.split();
        let dues = Arc::clone(&dues);
        sessions.push(asks);
        readers.spawn(async move {
            let mut waits = Vec::new();
            while let Some((call, answer)) = answers.next().await {
                let Response::Register(_) = answer else { panic!("not registered: {answer:?}") };
                let call = usize::try_from(call).expect("a number of ours");
                waits.push(since(*dues[call].get().expect("a call that was made")));
            }
            waits
        });
    }
    let mut calls = offer(CALLS, PER_SECOND);
    while let Some((call, due)) = calls.recv().await {
        dues[call].set(due).expect("each call is made once");
        let register = Request::Register(small(format!("bench{round}/agent/{call}"), 300));
        sessions[call % CONNECTIONS].ask(call as u64, register).await;
    }
    drop(sessions);
    readers.join_all().await.concat()
}

/// Puts values that nobody put before; how long each call took.
async fn put(region: &Region, round: usize) -> Vec<f64> {
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(Client::connect([region.etcd()], None).await.expect("etcd answers"));
    }
    let mut puts = JoinSet::new();
    let mut calls = offer(CALLS, PER_SECOND);
    while let Some((call, due)) = calls.recv().await {
        let mut client = clients[call % CONNECTIONS].clone();
        puts.spawn(async move {
            let key = format!("rollcall/v1/raw-east/reg/bench{round}/agent/{call}");
            let txn = Txn::new()
                .when([Compare::mod_revision(key.as_str(), CompareOp::Equal, 0)])
                .and_then([TxnOp::put(key.as_str(), vec![b'x'; VALUE], None)]);
            let answer = client.txn(txn).await.expect("etcd takes it");
            assert!(answer.succeeded(), "the key was there");
            since(due)
        });
    }
    puts.join_all().await
}
