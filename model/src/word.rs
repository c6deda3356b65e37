//! What an index finds registrations by: the hash of a word.
//!
//! The text is not kept, so that a look-up touches nothing but the map. Two words of one hash would be one; they do not
//! occur by chance, and whoever makes them on purpose can declare the other word as well.

use xxhash_rust::xxh3::xxh3_128;

/// The hash of a word, the same in every process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(pub(crate) u128);

impl Word {
    /// The word of a text.
    pub(crate) fn of(text: &str) -> Self {
        Self(xxh3_128(text.as_bytes()))
    }
}
