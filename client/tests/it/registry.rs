//! What is known stays known, and an answer says what it is worth.

use std::time::{Duration, Instant};

use rollcall_client::model::{CapabilityName, Lifecycle, Query};
use rollcall_client::{
    CacheProfile, Called, EjectionLimits, LocalSnapshot, Outcome, Registry, RegistryOptions,
};

use crate::cell::{Call, Cell, DEADLINE, region};
use crate::line::Line;

const HEALTHY: Lifecycle = Lifecycle::Healthy;

fn options(url: String, failover: &[&str]) -> RegistryOptions {
    let mut options = RegistryOptions::new([url], region("us"));
    options.failover = failover.iter().map(|name| region(name)).collect();
    options.first_load = DEADLINE;
    options
}

async fn until(registry: &Registry, what: &str, condition: impl FnMut(&LocalSnapshot) -> bool) {
    let seen = tokio::time::timeout(DEADLINE, registry.until(condition)).await;
    assert!(seen.is_ok(), "never: {what}; regions: {:?}", registry.regions());
}

/// Region and id of each candidate of an agent.
fn found(registry: &Registry, name: &str) -> (Outcome, Vec<String>) {
    let resolution = registry.resolve(&Query { name: Some(name.into()), ..Query::default() });
    let candidates = resolution
        .candidates
        .iter()
        .map(|c| format!("{}:{}", c.region, c.registration.declared.id.instance()));
    (resolution.outcome, candidates.collect())
}

fn count(snapshot: &LocalSnapshot, at: usize) -> u64 {
    snapshot.views()[at].state().map_or(0, rollcall_client::model::State::count)
}

#[tokio::test]
async fn the_own_region_answers_first_and_others_in_order() {
    let cell = Cell::new();
    let serving = cell.serve();
    cell.load("us", 1, &[("ops/mail/1", HEALTHY), ("ops/bill/1", Lifecycle::Draining)]);
    cell.load("eu", 1, &[("ops/mail/2", HEALTHY), ("ops/bill/2", HEALTHY)]);
    cell.load("ap", 1, &[("ops/bill/3", HEALTHY), ("ops/sms/3", HEALTHY)]);
    let registry = Registry::connect(options(serving.url(), &["eu", "ap"])).await.unwrap();
    until(&registry, "all regions loaded", |snapshot| {
        snapshot.views().iter().all(|view| view.state().is_some())
    })
    .await;
    assert_eq!(found(&registry, "mail"), (Outcome::Found, vec!["us:1".into()]));
    assert_eq!(found(&registry, "bill"), (Outcome::Found, vec!["eu:2".into()]));
    assert_eq!(found(&registry, "sms"), (Outcome::Found, vec!["ap:3".into()]));
    assert_eq!(found(&registry, "fax"), (Outcome::None, Vec::new()));
}

