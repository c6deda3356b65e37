//! What registers and what calls, tested with no registry but one in memory.

use std::time::Duration;

use rollcall_client::model::declaration::RawEndpoint;
use rollcall_client::model::{Declaration, InstanceId, Lifecycle, Load, Query};
use rollcall_client::{Closed, MemoryRegistry, RegistrantState, Registry, StartError};

use crate::cell::{DEADLINE, declaration};
use crate::registrant::{registered, until};

fn named(name: &str) -> Query {
    Query { name: Some(name.into()), ..Query::default() }
}

/// Waits until callers find so many of this name.
async fn found(registry: &Registry, name: &str, many: usize) {
    let enough = registry.until(|_| registry.resolve(&named(name)).candidates.len() == many);
    tokio::time::timeout(DEADLINE, enough)
        .await
        .unwrap_or_else(|_| panic!("not {many} of {name}: {:?}", registry.resolve(&named(name)).candidates));
}

#[tokio::test]
async fn ext_03_who_registers_in_memory_is_found_updated_and_gone_as_with_a_cell() {
    let memory = MemoryRegistry::new("us-east").unwrap();
    let tool = memory.tool(declaration("ops/mail/1")).unwrap();
    let agent = memory.agent(declaration("ops/biller/1")).unwrap();
    found(agent.registry(), "mail", 1).await;
    let mail = &agent.registry().resolve(&named("mail")).candidates[0];
    assert_eq!(mail.region.as_str(), "us-east");
    assert_eq!(mail.registration.declared.kind, rollcall_client::model::Kind::Tool);
    let status = registered(tool.registrant()).await;
    assert_eq!(status.epoch, Some(mail.registration.epoch));

    let load = Load { queue_depth: 500, in_flight: 1, error_rate: 0.0 };
    tool.registrant().report_load(load);
    tool.registrant().set_lifecycle(Lifecycle::Healthy);
    let strained = agent.registry().until(|_| {
        let found = agent.registry().resolve(&named("mail")).candidates;
        found.iter().any(|found| found.registration.owned.lifecycle == Lifecycle::Degraded)
    });
    tokio::time::timeout(DEADLINE, strained).await.expect("its load degrades it");
    tool.registrant().set_lifecycle(Lifecycle::Draining);
    found(agent.registry(), "mail", 0).await;
    assert_eq!(tool.close(Duration::from_secs(5)).await, Closed::Deregistered);
    assert_eq!(agent.close(Duration::from_secs(5)).await, Closed::Deregistered);
    found(&memory.registry(), "biller", 0).await;
}

#[tokio::test]
async fn ext_03_a_lease_ends_when_the_test_says_so_and_its_owner_comes_back_with_a_higher_epoch() {
    let memory = MemoryRegistry::new("us-east").unwrap();
    let registrant = memory.registrant(declaration("ops/mail/1")).unwrap();
    let before = registered(&registrant).await;
    let id = InstanceId::parse("ops/mail/1").unwrap();
    assert!(memory.lapse(&id));
    assert!(!memory.lapse(&id), "it is gone");
    found(&memory.registry(), "mail", 0).await;
    // The owner hears of it with its next beat, which anything it says brings on.
    registrant.set_lifecycle(Lifecycle::Healthy);
    let after = until(&registrant, "it registers again", |status| status.registrations == 2).await;
    assert!(after.epoch > before.epoch && after.state == RegistrantState::Registered, "{after:?}");
    found(&memory.registry(), "mail", 1).await;
}

#[tokio::test]
async fn ext_03_a_late_owner_is_superseded_and_a_bad_declaration_refused() {
    let memory = MemoryRegistry::new("us-east").unwrap();
    let first = memory.registrant(declaration("ops/mail/1")).unwrap();
    registered(&first).await;
    let mut elsewhere = declaration("ops/mail/1");
    elsewhere.endpoints = vec![RawEndpoint { url: "http://other:1/".into(), protocol: None }];
    let second = memory.registrant(elsewhere).unwrap();
    registered(&second).await;
    first.set_lifecycle(Lifecycle::Degraded);
    let moved = until(&first, "it leaves the id to the other", |status| status.registrations == 2).await;
    assert!(moved.id.as_str() != "ops/mail/1" && moved.id.agent() == "ops/mail", "{moved:?}");
    found(&memory.registry(), "mail", 2).await;
    let refused = memory.registrant(Declaration { id: "Ops/mail".into(), ..Declaration::default() });
    assert!(matches!(refused, Err(StartError::Declaration(_))));
    assert!(MemoryRegistry::new("US").is_err());
}
