//! Changes, deltas and bookmarks: what travels from hop to hop.

use std::sync::Arc;
use std::time::Duration;

use crate::digest::StateDigest;
use crate::name::{InstanceId, Region};
use crate::position::{Epoch, Position, Revision};
use crate::registration::Registration;
use crate::time::Timestamp;

/// Why a registration is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RemovalReason {
    /// Its owner said so.
    Deregistered,
    /// Its lease lapsed and the keeper removed it.
    Expired,
    /// An operator removed it.
    Evicted,
    /// A registration took the id over. In deltas that is a plain put.
    Replaced,
}

/// Who removed it: `owner`, `keeper` or `operator:<name>`.
pub type Actor = Arc<str>;

/// One removal, with everything that a reader may ask about it later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// Which registration.
    pub id: InstanceId,
    /// Its epoch.
    pub epoch: Epoch,
    /// Why.
    pub reason: RemovalReason,
    /// Who.
    pub actor: Actor,
    /// The keeper's term, when the keeper did it.
    pub term: Option<u64>,
    /// When the removing cell wrote it, for people.
    pub at: Timestamp,
    /// At which revision.
    pub revision: Revision,
}

/// One put, or one removal with its reason, at one revision.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The registration as it now is; its `revision` is the change's.
    Put(Arc<Registration>),
    /// It is gone.
    Remove(Arc<Removal>),
}

impl Change {
    /// Which instance.
    #[must_use]
    pub fn id(&self) -> &InstanceId {
        match self {
            Self::Put(registration) => &registration.declared.id,
            Self::Remove(removal) => &removal.id,
        }
    }

    /// At which revision.
    #[must_use]
    pub fn revision(&self) -> Revision {
        match self {
            Self::Put(registration) => registration.revision,
            Self::Remove(removal) => removal.revision,
        }
    }
}

/// All changes from one position to the next.
///
/// States that the changes listed are all there were in (`from`, `to`]. It therefore continues any true state at a
/// position in [`from`, `to`): a change that the state already has is put again to the same effect. Two publishers
/// that cut the same history into different deltas are harmless for that reason (promise I34).
#[derive(Clone, Debug, PartialEq)]
pub struct Delta {
    /// Whose history.
    pub region: Region,
    /// Where it starts: the end of the change before.
    pub from: Position,
    /// Where it ends: the last of its changes.
    pub to: Position,
    /// The changes in order of revision; of one instance the last one counts.
    pub changes: Vec<Change>,
}

/// "Nothing new up to here": makes age measurable, and lets every holder prove itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bookmark {
    /// Whose history.
    pub region: Region,
    /// The end of the last change at or before `position`.
    pub from: Position,
    /// Up to where.
    pub position: Position,
    /// How many registrations there are at it.
    pub count: u64,
    /// Their digest.
    pub digest: StateDigest,
    /// How old this statement was when it was sent on; `None` when whoever sent it does not know.
    pub age: Option<Duration>,
    /// What the clock of whoever sends it showed when it was made: on a watch, for whoever follows. A log has none.
    pub stamp: Option<Duration>,
}

impl RemovalReason {
    /// Every reason.
    pub const ALL: [Self; 4] = [Self::Deregistered, Self::Expired, Self::Evicted, Self::Replaced];

    /// The contract's word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deregistered => "deregistered",
            Self::Expired => "expired",
            Self::Evicted => "evicted",
            Self::Replaced => "replaced",
        }
    }

    /// Reads the word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}
