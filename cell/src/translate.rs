//! From the store's history to the region's: pure, one revision at a time.

use std::sync::Arc;

use rollcall_model::{
    Change, Epoch, Incarnation, InstanceId, Owned, Registration, Removal, RemovalReason, Revision, State,
    Timestamp,
};
use rollcall_proto::store::{Beat, Gone, decode_beat, decode_owned, decode_registration, decode_removal};

use crate::store::keys::{self, Key};
use crate::store::{Effect, Entry, Happened};

/// What one revision of the store means.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meaning {
    /// Changes of registrations, in order.
    pub changes: Vec<Change>,
    /// The keeper's beat, with its revision.
    pub beat: Option<(Beat, Revision)>,
    /// What happened to candidates for the keeper's office, in order.
    pub office: Vec<Effect>,
    /// The store was declared to hold another history.
    pub refounded: bool,
    /// Keys or values that are not ours (fault F54).
    pub foreign: Vec<String>,
}

/// Reads one revision. `state` is the state before it, `wall` the time to tell for what came without one.
#[must_use]
pub fn translate(incarnation: &Incarnation, state: &State, happened: &Happened, wall: Timestamp) -> Meaning {
    let mut meaning = Meaning::default();
    let reasons = reasons(happened, wall);
    // Registrations first, their owners' statements second: a statement of the same revision is about the new one.
    for effect in &happened.effects {
        match effect {
            Effect::Put(entry) => match keys::parse(&entry.key) {
                Key::Registration(id) => match registration(&id, entry) {
                    Some(mut put) => {
                        state.share(&mut put);
                        meaning.changes.push(Change::Put(Arc::new(put)));
                    }
                    None => {
                        meaning.foreign.push(entry.key.clone());
                        // Overwritten by hand: the registration that stood there is gone (F54).
                        if let Some(was) = state.get(id.as_str()) {
                            let removal = removal(&id, was.epoch, &reasons, happened.revision);
                            meaning.changes.push(Change::Remove(Arc::new(removal)));
                        }
                    }
                },
                Key::Beat => match decode_beat(&entry.value) {
                    Ok(beat) => meaning.beat = Some((beat, entry.mod_revision)),
                    Err(_) => meaning.foreign.push(entry.key.clone()),
                },
                Key::Incarnation => {
                    let same = rollcall_proto::store::decode_incarnation(&entry.value)
                        .is_ok_and(|i| i == *incarnation);
                    meaning.refounded |= !same;
                }
                Key::Office => meaning.office.push(effect.clone()),
                Key::Owned(_) | Key::Removal => {}
                Key::Foreign => meaning.foreign.push(entry.key.clone()),
            },
            Effect::Removed(key) => match keys::parse(key) {
                Key::Registration(id) => {
                    if let Some(was) = state.get(id.as_str()) {
                        let removal = removal(&id, was.epoch, &reasons, happened.revision);
                        meaning.changes.push(Change::Remove(Arc::new(removal)));
                    }
                }
                Key::Incarnation => meaning.refounded = true,
                Key::Office => meaning.office.push(effect.clone()),
                Key::Owned(_) | Key::Beat | Key::Removal | Key::Foreign => {}
            },
        }
    }
    for effect in &happened.effects {
        let (id, owned, key) = match effect {
            Effect::Put(entry) => match keys::parse(&entry.key) {
                Key::Owned(id) => (id, decode_owned(&entry.value).ok(), &entry.key),
                _ => continue,
            },
            Effect::Removed(key) => match keys::parse(key) {
                Key::Owned(id) => (id, None, key),
                _ => continue,
            },
        };
        let is_put = matches!(effect, Effect::Put(_));
        if is_put && owned.is_none() {
            // Overwritten by hand: what its owner said is lost, as if it were deleted, and the registration stands (F54).
            meaning.foreign.push(key.clone());
        }
        // A statement that vanishes with its registration, or is overtaken by a new one, is already told.
        let told = meaning.changes.iter().any(|change| change.id() == &id);
        if told && !is_put {
            continue;
        }
        let Some(current) = current(state, &meaning.changes, &id) else {
            if is_put && owned.is_some() {
                meaning.foreign.push(key.clone());
            }
            continue;
        };
        let owned = owned.unwrap_or_else(|| Owned::of(&current.declared));
        let put = Registration { owned, revision: happened.revision, ..(*current).clone() };
        meaning.changes.retain(|change| change.id() != &id);
        meaning.changes.push(Change::Put(Arc::new(put)));
    }
    meaning
}

/// Joins a registration's two keys, as a pinned read gives them: what whoever followed would have come to. A statement
/// is about the registration that stood when it was written, and one that cannot be read is as if it were deleted.
#[must_use]
pub fn join(id: &InstanceId, entry: &Entry, owned: Option<&Entry>) -> Option<Registration> {
    let mut registration = registration(id, entry)?;
    if let Some(entry) = owned.filter(|owned| owned.mod_revision >= entry.mod_revision) {
        if let Ok(owned) = decode_owned(&entry.value) {
            registration.owned = owned;
        }
        registration.revision = entry.mod_revision;
    }
    Some(registration)
}

/// Whether an owner's statement can be read.
#[must_use]
pub fn is_readable(owned: &Entry) -> bool {
    decode_owned(&owned.value).is_ok()
}

fn registration(id: &InstanceId, entry: &Entry) -> Option<Registration> {
    let stored = decode_registration(&entry.value).ok().filter(|stored| &stored.declared.id == id)?;
    Some(Registration {
        epoch: Epoch::new(stored.ordinal, entry.mod_revision),
        registered_at: stored.registered_at,
        revision: entry.mod_revision,
        owned: Owned::of(&stored.declared),
        declared: stored.declared,
        replaced: stored.replaced,
    })
}

fn current(state: &State, changes: &[Change], id: &InstanceId) -> Option<Arc<Registration>> {
    let changed = changes.iter().rev().find(|change| change.id() == id);
    match changed {
        Some(Change::Put(registration)) => Some(Arc::clone(registration)),
        Some(Change::Remove(_)) => None,
        None => state.get(id.as_str()).cloned(),
    }
}

fn reasons(happened: &Happened, wall: Timestamp) -> (Vec<Gone>, Timestamp) {
    let value = happened.effects.iter().find_map(|effect| match effect {
        Effect::Put(entry) if entry.key == keys::REMOVAL => Some(&entry.value),
        Effect::Put(_) | Effect::Removed(_) => None,
    });
    value.and_then(|value| decode_removal(value).ok()).unwrap_or((Vec::new(), wall))
}

/// A key that vanishes without a reason was removed by hand: an operator did it at the store.
fn removal(id: &InstanceId, epoch: Epoch, reasons: &(Vec<Gone>, Timestamp), revision: Revision) -> Removal {
    let (gone, at) = reasons;
    match gone.iter().find(|gone| &gone.id == id) {
        Some(gone) => Removal {
            id: id.clone(),
            epoch,
            reason: gone.reason,
            actor: Arc::clone(&gone.actor),
            term: gone.term,
            at: *at,
            revision,
        },
        None => Removal {
            id: id.clone(),
            epoch,
            reason: RemovalReason::Evicted,
            actor: "operator:store".into(),
            term: None,
            at: *at,
            revision,
        },
    }
}
