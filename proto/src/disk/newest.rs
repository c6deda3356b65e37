//! Which of a state's copies is the newest, by what is in them (promises I22 and I24).
//!
//! Names tell only how a process left its files; a restore, or a hand, may have put them otherwise. Promises that of the
//! copies that are whole the one furthest in the region's history is taken, whatever its name. Never here: reading files.

use std::cmp::Ordering;
use std::io;

use rollcall_model::{Region, Relation};

use super::{Frame, Saved};

/// What was found among the copies; `P` is where one was.
#[derive(Debug)]
pub struct Newest<P> {
    /// The newest that is whole and of the region.
    pub found: Option<(P, Saved)>,
    /// Those that are of no use, and why.
    pub unusable: Vec<(P, String)>,
}

/// The newest of a region's copies, which come in the order of their names: of two that are equally new it is the first.
/// Only the one that is taken is read as a state, which is most of the work.
pub fn newest<P>(region: &Region, copies: impl IntoIterator<Item = (P, io::Result<Vec<u8>>)>) -> Newest<P> {
    let mut unusable = Vec::new();
    let mut whole: Vec<(P, Vec<u8>, Frame)> = Vec::new();
    for (place, bytes) in copies {
        let framed = bytes.map_err(|error| error.to_string()).and_then(|bytes| {
            let frame = Frame::read(&bytes).map_err(|error| error.to_string())?;
            if frame.head.region == *region {
                Ok((bytes, frame))
            } else {
                Err(format!("it is of region {}", frame.head.region))
            }
        });
        match framed {
            Ok((bytes, frame)) => {
                let newer = whole.iter().position(|(_, _, before)| frame.is_newer(before));
                whole.insert(newer.unwrap_or(whole.len()), (place, bytes, frame));
            }
            Err(why) => unusable.push((place, why)),
        }
    }
    for (place, bytes, _) in whole {
        match super::decode(&bytes) {
            Ok(saved) => return Newest { found: Some((place, saved)), unusable },
            Err(error) => unusable.push((place, error.to_string())),
        }
    }
    Newest { found: None, unusable }
}

impl Frame {
    fn is_newer(&self, other: &Self) -> bool {
        match self.head.position.relation(&other.head.position) {
            Relation::Same(Ordering::Greater) | Relation::NewerHistory => true,
            Relation::Same(Ordering::Less) | Relation::OlderHistory => false,
            // Neither is further in a history of both: what was seen later is newer.
            Relation::Same(Ordering::Equal) | Relation::Conflict => self.saved_at.is_after(&other.saved_at),
        }
    }
}

#[cfg(test)]
mod tests {
    use rollcall_model::{Incarnation, Moment, Position, Revision, Snapshot, State, Timestamp, Uptime};

    use super::*;
    use crate::disk::encode;

    fn us() -> Region {
        Region::parse("us").unwrap()
    }

    fn copy(incarnation: &str, revision: u64, wall: i64, uptime: i64) -> io::Result<Vec<u8>> {
        let position = Position::new(Incarnation::parse(incarnation).unwrap(), Revision(revision));
        let saved_at =
            Moment { wall: Timestamp(wall), uptime: Some(Uptime { boot: "b".into(), ms: uptime }) };
        let snapshot = Snapshot::of(us(), position, State::default());
        Ok(encode(&Saved { snapshot, saved_at, log: None, beat: None, history: Vec::new() }))
    }

    #[test]
    fn i22_the_newest_copy_is_the_one_furthest_in_the_history_under_whatever_name() {
        // Each row: the newer one, and the older.
        let rows = [
            ("by revision, though it was saved earlier", copy("1-a", 9, 0, 0), copy("1-a", 8, 50, 50)),
            ("by the history's ordinal", copy("2-a", 1, 0, 0), copy("1-a", 8, 50, 50)),
            ("two that are the same state: the younger one", copy("1-a", 9, 60, 60), copy("1-a", 9, 50, 50)),
            ("two histories of one ordinal: by the time", copy("1-b", 1, 60, 60), copy("1-a", 9, 50, 50)),
            ("by the uptime, which nobody puts back", copy("1-b", 1, 10, 60), copy("1-a", 9, 50, 50)),
        ];
        for (what, newer, older) in rows {
            let (newer, older) = (newer.unwrap(), older.unwrap());
            let first = newest(&us(), [("newer", Ok(newer.clone())), ("older", Ok(older.clone()))]);
            let second = newest(&us(), [("older", Ok(older)), ("newer", Ok(newer))]);
            for found in [first, second] {
                assert_eq!(found.found.unwrap().0, "newer", "{what}");
                assert!(found.unusable.is_empty(), "{what}");
            }
        }
        let same = || copy("1-a", 9, 0, 0);
        assert_eq!(newest(&us(), [("first", same()), ("second", same())]).found.unwrap().0, "first");
    }

    #[test]
    fn i24_what_is_damaged_or_of_another_region_is_told_and_passed_over() {
        let cut = copy("1-a", 9, 0, 0).map(|bytes| bytes[..bytes.len() - 1].to_vec());
        let found = newest(&us(), [("cut", cut), ("whole", copy("1-a", 8, 0, 0))]);
        assert_eq!(found.found.unwrap().0, "whole");
        assert_eq!(found.unusable[0].0, "cut");
        let none = newest(&Region::parse("eu").unwrap(), [("us", copy("1-a", 8, 0, 0))]);
        assert!(none.found.is_none());
        assert_eq!(none.unusable, [("us", "it is of region us".to_owned())]);
        let unread = newest::<&str>(&us(), [("there", Err(io::Error::other("no")))]);
        assert_eq!(unread.unusable, [("there", "no".to_owned())]);
    }
}
