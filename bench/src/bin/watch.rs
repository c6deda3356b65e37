//! Fan-out: a thousand changes a second told to many watchers by a cell, beside etcd's own watch of the same changes.
//!
//! The two take turns on one etcd. Changes are updates of registrations over sessions, or puts of values as long as
//! those. A change is timed when its writer has its acknowledgement, and for each watcher when the message came that
//! reaches its revision. Deliveries are changes times watchers, counted from what came. The reader is no full client: it
//! reads revisions and counts changes in the bytes ([`rollcall_bench::receiver`]). Goals: p99 with 100 watchers ≤ 2 ×
//! etcd's and ≤ 25 ms; with 1,000 deliveries per CPU-second ≥ 5 × etcd's, at a p99 ≤ 50 ms.
#![allow(
    clippy::cast_precision_loss,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench fails by panicking and prints"
)]

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use etcd_client::{Client, GetOptions};
use prost::Message as _;
use rollcall_bench::fields::fields;
use rollcall_bench::receiver::Receiver;
use rollcall_bench::region::Region;
use rollcall_bench::{cpu_time, load, machine, quantile, spread};
use rollcall_proto::v1::registrar_client::RegistrarClient;
use rollcall_proto::v1::renew_request::Item;
use rollcall_proto::v1::renew_response::Result as Kept;
use rollcall_proto::v1::renew_response::result::Outcome;
use rollcall_proto::v1::session_request::Request;
use rollcall_proto::v1::session_response::Response;
use rollcall_proto::v1::{
    Capability, Endpoint, RegisterRequest, RenewRequest, SessionRequest, SessionResponse, UpdateRequest,
    WatchRequest,
};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::MissedTickBehavior;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

const ROUNDS: usize = 3;
const WATCHERS: [usize; 2] = [100, 1_000];
/// Connections that the watchers share.
const CONNECTIONS: usize = 4;
const PER_SECOND: usize = 1_000;
const CHANGES: usize = 4 * PER_SECOND;
/// Longest time that is written for.
const WRITING: Duration = Duration::from_secs(6);
/// Calls of the writer under way; then it waits.
const CALLS: usize = 256;
/// Registrations that are changed in turn.
const AGENTS: usize = 256;
/// Longest wait for the last watcher.
const DRAIN: Duration = Duration::from_secs(60);
const PREFIX: &str = "raw/watched/";

/// Who tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// A cell, a stream for each watcher.
    Cell,
    /// etcd, a stream for each watcher.
    Etcd,
    /// etcd, the watchers of a connection on one stream, as its own client does.
    EtcdShared,
}

/// A change: its revision, and when it was asked for and acknowledged.
struct Acknowledged {
    revision: u64,
    asked: Instant,
    acknowledged: Instant,
}

/// What one watcher was told: when, and up to which revision.
type Told = Vec<(Instant, u64)>;

/// etcd's `WatchRequest`, as far as it is needed here.
#[derive(prost::Message)]
struct EtcdWatch {
    #[prost(message, optional, tag = "1")]
    create: Option<EtcdCreate>,
}

#[derive(prost::Message)]
struct EtcdCreate {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    range_end: String,
}

/// What one measurement gave.
struct Measured {
    /// From acknowledged to told, p50 and p99 in milliseconds.
    waits: (f64, f64),
    /// The same from when it was asked for.
    whole: (f64, f64),
    changes_per_second: f64,
    deliveries: f64,
    messages: f64,
    bytes: f64,
    seconds: f64,
    /// Processor seconds of the cell, of etcd, and of this process.
    cell: f64,
    etcd: f64,
    own: f64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    println!(
        "{PER_SECOND} changes/s told to {WATCHERS:?} watchers on {CONNECTIONS} connections, {CHANGES} changes a measurement; p50 / p99"
    );
    println!("changes and revisions are counted in the bytes by a plain reader, alike for both");
    println!("{}", machine());
    let region = Region::up();
    let mut cell = CellWriter::open(&region.cell()).await;
    let mut etcd = EtcdWriter::open(&region.etcd(), cell.size_in(&region.etcd()).await).await;
    let all = [By::Cell, By::Etcd, By::EtcdShared];
    let mut rounds: Vec<Vec<Measured>> = Vec::new();
    for round in 0..=ROUNDS {
        let mut row = Vec::new();
        for watchers in WATCHERS {
            for by in all {
                let watching = Watching::open(&region, by, watchers).await;
                let before = (region.cell_time(), region.etcd_time(), cpu_time(std::process::id()));
                let began = Instant::now();
                let changes = match by {
                    By::Cell => cell.write().await,
                    By::Etcd | By::EtcdShared => etcd.write().await,
                };
                let wrote = began.elapsed().as_secs_f64();
                watching.told(watchers * changes.len()).await;
                let since = |now: Duration, then: Duration| (now - then).as_secs_f64();
                let measured = Measured {
                    seconds: began.elapsed().as_secs_f64(),
                    cell: since(region.cell_time(), before.0),
                    etcd: since(region.etcd_time(), before.1),
                    own: since(cpu_time(std::process::id()), before.2),
                    changes_per_second: changes.len() as f64 / wrote,
                    ..watching.close(changes)
                };
                if round > 0 {
                    print(round, watchers, by, &measured);
                    row.push(measured);
                }
            }
        }
        if round > 0 {
            rounds.push(row); // the first round warms all of them up
        }
    }
    summary(&rounds);
}