#[tokio::test]
async fn res_11_a_second_provider_of_a_capability_is_found_by_the_same_query() {
    let cell = Cell::new();
    let serving = cell.serve();
    cell.load("us", 1, &[("ops/mail/1", HEALTHY)]);
    let registry = Registry::connect(options(serving.url(), &[])).await.unwrap();
    let name = CapabilityName::parse("mail:send:v1").unwrap();
    let query = Query { capabilities: vec![name], ..Query::default() };
    let providers = || {
        let found = registry.resolve(&query).candidates;
        found.iter().map(|one| one.registration.declared.id.as_str().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(providers(), ["ops/mail/1"]);
    cell.put("us", "sales/post/1");
    until(&registry, "the second one", |snapshot| count(snapshot, 0) == 2).await;
    assert_eq!(providers(), ["ops/mail/1", "sales/post/1"]);
}

#[tokio::test]
async fn a_view_that_is_not_loaded_is_not_an_empty_one() {
    let cell = Cell::new();
    let serving = cell.serve();
    cell.load("us", 1, &[]);
    let registry = Registry::connect(options(serving.url(), &["eu"])).await.unwrap();
    assert_eq!(found(&registry, "mail").0, Outcome::ViewNotLoaded);
    cell.load("eu", 1, &[]);
    until(&registry, "eu loaded", |snapshot| snapshot.is_loaded(&region("eu"))).await;
    assert_eq!(found(&registry, "mail").0, Outcome::None);
    cell.put("eu", "ops/mail/1");
    until(&registry, "a change seen", |snapshot| count(snapshot, 1) == 1).await;
    assert_eq!(found(&registry, "mail"), (Outcome::Found, vec!["eu:1".into()]));
}

#[tokio::test]
async fn a_region_that_is_not_heard_says_why_and_for_how_long_until_it_is() {
    let cell = Cell::new();
    let serving = cell.serve();
    let address = serving.address;
    drop(serving);
    let mut options = options(format!("http://{address}"), &[]);
    options.first_load = Duration::ZERO;
    let registry = Registry::connect(options).await.unwrap();
    let failing = || registry.regions()[0].failing.clone();
    until(&registry, "nobody is there", |_| failing().is_some()).await;
    let first = failing().unwrap();
    assert!(first.why.contains(&address.to_string()) && first.why.contains("refused"), "{first:?}");
    // Tries that fail in a row are one failure: it began with the first.
    let began = Instant::now() - first.lasting;
    let mut tries = 0;
    until(&registry, "two more tries", |_| {
        tries += 1;
        tries > 2
    })
    .await;
    let least = began.elapsed();
    // The time that ages are told by moves in steps of some milliseconds.
    assert!(failing().unwrap().lasting + Duration::from_millis(100) > least);

    // A cell that takes the watch has been heard once it has something to say.
    let serving = cell.serve_at(address);
    let is_useless = || failing().is_some_and(|failing| failing.why.contains("has no state of this region"));
    until(&registry, "somebody is there, without a state", |_| is_useless()).await;
    cell.load("us", 1, &[("ops/mail/1", HEALTHY)]);
    until(&registry, "the state", |snapshot| count(snapshot, 0) == 1 && failing().is_none()).await;
    drop(serving);
    until(&registry, "it is away", |_| failing().is_some()).await;
    let again = failing().unwrap();
    assert!(again.lasting < began.elapsed() && count(&registry.snapshot(), 0) == 1, "{again:?}");
}

#[tokio::test]
async fn snp_08_a_registry_that_is_there_is_connected_when_it_said_how_old_its_state_is() {
    let cell = Cell::new();
    let serving = cell.serve();
    cell.load("us", 1, &[("ops/mail/1", HEALTHY)]);
    cell.say_ages_late();
    let options = options(serving.url(), &[]).with_cache(CacheProfile::FIVE_MINUTES);
    let registry = Registry::connect(options).await.unwrap();
    assert_eq!(found(&registry, "mail"), (Outcome::Found, vec!["us:1".into()]));
    assert!(registry.regions()[0].age < Some(DEADLINE), "{:?}", registry.regions());
}

#[tokio::test]
async fn rcv_02_after_a_restart_the_watch_goes_on_from_its_position() {
    let cell = Cell::new();
    let serving = cell.serve();
    let address = serving.address;
    cell.load("us", 1, &[("ops/mail/1", HEALTHY)]);
    let registry = Registry::connect(options(serving.url(), &[])).await.unwrap();
    cell.put("us", "ops/mail/2");
    until(&registry, "the second instance", |snapshot| count(snapshot, 0) == 2).await;
    let position = cell.position("us");
    drop(serving);
    cell.put("us", "ops/mail/3");
    let _serving = cell.serve_at(address);
    until(&registry, "what happened meanwhile", |snapshot| count(snapshot, 0) == 3).await;
    let watches: Vec<_> = cell
        .calls()
        .into_iter()
        .map(|(_, call)| match call {
            Call::Watch { since, .. } => since,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(watches, [None, Some(position)]);
    assert_eq!(registry.snapshot().views()[0].resyncs(), 0);
}

#[tokio::test]
async fn i27_with_the_registry_away_it_resolves_as_before_and_ages() {
    let cell = Cell::new();
    let serving = cell.serve();
    cell.load("us", 1, &[("ops/mail/1", HEALTHY)]);
    let registry = Registry::connect(options(serving.url(), &[])).await.unwrap();
    drop(serving);
    let age = |registry: &Registry| registry.regions()[0].age.unwrap();
    let before = age(&registry);
    // Several reconnects fail in this time; the first waits are at most one, two and four seconds.
    let by = tokio::time::Instant::now() + Duration::from_millis(600);
    while tokio::time::Instant::now() < by {
        assert_eq!(found(&registry, "mail"), (Outcome::Found, vec!["us:1".into()]));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(age(&registry) >= before + Duration::from_millis(600));
}

#[tokio::test]
async fn a_start_is_not_held_up_by_a_registry_that_is_away() {
    let cell = Cell::new();
    let address = cell.serve().address;
    let mut options = options(format!("http://{address}"), &[]);
    options.first_load = Duration::from_millis(300);
    let registry = tokio::time::timeout(DEADLINE, Registry::connect(options)).await.unwrap().unwrap();
    assert_eq!(found(&registry, "mail").0, Outcome::ViewNotLoaded);
    cell.load("us", 1, &[("ops/mail/1", HEALTHY)]);
    let _serving = cell.serve_at(address);
    until(&registry, "loaded at last", |snapshot| snapshot.is_loaded(&region("us"))).await;
    assert_eq!(found(&registry, "mail").0, Outcome::Found);
}

#[tokio::test]
async fn i22_a_snapshot_that_does_not_prove_itself_changes_nothing() {
    let cell = Cell::new();
    let serving = cell.serve();
    cell.load("us", 1, &[("ops/mail/1", HEALTHY)]);
    let registry = Registry::connect(options(serving.url(), &[])).await.unwrap();
    // Another history, with nothing in it, and its snapshots are short of what they claim.
    cell.spoil_snapshots(true);
    cell.load("us", 2, &[]);
    let watches = |calls: &[Call]| calls.iter().filter(|call| matches!(call, Call::Watch { .. })).count();
    cell.saw("two more tries to load it", |calls| watches(calls) >= 3).await;
    assert_eq!(found(&registry, "mail"), (Outcome::Found, vec!["us:1".into()]));
    cell.spoil_snapshots(false);
    until(&registry, "the other history", |snapshot| {
        snapshot.views()[0].position().is_some_and(|position| position.incarnation.ordinal() == 2)
    })
    .await;
    assert_eq!(found(&registry, "mail"), (Outcome::None, Vec::new()));
    // Its age is that of its bookmark: no reader sees it a day old in between.
    assert!(registry.regions()[0].age.unwrap() < DEADLINE);
}

#[tokio::test]
async fn i25_with_the_last_handle_the_watches_end() {
    let cell = Cell::new();
    let serving = cell.serve();
    cell.load("us", 1, &[]);
    cell.load("eu", 1, &[]);
    let registry = Registry::connect(options(serving.url(), &["eu"])).await.unwrap();
    registry.loaded(&region("eu")).await;
    let clone = registry.clone();
    drop(registry);
    assert_eq!((clone.regions().len(), cell.watches()), (2, 2));
    drop(clone);
    let by = tokio::time::Instant::now() + DEADLINE;
    while cell.watches() > 0 {
        assert!(tokio::time::Instant::now() < by, "{} watches stayed open", cell.watches());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn f23_a_connection_that_fell_silent_is_left_for_another_address() {
    let cell = Cell::new();
    let serving = cell.serve();
    cell.load("us", 1, &[("ops/mail/1", HEALTHY)]);
    let line = Line::to(serving.address).await;
    let mut options = options(line.url(), &[]);
    options.urls.push(serving.url());
    let registry = Registry::connect(options).await.unwrap();
    line.cut();
    cell.put("us", "ops/mail/2");
    until(&registry, "the change, over the other address", |snapshot| count(snapshot, 0) == 2).await;
}

#[tokio::test]
async fn a_cell_that_has_no_state_is_left_for_another_address_that_has() {
    let (empty, loaded) = (Cell::new(), Cell::new());
    let (first, second) = (empty.serve(), loaded.serve());
    loaded.load("us", 1, &[("ops/mail/1", HEALTHY)]);
    let mut options = options(first.url(), &[]);
    options.urls.push(second.url());
    let registry = Registry::connect(options).await.unwrap();
    until(&registry, "the state, from the other address", |snapshot| count(snapshot, 0) == 1).await;
}

#[tokio::test]
async fn i17_a_registry_that_was_founded_anew_changes_nothing_and_is_told_as_what_is_wrong() {
    let (old, new) = (Cell::new(), Cell::new());
    let serving = old.serve();
    old.load("us", 2, &[("ops/mail/1", HEALTHY)]);
    let registry = Registry::connect(options(serving.url(), &[])).await.unwrap();
    until(&registry, "the state", |snapshot| count(snapshot, 0) == 1).await;
    let address = serving.address;
    drop(serving);
    new.load("us", 1, &[("ops/bill/1", HEALTHY), ("ops/bill/2", HEALTHY)]);
    let _serving = new.serve_at(address);
    let failing = || registry.regions()[0].failing.clone();
    let is_told = || failing().is_some_and(|failing| failing.why.contains("an older history of this region"));
    until(&registry, "what is wrong with it", |_| is_told()).await;
    assert_eq!(found(&registry, "mail"), (Outcome::Found, vec!["us:1".into()]), "the state is as it was");
}

/// B69: with the protection of last resort on, a service that had really been taken back was called for ever.
#[tokio::test]
async fn b69_an_agent_whose_instances_were_all_taken_back_is_none_at_once_whatever_is_known_of_calls() {
    let cell = Cell::new();
    let serving = cell.serve();
    cell.load("us", 1, &[("ops/mail/1", HEALTHY), ("ops/mail/2", HEALTHY)]);
    let mut options = options(serving.url(), &[]);
    options.ejection = Some(EjectionLimits::default());
    let registry = Registry::connect(options).await.unwrap();
    let all = registry.resolve(&Query { name: Some("mail".into()), ..Query::default() }).candidates;
    for one in &all {
        for _ in 0..20 {
            registry.report(&one.region, &one.registration, Called::Failed);
        }
    }
    assert_eq!(found(&registry, "mail").0, Outcome::Found, "somebody is called, however bad they look");
    cell.remove("us", "ops/mail/1");
    cell.remove("us", "ops/mail/2");
    until(&registry, "both are gone", |snapshot| count(snapshot, 0) == 0).await;
    assert_eq!(found(&registry, "mail"), (Outcome::None, Vec::new()));
}
