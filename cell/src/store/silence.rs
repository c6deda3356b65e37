//! Whether the store answers this process, as its own calls find it, and can be used: what readiness says, refusals say,
//! and the figure.
//!
//! Promises to tell it with the first call that fails, or that waits for an answer for longer than a second, and to
//! take it back with the first that does not; whether reads fail or writes alone. Never here: a call of its own to find
//! out. The keeper's beat asks once a second, the other processes look at the office and hear that beat. Nor a line in
//! the log: the replica and the keeper say what it means for them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rollcall_runtime::meter::Metrics;
use tokio::time::Instant;

use super::StoreError;

/// What the operator is told to do about one that does not answer.
const REMEDY: &str = "what [store] names has to be up and reached from here, and it goes on by itself then";

/// A call that waits for longer than this is told: a store that was frozen, or cut off, says nothing, and the call's own
/// end is seconds away. Answers come within milliseconds, and within a second under any load that was measured.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is known; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Silence(Arc<Mutex<Known>>);

/// The store does not answer, or cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ailing {
    /// What it lacks, in two words.
    pub what: &'static str,
    /// Since when.
    pub lasts: Duration,
    /// What became of the call that failed last, or what was found.
    pub why: String,
    /// What the operator is told to do. It holds no colon, which is what ends the reason before it.
    pub remedy: String,
}

impl fmt::Display for Ailing {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} for {} s: {}: {}", self.what, self.lasts.as_secs(), self.why, self.remedy)
    }
}

/// Which calls: a store whose disk cannot be written may go on to be read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lane {
    Read,
    Write,
}

#[derive(Debug, Default)]
struct Known {
    read: Option<Failed>,
    write: Option<Failed>,
    /// It answers, and what it holds is not ours to go on from; with what to do.
    foreign: Option<(Failed, String)>,
    /// The calls that wait for an answer, in the order in which they began.
    asked: BTreeMap<u64, Instant>,
    next: u64,
}

#[derive(Clone, Debug)]
struct Failed {
    since: Instant,
    why: String,
}

/// A call under way. Dropped without an answer it says nothing: whoever asked lost interest.
#[derive(Debug)]
pub(super) struct Asked {
    silence: Silence,
    lane: Lane,
    id: u64,
}

impl Silence {
    /// How the store fails; `None` while it does not.
    #[must_use]
    pub fn now(&self) -> Option<Ailing> {
        let known = self.known();
        let silent = |since: Instant, why: &str| Ailing {
            what: "no answer",
            lasts: since.elapsed(),
            why: why.to_owned(),
            remedy: REMEDY.to_owned(),
        };
        if let Some(failed) = known.read.iter().chain(&known.write).min_by_key(|failed| failed.since) {
            return Some(silent(failed.since, &failed.why));
        }
        if let Some((Failed { since, why }, remedy)) = &known.foreign {
            let (lasts, why, remedy) = (since.elapsed(), why.clone(), remedy.clone());
            return Some(Ailing { what: "not usable", lasts, why, remedy });
        }
        let since = *known.asked.first_key_value()?.1;
        (since.elapsed() > PATIENCE).then(|| silent(since, "a call waits for its answer"))
    }

    /// What it holds is not ours, and what to do; until [`Self::is_ours`].
    pub(crate) fn is_foreign(&self, error: &StoreError, remedy: String) {
        let mut known = self.known();
        let since = known.foreign.as_ref().map_or_else(Instant::now, |(failed, _)| failed.since);
        known.foreign = Some((Failed { since, why: error.to_string() }, remedy));
    }

    /// What it holds can be gone on from.
    pub(crate) fn is_ours(&self) {
        self.known().foreign = None;
    }

    /// Shows it.
    pub fn register(&self, metrics: &Metrics) {
        let silence = self.clone();
        metrics.observable_gauge(
            "rollcall.cell.store.silent",
            "",
            "1 while the store does not answer this process, or holds what is not ours.",
            move |gauge| gauge.observe(if silence.now().is_some() { 1.0 } else { 0.0 }, &[]),
        );
    }

    /// A call begins.
    pub(super) fn asks(&self, lane: Lane) -> Asked {
        let mut known = self.known();
        let id = known.next;
        known.next += 1;
        known.asked.insert(id, Instant::now());
        Asked { silence: self.clone(), lane, id }
    }

    /// What was waited for without end came, or failed.
    pub(super) fn told<T>(&self, lane: Lane, outcome: &Result<T, StoreError>) {
        let mut known = self.known();
        let slot = match lane {
            Lane::Read => &mut known.read,
            Lane::Write => &mut known.write,
        };
        match outcome {
            Err(error @ (StoreError::Unavailable(_) | StoreError::Late(_) | StoreError::Unknown(_))) => {
                let since = slot.as_ref().map_or_else(Instant::now, |failed| failed.since);
                *slot = Some(Failed { since, why: error.to_string() });
            }
            // What it refuses it answers.
            Ok(_)
            | Err(
                StoreError::Full(_)
                | StoreError::Compacted(_)
                | StoreError::Ahead(_)
                | StoreError::Foreign(..)
                | StoreError::Refused(_),
            ) => *slot = None,
        }
    }

    /// The history went on: the store is read, and it took somebody's write.
    pub(super) fn heard_history(&self) {
        let mut known = self.known();
        (known.read, known.write) = (None, None);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Asked {
    /// Its answer is there, or it failed.
    pub(super) fn answered<T>(self, outcome: Result<T, StoreError>) -> Result<T, StoreError> {
        self.silence.told(self.lane, &outcome);
        outcome
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.silence.known().asked.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::space::Bound;

    fn away() -> Result<(), StoreError> {
        Err(StoreError::Unavailable("nobody is there".into()))
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_call_that_fails_is_told_with_its_reason_and_the_next_answer_takes_it_back() {
        let silence = Silence::default();
        assert_eq!(silence.now(), None);
        let _ = silence.asks(Lane::Read).answered(away());
        tokio::time::advance(Duration::from_secs(3)).await;
        let _ = silence.asks(Lane::Read).answered(away());
        let silent = silence.now().unwrap();
        assert_eq!(silent.lasts, Duration::from_secs(3), "since the first of the row");
        assert!(silent.why.contains("nobody is there"), "{silent:?}");
        let _ = silence.asks(Lane::Read).answered(Err::<(), _>(StoreError::Full(Bound::Quota)));
        assert_eq!(silence.now(), None, "a refusal is an answer");
    }

    #[tokio::test(start_paused = true)]
    async fn writes_that_fail_are_told_beside_reads_that_do_not() {
        let silence = Silence::default();
        let _ = silence.asks(Lane::Write).answered(away());
        let _ = silence.asks(Lane::Read).answered(Ok(()));
        assert!(silence.now().is_some());
        // A process that writes no more hears from the history that others do.
        silence.heard_history();
        assert_eq!(silence.now(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_waits_is_told_before_it_fails_and_forgotten_when_nobody_waits_for_it_any_more() {
        let silence = Silence::default();
        let asked = silence.asks(Lane::Write);
        tokio::time::advance(PATIENCE).await;
        assert_eq!(silence.now(), None);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(silence.now().unwrap().lasts, PATIENCE + Duration::from_millis(1));
        drop(asked);
        assert_eq!(silence.now(), None);
    }
}
