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
                let mut listing =
                    Listing::of(Run::new(named.those(records), Place::Start).cloned().collect());
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

/// Names on their way, of registrations that come in order of id, no id twice.
#[derive(Clone, Debug, Default)]
pub(super) struct Gathered {
    /// Each agent's name, the first of its instances, and how many came.
    agents: Vec<(Word, Arc<Registration>, u32)>,
}

impl Gathered {
    pub(super) fn add(&mut self, one: &Arc<Registration>) {
        match self.agents.last_mut() {
            Some((_, first, many)) if one.declared.id.has_agent_of(&first.declared.id) => *many += 1,
            Some(_) | None => self.agents.push((word(one), Arc::clone(one), 1)),
        }
    }

    /// The names of all that came, and is listed so.
    pub(super) fn finish(self, records: &Listing) -> Names {
        let mut agents = self.agents;
        agents.sort_by_key(|(word, ..)| word.0);
        let mut others = Vec::new();
        let mut last = None;
        agents.retain(|(word, first, many)| {
            let is_known = last.replace(*word) == Some(*word);
            if is_known {
                others.push((Arc::clone(first), *many));
            }
            !is_known
        });
        let together = |(word, first, many)| (word, Named::Together { first, many });
        let mut names = Names(agents.into_iter().map(together).collect());
        // Agents of a name that another namespace has as well.
        for (first, many) in &others {
            let those = Run::new(records.stretch(first, *many as usize), Place::Start);
            those.for_each(|one| names.add(one, records));
        }
        names
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
