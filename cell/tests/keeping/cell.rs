//! A whole cell on the embedded store, and what goes in.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use rollcall_cell::config::CellConfig;
use rollcall_cell::registrar::Registrar;
use rollcall_cell::store::embedded::Embedded;
use rollcall_cell::{Running, Start, run};
use rollcall_model::declaration::RawEndpoint;
use rollcall_model::{Clock, Declaration, Declared, InstanceId};
use rollcall_runtime::meter::Metrics;
use rollcall_runtime::tasks::Tasks;
use tokio::net::TcpListener;

/// For what comes by itself, on a machine that is busy with anything else.
const SOON: Duration = Duration::from_secs(60);

/// A cell whose monotonic clock a test may move ahead, and its wall clock to anywhere.
pub(super) struct Cell {
    pub(super) running: Running,
    tasks: Tasks,
    ahead_ms: Arc<AtomicU64>,
    wall_off_ms: Arc<AtomicI64>,
}

impl Cell {
    pub(super) async fn start(store: Embedded, data_dir: &Path) -> Self {
        let _ = rollcall_runtime::telemetry::init(rollcall_runtime::telemetry::LogFormat::Text, "warn");
        let ahead_ms = Arc::new(AtomicU64::new(0));
        let ahead = Arc::clone(&ahead_ms);
        let wall_off_ms = Arc::new(AtomicI64::new(0));
        let wall_off = Arc::clone(&wall_off_ms);
        let clock = Clock::new(
            move || {
                rollcall_runtime::clock::monotonic() + Duration::from_millis(ahead.load(Ordering::Relaxed))
            },
            move || rollcall_runtime::clock::wall_ms() + wall_off.load(Ordering::Relaxed),
        );
        let text = format!(
            "region = \"us-east\"\ndata_dir = {:?}\n[listen]\nhttp = \"127.0.0.1:0\"\ngrpc = \"127.0.0.1:0\"\n[store]\nkind = \"embedded\"\n",
            data_dir
        );
        let config: CellConfig = toml::from_str(&text).unwrap();
        let tasks = Tasks::new();
        let start = Start {
            config,
            clock,
            tasks: tasks.clone(),
            metrics: Metrics::new(),
            http: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            grpc: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            keep_on_disk: true,
            commit: "none",
        };
        let running = run(store, start).await.unwrap();
        let cell = Self { running, tasks, ahead_ms, wall_off_ms };
        cell.until("the keeper is in office", |cell| cell.running.keeper.term().is_some()).await;
        cell
    }

    pub(super) fn registrar(&self) -> &Registrar {
        &self.running.registrar
    }

    pub(super) fn pass(&self, time: Duration) {
        self.ahead_ms.fetch_add(u64::try_from(time.as_millis()).unwrap(), Ordering::Relaxed);
    }

    /// Somebody sets the machine's clock so far from the right time.
    pub(super) fn wall_clock_is_off_by(&self, seconds: i64) {
        self.wall_off_ms.store(seconds * 1_000, Ordering::Relaxed);
    }

    pub(super) fn has(&self, id: &str) -> bool {
        self.running.regions.own_view().state().is_some_and(|state| state.get(id).is_some())
    }

    pub(super) async fn until(&self, condition: &str, holds: impl Fn(&Self) -> bool) {
        let waited = tokio::time::timeout(SOON, async {
            while !holds(self) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        assert!(waited.await.is_ok(), "not within {SOON:?}: {condition}");
    }

    pub(super) async fn stop(self) {
        let Self { running, tasks, .. } = self;
        drop(running);
        assert_eq!(tasks.drain(SOON).await, Vec::<&str>::new());
    }
}

pub(super) fn declared(id: &str, url: &str) -> Declared {
    let raw = Declaration {
        id: id.into(),
        endpoints: vec![RawEndpoint { url: url.into(), protocol: None }],
        lease_seconds: Some(30),
        ..Declaration::default()
    };
    Declared::check(raw, || "fresh".into()).unwrap()
}

pub(super) fn id(text: &str) -> InstanceId {
    InstanceId::parse(text).unwrap()
}

pub(super) async fn memory() -> (Cell, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (Cell::start(Embedded::memory().unwrap(), folder.path()).await, folder)
}
