//! Now and then the replica's state is compared with the store's, read whole at the replica's revision.
//!
//! What followed from a watch is only as right as the watch was, and watches have lost, doubled and mixed up events. A
//! state that is wrong stays wrong quietly: its digest travels, and everybody behind it proves themselves against it. So
//! each process reads the truth again at times of its own.

use std::sync::Arc;
use std::time::Duration;

use rollcall_model::{Position, StateDigest, View};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::reading::{self, Pace};
use crate::random;
use crate::store::{Store, StoreError};

/// Between two pages: an audit is nobody's hurry, and a hundred thousand registrations take some seconds.
const REST: Duration = Duration::from_millis(20);

/// What an audit found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Both are the same.
    Same,
    /// They are not; the number and digest of the store's, then of the replica's.
    Differs(Position, (u64, StateDigest), (u64, StateDigest)),
    /// It could not be read: the store went away, or let go of that revision.
    Unread(StoreError),
}

/// When the next one is due, and the one that runs.
pub(super) struct Audits {
    /// None: never.
    every: Option<Duration>,
    due: Instant,
    // One at most; ends with the replica.
    running: JoinSet<Verdict>,
}

impl Audits {
    /// The first comes after about `every`, so that processes that start together do not read together.
    pub(super) fn new(every: Option<Duration>) -> Self {
        Self { every, due: next(every), running: JoinSet::new() }
    }

    /// Waits for the verdict of the one that runs, or until one is due: then there is none. Dropping the wait loses
    /// nothing.
    pub(super) async fn next(&mut self) -> Option<Verdict> {
        if let Some(ended) = self.running.join_next().await {
            let unread = |error: tokio::task::JoinError| {
                Verdict::Unread(StoreError::Unavailable(format!("the comparison broke off: {error}")))
            };
            return Some(ended.unwrap_or_else(unread));
        }
        match self.every {
            Some(_) => tokio::time::sleep_until(self.due).await,
            None => std::future::pending().await,
        }
        None
    }

    /// Begins one of the state as it is now.
    pub(super) fn begin<S: Store>(&mut self, store: &Arc<S>, view: &View) {
        self.due = next(self.every);
        let (Some(at), Some(state)) = (view.position().cloned(), view.state()) else { return };
        let (own, store) = ((state.count(), state.digest()), Arc::clone(store));
        self.running.spawn(async move {
            match reading::state(&*store, Some(at.revision), Pace::Resting(REST)).await {
                Ok(read) => {
                    let stored = (read.state.count(), read.state.digest());
                    if stored == own { Verdict::Same } else { Verdict::Differs(at, stored, own) }
                }
                Err(error) => Verdict::Unread(error),
            }
        });
    }
}

fn next(every: Option<Duration>) -> Instant {
    let wait = every.unwrap_or_default().mul_f64(0.8 + 0.4 * random::chance());
    Instant::now() + wait
}
