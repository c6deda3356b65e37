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

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn iter(&self) -> Run<'_> {
        Run::new(self.whole(), Place::Start)
    }

    /// All of it.
    pub(super) const fn whole(&self) -> Stretch<'_> {
        Stretch { listing: self, part: None }
    }

    /// So many of it, from one on that stands in it.
    pub(super) const fn stretch<'a>(&'a self, first: &'a Arc<Registration>, many: usize) -> Stretch<'a> {
        Stretch { listing: self, part: Some((first, many)) }
    }

    /// Whether both hold the same records, not only records of the same ids.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.whole().is_same(other.whole())
            && self.first.is_some() == (self.len() > 0)
            && self.first.as_ref().zip(self.all.first()).is_none_or(|(kept, first)| Arc::ptr_eq(kept, first))
    }
}

/// Registrations that stand together in a listing: all of it, or so many from one on.
#[derive(Clone, Copy)]
pub(super) struct Stretch<'a> {
    listing: &'a Listing,
    part: Option<(&'a Arc<Registration>, usize)>,
}

impl<'a> Stretch<'a> {
    pub(super) fn len(self) -> usize {
        self.part.map_or_else(|| self.listing.len(), |(_, many)| many)
    }

    #[inline]
    pub(super) fn first(self) -> Option<&'a Arc<Registration>> {
        self.part.map_or_else(|| self.listing.first(), |(first, _)| Some(first))
    }

    fn last(self) -> Option<&'a Arc<Registration>> {
        match self.part {
            None => self.listing.all.last(),
            Some((first, 1)) => Some(first),
            Some((first, many)) => {
                let before = self.listing.all.rank(|one| one.declared.id < first.declared.id);
                self.listing.all.run(before + many.saturating_sub(1)).first()
            }
        }
    }

    /// Whether all are of one namespace, and it is this one: then the first and the last are.
    pub(super) fn is_within(self, namespace: &str) -> bool {
        self.ends().all(|one| one.declared.id.namespace() == namespace)
    }

    /// The first and the last.
    pub(super) fn ends(self) -> impl Iterator<Item = &'a Arc<Registration>> {
        [self.first(), self.last()].into_iter().flatten()
    }

    /// Whether both hold the same records, not only records of the same ids.
    pub(super) fn is_same(self, other: Self) -> bool {
        let walk = |stretch| Run::new(stretch, Place::Start);
        self.len() == other.len() && walk(self).zip(walk(other)).all(|(one, other)| Arc::ptr_eq(one, other))
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

/// Walks a stretch from a place on.
pub(super) struct Run<'a> {
    stretch: Stretch<'a>,
    /// The first of all, when the walk begins with it: whoever takes one candidate never opens the tree.
    at_hand: Option<&'a Arc<Registration>>,
    /// Those of the leaf where the walk is.
    leaf: std::slice::Iter<'a, Arc<Registration>>,
    /// How many of the listing stand before the next leaf, once one was opened.
    rank: Option<usize>,
    /// How many of the stretch are left, at most.
    left: usize,
}

impl<'a> Run<'a> {
    pub(super) fn new(stretch: Stretch<'a>, from: Place<'_>) -> Self {
        let (at_hand, rank, left) = match (from, stretch.part) {
            (Place::Start, part) => (stretch.first(), None, part.map_or(usize::MAX, |(_, many)| many)),
            (_, None) => (None, Some(stretch.listing.all.rank(|one| from.is_behind(one))), usize::MAX),
            (_, Some((first, many))) => {
                let begin = stretch.listing.all.rank(|one| one.declared.id < first.declared.id);
                let rank = stretch.listing.all.rank(|one| from.is_behind(one)).max(begin);
                (None, Some(rank), (begin + many).saturating_sub(rank))
            }
        };
        Self { stretch, at_hand, leaf: [].iter(), rank, left }
    }

    /// Opens the next leaf.
    fn open(&mut self) -> Option<&'a Arc<Registration>> {
        let tree = &self.stretch.listing.all;
        let rank = match (self.rank, self.stretch.part) {
            (Some(rank), _) => rank,
            (None, None) => 1,
            (None, Some((first, _))) => tree.rank(|one| one.declared.id <= first.declared.id),
        };
        let leaf = tree.run(rank);
        self.rank = Some(rank + leaf.len());
        self.leaf = leaf.iter();
        self.leaf.next()
    }
}

impl<'a> Iterator for Run<'a> {
    type Item = &'a Arc<Registration>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        match self.leaf.next() {
            Some(next) => Some(next),
            None => self.at_hand.take().or_else(|| self.open()),
        }
    }
}
