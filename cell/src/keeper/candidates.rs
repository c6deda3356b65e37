//! Who stands for the keeper's office, read from the region's own history. Pure.
//!
//! Every candidate has a key; the one whose key is oldest holds the office. Never here: proof that it still does. What
//! is asked of it on this ground, it answers on its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use rollcall_model::Revision;

use crate::store::Effect;

/// The keeper as another process of the cell knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InOffice {
    /// Its term.
    pub term: u64,
    /// The key that it holds the office by.
    pub key: Arc<str>,
    /// Where it answers; empty when it said nothing that others could reach.
    pub address: Arc<str>,
}

/// All candidates.
#[derive(Clone, Debug, Default)]
pub(crate) struct Candidates(BTreeMap<String, (Revision, Arc<str>)>);

impl Candidates {
    /// Takes in what happened to one key of the office.
    pub(crate) fn follow(&mut self, effect: &Effect) {
        match effect {
            Effect::Put(entry) => {
                let address = String::from_utf8_lossy(&entry.value).as_ref().into();
                self.0.insert(entry.key.clone(), (entry.mod_revision, address));
            }
            Effect::Removed(key) => drop(self.0.remove(key)),
        }
    }

    /// Who holds the office.
    pub(crate) fn in_office(&self) -> Option<InOffice> {
        let (key, (term, address)) = self.0.iter().min_by_key(|(_, (revision, _))| *revision)?;
        Some(InOffice { term: term.0, key: key.as_str().into(), address: Arc::clone(address) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Entry;

    fn stands(key: &str, at: u64, address: &str) -> Effect {
        let revision = Revision(at);
        Effect::Put(Entry {
            key: key.into(),
            value: address.to_owned().into(),
            create_revision: revision,
            mod_revision: revision,
        })
    }

    #[test]
    fn the_oldest_candidate_is_in_office_until_its_key_is_gone() {
        let mut candidates = Candidates::default();
        assert_eq!(candidates.in_office(), None);
        let mut after = |effect| {
            candidates.follow(&effect);
            candidates.in_office().map(|keeper| (keeper.term, keeper.address.to_string()))
        };
        assert_eq!(after(stands("keeper/b", 7, "http://b")), Some((7, "http://b".into())));
        assert_eq!(after(stands("keeper/a", 9, "http://a")), Some((7, "http://b".into())));
        assert_eq!(after(Effect::Removed("keeper/b".into())), Some((9, "http://a".into())));
        // The embedded store writes one key for all.
        assert_eq!(after(stands("keeper/a", 12, "http://c")), Some((12, "http://c".into())));
        assert_eq!(after(Effect::Removed("keeper/a".into())), None);
    }
}
