//! Questions to the store for its head, which make the age of the replica honest over any way (I20, I21).
//!
//! The history comes through a watch, and how long it was under way nothing in it tells. So the head is asked for now and
//! then; the answer need not be waited for by anybody. What to conclude is the model's ([`Heads`]). A question is a
//! linearizable read: what a member says of itself, as etcd's progress notifications are, may be old.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use rollcall_model::{Clock, Heads, Instant, Revision};
use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep_until;

use crate::store::{Store, StoreError, keys};

/// Between two questions: how much too old a state is made by it, at most. A process that waits for the keeper's office
/// reads as often.
const EVERY: Duration = Duration::from_millis(250);
/// Questions without an answer, at most: over a way of a second there are as many.
const UNDER_WAY: usize = 4;

/// When it was asked, and the head.
type Answer = (Instant, Result<Revision, StoreError>);

/// The questions beside one followed history. What is asked ends with them.
pub(super) struct Questions<S> {
    store: Arc<S>,
    clock: Clock,
    heads: Heads,
    due: tokio::time::Instant,
    asked: JoinSet<Answer>,
}

impl<S: Store> Questions<S> {
    /// Of the history whose head was asked for at `asked` already, and was this.
    pub(super) fn after(store: &Arc<S>, clock: &Clock, asked: Instant, head: Revision) -> Self {
        let mut heads = Heads::default();
        heads.answered(asked, head);
        let (store, clock, due) = (Arc::clone(store), clock.clone(), tokio::time::Instant::now());
        Self { store, clock, heads, due, asked: JoinSet::new() }
    }

    /// Asks, and takes the answers in. Dropping it loses nothing.
    pub(super) async fn go_on(&mut self) -> Infallible {
        loop {
            tokio::select! {
                Some(answer) = self.asked.join_next() => take(&mut self.heads, answer),
                () = sleep_until(self.due), if self.asked.len() < UNDER_WAY => {
                    self.due = tokio::time::Instant::now() + EVERY;
                    let (store, asked) = (Arc::clone(&self.store), self.clock.now());
                    self.asked.spawn(async move {
                        (asked, store.get(keys::BEAT, None).await.map(|(_, head)| head))
                    });
                }
            }
        }
    }

    /// How old a state is now that has come to `revision`; `None` when no answer tells.
    pub(super) fn age(&mut self, revision: Revision) -> Option<Duration> {
        // What was answered meanwhile is not left for the next time.
        while let Some(answer) = self.asked.try_join_next() {
            take(&mut self.heads, answer);
        }
        self.heads.reached(revision).map(|asked| self.clock.now().since(asked))
    }
}

/// Without an answer the age grows, and the next question is on its way.
fn take(heads: &mut Heads, answer: Result<Answer, JoinError>) {
    if let Ok((asked, Ok(head))) = answer {
        heads.answered(asked, head);
    }
}
