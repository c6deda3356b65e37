//! Whether the store has space, as the writes of this process find it: the alarm, the figure, and what readiness says.
//!
//! Promises one line at the beginning of a lack and one at its end, whoever writes how often. Never here: a write of
//! its own to find out; the keeper's beat asks once a second anyway, and the others hear that beat again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rollcall_runtime::meter::Metrics;
use tokio::time::Instant;

/// What bounds a store's space: what is to be done about a full one depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// A figure that etcd was given; it raises an alarm and takes nothing until somebody has put that out.
    Quota,
    /// The disk under the data directory, or what the system lets the process have of it.
    Disk,
}

impl Bound {
    /// What the operator is told to do, in the alarm, in readiness and in refusals alike. It holds no semicolon, which is
    /// what ends a line of readiness in a refusal.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Quota => {
                "renewals go on and nothing new is written: compact and defragment etcd or raise its quota, then \
                 `etcdctl alarm disarm`"
            }
            Self::Disk => {
                "renewals go on and nothing new is written: make room on the disk that data_dir is on or raise the limit \
                 on it, and it goes on by itself"
            }
        }
    }
}

/// A put that is heard may have been written before the last refusal, and be late by so much.
const LATE: Duration = Duration::from_secs(5);

/// What is known; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Space(Arc<Mutex<Option<Lack>>>);

#[derive(Clone, Copy, Debug)]
struct Lack {
    bound: Bound,
    since: Instant,
    last: Instant,
}

impl Space {
    /// Within which bound there is none, and for how long; `None` while there is.
    #[must_use]
    pub fn lacks(&self) -> Option<(Bound, Duration)> {
        self.lack().map(|lack| (lack.bound, lack.since.elapsed()))
    }

    /// Shows it.
    pub fn register(&self, metrics: &Metrics) {
        let space = self.clone();
        metrics.observable_gauge(
            "rollcall.cell.store.full",
            "",
            "1 while the store refuses this process's writes for want of space.",
            move |gauge| gauge.observe(if space.lack().is_some() { 1.0 } else { 0.0 }, &[]),
        );
    }

    fn lack(&self) -> Option<Lack> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn refused(&self, bound: Bound) {
        let now = Instant::now();
        let mut lack = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lack.is_none() {
            tracing::error!("store out of space: {}", bound.remedy());
        }
        *lack = Some(Lack { bound, since: lack.map_or(now, |lack| lack.since), last: now });
    }

    pub(super) fn took(&self) {
        if let Some(lack) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            tracing::warn!(seconds = lack.since.elapsed().as_secs(), "store has space again");
        }
    }

    pub(super) fn heard_a_put(&self) {
        if self.lack().is_some_and(|lack| lack.last.elapsed() > LATE) {
            self.took();
        }
    }
}
