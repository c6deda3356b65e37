//! A region for tests: a cell that is nothing but a history served over gRPC, and a replicator beside it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rollcall_model::{Clock, Freshness, Instant, Region, View};
use rollcall_replicator::api::{self, Api};
use rollcall_replicator::config::{
    Access, Brokers, CellConfig, FollowConfig, Listen, LogKind, PublishConfig, ReplicatorConfig,
    SNAPSHOT_BYTES, SNAPSHOT_MINUTES,
};
use rollcall_replicator::feed_log::contract::within;
use rollcall_replicator::feed_log::memory::MemoryLog;
use rollcall_replicator::feed_log::{FeedLog, LogError};
use rollcall_replicator::testing::Origin;
use rollcall_replicator::views::Views;
use rollcall_replicator::{Running, Start, run};
use rollcall_runtime::{Metrics, Ready, Tasks, clock, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// How long a busy machine may need for what a quiet one does at once.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// The cell of a region: its history, and Discovery over it. It beats once a second.
pub(crate) struct Cell {
    pub(crate) origin: Arc<Mutex<Origin>>,
    pub(crate) endpoint: String,
    shown: watch::Sender<Arc<View>>,
    /// When each revision became the head.
    born: Arc<Mutex<BTreeMap<u64, Instant>>>,
    tasks: Tasks,
}

/// A replicator that runs.
pub(crate) struct Replicator {
    pub(crate) running: Running,
    pub(crate) metrics: Metrics,
    tasks: Tasks,
}

pub(crate) fn real_clock() -> Clock {
    Clock::new(clock::monotonic, clock::wall_ms)
}

pub(crate) async fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.expect("a free port")
}

impl Cell {
    pub(crate) async fn start(region: &str) -> Self {
        Self::start_as(region, "1-a").await
    }

    /// One with a history of this name.
    pub(crate) async fn start_as(region: &str, incarnation: &str) -> Self {
        let origin = Arc::new(Mutex::new(Origin::new(region, incarnation)));
        let (shown, view) = watch::channel(Arc::new(origin.lock().unwrap().view().clone()));
        let tasks = Tasks::new();
        let listener = listener().await;
        let endpoint = format!("http://{}", listener.local_addr().expect("bound"));
        let name = Region::parse(region).unwrap();
        let api = Api {
            commit: "none",
            region: name.clone(),
            views: Views::new(BTreeMap::from([(name, view)])),
            publisher: None,
            unsaved: rollcall_runtime::unsaved::Unsaved::default(),
            ready: Ready::new(),
            clock: real_clock(),
            metrics: Metrics::new(),
            stopping: tasks.cancelled(),
        };
        let app = api::grpc(api).await;
        let (peers, stopping) = (serve::Peers::new(&Metrics::new()), tasks.cancelled());
        let limits = serve::Limits::default();
        let face =
            serve::Serve { listener, name: "cell", app, limits, peers, words: api::unreadable, stopping };
        tasks.spawn("cell", face.run());
        let born = Arc::new(Mutex::new(BTreeMap::new()));
        let (beating, sender, stopping) = (Arc::clone(&origin), shown.clone(), tasks.cancelled());
        let bearing = Arc::clone(&born);
        tasks.spawn("beat", async move {
            let mut ticks = tokio::time::interval(Duration::from_secs(1));
            loop {
                tokio::select! {
                    () = stopping.cancelled() => return,
                    _ = ticks.tick() => {
                        let mut origin = beating.lock().unwrap();
                        let now = real_clock().now();
                        let revision = origin.beat(now).position.revision.0;
                        bearing.lock().unwrap().insert(revision, now);
                        sender.send_replace(Arc::new(origin.view().clone()));
                    }
                }
            }
        });
        Self { origin, endpoint, shown, born, tasks }
    }

    /// How old a revision is as a claim to be the head: nothing while it is, then the time since the next one.
    pub(crate) fn age_of(&self, revision: u64, now: Instant) -> Duration {
        self.born.lock().unwrap().get(&(revision + 1)).map_or(Duration::ZERO, |next| now.since(*next))
    }

    /// Changes the region's history.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Origin)) {
        let mut origin = self.origin.lock().unwrap();
        let before = origin.position().revision.0;
        change(&mut origin);
        for revision in before + 1..=origin.position().revision.0 {
            self.born.lock().unwrap().insert(revision, real_clock().now());
        }
        self.shown.send_replace(Arc::new(origin.view().clone()));
    }

    /// Waits until the history fulfils a condition.
    pub(crate) async fn origin_when(&self, what: &str, holds: impl Fn(&Origin) -> bool) {
        let waited = async {
            let mut shown = self.shown.subscribe();
            while !holds(&self.origin.lock().unwrap()) {
                shown.changed().await.expect("the cell lives");
            }
        };
        tokio::time::timeout(DEADLINE, waited).await.unwrap_or_else(|_| panic!("{what} did not happen"));
    }

    pub(crate) async fn stop(self) {
        let stragglers = self.tasks.drain(DEADLINE).await;
        assert!(stragglers.is_empty(), "{stragglers:?} did not end");
    }
}

