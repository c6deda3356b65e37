//! How many renewals were judged, by what became of them.
//!
//! Renewals are by far the most frequent calls, many in one message: counting one costs one addition.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rollcall_model::Code;
use rollcall_runtime::meter::{KeyValue, Metrics};

use crate::refusal::Refusal;

/// The counts of one process; clones share them.
#[derive(Clone, Default)]
pub struct Renewals(Arc<[AtomicU64; 4]>);

/// In the order of the counts. `failed` is neither: nobody could judge it.
const OUTCOMES: [&str; 4] = ["ok", "superseded", "not_registered", "failed"];

impl Renewals {
    /// Shows them.
    pub fn register(&self, metrics: &Metrics) {
        let counts = self.clone();
        metrics.observable_counter(
            "rollcall.cell.lease.renewals",
            "{renewal}",
            "Renewals that this process answered, alone, in batches and in sessions.",
            move |counter| {
                for (count, outcome) in counts.0.iter().zip(OUTCOMES) {
                    counter.observe(count.load(Ordering::Relaxed), &[KeyValue::new("outcome", outcome)]);
                }
            },
        );
    }

    /// So many were renewed in one message.
    pub(super) fn count_renewed(&self, many: u64) {
        if let Some(count) = self.0.first() {
            count.fetch_add(many, Ordering::Relaxed);
        }
    }

    pub(super) fn count<T>(&self, judged: &Result<T, Refusal>) {
        let at = match judged.as_ref().map_err(|refusal| refusal.code) {
            Ok(_) => 0,
            Err(Code::Superseded) => 1,
            Err(Code::NotRegistered) => 2,
            Err(_) => 3,
        };
        if let Some(count) = self.0.get(at) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}
