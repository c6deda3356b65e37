//! An order-free hash over records that proves two states equal.

use std::fmt;

/// The sum of the records' hashes modulo 2^128: adding or taking away one record is one addition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateDigest(u128);

impl StateDigest {
    /// The digest of nothing.
    pub const EMPTY: Self = Self(0);

    /// With one record more.
    #[must_use]
    pub const fn with(self, record: u128) -> Self {
        Self(self.0.wrapping_add(record))
    }

    /// With one record less.
    #[must_use]
    pub const fn without(self, record: u128) -> Self {
        Self(self.0.wrapping_sub(record))
    }

    /// Sixteen bytes for the wire.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// From the wire.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(|bytes| Self(u128::from_be_bytes(bytes)))
    }
}

impl fmt::Display for StateDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
