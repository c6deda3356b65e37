//! Those who watch, and the threads that read for them: what each was told, and when.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::fields::fields;
use crate::quantile;
use crate::receiver::Receiver;
use crate::region::Region;
use prost::Message as _;
use rollcall_proto::v1::WatchRequest;

use super::writers::{Acknowledged, PREFIX};
use super::{CHANGES, CONNECTIONS, Measured};

/// Longest wait for the last watcher.
const DRAIN: Duration = Duration::from_secs(60);

/// Who tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// A cell, a stream for each watcher.
    Cell,
    /// etcd, a stream for each watcher.
    Etcd,
    /// etcd, the watchers of a connection on one stream, as its own client does.
    EtcdShared,
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

/// Watchers, and the threads that read for them.
pub(crate) struct Watching {
    readers: Vec<JoinHandle<(Vec<Told>, usize)>>,
    ends: Vec<Box<dyn FnOnce()>>,
    delivered: Arc<AtomicUsize>,
}

impl Watching {
    /// Opens them and waits until all of them follow.
    pub(crate) async fn open(region: &Region, by: By, watchers: usize) -> Self {
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
    pub(crate) async fn told(&self, deliveries: usize) {
        let deadline = Instant::now() + DRAIN;
        while self.delivered.load(Ordering::Relaxed) < deliveries {
            assert!(Instant::now() < deadline, "{:?} of {deliveries} deliveries came", self.delivered);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Ends them; what they were told, beside what was written.
    pub(crate) fn close(self, mut changes: Vec<Acknowledged>) -> Measured {
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
