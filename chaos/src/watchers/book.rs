//! What a watcher makes of what it is told, over all its connections, and whether that is what happened.

use std::collections::BTreeMap;

use rollcall_model::{Position, Relation};

use crate::check::Verdict;
use crate::origin::Origin;
use crate::tap::{Event, What};
use crate::watchers::Told;

/// One change of the store's history, as a watcher can know it: the instance, and the revision of what was put. A removal
/// is told without its revision.
pub type Happened = (String, Option<u64>);

/// What one watcher knows.
#[derive(Clone, Debug, Default)]
pub struct Book {
    /// Id and epoch of what stands.
    pub held: BTreeMap<String, u64>,
    /// Up to where.
    pub position: Option<Position>,
    /// Where its last snapshot ended.
    pub began: Option<Position>,
    /// Snapshots that it was sent whole.
    pub snapshots: usize,
    /// Why it was told to resync.
    pub resyncs: Vec<String>,
    /// What it held at some positions.
    pub looks: Vec<(Position, BTreeMap<String, u64>)>,
    /// What was wrong with what it was told, by itself.
    pub faults: Vec<String>,
    arriving: Option<BTreeMap<String, u64>>,
    changes: BTreeMap<Happened, usize>,
}

impl Book {
    /// Writes down what it is told.
    pub fn take(&mut self, told: Told) {
        match told {
            Told::SnapshotBegin => self.arriving = Some(BTreeMap::new()),
            Told::Record(id, epoch) => match &mut self.arriving {
                Some(arriving) => drop(arriving.insert(id, epoch)),
                None => self.faults.push(format!("I22: a record of {id} outside of a snapshot")),
            },
            Told::SnapshotEnd(at) => {
                self.held = self.arriving.take().unwrap_or_default();
                self.snapshots += 1;
                self.changes.clear();
                self.began = Some(at.clone());
                self.position = Some(at);
            }
            Told::Delta(from, to, changes) => {
                let Some(known) = self.position.clone() else {
                    self.faults.push(format!("I33: a delta to {to} before any snapshot"));
                    return;
                };
                if !is_before(&from, &known) {
                    self.faults.push(format!("I33: a delta from {from} does not continue {known}"));
                }
                if is_before(&to, &known) {
                    self.faults.push(format!("RCV-02: a delta to {to} was told to who knew {known}"));
                }
                for change in changes {
                    if let Some((_, revision)) = change.put
                        && !(known.revision.0 < revision && revision <= to.revision.0)
                    {
                        let id = &change.id;
                        self.faults.push(format!("RCV-02: {id} at {revision} told between {known} and {to}"));
                    }
                    let before = match change.put {
                        Some((epoch, _)) => self.held.insert(change.id.clone(), epoch),
                        None => self.held.remove(&change.id),
                    };
                    if change.put.is_none() && before.is_none() {
                        self.faults.push(format!("RCV-02: {} was removed and did not stand", change.id));
                    }
                    *self
                        .changes
                        .entry((change.id, change.put.map(|(_, revision)| revision)))
                        .or_default() += 1;
                }
                self.position = Some(to);
            }
            Told::Bookmark(at) => {
                if self.position.as_ref().is_some_and(|known| !is_before(known, &at)) {
                    self.faults.push(format!("I17: led back from {:?} to {at}", self.position));
                }
                self.position = Some(at);
            }
            Told::Resync(reason) => self.resyncs.push(reason),
        }
    }

    /// Writes down what it holds now.
    pub fn look(&mut self) {
        if let Some(position) = &self.position {
            self.looks.push((position.clone(), self.held.clone()));
        }
    }

