//! A full snapshot from a cell to a usable client, beside the same records read from etcd in pages; what a client takes
//! in memory; and one change applied to a client that holds them, while others read. Goals: 100,000 in ≤ 0.3 s,
//! 1,000,000 in ≤ 2.5 s and ≥ 10 × faster than the pages; ≤ 300 bytes an instance; ≤ 20 µs a change, readers never wait.
//!
//! The client is a process of its own for each round, with the system's allocator as any user's. The pages of etcd are
//! only received: whoever would use them still had to read the records in them.

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::child;
use crate::fleet::fleet;
use crate::region::Region;
use crate::{cpu_time, load, machine, quantile, resident_mib, spread};
use etcd_client::{Client, GetOptions};
use rollcall_client::{Registry, RegistryOptions};
use rollcall_model::resolve::{Asked, everybody, resolve};
use rollcall_model::{
    CapabilityName, Change, Delta, Epoch, Event, Heard, Incarnation, Load, Owned, Position, Query, Reach,
    Registration, Revision, Snapshot, SnapshotBuilder, State, Timestamp, View,
};
use rollcall_proto::store::decode_registration;
use rollcall_proto::v1::registrar_client::RegistrarClient;
use rollcall_proto::v1::{RegisterRequest, SessionRequest, session_request, session_response};
use rollcall_proto::{Reader, convert};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

const CAPABILITIES: usize = 1_000;
/// Sizes, rounds of each, and the goal in seconds.
const SIZES: [(usize, usize, f64); 2] = [(100_000, 5, 0.3), (1_000_000, 3, 2.5)];
const CONNECTIONS: usize = 4;
const IN_FLIGHT: usize = 256;
/// Pages of etcd's reads: as etcd's own mirror reads a prefix, and the fastest of 1,000, 5,000 and 10,000.
const ETCD_PAGES: [i64; 2] = [1_000, 10_000];
/// Records of a page in memory: near the cell's.
const PAGE: usize = 4_000;
const CHANGES: usize = 20_000;

pub(super) fn run(arguments: &[String]) {
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["client", url, count] => client(url, count.parse().expect("a number")),
        ["etcd", url, count, page] => {
            etcd_client(url, count.parse().expect("a number"), page.parse().expect("a number"))
        }
        ["pages", count, path] => write_pages(count.parse().expect("a number"), path),
        ["memory", count, path] => in_memory(count.parse().expect("a number"), path),
        ["fill", url, from, to] => {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(fill(url, from.parse().expect("a number"), to.parse().expect("a number")));
        }
        sizes => all(sizes),
    }
}

