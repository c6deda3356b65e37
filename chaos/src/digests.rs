//! The digest of a region's state at each of its revisions, worked out from what the tap saw.
//!
//! What a holder says it holds is compared with this (I18, I30). The digest's own function is the product's; what it
//! is taken of is folded here, and owes nothing to any holder.

use std::collections::BTreeMap;
use std::sync::Arc;

use rollcall_model::{Epoch, InstanceId, Owned, Registration, Revision, State};
use rollcall_proto::store;

use crate::game_day::record::Sight;
use crate::tap::{Event, What};

/// Count and digest by ordinal and revision.
#[derive(Clone, Debug, Default)]
pub struct Digests {
    at: BTreeMap<(u16, u64), (u64, String)>,
}

impl Digests {
    /// Folds one history.
    #[must_use]
    pub fn of(prefix: &str, events: &[Event]) -> Self {
        let mut digests = Self::default();
        let (mut state, mut ordinal) = (State::default(), 0);
        for same in events.chunk_by(|one, next| one.revision == next.revision) {
            let revision = same[0].revision;
            // Registrations first, their owners' words second: a word of the same revision is about the new one.
            for event in same {
                let Some(key) = event.key.strip_prefix(prefix) else { continue };
                if let Some(id) = key.strip_prefix("reg/") {
                    registered(&mut state, id, &event.what, revision);
                } else if let ("meta/incarnation", What::Put { value, .. }) = (key, &event.what)
                    && let Ok(incarnation) = store::decode_incarnation(value)
                {
                    ordinal = incarnation.ordinal();
                }
            }
            for event in same {
                if let Some(id) = event.key.strip_prefix(prefix).and_then(|key| key.strip_prefix("own/")) {
                    said(&mut state, id, &event.what, revision);
                }
            }
            digests.at.insert((ordinal, revision), (state.count(), state.digest().to_string()));
        }
        digests
    }

    /// What stood at a revision; none before the history's beginning.
    #[must_use]
    pub fn at(&self, ordinal: u16, revision: u64) -> Option<(u64, &str)> {
        let (_, (count, digest)) = self.at.range((ordinal, 0)..=(ordinal, revision)).next_back()?;
        Some((*count, digest))
    }

    /// Count and digest at the end.
    #[must_use]
    pub fn head(&self) -> Option<(u64, &str)> {
        self.at.values().next_back().map(|(count, digest)| (*count, digest.as_str()))
    }

    /// The last revision that the tap saw, with its incarnation's ordinal.
    #[must_use]
    pub fn end(&self) -> (u16, u64) {
        self.at.keys().next_back().copied().unwrap_or_default()
    }

    /// Whether a holder has what stood at the end, or knows of what came after it: a store goes on when its history has
    /// been read.
    #[must_use]
    pub fn is_reached(&self, sight: &Sight) -> bool {
        self.head() == Some((sight.count, sight.digest.as_str())) || self.is_beyond(sight)
    }

    /// Whether a holder knows of what came after the end, of which nothing can be said here.
    #[must_use]
    pub fn is_beyond(&self, sight: &Sight) -> bool {
        let end = self.at.keys().next_back();
        sight.position.zip(end).is_some_and(|(position, end)| position > *end)
    }
}

fn registered(state: &mut State, id: &str, what: &What, revision: u64) {
    let Ok(id) = InstanceId::parse(id) else { return };
    let stored = match what {
        What::Put { value, .. } => store::decode_registration(value).ok(),
        What::Removed => None,
    };
    let Some(stored) = stored else {
        state.take(&id);
        return;
    };
    state.put(Arc::new(Registration {
        epoch: Epoch::new(stored.ordinal, Revision(revision)),
        registered_at: stored.registered_at,
        revision: Revision(revision),
        owned: Owned::of(&stored.declared),
        replaced: stored.replaced,
        declared: stored.declared,
    }));
}

fn said(state: &mut State, id: &str, what: &What, revision: u64) {
    // Of one that was registered at this revision only a word that came with it counts; a word that goes with its
    // record, or with its predecessor's, says nothing.
    let Some(current) = state.get(id).cloned() else { return };
    let owned = match what {
        What::Put { value, .. } => store::decode_owned(value).ok(),
        What::Removed if current.epoch == Epoch::new(current.epoch.ordinal(), Revision(revision)) => None,
        What::Removed => Some(Owned::of(&current.declared)),
    };
    if let Some(owned) = owned {
        state.put(Arc::new(Registration { owned, revision: Revision(revision), ..(*current).clone() }));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rollcall_model::declaration::RawEndpoint;
    use rollcall_model::{Declaration, Declared, Incarnation, Replaced, StateDigest, Timestamp};

    use super::*;

    fn event(revision: u64, key: &str, value: Option<Vec<u8>>) -> Event {
        let put = |value| What::Put { value, create_revision: revision, lease: 0 };
        let what = value.map_or(What::Removed, put);
        Event { revision, key: format!("p/{key}"), what, at: Duration::ZERO }
    }

    #[test]
    fn each_revision_has_the_digest_of_what_stood_then() {
        let raw = Declaration {
            id: "a/b/1".into(),
            endpoints: vec![RawEndpoint { url: "http://h:1/".into(), protocol: None }],
            ..Declaration::default()
        };
        let declared = Declared::check(raw, String::new).unwrap();
        let incarnation = store::encode_incarnation(&Incarnation::new(1, "a").unwrap()).to_vec();
        let owned = Owned { overdue: true, ..Owned::of(&declared) };
        let events = [
            event(1, "meta/incarnation", Some(incarnation)),
            event(2, "reg/a/b/1", Some(store::encode_registration(&declared, 1, Timestamp(7), &[]).to_vec())),
            event(4, "own/a/b/1", Some(store::encode_owned(&owned).to_vec())),
            event(5, "own/a/b/1", None),
            event(5, "reg/a/b/1", None),
        ];
        let digests = Digests::of("p/", &events);
        let stood = |revision, owned| {
            let registration = Registration {
                epoch: Epoch::new(1, Revision(2)),
                registered_at: Timestamp(7),
                revision: Revision(revision),
                owned,
                replaced: Replaced::default(),
                declared: declared.clone(),
            };
            let mut state = State::default();
            state.put(Arc::new(registration));
            (1, state.digest().to_string())
        };
        let at = |revision| digests.at(1, revision).map(|(count, digest)| (count, digest.to_owned()));
        assert_eq!(at(2), Some(stood(2, Owned::of(&declared))));
        assert_eq!(at(3), at(2), "nothing happened at revision 3");
        assert_eq!(at(4), Some(stood(4, owned)));
        assert_eq!(at(5), Some((0, StateDigest::EMPTY.to_string())));
        let sight = |revision, count, digest: &str| Sight {
            holder: "cell-a".to_owned(),
            cell: true,
            zone: "a".to_owned(),
            region: "p".to_owned(),
            asked: Duration::ZERO,
            at: Duration::ZERO,
            position: Some((1, revision)),
            count,
            digest: digest.to_owned(),
            age_ms: 0,
            resync: String::new(),
        };
        let empty = StateDigest::EMPTY.to_string();
        assert!(digests.is_reached(&sight(4, 0, &empty)), "it holds what stood at the end");
        assert!(!digests.is_reached(&sight(5, 1, "x")) && !digests.is_beyond(&sight(5, 1, "x")));
        assert!(digests.is_reached(&sight(6, 1, "x")), "of what came after the end nothing can be said");
    }
}
