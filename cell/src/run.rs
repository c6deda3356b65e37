//! How the parts of a cell are wired.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rollcall_model::{Clock, Region, View};
use rollcall_runtime::config::Unusable;
use rollcall_runtime::files;
use rollcall_runtime::meter::Metrics;
use rollcall_runtime::serve::{Limits, Peers, Serve, Words};
use rollcall_runtime::tasks::Tasks;
use rollcall_runtime::unsaved::Unsaved;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::admission::AdmissionHandle;
use crate::api::{self, Api};
use crate::config::CellConfig;
use crate::forward::Forward;
use crate::group::{self, Groups};
use crate::keeper::{Keeper, KeeperHandle};
use crate::regions::Regions;
use crate::registrar::{Registrar, Renewals, Turns, Unwritten};
use crate::replica::Replica;
use crate::store::Store;
use crate::store::noticed::Noticed;
use crate::store::silence::Silence;
use crate::store::space::Space;
use crate::views::{RemoteView, Sources};

/// What a cell needs from its process.
pub struct Start {
    /// Checked by [`run`].
    pub config: CellConfig,
    /// Time.
    pub clock: Clock,
    /// Owner of all tasks; cancelling it stops the cell.
    pub tasks: Tasks,
    /// Where figures go.
    pub metrics: Metrics,
    /// Bound already, so that a taken port is known before anything starts.
    pub http: TcpListener,
    /// The same for gRPC.
    pub grpc: TcpListener,
    /// Whether disk copies are kept; `rollcall dev` without a data directory keeps none.
    pub keep_on_disk: bool,
    /// The commit that the process is made from, for `/version`.
    pub commit: &'static str,
}

/// A cell that listens.
#[derive(Clone)]
pub struct Running {
    /// HTTP, and gRPC by content type.
    pub http: SocketAddr,
    /// gRPC alone.
    pub grpc: SocketAddr,
    /// What it serves.
    pub regions: Regions,
    /// The leases.
    pub keeper: KeeperHandle,
    /// The owners' use cases, for callers in the same process.
    pub registrar: Registrar,
}

