//! The values that goldens are made of. They never change: the committed bytes are of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rollcall_model::declaration::{RawCapability, RawEndpoint};
use rollcall_model::testing::{full_registration, position, region, registration as least, removal};
use rollcall_model::{
    Bookmark, Change, Declaration, Delta, Query, Removal, RemovalReason, Snapshot, State, Timestamp,
};
use rollcall_proto::store::Beat;

pub(crate) fn expired() -> Removal {
    Removal {
        reason: RemovalReason::Expired,
        actor: "keeper".into(),
        term: Some(9),
        at: Timestamp(1_796_000_001_000),
        ..removal("a/b/c", 5, 1_000_009)
    }
}

pub(crate) fn delta() -> Delta {
    let evicted = Removal {
        reason: RemovalReason::Evicted,
        actor: "operator:ann".into(),
        ..removal("a/b/d", 6, 1_000_010)
    };
    Delta {
        region: region(),
        from: position(2, 1_000_006),
        to: position(2, 1_000_010),
        changes: vec![
            Change::Put(Arc::new(full_registration())),
            Change::Put(Arc::new(least("a/b/c", 5, 1_000_008))),
            Change::Remove(Arc::new(expired())),
            Change::Remove(Arc::new(evicted)),
        ],
    }
}

pub(crate) fn bookmark() -> Bookmark {
    let snapshot = snapshot();
    Bookmark {
        region: region(),
        from: position(2, 1_000_007),
        position: position(2, 1_000_042),
        count: snapshot.head().count,
        digest: snapshot.head().digest,
        age: Some(Duration::from_millis(1_234)),
        stamp: None,
    }
}

pub(crate) fn snapshot() -> Snapshot {
    let mut state = State::default();
    for record in [full_registration(), least("a/b/c", 5, 7)] {
        state.put(Arc::new(record));
    }
    Snapshot::of(region(), position(2, 1_000_007), state)
}

pub(crate) fn declaration() -> Declaration {
    let some = |text: &str| Some(text.to_owned());
    Declaration {
        id: "ops/email_agent".into(),
        kind: some("tool"),
        scope: some("service"),
        holder: some("pod-1"),
        endpoints: vec![RawEndpoint { url: "http://10.0.0.1:8080/".into(), protocol: some("http") }],
        capabilities: vec![RawCapability {
            name: "mail:send:v1".into(),
            description: some("sends «mail»"),
            input_types: vec!["json".into()],
            output_types: vec!["text".into()],
            input_summary: some("in"),
            output_summary: some("out"),
            schema_url: some("http://10.0.0.1/schema"),
            tags: vec!["fast".into()],
            internal: true,
        }],
        version: some("2.3.1"),
        zone: some("a"),
        weight: Some(50),
        max_concurrency: Some(8),
        max_queue: Some(0),
        metadata: BTreeMap::from([("queue".into(), "high".into())]),
        lease_seconds: Some(45),
        lifecycle: some("starting"),
        card: some("{\"name\":\"mail\"}"),
    }
}

pub(crate) fn query() -> Query {
    let mut query = Query::default();
    for (name, value) in [
        ("namespace", "ops"),
        ("name", "email_agent"),
        ("capability", "mail:send:v1"),
        ("capability", "mail:send:v2"),
        ("skill", "Sum up"),
        ("tag", "fast"),
        ("kind", "tool"),
        ("version", ">=1.2.0, <3"),
        ("zone", "eu-1/a"),
        ("lifecycle", "degraded"),
        ("metadata.queue", "high"),
    ] {
        assert_eq!(query.set(name, value), Ok(true));
    }
    query
}

pub(crate) fn beat() -> Beat {
    Beat { term: 9, count: 2, nonce: "5f0c".into() }
}
