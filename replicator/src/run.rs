//! How the parts of a replicator are wired.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use rollcall_model::{Clock, Region};
use rollcall_runtime::config::Unusable;
use rollcall_runtime::serve::{self, Limits, Serve, Words};
use rollcall_runtime::unsaved::Unsaved;
use rollcall_runtime::{Metrics, Ready, Tasks, files};
use tokio::net::TcpListener;

use crate::api::{self, Api};
use crate::config::{Brokers, FollowConfig, ReplicatorConfig};
use crate::disk::Copy;
use crate::feed_log::kafka::KafkaLog;
use crate::feed_log::{FeedLog, LogError};
use crate::metrics::{self, Figures};
use crate::publisher::Publisher;
use crate::source::Source;
use crate::subscriber::Subscriber;
use crate::views::Views;

/// What a replicator needs from its process.
pub struct Start {
    /// Checked by [`run`].
    pub config: ReplicatorConfig,
    /// Time.
    pub clock: Clock,
    /// Owner of all tasks; cancelling it stops the replicator, which then saves its views.
    pub tasks: Tasks,
    /// Where figures go.
    pub metrics: Metrics,
    /// Bound already, so that a taken port is known before anything starts.
    pub grpc: TcpListener,
    /// The same for HTTP.
    pub http: TcpListener,
    /// Whether copies of the views are kept; `rollcall dev` without a data directory keeps none.
    pub keep_on_disk: bool,
    /// The commit that the process is made from, for `/version`.
    pub commit: &'static str,
}

/// A replicator that listens.
#[derive(Clone, Debug)]
pub struct Running {
    /// The views over gRPC.
    pub grpc: SocketAddr,
    /// Health and figures.
    pub http: SocketAddr,
    /// What it serves.
    pub views: Views,
    /// Done when every view is loaded, or the log was asked and has none.
    pub ready: Ready,
}

/// Why a replicator does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration cannot work.
    #[error(transparent)]
    Config(#[from] Unusable),
    /// The data directory cannot be used.
    #[error("data_dir: {0}")]
    DataDir(String),
    /// The log's client cannot be made.
    #[error("log: {0}")]
    Log(#[from] LogError),
    /// A listener is gone.
    #[error("listener: {0}")]
    Listener(#[from] std::io::Error),
}

/// Starts a replicator on Kafka: the role `rollcall replicator`.
///
/// # Errors
/// As [`run`]; also when the configuration names the log in memory, which only a shared process has.
pub async fn run_on_kafka(start: Start) -> Result<Running, StartError> {
    start.config.check_alone()?;
    run(KafkaLog::open, start).await
}

/// Starts a replicator. It listens when this returns; the rest goes on in its tasks, also while cell and log are away.
///
/// `open` makes the log of a list of brokers; it is called once for each list and way to speak to it. For the log in memory the list is empty.
///
/// # Errors
/// A configuration or data directory that cannot be used, or a log whose client cannot be made.
pub async fn run<L: FeedLog>(
    open: impl Fn(&Brokers) -> Result<L, LogError>,
    start: Start,
) -> Result<Running, StartError> {
    let Start { config, clock, tasks, metrics, grpc, http, keep_on_disk, commit } = start;
    config.check()?;
    let own = region("region", &config.region)?;
    let lock = if keep_on_disk {
        let lock =
            files::lock_dir(&config.data_dir).map_err(|error| StartError::DataDir(error.to_string()))?;
        Some(Arc::new(lock))
    } else {
        None
    };
    let mut logs: BTreeMap<Brokers, L> = BTreeMap::new();
    let mut log_of = |brokers: Brokers| -> Result<L, LogError> {
        if let Some(log) = logs.get(&brokers) {
            return Ok(log.clone());
        }
        let log = open(&brokers)?;
        logs.insert(brokers, log.clone());
        Ok(log)
    };
    let figures = Figures::new(&metrics);
    let unsaved = Unsaved::default();
    metrics::copies(&metrics, unsaved.clone());
    let ready = Ready::new();

    let mut views = BTreeMap::new();
    for (at, follow) in config.follow.iter().enumerate() {
        let remote = region(&format!("follow[{at}].region"), &follow.region)?;
        let copy = match &lock {
            Some(lock) => {
                let file = config.data_dir.join(format!("view.{remote}.state"));
                Copy::at(file, Arc::clone(lock), unsaved.clone())
            }
            None => Copy::nowhere(),
        };
        let (subscriber, view) = Subscriber::open(
            remote.clone(),
            log_of(config.brokers(&follow.brokers, follow.kafka.as_ref()))?,
            copy,
            clock.clone(),
            figures.clone(),
            ready.expect("view"),
        )
        .await;
        tasks.spawn("subscriber", subscriber.run(tasks.cancelled()));
        views.insert(remote, view);
    }
    let views = Views::new(views);

    let mut publisher = None;
    if let (Some(publish), Some(cell)) = (&config.publish, &config.cell) {
        let source = Source::new(own.clone(), &cell.endpoints, clock.clone())
            .map_err(|error| Unusable::new("cell.endpoints", error.to_string()))?;
        let (task, status) = Publisher::new(
            own.clone(),
            log_of(config.brokers(&publish.brokers, publish.kafka.as_ref()))?,
            source,
            publish.schedule(),
            clock.clone(),
            figures,
        );
        tasks.spawn("publisher", task.run(tasks.cancelled()));
        publisher = Some(status);
    }
    metrics::observe(&metrics, &views, publisher.clone(), &clock);

    let peers = serve::Peers::new(&metrics);
    let api = Api {
        commit,
        region: own.clone(),
        views: views.clone(),
        publisher,
        unsaved,
        ready: ready.clone(),
        clock,
        metrics,
        stopping: tasks.cancelled(),
    };
    let running = Running { grpc: grpc.local_addr()?, http: http.local_addr()?, views, ready };
    let limits = Limits::of_process();
    let serve = |listener, name, app, peers| {
        let (words, stopping) = (api::unreadable as Words, tasks.cancelled());
        Serve { listener, name, app, limits, peers, words, stopping }.run()
    };
    tasks.spawn("grpc", serve(grpc, "grpc", api::grpc(api.clone()).await, peers.clone()));
    tasks.spawn("http", serve(http, "http", api::http(api), peers));
    let follows: Vec<&str> =
        config.follow.iter().map(|FollowConfig { region, .. }| region.as_str()).collect();
    tracing::info!(region = %own, grpc = %running.grpc, http = %running.http, ?follows, "replicator listens");
    Ok(running)
}

fn region(key: &str, text: &str) -> Result<Region, Unusable> {
    Region::parse(text).map_err(|finding| Unusable::new(key, finding.detail))
}
