//! Which registrations have a word: their name, a capability, a skill or a tag.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::capability::CapabilityName;
use crate::profile::Profile;
use crate::query::Query;
use crate::registration::Registration;
use crate::state::listed::{Listing, Stretch};
use crate::state::names::{self, Names};
use crate::state::tree::Growing;
use crate::state::words::Words;
use crate::word::Word;

/// A word, borrowed: looking one up copies nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked<'a> {
    Name(&'a str),
    Capability(&'a CapabilityName),
    Skill(&'a str),
    Tag(&'a str),
}

/// Maps that share all but what changes, with one way to keep them right (promise I12). Their hash is the same
/// everywhere, so that nothing depends on chance.
///
/// Whoever can register could make words whose hashes begin alike; they would slow down the look-up of these words alone.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    names: Names,
    words: [Words<Entry>; KINDS],
}

/// Capabilities, skills and tags: each kind by itself, because there are few capabilities and many of the others, and
/// what is small stays in the processor's caches.
const KINDS: usize = 3;

/// Who has one word that is no name.
#[derive(Clone, Debug, Default)]
struct Entry {
    listing: Listing,
    /// How many have it in capabilities marked internal alone, which a query does not see unless it says so.
    hidden: usize,
}

/// Those who have one word.
pub(super) struct Known<'a> {
    pub(super) those: Stretch<'a>,
    /// How many of them a query does not see unless it says so.
    hidden: usize,
}

/// Takes a part of what is a hash already.
#[derive(Clone, Debug, Default)]
struct WordHasher(u64);

impl Hasher for WordHasher {
    fn write(&mut self, bytes: &[u8]) {
        // Never asked for: a word writes one number.
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }
    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

impl Hash for Word {
    #[allow(clippy::cast_possible_truncation, reason = "any part of a hash is one")]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0 as u64);
    }
}

impl Index {
    pub(super) fn get<'a>(&'a self, word: Asked<'_>, records: &'a Listing) -> Option<Known<'a>> {
        match word.kind() {
            None => Some(Known { those: self.names.get(word.word(), records)?, hidden: 0 }),
            Some(kind) => {
                let entry = self.words[kind].get(word.word())?;
                Some(Known { those: entry.listing.whole(), hidden: entry.hidden })
            }
        }
    }

    /// Takes a registration in the place of the one before it of the same id, if there was one. It stands among the
    /// records already.
    pub(super) fn put(
        &mut self,
        registration: &Arc<Registration>,
        before: Option<&Registration>,
        records: &Listing,
    ) {
        match before {
            Some(before) => {
                self.names.replace(registration);
                if !has_same_words(before, registration) {
                    self.unlist(before);
                }
            }
            None => self.names.add(registration, records),
        }
        self.list(registration);
    }

    /// Lets go of a registration that stands among the records no more.
    pub(super) fn take(&mut self, before: &Registration, records: &Listing) {
        self.names.remove(before, records);
        self.unlist(before);
    }

    /// Lists a registration under all its words, in the place of one of the same id.
    fn list(&mut self, registration: &Arc<Registration>) {
        for (kind, word) in words(registration) {
            let (key, words) = (word.word(), &mut self.words[kind]);
            if let Some(entry) = words.get_mut(key) {
                entry.insert(word, registration);
            } else {
                let mut entry = Entry::default();
                entry.insert(word, registration);
                words.insert(key, entry);
            }
        }
    }

    fn unlist(&mut self, registration: &Registration) {
        for (kind, word) in words(registration) {
            let (key, words) = (word.word(), &mut self.words[kind]);
            if let Some(entry) = words.get_mut(key) {
                entry.remove(word, registration.declared.id.as_str());
                if entry.listing.len() == 0 {
                    words.remove(key);
                }
            }
        }
    }

    /// Whether both list the same records, not only records of the same ids.
    pub(super) fn is_same(&self, records: &Listing, other: &Self, others: &Listing) -> bool {
        let is_same =
            |one: &Entry, other: &Entry| one.hidden == other.hidden && one.listing.is_same(&other.listing);
        let has_same = |words: &Words<Entry>, others: &Words<Entry>| {
            words.len() == others.len()
                && words.all(|word, entry| others.get(word).is_some_and(|other| is_same(entry, other)))
        };
        self.names.is_same(records, &other.names, others)
            && self.words.iter().zip(&other.words).all(|(words, others)| has_same(words, others))
    }
}

