//! The registration: declared data, epoch, and what its owner said since.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::Xxh3;

use crate::declaration::Declared;
use crate::lifecycle::{Lifecycle, Load};
use crate::position::{Epoch, Revision};
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
}

/// What an owner may change without registering anew; it does not move the epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Owned {
    /// How it says it is doing.
    pub lifecycle: Lifecycle,
    /// Metadata as patched.
    pub metadata: BTreeMap<String, String>,
    /// Load as last published.
    pub load: Option<Load>,
}

impl Owned {
    /// What a fresh registration starts with.
    #[must_use]
    pub fn of(declared: &Declared) -> Self {
        Self { lifecycle: declared.lifecycle, metadata: declared.metadata.clone(), load: None }
    }
}

impl Registration {
    /// Bytes it takes about, for bounded buffers and pages: its texts, not its pointers.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        let d = &self.declared;
        let texts = |list: &[String]| list.iter().map(String::len).sum::<usize>();
        let capabilities: usize = d
            .capabilities
            .iter()
            .map(|c| {
                c.name.as_str().len()
                    + c.description.as_ref().map_or(0, String::len)
                    + c.input_summary.as_ref().map_or(0, String::len)
                    + c.output_summary.as_ref().map_or(0, String::len)
                    + c.schema_url.as_ref().map_or(0, String::len)
                    + texts(&c.tags)
                    + texts(&c.input_types)
                    + texts(&c.output_types)
                    + 16
            })
            .sum();
        let skills: usize = d.skills.iter().map(|s| s.id.len() + s.name.len() + texts(&s.tags) + 8).sum();
        let metadata: usize = [&d.metadata, &self.owned.metadata]
            .iter()
            .flat_map(|map| map.iter())
            .map(|(k, v)| k.len() + v.len() + 4)
            .sum();
        let endpoints: usize =
            d.endpoints.iter().map(|e| e.url.len() + e.protocol.as_ref().map_or(0, String::len) + 4).sum();
        let card = d.card.as_ref().map_or(0, |card| card.json().len() + 72);
        d.id.as_str().len() + capabilities + skills + metadata + endpoints + card + 96
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
        let mut h = Hash(Xxh3::new());
        let d = &self.declared;
        h.text(d.id.as_str());
        h.number(self.epoch.get());
        h.number(self.revision.0);
        h.number(self.registered_at.0.unsigned_abs());
        h.text(d.kind.as_str());
        h.text(d.scope.as_str());
        h.number(d.endpoints.len() as u64);
        for endpoint in &d.endpoints {
            h.text(&endpoint.url);
            h.maybe(endpoint.protocol.as_deref());
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
        if let Some(load) = &self.owned.load {
            h.number(u64::from(load.queue_depth));
            h.number(u64::from(load.in_flight));
            h.number(load.error_rate.to_bits());
        }
        h.0.digest128()
    }
}

struct Hash(Xxh3);

impl Hash {
    fn number(&mut self, number: u64) {
        self.0.update(&number.to_le_bytes());
    }
    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.update(text.as_bytes());
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
