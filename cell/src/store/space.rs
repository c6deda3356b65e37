//! Whether the store has space, as the writes of this process find it: the alarm, the figure, and what readiness says.
//!
//! Promises one line at the beginning of a lack and one at its end, whoever writes how often. Never here: a write of
//! its own to find out; the keeper's beat asks once a second anyway, and the others hear that beat again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rollcall_runtime::meter::Metrics;
use tokio::time::Instant;

/// What the operator is told to do, in the alarm, in readiness and in refusals alike.
pub const REMEDY: &str = "renewals go on and nothing new is written: compact and defragment the store or give it more \
                          space; an etcd then wants `etcdctl alarm disarm`";
/// A put that is heard may have been written before the last refusal, and be late by so much.
const LATE: Duration = Duration::from_secs(5);

/// What is known; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Space(Arc<Mutex<Option<Lack>>>);

#[derive(Clone, Copy, Debug)]
struct Lack {
    since: Instant,
    last: Instant,
}

impl Space {
    /// Since when there is none; `None` while there is.
    #[must_use]
    pub fn lacks_for(&self) -> Option<Duration> {
        self.lack().map(|lack| lack.since.elapsed())
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

    pub(super) fn refused(&self) {
        let now = Instant::now();
        let mut lack = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lack.is_none() {
            tracing::error!("store out of space: {REMEDY}");
        }
        *lack = Some(Lack { since: lack.map_or(now, |lack| lack.since), last: now });
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
