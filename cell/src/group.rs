//! Group commit: writes that arrive together go to the store as one transaction.
//!
//! Each keeps its own compare, so one that lost takes no other with it. An instance appears at most once in a group,
//! because all compares are judged on the state before it. What to take is decided by a pure plan.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use rollcall_model::{Clock, InstanceId, Position, Relation, Revision, View, limits as model_limits};
use rollcall_proto::store::{Gone, encode_removal};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use crate::founding::Founding;
use crate::store::{Committed, Group, Op, Store, StoreError, Verdict, Write, keys, limits};

/// One write that waits for company.
pub struct Submission {
    /// Which instance it is about.
    pub id: InstanceId,
    /// The write.
    pub write: Write,
    /// Why the registration vanishes, if it does.
    pub gone: Option<Gone>,
    /// The history it was decided in.
    pub founding: Arc<Founding>,
    answer: oneshot::Sender<Answer>,
}

/// What became of one write.
pub type Answer = Result<Outcome, StoreError>;

/// A write that reached the store and was judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its compares held, at this revision.
    Won(Revision),
    /// They did not; this is what stands there.
    Lost(Option<crate::store::Entry>),
    /// The store holds another history by now; nothing was written.
    OtherHistory,
}

/// The door to group commit. Cheap to clone.
#[derive(Clone)]
pub struct Groups {
    queue: mpsc::Sender<Submission>,
}

/// Writes waiting for a group: a second of full groups. Above it the cell says "overloaded" at once.
const QUEUE: usize = 4_096;
/// Groups on their way at once: while the store works on one the next one fills. More would make each smaller, and
/// what etcd spends on a group as such would be shared by fewer.
const IN_FLIGHT: usize = 2;
/// How long a group waits for company while others are on their way.
const LINGER: std::time::Duration = std::time::Duration::from_millis(1);

impl Groups {
    /// The door, and what its task takes from.
    #[must_use]
    pub fn new() -> (Self, mpsc::Receiver<Submission>) {
        let (queue, submissions) = mpsc::channel(QUEUE);
        (Self { queue }, submissions)
    }

    /// Hands a write in and waits for its verdict. `None` when there is no room: nothing was written.
    pub async fn commit(
        &self,
        id: InstanceId,
        write: Write,
        gone: Option<Gone>,
        founding: Arc<Founding>,
    ) -> Option<Answer> {
        let (answer, verdict) = oneshot::channel();
        self.queue.try_send(Submission { id, write, gone, founding, answer }).ok()?;
        // The task ends only with the process; what was sent then is unknown, not failed.
        Some(verdict.await.unwrap_or_else(|_| Err(StoreError::Unknown("the cell is stopping".into()))))
    }
}

/// Carries groups to the store until every door is dropped. Answers come when `view`, the own replica, shows the write,
/// so that an owner reads what it wrote; it is waited for once a group, not once a write.
pub async fn run<S: Store>(
    store: Arc<S>,
    mut submissions: mpsc::Receiver<Submission>,
    view: watch::Receiver<Arc<View>>,
    clock: Clock,
) {
    let slots = Arc::new(Semaphore::new(IN_FLIGHT));
    let mut waiting = VecDeque::new();
    let mut sent = tokio::task::JoinSet::new();
    loop {
        while sent.try_join_next().is_some() {}
        if waiting.is_empty() {
            match submissions.recv().await {
                Some(submission) => waiting.push_back(submission),
                None => break,
            }
        }
        if slots.available_permits() < IN_FLIGHT {
            tokio::time::sleep(LINGER).await;
        }
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { break };
        while waiting.len() < QUEUE {
            match submissions.try_recv() {
                Ok(submission) => waiting.push_back(submission),
                Err(_) => break,
            }
        }
        let taken = take(&mut waiting);
        let store = Arc::clone(&store);
        let (clock, mut view) = (clock.clone(), view.clone());
        sent.spawn(async move {
            let Some(founding) = taken.first().map(|first| Arc::clone(&first.founding)) else { return };
            let result = commit(&*store, &taken, &clock).await;
            // The next group need not wait for this one to be shown.
            drop(slot);
            if let Ok(Committed::Done { revision, .. }) = &result {
                shown(&mut view, &Position::new(founding.incarnation.clone(), *revision)).await;
            }
            answer(taken, result);
        });
    }
    while sent.join_next().await.is_some() {}
}

/// Takes what may go together, in order of arrival: one history, each instance once, within the store's limits.
/// Always takes the first.
fn take(waiting: &mut VecDeque<Submission>) -> Vec<Submission> {
    let mut taken: Vec<Submission> = Vec::with_capacity(waiting.len().min(limits::WRITES_MAX));
    let mut left = VecDeque::new();
    let mut ids = HashSet::new();
    let (mut bytes, mut operations) = (0, 0);
    while let Some(submission) = waiting.pop_front() {
        let more = write_bytes(&submission.write);
        let width = submission.write.then.len().max(submission.write.compare.len());
        let fits = taken.first().is_none_or(|first| {
            taken.len() < limits::WRITES_MAX
                && bytes + more <= limits::GROUP_BYTES_MAX
                && operations + width <= limits::OPERATIONS_CHEAP
                && first.founding == submission.founding
        });
        // An instance that stays behind keeps its later writes behind it.
        if ids.insert(submission.id.clone()) && fits {
            bytes += more;
            operations += width;
            taken.push(submission);
        } else {
            left.push_back(submission);
            if operations + 1 >= limits::OPERATIONS_CHEAP {
                break;
            }
        }
    }
    left.append(waiting);
    *waiting = left;
    taken
}

