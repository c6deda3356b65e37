//! Fenced registrations a second through a cell into one etcd, beside what etcd takes from those who register with it
//! themselves: one compare-and-put transaction each (goal: 2.5 times), and a lease with a put under it each (goal: 8
//! times). The three take turns against the same etcd.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::region::Region;
use crate::session::{Session, small};
use crate::{load, machine, spread};
use etcd_client::{Client, Compare, CompareOp, PutOptions, Txn, TxnOp};
use rollcall_proto::v1::session_request::Request;
use rollcall_proto::v1::session_response::Response;

const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_secs(4);
const CALLERS: usize = 512;
const CONNECTIONS: usize = 8;
/// As long as a registration's by default.
const LEASE_SECONDS: i64 = 30;
/// Bytes of one raw value: what a small registration takes in the store.
const VALUE: usize = 200;

pub(super) async fn run() {
    println!(
        "fenced registrations/s through a cell beside etcd alone, one etcd, {CALLERS} callers on {CONNECTIONS} connections"
    );
    println!("{}", machine());
    let region = Region::up();
    let mut raws = Vec::new();
    for _ in 0..CONNECTIONS {
        raws.push(Client::connect([region.etcd()], None).await.expect("etcd answers"));
    }
    let mut rows = Rows::default();
    for round in 0..ROUNDS {
        let revision = head(&mut raws[0]).await;
        let before = (region.etcd_time(), region.cell_time());
        let (done, rate, failed) = sessions(&region.cell(), round).await;
        let of_etcd = micros_each(region.etcd_time() - before.0, done);
        let of_cell = micros_each(region.cell_time() - before.1, done);
        // The keeper's beats are among the revisions; a few in thousands.
        let group = done as f64 / (head(&mut raws[0]).await - revision) as f64;
        // As long as the key and the value of a registration, for who would put the record there themselves.
        let key = |way: &str, caller: usize, count: u64| {
            format!("rollcall/v1/{way}-east/reg/bench{round}/caller-{caller}/{count}")
        };
        let before = region.etcd_time();
        let raw = measure(|caller, count| {
            let mut client = raws[caller % CONNECTIONS].clone();
            async move {
                let key = key("raw", caller, count);
                let txn = Txn::new()
                    .when([Compare::mod_revision(key.as_str(), CompareOp::Equal, 0)])
                    .and_then([TxnOp::put(key.as_str(), vec![b'x'; VALUE], None)]);
                client.txn(txn).await.is_ok_and(|answer| answer.succeeded())
            }
        })
        .await;
        let of_raw = micros_each(region.etcd_time() - before, raw.0);
        let before = region.etcd_time();
        let leased = measure(|caller, count| {
            let mut client = raws[caller % CONNECTIONS].clone();
            async move {
                let Ok(lease) = client.lease_grant(LEASE_SECONDS, None).await else { return false };
                let under = PutOptions::new().with_lease(lease.id());
                client.put(key("let", caller, count), vec![b'x'; VALUE], Some(under)).await.is_ok()
            }
        })
        .await;
        let of_leased = micros_each(region.etcd_time() - before, leased.0);
        if round == 0 {
            continue; // the first round warms them up
        }
        println!(
            "round {round}: cell {rate:.0}/s ({failed} failed), compare-and-put {:.0}/s ({} failed), lease and put {:.0}/s ({} failed); group of {group:.1}; CPU µs each: etcd {of_etcd:.0} + cell {of_cell:.0}, compare-and-put {of_raw:.0}, lease and put {of_leased:.0}; load {}",
            raw.1,
            raw.2,
            leased.1,
            leased.2,
            load()
        );
        rows.rates.push(rate);
        rows.raw_rates.push(raw.1);
        rows.ratios.push(rate / raw.1);
        rows.per_cpu.push(of_raw / (of_etcd + of_cell));
        rows.leased_ratios.push(rate / leased.1);
        rows.leased_per_cpu.push(of_leased / (of_etcd + of_cell));
    }
    println!("min / median / max");
    println!("  cell, registrations/s             {}", spread(&rows.rates, 0));
    println!("  compare-and-put, transactions/s   {}", spread(&rows.raw_rates, 0));
    println!("  beside it                         {}", spread(&rows.ratios, 2));
    println!("  beside it, per CPU-second         {}  (goal 2.5)", spread(&rows.per_cpu, 2));
    println!("  beside a lease and a put          {}", spread(&rows.leased_ratios, 1));
    println!("  beside them, per CPU-second       {}  (goal 8)", spread(&rows.leased_per_cpu, 1));
}

#[derive(Default)]
struct Rows {
    rates: Vec<f64>,
    raw_rates: Vec<f64>,
    ratios: Vec<f64>,
    per_cpu: Vec<f64>,
    leased_ratios: Vec<f64>,
    leased_per_cpu: Vec<f64>,
}

fn micros_each(time: Duration, count: u64) -> f64 {
    time.as_secs_f64() * 1e6 / count as f64
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
