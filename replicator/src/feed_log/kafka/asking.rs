//! A client that only asks, made anew when it was not answered.
//!
//! A broker that froze can leave a client of its own time behind: connected to nobody, and sure that it is. What was not
//! answered within its time may be the broker's fault or the client's; a new client settles which, at the price of a
//! connection.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::config::FromClientConfig;

use super::{error, let_go};
use crate::feed_log::LogError;

/// A client is at least this old before it is replaced: a broker that is down answers none of them.
const LASTING: Duration = Duration::from_secs(5);

pub(super) struct Asking<C> {
    config: ClientConfig,
    current: Mutex<(Arc<C>, Instant)>,
}

impl<C: FromClientConfig + Send + Sync + 'static> Asking<C> {
    /// The first one. Connects to nobody yet.
    pub(super) fn new(config: ClientConfig) -> Result<Self, LogError> {
        let first = config.create().map_err(|failed| error::of_client(&failed))?;
        Ok(Self { config, current: Mutex::new((Arc::new(first), Instant::now())) })
    }

    fn current(&self) -> MutexGuard<'_, (Arc<C>, Instant)> {
        // It holds one handle that is replaced whole.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client to ask.
    pub(super) fn get(&self) -> Arc<C> {
        Arc::clone(&self.current().0)
    }

    /// Takes note of why a question to this client failed, and gives it back: was it not answered, the next is for another
    /// client.
    pub(super) fn unanswered(&self, asked: &Arc<C>, why: LogError) -> LogError {
        let mut current = self.current();
        let is_over = Arc::ptr_eq(asked, &current.0) && current.1.elapsed() >= LASTING;
        if matches!(why, LogError::Away(_)) && is_over {
            match self.config.create() {
                Ok(next) => {
                    let (silent, _) = std::mem::replace(&mut *current, (Arc::new(next), Instant::now()));
                    let_go(move || drop(silent));
                }
                Err(failed) => tracing::debug!(error = %failed, "no other client could be made"),
            }
        }
        why
    }
}
