//! One region of `rollcall dev`: a cell and a replicator, wired as two processes would be.
//!
//! Promises: they meet on loopback gRPC and nowhere else; only the log is shared, as a broker would be. With a data
//! directory, what is in the store stays over a restart; the log does not, and the views are loaded anew.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use rollcall_cell::config::{
    AddressShare, AdmissionConfig, CellConfig, Listen, StoreConfig, StoreKind, ViewConfig,
};
use rollcall_cell::keeper::KeeperHandle;
use rollcall_cell::regions::Regions;
use rollcall_cell::store::embedded::Embedded;
use rollcall_cell::store::{Store, StoreError, keys};
use rollcall_model::Revision;
use rollcall_replicator::config::{
    self, FollowConfig, LogKind, PublishConfig, ReplicatorConfig, SNAPSHOT_BYTES, SNAPSHOT_MINUTES,
};
use rollcall_replicator::feed_log::memory::MemoryLog;
use rollcall_runtime::{Metrics, Tasks, listen};
use tokio::net::TcpListener;
use tracing::Instrument;

use super::ports::Ports;
use crate::args::DevArgs;
use crate::exit::Exit;
use crate::roles::cell::STORE_FILE;
use crate::roles::{Refused, end, process_clock};

/// A region that serves.
pub(crate) struct Running {
    /// Its name.
    pub(crate) name: String,
    /// Its cell's HTTP.
    pub(crate) http: SocketAddr,
    /// What its cell serves.
    pub(crate) regions: Regions,
    /// Its leases.
    pub(crate) keeper: KeeperHandle,
    store: Embedded,
}

/// The tasks of all regions. Replicators end first: what follows a cell must not see it go.
#[derive(Clone, Default)]
pub(crate) struct Owners {
    /// Of the cells, and of what serves beside them.
    pub(crate) cells: Tasks,
    /// Of the replicators.
    pub(crate) replicators: Tasks,
}

impl Owners {
    /// Waits until a task failed; it has said why.
    pub(crate) async fn failed(&self) {
        tokio::select! {
            () = self.cells.cancelled().cancelled_owned() => {}
            () = self.replicators.cancelled().cancelled_owned() => {}
        }
    }

    /// Drains all.
    pub(crate) async fn end(&self) -> Exit {
        let replicators = end(&self.replicators).await;
        let cells = end(&self.cells).await;
        if replicators == Exit::Done { cells } else { replicators }
    }
}

impl Running {
    /// The last revision of its store.
    pub(crate) async fn head(&self) -> Result<Revision, StoreError> {
        Ok(self.store.get(keys::BEAT, None).await?.1)
    }
}

/// Starts all regions, each with a view of every other one.
pub(crate) async fn start_all(
    args: &DevArgs,
    ports: Vec<Ports>,
    log: &MemoryLog,
    owners: &Owners,
) -> Result<Vec<Running>, Refused> {
    let mut running = Vec::new();
    for (region, ports) in args.regions.iter().zip(ports) {
        let others: Vec<_> = args.regions.iter().filter(|other| *other != region).cloned().collect();
        let folder = args.data_dir.as_ref().map(|folder| folder.join(region));
        let span = tracing::error_span!("region", name = %region);
        let started = start(region, &others, folder.as_deref(), ports, log, owners).instrument(span);
        running.push(Box::pin(started).await?);
    }
    Ok(running)
}

async fn start(
    region: &str,
    others: &[String],
    folder: Option<&Path>,
    ports: Ports,
    log: &MemoryLog,
    owners: &Owners,
) -> Result<Running, Refused> {
    let failed = |error: &dyn std::fmt::Display| Refused::new(Exit::Failed, format!("{region}: {error}"));
    let grpc = ports.grpc.local_addr().map_err(|error| failed(&error))?;
    let sockets = Sockets { http: listen::bind(LOOPBACK).await?, grpc: listen::bind(LOOPBACK).await? };
    let source = sockets.grpc.local_addr().map_err(|error| failed(&error))?;
    let data_dir = folder.map(|folder| folder.join("cell"));
    let store = match &data_dir {
        Some(folder) => Embedded::open(&folder.join(STORE_FILE)).and_then(|store| store.of_region(region)),
        None => Embedded::memory(),
    };
    let store = store.map_err(|error| {
        let words = format!(
            "{region}: {error}; end what uses it, perhaps another `rollcall dev`, or give another --data-dir"
        );
        Refused::new(Exit::Failed, words)
    })?;
    let cell = cell(region, others, store.clone(), data_dir, ports, source, &owners.cells);
    let cell = Box::pin(cell).await.map_err(|error| failed(&error))?;
    let replicator = replicator(region, others, sockets, grpc, log, &owners.replicators);
    Box::pin(replicator).await.map_err(|error| failed(&error))?;
    Ok(Running {
        name: region.to_owned(),
        http: cell.http,
        regions: cell.regions,
        keeper: cell.keeper,
        store,
    })
}

