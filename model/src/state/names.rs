//! Which registrations have a name.
//!
//! The instances of an agent stand together among the records, so a name keeps no list of them: it keeps who is the
//! first and how many there are. Only a name that agents of several namespaces have is listed, from the second of them
//! on. Never here: another kind of word; those who have one stand anywhere.

use std::sync::Arc;

use crate::registration::Registration;
use crate::state::listed::{Listing, Place, Run, Stretch};
use crate::state::words::Words;
use crate::word::Word;

/// Who has which name, always what the records say (promise I12).
#[derive(Clone, Debug, Default)]
pub(super) struct Names(Words<Named>);

#[derive(Clone, Debug)]
enum Named {
    /// One agent: so many of the records from the first one on.
    Together { first: Arc<Registration>, many: u32 },
    /// Agents of several namespaces. In a box, because there are few of these names and many of the others.
    Apart(Box<Listing>),
}

impl Names {
    /// The names of records that stand in order of id, no id twice.
    pub(super) fn of(records: &[Arc<Registration>], listed: &Listing) -> Self {
        let mut names = Self::default();
        for agent in records.chunk_by(|one, next| one.declared.id.agent() == next.declared.id.agent()) {
            let Some(first) = agent.first() else { continue };
            let word = word(first);
            if names.0.get(word).is_some() {
                agent.iter().for_each(|one| names.add(one, listed));
            } else {
                let many = u32::try_from(agent.len()).unwrap_or(u32::MAX);
                names.0.insert(word, Named::Together { first: Arc::clone(first), many });
            }
        }
        names
    }

    /// Those who have a name; `None` when nobody has it.
    pub(super) fn get<'a>(&'a self, name: Word, records: &'a Listing) -> Option<Stretch<'a>> {
        Some(self.0.get(name)?.those(records))
    }

    /// The first of them.
    #[inline]
    pub(super) fn first(&self, name: Word) -> Option<&Arc<Registration>> {
        match self.0.get(name)? {
            Named::Together { first, .. } => Some(first),
            Named::Apart(listing) => listing.first(),
        }
    }

    /// Takes one that was not there; it stands among the records already.
    pub(super) fn add(&mut self, one: &Arc<Registration>, records: &Listing) {
        let word = word(one);
        match self.0.get_mut(word) {
            None => self.0.insert(word, Named::Together { first: Arc::clone(one), many: 1 }),
            Some(Named::Apart(listing)) => drop(listing.insert(Arc::clone(one))),
            Some(Named::Together { first, many }) if first.declared.id.agent() == one.declared.id.agent() => {
                *many += 1;
                if one.declared.id < first.declared.id {
                    *first = Arc::clone(one);
                }
            }
            Some(named) => {
                let together: Vec<_> = Run::new(named.those(records), Place::Start).cloned().collect();
                let mut listing = Listing::in_order(&together);
                listing.insert(Arc::clone(one));
                *named = Named::Apart(Box::new(listing));
            }
        }
    }

    /// Takes one in the place of one of the same id.
    pub(super) fn replace(&mut self, one: &Arc<Registration>) {
        let word = word(one);
        match self.0.get(word) {
            // Looked at first: nothing is copied for one that is not the first, as nearly all are.
            Some(Named::Together { first, .. }) if first.declared.id != one.declared.id => return,
            Some(_) | None => {}
        }
        match self.0.get_mut(word) {
            Some(Named::Together { first, .. }) => *first = Arc::clone(one),
            Some(Named::Apart(listing)) => drop(listing.insert(Arc::clone(one))),
            None => {}
        }
    }

    /// Lets go of one that stands among the records no more.
    pub(super) fn remove(&mut self, one: &Registration, records: &Listing) {
        let word = word(one);
        let id = one.declared.id.as_str();
        let is_last = match self.0.get_mut(word) {
            None => return,
            Some(Named::Together { many: 1, .. }) => true,
            Some(Named::Together { first, many }) => {
                *many -= 1;
                if first.declared.id.as_str() == id
                    && let Some(next) = Run::new(records.whole(), Place::Behind(id)).next()
                {
                    *first = Arc::clone(next);
                }
                false
            }
            Some(Named::Apart(listing)) => {
                listing.remove(id);
                listing.len() == 0
            }
        };
        if is_last {
            self.0.remove(word);
        }
    }

    /// Whether both name the same records, not only records of the same ids.
    pub(super) fn is_same(&self, records: &Listing, other: &Self, others: &Listing) -> bool {
        self.0.len() == other.0.len()
            && self.0.all(|word, named| {
                other.get(word, others).is_some_and(|other| named.those(records).is_same(other))
            })
    }
}

impl Named {
    fn those<'a>(&'a self, records: &'a Listing) -> Stretch<'a> {
        match self {
            Self::Together { first, many } => records.stretch(first, *many as usize),
            Self::Apart(listing) => listing.whole(),
        }
    }
}

fn word(registration: &Registration) -> Word {
    Word::of(registration.declared.id.name())
}
