//! The registrations of one region at one position, with their index and digest; immutable to readers.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use crate::change::Change;
use crate::digest::StateDigest;
use crate::name::InstanceId;
use crate::query::Query;
use crate::registration::Registration;

/// What an index entry is about. One map for all, so that there is one way to keep it right (promise I12).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Word {
    Capability(Arc<str>),
    Skill(Arc<str>),
    Tag(Arc<str>),
}

/// All registrations of a region. Cloning shares everything; a clone never changes under its reader.
#[derive(Clone, Debug, Default)]
pub struct State {
    records: OrdMap<InstanceId, Arc<Registration>>,
    index: OrdMap<Word, OrdSet<InstanceId>>,
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
        self.records.values()
    }

    /// Registrations after `id`, in order; from the beginning for `None`.
    pub fn iter_after<'a>(
        &'a self,
        id: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Arc<Registration>> + use<'a> {
        let lower = id.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        self.records
            .range::<_, str>((lower, std::ops::Bound::Unbounded))
            .map(|(_, registration)| registration)
    }

    /// Puts or replaces; gives back what was there.
    pub fn put(&mut self, registration: Arc<Registration>) -> Option<Arc<Registration>> {
        let before = self.records.insert(registration.declared.id.clone(), Arc::clone(&registration));
        if let Some(before) = &before {
            self.unlist(before);
        }
        for word in words(&registration) {
            self.index.entry(word).or_default().insert(registration.declared.id.clone());
        }
        self.digest = self.digest.with(registration.hash128());
        before
    }

    /// Takes a registration out, from the records and the index in one step.
    pub fn take(&mut self, id: &InstanceId) -> Option<Arc<Registration>> {
        let before = self.records.remove(id)?;
        self.unlist(&before);
        Some(before)
    }

    /// Takes what stood in the records out of the index and the digest.
    fn unlist(&mut self, before: &Registration) {
        self.digest = self.digest.without(before.hash128());
        for word in words(before) {
            if let Some(ids) = self.index.get_mut(&word) {
                ids.remove(&before.declared.id);
                if ids.is_empty() {
                    self.index.remove(&word);
                }
            }
        }
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
    /// The rarest word of the query leads; without one the id range of the agent or namespace does. Never a scan of
    /// everything when an index fits.
    pub fn select<'a>(
        &'a self,
        query: &'a Query,
        after: Option<&'a str>,
    ) -> Box<dyn Iterator<Item = &'a Arc<Registration>> + 'a> {
        let mut rarest: Option<&OrdSet<InstanceId>> = None;
        for word in query_words(query) {
            match self.index.get(&word) {
                None => return Box::new(std::iter::empty()),
                Some(ids) if rarest.is_none_or(|best| ids.len() < best.len()) => rarest = Some(ids),
                Some(_) => {}
            }
        }
        if let Some(ids) = rarest {
            let lower = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
            let found = ids
                .range::<_, str>((lower, std::ops::Bound::Unbounded))
                .filter_map(|id| self.records.get(id))
                .filter(|registration| query.matches(registration));
            return Box::new(found);
        }
        let prefix = match (&query.namespace, &query.name) {
            (Some(namespace), Some(name)) => format!("{namespace}/{name}/"),
            (Some(namespace), None) => format!("{namespace}/"),
            (None, _) => String::new(),
        };
        let lower = match after {
            Some(after) if after >= prefix.as_str() => std::ops::Bound::Excluded(after),
            Some(_) | None => std::ops::Bound::Included(prefix.as_str()),
        };
        let range = self.records.range::<_, str>((lower, std::ops::Bound::Unbounded));
        Box::new(
            range
                .take_while(move |(id, _)| id.as_str().starts_with(&prefix))
                .map(|(_, registration)| registration)
                .filter(|registration| query.matches(registration)),
        )
    }

    /// Whether any registration ever indexed here has this capability now.
    #[must_use]
    pub fn has_capability(&self, name: &str) -> bool {
        self.index.contains_key(&Word::Capability(name.into()))
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
        if fresh.index != self.index {
            return Err("I12: the index is not what the records say");
        }
        if fresh.digest != self.digest {
            return Err("I18: the digest is not what the records say");
        }
        Ok(())
    }
}

fn words(registration: &Registration) -> impl Iterator<Item = Word> {
    let declared = &registration.declared;
    let capabilities = declared.capabilities.iter().map(|c| Word::Capability(c.name.as_str().into()));
    let skills = declared
        .skills
        .iter()
        .flat_map(|s| [Word::Skill(s.id.as_str().into()), Word::Skill(s.name.as_str().into())]);
    let tags = declared
        .capabilities
        .iter()
        .flat_map(|c| c.tags.iter())
        .chain(declared.skills.iter().flat_map(|s| s.tags.iter()))
        .map(|tag| Word::Tag(tag.as_str().into()));
    capabilities.chain(skills).chain(tags)
}

fn query_words(query: &Query) -> impl Iterator<Item = Word> {
    let capabilities = query.capabilities.iter().map(|name| Word::Capability(name.as_str().into()));
    let skill = query.skill.iter().map(|skill| Word::Skill(skill.as_str().into()));
    let tags = query.tags.iter().map(|tag| Word::Tag(tag.as_str().into()));
    capabilities.chain(skill).chain(tags)
}
