//! A registration as it is asked for.

use rollcall_model::declaration::{RawCapability, RawEndpoint};
use rollcall_model::{Declaration, Kind, Lifecycle, Scope};

use crate::convert::registration::{kind_from, lifecycle_from, scope_from};
use crate::v1;

/// From the wire: the same unchecked form that a JSON body gives, for the one validator.
#[must_use]
pub fn declaration_from_request(wire: v1::RegisterRequest) -> Declaration {
    // A word of a newer version goes on as its number, for the validator to refuse, not to be taken for "not said".
    let word = |known: Result<Option<&str>, _>, number: i32| match known {
        Ok(word) => word.map(str::to_owned),
        Err(prost::UnknownEnumValue(_)) => Some(number.to_string()),
    };
    let kind = v1::Kind::try_from(wire.kind).map(|kind| kind_from(kind).map(Kind::as_str));
    let scope = v1::Scope::try_from(wire.scope).map(|scope| scope_from(scope).map(Scope::as_str));
    let lifecycle =
        v1::Lifecycle::try_from(wire.lifecycle).map(|word| lifecycle_from(word).map(Lifecycle::as_str));
    Declaration {
        kind: word(kind, wire.kind),
        scope: word(scope, wire.scope),
        lifecycle: word(lifecycle, wire.lifecycle),
        id: wire.id,
        holder: wire.holder,
        endpoints: wire
            .endpoints
            .into_iter()
            .map(|e| RawEndpoint { url: e.url, protocol: e.protocol })
            .collect(),
        capabilities: wire
            .capabilities
            .into_iter()
            .map(|c| RawCapability {
                name: c.name,
                description: c.description,
                input_types: c.input_types,
                output_types: c.output_types,
                input_summary: c.input_summary,
                output_summary: c.output_summary,
                schema_url: c.schema_url,
                tags: c.tags,
                internal: c.internal,
            })
            .collect(),
        version: wire.version,
        zone: wire.zone,
        weight: wire.weight,
        max_concurrency: wire.max_concurrency,
        max_queue: wire.max_queue,
        metadata: wire.metadata,
        lease_seconds: wire.lease_seconds,
        card: wire.card_json,
    }
}

/// To the wire. Words that no version knows become unspecified; the caller checked them.
#[must_use]
pub fn register_request(raw: &Declaration) -> v1::RegisterRequest {
    use crate::convert::registration::{kind, lifecycle, scope};
    let kind = raw.kind.as_deref().and_then(Kind::parse).map_or(v1::Kind::Unspecified, kind);
    let scope = raw.scope.as_deref().and_then(Scope::parse).map_or(v1::Scope::Unspecified, scope);
    let lifecycle =
        raw.lifecycle.as_deref().and_then(Lifecycle::parse).map_or(v1::Lifecycle::Unspecified, lifecycle);
    v1::RegisterRequest {
        id: raw.id.clone(),
        kind: kind.into(),
        scope: scope.into(),
        holder: raw.holder.clone(),
        endpoints: raw
            .endpoints
            .iter()
            .map(|e| v1::Endpoint { url: e.url.clone(), protocol: e.protocol.clone() })
            .collect(),
        capabilities: raw
            .capabilities
            .iter()
            .map(|c| v1::Capability {
                name: c.name.clone(),
                description: c.description.clone(),
                input_types: c.input_types.clone(),
                output_types: c.output_types.clone(),
                input_summary: c.input_summary.clone(),
                output_summary: c.output_summary.clone(),
                schema_url: c.schema_url.clone(),
                tags: c.tags.clone(),
                internal: c.internal,
            })
            .collect(),
        version: raw.version.clone(),
        zone: raw.zone.clone(),
        weight: raw.weight,
        max_concurrency: raw.max_concurrency,
        max_queue: raw.max_queue,
        metadata: raw.metadata.clone(),
        lease_seconds: raw.lease_seconds,
        lifecycle: lifecycle.into(),
        card_json: raw.card.clone(),
    }
}