fn print(round: usize, watchers: usize, by: By, of: &Measured) {
    println!(
        "round {round}: {watchers} watchers of {by:?}: acknowledged → told {:.1} / {:.1} ms, asked → told {:.1} / {:.1} ms at {:.0} changes/s; {:.0} deliveries in {:.1} s: {:.0} messages, {:.0} MB; CPU s: cell {:.2}, etcd {:.2}, here {:.2}; load {}",
        of.waits.0,
        of.waits.1,
        of.whole.0,
        of.whole.1,
        of.changes_per_second,
        of.deliveries,
        of.seconds,
        of.messages,
        of.bytes / 1e6,
        of.cell,
        of.etcd,
        of.own,
        load()
    );
}

fn summary(rounds: &[Vec<Measured>]) {
    // In the order in which a round measures them.
    let of = |at: usize, what: &dyn Fn(&Measured) -> f64| -> Vec<f64> {
        rounds.iter().map(|row| what(&row[at])).collect()
    };
    let ratio = |ours: &[f64], theirs: &[f64]| -> Vec<f64> {
        ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect()
    };
    let better = |one: &[f64], other: &[f64], pick: fn(f64, f64) -> f64| -> Vec<f64> {
        one.iter().zip(other).map(|(one, other)| pick(*one, *other)).collect()
    };
    for (at, watchers) in WATCHERS.into_iter().enumerate() {
        let (ours, streams, shared) = (at * 3, at * 3 + 1, at * 3 + 2);
        let goal = if watchers == 100 {
            "p99 ≤ 25 ms and ≤ 2 × etcd"
        } else {
            "p99 ≤ 50 ms, 5 × etcd per CPU-second"
        };
        println!("{watchers} watchers, min / median / max (goal: {goal})");
        for (name, wait) in [
            ("p50 acknowledged → told", &(|m: &Measured| m.waits.0) as &dyn Fn(&Measured) -> f64),
            ("p99 acknowledged → told", &|m: &Measured| m.waits.1),
            ("p99 asked → told", &|m: &Measured| m.whole.1),
        ] {
            let (a, b, c) = (of(ours, wait), of(streams, wait), of(shared, wait));
            println!("  {name}, ms: cell {}", spread(&a, 1));
            println!("    etcd, a stream each     {}", spread(&b, 1));
            println!("    etcd, shared streams    {}", spread(&c, 1));
            if name.starts_with("p99") {
                let to = ratio(&a, &better(&b, &c, f64::min));
                println!("    cell to the better      {}", spread(&to, 2));
            }
        }
        let a = of(ours, &|m| m.deliveries / m.cell);
        let whole = of(ours, &|m| m.deliveries / (m.cell + m.etcd));
        let b = of(streams, &|m| m.deliveries / m.etcd);
        let c = of(shared, &|m| m.deliveries / m.etcd);
        let best = better(&b, &c, f64::max);
        println!("  deliveries per CPU-second: cell {}", spread(&a, 0));
        println!("    cell and its etcd       {}", spread(&whole, 0));
        println!("    etcd, a stream each     {}", spread(&b, 0));
        println!("    etcd, shared streams    {}", spread(&c, 0));
        println!("    cell to the better      {}", spread(&ratio(&a, &best), 1));
        println!("    cell and its etcd to it {}", spread(&ratio(&whole, &best), 1));
    }
}

