//! `rollcall replicator`: publishes a region's feed and follows the other regions'.

use std::path::Path;

use rollcall_replicator::config::{LogKind, ReplicatorConfig};
use rollcall_replicator::{Start, StartError, run_on_kafka};
use rollcall_runtime::{ConfigError, Metrics, Tasks, config, listen};

use super::{Refused, begin, indexed, process_clock, serve};
use crate::exit::Exit;

/// Reads a replicator's settings and checks what their types cannot say.
pub(crate) fn settings(
    file: &Path,
    environment: &[(String, String)],
) -> Result<ReplicatorConfig, ConfigError> {
    let settings: ReplicatorConfig = config::load(file, environment)?;
    let refuse = |key: &str, why: &str| {
        config::refuse(file, environment, &indexed(key), format!("cannot be used: {why}"), "")
    };
    settings.check().map_err(|unusable| refuse(&unusable.key, &unusable.why))?;
    let publish = settings.publish.iter().map(|publish| ("publish.kind".to_owned(), publish.kind));
    let follow =
        settings.follow.iter().enumerate().map(|(at, follow)| (format!("follow[{at}].kind"), follow.kind));
    match publish.chain(follow).find(|(_, kind)| *kind == LogKind::Memory) {
        Some((key, _)) => Err(refuse(&key, "a process of its own shares no memory: say kafka")),
        None => Ok(settings),
    }
}

/// Runs until a signal.
pub(crate) async fn run(file: &Path, environment: &[(String, String)]) -> Exit {
    match Box::pin(start(file, environment)).await {
        Ok(exit) => exit,
        Err(refused) => refused.emit(),
    }
}

async fn start(file: &Path, environment: &[(String, String)]) -> Result<Exit, Refused> {
    let config = settings(file, environment)?;
    let signalled = begin(environment)?;
    let grpc = listen::bind(&config.listen.grpc).await?;
    let http = listen::bind(&config.listen.http).await?;
    let tasks = Tasks::new();
    let start = Start {
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
