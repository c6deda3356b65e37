//! Registrations in order of id, the first one at hand, and walks over them from any place on. Nothing here allocates
//! but what changes a listing.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::query::Query;
use crate::registration::Registration;
use crate::state::tree::{Growing, Tree};

/// Registrations in order of id, the first one at hand.
#[derive(Clone, Debug, Default)]
pub(super) struct Listing {
    all: Tree,
    first: Option<Arc<Registration>>,
}

impl Listing {
    /// Lists all that came, in order of id.
    pub(super) fn of(sorted: Growing) -> Self {
        let all = sorted.finish();
        Self { first: all.first().cloned(), all }
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

    /// So many of it, all of one agent, from one on that stands in it.
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

/// Registrations that stand together in a listing: all of it, or so many of one agent from one on.
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
                self.listing.all.at(before + many.saturating_sub(1)).leaf.first()
            }
        }
    }

    /// Whether all are of one namespace, and it is this one: then the first and the last are, and of one agent's the first
    /// speaks for all.
    pub(super) fn is_within(self, namespace: &str) -> bool {
        let is_of_it = |one: &Arc<Registration>| one.declared.id.namespace() == namespace;
        match self.part {
            Some((first, _)) => is_of_it(first),
            None => self.ends().all(is_of_it),
        }
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
    /// The leaves behind it on the same branch.
    next: std::slice::Iter<'a, Tree>,
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
        Self { stretch, at_hand, leaf: [].iter(), next: [].iter(), rank, left }
    }

    /// Opens the next leaf: nearly always it hangs on the branch of the last one.
    fn open(&mut self) -> Option<&'a Arc<Registration>> {
        if let (Some(rank), Some(Tree::Leaf(leaf))) = (&mut self.rank, self.next.next()) {
            *rank += leaf.len();
            self.leaf = leaf.iter();
            return self.leaf.next();
        }
        let tree = &self.stretch.listing.all;
        let mut seat = match (self.rank, self.stretch.part) {
            (None, Some((first, _))) => tree.seek(|one| one.declared.id <= first.declared.id),
            (rank, _) => tree.at(rank.unwrap_or(1)),
        };
        if seat.leaf.is_empty() {
            // It is told as the end of a leaf: those behind it stand elsewhere.
            seat = tree.at(seat.rank);
        }
        self.rank = Some(seat.rank + seat.leaf.len());
        (self.leaf, self.next) = (seat.leaf.iter(), seat.next.iter());
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// A thousand stand on several branches, whose leaves are anything between few and full.
        #[test]
        fn a_walk_meets_everyone_behind_its_place_whatever_they_hang_on(
            put in prop::collection::vec(0_u16..1_000, 0..1_200),
            gone in prop::collection::vec(0_u16..1_000, 0..500),
            is_in_order: bool,
            (many, from) in (0_usize..1_200, 0_u16..1_000),
        ) {
            let one = |id: u16| Arc::new(testing::registration(&format!("a/b/{id:05}"), 1, u64::from(id) + 1));
            let mut listing = if is_in_order {
                Listing::of((0..1_000).map(one).collect())
            } else {
                Listing::default()
            };
            put.iter().for_each(|id| drop(listing.insert(one(*id))));
            gone.iter().for_each(|id| drop(listing.remove(&format!("a/b/{id:05}"))));
            let mut all = Vec::new();
            while let seat = listing.all.at(all.len())
                && !seat.leaf.is_empty()
            {
                all.extend(seat.leaf.iter());
            }
            prop_assert!(listing.iter().eq(all.iter().copied()));
            for (at, first) in all.iter().copied().enumerate() {
                let many = 1 + many % (all.len() - at);
                prop_assert!(Run::new(listing.stretch(first, many), Place::Start).eq(all.iter().skip(at).take(many).copied()));
            }
            let place = format!("a/b/{from:05}");
            let behind = || all.iter().copied().filter(|one| one.declared.id.as_str() > place.as_str());
            prop_assert!(Run::new(listing.whole(), Place::Behind(&place)).eq(behind()));
            if let Some(first) = all.first().copied() {
                let many = 1 + many % all.len();
                let within = behind().filter(|one| all.iter().take(many).any(|other| Arc::ptr_eq(one, other)));
                prop_assert!(Run::new(listing.stretch(first, many), Place::Behind(&place)).eq(within));
            }
        }
    }
}