/// Those of these sizes, all without one: `rollcall-bench part-of snapshot 100000`.
fn all(sizes: &[&str]) {
    let asked =
        SIZES.into_iter().filter(|(many, ..)| sizes.is_empty() || sizes.contains(&&*many.to_string()));
    let asked: Vec<_> = asked.collect();
    println!(
        "a full snapshot to a usable client, its memory, and one change applied to it; min / median / max"
    );
    println!("{}", machine());
    for (many, _, _) in &asked {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let path = file.path().to_str().expect("text");
        child("snapshot", &["pages", &many.to_string(), path]);
        print!("{}", child("snapshot", &["memory", &many.to_string(), path]));
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let region = Region::up();
    let mut before = 0;
    for (many, rounds, goal) in asked {
        runtime.block_on(fill(&region.cell(), before, many));
        before = many;
        whole(&region, many, rounds, goal);
    }
}

fn query(word: usize) -> Query {
    let name = CapabilityName::parse(&format!("bench:word_{word}:v1")).expect("a capability");
    Query { capabilities: vec![name], ..Query::default() }
}

// ---- over the wire

fn whole(region: &Region, many: usize, rounds: usize, goal: f64) {
    let (url, etcd, many) = (region.cell(), region.etcd(), many.to_string());
    let told = |arguments: &[&str]| -> Vec<f64> {
        let told = child("snapshot", arguments);
        told.split_whitespace().map(|word| word.parse().expect("a number")).collect()
    };
    let (mut ours, mut of_cell) = (Vec::new(), Vec::new());
    let mut theirs = ETCD_PAGES.map(|_| Vec::new());
    for _ in 0..rounds {
        let cell = region.cell_time();
        ours.push(told(&["client", &url, &many]));
        of_cell.push((region.cell_time() - cell).as_secs_f64());
        for (page, theirs) in ETCD_PAGES.iter().zip(&mut theirs) {
            theirs.push(told(&["etcd", &etcd, &many, &page.to_string()]));
        }
    }
    let column = |of: &[Vec<f64>], at: usize| of.iter().map(|row| row[at]).collect::<Vec<_>>();
    let against = |of: &[Vec<f64>], at: usize| {
        let ratios: Vec<f64> = column(of, at).iter().zip(column(&ours, 0)).map(|(of, us)| of / us).collect();
        spread(&ratios, 1)
    };
    println!("{many} instances over the wire; load {}", load());
    println!("  snapshot to usable, s            {}  (goal {goal})", spread(&column(&ours, 0), 2));
    println!("  processor time, client, s        {}", spread(&column(&ours, 1), 2));
    println!("  processor time, cell, s          {}", spread(&of_cell, 2));
    println!("  client's resident bytes each     {}", spread(&column(&ours, 2), 0));
    for (page, theirs) in ETCD_PAGES.iter().zip(&theirs) {
        println!("  etcd in pages of {page}, to the same view, s   {}", spread(&column(theirs, 0), 2));
        println!("    of it until pages were there, s   {}", spread(&column(theirs, 1), 2));
        println!("    how much faster                   {}  (goal 10)", against(theirs, 0));
        println!("    than pages that nobody reads      {}", against(theirs, 1));
    }
}

/// Connects, waits until everything is there and found, and tells seconds, processor seconds and bytes each.
fn client(url: &str, many: u64) {
    let own = std::process::id();
    let region = rollcall_model::Region::parse("us-east").expect("a region");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let resident = resident_mib(own);
    let started = Instant::now();
    let registry = runtime.block_on(async {
        let registry = Registry::connect(RegistryOptions::new([url], region)).await.expect("options");
        let is_there = |snapshot: &rollcall_client::LocalSnapshot| {
            snapshot.views()[0].state().is_some_and(|state| state.count() == many)
        };
        registry.until(is_there).await;
        registry
    });
    assert!(!registry.resolve(&query(0)).candidates.is_empty(), "nobody found");
    let took = started.elapsed().as_secs_f64();
    let worked = cpu_time(own).as_secs_f64();
    let each = (resident_mib(own) - resident) * 1024.0 * 1024.0 / many as f64;
    println!("{took} {worked} {each}");
}

/// The same straight from etcd: pages at one revision, each read when it is there, to the same view. It tells seconds,
/// seconds that were waiting for pages alone, and processor seconds.
fn etcd_client(url: &str, many: usize, page: i64) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let started = Instant::now();
    let (view, waited) = runtime.block_on(from_etcd(url, page));
    let found = view.state().is_some_and(|state| state.select(&query(0), None).next().is_some());
    assert!(found, "nobody found");
    let took = started.elapsed().as_secs_f64();
    assert_eq!(view.state().map(State::count), Some(many as u64), "registrations in etcd");
    println!("{took} {waited} {}", cpu_time(std::process::id()).as_secs_f64());
}

async fn from_etcd(url: &str, page: i64) -> (View, f64) {
    let mut client = Client::connect([url], None).await.expect("etcd answers").kv_client();
    let (mut from, mut revision) = (b"rollcall/v1/us-east/reg/".to_vec(), 0);
    let (mut state, mut waited) = (State::default(), Duration::ZERO);
    loop {
        let asked = Instant::now();
        let options = GetOptions::new().with_range("rollcall/v1/us-east/reg0").with_limit(page);
        let answer = client.get(from.clone(), Some(options.with_revision(revision))).await.expect("a page");
        waited += asked.elapsed();
        if revision == 0 {
            revision = answer.header().expect("a header").revision();
        }
        for entry in answer.kvs() {
            state.put(Arc::new(stored(entry)));
        }
        let Some(last) = answer.kvs().last().filter(|_| answer.more()) else { break };
        from = last.key().to_vec();
        from.push(0);
    }
    let incarnation = Incarnation::new(1, "bench").expect("an incarnation");
    let position = Position::new(incarnation, Revision(revision.cast_unsigned()));
    let region = rollcall_model::Region::parse("us-east").expect("a region");
    let mut view = View::new(region.clone());
    view.install(Snapshot::of(region, position, state), None, "started", Timestamp(0));
    (view, waited.as_secs_f64())
}

