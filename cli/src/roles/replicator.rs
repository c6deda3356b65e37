//! `rollcall replicator`: publishes a region's feed and follows the other regions'.

use std::path::Path;

use rollcall_replicator::config::ReplicatorConfig;
use rollcall_replicator::{Start, StartError, run_on_kafka};
use rollcall_runtime::{ConfigErrors, Metrics, Tasks, config, listen};

use super::{Refused, begin, checked, process_clock, serve};
use crate::exit::Exit;

/// Reads a replicator's settings and checks what their types cannot say.
pub(crate) fn settings(
    file: &Path,
    environment: &[(String, String)],
) -> Result<ReplicatorConfig, ConfigErrors> {
    let settings: ReplicatorConfig = config::load(file, environment)?;
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
    let grpc = listen::bind(&config.listen.grpc).await?;
    let http = listen::bind(&config.listen.http).await?;
    let tasks = Tasks::new();
    let start = Start {
        commit: crate::COMMIT,
        config,
        clock: process_clock(),
        tasks: tasks.clone(),
        metrics: Metrics::new(),
        grpc,
        http,
        keep_on_disk: true,
    };
    Box::pin(run_on_kafka(start)).await.map_err(|error| match error {
        StartError::Config(_) => Refused::new(Exit::Usage, error),
        StartError::DataDir(_) | StartError::Log(_) | StartError::Listener(_) => {
            Refused::new(Exit::Failed, error)
        }
    })?;
    Ok(serve(&tasks, &signalled).await)
}
