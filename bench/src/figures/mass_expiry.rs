//! 100,000 leases lost at once, with the guard set to allow it: when the last removal is visible, beside 20,000 of etcd's
//! own with a key each. (It revokes so many a second and no more, however many there are; more of them take minutes.)
//!
//! An independent tap on etcd sees each key go; one that goes before its last renewal plus its lease was expired early,
//! and ends the bench. The rate is counted from the first moment at which a lease may lapse to the last removal. Goal:
//! ≥ 20 × etcd's.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::region::Region;
use crate::session::{Session, small};
use crate::{load, machine, spread};
use etcd_client::{Client, EventType, PutOptions, WatchOptions};
use tokio::task::{JoinHandle, JoinSet};
use tokio_stream::StreamExt as _;
use tonic::Request;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;

const ROUNDS: usize = 2;
const LEASES: usize = 100_000;
const ETCD_LEASES: usize = 20_000;
const LEASE: Duration = Duration::from_secs(30);
/// Longer, because granting them takes a starved etcd a minute.
const ETCD_LEASE: Duration = Duration::from_secs(90);
const CONNECTIONS: usize = 8;
/// Leases of one connection between two renewals of all it has: a few seconds' work.
const STRIDE: usize = 2_500;
/// Callers of etcd at once: as many as wait for a cell's answer on its sessions.
const CALLERS: usize = 1_024;
/// Longest wait for the last removal.
const PATIENCE: Duration = Duration::from_secs(600);
/// Everything that is silent may go.
const GUARD: [(&str, &str); 2] = [("ROLLCALL_GUARD__FRACTION", "1"), ("ROLLCALL_GUARD__FLOOR", "1000000")];

/// What became of one lot of leases.
struct Lost {
    /// Removals a second, from the first lapse to the last removal.
    rate: f64,
    /// From the last lapse to the last removal, seconds.
    late: f64,
    /// Seconds between the first lapse and the last: how far from "at once" the loss was.
    apart: f64,
    /// Processor seconds of the cell and of etcd, from the first lapse on.
    cpu: (f64, f64),
}

pub(super) async fn run() {
    println!(
        "{LEASES} leases of {} s lost at once, guard set to allow it, beside etcd's own",
        LEASE.as_secs()
    );
    println!("{}", machine());
    let region = Region::up_with(&GUARD);
    let (mut cell, mut etcd) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        cell.push(cell_loses(&region, round).await);
        tell(round, "cell", cell.last());
        etcd.push(etcd_loses(&region, round).await);
        tell(round, "etcd", etcd.last());
    }
    let rates = |of: &[Lost]| of.iter().map(|one| one.rate).collect::<Vec<_>>();
    let ratio: Vec<f64> = cell.iter().zip(&etcd).map(|(cell, etcd)| cell.rate / etcd.rate).collect();
    println!("min / median / max");
    println!("  cell, removals/s      {}", spread(&rates(&cell), 0));
    println!("  etcd, removals/s      {}", spread(&rates(&etcd), 0));
    println!("  ratio                 {}  (goal 20)", spread(&ratio, 1));
    println!(
        "  cell, last lapse → no reader sees one, s {}",
        spread(&cell.iter().map(|one| one.late).collect::<Vec<_>>(), 1)
    );
}

fn tell(round: usize, name: &str, of: Option<&Lost>) {
    let of = of.expect("one a round");
    println!(
        "round {round}: {name} {:.0} removals/s, none early; last one gone {:.1} s after the last lapse (lapses {:.1} s apart); CPU s: cell {:.1}, etcd {:.1}; load {}",
        of.rate,
        of.late,
        of.apart,
        of.cpu.0,
        of.cpu.1,
        load()
    );
}

