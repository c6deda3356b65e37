//! The holder of one region's state: it follows a feed and can feed the next hop.
//!
//! The same machine sits in the cell (own replica and views), in the replicator and in the client. It shrinks only by
//! removals or by a verified snapshot (I22, I33). It is cheap to clone, so that readers get an immutable copy.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::change::{Bookmark, Change, Delta, Removal, RemovalReason};
use crate::freshness::{Freshness, Heard};
use crate::history::{History, Step};
use crate::limits;
use crate::name::Region;
use crate::planted::{self, Bug};
use crate::position::{Position, Relation};
use crate::registration::Registration;
use crate::snapshot::Snapshot;
use crate::state::State;
use crate::time::{Instant, Timestamp};

/// What became of something offered to a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The state moved on, or was proved to be current.
    Applied,
    /// It was known already.
    Duplicate,
    /// Something before it is missing: resync.
    Gap,
    /// It speaks of another history: resync from a snapshot of that one.
    Superseded,
    /// The state is not what its origin says it is: resync.
    Diverged,
}

/// The removal that a change is, if it is one: a put that takes an id over ends the registration before it.
fn removal_in(change: &Change, was: Option<&Registration>) -> Option<Arc<Removal>> {
    match change {
        Change::Remove(removal) => Some(Arc::clone(removal)),
        Change::Put(registration) => {
            let was = was.filter(|was| was.epoch != registration.epoch)?;
            Some(Arc::new(Removal {
                id: was.declared.id.clone(),
                epoch: was.epoch,
                reason: RemovalReason::Replaced,
                actor: "owner".into(),
                term: None,
                at: registration.registered_at,
                revision: registration.revision,
            }))
        }
    }
}

/// A resync that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resync {
    /// When, for people.
    pub at: Timestamp,
    /// Why, as a stable word.
    pub reason: &'static str,
}

#[derive(Clone, Debug)]
struct Loaded {
    position: Position,
    changed: Position,
    state: State,
    history: History,
    heard: Option<Heard>,
    /// Since when nobody could say how old it is.
    unheard: Option<Instant>,
}

/// The state of one region as one process knows it.
#[derive(Clone, Debug)]
pub struct View {
    region: Region,
    loaded: Option<Loaded>,
    removals: imbl::Vector<Arc<Removal>>,
    last_resync: Option<Resync>,
    resyncs: u64,
    /// States are indexed by facets too.
    by_facets: bool,
    /// Recent deltas are kept.
    keeps_history: bool,
}

impl View {
    /// A view that was never loaded: it says so, and never that the region is empty.
    #[must_use]
    pub fn new(region: Region) -> Self {
        Self {
            region,
            loaded: None,
            removals: imbl::Vector::new(),
            last_resync: None,
            resyncs: 0,
            by_facets: false,
            keeps_history: true,
        }
    }

    /// The same for a holder that nobody follows: its history stays empty. A full one holds tens of megabytes, most of
    /// them registrations that are gone from the state.
    #[must_use]
    pub const fn without_history(mut self) -> Self {
        self.keeps_history = false;
        self
    }

    /// The same for a holder that answers every kind of question: see [`State::find_by_facets`]. It costs memory and
    /// some time for each change.
    #[must_use]
    pub fn with_facets(mut self) -> Self {
        self.by_facets = true;
        if let Some(loaded) = &mut self.loaded {
            loaded.state.find_by_facets();
        }
        self
    }

    /// Whose state.
    #[must_use]
    pub const fn region(&self) -> &Region {
        &self.region
    }

    /// Up to where the state is known.
    #[must_use]
    pub fn position(&self) -> Option<&Position> {
        self.loaded.as_ref().map(|l| &l.position)
    }

    /// The end of the last change at or before the position.
    #[must_use]
    pub fn changed(&self) -> Option<&Position> {
        self.loaded.as_ref().map(|l| &l.changed)
    }

    /// The registrations; `None` when never loaded.
    #[must_use]
    pub fn state(&self) -> Option<&State> {
        self.loaded.as_ref().map(|l| &l.state)
    }

    /// The recent deltas.
    #[must_use]
    pub fn history(&self) -> Option<&History> {
        self.loaded.as_ref().map(|l| &l.history)
    }

    /// Removals seen, oldest first, at most [`limits::REMOVALS_MAX`].
    #[must_use]
    pub const fn removals(&self) -> &imbl::Vector<Arc<Removal>> {
        &self.removals
    }

    /// The last resync.
    #[must_use]
    pub const fn last_resync(&self) -> Option<&Resync> {
        self.last_resync.as_ref()
    }

    /// How many resyncs there were, the first load not counted.
    #[must_use]
    pub const fn resyncs(&self) -> u64 {
        self.resyncs
    }

