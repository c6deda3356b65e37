//! Registrations and their parts. What is read here was checked at some door; names are checked again, texts are not.

use std::sync::Arc;

use rollcall_model::{
    Capability, CapabilityName, Card, Declared, Details, Endpoint, Epoch, InstanceId, Kind, Lifecycle, Load,
    Owned, Profile, Registration, Replaced, Revision, Scope, Skill, Timestamp, Zone,
};

use crate::{Unreadable, v1};

/// To the wire.
#[must_use]
pub fn registration(registration: &Registration) -> v1::Registration {
    v1::Registration {
        declared: Some(declared(&registration.declared)),
        epoch: registration.epoch.get(),
        registered_at_ms: registration.registered_at.0,
        revision: registration.revision.0,
        owned: Some(owned(&registration.owned)),
        replaced: epochs(&registration.replaced),
    }
}

/// From the wire.
///
/// # Errors
/// A field that is missing or that no version of ours wrote.
pub fn registration_from(wire: v1::Registration) -> Result<Registration, Unreadable> {
    Ok(Registration {
        declared: declared_from(wire.declared.ok_or_else(|| Unreadable::missing("registration.declared"))?)?,
        epoch: Epoch::from_wire(wire.epoch)
            .ok_or_else(|| Unreadable::new("registration.epoch", "it has more than 52 bits"))?,
        registered_at: Timestamp(wire.registered_at_ms),
        revision: Revision(wire.revision),
        owned: owned_from(wire.owned.ok_or_else(|| Unreadable::missing("registration.owned"))?)?,
        replaced: epochs_from(&wire.replaced, "registration.replaced")?,
    })
}

/// To the wire.
pub(crate) fn epochs(epochs: &[Epoch]) -> Vec<u64> {
    epochs.iter().map(|epoch| epoch.get()).collect()
}

/// From the wire.
///
/// # Errors
/// One has more than 52 bits.
pub(crate) fn epochs_from(wire: &[u64], field: &'static str) -> Result<Replaced, Unreadable> {
    let epoch = |number: &u64| {
        Epoch::from_wire(*number).ok_or_else(|| Unreadable::new(field, "it has more than 52 bits"))
    };
    wire.iter().map(epoch).collect()
}

/// To the wire.
#[must_use]
pub fn declared(declared: &Declared) -> v1::Declared {
    v1::Declared {
        id: declared.id.as_str().to_owned(),
        kind: kind(declared.kind).into(),
        scope: scope(declared.scope).into(),
        endpoints: declared
            .endpoints
            .iter()
            .map(|e| v1::Endpoint { url: e.url().to_owned(), protocol: e.protocol().map(str::to_owned) })
            .collect(),
        capabilities: declared.capabilities.iter().map(capability).collect(),
        skills: declared
            .skills
            .iter()
            .map(|s| v1::Skill { id: s.id.clone(), name: s.name.clone(), tags: s.tags.clone() })
            .collect(),
        version: declared.version.clone(),
        zone: declared.zone.as_ref().map(|zone| zone.as_str().to_owned()),
        weight: declared.weight,
        max_concurrency: declared.max_concurrency,
        max_queue: declared.max_queue,
        metadata: declared.metadata.to_map(),
        lease_seconds: u32::from(declared.lease_seconds),
        lifecycle: lifecycle(declared.lifecycle).into(),
        card: declared
            .card
            .as_ref()
            .map(|card| v1::Card { json: card.json().to_owned(), digest: card.digest().to_owned() }),
    }
}

/// From the wire.
///
/// # Errors
/// A name outside its grammar, or a word that is unknown.
pub fn declared_from(wire: v1::Declared) -> Result<Declared, Unreadable> {
    Ok(Declared {
        id: id_from(&wire.id)?,
        endpoints: wire.endpoints.iter().map(endpoint_from).collect::<Result<_, _>>()?,
        zone: wire.zone.as_deref().map(zone_from).transpose()?,
        profile: Arc::new(profile_from(v1::Declared { endpoints: Vec::new(), ..wire })?),
    })
}

pub(crate) fn id_from(text: &str) -> Result<InstanceId, Unreadable> {
    InstanceId::parse(text).map_err(|finding| Unreadable::new("declared.id", finding.detail))
}

pub(crate) fn zone_from(text: &str) -> Result<Zone, Unreadable> {
    Zone::parse(text).map_err(|finding| Unreadable::new("declared.zone", finding.detail))
}

fn endpoint_from(wire: &v1::Endpoint) -> Result<Endpoint, Unreadable> {
    Endpoint::of(&wire.url, wire.protocol.as_deref())
        .ok_or_else(|| Unreadable::new("endpoint.url", "it has a zero byte"))
}

/// What is declared alike by many; the instance's own fields are not looked at.
pub(crate) fn profile_from(wire: v1::Declared) -> Result<Profile, Unreadable> {
    Ok(Profile {
        kind: kind_from(wire.kind()).ok_or_else(|| Unreadable::missing("declared.kind"))?,
        scope: scope_from(wire.scope()).ok_or_else(|| Unreadable::missing("declared.scope"))?,
        lifecycle: lifecycle_from(wire.lifecycle())
            .ok_or_else(|| Unreadable::missing("declared.lifecycle"))?,
        capabilities: exact(wire.capabilities, capability_from)?,
        skills: exact(wire.skills, |s| Ok(Skill { id: s.id, name: s.name, tags: s.tags }))?,
        version: wire.version,
        weight: wire.weight,
        max_concurrency: wire.max_concurrency,
        max_queue: wire.max_queue,
        metadata: wire.metadata.into(),
        lease_seconds: u16::try_from(wire.lease_seconds)
            .map_err(|_| Unreadable::new("declared.lease_seconds", "it does not fit"))?,
        card: wire.card.map(|card| Card::from_parts(&card.json, &card.digest)),
    })
}

