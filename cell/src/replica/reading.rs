//! The region's state as the store has it, read by pages pinned to one revision.

use std::collections::BTreeMap;
use std::time::Duration;

use rollcall_model::{InstanceId, Revision, Sharing, State};

use crate::store::keys::{self, Key};
use crate::store::{Entry, Store, StoreError, limits};
use crate::translate::{is_readable, join};

/// A state with the revision that it was read at.
pub(super) struct Read {
    pub(super) state: State,
    pub(super) at: Revision,
    /// Keys that are none of ours, or hold nothing that can be read.
    pub(super) foreign: Vec<String>,
}

/// Reads everything at one revision: the given one, or the store's head. Rests between pages when nobody waits for it.
///
/// # Errors
/// As the store's; [`StoreError::Compacted`] when the revision is no longer there.
pub(super) async fn state<S: Store>(
    store: &S,
    pinned: Option<Revision>,
    rest: Duration,
) -> Result<Read, StoreError> {
    let (owned, at) = all(store, keys::OWNED, pinned, rest).await?;
    let (registrations, at) = all(store, keys::REGISTRATIONS, Some(at), rest).await?;
    let owned: BTreeMap<InstanceId, Entry> = owned
        .into_iter()
        .filter_map(|entry| match keys::parse(&entry.key) {
            Key::Owned(id) => Some((id, entry)),
            _ => None,
        })
        .collect();
    let unreadable = owned.values().filter(|entry| !is_readable(entry));
    let mut foreign: Vec<_> = unreadable.map(|entry| entry.key.clone()).collect();
    let mut records = Vec::new();
    let mut sharing = Sharing::default();
    for entry in registrations {
        let joined = match keys::parse(&entry.key) {
            Key::Registration(id) => join(&id, &entry, owned.get(&id)),
            _ => None,
        };
        match joined {
            Some(registration) => records.push(sharing.take(registration)),
            None => foreign.push(entry.key),
        }
    }
    Ok(Read { state: State::of(records), at, foreign })
}

/// Everything under a prefix, at one revision.
///
/// # Errors
/// As for [`state`].
pub(super) async fn all<S: Store>(
    store: &S,
    prefix: &str,
    pinned: Option<Revision>,
    rest: Duration,
) -> Result<(Vec<Entry>, Revision), StoreError> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut at = pinned;
    loop {
        let after = entries.last().map(|entry| entry.key.clone());
        let page = store.list(prefix, after.as_deref(), at, limits::PAGE_ENTRIES).await?;
        at = Some(page.at);
        entries.extend(page.entries);
        if !page.more {
            return Ok((entries, page.at));
        }
        if !rest.is_zero() {
            tokio::time::sleep(rest).await;
        }
    }
}
