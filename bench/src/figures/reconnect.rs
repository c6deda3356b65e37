//! 5,000 watchers cut off at once that come back from where they were: how long until all are current.
//!
//! Each has a connection of its own. While they are away there are changes, so that each is owed a delta. They come back
//! all together, and the last one to be told of the last change ends the measurement. None may be given a snapshot, as the
//! history covers what they missed. Goal: all current ≤ 5 s.

use std::sync::mpsc;
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::fields::{Field, fields};
use crate::receiver::Receiver;
use crate::region::Region;
use crate::session::{Session, small};
use crate::{load, machine, quantile, resident_mib, spread};
use prost::Message as _;
use rollcall_model::Epoch;
use rollcall_proto::v1::watch_response::Event;
use rollcall_proto::v1::{Position, WatchRequest, WatchResponse};

const ROUNDS: usize = 5;
const WATCHERS: usize = 5_000;
const REGISTERED: usize = 10_000;
/// Changes while they are away.
const MISSED: usize = 100;
/// Threads that connect and read for them: a thread for each would take turns with the cell's two.
const THREADS: usize = 2;
/// Longest wait for one of them.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) async fn run() {
    println!(
        "{WATCHERS} watchers of {REGISTERED} registrations reconnect at once, {MISSED} changes behind, each on a connection of its own"
    );
    println!("{}", machine());
    let region = Region::up();
    let mut session = Session::open(&region.cell()).await;
    session.register_all((0..REGISTERED).map(|n| small(format!("bench/agent/{n}"), 300))).await;
    let authority = region.cell().trim_start_matches("http://").to_owned();
    let mut at = first(&authority);
    let mut watching = Vec::new();
    let (mut whole, mut waits_p50) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        watching.into_iter().for_each(|told: Told| (told.cut_off)());
        let again = (0..MISSED).map(|n| small(format!("bench/agent/{}", n * 7), 300));
        let items = session.register_all(again).await;
        let reached = items.iter().map(|item| revision(item.epoch)).max().expect("some");
        let before = region.cell_time();
        let began = Instant::now();
        let told = tokio::task::block_in_place(|| all(&authority, &at, reached));
        let took = began.elapsed().as_secs_f64();
        let cpu = (region.cell_time() - before).as_secs_f64();
        let snapshots: usize = told.iter().map(|told| told.snapshots).sum();
        assert!(snapshots == 0, "{snapshots} watchers were given a snapshot");
        let mut waits: Vec<f64> = told.iter().map(|told| told.after.as_secs_f64()).collect();
        waits.sort_by(f64::total_cmp);
        let bytes: usize = told.iter().map(|told| told.bytes).sum();
        let memory = resident_mib(region.cell_pid());
        at.revision = reached;
        watching = told;
        if round == 0 {
            continue; // the first round opens what the next one cuts off
        }
        println!(
            "round {round}: all current after {took:.2} s (from connecting to current p50 {:.3} s, p99 {:.3} s), 0 snapshots, {:.0} MB told; CPU s of the cell {cpu:.2}, {memory:.0} MiB; load {}",
            quantile(&waits, 0.5),
            quantile(&waits, 0.99),
            bytes as f64 / 1e6,
            load()
        );
        whole.push(took);
        waits_p50.push(quantile(&waits, 0.5));
    }
    // Before the cell goes, which would send them away.
    watching.into_iter().for_each(|told| (told.cut_off)());
    println!("min / median / max");
    println!("  all current, s          {}  (goal 5)", spread(&whole, 2));
    println!("  one of them, p50, s     {}", spread(&waits_p50, 3));
}

/// The revision at which a registration with this epoch was written.
fn revision(epoch: u64) -> u64 {
    Epoch::from_wire(epoch).expect("an epoch").revision().0
}

/// What a watcher was told until it was current; it goes on reading.
struct Told {
    /// Since it began to connect.
    after: Duration,
    snapshots: usize,
    bytes: usize,
    cut_off: Box<dyn FnOnce() + Send>,
}