fn stored(entry: &etcd_client::KeyValue) -> Registration {
    let stored = decode_registration(entry.value()).expect("a registration");
    let revision = Revision(entry.mod_revision().cast_unsigned());
    let owned = Owned::of(&stored.declared);
    Registration {
        declared: stored.declared,
        epoch: Epoch::new(stored.ordinal, revision),
        registered_at: stored.registered_at,
        revision,
        owned,
        replaced: stored.replaced,
    }
}

/// Registers those that are missing, through the cell.
async fn fill(url: &str, from: usize, to: usize) {
    let each = (0..CONNECTIONS).map(|connection| {
        let url = url.to_owned();
        tokio::spawn(async move {
            let mut registrar = RegistrarClient::connect(url).await.expect("the cell answers");
            let (asks, asked) = mpsc::channel(IN_FLIGHT);
            let mut all = (from..to).skip(connection).step_by(CONNECTIONS);
            let mut flying = 0;
            for n in all.by_ref().take(IN_FLIGHT) {
                asks.try_send(request(n)).expect("room");
                flying += 1;
            }
            let mut answers =
                registrar.session(ReceiverStream::new(asked)).await.expect("a session").into_inner();
            while flying > 0 {
                let answer = answers.message().await.expect("an answer").expect("an open session").response;
                assert!(matches!(answer, Some(session_response::Response::Register(_))), "{answer:?}");
                flying -= 1;
                if let Some(n) = all.next() {
                    asks.try_send(request(n)).expect("room");
                    flying += 1;
                }
            }
        })
    });
    for one in futures_util::future::join_all(each).await {
        one.expect("a session ends");
    }
}

fn request(n: usize) -> SessionRequest {
    let one = crate::fleet::registration(n, CAPABILITIES);
    let wire = convert::registration::declared(&one.declared);
    let request = RegisterRequest {
        id: wire.id,
        endpoints: wire.endpoints,
        capabilities: wire.capabilities,
        version: wire.version,
        zone: wire.zone,
        metadata: wire.metadata,
        lease_seconds: Some(300),
        ..RegisterRequest::default()
    };
    SessionRequest { call: n as u64, request: Some(session_request::Request::Register(request)) }
}

// ---- in one process, without a wire

/// Writes the pages that a cell would send to a file, each behind its length, with what they claim before them.
fn write_pages(many: usize, path: &str) {
    let mut registrations = fleet(many, CAPABILITIES);
    registrations.sort_by(|one, other| one.declared.id.cmp(&other.declared.id));
    let mut file = BufWriter::new(File::create(path).expect("a file"));
    let mut state = State::default();
    for registration in &registrations {
        state.put(Arc::clone(registration));
    }
    let region = rollcall_model::Region::parse("us-east").expect("a region");
    let position =
        Position::new(Incarnation::new(1, "bench").expect("an incarnation"), Revision(many as u64));
    let head = Snapshot::of(region, position, state).head().clone();
    let pages = registrations.chunks(PAGE).map(|page| Event::Page(page.to_vec()));
    for event in std::iter::once(Event::SnapshotBegin(head)).chain(pages) {
        let bytes = prost::Message::encode_length_delimited_to_vec(&convert::event(&event));
        file.write_all(&bytes).expect("room on the disk");
    }
    file.flush().expect("room on the disk");
}

/// The next page of a file.
fn next_page(file: &mut BufReader<File>, reader: &mut Reader) -> Option<Event> {
    let length = {
        let mut ahead = file.fill_buf().expect("a file");
        if ahead.is_empty() {
            return None;
        }
        let before = ahead.len();
        let length = prost::decode_length_delimiter(&mut ahead).expect("a length");
        let read = before - ahead.len();
        file.consume(read);
        length
    };
    let mut bytes = vec![0; length];
    file.read_exact(&mut bytes).expect("a whole page");
    Some(reader.event(&bytes).expect("an event"))
}

