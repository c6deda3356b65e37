//! The roles that run for good: settings in, a process that serves until a signal asks it to drain.
//!
//! Promises: nothing is started before the settings are good and every address is bound; the first signal drains within a
//! bound, the second ends at once. It never decides what a role does: the roles are libraries.

pub(crate) mod cell;
pub(crate) mod replicator;

use std::path::Path;
use std::time::Duration;

use rollcall_model::{Clock, Uptime};
use rollcall_runtime::serve::raise_descriptor_limit;
use rollcall_runtime::{ConfigErrors, ListenError, Tasks, clock, config, shutdown, telemetry};
use tokio_util::sync::CancellationToken;

use crate::exit::Exit;
use crate::show::Shown;

/// Longest drain: a third of what supervisors give a process between SIGTERM and SIGKILL.
pub(crate) const DRAIN_MOST: Duration = Duration::from_secs(10);

/// Why a role does not run, as it is told.
pub(crate) struct Refused {
    exit: Exit,
    words: String,
}

impl Refused {
    /// With this code and sentence.
    pub(crate) fn new(exit: Exit, words: impl ToString) -> Self {
        Self { exit, words: words.to_string() }
    }

    /// Says it.
    pub(crate) fn emit(self) -> Exit {
        Shown::words(self.exit, self.words).emit()
    }
}

impl From<ConfigErrors> for Refused {
    fn from(errors: ConfigErrors) -> Self {
        Self::new(Exit::Usage, errors)
    }
}

impl From<ListenError> for Refused {
    fn from(error: ListenError) -> Self {
        let exit = match error {
            // It may be free in a moment.
            ListenError::Taken { .. } => Exit::Unavailable,
            ListenError::Foreign { .. } | ListenError::Forbidden { .. } | ListenError::Other { .. } => {
                Exit::Usage
            }
        };
        Self::new(exit, error)
    }
}

/// The process's clock, as the libraries take it. Those who follow the process know it by a name of its own.
pub(crate) fn process_clock() -> Clock {
    let uptime = || clock::uptime().map(|(boot, ms)| Uptime { boot, ms });
    let teller = uuid::Uuid::new_v4().as_u64_pair().0;
    Clock::new(clock::monotonic, clock::wall_ms).with_uptime(uptime).with_teller(teller)
}

/// Sets logging, the number of connections and signals up: what every role does first, once its settings are good.
pub(crate) fn begin(environment: &[(String, String)]) -> Result<CancellationToken, Refused> {
    telemetry::init_from(environment).map_err(|error| Refused::new(Exit::Usage, error))?;
    raise_descriptor_limit(0).map_err(|error| Refused::new(Exit::Failed, error))?;
    shutdown::signals()
        .map_err(|error| Refused::new(Exit::Failed, format!("signals cannot be listened for: {error}")))
}

/// Serves until a signal, or until a task failed, then drains.
pub(crate) async fn serve(tasks: &Tasks, signalled: &CancellationToken) -> Exit {
    tokio::select! {
        () = signalled.cancelled() => {}
        // A task that failed cancels all of them and has said why.
        () = tasks.cancelled().cancelled_owned() => {}
    }
    let exit = end(tasks).await;
    tracing::info!("drained");
    exit
}

/// Drains, and says how it went as an exit code. What did not end in time is logged by name.
pub(crate) async fn end(tasks: &Tasks) -> Exit {
    tasks.drain(DRAIN_MOST).await;
    if tasks.failed().is_some() { Exit::Failed } else { Exit::Done }
}

/// What a role's own check found, as a refusal of its file: with the line, and whether the environment said it.
fn checked(
    file: &Path,
    environment: &[(String, String)],
    found: impl Iterator<Item = (String, String)>,
) -> Result<(), ConfigErrors> {
    let refused = found.map(|(key, why)| {
        config::refuse(file, environment, &indexed(&key), format!("cannot be used: {why}"), "")
    });
    ConfigErrors::of(refused).map_or(Ok(()), Err)
}

/// A key as settings files are counted: `view.0.source` becomes `view[0].source`.
fn indexed(key: &str) -> String {
    let mut path = String::new();
    for part in key.split('.') {
        if !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) {
            path.push_str(&format!("[{part}]"));
        } else {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(part);
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_count_into_lists_in_brackets() {
        for (key, expected) in [
            ("region", "region"),
            ("listen.http", "listen.http"),
            ("view.0.source", "view[0].source"),
            ("a.1.2", "a[1][2]"),
        ] {
            assert_eq!(indexed(key), expected);
        }
    }

    #[test]
    fn a_taken_address_is_not_now_and_a_wrong_one_is_a_wrong_call() {
        let address = || "127.0.0.1:7400".to_owned();
        assert_eq!(Refused::from(ListenError::Taken { address: address() }).exit, Exit::Unavailable);
        assert_eq!(Refused::from(ListenError::Foreign { address: address() }).exit, Exit::Usage);
    }
}
