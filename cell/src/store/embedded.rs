//! The store of one machine: etcd's semantics on a redb file, or in memory.
//!
//! Promises that a commit that was answered is on disk, that groups are committed in the order in which they were
//! handed in, and that the runtime's threads never wait for the disk. One process holds a file at a time, so the
//! keeper's election is among candidates of this process, and each tenure's term is higher than all before it.
//!
//! Never here: history that is forgotten unasked. The caller compacts.

mod failure;
mod medium;
mod read;
mod tables;
mod write;

use std::path::Path;
use std::sync::Arc;

use redb::{CommitError, ReadTransaction, ReadableTable as _, WriteTransaction};
use rollcall_model::Revision;
use tokio::sync::{Mutex, watch};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use self::failure::Failure;
use self::medium::Medium;
use self::tables::{NAMES, REGION};
use super::{
    Committed, Compare, Entry, Follow, Group, Happened, Hold, Op, Page, Store, StoreError, Tenure, rules,
};

/// The key of the keeper's office.
const OFFICE: &str = "keeper/office";

/// The embedded store. A clone is a handle to the same store; the file is let go with the last one.
#[derive(Clone)]
pub struct Embedded {
    shared: Arc<Shared>,
}

struct Shared {
    medium: Medium,
    /// Held by the one that writes; fair, so that groups keep their order.
    turn: Arc<Mutex<()>>,
    /// The last revision that was committed, for followers to wait on.
    head: watch::Sender<u64>,
    /// The present keeper's `lost`; the lock is the queue of candidates.
    office: Mutex<CancellationToken>,
}

impl Embedded {
    /// Makes an empty store in memory, which ends with its last handle.
    ///
    /// # Errors
    /// When there is no memory left.
    pub fn memory() -> Result<Self, StoreError> {
        let (medium, head) = Medium::memory()?;
        Ok(Self::of(medium, head))
    }

    /// Opens the store in a file, or makes an empty one there. Waits for the disk: call it at start.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when another process has it open or it is no file of ours.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let (medium, head) = Medium::file(path)?;
        Ok(Self::of(medium, head))
    }

    /// The same store, if it is this region's. A store that nobody has named yet becomes it: its registrations, epochs
    /// and history are one region's and would be another's lies. Waits for the disk: call it at start.
    ///
    /// # Errors
    /// [`StoreError::Refused`] when it is another region's.
    pub fn of_region(self, region: &str) -> Result<Self, StoreError> {
        let named = self.shared.medium.write(|transaction| {
            let was = {
                let mut names = transaction.open_table(NAMES)?;
                let was = names.get(REGION)?.map(|found| found.value().to_owned());
                if was.is_none() {
                    names.insert(REGION, region)?;
                }
                was
            };
            if was.is_none() {
                transaction.commit()?
            } else {
                transaction.abort()?
            }
            Ok(was)
        });
        match named.map_err(|Failure(error)| error)? {
            Some(other) if other != region => Err(StoreError::Refused(format!(
                "it is the store of region {other} and not of {region}: say region = \"{other}\", or another data_dir"
            ))),
            Some(_) | None => Ok(self),
        }
    }

    fn of(medium: Medium, head: u64) -> Self {
        let vacant = CancellationToken::new();
        vacant.cancel();
        Self {
            shared: Arc::new(Shared {
                medium,
                turn: Arc::new(Mutex::new(())),
                head: watch::Sender::new(head),
                office: Mutex::new(vacant),
            }),
        }
    }

    /// Writes in turn: `work` fills the transaction and says whether it is worth a commit, and of which revision.
    async fn write<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: FnOnce(&WriteTransaction) -> Result<(T, Wrote), Failure> + Send + 'static,
    {
        let turn = Arc::clone(&self.shared.turn).lock_owned().await;
        self.shared
            .run(StoreError::Unknown, move |shared| {
                let _turn = turn;
                if let Some(head) = shared.medium.mend()? {
                    shared.head.send_replace(head);
                }
                let (answer, wrote, ended) = shared.medium.write(|transaction| {
                    let (answer, wrote) = work(&transaction)?;
                    let ended = match wrote {
                        Wrote::Nothing => {
                            transaction.abort()?;
                            Ok(())
                        }
                        Wrote::Rows | Wrote::Revision(_) => transaction.commit(),
                    };
                    Ok((answer, wrote, ended))
                })?;
                if let Err(error) = ended {
                    return Err(shared.settle(error));
                }
                if let Wrote::Revision(revision) = wrote {
                    shared.head.send_replace(revision);
                }
                Ok(answer)
            })
            .await
    }

    async fn read<T, R>(&self, work: R) -> Result<T, StoreError>
    where
        T: Send + 'static,
        R: FnOnce(&ReadTransaction) -> Result<T, Failure> + Send + 'static,
    {
        self.shared.read(work).await
    }
}

/// What a write transaction holds.
enum Wrote {
    Nothing,
    Rows,
    Revision(u64),
}