    /// Time since the state was last known to be its origin's head; `None` when never loaded.
    ///
    /// Where nobody has said yet how old it is, it counts as [`limits::UNHEARD_AGE`], and grows no older than that until it
    /// has been here for as long.
    #[must_use]
    pub fn age(&self, now: Instant) -> Option<Duration> {
        let loaded = self.loaded.as_ref()?;
        let unheard =
            || limits::UNHEARD_AGE.max(loaded.unheard.map_or(Duration::ZERO, |since| now.since(since)));
        Some(loaded.heard.map_or_else(unheard, |heard| heard.age(now)))
    }

    /// The age as far as it is known: `None` also for a state of which nobody has said yet how old it is. This is what
    /// the next holder is told: an age that is only counted would go on growing there.
    #[must_use]
    pub fn heard_age(&self, now: Instant) -> Option<Duration> {
        Some(self.loaded.as_ref()?.heard?.age(now))
    }

    /// The word for the age.
    #[must_use]
    pub fn freshness(&self, now: Instant) -> Freshness {
        Freshness::of(self.age(now))
    }

    /// The whole state as a snapshot.
    #[must_use]
    pub fn snapshot(&self) -> Option<Snapshot> {
        let loaded = self.loaded.as_ref()?;
        Some(Snapshot::of(self.region.clone(), loaded.position.clone(), loaded.state.clone()))
    }

    /// The statement that the state is complete up to its position, as old as it is here.
    #[must_use]
    pub fn bookmark(&self, now: Instant) -> Option<Bookmark> {
        let loaded = self.loaded.as_ref()?;
        Some(Bookmark {
            region: self.region.clone(),
            from: loaded.changed.clone(),
            position: loaded.position.clone(),
            count: loaded.state.count(),
            digest: loaded.state.digest(),
            age: self.heard_age(now),
            stamp: Some(now.0),
        })
    }

    /// Takes a delta. It is applied only if it continues the view's position (I33); anything else changes nothing.
    pub fn apply(&mut self, delta: &Arc<Delta>) -> Outcome {
        if delta.region != self.region {
            return Outcome::Superseded;
        }
        let Some(loaded) = self.loaded.as_mut() else { return Outcome::Gap };
        match delta.to.relation(&loaded.position) {
            Relation::OlderHistory => return Outcome::Duplicate,
            Relation::NewerHistory | Relation::Conflict => return Outcome::Superseded,
            Relation::Same(Ordering::Less | Ordering::Equal) => return Outcome::Duplicate,
            Relation::Same(Ordering::Greater) => {}
        }
        if delta.from.relation(&loaded.position) == Relation::Same(Ordering::Greater)
            || delta.from.incarnation != loaded.position.incarnation
        {
            return Outcome::Gap;
        }
        let fresh: Vec<&Change> =
            delta.changes.iter().filter(|change| change.revision() > loaded.position.revision).collect();
        let mut before = Vec::with_capacity(fresh.len());
        for change in &fresh {
            let was = loaded.state.apply(change);
            self.removals.extend(removal_in(change, was.as_deref()));
            while self.removals.len() > limits::REMOVALS_MAX {
                self.removals.pop_front();
            }
            before.push(was);
        }
        if !self.keeps_history {
            loaded.history = History::starting_at(delta.to.clone());
            loaded.position = delta.to.clone();
            loaded.changed = delta.to.clone();
            return Outcome::Applied;
        }
        // A delta that overlaps is cut to what is new, so that the history has no change twice.
        let own = if fresh.len() == delta.changes.len() && delta.from == loaded.changed {
            Arc::clone(delta)
        } else {
            let changes = fresh.into_iter().cloned().collect();
            Arc::new(Delta {
                region: self.region.clone(),
                from: loaded.changed.clone(),
                to: delta.to.clone(),
                changes,
            })
        };
        loaded.history.push(own, before);
        loaded.position = delta.to.clone();
        loaded.changed = delta.to.clone();
        Outcome::Applied
    }

    /// Takes a bookmark: proves the state by count and digest, and makes it as young as the bookmark says, if it says.
    pub fn mark(&mut self, bookmark: &Bookmark, now: Instant) -> Outcome {
        if bookmark.region != self.region {
            return Outcome::Superseded;
        }
        let Some(loaded) = self.loaded.as_mut() else { return Outcome::Gap };
        match bookmark.position.relation(&loaded.position) {
            Relation::OlderHistory | Relation::Same(Ordering::Less) => return Outcome::Duplicate,
            Relation::NewerHistory | Relation::Conflict => return Outcome::Superseded,
            Relation::Same(Ordering::Equal | Ordering::Greater) => {}
        }
        if bookmark.from.relation(&loaded.position) == Relation::Same(Ordering::Greater) {
            return Outcome::Gap;
        }
        let is_true = bookmark.count == loaded.state.count() && bookmark.digest == loaded.state.digest();
        if !is_true && !planted::is(Bug::IgnoreTheDigest) {
            return Outcome::Diverged;
        }
        loaded.position = bookmark.position.clone();
        if let Some(age) = bookmark.age {
            let heard = Heard { at: now, age };
            loaded.heard = Some(loaded.heard.map_or(heard, |known| known.or_newer(heard, now)));
        } else if loaded.heard.is_none() {
            loaded.unheard.get_or_insert(now);
        }
        Outcome::Applied
    }

