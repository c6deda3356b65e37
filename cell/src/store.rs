//! The port onto the region's store: conditional writes in groups, pinned reads, and its history followed.
//!
//! Two adapters, one contract suite: `etcd` for regions that run, `embedded` for one machine and for tests. Keys are
//! plain (`reg/ops/mail/1`); each adapter puts the region's prefix before them. The semantics are etcd's: one
//! revision per commit, compares judged on the state before it, a key put at most once in it.
//!
//! Dropping a read loses nothing. Dropping a commit leaves its outcome open, as [`StoreError::Unknown`] does.
//!
//! Never here: what a key means. That is `keys` and the use cases.

#[cfg(any(test, feature = "testing"))]
pub mod contract;
pub mod embedded;
pub mod etcd;
pub mod keys;
pub mod noticed;
mod rules;
pub mod silence;
pub mod space;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use rollcall_model::Revision;
use space::Bound;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A condition on the state before the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The key was last written at this revision; 0 means that it does not exist.
    ModRevision(String, Revision),
    /// The key came into being at this revision; 0 means that it does not exist.
    CreateRevision(String, Revision),
}

/// One effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Writes the key.
    Put(String, Bytes),
    /// Removes the key; nothing happens if it does not exist.
    Remove(String),
}

/// One write among others: its effects happen if all its compares hold, whatever becomes of the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// All must hold.
    pub compare: Vec<Compare>,
    /// What happens then.
    pub then: Vec<Op>,
    /// What is read if they do not hold, so that the caller sees what it lost against.
    pub otherwise_read: String,
}

/// Writes that are committed together, at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// All must hold, or nothing of the group happens.
    pub fence: Vec<Compare>,
    /// Effects beside the writes, under the fence alone.
    pub also: Vec<Op>,
    /// The writes. No key may be touched by two of them.
    pub writes: Vec<Write>,
}

impl Group {
    /// Everything that it does if all its compares hold.
    pub fn effects(&self) -> impl Iterator<Item = &Op> {
        self.also.iter().chain(self.writes.iter().flat_map(|write| &write.then))
    }

    /// Whether it may put anything: a store without space goes on to take what only removes.
    #[must_use]
    pub fn puts(&self) -> bool {
        self.effects().any(|effect| matches!(effect, Op::Put(..)))
    }
}

/// What became of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    /// The fence did not hold; nothing was written.
    Fenced,
    /// The fence held; each write has its verdict, in order.
    Done {
        /// The commit's revision, if anything was written; else the head.
        revision: Revision,
        /// One for each write.
        verdicts: Vec<Verdict>,
    },
}

/// What became of one write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its compares held and its effects happened.
    Won,
    /// A compare did not hold; this is what `otherwise_read` holds.
    Lost(Option<Entry>),
}

/// A key with its value and history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key, without the region's prefix.
    pub key: String,
    /// Its value.
    pub value: Bytes,
    /// When it came into being.
    pub create_revision: Revision,
    /// When it was last written.
    pub mod_revision: Revision,
}

/// A page of entries in order of key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The entries.
    pub entries: Vec<Entry>,
    /// Whether there are more behind the last one.
    pub more: bool,
    /// The revision that all of it was read at.
    pub at: Revision,
}

/// One revision of the store's history, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    /// Which revision.
    pub revision: Revision,
    /// Entries written, and keys removed, in order.
    pub effects: Vec<Effect>,
}

/// One key's part in a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The key was written.
    Put(Entry),
    /// The key was removed.
    Removed(String),
}

/// Why the store did not do it. Each says whether anything was written and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Nothing was written; try again later.
    #[error("the store cannot be reached: {0}")]
    Unavailable(String),
    /// A read that was not answered in time; nothing was written. A smaller one may be: the way to the store can be slow.
    #[error("the store cannot be reached: {0}")]
    Late(String),
    /// It may or may not have been written: only a read can tell.
    #[error("the outcome of the write is unknown: {0}")]
    Unknown(String),
    /// Nothing was written; the store has no space left within this bound.
    #[error("the store is out of space")]
    Full(Bound),
    /// The history is gone at least up to this revision; read the whole state.
    #[error("the history before revision {0} is gone")]
    Compacted(Revision),
    /// That revision has not been reached: the history is another one, or this member lags.
    #[error("revision {0} is ahead of the store")]
    Ahead(Revision),
    /// What stands under this key of ours is nothing that a cell wrote; nothing was written, and nobody but a person can
    /// mend it.
    #[error("the store holds under {0} what no cell wrote: {1}")]
    Foreign(&'static str, String),
    /// The request breaks a rule of the store: a defect of ours.
    #[error("the store refuses the request: {0}")]
    Refused(String),
}

/// The keeper's office, won in an election among the cell's processes.
///
/// It is held while a clone of this lives: with the last one the office is given up, and `lost` is cancelled.
#[derive(Clone, Debug)]
pub struct Tenure {
    /// Rises with every keeper.
    pub term: u64,
    /// Stands in each write of the keeper: holds only while the office is held (promise I10).
    pub fence: Compare,
    /// Cancelled when the office is lost or may be.
    pub lost: CancellationToken,
    /// Until when it is certain that nobody else holds the office.
    pub hold: Hold,
    /// What holds the office; adapters watch `lost`.
    _office: Arc<DropGuard>,
}