/// An index on its way, of registrations that come in order of id, no id twice.
#[derive(Clone, Debug, Default)]
pub(super) struct Gathered {
    names: names::Gathered,
    /// Where among the collected a word is.
    places: [HashMap<Word, usize, BuildHasherDefault<WordHasher>>; KINDS],
    collected: Vec<Collected>,
    /// What the last one declares, and the words of it: the next one mostly declares the same.
    last: Option<(Arc<Profile>, Vec<Listed>)>,
}

/// Who has one word, while an index is made.
#[derive(Clone, Debug, Default)]
struct Collected {
    listed: Growing,
    hidden: usize,
}

/// A word of a profile.
#[derive(Clone, Copy, Debug)]
struct Listed {
    place: usize,
    is_hidden: bool,
}

impl Gathered {
    pub(super) fn add(&mut self, one: &Arc<Registration>) {
        self.names.add(one);
        let profile = &one.declared.profile;
        let known = self.last.take().filter(|(known, _)| Arc::ptr_eq(known, profile));
        let (profile, words) = known.unwrap_or_else(|| (Arc::clone(profile), self.listed(one)));
        for Listed { place, is_hidden } in &words {
            if let Some(collected) = self.collected.get_mut(*place) {
                collected.hidden += usize::from(*is_hidden);
                collected.listed.push(Arc::clone(one));
            }
        }
        self.last = Some((profile, words));
    }

    /// The words of a registration, each once.
    fn listed(&mut self, one: &Registration) -> Vec<Listed> {
        let mut listed: Vec<Listed> = Vec::new();
        for (kind, word) in words(one) {
            let collected = &mut self.collected;
            let place = *self.places[kind].entry(word.word()).or_insert_with(|| {
                collected.push(Collected::default());
                collected.len() - 1
            });
            listed.push(Listed { place, is_hidden: is_hidden(word, one) });
        }
        // It may have a word twice.
        listed.sort_unstable_by_key(|word| word.place);
        listed.dedup_by_key(|word| word.place);
        listed
    }

    /// The index of all that came, and is listed so.
    pub(super) fn finish(mut self, records: &Listing) -> Index {
        let mut index = Index { names: self.names.finish(records), ..Index::default() };
        for (words, places) in index.words.iter_mut().zip(self.places) {
            let entry = |(word, place): (Word, usize)| {
                let Collected { listed, hidden } = std::mem::take(self.collected.get_mut(place)?);
                Some((word, Entry { listing: Listing::of(listed), hidden }))
            };
            *words = places.into_iter().filter_map(entry).collect();
        }
        index
    }
}

impl Entry {
    fn insert(&mut self, word: Asked<'_>, registration: &Arc<Registration>) {
        self.hidden += usize::from(is_hidden(word, registration));
        if let Some(before) = self.listing.insert(Arc::clone(registration)) {
            self.hidden -= usize::from(is_hidden(word, &before));
        }
    }

    fn remove(&mut self, word: Asked<'_>, id: &str) {
        if let Some(before) = self.listing.remove(id) {
            self.hidden -= usize::from(is_hidden(word, &before));
        }
    }
}

/// Whether a registration has a word in capabilities marked internal alone.
fn is_hidden(word: Asked<'_>, registration: &Registration) -> bool {
    let declared = &registration.declared;
    if declared.capabilities.iter().all(|c| !c.internal) {
        return false;
    }
    let mut seen = declared.capabilities.iter().filter(|c| !c.internal);
    match word {
        Asked::Name(_) | Asked::Skill(_) => false,
        Asked::Capability(name) => !seen.any(|c| c.name == *name),
        Asked::Tag(tag) => {
            !seen.any(|c| c.tags.iter().any(|t| t == tag))
                && !declared.skills.iter().any(|s| s.tags.iter().any(|t| t == tag))
        }
    }
}

/// Whether both stand under the same words: nearly always, because what changes is seldom what is declared.
fn has_same_words(one: &Registration, other: &Registration) -> bool {
    let (one, other) = (&one.declared, &other.declared);
    one.id == other.id
        && (Arc::ptr_eq(&one.profile, &other.profile)
            || one.capabilities == other.capabilities && one.skills == other.skills)
}

/// All words of a registration but its name, with the kind of each.
fn words(registration: &Registration) -> impl Iterator<Item = (usize, Asked<'_>)> {
    let declared = &registration.declared;
    let capabilities = declared.capabilities.iter().map(|c| Asked::Capability(&c.name));
    let skills = declared.skills.iter().flat_map(|s| [Asked::Skill(&s.id), Asked::Skill(&s.name)]);
    let tags = declared
        .capabilities
        .iter()
        .flat_map(|c| c.tags.iter())
        .chain(declared.skills.iter().flat_map(|s| s.tags.iter()))
        .map(|tag| Asked::Tag(tag));
    capabilities.chain(skills).chain(tags).filter_map(|word| Some((word.kind()?, word)))
}

