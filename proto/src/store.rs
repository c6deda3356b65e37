//! Values in the store.

use bytes::Bytes;
use prost::Message;
use rollcall_model::{
    Actor, Declared, Epoch, Incarnation, InstanceId, Owned, RemovalReason, Replaced, Timestamp,
};

use crate::convert::{declared, declared_from, epochs, epochs_from, feed, owned, owned_from};
use crate::{Unreadable, v1};

/// The value of a registration's key.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRegistration {
    /// What the owner declared.
    pub declared: Declared,
    /// Ordinal of the incarnation it was written in; with the key's revision it makes the epoch.
    pub ordinal: u16,
    /// When, for people.
    pub registered_at: Timestamp,
    /// Of a shared entry the registrations that it replaced, newest first.
    pub replaced: Replaced,
}

/// Why one key vanishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Which registration.
    pub id: InstanceId,
    /// Why.
    pub reason: RemovalReason,
    /// Who.
    pub actor: Actor,
    /// The keeper's term, when it was the keeper.
    pub term: Option<u64>,
}

/// The keeper's beat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The keeper's term.
    pub term: u64,
    /// Leases it keeps.
    pub count: u64,
    /// Never the same twice: proves the lineage of a history.
    pub nonce: String,
}

fn decode<M: Message + Default>(bytes: &[u8], field: &'static str) -> Result<M, Unreadable> {
    M::decode(bytes).map_err(|error| Unreadable::new(field, error.to_string()))
}

/// To the store.
#[must_use]
pub fn encode_registration(
    of: &Declared,
    ordinal: u16,
    registered_at: Timestamp,
    replaced: &[Epoch],
) -> Bytes {
    let wire = v1::StoredRegistration {
        declared: Some(declared(of)),
        ordinal: u32::from(ordinal),
        registered_at_ms: registered_at.0,
        replaced: epochs(replaced),
    };
    wire.encode_to_vec().into()
}

/// From the store.
///
/// # Errors
/// Not written by us.
pub fn decode_registration(bytes: &[u8]) -> Result<StoredRegistration, Unreadable> {
    let wire: v1::StoredRegistration = decode(bytes, "stored_registration")?;
    Ok(StoredRegistration {
        declared: declared_from(
            wire.declared.ok_or_else(|| Unreadable::missing("stored_registration.declared"))?,
        )?,
        ordinal: u16::try_from(wire.ordinal)
            .map_err(|_| Unreadable::new("stored_registration.ordinal", "it does not fit"))?,
        registered_at: Timestamp(wire.registered_at_ms),
        replaced: epochs_from(&wire.replaced, "stored_registration.replaced")?,
    })
}

/// To the store.
#[must_use]
pub fn encode_owned(value: &Owned) -> Bytes {
    v1::StoredOwned { owned: Some(owned(value)) }.encode_to_vec().into()
}

/// From the store.
///
/// # Errors
/// Not written by us.
pub fn decode_owned(bytes: &[u8]) -> Result<Owned, Unreadable> {
    let wire: v1::StoredOwned = decode(bytes, "stored_owned")?;
    owned_from(wire.owned.ok_or_else(|| Unreadable::missing("stored_owned.owned"))?)
}

/// To the store.
#[must_use]
pub fn encode_removal(gone: &[Gone], at: Timestamp) -> Bytes {
    let gone = gone
        .iter()
        .map(|gone| v1::stored_removal::Gone {
            id: gone.id.as_str().to_owned(),
            reason: feed::reason(gone.reason).into(),
            actor: gone.actor.to_string(),
            term: gone.term,
        })
        .collect();
    v1::StoredRemoval { gone, at_ms: at.0 }.encode_to_vec().into()
}

/// From the store.
///
/// # Errors
/// Not written by us.
pub fn decode_removal(bytes: &[u8]) -> Result<(Vec<Gone>, Timestamp), Unreadable> {
    let wire: v1::StoredRemoval = decode(bytes, "stored_removal")?;
    let gone = wire.gone.into_iter().map(|gone| {
        Ok(Gone {
            reason: feed::reason_from(gone.reason())
                .ok_or_else(|| Unreadable::missing("stored_removal.reason"))?,
            id: InstanceId::parse(&gone.id)
                .map_err(|finding| Unreadable::new("stored_removal.id", finding.detail))?,
            actor: gone.actor.into(),
            term: gone.term,
        })
    });
    Ok((gone.collect::<Result<_, _>>()?, Timestamp(wire.at_ms)))
}

/// To the store.
#[must_use]
pub fn encode_beat(beat: &Beat) -> Bytes {
    let wire = v1::StoreBeat { term: beat.term, count: beat.count, nonce: beat.nonce.clone(), revision: 0 };
    wire.encode_to_vec().into()
}

/// From the store.
///
/// # Errors
/// Not written by us.
pub fn decode_beat(bytes: &[u8]) -> Result<Beat, Unreadable> {
    let wire: v1::StoreBeat = decode(bytes, "beat")?;
    Ok(Beat { term: wire.term, count: wire.count, nonce: wire.nonce })
}

/// To the store.
#[must_use]
pub fn encode_incarnation(incarnation: &Incarnation) -> Bytes {
    let wire =
        v1::StoredIncarnation { ordinal: u32::from(incarnation.ordinal()), id: incarnation.id().to_owned() };
    wire.encode_to_vec().into()
}

/// From the store.
///
/// # Errors
/// Not written by us.
pub fn decode_incarnation(bytes: &[u8]) -> Result<Incarnation, Unreadable> {
    let wire: v1::StoredIncarnation = decode(bytes, "incarnation")?;
    let ordinal =
        u16::try_from(wire.ordinal).map_err(|_| Unreadable::new("incarnation.ordinal", "it does not fit"))?;
    Incarnation::new(ordinal, &wire.id).map_err(|finding| Unreadable::new("incarnation", finding.detail))
}
