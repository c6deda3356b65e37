//! The registration: declared data, epoch, and what its owner said since.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128;

use crate::declaration::Declared;
use crate::lifecycle::{LastLoad, Lifecycle, Scope};
use crate::limits;
use crate::position::{Epoch, Revision};
use crate::profile::{FRAME, Metadata};
use crate::time::Timestamp;

/// The registry's statement that an instance exists.
#[derive(Clone, Debug, PartialEq)]
pub struct Registration {
    /// What the owner declared at registration.
    pub declared: Declared,
    /// Fences late writers.
    pub epoch: Epoch,
    /// When the cell wrote it, for people.
    pub registered_at: Timestamp,
    /// The newest revision at which anything of it changed.
    pub revision: Revision,
    /// What the owner says now.
    pub owned: Owned,
    /// Of a shared entry the registrations that this one replaced, newest first: who holds one of them still keeps the
    /// entry alive. At most [`limits::REPLACED_MAX`].
    pub replaced: Replaced,
}

/// Epochs of the registrations that another one replaced, read as the list that they are.
///
/// Hardly any registration replaced one that matters, and whoever holds a million of them holds one word for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replaced(Option<Box<Box<[Epoch]>>>);

impl Deref for Replaced {
    type Target = [Epoch];

    fn deref(&self) -> &[Epoch] {
        self.0.as_deref().map_or(&[], |epochs| epochs)
    }
}

impl FromIterator<Epoch> for Replaced {
    fn from_iter<I: IntoIterator<Item = Epoch>>(epochs: I) -> Self {
        let epochs: Box<[Epoch]> = epochs.into_iter().collect();
        Self((!epochs.is_empty()).then(|| Box::new(epochs)))
    }
}

impl From<&[Epoch]> for Replaced {
    fn from(epochs: &[Epoch]) -> Self {
        epochs.iter().copied().collect()
    }
}

/// What an owner may change without registering anew; it does not move the epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Owned {
    /// How it says it is doing.
    pub lifecycle: Lifecycle,
    /// Metadata as patched.
    pub metadata: Metadata,
    /// Load as last published.
    pub load: LastLoad,
    /// `degraded` is what its load says, not its owner, who says `healthy`.
    pub strained: bool,
    /// Past its deadline and kept by the guard: the keeper's word beside the owner's.
    pub overdue: bool,
}

impl Owned {
    /// What a fresh registration starts with.
    #[must_use]
    pub fn of(declared: &Declared) -> Self {
        Self {
            lifecycle: declared.lifecycle,
            metadata: declared.metadata.clone(),
            load: LastLoad::NONE,
            strained: false,
            overdue: false,
        }
    }
}

impl Registration {
    /// Holds what it has in common with another one as that one does, so that both hold it once. It says what it said.
    pub fn share(&mut self, other: &Self) {
        if self.declared.profile == other.declared.profile {
            self.declared.profile = Arc::clone(&other.declared.profile);
        }
        // Nearly always nobody patched it.
        if self.owned.metadata == self.declared.metadata {
            self.owned.metadata = self.declared.metadata.clone();
        }
    }

    /// What a declaration that replaces this one is to say of the registrations before it.
    #[must_use]
    pub fn replaced_by(&self, declared: &Declared) -> Replaced {
        if declared.scope != Scope::Service {
            return Replaced::default();
        }
        let all = std::iter::once(self.epoch).chain(self.replaced.iter().copied());
        all.take(limits::REPLACED_MAX).collect()
    }

