//! A region's store as a test sees it: a random history, and what was true at each point of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Chance, any_declared, any_owned, ids, incarnation, region, registered};
use crate::change::{Bookmark, Change, Delta, Removal, RemovalReason};
use crate::name::{InstanceId, Region};
use crate::position::{Epoch, Incarnation, Position, Revision};
use crate::registration::Registration;
use crate::snapshot::Snapshot;
use crate::state::State;
use crate::time::Timestamp;

/// Everything that happened in one incarnation.
#[derive(Clone, Debug)]
struct Past {
    incarnation: Incarnation,
    /// The state at the start and at each revision that changed something.
    states: BTreeMap<Revision, State>,
    changes: BTreeMap<Revision, Vec<Change>>,
    head: Revision,
}

/// A region that makes up its history as it goes: registrations, owner updates, re-registrations, removals, beats that
/// change nothing, and restores from a backup.
#[derive(Clone, Debug)]
pub struct Origin {
    region: Region,
    chance: Chance,
    ids: Vec<InstanceId>,
    past: Vec<Past>,
}

impl Origin {
    /// An origin with an empty state and a dozen ids to register.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::with_ids(seed, ids(12))
    }

    /// An origin that registers these ids.
    #[must_use]
    pub fn with_ids(seed: u64, ids: Vec<InstanceId>) -> Self {
        let mut origin = Self { region: region(), chance: Chance::new(seed), ids, past: Vec::new() };
        let start = Revision(1 + origin.chance.below(5) as u64);
        origin.begin(State::default(), start);
        origin
    }

    fn begin(&mut self, state: State, start: Revision) {
        let ordinal = u16::try_from(self.past.len() + 1).unwrap_or(u16::MAX);
        self.past.push(Past {
            incarnation: incarnation(ordinal),
            states: BTreeMap::from([(start, state)]),
            changes: BTreeMap::new(),
            head: start,
        });
    }

    fn now(&self) -> &Past {
        self.past.last().expect("there is always one incarnation")
    }

    fn past(&self, of: &Incarnation) -> &Past {
        self.past.iter().find(|past| &past.incarnation == of).expect("an incarnation of this origin")
    }

    /// Whose history it is.
    #[must_use]
    pub const fn region(&self) -> &Region {
        &self.region
    }

    /// One revision: a few changes, or a beat.
    pub fn step(&mut self) {
        if self.chance.one_in(4) {
            self.beat();
        } else {
            self.change();
        }
    }

    /// Moves the head and changes nothing.
    pub fn beat(&mut self) {
        let by = 1 + self.chance.below(3) as u64;
        if let Some(past) = self.past.last_mut() {
            past.head.0 += by;
        }
    }

    /// One revision that changes one to three instances, as a group commit does.
    ///
    /// # Panics
    /// When the origin has no ids.
    pub fn change(&mut self) {
        self.beat();
        let at = self.now().head;
        let mut state = self.state_at(&self.head()).clone();
        let mut changes: Vec<Change> = Vec::new();
        for _ in 0..=self.chance.below(3) {
            let id = self.chance.pick(&self.ids).clone();
            // A key is put once in a commit.
            if changes.iter().all(|change| change.id() != &id) {
                let change = self.happen(&id, state.get(id.as_str()).map(AsRef::as_ref), at);
                state.apply(&change);
                changes.push(change);
            }
        }
        if let Some(past) = self.past.last_mut() {
            past.states.insert(at, state);
            past.changes.insert(at, changes);
        }
    }

    fn happen(&mut self, id: &InstanceId, known: Option<&Registration>, at: Revision) -> Change {
        let ordinal = self.now().incarnation.ordinal();
        let wall = Timestamp(1_700_000_000_000 + i64::try_from(at.0).unwrap_or(0));
        match (known, self.chance.below(3)) {
            (Some(known), 0) => Change::Put(Arc::new(Registration {
                owned: any_owned(&mut self.chance),
                revision: at,
                ..known.clone()
            })),
            (Some(known), 1) => Change::Remove(Arc::new(Removal {
                id: id.clone(),
                epoch: known.epoch,
                reason: *self.chance.pick(&RemovalReason::ALL[..3]),
                actor: "owner".into(),
                term: self.chance.one_in(2).then_some(7),
                at: wall,
                revision: at,
            })),
            (None | Some(_), _) => {
                let declared = any_declared(&mut self.chance, id.clone());
                let fresh = registered(declared, Epoch::new(ordinal, at), at);
                Change::Put(Arc::new(Registration { registered_at: wall, ..fresh }))
            }
        }
    }

    /// A backup is restored: a new incarnation that begins at an earlier state, perhaps at a lower revision, perhaps
    /// far above the head.
    pub fn begin_incarnation(&mut self) {
        let known: Vec<(Revision, State)> =
            self.now().states.iter().map(|(revision, state)| (*revision, state.clone())).collect();
        let (at, state) = self.chance.pick(&known).clone();
        let start = if self.chance.one_in(2) { at } else { Revision(self.now().head.0 + 1_000) };
        self.begin(state, start);
    }

    /// The newest point of the newest incarnation.
    #[must_use]
    pub fn head(&self) -> Position {
        Position::new(self.now().incarnation.clone(), self.now().head)
    }

    /// Every incarnation, oldest first.
    pub fn incarnations(&self) -> impl Iterator<Item = &Incarnation> {
        self.past.iter().map(|past| &past.incarnation)
    }

    /// The start of an incarnation and every revision of it that changed something, in order.
    #[must_use]
    pub fn marks(&self, of: &Incarnation) -> Vec<Position> {
        self.past(of).states.keys().map(|at| Position::new(of.clone(), *at)).collect()
    }

    /// The true state at a position between the start and the head of its incarnation.
    ///
    /// # Panics
    /// When the position is none of this origin's.
    #[must_use]
    pub fn state_at(&self, at: &Position) -> &State {
        let past = self.past(&at.incarnation);
        assert!(at.revision <= past.head, "{at} has not happened");
        let found = past.states.range(..=at.revision).next_back();
        found.map(|(_, state)| state).expect("a position after the start")
    }

    /// The end of the last change at or before a position; the start when there is none.
    ///
    /// # Panics
    /// When the position is none of this origin's.
    #[must_use]
    pub fn changed(&self, at: &Position) -> Position {
        let found = self.past(&at.incarnation).states.range(..=at.revision).next_back();
        let revision = found.map(|(revision, _)| *revision).expect("a position after the start");
        Position::new(at.incarnation.clone(), revision)
    }

    /// Everything that changed in (`from`, `to`], as one delta.
    ///
    /// # Panics
    /// When the two are not in one incarnation.
    #[must_use]
    pub fn delta(&self, from: &Position, to: &Position) -> Arc<Delta> {
        assert_eq!(from.incarnation, to.incarnation, "a delta stays in one incarnation");
        let between = (std::ops::Bound::Excluded(from.revision), std::ops::Bound::Included(to.revision));
        let changes = if from.revision < to.revision {
            self.past(&to.incarnation)
                .changes
                .range(between)
                .flat_map(|(_, all)| all.iter().cloned())
                .collect()
        } else {
            Vec::new()
        };
        Arc::new(Delta { region: self.region.clone(), from: from.clone(), to: to.clone(), changes })
    }

    /// One publisher's way to cut everything after `from` into deltas; another `chance` cuts it otherwise.
    #[must_use]
    pub fn cut(&self, from: &Position, chance: &mut Chance) -> Vec<Arc<Delta>> {
        let mut deltas = Vec::new();
        let mut start = self.changed(from);
        let marks: Vec<_> =
            self.marks(&from.incarnation).into_iter().filter(|at| at.revision > from.revision).collect();
        for (nth, end) in marks.iter().enumerate() {
            if nth + 1 == marks.len() || chance.one_in(2) {
                deltas.push(self.delta(&start, end));
                start = end.clone();
            }
        }
        deltas
    }

    /// What a feed says at a position: nothing new up to here.
    #[must_use]
    pub fn bookmark(&self, at: &Position, age: Duration) -> Bookmark {
        let state = self.state_at(at);
        Bookmark {
            region: self.region.clone(),
            from: self.changed(at),
            position: at.clone(),
            count: state.count(),
            digest: state.digest(),
            age: Some(age),
            stamp: None,
        }
    }

    /// The whole state at a position.
    #[must_use]
    pub fn snapshot(&self, at: &Position) -> Snapshot {
        Snapshot::of(self.region.clone(), at.clone(), self.state_at(at).clone())
    }
}
