//! The registrations of one region at one position, with their index and digest; immutable to readers.

mod index;
mod listed;

use std::cmp::Ordering;
use std::sync::Arc;

use crate::change::Change;
use crate::digest::StateDigest;
use crate::name::InstanceId;
use crate::query::Query;
use crate::registration::Registration;

use index::{Asked, Index, Rarest};
use listed::{Listing, Place, Run, against_prefix};

/// All registrations of a region. Cloning shares everything; a clone never changes under its reader.
#[derive(Clone, Debug, Default)]
pub struct State {
    records: Listing,
    index: Index,
    digest: StateDigest,
}

impl State {
    /// How many registrations there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.records.len() as u64
    }

    /// Proves that two states are equal.
    #[must_use]
    pub const fn digest(&self) -> StateDigest {
        self.digest
    }

    /// One registration.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Arc<Registration>> {
        self.records.get(id)
    }

    /// All registrations in order of id.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Registration>> {
        self.records.iter()
    }

    /// Registrations after `id`, in order; from the beginning for `None`.
    pub fn iter_after<'a>(
        &'a self,
        id: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Arc<Registration>> + use<'a> {
        Run::new(&self.records, id.map_or(Place::Start, Place::Behind))
    }

    /// Puts or replaces; gives back what was there.
    pub fn put(&mut self, registration: Arc<Registration>) -> Option<Arc<Registration>> {
        let before = self.records.insert(Arc::clone(&registration));
        if let Some(before) = &before {
            self.digest = self.digest.without(before.hash128());
            if !index::has_same_words(before, &registration) {
                self.index.unlist(before);
            }
        }
        self.index.list(&registration);
        self.digest = self.digest.with(registration.hash128());
        before
    }

    /// Takes a registration out, from the records and the index in one step.
    pub fn take(&mut self, id: &InstanceId) -> Option<Arc<Registration>> {
        let before = self.records.remove(id.as_str())?;
        self.digest = self.digest.without(before.hash128());
        self.index.unlist(&before);
        Some(before)
    }

    /// Carries out one change; gives back what was there.
    pub fn apply(&mut self, change: &Change) -> Option<Arc<Registration>> {
        match change {
            Change::Put(registration) => self.put(Arc::clone(registration)),
            Change::Remove(removal) => self.take(&removal.id),
        }
    }

    /// Registrations that match, in order of id, after `after`.
    ///
    /// The rarest word of the query leads; without one the id range of the namespace does. Never a scan of everything
    /// when an index fits. The first one costs no allocation, but where an agent's name stands in several namespaces.
    #[must_use]
    pub fn select<'a>(&'a self, query: &'a Query, after: Option<&'a str>) -> Selected<'a> {
        let behind = after.map_or(Place::Start, Place::Behind);
        let (listing, from, rule) = match index::rarest(&self.index, query) {
            Rarest::Nobody => return Selected { query, run: None, rule: Rule::All },
            Rarest::Exactly(listing) => (listing, behind, Rule::All),
            Rarest::Of(listing) => (listing, behind, Rule::Matching),
            Rarest::NoWord if query.namespace.is_none() => (&self.records, behind, Rule::Matching),
            Rarest::NoWord => match after {
                Some(after) if against_prefix(query, after) != Ordering::Greater => {
                    (&self.records, behind, Rule::Together)
                }
                Some(_) | None => (&self.records, Place::Before(query), Rule::Together),
            },
        };
        Selected { query, run: Some(Run::new(listing, from)), rule }
    }

    /// Whether any registration has this capability now.
    #[must_use]
    pub fn has_capability(&self, name: &str) -> bool {
        self.index.get(Asked::Capability(name)).is_some()
    }

    /// Rebuilds index and digest from the records and compares (promise I12).
    ///
    /// # Errors
    /// Says which of the two differs.
    pub fn prove(&self) -> Result<(), &'static str> {
        let mut fresh = Self::default();
        for registration in self.iter() {
            fresh.put(Arc::clone(registration));
        }
        if !fresh.index.is_same(&self.index) {
            return Err("I12: the index is not what the records say");
        }
        if fresh.digest != self.digest {
            return Err("I18: the digest is not what the records say");
        }
        Ok(())
    }
}

/// Registrations that match a query, in order of id.
pub struct Selected<'a> {
    query: &'a Query,
    run: Option<Run<'a>>,
    rule: Rule,
}

/// Who of those that are met is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Everybody.
    All,
    /// Who matches.
    Matching,
    /// Who matches; they stand together, and behind them nobody does.
    Together,
}

impl<'a> Iterator for Selected<'a> {
    type Item = &'a Arc<Registration>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let run = self.run.as_mut()?;
        if self.rule == Rule::All {
            return run.next();
        }
        for registration in run {
            if self.query.matches(registration) {
                return Some(registration);
            }
            if self.rule == Rule::Together && !self.query.is_of_its_agent(&registration.declared.id) {
                self.run = None;
                return None;
            }
        }
        None
    }
}
