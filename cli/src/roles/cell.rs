//! `rollcall cell`: the registry of one region.

use std::path::Path;

use rollcall_cell::config::{CellConfig, StoreKind};
use rollcall_cell::store::embedded::Embedded;
use rollcall_cell::store::etcd::Etcd;
use rollcall_cell::{Start, StartError};
use rollcall_runtime::{ConfigErrors, Metrics, Tasks, config, listen};

use super::{Refused, begin, checked, process_clock, serve};
use crate::exit::Exit;

/// The embedded store's file in the data directory.
pub(crate) const STORE_FILE: &str = "store.redb";
/// Where a cell on etcd remembers the office that it holds.
const OFFICE_FILE: &str = "office";

/// Reads a cell's settings and checks what their types cannot say.
pub(crate) fn settings(file: &Path, environment: &[(String, String)]) -> Result<CellConfig, ConfigErrors> {
    let settings: CellConfig = config::load(file, environment)?;
    let found = settings.faults_alone().into_iter().map(|unusable| (unusable.key, unusable.why));
    checked(file, environment, found)?;
    Ok(settings)
}

/// Runs until a signal.
pub(crate) async fn run(file: &Path, environment: &[(String, String)]) -> Exit {
    Box::pin(start(file, environment)).await.unwrap_or_else(Refused::emit)
}

async fn start(file: &Path, environment: &[(String, String)]) -> Result<Exit, Refused> {
    let config = settings(file, environment)?;
    let signalled = begin(environment)?;
    let http = listen::bind(&config.listen.http).await?;
    let grpc = listen::bind(&config.listen.grpc).await?;
    let tasks = Tasks::new();
    let start = Start {
        commit: crate::COMMIT,
        clock: process_clock(),
        tasks: tasks.clone(),
        metrics: Metrics::new(),
        http,
        grpc,
        keep_on_disk: true,
        config,
    };
    let started = match start.config.store.kind {
        StoreKind::Etcd => {
            let store = Etcd::connect(&start.config.store.endpoints, &start.config.region)
                .remembering(&start.config.data_dir.join(OFFICE_FILE));
            Box::pin(rollcall_cell::run(store, start)).await
        }
        StoreKind::Embedded => {
            let file = start.config.data_dir.join(STORE_FILE);
            let store = Embedded::open(&file).map_err(|error| {
                Refused::new(Exit::Failed, format!("the embedded store cannot be opened: {error}"))
            })?;
            let store = store.of_region(&start.config.region).map_err(|error| {
                let words = format!("the embedded store in {} cannot be used: {error}", file.display());
                Refused::new(Exit::Usage, words)
            })?;
            Box::pin(rollcall_cell::run(store, start)).await
        }
    };
    started.map_err(|error| match error {
        StartError::Config(_) => Refused::new(Exit::Usage, error),
        StartError::DataDir(_) | StartError::Listener(_) => Refused::new(Exit::Failed, error),
    })?;
    Ok(serve(&tasks, &signalled).await)
}
