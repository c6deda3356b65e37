//! What is kept where: every version of every key, which keys each revision touched, three numbers and a name.
//!
//! A pinned read and a follower look at the same rows, so that both are exact by construction; only compaction
//! removes rows. Never here: transactions.

use bytes::Bytes;
use redb::{ReadableTable, TableDefinition};
use rollcall_model::Revision;

use super::failure::Failure;
use crate::store::Entry;

/// Key and revision.
pub(super) type At = (&'static str, u64);
/// Create revision and value, or nothing where the key was removed.
pub(super) type Version = Option<(u64, &'static [u8])>;

/// Every version of every key.
pub(super) const VERSIONS: TableDefinition<'static, At, Version> = TableDefinition::new("versions");
/// (revision, place in it) → the key that was touched.
pub(super) const HISTORY: TableDefinition<'static, (u64, u32), &str> = TableDefinition::new("history");
/// The numbers below, by name.
pub(super) const NUMBERS: TableDefinition<'static, &str, u64> = TableDefinition::new("numbers");

/// The names below, by what they name.
pub(super) const NAMES: TableDefinition<'static, &str, &str> = TableDefinition::new("names");

/// The region whose store it is; none in a file that no region has opened yet.
pub(super) const REGION: &str = "region";

/// The last revision that was committed.
pub(super) const HEAD: &str = "head";
/// The first revision that can still be read and followed from.
pub(super) const COMPACTED: &str = "compacted";
/// Which layout the file has.
pub(super) const LAYOUT: &str = "layout";
/// The layout of this source.
pub(super) const LAYOUT_NOW: u64 = 1;
/// The head of a store in which nothing was written yet, as in etcd.
pub(super) const FIRST: u64 = 1;

/// Reads one of the numbers.
pub(super) fn number(
    numbers: &impl ReadableTable<&'static str, u64>,
    name: &str,
) -> Result<Option<u64>, Failure> {
    Ok(numbers.get(name)?.map(|found| found.value()))
}

/// The key as it was at a revision.
pub(super) fn entry_at(
    versions: &impl ReadableTable<At, Version>,
    key: &str,
    at: u64,
) -> Result<Option<Entry>, Failure> {
    let Some(row) = versions.range((key, 0)..=(key, at))?.next_back() else { return Ok(None) };
    let (found, value) = row?;
    Ok(value.value().map(|(create, value)| Entry {
        key: key.to_owned(),
        value: Bytes::copy_from_slice(value),
        create_revision: Revision(create),
        mod_revision: Revision(found.value().1),
    }))
}
