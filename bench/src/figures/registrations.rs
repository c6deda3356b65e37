//! Fenced registrations a second through a cell into one etcd, beside etcd's own rate of one compare-and-put
//! transaction each. The two take turns against the same etcd. Goal: ≥ 2.5 times.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::region::Region;
use crate::session::{Session, small};
use crate::{load, machine, spread};
use etcd_client::{Client, Compare, CompareOp, Txn, TxnOp};
use rollcall_proto::v1::session_request::Request;
use rollcall_proto::v1::session_response::Response;

const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_secs(4);
const CALLERS: usize = 512;
const CONNECTIONS: usize = 8;
/// Bytes of one raw value: what a small registration takes in the store.
const VALUE: usize = 200;

pub(super) async fn run() {
    println!(
        "fenced registrations/s through a cell beside raw compare-and-put, one etcd, {CALLERS} callers on {CONNECTIONS} connections"
    );
    println!("{}", machine());
    let region = Region::up();
    let mut raws = Vec::new();
    for _ in 0..CONNECTIONS {
        raws.push(Client::connect([region.etcd()], None).await.expect("etcd answers"));
    }
    let (mut cell_rates, mut raw_rates, mut ratios, mut cpu_ratios) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let revision = head(&mut raws[0]).await;
        let before = (region.etcd_time(), region.cell_time());
        let cell = sessions(&region.cell(), round).await;
        let of_etcd = (region.etcd_time() - before.0).as_secs_f64();
        let of_cell = (region.cell_time() - before.1).as_secs_f64();
        let cell_cpu = of_etcd + of_cell;
        // The keeper's beats are among the revisions; a few in thousands.
        let group = cell.0 as f64 / (head(&mut raws[0]).await - revision) as f64;
        let before = region.etcd_time();
        let raw = measure(|caller, count| {
            let mut client = raws[caller % CONNECTIONS].clone();
            async move {
                // As long as the key and the value of a registration, for who would put the record there themselves.
                let key = format!("rollcall/v1/raw-east/reg/bench{round}/caller-{caller}/{count}");
                let txn = Txn::new()
                    .when([Compare::mod_revision(key.as_str(), CompareOp::Equal, 0)])
                    .and_then([TxnOp::put(key.as_str(), vec![b'x'; VALUE], None)]);
                client.txn(txn).await.is_ok_and(|answer| answer.succeeded())
            }
        })
        .await;
        let raw_cpu = (region.etcd_time() - before).as_secs_f64();
        if round == 0 {
            continue; // the first round warms both up
        }
        let cpu = (cell.0 as f64 / cell_cpu) / (raw.0 as f64 / raw_cpu);
        println!(
            "round {round}: cell {:.0}/s ({} failed), raw {:.0}/s ({} failed), ratio {:.2}; per CPU-second of the servers {cpu:.2}; group of {group:.1}; CPU µs each: etcd {:.0} + cell {:.0}, raw {:.0}; load {}",
            cell.1,
            cell.2,
            raw.1,
            raw.2,
            cell.1 / raw.1,
            of_etcd * 1e6 / cell.0 as f64,
            of_cell * 1e6 / cell.0 as f64,
            raw_cpu * 1e6 / raw.0 as f64,
            load()
        );
        cell_rates.push(cell.1);
        raw_rates.push(raw.1);
        ratios.push(cell.1 / raw.1);
        cpu_ratios.push(cpu);
    }
    println!("min / median / max");
    println!("  cell, registrations/s   {}", spread(&cell_rates, 0));
    println!("  raw, transactions/s     {}", spread(&raw_rates, 0));
    println!("  ratio                   {}  (goal 2.5)", spread(&ratios, 2));
    println!("  ratio per CPU-second    {}", spread(&cpu_ratios, 2));
}

/// One session a connection, each with its share of the callers: an answer to one sends the next.
async fn sessions(url: &str, round: usize) -> (u64, f64, u64) {
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        open.push(Session::open(url).await.split());
    }
    let started = Instant::now();
    let each = open.into_iter().enumerate().map(|(connection, (asks, mut answers))| {
        tokio::spawn(async move {
            let register =
                |call| Request::Register(small(format!("bench{round}/caller-{connection}/{call}"), 300));
            let mut next = 0;
            while next < (CALLERS / CONNECTIONS) as u64 {
                asks.ask(next, register(next)).await;
                next += 1;
            }
            let (mut done, mut failed) = (0_u64, 0_u64);
            while let Some((_, answer)) = answers.next().await {
                match answer {
                    Response::Register(_) => done += 1,
                    _ => failed += 1,
                }
                if started.elapsed() < ROUND {
                    asks.ask(next, register(next)).await;
                    next += 1;
                } else if done + failed == next {
                    break;
                }
            }
            (done, failed)
        })
    });
    let mut sum = (0, 0);
    for one in futures_util::future::join_all(each).await {
        let (done, failed) = one.expect("a session ends");
        sum = (sum.0 + done, sum.1 + failed);
    }
    (sum.0, sum.0 as f64 / started.elapsed().as_secs_f64(), sum.1)
}

/// etcd's revision now.
async fn head(client: &mut Client) -> i64 {
    let answer = client.get("head", None).await.expect("etcd answers");
    answer.header().expect("a header").revision()
}

/// Calls as fast as the answers come for a round: how many succeeded, their rate, how many failed.
async fn measure<F, Fut>(call: F) -> (u64, f64, u64)
where
    F: Fn(usize, u64) -> Fut,
    Fut: Future<Output = bool>,
{
    let (done, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let started = Instant::now();
    let callers = (0..CALLERS).map(|caller| {
        let (done, failed, call) = (&done, &failed, &call);
        async move {
            let mut count = 0;
            while started.elapsed() < ROUND {
                let tally = if call(caller, count).await { done } else { failed };
                tally.fetch_add(1, Ordering::Relaxed);
                count += 1;
            }
        }
    });
    futures_util::future::join_all(callers).await;
    let rate = done.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64();
    (done.load(Ordering::Relaxed), rate, failed.load(Ordering::Relaxed))
}