fn open(authority: &str, since: Option<Position>) -> Receiver {
    let ask = WatchRequest { since, ..WatchRequest::default() }.encode_to_vec();
    Receiver::open(authority, "/rollcall.v1.Discovery/Watch", &[vec![ask]], true)
}

/// Where a watcher is that has just been given all there is.
fn first(authority: &str) -> Position {
    let mut receiver = open(authority, None);
    let mut at = None;
    while at.is_none() {
        let read = receiver.read(|_, _, message| {
            if let Some(Event::SnapshotEnd(end)) = WatchResponse::decode(message).expect("a message").event {
                at = end.position;
            }
        });
        assert!(read > 0, "the watch ended");
    }
    at.expect("a position")
}

/// All of them come back and read until they were told of this revision; they go on reading, which answers pings.
fn all(authority: &str, since: &Position, reached: u64) -> Vec<Told> {
    let (told, all) = mpsc::sync_channel(WATCHERS);
    for _ in 0..THREADS {
        let (authority, since, told) = (authority.to_owned(), since.clone(), told.clone());
        std::thread::spawn(move || follow(&authority, &since, reached, &told));
    }
    let told = (0..WATCHERS).map(|_| all.recv_timeout(PATIENCE));
    told.collect::<Result<_, _>>().expect("all become current")
}

/// One of them.
struct Watcher {
    receiver: Receiver,
    began: Instant,
    snapshots: usize,
    bytes: usize,
    at: u64,
    is_current: bool,
}

/// Connects a thread's share of them and reads whatever comes for any, until all are cut off.
fn follow(authority: &str, since: &Position, reached: u64, told: &mpsc::SyncSender<Told>) {
    let (mut watchers, mut opened) = (Vec::new(), 0);
    while opened < WATCHERS / THREADS || !watchers.is_empty() {
        if opened < WATCHERS / THREADS {
            let began = Instant::now();
            let receiver = open(authority, Some(since.clone()));
            receiver.wait_no_more();
            watchers.push(Watcher { receiver, began, snapshots: 0, bytes: 0, at: 0, is_current: false });
            opened += 1;
            // A look at all the others now and then is enough while there are more to open.
            if opened % 100 != 0 {
                continue;
            }
        }
        watchers.retain_mut(|watcher| watcher.look(reached, told));
        std::thread::sleep(Duration::from_millis(2));
    }
}

impl Watcher {
    /// Takes what has come; `false` once it is cut off.
    fn look(&mut self, reached: u64, told: &mpsc::SyncSender<Told>) -> bool {
        let Self { receiver, snapshots, at, .. } = self;
        let mut now = self.began;
        let read = receiver.poll(|came, _, message| {
            now = came;
            // Read in place: five thousand full clients would leave no processor to those who are measured.
            for (tag, event) in fields(message) {
                match tag {
                    1 => *snapshots += 1,
                    4 => *at = revision_of(event),
                    6 => panic!("a watcher was sent away"),
                    _ => {}
                }
            }
        });
        match read {
            Poll::Pending => return true,
            Poll::Ready(0) => {
                assert!(self.is_current, "a watcher was cut off");
                return false;
            }
            Poll::Ready(read) => self.bytes += read,
        }
        if !self.is_current && self.at >= reached {
            self.is_current = true;
            let (after, cut_off) = (now - self.began, Box::new(self.receiver.end()));
            let (snapshots, bytes) = (self.snapshots, self.bytes);
            let _ = told.send(Told { after, snapshots, bytes, cut_off });
        }
        true
    }
}

/// The revision that a delta reaches.
fn revision_of(delta: Field<'_>) -> u64 {
    let to = delta.fields().find(|(tag, _)| *tag == 3).map(|(_, to)| to);
    let revision = to.and_then(|to| to.fields().find(|(tag, _)| *tag == 2));
    revision.map_or(0, |(_, revision)| revision.number())
}
