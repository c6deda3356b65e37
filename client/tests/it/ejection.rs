//! A caller tells what became of its calls, and is no longer given who failed it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rollcall_client::model::{Lifecycle, Query};
use rollcall_client::{Called, Candidate, EjectionLimits, Registry, RegistryOptions};

use crate::cell::{Cell, DEADLINE, region};

const HEALTHY: Lifecycle = Lifecycle::Healthy;

/// Ejected for so long, and one probe for the whole of a test.
fn limits(first: Duration) -> EjectionLimits {
    EjectionLimits { first, most: DEADLINE * 10, probe_wait: DEADLINE * 10, ..EjectionLimits::default() }
}

async fn connect(url: String, failover: &[&str], first: Duration) -> Registry {
    let mut options = RegistryOptions::new([url], region("us"));
    options.failover = failover.iter().map(|name| region(name)).collect();
    options.first_load = DEADLINE;
    options.ejection = Some(limits(first));
    let registry = Registry::connect(options).await.unwrap();
    for name in failover {
        tokio::time::timeout(DEADLINE, registry.loaded(&region(name))).await.unwrap();
    }
    registry
}

fn mail(registry: &Registry) -> Vec<Candidate> {
    registry.resolve(&Query { name: Some("mail".into()), ..Query::default() }).candidates
}

fn names(candidates: &[Candidate]) -> BTreeSet<String> {
    candidates.iter().map(|c| format!("{}:{}", c.region, c.registration.declared.id.instance())).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Three calls to it fail.
fn fail(registry: &Registry, which: &str) {
    let candidates = mail(registry);
    let named = |c: &&Candidate| names(&[(*c).clone()]) == set(&[which]);
    let one = candidates.iter().find(named).unwrap();
    for _ in 0..3 {
        registry.report(&one.region, &one.registration, Called::Failed);
    }
}

async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let by = tokio::time::Instant::now() + DEADLINE;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(tokio::time::Instant::now() < by, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn i28_who_fails_is_left_out_up_to_the_share_and_then_the_next_region_is_asked() {
    let cell = Cell::new();
    let serving = cell.serve();
    cell.load("us", 1, &[("ops/mail/1", HEALTHY), ("ops/mail/2", HEALTHY)]);
    cell.load("eu", 1, &[("ops/mail/1", HEALTHY), ("ops/mail/3", HEALTHY)]);
    let registry = connect(serving.url(), &["eu"], DEADLINE * 10).await;
    fail(&registry, "us:1");
    assert_eq!(names(&mail(&registry)), set(&["us:2"]));
    fail(&registry, "us:2");
    assert_eq!(names(&mail(&registry)), set(&["eu:1", "eu:3"]));
    // Half of the four are avoided already.
    fail(&registry, "eu:1");
    assert_eq!(names(&mail(&registry)), set(&["eu:1", "eu:3"]));
    assert_eq!(registry.ejected().len(), 2);
}

/// A small own region whose instances all fail is left also where the share lets not all of them be ejected.
#[tokio::test]
async fn mrg_a_region_of_which_nobody_answers_is_failed_over_however_few_the_other_one_has() {
    let cell = Cell::new();
    let serving = cell.serve();
    cell.load("us", 1, &[("ops/mail/1", HEALTHY), ("ops/mail/2", HEALTHY)]);
    cell.load("eu", 1, &[("ops/mail/3", HEALTHY)]);
    let registry = connect(serving.url(), &["eu"], DEADLINE * 10).await;
    fail(&registry, "us:1");
    fail(&registry, "us:2");
    assert_eq!(registry.ejected().len(), 1, "I28: half of three at most");
    assert_eq!(names(&mail(&registry)), set(&["eu:3"]));
    // Nobody answers anywhere: all of the own region are tried.
    fail(&registry, "eu:3");
    assert_eq!(names(&mail(&registry)), set(&["us:1", "us:2"]));
}

#[tokio::test]
async fn i28_when_it_is_due_one_caller_of_many_has_it_and_its_success_gives_it_back_to_all() {
    let cell = Cell::new();
    let serving = cell.serve();
    cell.load("us", 1, &[("ops/mail/1", HEALTHY), ("ops/mail/2", HEALTHY)]);
    let registry = connect(serving.url(), &[], Duration::from_millis(100)).await;
    fail(&registry, "us:1");
    assert_eq!(names(&mail(&registry)), set(&["us:2"]));
    let (is_found, by) = (AtomicBool::new(false), Instant::now() + DEADLINE);
    let call = || {
        let mut probes = Vec::new();
        // A hundred times more, after anybody found it.
        let mut left = 100;
        while left > 0 && Instant::now() < by {
            probes.extend(mail(&registry).into_iter().filter(|c| c.is_probe));
            is_found.fetch_or(!probes.is_empty(), Ordering::SeqCst);
            left -= usize::from(is_found.load(Ordering::SeqCst));
        }
        probes
    };
    let probes: Vec<_> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..8).map(|_| scope.spawn(call)).collect();
        callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect()
    });
    assert_eq!(names(&probes), set(&["us:1"]));
    assert_eq!(probes.len(), 1, "I28: one probe at a time");
    registry.report(&probes[0].region, &probes[0].registration, Called::Succeeded);
    assert_eq!(names(&mail(&registry)), set(&["us:1", "us:2"]));
    assert!(registry.ejected().is_empty());
}

#[tokio::test]
async fn i28_a_new_epoch_is_called_at_once() {
    let cell = Cell::new();
    let serving = cell.serve();
    cell.load("us", 1, &[("ops/mail/1", HEALTHY), ("ops/mail/2", HEALTHY)]);
    let registry = connect(serving.url(), &[], DEADLINE * 10).await;
    fail(&registry, "us:1");
    assert_eq!(names(&mail(&registry)), set(&["us:2"]));
    cell.put("us", "ops/mail/1");
    eventually("the new one is called", || (mail(&registry).len() == 2).then_some(())).await;
    // What is remembered is compared with the view as the view moves on.
    eventually("the old one is forgotten", || {
        cell.put("us", "ops/bill/1");
        registry.ejected().is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn who_wants_no_ejection_is_given_everybody() {
    let cell = Cell::new();
    let serving = cell.serve();
    cell.load("us", 1, &[("ops/mail/1", HEALTHY), ("ops/mail/2", HEALTHY)]);
    let mut options = RegistryOptions::new([serving.url()], region("us"));
    options.first_load = DEADLINE;
    options.ejection = None;
    let registry = Registry::connect(options).await.unwrap();
    fail(&registry, "us:1");
    assert_eq!(names(&mail(&registry)), set(&["us:1", "us:2"]));
}
