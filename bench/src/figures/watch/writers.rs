//! Those who change what is watched, at a steady rate: registrations over a session, or values in etcd.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::session::{Session, small};
use etcd_client::{Client, GetOptions};
use rollcall_proto::v1::renew_request::Item;
use rollcall_proto::v1::session_request::Request;
use rollcall_proto::v1::session_response::Response;
use rollcall_proto::v1::{RegisterRequest, UpdateRequest};
use tokio::sync::Semaphore;
use tokio::time::MissedTickBehavior;

use super::{CHANGES, PER_SECOND};

/// Longest time that is written for.
const WRITING: Duration = Duration::from_secs(6);
/// Calls under way; then the writer waits.
const CALLS: usize = 256;
/// Registrations that are changed in turn.
const AGENTS: usize = 256;
/// Where the values are in etcd.
pub(crate) const PREFIX: &str = "raw/watched/";

/// A change: its revision, and when it was asked for and acknowledged.
pub(crate) struct Acknowledged {
    pub(crate) revision: u64,
    pub(crate) asked: Instant,
    pub(crate) acknowledged: Instant,
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
pub(crate) struct CellWriter {
    session: Session,
    agents: Vec<Item>,
    written: usize,
}

impl CellWriter {
    pub(crate) async fn open(url: &str) -> Self {
        let mut session = Session::open(url).await;
        let register = |n| RegisterRequest {
            metadata: [("load".to_owned(), format!("{:06}", 0))].into(),
            ..small(format!("bench/agent/{n:03}"), 300)
        };
        let agents = session.register_all((0..AGENTS).map(register)).await;
        Self { session, agents, written: 0 }
    }

    /// Bytes of key and value of a registration in the store.
    pub(crate) async fn size_in(&self, etcd: &str) -> (usize, usize) {
        let mut client = Client::connect([etcd], None).await.expect("etcd answers");
        let all = client.get("rollcall/", Some(GetOptions::new().with_prefix())).await.expect("etcd answers");
        let ours = all.kvs().iter().find(|one| one.key().ends_with(self.agents[0].id.as_bytes()));
        ours.map(|one| (one.key().len(), one.value().len())).expect("a registration in the store")
    }

    pub(crate) async fn write(&mut self) -> Vec<Acknowledged> {
        // The leases are shorter than all of the measurements.
        assert!(self.session.renew_all(&self.agents).await == AGENTS, "a lease was lost");
        let Self { session, agents, written } = self;
        let (asks, answers) = session.halves();
        let (asked, all) = (RefCell::new(Vec::with_capacity(CHANGES)), Cell::new(usize::MAX));
        let write = async {
            let mut due = Due::now();
            while !due.is_over() {
                let change = due.next().await;
                let agent = &agents[change % AGENTS];
                *written += 1;
                let metadata_set = [("load".to_owned(), format!("{written:06}"))].into();
                let (id, epoch) = (agent.id.clone(), agent.epoch);
                let update = UpdateRequest { id, epoch, metadata_set, ..UpdateRequest::default() };
                asks.ask(change as u64, Request::Update(update)).await;
                asked.borrow_mut().push(Instant::now());
            }
            all.set(due.next);
        };
        let mut answered = Vec::with_capacity(CHANGES);
        let read = async {
            while answered.len() < all.get() {
                let (call, answer) = answers.next().await.expect("the session goes on");
                let acknowledged = Instant::now();
                let Response::Update(updated) = answer else { panic!("not updated: {answer:?}") };
                let revision = updated.registration.expect("a registration").revision;
                answered.push((call, revision, acknowledged));
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
pub(crate) struct EtcdWriter {
    client: Client,
    key: usize,
    value: usize,
    written: usize,
}

impl EtcdWriter {
    pub(crate) async fn open(url: &str, (key, value): (usize, usize)) -> Self {
        println!("a registration in the store: key of {key} bytes, value of {value}; the puts are as long");
        Self { client: Client::connect([url], None).await.expect("etcd answers"), key, value, written: 0 }
    }

    pub(crate) async fn write(&mut self) -> Vec<Acknowledged> {
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