impl Shared {
    /// Runs work that may wait for the disk. In memory it is done in place: nothing waits there, and a test with a
    /// paused clock stays in step.
    async fn run<T, W>(self: &Arc<Self>, ended: fn(String) -> StoreError, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: FnOnce(&Self) -> Result<T, Failure> + Send + 'static,
    {
        let done = if self.medium.may_wait() {
            let shared = Arc::clone(self);
            match spawn_blocking(move || work(&shared)).await {
                Ok(done) => done,
                Err(error) => return Err(ended(error.to_string())),
            }
        } else {
            work(self)
        };
        done.map_err(|Failure(error)| error)
    }

    /// Finds out what a commit that failed has left, by opening the file again: redb then goes back to the last state
    /// that is whole. Only the one whose turn it is to write may call this.
    fn settle(&self, error: CommitError) -> Failure {
        let before = *self.head.borrow();
        self.medium.distrust();
        match self.medium.mend() {
            Ok(Some(head)) if head == before => failure::undone(error),
            // It is there, but the disk has not said that it will be there tomorrow.
            Ok(Some(head)) => {
                self.head.send_replace(head);
                error.into()
            }
            Ok(None) | Err(_) => error.into(),
        }
    }

    async fn read<T, R>(self: &Arc<Self>, work: R) -> Result<T, StoreError>
    where
        T: Send + 'static,
        R: FnOnce(&ReadTransaction) -> Result<T, Failure> + Send + 'static,
    {
        self.run(StoreError::Unavailable, |shared| shared.medium.read(work)).await
    }
}

impl Store for Embedded {
    type Follow = EmbeddedFollow;

    async fn commit(&self, group: Group) -> Result<Committed, StoreError> {
        rules::check(&group)?;
        self.write(move |transaction| {
            let applied = write::apply(transaction, &group)?;
            Ok((applied.committed, applied.wrote.map_or(Wrote::Nothing, Wrote::Revision)))
        })
        .await
    }

    async fn get(&self, key: &str, at: Option<Revision>) -> Result<(Option<Entry>, Revision), StoreError> {
        at.map_or(Ok(()), rules::check_revision)?;
        let key = key.to_owned();
        self.read(move |transaction| read::get(transaction, &key, at)).await
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        at: Option<Revision>,
        most: usize,
    ) -> Result<Page, StoreError> {
        at.map_or(Ok(()), rules::check_revision)?;
        let (prefix, after) = (prefix.to_owned(), after.map(str::to_owned));
        self.read(move |transaction| read::list(transaction, &prefix, after.as_deref(), at, most)).await
    }

    async fn follow(&self, from: Revision) -> Result<EmbeddedFollow, StoreError> {
        rules::check_revision(from)?;
        let head = self.shared.head.subscribe();
        self.read(move |transaction| read::may_follow(transaction, from.0)).await?;
        Ok(EmbeddedFollow { shared: Arc::clone(&self.shared), head, next: from.0 })
    }

    async fn campaign(&self, candidate: &str) -> Result<Tenure, StoreError> {
        let mut office = self.shared.office.lock().await;
        office.cancelled().await;
        let take = Op::Put(OFFICE.to_owned(), candidate.to_owned().into());
        let group = Group { also: vec![take], ..Group::default() };
        match self.commit(group).await? {
            Committed::Done { revision, .. } => {
                let lost = CancellationToken::new();
                *office = lost.clone();
                let fence = Compare::ModRevision(OFFICE.to_owned(), revision);
                // The next one here cancels `lost` in the same process, before it may win.
                Ok(Tenure::new(revision.0, fence, lost.drop_guard(), Hold::for_ever()))
            }
            Committed::Fenced => Err(StoreError::Refused("an unfenced group was fenced".to_owned())),
        }
    }

    async fn resign(&self, tenure: &Tenure) {
        // First this one knows, then others may win.
        tenure.lost.cancel();
        let leave = Op::Remove(OFFICE.to_owned());
        let group = Group { fence: vec![tenure.fence.clone()], also: vec![leave], ..Group::default() };
        // If this fails the next keeper overwrites the key, which ends this tenure just as well.
        if let Err(error) = self.commit(group).await {
            tracing::warn!(%error, "office not vacated");
        }
    }

    async fn compact(&self, before: Revision) -> Result<(), StoreError> {
        rules::check_revision(before)?;
        self.write(move |transaction| Ok((write::forget(transaction, before.0)?, Wrote::Rows))).await?;
        while !self.write(|transaction| Ok((write::trim(transaction)?, Wrote::Rows))).await? {}
        Ok(())
    }
}

/// The embedded store's history as it happens.
pub struct EmbeddedFollow {
    shared: Arc<Shared>,
    head: watch::Receiver<u64>,
    next: u64,
}

impl Follow for EmbeddedFollow {
    async fn next(&mut self) -> Result<Vec<Happened>, StoreError> {
        let next = self.next;
        // The sender lives in `shared`, so it outlives this wait.
        if self.head.wait_for(|head| *head >= next).await.is_err() {
            return Err(StoreError::Unavailable("the store is closed".to_owned()));
        }
        let happened = self.shared.read(move |transaction| read::history(transaction, next)).await?;
        match happened.last() {
            Some(last) => self.next = last.revision.0 + 1,
            None => return Err(StoreError::Unavailable(format!("revision {next} has no history"))),
        }
        Ok(happened)
    }
}
