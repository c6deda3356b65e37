//! A complete state at one position, with count and digest, and how it is put together from pages.

use std::sync::Arc;

use crate::digest::StateDigest;
use crate::name::Region;
use crate::position::Position;
use crate::registration::Registration;
use crate::state::{Gathered, State};

/// What a snapshot claims about itself before its records come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotHead {
    /// Whose state.
    pub region: Region,
    /// At which position.
    pub position: Position,
    /// How many registrations.
    pub count: u64,
    /// Their digest.
    pub digest: StateDigest,
}

/// A complete, verified state of one region at one position. Only [`SnapshotBuilder::finish`] and a view make one.
#[derive(Clone, Debug)]
pub struct Snapshot {
    head: SnapshotHead,
    state: State,
}

/// Why pages are no snapshot. The state that was there stays (promise I22).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unverified {
    /// More or fewer records than claimed: an empty or short read.
    Count,
    /// Other records than claimed.
    Digest,
}

/// Collects the pages of one snapshot.
#[derive(Clone, Debug)]
pub struct SnapshotBuilder {
    head: SnapshotHead,
    gathered: Gathered,
}

impl SnapshotBuilder {
    /// Begins with what is claimed.
    #[must_use]
    pub fn begin(head: SnapshotHead) -> Self {
        Self { head, gathered: Gathered::default() }
    }

    /// What is claimed.
    #[must_use]
    pub const fn head(&self) -> &SnapshotHead {
        &self.head
    }

    /// Takes some records, in any order; quickest in order of id.
    pub fn add(&mut self, records: impl IntoIterator<Item = Arc<Registration>>) {
        records.into_iter().for_each(|one| self.gathered.add(one));
    }

    /// Compares what came with what was claimed.
    ///
    /// # Errors
    /// Count or digest differ; nothing of it may be used.
    pub fn finish(self) -> Result<Snapshot, Unverified> {
        let state = self.gathered.finish();
        if state.count() != self.head.count {
            return Err(Unverified::Count);
        }
        if state.digest() != self.head.digest {
            return Err(Unverified::Digest);
        }
        Ok(Snapshot { head: self.head, state })
    }
}

impl Snapshot {
    /// The statement of a holder about a state it has itself: the store's replica read it at one revision.
    #[must_use]
    pub fn of(region: Region, position: Position, state: State) -> Self {
        let head = SnapshotHead { region, position, count: state.count(), digest: state.digest() };
        Self { head, state }
    }

    /// Region, position, count and digest.
    #[must_use]
    pub const fn head(&self) -> &SnapshotHead {
        &self.head
    }

    /// The registrations.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Takes it apart.
    #[must_use]
    pub fn into_parts(self) -> (SnapshotHead, State) {
        (self.head, self.state)
    }
}

impl Unverified {
    /// A word for logs and for `last_resync`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Count => "snapshot_count",
            Self::Digest => "snapshot_digest",
        }
    }
}
