//! Ten times more new registrations than are admitted, while a known fleet renews.
//!
//! Admission is as it comes, only that one address may have all of it. Each renewal is a message of its own, due by an open
//! loop, and in time when it is answered within a registrant's patience. An independent tap on etcd sees whether any of
//! the known fleet is removed. Goals: ≥ 99.9 % of renewals in time, none of the fleet expired.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::offered::offer;
use crate::region::Region;
use crate::session::{Session, small};
use crate::{load, machine, quantile};
use etcd_client::{Client, EventType, WatchOptions};
use rollcall_proto::v1::RenewRequest;
use rollcall_proto::v1::renew_request::Item;
use rollcall_proto::v1::renew_response::result::Outcome;
use rollcall_proto::v1::session_request::Request;
use rollcall_proto::v1::session_response::Response;
use tokio::task::JoinSet;

const ROUNDS: usize = 3;
/// The fleet: what a burst of admission takes.
const FLEET: usize = 5_000;
/// Its lease; a third of it is a heartbeat.
const LEASE: u64 = 10;
/// Renewals a second: one for each heartbeat of each.
const RENEWALS: u32 = 1_500;
/// Newcomers a second: ten times what is admitted.
const NEWCOMERS: u32 = 10_000;
const SECONDS: u32 = 20;
const CONNECTIONS: usize = 8;
/// How long a registrant waits for an answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// As admission is when nobody says anything, but for the share of an address.
const ADMISSION: [(&str, &str); 3] = [
    ("ROLLCALL_ADMISSION__REGISTRATIONS_PER_SECOND", "1000"),
    ("ROLLCALL_ADMISSION__BURST", "5000"),
    ("ROLLCALL_ADMISSION__RENEWALS_PER_SECOND", "50000"),
];

pub(super) async fn run() {
    println!(
        "{NEWCOMERS} new registrations/s offered where 1000/s are admitted, beside {RENEWALS} renewals/s of {FLEET} known ones with leases of {LEASE} s, {SECONDS} s a round"
    );
    println!("{}", machine());
    let region = Region::up_with(&ADMISSION);
    let lost = tap(&region).await;
    let mut fleet = Vec::new();
    for connection in 0..CONNECTIONS {
        let mine = (connection..FLEET).step_by(CONNECTIONS);
        let mine = mine.map(|n| small(format!("bench/agent/{n}"), LEASE));
        fleet.push(Session::open(&region.cell()).await.register_all(mine).await);
    }
    let fleet: Arc<[Item]> = fleet.concat().into();
    for round in 1..=ROUNDS {
        let before = region.cell_time();
        let newcomers = tokio::spawn(newcomers(region.cell(), round));
        let mut waits = renewals(&region.cell(), &fleet).await;
        let (offered, admitted, refused) = newcomers.await.expect("newcomers end");
        let cpu = (region.cell_time() - before).as_secs_f64();
        let all = waits.len();
        waits.retain(|wait| wait.is_some_and(|wait| wait <= PATIENCE));
        let mut waits: Vec<f64> = waits.into_iter().flatten().map(|wait| wait.as_secs_f64() * 1e3).collect();
        waits.sort_by(f64::total_cmp);
        println!(
            "round {round}: newcomers {offered} offered, {admitted} registered, {refused} refused; renewals {} of {all} in time: {:.3} % (goal 99.9), p50 {:.1} ms, p99 {:.1} ms, longest {:.0} ms; {} of the fleet expired (goal 0); CPU s of the cell {cpu:.1}; load {}",
            waits.len(),
            waits.len() as f64 * 100.0 / all as f64,
            quantile(&waits, 0.5),
            quantile(&waits, 0.99),
            quantile(&waits, 1.0),
            lost.load(Ordering::Relaxed),
            load()
        );
    }
}

/// Counts the removals of the fleet in etcd itself.
async fn tap(region: &Region) -> Arc<AtomicUsize> {
    let mut client = Client::connect([region.etcd()], None).await.expect("etcd answers");
    let prefix = "rollcall/v1/us-east/reg/bench/";
    let options = WatchOptions::new().with_prefix();
    let mut stream = client.watch(prefix, Some(options)).await.expect("a watch");
    let lost = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&lost);
    tokio::spawn(async move {
        while let Ok(Some(message)) = stream.message().await {
            let gone = message.events().iter().filter(|event| event.event_type() == EventType::Delete);
            count.fetch_add(gone.count(), Ordering::Relaxed);
        }
    });
    lost
}

/// Offers newcomers, whatever becomes of them: how many there were, were registered, and were refused.
async fn newcomers(url: String, round: usize) -> (usize, usize, usize) {
    let (mut sessions, mut readers) = (Vec::new(), JoinSet::new());
    for _ in 0..CONNECTIONS {
        let (asks, mut answers) = Session::open(&url).await.split();
        sessions.push(asks);
        readers.spawn(async move {
            let (mut admitted, mut refused) = (0, 0);
            while let Some((_, answer)) = answers.next().await {
                match answer {
                    Response::Register(_) => admitted += 1,
                    _ => refused += 1,
                }
            }
            (admitted, refused)
        });
    }
    let mut calls = offer((NEWCOMERS * SECONDS) as usize, NEWCOMERS);
    let mut offered = 0;
    while let Some((call, _)) = calls.recv().await {
        let register = Request::Register(small(format!("new{round}/agent/{call}"), 300));
        // Where the cell does not take them up, they give up.
        offered += usize::from(sessions[call % CONNECTIONS].try_ask(call as u64, register));
    }
    drop(sessions);
    let ends = readers.join_all().await;
    (offered, ends.iter().map(|end| end.0).sum(), ends.iter().map(|end| end.1).sum())
}

/// Renews the fleet in turn: how long each renewal took from when it was due; none when it was not renewed.
async fn renewals(url: &str, fleet: &[Item]) -> Vec<Option<Duration>> {
    let calls = (RENEWALS * SECONDS) as usize;
    let (mut sessions, mut readers) = (Vec::new(), JoinSet::new());
    let dues: Arc<[OnceLock<Instant>]> = (0..calls).map(|_| OnceLock::new()).collect();
    for _ in 0..CONNECTIONS {
        let (asks, mut answers) = Session::open(url).await.split();
        let dues = Arc::clone(&dues);
        sessions.push(asks);
        readers.spawn(async move {
            let mut waits = Vec::new();
            while let Some((call, answer)) = answers.next().await {
                let due = dues[usize::try_from(call).expect("a number of ours")].get().expect("it was made");
                let wait = due.elapsed();
                let is_renewed = match answer {
                    Response::Renew(renewed) => {
                        matches!(renewed.results[..], [ref one] if matches!(one.outcome, Some(Outcome::Renewed(_))))
                    }
                    _ => false,
                };
                waits.push(is_renewed.then_some(wait));
            }
            waits
        });
    }
    let mut offered = offer(calls, RENEWALS);
    while let Some((call, due)) = offered.recv().await {
        dues[call].set(due).expect("each call is made once");
        let renew = Request::Renew(RenewRequest { items: vec![fleet[call % FLEET].clone()] });
        sessions[call % CONNECTIONS].ask(call as u64, renew).await;
    }
    drop(sessions);
    readers.join_all().await.concat()
}