impl Tenure {
    pub(crate) fn new(term: u64, fence: Compare, office: DropGuard, hold: Hold) -> Self {
        let lost = office.token().clone();
        Self { term, fence, lost, hold, _office: Arc::new(office) }
    }
}

/// Until when an office is certainly held; it grows with every renewal of the office. It is asked in place, before each
/// judgement: a process that slept answers what waits in its sockets before any of its tasks hears that the office is
/// lost.
#[derive(Clone, Debug)]
pub struct Hold {
    zero: Instant,
    /// Milliseconds after `zero`.
    until: Arc<AtomicU64>,
}

impl Hold {
    /// For ever: where a process cannot lose its office to another.
    #[must_use]
    pub fn for_ever() -> Self {
        Self { zero: Instant::now(), until: Arc::new(AtomicU64::new(u64::MAX)) }
    }

    /// Until a moment, and no longer unless it is prolonged.
    #[must_use]
    pub fn until(moment: Instant) -> Self {
        let hold = Self { zero: Instant::now(), until: Arc::default() };
        hold.prolong(moment);
        hold
    }

    /// Until a later moment.
    pub fn prolong(&self, moment: Instant) {
        let after = moment.saturating_duration_since(self.zero).as_millis();
        self.until.store(u64::try_from(after).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Whether it lasts still.
    #[must_use]
    pub fn lasts(&self) -> bool {
        self.zero.elapsed().as_millis() < u128::from(self.until.load(Ordering::SeqCst))
    }
}

/// The store of one region.
pub trait Store: Send + Sync + 'static {
    /// The followed history.
    type Follow: Follow;

    /// Commits a group atomically at one revision.
    ///
    /// # Errors
    /// [`StoreError::Refused`] for a group over one of the [`limits`] or with a key in it twice.
    /// [`StoreError::Unknown`] when the request was sent and no answer came: never reported as done or as failed.
    fn commit(&self, group: Group) -> impl Future<Output = Result<Committed, StoreError>> + Send;

    /// Reads one key, at a revision or at the head (then linearizable), with the store's head at that moment.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] or [`StoreError::Ahead`] for a revision that cannot be read.
    fn get(
        &self,
        key: &str,
        at: Option<Revision>,
    ) -> impl Future<Output = Result<(Option<Entry>, Revision), StoreError>> + Send;

    /// Reads at most `most` entries whose key begins with `prefix`, after the key `after`, pinned to a revision.
    /// Large values make a page shorter than asked for; [`Page::more`] tells, and it holds one entry at least.
    ///
    /// # Errors
    /// As [`Store::get`]; [`StoreError::Late`] when a smaller page may be answered where this one was not.
    fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        at: Option<Revision>,
        most: usize,
    ) -> impl Future<Output = Result<Page, StoreError>> + Send;

    /// Follows everything of the region from this revision on, itself included.
    ///
    /// # Errors
    /// [`StoreError::Ahead`] for a start behind the head's successor. When the store cannot be reached. A compacted
    /// start may also show up as the first item.
    fn follow(&self, from: Revision) -> impl Future<Output = Result<Self::Follow, StoreError>> + Send;

    /// Stands for the keeper's office and waits until it is won. `candidate` is the address others reach it at: it
    /// stands under [`keys::OFFICE`], and of the keys there the one that was written first, at the revision that is
    /// its term, belongs to whoever is in office.
    ///
    /// # Errors
    /// When the store cannot be reached; campaign again later.
    fn campaign(&self, candidate: &str) -> impl Future<Output = Result<Tenure, StoreError>> + Send;

    /// Gives the office up, so that another need not wait for its lease to lapse.
    fn resign(&self, tenure: &Tenure) -> impl Future<Output = ()> + Send;

    /// Forgets the history before this revision, which itself can still be read and followed from.
    ///
    /// # Errors
    /// [`StoreError::Ahead`] above the head. When the store cannot be reached.
    fn compact(&self, before: Revision) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// The store's history as it happens.
pub trait Follow: Send + 'static {
    /// The next revisions, whole and in order; at least one. May wait for ever when nothing happens. Dropping the
    /// future loses nothing: the next call goes on where the last completed one ended.
    ///
    /// # Errors
    /// The stream is over: read the state again or follow again from the last revision + 1.
    fn next(&mut self) -> impl Future<Output = Result<Vec<Happened>, StoreError>> + Send;
}

/// Each of the store's limits, with its reason.
pub mod limits {
    /// Writes in one group: with what stands beside them and their own effects they stay under
    /// [`OPERATIONS_MAX`].
    pub const WRITES_MAX: usize = 120;
    /// Operations or compares down one branch of a group (`also` + writes + the largest write's): etcd's default.
    pub const OPERATIONS_MAX: usize = 128;
    /// Effects, or compares, of a group that is still cheap: up to here etcd takes them side by side, at half the
    /// price of nested ones.
    pub const OPERATIONS_CHEAP: usize = 120;
    /// Bytes in one group: etcd takes 1.5 MiB.
    pub const GROUP_BYTES_MAX: usize = 1024 * 1024;
    /// Entries of one page of a pinned read, at most: an answer of a few milliseconds.
    pub const PAGE_ENTRIES: usize = 500;
}
