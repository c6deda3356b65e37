//! A conversation resolves from one snapshot; its failures and its ages go on.

use std::time::Duration;

use rollcall_client::model::{Lifecycle, Query};
use rollcall_client::{Called, Outcome, Registry, RegistryOptions, Resolution};

use crate::cell::{Cell, DEADLINE, region};

const HEALTHY: Lifecycle = Lifecycle::Healthy;

async fn connect(url: String) -> Registry {
    let mut options = RegistryOptions::new([url], region("us"));
    options.first_load = DEADLINE;
    Registry::connect(options).await.unwrap()
}

fn mail() -> Query {
    Query { name: Some("mail".into()), ..Query::default() }
}

/// Instance and epoch of each candidate.
fn seen(found: &Resolution) -> Vec<(String, u64)> {
    let one = |c: &rollcall_client::Candidate| {
        (c.registration.declared.id.instance().to_owned(), c.registration.epoch.get())
    };
    found.candidates.iter().map(one).collect()
}

async fn knows(registry: &Registry, many: usize) {
    let known = registry.until(|_| registry.resolve(&mail()).candidates.len() == many);
    tokio::time::timeout(DEADLINE, known).await.expect("it is never known");
}

#[tokio::test]
async fn i29_a_pin_resolves_from_one_snapshot_while_the_registry_goes_on() {
    let cell = Cell::new();
    let serving = cell.serve();
    cell.load("us", 1, &[("ops/mail/1", HEALTHY), ("ops/mail/2", HEALTHY)]);
    let registry = connect(serving.url()).await;
    let pin = registry.pin(DEADLINE * 10);
    let before = seen(&pin.resolve(&mail()));
    // One is registered anew, and another one comes.
    cell.put("us", "ops/mail/1");
    cell.put("us", "ops/mail/3");
    knows(&registry, 3).await;
    assert_ne!(seen(&registry.resolve(&mail())), before);
    assert_eq!(seen(&pin.resolve(&mail())), before);
    // A clone is of the same conversation, and one made now is another.
    assert_eq!(seen(&pin.clone().resolve(&mail())), before);
    assert_eq!(seen(&registry.pin(DEADLINE).resolve(&mail())), seen(&registry.resolve(&mail())));
    // Whoever fails is left out of the conversation, too.
    let failing = pin.resolve(&mail()).candidates[1].clone();
    (0..3).for_each(|_| registry.report(&failing.region, &failing.registration, Called::Failed));
    assert_eq!(seen(&pin.resolve(&mail())), before[..1]);
    assert!(!pin.is_over());
}

#[tokio::test]
async fn i29_a_pin_that_was_made_before_there_was_a_state_holds_the_first_that_it_finds() {
    let cell = Cell::new();
    let serving = cell.serve();
    let mut options = RegistryOptions::new([serving.url()], region("us"));
    options.first_load = Duration::ZERO;
    let registry = Registry::connect(options).await.unwrap();
    let pin = registry.pin(DEADLINE * 10);
    let twin = pin.clone();
    assert_eq!(pin.resolve(&mail()).outcome, Outcome::ViewNotLoaded);
    cell.load("us", 1, &[("ops/mail/1", HEALTHY)]);
    knows(&registry, 1).await;
    assert_eq!(pin.resolve(&mail()).candidates.len(), 1);
    cell.put("us", "ops/mail/2");
    knows(&registry, 2).await;
    for pin in [&pin, &twin] {
        assert_eq!(pin.resolve(&mail()).candidates.len(), 1, "of one snapshot from there on");
    }
}

#[tokio::test]
async fn i29_after_its_limit_a_pin_resolves_from_what_is_known_then() {
    let cell = Cell::new();
    let serving = cell.serve();
    cell.load("us", 1, &[("ops/mail/1", HEALTHY)]);
    let registry = connect(serving.url()).await;
    let over = registry.pin(Duration::ZERO);
    let pin = registry.pin(DEADLINE * 10);
    cell.put("us", "ops/mail/2");
    knows(&registry, 2).await;
    assert!(over.is_over());
    assert_eq!((over.resolve(&mail()).candidates.len(), pin.resolve(&mail()).candidates.len()), (2, 1));
}
