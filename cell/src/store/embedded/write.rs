//! One group in one write transaction, and the removal of old history.
//!
//! Promises etcd's semantics: compares see the state before the commit, a group that changes nothing takes no
//! revision, and effects stand in the history in the order of the group.

use bytes::Bytes;
use redb::{ReadableTable, Table, WriteTransaction};
use rollcall_model::Revision;

use super::failure::Failure;
use super::tables::{At, COMPACTED, FIRST, HEAD, HISTORY, NUMBERS, VERSIONS, Version, entry_at, number};
use crate::store::{Committed, Compare, Group, Op, StoreError, Verdict};

/// Revisions whose old versions go in one transaction: commits wait no longer than for these.
const TRIM_REVISIONS: u64 = 512;

/// What a group did to the tables; the caller commits the transaction if `wrote`.
pub(super) struct Applied {
    pub(super) committed: Committed,
    pub(super) wrote: Option<u64>,
}

struct Tables<'txn> {
    versions: Table<'txn, At, Version>,
    history: Table<'txn, (u64, u32), &'static str>,
    /// The revision that this commit becomes.
    next: u64,
    /// Effects so far.
    effects: u32,
}

/// Applies a group to an open transaction.
pub(super) fn apply(transaction: &WriteTransaction, group: &Group) -> Result<Applied, Failure> {
    let mut numbers = transaction.open_table(NUMBERS)?;
    let head = number(&numbers, HEAD)?.unwrap_or(FIRST);
    let mut tables = Tables {
        versions: transaction.open_table(VERSIONS)?,
        history: transaction.open_table(HISTORY)?,
        next: head + 1,
        effects: 0,
    };
    if !tables.hold(&group.fence)? {
        return Ok(Applied { committed: Committed::Fenced, wrote: None });
    }
    let mut won = Vec::with_capacity(group.writes.len());
    for write in &group.writes {
        won.push(tables.hold(&write.compare)?);
    }
    tables.run(&group.also)?;
    let mut verdicts = Vec::with_capacity(group.writes.len());
    for (write, won) in group.writes.iter().zip(won) {
        if won {
            tables.run(&write.then)?;
            verdicts.push(Verdict::Won);
        } else {
            verdicts.push(Verdict::Lost(entry_at(&tables.versions, &write.otherwise_read, tables.next)?));
        }
    }
    if tables.effects == 0 {
        return Ok(Applied {
            committed: Committed::Done { revision: Revision(head), verdicts },
            wrote: None,
        });
    }
    numbers.insert(HEAD, tables.next)?;
    let revision = Revision(tables.next);
    Ok(Applied { committed: Committed::Done { revision, verdicts }, wrote: Some(tables.next) })
}

impl Tables<'_> {
    /// Whether all compares hold on the state before this commit.
    fn hold(&self, compares: &[Compare]) -> Result<bool, Failure> {
        for compare in compares {
            let before = self.next - 1;
            let holds = match compare {
                Compare::ModRevision(key, revision) => {
                    *revision
                        == entry_at(&self.versions, key, before)?
                            .map_or(Revision(0), |entry| entry.mod_revision)
                }
                Compare::CreateRevision(key, revision) => {
                    *revision
                        == entry_at(&self.versions, key, before)?
                            .map_or(Revision(0), |entry| entry.create_revision)
                }
            };
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn run(&mut self, ops: &[Op]) -> Result<(), Failure> {
        for op in ops {
            match op {
                Op::Put(key, value) => self.put(key, value)?,
                Op::Remove(key) => self.remove(key)?,
            }
        }
        Ok(())
    }

    fn put(&mut self, key: &str, value: &Bytes) -> Result<(), Failure> {
        let before = entry_at(&self.versions, key, self.next)?;
        let create = before.map_or(self.next, |entry| entry.create_revision.0);
        self.versions.insert((key, self.next), Some((create, value.as_ref())))?;
        self.note(key)
    }

    fn remove(&mut self, key: &str) -> Result<(), Failure> {
        if entry_at(&self.versions, key, self.next)?.is_none() {
            return Ok(());
        }
        self.versions.insert((key, self.next), None)?;
        self.note(key)
    }

    fn note(&mut self, key: &str) -> Result<(), Failure> {
        self.history.insert((self.next, self.effects), key)?;
        self.effects += 1;
        Ok(())
    }
}

/// Makes everything before this revision unreadable; the rows go with [`trim`].
pub(super) fn forget(transaction: &WriteTransaction, before: u64) -> Result<(), Failure> {
    let mut numbers = transaction.open_table(NUMBERS)?;
    if before > number(&numbers, HEAD)?.unwrap_or(FIRST) {
        return Err(StoreError::Ahead(Revision(before)).into());
    }
    if before > number(&numbers, COMPACTED)?.unwrap_or(0) {
        numbers.insert(COMPACTED, before)?;
    }
    Ok(())
}

/// Removes rows that no reader may ask for any more; true when there are none left. It starts at the oldest row
/// of the history, so that a trim that was cut off goes on where it stopped.
pub(super) fn trim(transaction: &WriteTransaction) -> Result<bool, Failure> {
    let compacted = number(&transaction.open_table(NUMBERS)?, COMPACTED)?.unwrap_or(0);
    let mut history = transaction.open_table(HISTORY)?;
    let mut versions = transaction.open_table(VERSIONS)?;
    let Some(oldest) = history.first()?.map(|(row, _)| row.value().0) else { return Ok(true) };
    if oldest >= compacted {
        return Ok(true);
    }
    let end = compacted.min(oldest.saturating_add(TRIM_REVISIONS));
    let mut touched = Vec::new();
    for row in history.range((oldest, 0)..(end, 0))? {
        touched.push(row?.1.value().to_owned());
    }
    touched.sort_unstable();
    touched.dedup();
    for key in &touched {
        drop_versions(&mut versions, key, compacted)?;
    }
    history.retain_in((oldest, 0)..(end, 0), |_, _| false)?;
    Ok(end >= compacted)
}

/// Keeps of a key the version that is read at the compacted revision, and all later ones.
fn drop_versions(versions: &mut Table<'_, At, Version>, key: &str, compacted: u64) -> Result<(), Failure> {
    let newest = match versions.range((key, 0)..=(key, compacted))?.next_back() {
        None => return Ok(()),
        Some(row) => {
            let (found, value) = row?;
            let revision = found.value().1;
            // A removal needs no row where there is nothing older that it hides.
            if value.value().is_none() { revision + 1 } else { revision }
        }
    };
    versions.retain_in((key, 0)..(key, newest), |_, _| false)?;
    Ok(())
}
