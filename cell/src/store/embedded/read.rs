//! Reads in one read transaction: a key, a page, a piece of the history.
//!
//! Promises that what is read belongs to one revision, whatever is written meanwhile.

use redb::{ReadOnlyTable, ReadTransaction};
use rollcall_model::Revision;

use super::failure::Failure;
use super::tables::{At, COMPACTED, FIRST, HEAD, HISTORY, NUMBERS, VERSIONS, Version, entry_at, number};
use crate::store::{Effect, Entry, Happened, Page, StoreError, limits};

/// Bytes of one answer: what a hop passes on at once, and far from what three regions in one process may use.
const ANSWER_BYTES: usize = 1024 * 1024;
/// Revisions of one answer to a follower.
const ANSWER_REVISIONS: usize = 512;

struct Bounds {
    head: u64,
    compacted: u64,
}

fn bounds(transaction: &ReadTransaction) -> Result<Bounds, Failure> {
    let numbers = transaction.open_table(NUMBERS)?;
    let head = number(&numbers, HEAD)?.unwrap_or(FIRST);
    let compacted = number(&numbers, COMPACTED)?.unwrap_or(0);
    Ok(Bounds { head, compacted })
}

/// The revision that is read, if it can be.
fn pinned(bounds: &Bounds, at: Option<Revision>) -> Result<u64, Failure> {
    let at = at.map_or(bounds.head, |at| at.0);
    if at > bounds.head {
        return Err(StoreError::Ahead(Revision(at)).into());
    }
    if at < bounds.compacted {
        return Err(StoreError::Compacted(Revision(bounds.compacted)).into());
    }
    Ok(at)
}

/// Whether a follower may start at this revision, and the head.
pub(super) fn may_follow(transaction: &ReadTransaction, from: u64) -> Result<(), Failure> {
    let bounds = bounds(transaction)?;
    if from > bounds.head + 1 {
        return Err(StoreError::Ahead(Revision(from)).into());
    }
    if from < bounds.compacted {
        return Err(StoreError::Compacted(Revision(bounds.compacted)).into());
    }
    Ok(())
}

/// One key, and the head.
pub(super) fn get(
    transaction: &ReadTransaction,
    key: &str,
    at: Option<Revision>,
) -> Result<(Option<Entry>, Revision), Failure> {
    let bounds = bounds(transaction)?;
    let at = pinned(&bounds, at)?;
    let entry = entry_at(&transaction.open_table(VERSIONS)?, key, at)?;
    Ok((entry, Revision(bounds.head)))
}

/// A page of entries.
pub(super) fn list(
    transaction: &ReadTransaction,
    prefix: &str,
    after: Option<&str>,
    at: Option<Revision>,
    most: usize,
) -> Result<Page, Failure> {
    let at = pinned(&bounds(transaction)?, at)?;
    let most = most.clamp(1, limits::PAGE_ENTRIES);
    let versions = transaction.open_table(VERSIONS)?;
    let mut entries: Vec<Entry> = Vec::new();
    let mut bytes = 0;
    // A key's successor is the key with the least character behind it.
    let mut from = match after {
        Some(after) if after >= prefix => format!("{after}\0"),
        _ => prefix.to_owned(),
    };
    while let Some(key) = key_from(&versions, &from)?.filter(|key| key.starts_with(prefix)) {
        if let Some(entry) = entry_at(&versions, &key, at)? {
            if entries.len() == most || (bytes > 0 && bytes + entry.value.len() > ANSWER_BYTES) {
                return Ok(Page { entries, more: true, at: Revision(at) });
            }
            bytes += entry.value.len().max(1);
            entries.push(entry);
        }
        from = format!("{key}\0");
    }
    Ok(Page { entries, more: false, at: Revision(at) })
}

/// The first key of the table that is not before this one, whatever became of it.
fn key_from(versions: &ReadOnlyTable<At, Version>, from: &str) -> Result<Option<String>, Failure> {
    match versions.range((from, 0)..)?.next() {
        None => Ok(None),
        Some(row) => Ok(Some(row?.0.value().0.to_owned())),
    }
}

/// What happened from a revision on, as much as one answer holds.
pub(super) fn history(transaction: &ReadTransaction, from: u64) -> Result<Vec<Happened>, Failure> {
    let bounds = bounds(transaction)?;
    if from < bounds.compacted {
        return Err(StoreError::Compacted(Revision(bounds.compacted)).into());
    }
    let versions = transaction.open_table(VERSIONS)?;
    let touched = transaction.open_table(HISTORY)?;
    let mut happened: Vec<Happened> = Vec::new();
    let mut bytes = 0;
    for row in touched.range((from, 0)..)? {
        let (place, key) = row?;
        let revision = place.value().0;
        if happened.last().is_none_or(|last| last.revision.0 != revision) {
            if happened.len() == ANSWER_REVISIONS || bytes > ANSWER_BYTES {
                break;
            }
            happened.push(Happened { revision: Revision(revision), effects: Vec::new() });
        }
        let effect = match entry_at(&versions, key.value(), revision)? {
            Some(entry) => {
                bytes += entry.value.len();
                Effect::Put(entry)
            }
            None => Effect::Removed(key.value().to_owned()),
        };
        if let Some(last) = happened.last_mut() {
            last.effects.push(effect);
        }
    }
    Ok(happened)
}
