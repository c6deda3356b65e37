//! Which history the store holds: read, founded, or founded anew after a restore.

use std::sync::Arc;

use rollcall_model::{Incarnation, Revision};
use rollcall_proto::store::{decode_incarnation, encode_incarnation};

use crate::store::{Committed, Compare, Group, Op, Store, StoreError, keys};

/// The incarnation with the revision its key was written at: every write stands under that fence, so that nothing
/// decided in one history is written into another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Founding {
    /// The history's name.
    pub incarnation: Incarnation,
    /// When its key was written.
    pub revision: Revision,
}

impl Founding {
    /// Holds only in this history.
    #[must_use]
    pub fn fence(&self) -> Compare {
        Compare::ModRevision(keys::INCARNATION.into(), self.revision)
    }
}

/// Reads the founding; founds the store if it has none. `known` is the highest ordinal this cell remembers.
///
/// # Errors
/// The store cannot be reached; [`StoreError::Foreign`] for an incarnation that no version of ours wrote.
pub async fn read_or_found<S: Store>(
    store: &S,
    known: u16,
    fresh_id: fn() -> String,
) -> Result<(Founding, Revision), StoreError> {
    loop {
        let (entry, head) = store.get(keys::INCARNATION, None).await?;
        if let Some(entry) = entry {
            let incarnation = decode_incarnation(&entry.value)
                .map_err(|error| StoreError::Foreign(keys::INCARNATION, error.to_string()))?;
            return Ok((Founding { incarnation, revision: entry.mod_revision }, head));
        }
        // Another process may found it first: then its founding is read on the next round.
        found(store, Revision(0), known + 1, &fresh_id()).await?;
    }
}

/// Declares a new history after the one whose key was written at `seen`. Somebody else may have been faster.
///
/// # Errors
/// The store cannot be reached.
pub async fn found<S: Store>(store: &S, seen: Revision, ordinal: u16, id: &str) -> Result<bool, StoreError> {
    let incarnation = Incarnation::new(ordinal, id).map_err(|finding| StoreError::Refused(finding.detail))?;
    let group = Group {
        fence: vec![Compare::ModRevision(keys::INCARNATION.into(), seen)],
        also: vec![Op::Put(keys::INCARNATION.into(), encode_incarnation(&incarnation))],
        writes: Vec::new(),
    };
    Ok(matches!(store.commit(group).await?, Committed::Done { .. }))
}

/// The founding as everybody in the process sees it; none while the store was never reached.
pub type CurrentFounding = tokio::sync::watch::Receiver<Option<Arc<Founding>>>;