/// Any port of this machine that nobody else sees.
const LOOPBACK: &str = "127.0.0.1:0";

struct Sockets {
    http: TcpListener,
    grpc: TcpListener,
}

async fn cell(
    region: &str,
    others: &[String],
    store: Embedded,
    data_dir: Option<PathBuf>,
    ports: Ports,
    source: SocketAddr,
    tasks: &Tasks,
) -> Result<rollcall_cell::Running, String> {
    let view = |other: &String| ViewConfig { region: other.clone(), source: format!("http://{source}") };
    let keep_on_disk = data_dir.is_some();
    let config = CellConfig {
        region: region.to_owned(),
        zone: None,
        data_dir: data_dir.unwrap_or_default(),
        listen: Listen { http: LOOPBACK.to_owned(), grpc: LOOPBACK.to_owned(), advertise: None },
        store: StoreConfig::of(StoreKind::Embedded),
        view: others.iter().map(view).collect(),
        guard: rollcall_cell::config::GuardConfig::default(),
        admission: admission(),
        health: rollcall_cell::config::HealthConfig::default(),
        auth: None,
    };
    let start = rollcall_cell::Start {
        commit: crate::COMMIT,
        config,
        clock: process_clock(),
        tasks: tasks.clone(),
        metrics: Metrics::new(),
        http: ports.http,
        grpc: ports.grpc,
        keep_on_disk,
    };
    Box::pin(rollcall_cell::run(store, start)).await.map_err(|error| error.to_string())
}

/// The defaults without the share of an address: all callers are on this machine and would have one tenth together.
fn admission() -> AdmissionConfig {
    AdmissionConfig { address_share: AddressShare::Whole, ..AdmissionConfig::default() }
}

async fn replicator(
    region: &str,
    others: &[String],
    sockets: Sockets,
    cell: SocketAddr,
    log: &MemoryLog,
    tasks: &Tasks,
) -> Result<(), String> {
    let brokers = String::new;
    let follow = |other: &String| FollowConfig {
        region: other.clone(),
        kind: LogKind::Memory,
        brokers: brokers(),
        kafka: None,
    };
    let config = ReplicatorConfig {
        region: region.to_owned(),
        data_dir: PathBuf::new(),
        listen: config::Listen { grpc: LOOPBACK.to_owned(), http: LOOPBACK.to_owned() },
        cell: Some(config::CellConfig { endpoints: vec![format!("http://{cell}")] }),
        publish: Some(PublishConfig {
            kind: LogKind::Memory,
            brokers: brokers(),
            snapshot_minutes: SNAPSHOT_MINUTES,
            snapshot_bytes: SNAPSHOT_BYTES,
            kafka: None,
        }),
        kafka: config::Access::default(),
        follow: others.iter().map(follow).collect(),
        auth: None,
    };
    let start = rollcall_replicator::Start {
        commit: crate::COMMIT,
        config,
        clock: process_clock(),
        tasks: tasks.clone(),
        metrics: Metrics::new(),
        grpc: sockets.grpc,
        http: sockets.http,
        // Its place in the log would be of a log that ended with the process; and the cell keeps its views itself.
        keep_on_disk: false,
    };
    let started = Box::pin(rollcall_replicator::run(|_| Ok(log.clone()), start)).await;
    started.map(drop).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use rollcall_model::{Admission, Instant};

    use super::*;
    use crate::args::AGENTS_MAX;

    #[test]
    fn the_largest_fleet_registers_in_one_region_at_once_without_a_refusal() {
        let mut door = Admission::new(admission().limits(), Instant::default());
        let here = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert!((0..AGENTS_MAX).all(|_| door.register(here, Instant::default()).is_ok()));
    }
}