    /// RCV-02, I19: what it was told is every change since its snapshot, once, and what it held is what stood.
    pub fn judge(&self, name: &str, origin: &Origin, history: &[(u64, Happened)], verdict: &mut Verdict) {
        for fault in &self.faults {
            verdict.judge(false, || format!("{fault}, at {name}"));
        }
        let (Some(began), Some(position)) = (&self.began, &self.position) else {
            verdict.judge(false, || format!("RCV-02: {name} never got a snapshot"));
            return;
        };
        for (at, held) in &self.looks {
            let stood = origin.at(at.incarnation.ordinal(), at.revision.0);
            verdict.judge(stood == *held, || {
                format!("I19: {name} at {at} holds {held:?}; there stood {stood:?}")
            });
        }
        let mut happened: BTreeMap<Happened, usize> = BTreeMap::new();
        for (revision, what) in history {
            if began.revision.0 < *revision && *revision <= position.revision.0 {
                *happened.entry(what.clone()).or_default() += 1;
            }
        }
        for what in happened.keys().chain(self.changes.keys().filter(|what| !happened.contains_key(*what))) {
            let (times, told) = (happened.get(what), self.changes.get(what));
            verdict.judge(times == told, || {
                format!("RCV-02: {name} was told {what:?} {told:?} times; it happened {times:?} times")
            });
        }
    }

    /// Changes that it was told.
    #[must_use]
    pub fn changes(&self) -> usize {
        self.changes.values().sum()
    }
}

fn is_before(one: &Position, other: &Position) -> bool {
    matches!(one.relation(other), Relation::Same(std::cmp::Ordering::Less | std::cmp::Ordering::Equal))
}

/// What happened to registrations, by the tap: one change for each instance and revision.
#[must_use]
pub fn happened(prefix: &str, events: &[Event]) -> Vec<(u64, Happened)> {
    let mut by_place: BTreeMap<(u64, String), bool> = BTreeMap::new();
    for event in events {
        let Some(key) = event.key.strip_prefix(prefix) else { continue };
        let is_removed = event.what == What::Removed;
        if let Some(id) = key.strip_prefix("reg/") {
            by_place.insert((event.revision, id.to_owned()), is_removed);
        } else if let Some(id) = key.strip_prefix("own/") {
            // An owner's word that goes goes with its record, or with the one before a new registration.
            by_place.entry((event.revision, id.to_owned())).or_insert(false);
        }
    }
    let told = |((revision, id), is_removed): ((u64, String), bool)| {
        (revision, (id, (!is_removed).then_some(revision)))
    };
    by_place.into_iter().map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watchers::Changed;

    fn at(revision: u64) -> Position {
        Position::parse(&format!("1-a:{revision}")).unwrap()
    }

    fn put(id: &str, revision: u64) -> Changed {
        Changed { id: id.to_owned(), put: Some((revision, revision)) }
    }

    /// A watcher that was sent an empty snapshot at 1 and then this; and what is found wrong with it.
    fn broken(told: &[Told], history: &[(u64, Happened)]) -> Vec<String> {
        let mut book = Book::default();
        book.take(Told::SnapshotBegin);
        book.take(Told::SnapshotEnd(at(1)));
        told.iter().cloned().for_each(|told| book.take(told));
        let mut verdict = Verdict::default();
        book.judge("one", &Origin::default(), history, &mut verdict);
        verdict.broken
    }

    #[test]
    fn a_watcher_that_is_told_everything_once_is_sound_and_a_lost_or_doubled_change_is_seen() {
        let history =
            [(2, ("a".to_owned(), Some(2))), (3, ("a".to_owned(), None)), (4, ("b".to_owned(), Some(4)))];
        let gone = Changed { id: "a".to_owned(), put: None };
        let first = Told::Delta(at(1), at(3), vec![put("a", 2), gone.clone()]);
        let second = Told::Delta(at(3), at(4), vec![put("b", 4)]);
        assert_eq!(
            broken(&[first.clone(), second.clone(), Told::Bookmark(at(5))], &history),
            Vec::<String>::new()
        );
        let seen = |told: &[Told], word: &str| {
            let broken = broken(told, &history);
            assert!(broken.iter().any(|words| words.contains(word)), "{word}: {broken:?}");
        };
        seen(std::slice::from_ref(&second), "does not continue");
        seen(&[Told::Bookmark(at(3)), second.clone()], "was told (\"a\", Some(2)) None times");
        seen(&[first.clone(), first.clone(), second.clone()], "was told to who knew");
        seen(&[first.clone(), Told::Delta(at(2), at(4), vec![gone, put("b", 4)])], "did not stand");
        seen(&[first, Told::Delta(at(1), at(4), vec![put("a", 2), put("b", 4)])], "told between");
        seen(&[second, Told::Bookmark(at(2))], "led back");
    }
}