/// Why a cell does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration cannot work.
    #[error(transparent)]
    Config(#[from] Unusable),
    /// The data directory cannot be used.
    #[error("data_dir: {0}")]
    DataDir(String),
    /// A listener is gone.
    #[error("listener: {0}")]
    Listener(#[from] std::io::Error),
}

/// Starts a cell. It listens when this returns; the rest goes on in its tasks, also while the store is away.
///
/// # Errors
/// A configuration or data directory that cannot be used.
pub async fn run<S: Store>(store: S, start: Start) -> Result<Running, StartError> {
    let Start { config, clock, tasks, metrics, http, grpc, keep_on_disk, commit } = start;
    config.check()?;
    let own = region(&config.region)?;
    let space = Space::default();
    space.register(&metrics);
    let silence = Silence::default();
    silence.register(&metrics);
    let unsaved = Unsaved::default();
    let store = Arc::new(Noticed::new(store, space.clone(), silence.clone()));
    let cancel = tasks.cancelled();
    if keep_on_disk {
        let lock =
            files::lock_dir(&config.data_dir).map_err(|error| StartError::DataDir(error.to_string()))?;
        // Held until the process stops its tasks: two cells on one directory would mix.
        let stopped = cancel.clone();
        tasks.spawn("data_dir_lock", async move {
            stopped.cancelled().await;
            drop(lock);
        });
    }
    let file = |name: String| keep_on_disk.then(|| config.data_dir.join(name));

    let keeper = KeeperHandle::new(config.guard.limits(), clock.clone());
    let (founding_tx, founding) = watch::channel(None);
    let (own_tx, own_view) = watch::channel(Arc::new(View::new(own.clone())));
    let (mut others, sources) = (Vec::new(), Sources::default());

    let replica = Replica::open(
        Arc::clone(&store),
        own.clone(),
        own_tx,
        founding_tx,
        keeper.clone(),
        clock.clone(),
        file(format!("replica.{own}.state")),
    )
    .await
    .telling(unsaved.clone(), silence.clone())
    .audited(config.store.audit_every());
    tasks.spawn("replica", replica.run(cancel.clone()));

    for view in &config.view {
        let remote = region(&view.region)?;
        let source = |url: &str| {
            let source = tonic::transport::Endpoint::from_shared(url.to_owned())
                .map_err(|error| Unusable::new("view.source", error.to_string()))?;
            Ok(source
                .connect_timeout(Duration::from_secs(2))
                .http2_keep_alive_interval(Duration::from_secs(5))
                .keep_alive_timeout(Duration::from_secs(5)))
        };
        let named = view.sources().map(source).collect::<Result<Vec<_>, Unusable>>()?;
        let (published, receiver) = watch::channel(Arc::new(View::new(remote.clone())));
        let file = file(format!("view.{remote}.state"));
        let view = RemoteView::open(remote.clone(), named, published, clock.clone(), file).await;
        tasks.spawn("remote_view", view.telling(unsaved.clone(), sources.clone()).run(cancel.clone()));
        others.push((remote, receiver));
    }
    let (regions, paces) = Regions::new((own.clone(), own_view.clone()), others).paced();
    for pace in paces {
        tasks.spawn("pace", pace);
    }

    let (groups, submissions) = Groups::new();
    tasks.spawn("group_commit", group::run(Arc::clone(&store), submissions, own_view.clone(), clock.clone()));
    let grpc_at = grpc.local_addr()?;
    let candidate = candidate(config.listen.advertise.as_deref(), grpc_at);
    let (forward, batches) = Forward::new(candidate.clone(), keeper.known(), &metrics);
    tasks.spawn("forward", batches.run());
    tasks.spawn("heir", crate::keeper::heir::run(Arc::clone(&store), forward.unheard(), cancel.clone()));
    let task = Keeper {
        store,
        candidate,
        handle: keeper.clone(),
        view: own_view.clone(),
        founding: founding.clone(),
        clock: clock.clone(),
        history: config.store.history(),
    };
    tasks.spawn("keeper", task.run(cancel.clone()));
    if config.guard.probe {
        tasks.spawn("probe", crate::keeper::probe::run(keeper.clone(), own_view.clone(), cancel.clone()));
    }

    let registrar = Registrar {
        groups,
        view: own_view,
        keeper: keeper.clone(),
        forward,
        founding,
        turns: Turns::default(),
        space: space.clone(),
        silence: silence.clone(),
        load_limits: config.health.limits(),
        unwritten: Unwritten::default(),
        renewals: Renewals::default(),
        clock: clock.clone(),
    };
    registrar.renewals.register(&metrics);
    tasks.spawn("unwritten", registrar.clone().write_unwritten(cancel.clone()));
    crate::metrics::register(&metrics, &regions, &keeper, &clock);
    crate::metrics::copies(&metrics, unsaved.clone());
    let admission = AdmissionHandle::new(config.admission.limits(), clock.clone(), &metrics);
    let peers = Peers::new(&metrics);
    let api = Api {
        registrar: registrar.clone(),
        admission,
        regions: regions.clone(),
        space,
        silence,
        sources,
        unsaved,
        figures: api::Figures::new(&metrics, clock.clone()),
        clock,
        zone: config.zone.clone(),
        version: rollcall_runtime::build_info::VERSION,
        commit,
        metrics: Arc::new(move || metrics.render()),
        lists: api::Lists::default(),
        unread: api::Unread::default(),
        turns: api::Turns::default(),
        stopping: cancel.clone(),
    };
    let http_at = http.local_addr()?;
    let limits = Limits::of_process();
    let (words, stopping) = (api::unreadable as Words, cancel.clone());
    let both = Serve {
        listener: http,
        name: "http",
        app: api::both(api.clone()),
        limits,
        peers: peers.clone(),
        words,
        stopping: stopping.clone(),
    };
    let alone = Serve { listener: grpc, name: "grpc", app: api::grpc(api), limits, peers, words, stopping };
    tasks.spawn("http", both.run());
    tasks.spawn("grpc", alone.run());
    tracing::info!(region = %own, http = %http_at, grpc = %grpc_at, "cell listens");
    Ok(Running { http: http_at, grpc: grpc_at, regions, keeper, registrar })
}

/// Where the cell's other processes reach this one when it keeps the leases; empty where nobody could.
fn candidate(advertise: Option<&str>, bound: SocketAddr) -> String {
    match advertise {
        Some(address) => format!("http://{address}"),
        None if bound.ip().is_unspecified() => {
            tracing::warn!(grpc = %bound, "listening on every address and advertising none: while this process is the keeper, the cell's other processes cannot reach it and refuse renewals; say listen.advertise");
            String::new()
        }
        None => format!("http://{bound}"),
    }
}

fn region(text: &str) -> Result<Region, Unusable> {
    Region::parse(text).map_err(|finding| Unusable::new("region", finding.detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_stands_for_office_with_an_address_that_others_reach_or_with_none() {
        let bound = |text: &str| text.parse().unwrap();
        assert_eq!(candidate(None, bound("127.0.0.1:7401")), "http://127.0.0.1:7401");
        assert_eq!(candidate(Some("cell-1:7401"), bound("0.0.0.0:7401")), "http://cell-1:7401");
        assert_eq!(candidate(None, bound("0.0.0.0:7401")), "");
        assert_eq!(candidate(None, bound("[::]:7401")), "");
    }
}