/// The configuration of a replicator of `region` that publishes `cell` and follows `follow`.
pub(crate) fn config(
    region: &str,
    kind: LogKind,
    brokers: &str,
    cell: Option<&Cell>,
    follow: &[&str],
) -> ReplicatorConfig {
    ReplicatorConfig {
        region: region.to_owned(),
        data_dir: PathBuf::new(),
        listen: Listen { grpc: "127.0.0.1:0".into(), http: "127.0.0.1:0".into() },
        cell: cell.map(|cell| CellConfig { endpoints: vec![cell.endpoint.clone()] }),
        publish: cell.map(|_| PublishConfig {
            kind,
            brokers: brokers.to_owned(),
            snapshot_minutes: SNAPSHOT_MINUTES,
            snapshot_bytes: SNAPSHOT_BYTES,
            kafka: None,
        }),
        kafka: Access::default(),
        follow: follow
            .iter()
            .map(|region| FollowConfig {
                region: (*region).to_owned(),
                kind,
                brokers: brokers.to_owned(),
                kafka: None,
            })
            .collect(),
        auth: None,
    }
}

impl Replicator {
    /// Starts one that keeps its views in `data_dir`, if one is given.
    pub(crate) async fn start<L: FeedLog>(
        log: impl Fn(&Brokers) -> Result<L, LogError>,
        mut config: ReplicatorConfig,
        data_dir: Option<PathBuf>,
    ) -> Self {
        let (tasks, metrics) = (Tasks::new(), Metrics::new());
        let keep_on_disk = data_dir.is_some();
        config.data_dir = data_dir.unwrap_or_default();
        let start = Start {
            commit: "none",
            config,
            clock: real_clock(),
            tasks: tasks.clone(),
            metrics: metrics.clone(),
            grpc: listener().await,
            http: listener().await,
            keep_on_disk,
        };
        let running = run(log, start).await.expect("started");
        Self { running, metrics, tasks }
    }

    /// The view as it is now.
    pub(crate) fn view(&self, region: &str) -> View {
        let region = Region::parse(region).unwrap();
        let view = self.running.views.of(&region).expect("followed");
        View::clone(&view.borrow())
    }

    /// Waits until the view fulfils a condition.
    pub(crate) async fn view_when(&self, region: &str, what: &str, holds: impl Fn(&View) -> bool) -> View {
        let name = Region::parse(region).unwrap();
        let mut view = self.running.views.of(&name).expect("followed");
        let waited = tokio::time::timeout(DEADLINE, view.wait_for(|view| holds(view))).await;
        match waited {
            Ok(view) => View::clone(&view.expect("the subscriber lives")),
            Err(_) => {
                panic!("{region}: {what} did not happen; the view is at {:?}", self.view(region).position())
            }
        }
    }

    /// Waits until the view is what its origin is.
    pub(crate) async fn converges(&self, cell: &Cell) -> View {
        let region = cell.origin.lock().unwrap().view().region().to_string();
        let digest = cell.origin.lock().unwrap().digest();
        let incarnation = cell.origin.lock().unwrap().position().incarnation;
        self.view_when(&region, "convergence (I32)", |view| {
            let same = view.position().is_some_and(|position| position.incarnation == incarnation);
            same && view.state().is_some_and(|state| state.digest() == digest)
        })
        .await
    }

    /// A figure's value: the sum over the lines that begin with the name and hold all the labels.
    pub(crate) fn figure(&self, name: &str, labels: &[&str]) -> f64 {
        let text = self.metrics.render();
        let lines = text
            .lines()
            .filter(|line| line.starts_with(name) && labels.iter().all(|label| line.contains(label)));
        lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
    }

    /// Waits until a figure has reached a value.
    pub(crate) async fn figure_when(&self, name: &str, labels: &[&str], least: f64) {
        let waited = async {
            while self.figure(name, labels) < least {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let reached = tokio::time::timeout(DEADLINE, waited).await;
        assert!(reached.is_ok(), "{name}{labels:?} stayed at {}", self.figure(name, labels));
    }

    /// What it answers over HTTP.
    pub(crate) async fn get(&self, path: &str) -> String {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut stream = tokio::net::TcpStream::connect(self.running.http).await.expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        tokio::time::timeout(DEADLINE, stream.read_to_string(&mut answer))
            .await
            .expect("in time")
            .expect("an answer");
        answer
    }

    pub(crate) async fn stop(self) {
        let stragglers = self.tasks.drain(DEADLINE).await;
        assert!(stragglers.is_empty(), "{stragglers:?} did not end");
        assert_eq!(self.tasks.failed(), None);
    }
}

pub(crate) fn memory(region: &str, cell: Option<&Cell>, follow: &[&str]) -> ReplicatorConfig {
    config(region, LogKind::Memory, "", cell, follow)
}

pub(crate) async fn publisher(log: &MemoryLog, cell: &Cell) -> Replicator {
    Replicator::start(|_| Ok(log.clone()), memory("us-east", Some(cell), &[]), None).await
}

pub(crate) async fn follower(log: &MemoryLog) -> Replicator {
    Replicator::start(|_| Ok(log.clone()), memory("eu-west", None, &["us-east"]), None).await
}

pub(crate) fn is_current(view: &View) -> bool {
    view.freshness(real_clock().now()) == Freshness::Current
}

pub(crate) async fn get(replicator: &Replicator, path: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(replicator.running.http).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within(stream.read_to_string(&mut answer)).await.unwrap();
    answer
}
