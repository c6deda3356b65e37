//! What a registration is hashed over: everything that a reader sees, in one order for every process and version.
//!
//! Promises: each text goes in with its length, each list with its count, so that no two records share their bytes. A
//! member that is added to the record is added at the end, and only when it is set: old holders and new ones must agree on
//! records that do not use it. Never here: which hash of what a state keeps.

use std::collections::BTreeMap;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128;

use crate::card::Card;
use crate::declaration::Declared;
use crate::name::Zone;
use crate::profile::{Metadata, Profile};
use crate::registration::Registration;

/// Room for what most records are hashed over.
const HASHED_BYTES: usize = 1024;

/// The hash of one registration.
pub(crate) fn hash128(of: &Registration) -> u128 {
    let mut bytes = Bytes(Vec::with_capacity(HASHED_BYTES));
    bytes.registration(of, |bytes, part| bytes.part(of, part));
    xxh3_128(&bytes.0)
}

/// Hashes registrations by the million: what neighbours say alike is put together once. They are the same hashes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hashes {
    bytes: Bytes,
    profile: Option<(Arc<Profile>, [Bytes; 3])>,
    owned: Option<(Metadata, Bytes)>,
}

impl Hashes {
    pub(crate) fn hash128(&mut self, of: &Registration) -> u128 {
        let together = |part| {
            let mut bytes = Bytes::default();
            bytes.part(of, part);
            bytes
        };
        let profile = &of.declared.profile;
        let known = self.profile.take().filter(|(known, _)| Arc::ptr_eq(known, profile));
        let (profile, [front, middle, back]) = known
            .unwrap_or_else(|| (Arc::clone(profile), [Part::Front, Part::Middle, Part::Back].map(together)));
        let metadata = &of.owned.metadata;
        let known = self.owned.take().filter(|(known, _)| std::ptr::eq(&**known, &**metadata));
        let (metadata, owned) = known.unwrap_or_else(|| (metadata.clone(), together(Part::Owned)));
        self.bytes.0.clear();
        self.bytes.registration(of, |bytes, part| {
            let known = match part {
                Part::Front => &front,
                Part::Middle => &middle,
                Part::Back => &back,
                Part::Owned => &owned,
            };
            bytes.0.extend_from_slice(&known.0);
        });
        self.profile = Some((profile, [front, middle, back]));
        self.owned = Some((metadata, owned));
        xxh3_128(&self.bytes.0)
    }
}

/// A part that many registrations have in common.
#[derive(Clone, Copy)]
enum Part {
    /// Of the profile, before the endpoints.
    Front,
    /// Of the profile, before the zone.
    Middle,
    /// Of the profile, behind the zone.
    Back,
    /// Metadata as its owner patched it.
    Owned,
}

/// What is hashed, put together first: so many small parts cost more one by one.
#[derive(Clone, Debug, Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    /// All of it, the parts that many have in common by `part`.
    fn registration(&mut self, of: &Registration, part: impl Fn(&mut Self, Part)) {
        let d = &of.declared;
        self.text(d.id.as_str());
        self.number(of.epoch.get());
        self.number(of.revision.0);
        self.number(of.registered_at.0.unsigned_abs());
        part(self, Part::Front);
        self.number(d.endpoints.len() as u64);
        for endpoint in &d.endpoints {
            let (url, protocol) = endpoint.parts();
            self.text(url);
            self.maybe(protocol);
        }
        part(self, Part::Middle);
        self.maybe(d.zone.as_ref().map(Zone::as_str));
        part(self, Part::Back);
        self.text(of.owned.lifecycle.as_str());
        part(self, Part::Owned);
        if let Some(load) = of.owned.load.get() {
            self.number(u64::from(load.queue_depth));
            self.number(u64::from(load.in_flight));
            self.number(load.error_rate.to_bits());
        }
        // Each with a word of its own, so that one set and one left out never look like another.
        if of.owned.overdue {
            self.text("overdue");
        }
        if of.owned.strained {
            self.text("strained");
        }
        if !of.replaced.is_empty() {
            self.text("replaced");
            self.number(of.replaced.len() as u64);
            for epoch in of.replaced.iter() {
                self.number(epoch.get());
            }
        }
    }

    fn part(&mut self, of: &Registration, part: Part) {
        match part {
            Part::Front => {
                self.text(of.declared.kind.as_str());
                self.text(of.declared.scope.as_str());
            }
            Part::Middle => self.abilities(&of.declared),
            Part::Back => self.wishes(&of.declared),
            Part::Owned => self.map(&of.owned.metadata),
        }
    }

    fn abilities(&mut self, d: &Declared) {
        self.number(d.capabilities.len() as u64);
        for c in &d.capabilities {
            self.text(c.name.as_str());
            for text in [&c.description, &c.input_summary, &c.output_summary, &c.schema_url] {
                self.maybe(text.as_deref());
            }
            self.texts(&c.input_types);
            self.texts(&c.output_types);
            self.texts(&c.tags);
            self.number(u64::from(c.internal));
        }
        self.number(d.skills.len() as u64);
        for skill in &d.skills {
            self.text(&skill.id);
            self.text(&skill.name);
            self.texts(&skill.tags);
        }
        self.maybe(d.version.as_deref());
    }

    fn wishes(&mut self, d: &Declared) {
        self.number(u64::from(d.weight));
        self.number(d.max_concurrency.map_or(0, |n| u64::from(n) + 1));
        self.number(u64::from(d.max_queue));
        self.map(&d.metadata);
        self.number(u64::from(d.lease_seconds));
        self.text(d.lifecycle.as_str());
        self.maybe(d.card.as_ref().map(Card::json));
    }

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
    use crate::testing::{Chance, any_declared, any_owned, full_registration, ids, registered};
    use crate::{Epoch, Revision};

    #[test]
    fn i18_a_hash_does_not_hang_on_what_was_hashed_before() {
        let mut hashes = Hashes::default();
        for seed in 0..100 {
            let mut chance = Chance::new(seed);
            let mut last = full_registration();
            for id in ids(16) {
                let mut one = registered(
                    any_declared(&mut chance, id),
                    Epoch::new(1, Revision(seed + 1)),
                    Revision(seed),
                );
                one.owned = any_owned(&mut chance);
                if chance.one_in(2) {
                    one.declared.profile = Arc::clone(&last.declared.profile);
                }
                if chance.one_in(2) {
                    one.owned.metadata = last.owned.metadata.clone();
                }
                assert_eq!(hashes.hash128(&one), one.hash128(), "seed {seed}: {one:?}");
                last = one;
            }
        }
    }
}
