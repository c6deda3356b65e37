//! Incarnation, revision, their pair, and the epoch that is made of them.

use std::fmt;
use std::sync::Arc;

use crate::code::{Code, Invalid};

/// One unbroken history of a cell's store: an ordinal that only rises, and a unique id.
///
/// Text form `<ordinal>-<id>`, characters `[0-9a-z-]`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Incarnation {
    ordinal: u16,
    id: Arc<str>,
}

/// Highest ordinal that fits an epoch (12 bits): four thousand restores of one region.
const ORDINAL_MAX: u16 = (1 << 12) - 1;
/// Bits of an epoch that hold the revision: a thousand writes a second for 34 years.
const REVISION_BITS: u32 = 40;

impl Incarnation {
    /// Makes an incarnation; the ordinal starts at 1.
    ///
    /// # Errors
    /// Refuses an ordinal over 4,095 and an id outside `[0-9a-z-]`.
    pub fn new(ordinal: u16, id: &str) -> Result<Self, Invalid> {
        let fits = (1..=ORDINAL_MAX).contains(&ordinal)
            && !id.is_empty()
            && id.len() <= 64
            && id.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_lowercase() || b == b'-');
        if !fits {
            return Err(Invalid::new(
                Code::InvalidParameter,
                "incarnation",
                format!("{ordinal}-{id} is no incarnation"),
            ));
        }
        Ok(Self { ordinal, id: id.into() })
    }

    /// Reads the text form.
    ///
    /// # Errors
    /// Refuses anything that [`Incarnation::new`] would.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let bad =
            || Invalid::new(Code::InvalidParameter, "incarnation", format!("{text:?} is no incarnation"));
        let (ordinal, id) = text.split_once('-').ok_or_else(bad)?;
        if ordinal.starts_with('0') || ordinal.starts_with('+') {
            return Err(bad());
        }
        let ordinal = ordinal.parse().map_err(|_| bad())?;
        Self::new(ordinal, id)
    }

    /// Counts the histories of the region; the newer one has the higher ordinal.
    #[must_use]
    pub const fn ordinal(&self) -> u16 {
        self.ordinal
    }

    /// The unique part of the incarnation.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }
}

/// A point in one incarnation's history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// A point in the history of one region: the only thing that is ever compared across hops.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Position {
    /// Which history.
    pub incarnation: Incarnation,
    /// Which point of it.
    pub revision: Revision,
}

/// How one position stands to another of the same region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The same incarnation; by revision.
    Same(std::cmp::Ordering),
    /// The other history is newer: its ordinal is higher.
    OlderHistory,
    /// The other history is older.
    NewerHistory,
    /// Two histories claim the same ordinal: two registries use one region's name (fault F52).
    Conflict,
}

impl Position {
    /// Makes a position.
    #[must_use]
    pub const fn new(incarnation: Incarnation, revision: Revision) -> Self {
        Self { incarnation, revision }
    }

    /// How `self` stands to `other`. Revisions of different incarnations are never compared.
    #[must_use]
    pub fn relation(&self, other: &Self) -> Relation {
        if self.incarnation == other.incarnation {
            return Relation::Same(self.revision.cmp(&other.revision));
        }
        match self.incarnation.ordinal.cmp(&other.incarnation.ordinal) {
            std::cmp::Ordering::Less => Relation::OlderHistory,
            std::cmp::Ordering::Greater => Relation::NewerHistory,
            std::cmp::Ordering::Equal => Relation::Conflict,
        }
    }

    /// Reads `<incarnation>:<revision>`.
    ///
    /// # Errors
    /// Says that the text is no position.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let bad = || {
            Invalid::new(
                Code::InvalidParameter,
                "since",
                format!("{text:?} is no position: <incarnation>:<revision>"),
            )
        };
        let (incarnation, revision) = text.split_once(':').ok_or_else(bad)?;
        if revision.is_empty() || !revision.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad());
        }
        Ok(Self {
            incarnation: Incarnation::parse(incarnation).map_err(|_| bad())?,
            revision: Revision(revision.parse().map_err(|_| bad())?),
        })
    }
}

/// Rises at every registration of an instance and fences late writers.
///
/// It is the revision at which the registration was written, qualified by the incarnation's ordinal; 52 bits, so that
/// it survives languages whose numbers are doubles. It needs no counter and never falls, also across deletion,
/// compaction and restore (promise I03).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u64);

impl Epoch {
    /// The epoch of a registration written at `revision` of the incarnation with this ordinal.
    ///
    /// # Panics
    /// When the revision does not fit 40 bits, which is I03's ground: an epoch that wraps would fall.
    #[must_use]
    pub fn new(ordinal: u16, revision: Revision) -> Self {
        assert!(revision.0 < 1 << REVISION_BITS, "I03: revision {} does not fit an epoch", revision.0);
        assert!(ordinal <= ORDINAL_MAX, "I03: ordinal {ordinal} does not fit an epoch");
        Self((u64::from(ordinal) << REVISION_BITS) | revision.0)
    }

    /// The number as it travels.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Takes a number that travelled. Any 52-bit number is some epoch; whether it was issued is the registry's to say.
    #[must_use]
    pub const fn from_wire(number: u64) -> Option<Self> {
        if number >> 52 == 0 { Some(Self(number)) } else { None }
    }

    /// The revision inside.
    #[must_use]
    pub const fn revision(self) -> Revision {
        Revision(self.0 & ((1 << REVISION_BITS) - 1))
    }

    /// The incarnation's ordinal inside.
    #[must_use]
    pub const fn ordinal(self) -> u16 {
        // 52 - 40 = 12 bits always fit.
        #[allow(clippy::cast_possible_truncation)]
        let ordinal = (self.0 >> REVISION_BITS) as u16;
        ordinal
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ordinal, self.id)
    }
}
impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.incarnation, self.revision)
    }
}
impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Epoch({}@{})", self.ordinal(), self.revision())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_reads_back_from_its_text() {
        let position = Position::new(Incarnation::new(3, "0f-9a").unwrap(), Revision(42));
        assert_eq!(position.to_string(), "3-0f-9a:42");
        assert_eq!(Position::parse("3-0f-9a:42").unwrap(), position);
    }

    #[test]
    fn what_is_no_position_is_refused() {
        for text in [
            "", "1", "1:2", "1-a", "1-a:", "1-a:-1", "1-a:+1", "0-a:1", "9999-a:1", "01-a:1", "1-A:1", "1-:1",
        ] {
            assert!(Position::parse(text).is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn i03_an_epoch_of_a_newer_incarnation_is_higher_at_any_revision() {
        assert!(Epoch::new(2, Revision(5)) > Epoch::new(1, Revision((1 << 40) - 1)));
        let epoch = Epoch::new(4_095, Revision(7));
        assert_eq!((epoch.ordinal(), epoch.revision()), (4_095, Revision(7)));
        assert_eq!(Epoch::from_wire(epoch.get()), Some(epoch));
        assert_eq!(Epoch::from_wire(1 << 52), None);
    }

    #[test]
    fn two_histories_with_one_ordinal_are_a_conflict() {
        let at =
            |ordinal, id, revision| Position::new(Incarnation::new(ordinal, id).unwrap(), Revision(revision));
        assert_eq!(at(1, "a", 9).relation(&at(1, "b", 1)), Relation::Conflict);
        assert_eq!(at(1, "a", 9).relation(&at(2, "b", 1)), Relation::OlderHistory);
        assert_eq!(at(1, "a", 9).relation(&at(1, "a", 10)), Relation::Same(std::cmp::Ordering::Less));
    }
}