    /// Bytes it takes on any wire at most, for bounded buffers and pages.
    ///
    /// Each part counts with what frames it (field, length, nesting), because a record may consist of thousands of
    /// texts of one letter, and pages are cut by this number.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.weight_beside(self.declared.profile.weight_bytes() + self.owned.metadata.weight_bytes())
    }

    /// The same, of a registration whose profile and metadata are known to weigh so much: whoever weighs many weighs once
    /// what they share.
    pub(crate) fn weight_beside(&self, shared: usize) -> usize {
        /// Everything of fixed size: numbers, words, the frames around a record and around its two parts.
        const FIXED: usize = 128;
        /// 52 bits, seven to a byte.
        const EPOCH: usize = 8;
        let d = &self.declared;
        let text = |text: &str| text.len() + FRAME;
        FIXED
            + shared
            + text(d.id.as_str())
            + d.zone.as_ref().map_or(0, |zone| text(zone.as_str()))
            + d.endpoints.iter().map(|endpoint| endpoint.text_bytes() + 3 * FRAME).sum::<usize>()
            + self.replaced.len() * EPOCH
    }

    /// The newest-first order among usable instances: by epoch, then id.
    #[must_use]
    pub fn is_newer_than(&self, other: &Self) -> bool {
        (self.epoch, &self.declared.id) > (other.epoch, &other.declared.id)
    }

    /// A hash over everything a reader sees, the same in every process and version.
    ///
    /// Each text goes in with its length, each list with its count, so that no two records share their bytes.
    /// Adding a member to the record means adding it at the end, and only when it is set: old holders and new ones
    /// must agree on records that do not use it.
    #[must_use]
    pub fn hash128(&self) -> u128 {
        let mut h = Hash(Vec::with_capacity(HASHED_BYTES));
        let d = &self.declared;
        h.text(d.id.as_str());
        h.number(self.epoch.get());
        h.number(self.revision.0);
        h.number(self.registered_at.0.unsigned_abs());
        h.text(d.kind.as_str());
        h.text(d.scope.as_str());
        h.number(d.endpoints.len() as u64);
        for endpoint in &d.endpoints {
            h.text(endpoint.url());
            h.maybe(endpoint.protocol());
        }
        h.number(d.capabilities.len() as u64);
        for c in &d.capabilities {
            h.text(c.name.as_str());
            for text in [&c.description, &c.input_summary, &c.output_summary, &c.schema_url] {
                h.maybe(text.as_deref());
            }
            h.texts(&c.input_types);
            h.texts(&c.output_types);
            h.texts(&c.tags);
            h.number(u64::from(c.internal));
        }
        h.number(d.skills.len() as u64);
        for skill in &d.skills {
            h.text(&skill.id);
            h.text(&skill.name);
            h.texts(&skill.tags);
        }
        h.maybe(d.version.as_deref());
        h.maybe(d.zone.as_ref().map(crate::name::Zone::as_str));
        h.number(u64::from(d.weight));
        h.number(d.max_concurrency.map_or(0, |n| u64::from(n) + 1));
        h.number(u64::from(d.max_queue));
        h.map(&d.metadata);
        h.number(u64::from(d.lease_seconds));
        h.text(d.lifecycle.as_str());
        h.maybe(d.card.as_ref().map(crate::card::Card::json));
        h.text(self.owned.lifecycle.as_str());
        h.map(&self.owned.metadata);
        if let Some(load) = self.owned.load.get() {
            h.number(u64::from(load.queue_depth));
            h.number(u64::from(load.in_flight));
            h.number(load.error_rate.to_bits());
        }
        // Each with a word of its own, so that one set and one left out never look like another.
        if self.owned.overdue {
            h.text("overdue");
        }
        if self.owned.strained {
            h.text("strained");
        }
        if !self.replaced.is_empty() {
            h.text("replaced");
            h.number(self.replaced.len() as u64);
            for epoch in self.replaced.iter() {
                h.number(epoch.get());
            }
        }
        xxh3_128(&h.0)
    }
}

/// Room for what most records are hashed over.
const HASHED_BYTES: usize = 1024;

/// What is hashed, put together first: so many small parts cost more one by one.
struct Hash(Vec<u8>);

impl Hash {
    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }
    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }
    fn maybe(&mut self, text: Option<&str>) {
        match text {
            None => self.number(u64::MAX),
            Some(text) => self.text(text),
        }
    }
    fn texts(&mut self, texts: &[String]) {
        self.number(texts.len() as u64);
        for text in texts {
            self.text(text);
        }
    }
    fn map(&mut self, map: &BTreeMap<String, String>) {
        self.number(map.len() as u64);
        for (key, value) in map {
            self.text(key);
            self.text(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process holds a million of them: a word more in each is eight megabytes, and goes in knowingly.
    #[test]
    fn a_registration_takes_fourteen_words() {
        assert_eq!(size_of::<Registration>(), 14 * size_of::<usize>());
    }
}