    /// Calls the state current no longer, until it is heard of anew: its holder has reason to doubt it and reads it again
    /// (I20). It makes nothing younger.
    pub fn doubt(&mut self, now: Instant) {
        let heard = self.loaded.as_mut().and_then(|loaded| loaded.heard.as_mut());
        if let Some(heard) = heard {
            *heard = Heard { at: now, age: heard.age(now).max(limits::CURRENT_AGE) };
        }
    }

    /// Replaces the state by a verified snapshot.
    ///
    /// Within one incarnation the position never goes back (I31): an older snapshot is a duplicate. `reason` says why,
    /// and is kept unless this is the first load. `heard` is how old the snapshot's claim to be the head is, if it
    /// makes one.
    pub fn install(
        &mut self,
        snapshot: Snapshot,
        heard: Option<Heard>,
        reason: &'static str,
        at: Timestamp,
    ) -> Outcome {
        let (head, mut state) = snapshot.into_parts();
        if head.region != self.region {
            return Outcome::Superseded;
        }
        let (mut heard, mut unheard) = (heard, None);
        if let Some(loaded) = &self.loaded {
            match head.position.relation(&loaded.position) {
                Relation::OlderHistory | Relation::Same(Ordering::Less) => return Outcome::Duplicate,
                // Within one history a newer state is at least as young as the older one was known to be.
                Relation::Same(Ordering::Equal | Ordering::Greater) => {
                    (heard, unheard) = (heard.or(loaded.heard), loaded.unheard);
                }
                // A new history was founded after the old one was last known to be the head: that bounds its age, too.
                // Removals are told with positions of their own history.
                Relation::NewerHistory => {
                    heard = heard.or(loaded.heard);
                    self.removals.clear();
                }
                // Two registries under one name: what was heard of one says nothing of the other.
                Relation::Conflict => self.removals.clear(),
            }
            self.resyncs += 1;
            self.last_resync = Some(Resync { at, reason });
        }
        if self.by_facets {
            state.find_by_facets();
        }
        self.loaded = Some(Loaded {
            history: History::starting_at(head.position.clone()),
            changed: head.position.clone(),
            position: head.position,
            state,
            heard,
            unheard,
        });
        Outcome::Applied
    }

    /// Takes back the history that led to the state, kept beside it by an earlier process, so that those who were a
    /// little behind that one go on by deltas. False, and nothing of it is kept, when it does not lead to this state:
    /// its steps do not follow each other up to the position, or say something else of a registration than the state.
    pub fn recall(&mut self, steps: Vec<Step>) -> bool {
        if !self.keeps_history {
            return false;
        }
        let Some(loaded) = self.loaded.as_mut() else { return false };
        let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return false };
        let is_before = |one: &Position, other: &Position| {
            matches!(one.relation(other), Relation::Same(Ordering::Less | Ordering::Equal))
        };
        let ends = is_before(&last.delta.to, &loaded.position) && loaded.changed == loaded.position;
        let follows =
            steps.iter().zip(steps.iter().skip(1)).all(|(one, next)| one.delta.to == next.delta.from);
        let of_the_region = steps
            .iter()
            .all(|step| step.delta.region == self.region && is_before(&step.delta.from, &step.delta.to));
        let mut known = HashSet::new();
        let newest_first = steps.iter().rev().flat_map(|step| step.delta.changes.iter().rev());
        let mut last_words = newest_first.filter(|change| known.insert(change.id()));
        let agrees = last_words.all(|change| match (change, loaded.state.get(change.id().as_str())) {
            (Change::Put(put), Some(there)) => put == there,
            (Change::Remove(_), None) => true,
            (Change::Put(_), None) | (Change::Remove(_), Some(_)) => false,
        });
        if !(ends && follows && of_the_region && agrees) {
            return false;
        }
        loaded.changed = last.delta.to.clone();
        loaded.history = History::starting_at(first.delta.from.clone());
        for step in steps {
            loaded.history.push(step.delta, step.before.to_vec());
        }
        true
    }
}