/// Where to look for what a query asks.
pub(super) enum Rarest<'a> {
    /// A word that nobody has.
    Nobody,
    /// Among those with the rarest of its words.
    Of(Stretch<'a>),
    /// Those with its one word, or everybody where nothing is asked: all of them match.
    Exactly(Stretch<'a>),
    /// It has no word, or none but the name of an agent, whose ids stand together.
    NoWord,
}

pub(super) fn rarest<'a>(index: &'a Index, query: &Query, records: &'a Listing) -> Rarest<'a> {
    let capabilities = query.capabilities.iter().map(Asked::Capability);
    let skill = query.skill.iter().map(|skill| Asked::Skill(skill));
    let tags = query.tags.iter().map(|tag| Asked::Tag(tag));
    let mut words = capabilities.chain(skill).chain(tags).peekable();
    if words.peek().is_none()
        && let Some(namespace) = &query.namespace
    {
        // Nearly always an agent's name stands in one namespace.
        let named = query.name.as_ref().and_then(|name| index.get(Asked::Name(name), records));
        return match named {
            None if query.name.is_some() => Rarest::Nobody,
            Some(known) if known.those.is_within(namespace) => whom(&known, query),
            None | Some(_) => Rarest::NoWord,
        };
    }
    let mut rarest: Option<Known<'_>> = None;
    for word in words.chain(query.name.iter().map(|name| Asked::Name(name))) {
        match index.get(word, records) {
            None => return Rarest::Nobody,
            Some(known) if rarest.as_ref().is_none_or(|best| known.those.len() < best.those.len()) => {
                rarest = Some(known);
            }
            Some(_) => {}
        }
    }
    match rarest {
        None if query.is_everything() => Rarest::Exactly(records.whole()),
        None => Rarest::NoWord,
        Some(known) if query.namespace.is_none() => whom(&known, query),
        Some(known) => Rarest::Of(known.those),
    }
}

/// The first of those who match a query that asks for one word alone.
#[inline]
pub(super) fn at_hand<'a>(index: &'a Index, query: &Query) -> Option<&'a Arc<Registration>> {
    if query.namespace.is_some() || !is_one_word(query) {
        return None;
    }
    let word = match (query.capabilities.first(), &query.name, &query.skill, query.tags.first()) {
        (Some(name), ..) => Asked::Capability(name),
        (_, Some(name), ..) => Asked::Name(name),
        (_, _, Some(skill), _) => Asked::Skill(skill),
        (.., tag) => Asked::Tag(tag?),
    };
    let Some(kind) = word.kind() else { return index.names.first(word.word()) };
    let entry = index.words[kind].get(word.word())?;
    entry.listing.first().filter(|_| query.internal || entry.hidden == 0)
}

/// Who of those with a word is meant, by a query whose namespace, if it has one, is theirs.
fn whom<'a>(known: &Known<'a>, query: &Query) -> Rarest<'a> {
    if is_one_word(query) && (query.internal || known.hidden == 0) {
        Rarest::Exactly(known.those)
    } else {
        Rarest::Of(known.those)
    }
}

/// Whether a query asks for one word and for nothing else but a namespace.
fn is_one_word(query: &Query) -> bool {
    let Query {
        namespace: _,
        name,
        capabilities,
        skill,
        tags,
        kind,
        version,
        zone,
        lifecycle,
        metadata,
        internal: _,
    } = query;
    capabilities.len() + tags.len() + usize::from(name.is_some()) + usize::from(skill.is_some()) == 1
        && kind.is_none()
        && version.is_none()
        && zone.is_none()
        && lifecycle.is_none()
        && metadata.is_empty()
}

impl Asked<'_> {
    /// Its place among the kinds of words; `None` for a name.
    const fn kind(self) -> Option<usize> {
        match self {
            Self::Name(_) => None,
            Self::Capability(_) => Some(0),
            Self::Skill(_) => Some(1),
            Self::Tag(_) => Some(2),
        }
    }

    fn word(self) -> Word {
        match self {
            Self::Capability(name) => name.word(),
            Self::Name(text) | Self::Skill(text) | Self::Tag(text) => Word::of(text),
        }
    }
}