/// Registers all, renews all, and says nothing more. The last removal is seen by a reader of the cell.
async fn cell_loses(region: &Region, round: usize) -> Lost {
    let namespace = format!("bench{round}");
    let tap = tap(region, format!("rollcall/v1/us-east/reg/{namespace}/"), LEASES).await;
    let mut registrants = JoinSet::new();
    for connection in 0..CONNECTIONS {
        let (url, namespace) = (region.cell(), namespace.clone());
        registrants.spawn(async move {
            let mut session = Session::open(&url).await;
            let mine: Vec<usize> = (connection..LEASES).step_by(CONNECTIONS).collect();
            let mut items = Vec::new();
            let mut due = Vec::new();
            for some in mine.chunks(STRIDE) {
                let some: Vec<_> =
                    some.iter().map(|n| small(format!("{namespace}/agent/{n}"), LEASE.as_secs())).collect();
                items.extend(session.register_all(some).await);
                due.clear();
                for some in items.chunks(500) {
                    let asked = Instant::now();
                    assert!(session.renew(some.to_vec()).await == some.len(), "a living lease was lost");
                    due.extend(some.iter().map(|item| (key_of(&item.id).to_owned(), asked + LEASE)));
                }
            }
            due
        });
    }
    let due: HashMap<String, Instant> = registrants.join_all().await.into_iter().flatten().collect();
    let (first, last) = ends(&due, LEASES);
    tokio::time::sleep_until(first.into()).await;
    let before = (region.cell_time(), region.etcd_time());
    let cell = region.regions().cell("us-east");
    let none_left = async {
        loop {
            let regions = cell.get("/v1/regions").await.expect("the cell answers");
            if regions["regions"][0]["count"] == 0 {
                return Instant::now();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let visible = tokio::time::timeout(PATIENCE, none_left).await.expect("all are removed");
    let cpu = ((region.cell_time() - before.0).as_secs_f64(), (region.etcd_time() - before.1).as_secs_f64());
    let gone = tap.await.expect("a tap that ends");
    judge(&due, &gone);
    Lost {
        rate: LEASES as f64 / visible.duration_since(first).as_secs_f64(),
        late: visible.saturating_duration_since(last).as_secs_f64(),
        apart: (last - first).as_secs_f64(),
        cpu,
    }
}

/// Grants all, with a key each, keeps all alive once more, and says nothing more.
async fn etcd_loses(region: &Region, round: usize) -> Lost {
    let tap = tap(region, format!("raw/{round}/"), ETCD_LEASES).await;
    let mut grants = JoinSet::new();
    for caller in 0..CALLERS {
        let url = region.etcd();
        grants.spawn(async move {
            let mut client = Client::connect([url], None).await.expect("etcd answers");
            let mut leases = Vec::new();
            for n in (caller..ETCD_LEASES).step_by(CALLERS) {
                let key = format!("raw/{round}/{n}");
                // A starved etcd gives up now and then; what it granted all the same has no key.
                let lease = loop {
                    match grant(&mut client, &key).await {
                        Ok(lease) => break lease,
                        Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                    }
                };
                leases.push((n.to_string(), lease));
            }
            leases
        });
    }
    let leases = grants.join_all().await.concat();
    let due = keep_alive(&region.etcd(), &leases).await;
    let (first, last) = ends(&due, ETCD_LEASES);
    tokio::time::sleep_until(first.into()).await;
    let before = (region.cell_time(), region.etcd_time());
    let gone = tap.await.expect("a tap that ends");
    let cpu = ((region.cell_time() - before.0).as_secs_f64(), (region.etcd_time() - before.1).as_secs_f64());
    judge(&due, &gone);
    let end = gone.values().max().expect("many leases");
    Lost {
        rate: ETCD_LEASES as f64 / end.duration_since(first).as_secs_f64(),
        late: end.saturating_duration_since(last).as_secs_f64(),
        apart: (last - first).as_secs_f64(),
        cpu,
    }
}

async fn grant(client: &mut Client, key: &str) -> Result<i64, etcd_client::Error> {
    let seconds = i64::try_from(ETCD_LEASE.as_secs()).expect("a short lease");
    let lease = client.lease_grant(seconds, None).await?.id();
    client.put(key, vec![b'x'; 200], Some(PutOptions::new().with_lease(lease))).await?;
    Ok(lease)
}

/// etcd's `LeaseKeepAliveRequest`: its client has a stream for each lease.
#[derive(prost::Message)]
struct KeepAlive {
    #[prost(int64, tag = "1")]
    lease: i64,
}

/// etcd's `LeaseKeepAliveResponse`, as far as it is needed here.
#[derive(prost::Message)]
struct KeptAlive {
    #[prost(int64, tag = "2")]
    lease: i64,
    #[prost(int64, tag = "3")]
    seconds: i64,
}

/// Keeps all of them alive on one stream: when each may lapse.
async fn keep_alive(url: &str, leases: &[(String, i64)]) -> HashMap<String, Instant> {
    let server = Endpoint::from_shared(url.to_owned()).expect("a URL").connect().await.expect("etcd answers");
    let mut grpc = Grpc::new(server);
    grpc.ready().await.expect("etcd answers");
    let asks: Vec<_> = leases.iter().map(|(_, lease)| KeepAlive { lease: *lease }).collect();
    let asked = Instant::now();
    let path = PathAndQuery::from_static("/etcdserverpb.Lease/LeaseKeepAlive");
    let codec = ProstCodec::<KeepAlive, KeptAlive>::default();
    // The stream stays open: etcd ends it with the asking, answered or not.
    let asks = tokio_stream::iter(asks).chain(tokio_stream::pending());
    let answers = grpc.streaming(Request::new(asks), path, codec).await.expect("a stream");
    let mut answers = answers.into_inner();
    for _ in leases {
        let kept = answers.message().await.expect("an answer").expect("the stream goes on");
        assert!(kept.seconds > 0, "lease {} lapsed while others were granted", kept.lease);
    }
    leases.iter().map(|(key, _)| (key.clone(), asked + ETCD_LEASE)).collect()
}

/// The first and the last moment at which one may lapse.
fn ends(due: &HashMap<String, Instant>, leases: usize) -> (Instant, Instant) {
    assert!(due.len() == leases, "{} of {leases} leases", due.len());
    let of = |instant: Option<&Instant>| *instant.expect("many leases");
    (of(due.values().min()), of(due.values().max()))
}

/// The last part of an id or a key.
fn key_of(id: &str) -> &str {
    id.rsplit_once('/').map_or(id, |(_, last)| last)
}

/// Follows the keys under a prefix in etcd itself until so many were removed: when each went.
async fn tap(region: &Region, prefix: String, leases: usize) -> JoinHandle<HashMap<String, Instant>> {
    let mut client = Client::connect([region.etcd()], None).await.expect("etcd answers");
    let options = WatchOptions::new().with_prefix().with_fragment();
    let mut stream = client.watch(prefix, Some(options)).await.expect("a watch");
    tokio::spawn(async move {
        let mut gone = HashMap::new();
        let follow = async {
            while gone.len() < leases {
                let message = stream.message().await.expect("a message").expect("the stream goes on");
                let now = Instant::now();
                for event in message.events().iter().filter(|event| event.event_type() == EventType::Delete) {
                    let key = event.kv().expect("a key").key_str().expect("text").to_owned();
                    gone.insert(key_of(&key).to_owned(), now);
                }
            }
        };
        tokio::time::timeout(PATIENCE, follow).await.expect("all are removed");
        gone
    })
}

/// None went before it might.
fn judge(due: &HashMap<String, Instant>, gone: &HashMap<String, Instant>) {
    for (key, at) in gone {
        let due = due[key];
        assert!(*at >= due, "{key} was removed {:?} early", due - *at);
    }
}