fn write_bytes(write: &Write) -> usize {
    let op = |op: &Op| match op {
        Op::Put(key, value) => key.len() + value.len() + 16,
        Op::Remove(key) => key.len() + 16,
    };
    write.then.iter().map(op).sum::<usize>() + 64
}

async fn commit<S: Store>(store: &S, taken: &[Submission], clock: &Clock) -> Result<Committed, StoreError> {
    let gone: Vec<Gone> = taken.iter().filter_map(|s| s.gone.clone()).collect();
    let also = if gone.is_empty() {
        Vec::new()
    } else {
        vec![Op::Put(keys::REMOVAL.into(), encode_removal(&gone, clock.wall()))]
    };
    let fence = taken.first().map(|first| first.founding.fence()).into_iter().collect();
    let writes = taken.iter().map(|s| s.write.clone()).collect();
    store.commit(Group { fence, also, writes }).await
}

/// Waits until the own replica shows a position; not for ever, because the write is done anyway.
async fn shown(view: &mut watch::Receiver<Arc<View>>, position: &Position) {
    let reached = view.wait_for(|view| {
        view.position().is_some_and(|own| match own.relation(position) {
            Relation::Same(order) => order.is_ge(),
            Relation::NewerHistory => true,
            Relation::OlderHistory | Relation::Conflict => false,
        })
    });
    let _ = tokio::time::timeout(model_limits::AHEAD_WAIT, reached).await;
}

fn answer(taken: Vec<Submission>, result: Result<Committed, StoreError>) {
    match result {
        Ok(Committed::Done { revision, verdicts }) => {
            // I15: a write without a verdict was not acknowledged by the store; it is unknown.
            let mut verdicts = verdicts.into_iter();
            for submission in taken {
                let answer = match verdicts.next() {
                    Some(Verdict::Won) => Ok(Outcome::Won(revision)),
                    Some(Verdict::Lost(entry)) => Ok(Outcome::Lost(entry)),
                    None => Err(StoreError::Unknown("the store gave no verdict".into())),
                };
                let _ = submission.answer.send(answer);
            }
        }
        Ok(Committed::Fenced) => {
            for submission in taken {
                let _ = submission.answer.send(Ok(Outcome::OtherHistory));
            }
        }
        Err(error) => {
            for submission in taken {
                let _ = submission.answer.send(Err(error.clone()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use rollcall_model::Incarnation;

    fn submission(id: &str, founding: u64, bytes: usize) -> Submission {
        let id = InstanceId::parse(id).unwrap();
        let write = Write {
            compare: Vec::new(),
            then: vec![Op::Put(keys::registration(&id), Bytes::from(vec![0; bytes]))],
            otherwise_read: String::new(),
        };
        let founding = Arc::new(Founding {
            incarnation: Incarnation::new(1, "a").unwrap(),
            revision: Revision(founding),
        });
        Submission { id, write, gone: None, founding, answer: oneshot::channel().0 }
    }

    fn ids(taken: &[Submission]) -> Vec<&str> {
        taken.iter().map(|s| s.id.as_str()).collect()
    }

    #[test]
    fn an_instance_appears_once_in_a_group_and_keeps_its_order() {
        let mut waiting: VecDeque<_> =
            ["a/b/1", "a/b/2", "a/b/1", "a/b/3"].iter().map(|id| submission(id, 1, 1)).collect();
        assert_eq!(ids(&take(&mut waiting)), ["a/b/1", "a/b/2", "a/b/3"]);
        assert_eq!(ids(&take(&mut waiting)), ["a/b/1"]);
        assert!(waiting.is_empty());
    }

    #[test]
    fn a_group_stays_within_the_limits_of_the_store() {
        let mut waiting: VecDeque<_> = (0..250).map(|n| submission(&format!("a/b/{n}"), 1, 1)).collect();
        assert_eq!(
            [take(&mut waiting).len(), take(&mut waiting).len(), take(&mut waiting).len()],
            [120, 120, 10]
        );
        let mut waiting: VecDeque<_> = (0..130).map(|n| submission(&format!("a/b/{n}"), 1, 1)).collect();
        for removal in &mut waiting {
            removal.write.then.push(Op::Remove(keys::owned(&removal.id)));
        }
        assert_eq!(
            [take(&mut waiting).len(), take(&mut waiting).len(), take(&mut waiting).len()],
            [60, 60, 10]
        );
        let mut waiting: VecDeque<_> = (0..20).map(|n| submission(&format!("a/b/{n}"), 1, 130_000)).collect();
        assert_eq!(take(&mut waiting).len(), 8);
    }

    #[test]
    fn writes_of_two_histories_never_share_a_group() {
        let mut waiting: VecDeque<_> =
            [submission("a/b/1", 1, 1), submission("a/b/2", 2, 1), submission("a/b/3", 1, 1)].into();
        assert_eq!(ids(&take(&mut waiting)), ["a/b/1", "a/b/3"]);
        assert_eq!(ids(&take(&mut waiting)), ["a/b/2"]);
    }
}
