//! Queries, through the same setter that HTTP's parameters go through.

use rollcall_model::{Code, Invalid, Query};

use crate::convert::registration::{kind, kind_from, lifecycle, lifecycle_from};
use crate::v1;

/// To the wire.
#[must_use]
pub fn query(query: &Query) -> v1::Query {
    v1::Query {
        namespace: query.namespace.clone(),
        name: query.name.clone(),
        capabilities: query.capabilities.iter().map(|c| c.as_str().to_owned()).collect(),
        skill: query.skill.clone(),
        tags: query.tags.clone(),
        kind: query.kind.map_or(v1::Kind::Unspecified, kind).into(),
        version: query.version.as_ref().map(ToString::to_string),
        zone: query.zone.as_ref().map(|zone| zone.as_str().to_owned()),
        lifecycle: query.lifecycle.map_or(v1::Lifecycle::Unspecified, lifecycle).into(),
        metadata: query.metadata.clone(),
    }
}

/// From the wire.
///
/// # Errors
/// The first parameter with a bad value.
pub fn query_from(wire: Option<v1::Query>) -> Result<Query, Invalid> {
    let wire = wire.unwrap_or_default();
    // A word of a newer version is refused: left out, it would make the question wider than it was asked.
    let unknown = |name: &str, number: i32| {
        Invalid::new(Code::InvalidParameter, name, format!("the value {number} is unknown to this version"))
    };
    let kind = v1::Kind::try_from(wire.kind).map_err(|_| unknown("kind", wire.kind))?;
    let lifecycle =
        v1::Lifecycle::try_from(wire.lifecycle).map_err(|_| unknown("lifecycle", wire.lifecycle))?;
    let mut query = Query { kind: kind_from(kind), lifecycle: lifecycle_from(lifecycle), ..Query::default() };
    let once = [
        ("namespace", wire.namespace),
        ("name", wire.name),
        ("skill", wire.skill),
        ("version", wire.version),
        ("zone", wire.zone),
    ];
    for (name, value) in once {
        if let Some(value) = value {
            query.set(name, &value)?;
        }
    }
    for capability in &wire.capabilities {
        query.set("capability", capability)?;
    }
    for tag in &wire.tags {
        query.set("tag", tag)?;
    }
    for (key, value) in &wire.metadata {
        let name = format!("metadata.{key}");
        if !query.set(&name, value)? {
            return Err(Invalid::new(Code::UnknownParameter, name, "a metadata key is not empty"));
        }
    }
    Ok(query)
}