/// Into a list without spare room: the decoder leaves room for four of each, and a registration is kept for long.
fn exact<W, T>(wire: Vec<W>, from: impl Fn(W) -> Result<T, Unreadable>) -> Result<Vec<T>, Unreadable> {
    let mut list = Vec::with_capacity(wire.len());
    for one in wire {
        list.push(from(one)?);
    }
    Ok(list)
}

/// To the wire.
#[must_use]
pub fn owned(owned: &Owned) -> v1::Owned {
    v1::Owned {
        lifecycle: lifecycle(owned.lifecycle).into(),
        metadata: owned.metadata.to_map(),
        load: owned.load.get().map(load),
        overdue: owned.overdue,
        strained: owned.strained,
    }
}

/// From the wire.
///
/// # Errors
/// A lifecycle that is unknown.
pub fn owned_from(wire: v1::Owned) -> Result<Owned, Unreadable> {
    Ok(Owned {
        lifecycle: lifecycle_from(wire.lifecycle()).ok_or_else(|| Unreadable::missing("owned.lifecycle"))?,
        metadata: wire.metadata.into(),
        load: wire.load.map(load_from).into(),
        overdue: wire.overdue,
        strained: wire.strained,
    })
}

fn capability(c: &Capability) -> v1::Capability {
    v1::Capability {
        name: c.name.as_str().to_owned(),
        description: c.description.clone(),
        input_types: c.input_types.clone(),
        output_types: c.output_types.clone(),
        input_summary: c.input_summary.clone(),
        output_summary: c.output_summary.clone(),
        schema_url: c.schema_url.clone(),
        tags: c.tags.clone(),
        internal: c.internal,
    }
}

fn capability_from(wire: v1::Capability) -> Result<Capability, Unreadable> {
    let name = CapabilityName::parse(&wire.name)
        .map_err(|finding| Unreadable::new("capability.name", finding.detail))?;
    let details = Details {
        description: wire.description,
        input_types: wire.input_types,
        output_types: wire.output_types,
        input_summary: wire.input_summary,
        output_summary: wire.output_summary,
        schema_url: wire.schema_url,
        tags: wire.tags,
    };
    Ok(Capability::new(name, wire.internal, details))
}

/// To the wire.
#[must_use]
pub const fn load(load: Load) -> v1::Load {
    v1::Load { queue_depth: load.queue_depth, in_flight: load.in_flight, error_rate: load.error_rate }
}

/// From the wire.
#[must_use]
pub const fn load_from(wire: v1::Load) -> Load {
    Load { queue_depth: wire.queue_depth, in_flight: wire.in_flight, error_rate: wire.error_rate }
}

/// To the wire.
#[must_use]
pub const fn kind(kind: Kind) -> v1::Kind {
    match kind {
        Kind::Agent => v1::Kind::Agent,
        Kind::Tool => v1::Kind::Tool,
    }
}

/// From the wire; unspecified is none.
#[must_use]
pub const fn kind_from(wire: v1::Kind) -> Option<Kind> {
    match wire {
        v1::Kind::Unspecified => None,
        v1::Kind::Agent => Some(Kind::Agent),
        v1::Kind::Tool => Some(Kind::Tool),
    }
}

/// To the wire.
#[must_use]
pub const fn scope(scope: Scope) -> v1::Scope {
    match scope {
        Scope::Instance => v1::Scope::Instance,
        Scope::Service => v1::Scope::Service,
    }
}

/// From the wire; unspecified is none.
#[must_use]
pub const fn scope_from(wire: v1::Scope) -> Option<Scope> {
    match wire {
        v1::Scope::Unspecified => None,
        v1::Scope::Instance => Some(Scope::Instance),
        v1::Scope::Service => Some(Scope::Service),
    }
}

/// To the wire.
#[must_use]
pub const fn lifecycle(lifecycle: Lifecycle) -> v1::Lifecycle {
    match lifecycle {
        Lifecycle::Starting => v1::Lifecycle::Starting,
        Lifecycle::Healthy => v1::Lifecycle::Healthy,
        Lifecycle::Degraded => v1::Lifecycle::Degraded,
        Lifecycle::Draining => v1::Lifecycle::Draining,
        Lifecycle::Offline => v1::Lifecycle::Offline,
        Lifecycle::Unknown => v1::Lifecycle::Unknown,
    }
}

/// From the wire; unspecified is none.
#[must_use]
pub const fn lifecycle_from(wire: v1::Lifecycle) -> Option<Lifecycle> {
    match wire {
        v1::Lifecycle::Unspecified => None,
        v1::Lifecycle::Starting => Some(Lifecycle::Starting),
        v1::Lifecycle::Healthy => Some(Lifecycle::Healthy),
        v1::Lifecycle::Degraded => Some(Lifecycle::Degraded),
        v1::Lifecycle::Draining => Some(Lifecycle::Draining),
        v1::Lifecycle::Offline => Some(Lifecycle::Offline),
        v1::Lifecycle::Unknown => Some(Lifecycle::Unknown),
    }
}