/// Watchers, and the threads that read for them.
struct Watching {
    readers: Vec<JoinHandle<(Vec<Told>, usize)>>,
    ends: Vec<Box<dyn FnOnce()>>,
    delivered: Arc<AtomicUsize>,
}

impl Watching {
    /// Opens them and waits until all of them follow.
    async fn open(region: &Region, by: By, watchers: usize) -> Self {
        let (url, path, ask) = match by {
            By::Cell => {
                (region.cell(), "/rollcall.v1.Discovery/Watch", WatchRequest::default().encode_to_vec())
            }
            By::Etcd | By::EtcdShared => {
                let (key, range_end) = (PREFIX.to_owned(), "raw/watched0".to_owned());
                let ask = EtcdWatch { create: Some(EtcdCreate { key, range_end }) };
                (region.etcd(), "/etcdserverpb.Watch/Watch", ask.encode_to_vec())
            }
        };
        let each = watchers / CONNECTIONS;
        let asks = match by {
            By::Cell | By::Etcd => vec![vec![ask]; each],
            By::EtcdShared => vec![vec![ask; each]],
        };
        let (delivered, following) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
        let (mut readers, mut ends) = (Vec::new(), Vec::<Box<dyn FnOnce()>>::new());
        for _ in 0..CONNECTIONS {
            let receiver = Receiver::open(url.trim_start_matches("http://"), path, &asks, by == By::Cell);
            ends.push(Box::new(receiver.end()));
            let (delivered, following) = (Arc::clone(&delivered), Arc::clone(&following));
            readers.push(std::thread::spawn(move || read(receiver, by, each, &delivered, &following)));
        }
        let deadline = Instant::now() + DRAIN;
        while following.load(Ordering::Relaxed) < watchers as u64 {
            assert!(Instant::now() < deadline, "only {following:?} of {watchers} follow");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Self { readers, ends, delivered }
    }

    /// Waits until so many deliveries came.
    async fn told(&self, deliveries: usize) {
        let deadline = Instant::now() + DRAIN;
        while self.delivered.load(Ordering::Relaxed) < deliveries {
            assert!(Instant::now() < deadline, "{:?} of {deliveries} deliveries came", self.delivered);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Ends them; what they were told, beside what was written.
    fn close(self, mut changes: Vec<Acknowledged>) -> Measured {
        self.ends.into_iter().for_each(|end| end());
        changes.sort_unstable_by_key(|change| change.revision);
        let delivered = self.delivered.load(Ordering::Relaxed);
        let (mut waits, mut whole) = (Vec::with_capacity(delivered), Vec::with_capacity(delivered));
        let (mut messages, mut bytes) = (0, 0);
        for reader in self.readers {
            let (watchers, read) = reader.join().expect("a reader that ends");
            bytes += read;
            for told in watchers {
                messages += told.len();
                let mut next = changes.iter().peekable();
                for (at, revision) in told {
                    while let Some(change) = next.next_if(|change| change.revision <= revision) {
                        let since = |then| at.saturating_duration_since(then).as_secs_f64() * 1e3;
                        waits.push(since(change.acknowledged));
                        whole.push(since(change.asked));
                    }
                }
                assert!(next.next().is_none(), "a watcher was not told of a change");
            }
        }
        assert!(waits.len() == delivered, "{delivered} deliveries came, of {} changes told", waits.len());
        let of = |waits: &mut Vec<f64>| {
            waits.sort_unstable_by(f64::total_cmp);
            (quantile(waits, 0.5), quantile(waits, 0.99))
        };
        Measured {
            waits: of(&mut waits),
            whole: of(&mut whole),
            deliveries: delivered as f64,
            messages: messages as f64,
            bytes: bytes as f64,
            changes_per_second: 0.0,
            seconds: 0.0,
            cell: 0.0,
            etcd: 0.0,
            own: 0.0,
        }
    }
}

/// Reads one connection to its end: what each watcher was told, and how many bytes came.
fn read(
    mut receiver: Receiver,
    by: By,
    watchers: usize,
    delivered: &AtomicUsize,
    following: &AtomicU64,
) -> (Vec<Told>, usize) {
    let mut told: Vec<Told> = vec![Vec::with_capacity(CHANGES); watchers];
    let mut bytes = 0;
    loop {
        let mut changes = 0;
        let read = receiver.read(|now, stream, message| {
            let said = if by == By::Cell { of_cell(message) } else { of_etcd(message) };
            if said.follows {
                following.fetch_add(1, Ordering::Relaxed);
            }
            if said.changes > 0 {
                changes += said.changes;
                told[stream + said.watch].push((now, said.revision));
            }
        });
        if read == 0 {
            return (told, bytes);
        }
        bytes += read;
        delivered.fetch_add(changes, Ordering::Relaxed);
    }
}

/// What a message says.
#[derive(Default)]
struct Heard {
    follows: bool,
    changes: usize,
    revision: u64,
    watch: usize,
}

/// A `WatchResponse` of ours.
fn of_cell(message: &[u8]) -> Heard {
    let mut heard = Heard::default();
    for (tag, event) in fields(message) {
        match tag {
            3 => heard.follows = true, // the end of the snapshot
            4 => {
                for (tag, part) in event.fields() {
                    match tag {
                        3 => {
                            let revision = part.fields().find(|(tag, _)| *tag == 2);
                            heard.revision = revision.map_or(0, |(_, revision)| revision.number());
                        }
                        4 => heard.changes += 1,
                        _ => {}
                    }
                }
            }
            6 => panic!("a watcher was cut off"),
            _ => {}
        }
    }
    heard
}

/// A `WatchResponse` of etcd's.
fn of_etcd(message: &[u8]) -> Heard {
    let mut heard = Heard::default();
    let mut last = None;
    for (tag, part) in fields(message) {
        match tag {
            2 => heard.watch = usize::try_from(part.number()).expect("a number of a watch"),
            3 => heard.follows = part.number() == 1, // created
            4 | 5 => panic!("a watch was cancelled"),
            11 => {
                heard.changes += 1;
                last = Some(part);
            }
            _ => {}
        }
    }
    let entry = last.and_then(|event| event.fields().find(|(tag, _)| *tag == 2));
    let revision = entry.and_then(|(_, entry)| entry.fields().find(|(tag, _)| *tag == 3));
    heard.revision = revision.map_or(0, |(_, revision)| revision.number());
    heard
}

/// When changes are due: so many a second, until there are [`CHANGES`] or the time for them is over, which is when the
/// server does not take as many.
struct Due {
    tick: tokio::time::Interval,
    began: Instant,
    next: usize,
}

impl Due {
    fn now() -> Self {
        let each = Duration::from_secs(1) / u32::try_from(PER_SECOND).expect("a few thousand");
        let mut tick = tokio::time::interval(each);
        tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
        Self { tick, began: Instant::now(), next: 0 }
    }

    /// Waits for the next change; gives its number.
    async fn next(&mut self) -> usize {
        self.tick.tick().await;
        self.next += 1;
        self.next - 1
    }

    fn is_over(&self) -> bool {
        self.next == CHANGES || (self.next > 0 && self.began.elapsed() > WRITING)
    }
}

/// Changes registrations over a session.
struct CellWriter {
    asks: mpsc::Sender<SessionRequest>,
    answers: Streaming<SessionResponse>,
    agents: Vec<(String, u64)>,
    written: usize,
}

impl CellWriter {
    async fn open(url: &str) -> Self {
        let mut registrar = RegistrarClient::connect(url.to_owned()).await.expect("the cell answers");
        let (asks, asked) = mpsc::channel(1);
        let mut answers =
            registrar.session(ReceiverStream::new(asked)).await.expect("a session").into_inner();
        let mut agents = Vec::new();
        for call in 0..AGENTS as u64 {
            let register = RegisterRequest {
                id: format!("bench/agent/{call:03}"),
                endpoints: vec![Endpoint { url: "http://10.0.0.1:8080/".into(), protocol: None }],
                capabilities: vec![Capability { name: "bench:watch:v1".into(), ..Capability::default() }],
                metadata: [("load".to_owned(), format!("{:06}", 0))].into(),
                zone: Some("a".into()),
                lease_seconds: Some(300),
                ..RegisterRequest::default()
            };
            let request = Some(Request::Register(register));
            asks.send(SessionRequest { call, request }).await.expect("the session is open");
            let answer = answers.message().await.expect("an answer").expect("the stream goes on");
            let Some(Response::Register(registered)) = answer.response else { panic!("{answer:?}") };
            agents.push((registered.id, registered.epoch));
        }
        Self { asks, answers, agents, written: 0 }
    }

    /// Bytes of key and value of a registration in the store.
    async fn size_in(&self, etcd: &str) -> (usize, usize) {
        let mut client = Client::connect([etcd], None).await.expect("etcd answers");
        let all = client.get("rollcall/", Some(GetOptions::new().with_prefix())).await.expect("etcd answers");
        let ours = all.kvs().iter().find(|one| one.key().ends_with(self.agents[0].0.as_bytes()));
        ours.map(|one| (one.key().len(), one.value().len())).expect("a registration in the store")
    }

    /// Keeps the leases, which are shorter than all of the measurements.
    async fn renew(&mut self) {
        let item = |(id, epoch): &(String, u64)| Item { id: id.clone(), epoch: *epoch, ..Item::default() };
        let items = self.agents.iter().map(item).collect();
        let request = Some(Request::Renew(RenewRequest { items }));
        self.asks.send(SessionRequest { call: 0, request }).await.expect("the session is open");
        let answer = self.answers.message().await.expect("an answer").expect("the stream goes on");
        let Some(Response::Renew(renewed)) = answer.response else { panic!("{answer:?}") };
        let is_kept = |one: &Kept| matches!(one.outcome, Some(Outcome::Renewed(_)));
        assert!(renewed.results.iter().all(is_kept), "a lease was lost: {renewed:?}");
    }

    async fn write(&mut self) -> Vec<Acknowledged> {
        self.renew().await;
        let Self { asks, answers, agents, written } = self;
        let (asked, all) = (RefCell::new(Vec::with_capacity(CHANGES)), Cell::new(usize::MAX));
        let write = async {
            let mut due = Due::now();
            while !due.is_over() {
                let change = due.next().await;
                let (id, epoch) = agents[change % AGENTS].clone();
                *written += 1;
                let metadata_set = [("load".to_owned(), format!("{written:06}"))].into();
                let update = UpdateRequest { id, epoch, metadata_set, ..UpdateRequest::default() };
                let ask = SessionRequest { call: change as u64, request: Some(Request::Update(update)) };
                let room = asks.reserve().await.expect("the session is open");
                asked.borrow_mut().push(Instant::now());
                room.send(ask);
            }
            all.set(due.next);
        };
        let mut answered = Vec::with_capacity(CHANGES);
        let read = async {
            while answered.len() < all.get() {
                let answer = answers.message().await.expect("an answer").expect("the stream goes on");
                let acknowledged = Instant::now();
                let Some(Response::Update(updated)) = answer.response else { panic!("{answer:?}") };
                let revision = updated.registration.expect("a registration").revision;
                answered.push((answer.call, revision, acknowledged));
            }
        };
        futures_util::future::join(write, read).await;
        let asked = asked.into_inner();
        let change = |(call, revision, acknowledged): (u64, u64, Instant)| Acknowledged {
            revision,
            acknowledged,
            asked: asked[usize::try_from(call).expect("a number of ours")],
        };
        answered.into_iter().map(change).collect()
    }
}

/// Puts values into etcd.
struct EtcdWriter {
    client: Client,
    key: usize,
    value: usize,
    written: usize,
}

impl EtcdWriter {
    async fn open(url: &str, (key, value): (usize, usize)) -> Self {
        println!("a registration in the store: key of {key} bytes, value of {value}; the puts are as long");
        Self { client: Client::connect([url], None).await.expect("etcd answers"), key, value, written: 0 }
    }

    async fn write(&mut self) -> Vec<Acknowledged> {
        let Self { client, key, value, written } = self;
        let mut puts = tokio::task::JoinSet::new();
        let calls = Arc::new(Semaphore::new(CALLS));
        let mut due = Due::now();
        while !due.is_over() {
            let change = due.next().await;
            let call = Arc::clone(&calls).acquire_owned().await.expect("it stays open");
            let digits = *key - PREFIX.len();
            let key = format!("{PREFIX}{:0digits$}", change % AGENTS);
            *written += 1;
            let value = format!("{written:0length$}", length = *value);
            let mut client = client.clone();
            puts.spawn(async move {
                let asked = Instant::now();
                let answer = client.put(key, value, None).await.expect("etcd takes it");
                let acknowledged = Instant::now();
                drop(call);
                let revision =
                    u64::try_from(answer.header().expect("a header").revision()).expect("a revision");
                Acknowledged { revision, asked, acknowledged }
            });
        }
        puts.join_all().await
    }
}
