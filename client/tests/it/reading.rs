//! What a caller pays for candidates: no allocation. And a registry of fixed states, for tests of callers.

use std::sync::Arc;
use std::time::Duration;

use rollcall_client::model::declaration::RawEndpoint;
use rollcall_client::model::freshness::Heard;
use rollcall_client::model::{
    Capability, CapabilityName, Declaration, Declared, Details, Epoch, Incarnation, Instant, Owned, Position,
    Query, Reach, Registration, Replaced, Revision, Snapshot, State, Timestamp, View,
};
use rollcall_client::{Called, Outcome, Registry};

use crate::cell::region;

fn registration(n: usize) -> Registration {
    let raw = Declaration {
        id: format!("ops/mail-{}/{n:05}", n % 7),
        endpoints: vec![RawEndpoint { url: format!("http://10.0.0.1:{}/", 1024 + n), protocol: None }],
        lifecycle: Some("healthy".into()),
        ..Declaration::default()
    };
    let mut declared = Declared::check(raw, String::new).unwrap();
    let sends = CapabilityName::parse("mail:send:v1").unwrap();
    declared.capabilities = vec![Capability::new(sends, false, Details::default())];
    let owned = Owned::of(&declared);
    let revision = Revision(n as u64 + 1);
    Registration {
        declared,
        epoch: Epoch::new(1, revision),
        registered_at: Timestamp(0),
        replaced: Replaced::default(),
        revision,
        owned,
    }
}

fn view(name: &str, many: usize) -> View {
    let mut state = State::default();
    (0..many).for_each(|n| drop(state.put(Arc::new(registration(n)))));
    let position = Position::new(Incarnation::new(1, name).unwrap(), Revision(1_000_000));
    let mut view = View::new(region(name));
    let heard = Heard { at: Instant::default(), age: Duration::ZERO };
    view.install(Snapshot::of(region(name), position, state), Some(heard), "started", Timestamp(0));
    view
}

fn sends_mail() -> Query {
    Query { capabilities: vec![CapabilityName::parse("mail:send:v1").unwrap()], ..Query::default() }
}

#[test]
fn no_candidate_costs_an_allocation() {
    let registry = Registry::offline(vec![view("us", 5_000), view("eu", 5_000)]);
    let queries = [
        sends_mail(),
        Query { name: Some("mail-3".into()), ..Query::default() },
        Query { namespace: Some("ops".into()), name: Some("mail-3".into()), ..Query::default() },
        Query { namespace: Some("ops".into()), ..sends_mail() },
    ];
    let reaches = [Reach::default(), Reach { residency: Some(vec![region("eu")]), ..Reach::default() }];
    let first = |query, reach| {
        let reading = registry.read();
        let found = reading.resolve(query, reach);
        assert_eq!(found.outcome(), Outcome::Found);
        assert!(found.take(700).count() >= 700);
        assert!(reading.first(query, reach).is_some());
    };
    // Whatever a thread keeps for itself is made by its first look.
    first(&queries[0], &reaches[0]);
    for query in &queries {
        for reach in &reaches {
            let cost = allocation_counter::measure(|| (0..100).for_each(|_| first(query, reach)));
            assert_eq!(cost.count_total, 0, "{query:?} within {reach:?}");
        }
    }
    // Also while somebody is ejected.
    let failing = registry.resolve(&sends_mail()).candidates[1].clone();
    (0..3).for_each(|_| registry.report(&failing.region, &failing.registration, Called::Failed));
    assert_eq!(registry.ejected().len(), 1);
    let cost = allocation_counter::measure(|| (0..100).for_each(|_| first(&queries[0], &reaches[0])));
    assert_eq!(cost.count_total, 0);
}

#[test]
fn a_registry_of_fixed_states_resolves_from_them_own_region_first() {
    let registry = Registry::offline(vec![view("us", 0), view("eu", 12)]);
    let found = registry.resolve(&sends_mail());
    assert_eq!((found.outcome, found.candidates.len()), (Outcome::Found, 12));
    assert!(found.candidates.iter().all(|candidate| candidate.region == region("eu")));
    assert!(found.candidates.iter().all(|candidate| candidate.age < Duration::from_secs(3600)));
}
