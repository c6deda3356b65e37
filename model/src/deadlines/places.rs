//! Where the lease of an instance stands: a number for each id, found by the hash of its text.
//!
//! Promises: nothing depends on the order of the tables, which have none; whoever chooses ids cannot choose them so that
//! they fall together, because the hash has a key that they do not know; whoever comes waits for a part of the others
//! at most. The texts stay with the leases. Never here: a lease.

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A table that grows moves all that it has. With so many of them that is 4,000 of a million, a fraction of a
/// millisecond.
const PARTS: usize = 256;

/// The places, under one key.
#[derive(Clone, Debug)]
pub(super) struct Places {
    parts: Vec<HashTable<u32>>,
    len: usize,
    key: u64,
}

impl Default for Places {
    fn default() -> Self {
        Self::under_key(0)
    }
}

/// The part that a hash belongs to. The tables go by its lowest and its highest bits.
const fn part(hash: u64) -> usize {
    (hash >> 32) as usize % PARTS
}

impl Places {
    /// None yet.
    pub(super) fn under_key(key: u64) -> Self {
        Self { parts: vec![HashTable::new(); PARTS], len: 0, key }
    }

    fn hash(&self, id: &str) -> u64 {
        xxh3_64_with_seed(id.as_bytes(), self.key)
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// The place of an id; `id_at` tells whose a place is.
    pub(super) fn get<'a>(&self, id: &str, id_at: impl Fn(u32) -> Option<&'a str>) -> Option<u32> {
        let hash = self.hash(id);
        self.parts.get(part(hash))?.find(hash, |place| id_at(*place) == Some(id)).copied()
    }

    /// Takes in a place for an id that has none.
    pub(super) fn insert<'a>(&mut self, id: &str, place: u32, id_at: impl Fn(u32) -> Option<&'a str>) {
        let (hash, key) = (self.hash(id), self.key);
        let hash_of = |place: &u32| xxh3_64_with_seed(id_at(*place).unwrap_or_default().as_bytes(), key);
        if let Some(part) = self.parts.get_mut(part(hash)) {
            part.insert_unique(hash, place, hash_of);
            self.len += 1;
        }
    }

    /// Gives up the place of an id.
    pub(super) fn remove<'a>(&mut self, id: &str, id_at: impl Fn(u32) -> Option<&'a str>) -> Option<u32> {
        let hash = self.hash(id);
        let found =
            self.parts.get_mut(part(hash))?.find_entry(hash, |place| id_at(*place) == Some(id)).ok()?;
        self.len -= 1;
        Some(found.remove().0)
    }
}
