//! Registrations in order of id, the first one at hand, and walks over them from any place on. Nothing here allocates
//! but what changes a listing.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::query::Query;
use crate::registration::Registration;
use crate::state::tree::Tree;

/// Registrations in order of id, the first one at hand.
#[derive(Clone, Debug, Default)]
pub(super) struct Listing {
    all: Tree,
    first: Option<Arc<Registration>>,
}

impl Listing {
    /// Lists what stands in order of id, no id twice.
    pub(super) fn in_order(sorted: &[Arc<Registration>]) -> Self {
        Self { all: Tree::in_order(sorted), first: sorted.first().cloned() }
    }

    /// Puts one in the place of its id; gives back what was there.
    pub(super) fn insert(&mut self, registration: Arc<Registration>) -> Option<Arc<Registration>> {
        // Nearly always another one is the first, and stays it.
        if self.first.as_ref().is_none_or(|first| registration.declared.id <= first.declared.id) {
            self.first = Some(Arc::clone(&registration));
        }
        self.all.insert(registration)
    }

    pub(super) fn remove(&mut self, id: &str) -> Option<Arc<Registration>> {
        let before = self.all.remove(id);
        if self.first.as_ref().is_some_and(|first| first.declared.id.as_str() == id) {
            self.first = self.all.first().cloned();
        }
        before
    }

    pub(super) fn get(&self, id: &str) -> Option<&Arc<Registration>> {
        self.all.get(id)
    }

    #[inline]
    pub(super) const fn first(&self) -> Option<&Arc<Registration>> {
        self.first.as_ref()
    }

    /// Whether all are of one namespace, and it is this one: then the first and the last are.
    pub(super) fn is_within(&self, namespace: &str) -> bool {
        self.ends().all(|one| one.declared.id.namespace() == namespace)
    }

    /// The first and the last.
    pub(super) fn ends(&self) -> impl Iterator<Item = &Arc<Registration>> {
        [self.first.as_ref(), self.all.last()].into_iter().flatten()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn iter(&self) -> Run<'_> {
        Run::new(self, Place::Start)
    }

    /// Whether both hold the same records, not only records of the same ids.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self.iter().zip(other.iter()).all(|(one, other)| Arc::ptr_eq(one, other))
            && self.first.is_some() == (self.len() > 0)
            && self.first.as_ref().zip(self.all.first()).is_none_or(|(kept, first)| Arc::ptr_eq(kept, first))
    }
}

/// A place in the order of ids.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    /// Before everything.
    Start,
    /// Before all that stand in the namespace of a query, or are of its agent, and behind all that stand before these.
    Before(&'a Query),
    /// Just behind this id.
    Behind(&'a str),
}

impl Place<'_> {
    /// Whether one stands before it.
    fn is_behind(self, one: &Registration) -> bool {
        let id = one.declared.id.as_str();
        match self {
            Place::Start => false,
            // What begins with a prefix stands behind it.
            Place::Before(query) => against_prefix(query, id) == Ordering::Greater,
            Place::Behind(place) => id <= place,
        }
    }
}

/// How the ids of a query's namespace or agent begin, never put together, against a text.
pub(super) fn against_prefix(query: &Query, text: &str) -> Ordering {
    let namespace = query.namespace.iter().map(String::as_str);
    let name = query.name.iter().map(String::as_str);
    let prefix = namespace.chain(name).flat_map(|part| [part, "/"]).flat_map(str::bytes);
    prefix.cmp(text.bytes())
}

/// Walks a listing from a place on.
pub(super) struct Run<'a> {
    listing: &'a Listing,
    /// Those of the leaf where the walk is.
    leaf: std::slice::Iter<'a, Arc<Registration>>,
    /// How many stand before the next one.
    rank: usize,
}

impl<'a> Run<'a> {
    pub(super) fn new(listing: &'a Listing, from: Place<'_>) -> Self {
        let rank = match from {
            Place::Start => 0,
            Place::Before(_) | Place::Behind(_) => listing.all.rank(|one| from.is_behind(one)),
        };
        Self { listing, leaf: [].iter(), rank }
    }
}

impl<'a> Iterator for Run<'a> {
    type Item = &'a Arc<Registration>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let next = match self.leaf.next() {
            Some(next) => Some(next),
            // Whoever takes one candidate never opens the tree.
            None if self.rank == 0 => self.listing.first(),
            None => {
                self.leaf = self.listing.all.run(self.rank).iter();
                self.leaf.next()
            }
        };
        self.rank += usize::from(next.is_some());
        next
    }
}
