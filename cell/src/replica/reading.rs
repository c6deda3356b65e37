//! The region's state as the store has it, read by pages pinned to one revision.

mod pages;

use std::collections::BTreeMap;
use std::time::Duration;

use rollcall_model::{InstanceId, Region, Revision, Sharing, State};

use crate::store::keys::{self, Key};
use crate::store::{Entry, Store, StoreError};
use crate::translate::{is_readable, join};
use pages::Pages;

/// A state with the revision that it was read at.
pub(super) struct Read {
    pub(super) state: State,
    pub(super) at: Revision,
    /// Keys that are none of ours, or hold nothing that can be read.
    pub(super) foreign: Vec<String>,
}

/// Whether somebody waits for what is read.
#[derive(Clone, Debug)]
pub(super) enum Pace {
    /// Readers of this region do: a reading that takes long is told.
    Awaited(Region),
    /// Nobody does: it rests between two pages.
    Resting(Duration),
}

/// Reads everything at one revision: the given one, or the store's head.
///
/// # Errors
/// As the store's; [`StoreError::Compacted`] when the revision is no longer there.
pub(super) async fn state<S: Store>(
    store: &S,
    pinned: Option<Revision>,
    pace: Pace,
) -> Result<Read, StoreError> {
    let mut pages = Pages::new(store, pinned, pace);
    let (owned, _) = pages.all(keys::OWNED).await?;
    let (registrations, at) = pages.all(keys::REGISTRATIONS).await?;
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
    pace: Pace,
) -> Result<(Vec<Entry>, Revision), StoreError> {
    Pages::new(store, pinned, pace).all(prefix).await
}
