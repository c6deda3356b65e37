//! Which registrations have what a query can ask beside words: a zone, a kind, a lifecycle, a version, metadata.
//!
//! Cells keep it, because people and tools ask them all of these questions; callers ask for words nearly always, and
//! their memory is dear. A question that has both goes by whichever has fewer registrations.

use std::collections::BinaryHeap;
use std::sync::Arc;

use imbl::OrdMap;
use semver::Version;
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

use crate::name::Zone;
use crate::query::Query;
use crate::registration::Registration;
use crate::state::listed::{Listing, Place, Run};
use crate::state::words::Words;
use crate::word::Word;

/// Who has which facet, always what the records say (promise I12).
#[derive(Clone, Debug, Default)]
pub(super) struct Facets {
    by_word: Words<Listing>,
    /// In order, because a query asks for a range of them.
    by_version: OrdMap<Version, Listing>,
}

/// A facet but the version, borrowed.
#[derive(Clone, Copy)]
enum Facet<'a> {
    Zone(&'a str),
    Kind(&'a str),
    Lifecycle(&'a str),
    Metadata(&'a str, &'a str),
}

/// Where to look for what a query asks beside words.
pub(super) enum Fewest<'a> {
    /// It asks nothing of the kind.
    NoFacet,
    /// Among those with one facet.
    Of(&'a Listing),
    /// Among those with one of several versions.
    Versions(Vec<&'a Listing>),
}

impl Facets {
    /// Lists a registration under all it has, in the place of one of the same id.
    pub(super) fn list(&mut self, registration: &Arc<Registration>) {
        for facet in facets(registration) {
            let word = facet.word();
            if let Some(listing) = self.by_word.get_mut(word) {
                listing.insert(Arc::clone(registration));
            } else {
                self.by_word.insert(word, one(registration));
            }
        }
        if let Some(version) = version(registration) {
            if let Some(listing) = self.by_version.get_mut(&version) {
                listing.insert(Arc::clone(registration));
            } else {
                self.by_version.insert(version, one(registration));
            }
        }
    }

    pub(super) fn unlist(&mut self, registration: &Registration) {
        let id = registration.declared.id.as_str();
        for facet in facets(registration) {
            let word = facet.word();
            if let Some(listing) = self.by_word.get_mut(word) {
                listing.remove(id);
                if listing.len() == 0 {
                    self.by_word.remove(word);
                }
            }
        }
        if let Some(version) = version(registration)
            && let Some(listing) = self.by_version.get_mut(&version)
        {
            listing.remove(id);
            if listing.len() == 0 {
                self.by_version.remove(&version);
            }
        }
    }

    /// A zone as somebody in it holds it.
    pub(super) fn zone(&self, zone: &Zone) -> Option<&Zone> {
        self.by_word.get(Facet::Zone(zone.as_str()).word())?.first()?.declared.zone.as_ref()
    }

    /// Whether both list the same records, not only records of the same ids.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let is_same = |one: &Listing, other: Option<&Listing>| other.is_some_and(|other| one.is_same(other));
        self.by_word.len() == other.by_word.len()
            && self.by_version.len() == other.by_version.len()
            && self.by_word.all(|word, one| is_same(one, other.by_word.get(word)))
            && self.by_version.iter().all(|(version, one)| is_same(one, other.by_version.get(version)))
    }

    /// The facet of a query that the fewest have. Of a range, each version that anybody has is compared with it.
    pub(super) fn fewest(&self, query: &Query) -> Fewest<'_> {
        let mut fewest: Option<&Listing> = None;
        for facet in asked(query) {
            // A facet that nobody has leaves nobody to look at.
            let Some(listing) = self.by_word.get(facet.word()) else { return Fewest::Versions(Vec::new()) };
            if fewest.is_none_or(|best| listing.len() < best.len()) {
                fewest = Some(listing);
            }
        }
        let Some(requirement) = &query.version else { return fewest.map_or(Fewest::NoFacet, Fewest::Of) };
        let within = self.by_version.iter().filter(|(version, _)| requirement.matches(version));
        let within: Vec<&Listing> = within.map(|(_, listing)| listing).collect();
        let many: usize = within.iter().map(|listing| listing.len()).sum();
        match fewest {
            Some(listing) if listing.len() <= many => Fewest::Of(listing),
            Some(_) | None => Fewest::Versions(within),
        }
    }
}

impl Fewest<'_> {
    /// How many there are to look at; `None` when everybody is.
    pub(super) fn many(&self) -> Option<usize> {
        match self {
            Self::NoFacet => None,
            Self::Of(listing) => Some(listing.len()),
            Self::Versions(listings) => Some(listings.iter().map(|listing| listing.len()).sum()),
        }
    }
}

