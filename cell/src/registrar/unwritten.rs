//! What owners reported with a renewal while the store could not take it: kept in this process, and written as soon as
//! the store takes it.
//!
//! A renewal is answered whatever becomes of its report, so the answer does not say that the report was written. An
//! owner that repeats its report with each beat, as the SDK does, needs nothing of this; one that says a word once must
//! not have said it in vain because the store was full or slow for a while.
//!
//! Promises that a word is written only while readers still see what it was said against: what was said since, at
//! whichever process, counts more. Never here: more than [`WORDS_MAX`] of them, or one that outlives its process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use rollcall_model::{Code, Epoch, InstanceId, Lifecycle};
use tokio_util::sync::CancellationToken;

use super::{Registrar, Report};
use crate::refusal::Refusal;

/// Most words kept: as many as writes may wait for the store.
const WORDS_MAX: usize = 4_096;
/// Between two tries: a word is late by so much at most, and a full store is asked no more often than by its keeper.
const AGAIN: Duration = Duration::from_secs(1);
/// Written together: half a group, so that others find room in it.
const TOGETHER: usize = 60;

/// The words of one process; clones share them.
#[derive(Clone, Default)]
pub struct Unwritten {
    words: Arc<Mutex<BTreeMap<InstanceId, Word>>>,
    /// How many, so that a renewal finds out without the lock that there are none.
    count: Arc<AtomicUsize>,
}

#[derive(Clone, Debug, PartialEq)]
struct Word {
    epoch: Epoch,
    report: Report,
    /// What readers saw when it was said.
    against: Lifecycle,
}

impl Unwritten {
    fn words(&self) -> MutexGuard<'_, BTreeMap<InstanceId, Word>> {
        // The lock guards plain data without invariants across a panic.
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, id: &InstanceId, word: Word) {
        let mut words = self.words();
        if words.len() < WORDS_MAX || words.contains_key(id) {
            words.insert(id.clone(), word);
        }
        self.count.store(words.len(), Ordering::Release);
    }

    /// Forgets what was kept of an instance: it was written, or something newer was said.
    pub(super) fn forget(&self, id: &InstanceId) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut words = self.words();
        words.remove(id);
        self.count.store(words.len(), Ordering::Release);
    }

    fn forget_if(&self, id: &InstanceId, word: &Word) {
        if self.words().get(id) == Some(word) {
            self.forget(id);
        }
    }
}

impl Registrar {
    /// Keeps a report that the store did not take, unless the store has nothing to do with it.
    pub(super) fn keep_unwritten(&self, id: &InstanceId, epoch: Epoch, report: Report) {
        if let Some(current) = self.current(id).filter(|current| current.epoch == epoch) {
            self.unwritten.keep(id, Word { epoch, report, against: current.owned.lifecycle });
        }
    }

    /// Writes what was not written, until cancelled.
    pub(crate) async fn write_unwritten(self, cancel: CancellationToken) {
        loop {
            tokio::select! {
                () = cancel.cancelled() => return,
                () = tokio::time::sleep(AGAIN) => {}
            }
            let words: Vec<_> = self.unwritten.words().clone().into_iter().collect();
            for words in words.chunks(TOGETHER) {
                let written = join_all(words.iter().map(|(id, word)| self.write_word(id, word))).await;
                if written.contains(&false) {
                    break;
                }
            }
        }
    }

    /// `false` when the store does not take it still.
    async fn write_word(&self, id: &InstanceId, word: &Word) -> bool {
        let written = self.write_report(id, word.epoch, &word.report, Some(word.against)).await;
        match written {
            Err(refusal) if is_the_stores(&refusal) => false,
            Ok(()) | Err(_) => {
                tracing::debug!(%id, "a report that had to wait was written, or is of no use any more");
                self.unwritten.forget_if(id, word);
                true
            }
        }
    }
}

/// Whether the store may take later what it did not take now.
pub(super) fn is_the_stores(refusal: &Refusal) -> bool {
    matches!(refusal.code, Code::StoreUnavailable | Code::OutcomeUnknown | Code::Overloaded)
}
