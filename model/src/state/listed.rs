//! Registrations in order of id: sets that share all but what changes, and walks over them that allocate nothing for
//! the first few.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use equivalent::{Comparable, Equivalent};
use imbl::OrdSet;
use imbl::shared_ptr::DefaultSharedPtr;

use crate::query::Query;
use crate::registration::Registration;

/// A registration in a set, in order of its id; two of one id are the same place.
#[derive(Clone, Debug)]
pub(super) struct Listed(pub(super) Arc<Registration>);

/// Registrations in order of id, the first one at hand.
#[derive(Clone, Debug, Default)]
pub(super) struct Listing {
    all: OrdSet<Listed>,
    first: Option<Listed>,
}

impl Listing {
    /// Puts one in the place of its id; gives back what was there.
    pub(super) fn insert(&mut self, registration: Arc<Registration>) -> Option<Arc<Registration>> {
        // Nearly always another one is the first, and stays it.
        if self.first.as_ref().is_none_or(|first| registration.declared.id <= first.0.declared.id) {
            self.first = Some(Listed(Arc::clone(&registration)));
        }
        self.all.insert(Listed(registration)).map(|listed| listed.0)
    }

    pub(super) fn remove(&mut self, id: &str) -> Option<Arc<Registration>> {
        let before = self.all.remove(id);
        if self.first.as_ref().is_some_and(|first| first.id() == id) {
            self.first = self.all.get_min().cloned();
        }
        before.map(|listed| listed.0)
    }

    pub(super) fn get(&self, id: &str) -> Option<&Arc<Registration>> {
        self.all.get(id).map(|listed| &listed.0)
    }

    /// Whether all are of one namespace, and it is this one: then the first and the last are.
    pub(super) fn is_within(&self, namespace: &str) -> bool {
        let ends = [self.first.as_ref(), self.all.get_max()];
        ends.into_iter().flatten().all(|listed| listed.0.declared.id.namespace() == namespace)
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Registration>> {
        self.all.iter().map(|listed| &listed.0)
    }

    /// Whether both hold the same records, not only records of the same ids.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().zip(other.iter()).all(|(one, other)| Arc::ptr_eq(one, other))
    }
}

impl Listed {
    fn id(&self) -> &str {
        self.0.declared.id.as_str()
    }
}

impl PartialEq for Listed {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}
impl Eq for Listed {}
impl PartialOrd for Listed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Listed {
    fn cmp(&self, other: &Self) -> Ordering {
        self.id().cmp(other.id())
    }
}

impl Borrow<str> for Listed {
    fn borrow(&self) -> &str {
        self.id()
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
    /// Just behind this registration. Its id is not looked at before somebody goes on from here.
    After(&'a Arc<Registration>),
}

impl Equivalent<Listed> for Place<'_> {
    /// It is between ids.
    fn equivalent(&self, _: &Listed) -> bool {
        false
    }
}

impl Comparable<Listed> for Place<'_> {
    fn compare(&self, listed: &Listed) -> Ordering {
        let behind = |place: &str| if place < listed.id() { Ordering::Less } else { Ordering::Greater };
        match self {
            Place::Start => Ordering::Less,
            // What begins with a prefix stands behind it.
            Place::Before(query) => against_prefix(query, listed.id()),
            Place::Behind(place) => behind(place),
            Place::After(registration) => behind(registration.declared.id.as_str()),
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
    /// Where the next one is looked for, until the walk has begun.
    from: Place<'a>,
    /// In a box, because whoever takes one candidate moves all of this about and never needs it.
    rest: Option<Box<Rest<'a>>>,
}

type Rest<'a> = imbl::ordset::RangedIter<'a, Listed, DefaultSharedPtr>;

impl<'a> Run<'a> {
    pub(super) const fn new(listing: &'a Listing, from: Place<'a>) -> Self {
        Self { listing, from, rest: None }
    }

    /// The next one of a walk, which allocates when it begins.
    #[cold]
    fn walk(&mut self) -> Option<&'a Listed> {
        if self.rest.is_none() {
            let rest =
                self.listing.all.range::<_, Place<'_>>((Bound::Included(&self.from), Bound::Unbounded));
            self.rest = Some(Box::new(rest));
        }
        self.rest.as_mut()?.next()
    }
}

impl<'a> Iterator for Run<'a> {
    type Item = &'a Arc<Registration>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if !matches!(self.from, Place::Start) {
            return self.walk().map(|listed| &listed.0);
        }
        let first = &self.listing.first.as_ref()?.0;
        self.from = Place::After(first);
        Some(first)
    }
}