/// Whether both have the same facets: nearly always, because what changes is nearly always the load.
pub(super) fn has_same_facets(one: &Registration, other: &Registration) -> bool {
    one.declared.zone == other.declared.zone
        && one.declared.kind == other.declared.kind
        && one.declared.version == other.declared.version
        && one.owned.lifecycle == other.owned.lifecycle
        && one.owned.metadata == other.owned.metadata
}

fn one(registration: &Arc<Registration>) -> Listing {
    let mut listing = Listing::default();
    listing.insert(Arc::clone(registration));
    listing
}

fn facets(registration: &Registration) -> impl Iterator<Item = Facet<'_>> {
    let (declared, owned) = (&registration.declared, &registration.owned);
    let closed = [Facet::Kind(declared.kind.as_str()), Facet::Lifecycle(owned.lifecycle.as_str())];
    let zone = declared.zone.iter().map(|zone| Facet::Zone(zone.as_str()));
    let metadata = owned.metadata.iter().map(|(key, value)| Facet::Metadata(key, value));
    closed.into_iter().chain(zone).chain(metadata)
}

fn asked(query: &Query) -> impl Iterator<Item = Facet<'_>> {
    let kind = query.kind.iter().map(|kind| Facet::Kind(kind.as_str()));
    let lifecycle = query.lifecycle.iter().map(|lifecycle| Facet::Lifecycle(lifecycle.as_str()));
    let zone = query.zone.iter().map(|zone| Facet::Zone(zone.as_str()));
    let metadata = query.metadata.iter().map(|(key, value)| Facet::Metadata(key, value));
    kind.chain(lifecycle).chain(zone).chain(metadata)
}

/// The version, if it is one: what a card calls its version may be any text, and matches no range.
fn version(registration: &Registration) -> Option<Version> {
    registration.declared.version.as_deref().and_then(|text| Version::parse(text).ok())
}

impl Facet<'_> {
    /// As for words: two of one hash would cost each other's time and nothing else, for whoever is met is compared.
    fn word(self) -> Word {
        let (seed, text) = match self {
            Self::Zone(zone) => (1, zone),
            Self::Kind(kind) => (2, kind),
            Self::Lifecycle(lifecycle) => (3, lifecycle),
            Self::Metadata(key, value) => (xxh3_64_with_seed(key.as_bytes(), 4), value),
        };
        Word(xxh3_128_with_seed(text.as_bytes(), seed))
    }
}

/// Walks several listings that share nobody as if they were one.
pub(super) struct Merged<'a>(BinaryHeap<Next<'a>>);

/// The next one of a listing, and those behind it.
struct Next<'a> {
    registration: &'a Arc<Registration>,
    rest: Run<'a>,
}

impl<'a> Merged<'a> {
    pub(super) fn new(listings: Vec<&'a Listing>, from: Place<'a>) -> Self {
        let begin = |listing: &'a Listing| {
            let mut rest = Run::new(listing.whole(), from);
            Some(Next { registration: rest.next()?, rest })
        };
        Self(listings.into_iter().filter_map(begin).collect())
    }
}

impl<'a> Iterator for Merged<'a> {
    type Item = &'a Arc<Registration>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut next = self.0.peek_mut()?;
        let registration = next.registration;
        match next.rest.next() {
            Some(following) => next.registration = following,
            None => drop(std::collections::binary_heap::PeekMut::pop(next)),
        }
        Some(registration)
    }
}

impl Next<'_> {
    fn id(&self) -> &str {
        self.registration.declared.id.as_str()
    }
}
impl PartialEq for Next<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}
impl Eq for Next<'_> {}
impl PartialOrd for Next<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Next<'_> {
    /// The heap gives its greatest first, and a walk the least id.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.id().cmp(self.id())
    }
}
