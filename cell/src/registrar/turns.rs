//! The writers of one instance, one after the other.
//!
//! An instance appears once in a group of the store, and every write compares what it was decided on: of many that were
//! decided at once all but one would lose, each in a group of its own, and again. So whoever writes an instance takes
//! its turn first, and decides when it has it. Turns are taken in the order of asking. Never here: writers of other
//! processes; against them the compare alone decides.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rollcall_model::{Code, InstanceId};
use tokio::sync::{Mutex as Waiting, OwnedMutexGuard};

use crate::refusal::Refusal;

/// All turns that are taken or waited for. Cheap to clone.
#[derive(Clone, Default)]
pub struct Turns {
    lanes: Arc<Mutex<HashMap<InstanceId, Lane>>>,
}

/// The writers of one instance.
#[derive(Default)]
struct Lane {
    /// Those that have the turn or wait for it.
    writers: usize,
    turn: Arc<Waiting<()>>,
}

/// One turn; it ends when it is dropped.
pub(super) struct Turn {
    _turn: OwnedMutexGuard<()>,
    _place: Place,
}

/// Somebody who has a turn or waits for one.
struct Place {
    turns: Turns,
    id: InstanceId,
}

/// Writers of one instance that may wait: what a store takes of one instance in ten seconds. More is no deployment that
/// starts at once, and whoever is refused comes back.
const WRITERS_MOST: usize = 4_096;

impl Turns {
    /// Waits for the turn of this instance.
    ///
    /// # Errors
    /// Too many wait already; nothing was written.
    pub(super) async fn take(&self, id: &InstanceId) -> Result<Turn, Refusal> {
        let (place, turn) = self.queue(id).ok_or_else(|| {
            Refusal::new(Code::Overloaded, format!("too many write {id} at once; nothing was written"))
        })?;
        Ok(Turn { _turn: turn.lock_owned().await, _place: place })
    }

    fn queue(&self, id: &InstanceId) -> Option<(Place, Arc<Waiting<()>>)> {
        let mut lanes = self.lanes();
        let lane = lanes.entry(id.clone()).or_default();
        if lane.writers >= WRITERS_MOST {
            return None;
        }
        lane.writers += 1;
        Some((Place { turns: self.clone(), id: id.clone() }, Arc::clone(&lane.turn)))
    }

    fn lanes(&self) -> MutexGuard<'_, HashMap<InstanceId, Lane>> {
        // The lock guards plain counts without invariants across a panic.
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lanes = self.turns.lanes();
        if let Some(lane) = lanes.get_mut(&self.id) {
            lane.writers -= 1;
            if lane.writers == 0 {
                lanes.remove(&self.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rollcall_model::testing::id;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn turns_are_taken_in_order_one_at_a_time_and_leave_nothing() {
        let turns = Turns::default();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let first = turns.take(&id("a/b/1")).await.unwrap();
        let other = tokio::time::timeout(Duration::from_secs(1), turns.take(&id("a/b/2"))).await;
        drop(other.expect("another instance waits for nobody").unwrap());
        let mut waiting = tokio::task::JoinSet::new();
        for nth in 0..20 {
            let (turns, seen) = (turns.clone(), Arc::clone(&seen));
            waiting.spawn(async move {
                let turn = turns.take(&id("a/b/1")).await.unwrap();
                seen.lock().unwrap().push(nth);
                tokio::time::sleep(Duration::from_millis(1)).await;
                drop(turn);
            });
            tokio::task::yield_now().await;
        }
        assert!(seen.lock().unwrap().is_empty(), "the first one has it");
        // One that gives up while it waits leaves the others their order.
        let gone = tokio::time::timeout(Duration::from_millis(5), turns.take(&id("a/b/1"))).await;
        assert!(gone.is_err());
        drop(first);
        while waiting.join_next().await.is_some() {}
        assert_eq!(*seen.lock().unwrap(), (0..20).collect::<Vec<_>>());
        assert!(turns.lanes.lock().unwrap().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn one_too_many_is_refused_at_once() {
        let turns = Turns::default();
        let first = turns.take(&id("a/b/1")).await.unwrap();
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 1..WRITERS_MOST {
            let turns = turns.clone();
            waiting.spawn(async move { turns.take(&id("a/b/1")).await.map(drop) });
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        let refusal = turns.take(&id("a/b/1")).await.err().expect("no room");
        assert_eq!((refusal.code, refusal.retry_after.is_some()), (Code::Overloaded, true));
        drop(first);
        while let Some(taken) = waiting.join_next().await {
            taken.unwrap().unwrap();
        }
        assert!(turns.take(&id("a/b/1")).await.is_ok());
    }
}