/// Pages to a usable view.
fn taken(path: &str) -> View {
    let mut file = BufReader::with_capacity(1 << 20, File::open(path).expect("a file"));
    let mut reader = Reader::default();
    let Some(Event::SnapshotBegin(head)) = next_page(&mut file, &mut reader) else { panic!("no head") };
    let mut view = View::new(head.region.clone());
    let mut builder = SnapshotBuilder::begin(head);
    while let Some(event) = next_page(&mut file, &mut reader) {
        let Event::Page(records) = event else { panic!("no page") };
        builder.add(records);
    }
    let heard = Heard { at: rollcall_model::Instant::default(), age: Duration::ZERO };
    view.install(builder.finish().expect("verified"), Some(heard), "started", Timestamp(0));
    view
}

fn in_memory(many: usize, path: &str) {
    let own = std::process::id();
    let (resident, worked, started) = (resident_mib(own), cpu_time(own), Instant::now());
    let view = taken(path);
    let (took, worked) = (started.elapsed().as_secs_f64(), (cpu_time(own) - worked).as_secs_f64());
    let each = (resident_mib(own) - resident) * 1024.0 * 1024.0 / many as f64;
    println!("{many} instances in one process; load {}", load());
    println!("  pages to usable, s               {took:.2}, of the processor {worked:.2}");
    println!("  resident bytes each              {each:.0}  (goal 300)");
    changes(view);
}

/// One change after the other, each shown to a reader who resolves all the time.
fn changes(mut view: View) {
    let shown = Arc::new(arc_swap::ArcSwap::from_pointee(view.clone()));
    let registrations: Vec<Arc<Registration>> =
        view.state().expect("loaded").iter().step_by(37).take(CHANGES).cloned().collect();
    let is_over = AtomicBool::new(false);
    let (applied, reads) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| reads(&shown, &is_over));
        let mut applied = Vec::with_capacity(CHANGES);
        for registration in registrations {
            let delta = Arc::new(delta(&view, &registration));
            let started = Instant::now();
            view.apply(&delta);
            shown.store(Arc::new(view.clone()));
            applied.push(started.elapsed().as_secs_f64() * 1e6);
        }
        is_over.store(true, Ordering::Relaxed);
        (applied, reader.join().expect("a reader"))
    });
    for (what, mut took) in
        [("one change applied and shown, µs ", applied), ("a resolve meanwhile, µs          ", reads)]
    {
        took.sort_by(f64::total_cmp);
        let of = |share| quantile(&took, share);
        println!(
            "  {what}p50 {:.2}, p99 {:.2}, p99.9 {:.2}, max {:.0}",
            of(0.5),
            of(0.99),
            of(0.999),
            of(1.0)
        );
    }
}

fn reads(shown: &arc_swap::ArcSwap<View>, is_over: &AtomicBool) -> Vec<f64> {
    let (reach, mut took, mut word) = (Reach::default(), Vec::new(), 0);
    let queries: Vec<Query> = (0..CAPABILITIES).map(query).collect();
    while !is_over.load(Ordering::Relaxed) {
        word = (word + 7) % CAPABILITIES;
        let started = Instant::now();
        let view = shown.load();
        let views = [&**view];
        let age_max = Duration::from_secs(3600);
        let asked = Asked { views: &views, query: &queries[word], reach: &reach, age_max };
        let found = resolve(asked, rollcall_model::Instant::default(), everybody).next().is_some();
        took.push(started.elapsed().as_secs_f64() * 1e6);
        assert!(found, "nobody found");
    }
    took
}

/// The load of an instance changed: what comes most often.
fn delta(view: &View, registration: &Registration) -> Delta {
    let from = view.position().expect("loaded").clone();
    let revision = Revision(from.revision.0 + 1);
    let mut changed = registration.clone();
    changed.revision = revision;
    changed.owned.load = Load { queue_depth: 1, in_flight: 2, error_rate: 0.0 }.into();
    let to = Position::new(from.incarnation.clone(), revision);
    Delta { region: view.region().clone(), from, to, changes: vec![Change::Put(Arc::new(changed))] }
}
