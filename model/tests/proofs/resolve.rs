//! Resolving against brute force, and each rule of its order as a scenario.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use rollcall_model::resolve::{Asked, Outcome, Trust, everybody, first, is_callable, resolve};
use rollcall_model::testing::{
    Chance, any_declared, any_owned, any_query, ids, position, registered, registration,
};
use rollcall_model::{
    Epoch, Failover, Heard, Instant, Lifecycle, Load, Query, Reach, Region, Registration, Revision, Snapshot,
    State, Timestamp, View,
};

use crate::cases;

const HOUR: Duration = Duration::from_secs(3600);

fn region(name: &str) -> Region {
    Region::parse(name).unwrap()
}

fn one(id: &str, lifecycle: Lifecycle) -> Registration {
    let mut one = registration(id, 1, 1);
    one.owned.lifecycle = lifecycle;
    one
}

/// A view loaded at time zero with these instances.
fn view(name: &str, registrations: impl IntoIterator<Item = Registration>) -> View {
    let mut state = State::default();
    for registration in registrations {
        state.put(Arc::new(registration));
    }
    let mut view = View::new(region(name));
    let heard = Heard { at: Instant::default(), age: Duration::ZERO };
    view.install(Snapshot::of(region(name), position(1, 9), state), Some(heard), "started", Timestamp(0));
    view
}

fn never_loaded(name: &str) -> View {
    View::new(region(name))
}

/// A view with one healthy instance.
fn healthy(name: &str) -> View {
    view(name, [one("a/b/1", Lifecycle::Healthy)])
}

fn ask(
    views: &[View],
    reach: &Reach,
    after: Duration,
    trust: impl Fn(&str) -> Trust,
) -> (Outcome, Vec<String>) {
    let asked = Asked { views, query: &Query::default(), reach, age_max: HOUR };
    let text = |region: &Region, one: &Registration| format!("{region}:{}", one.declared.id);
    let found = resolve(asked, Instant(after), |region, one| trust(&text(region, one)));
    (found.outcome(), found.map(|c| text(c.region, c.registration)).collect())
}

fn asked(views: &[View], after: Duration) -> (Outcome, Vec<String>) {
    ask(views, &Reach::default(), after, |_| Trust::Usable)
}

fn within(views: &[View], reach: &Reach) -> (Outcome, Vec<String>) {
    ask(views, reach, Duration::ZERO, |_| Trust::Usable)
}

fn reach(parameters: &[(&str, &str)]) -> Reach {
    let mut reach = Reach::default();
    for (name, value) in parameters {
        assert!(reach.set(name, value).unwrap());
    }
    reach
}

#[test]
fn usable_ones_come_better_first_and_others_never() {
    let all = Lifecycle::ALL.map(|lifecycle| one(&format!("a/b/{}", lifecycle.as_str()), lifecycle));
    let (outcome, found) = asked(&[view("us", all)], Duration::ZERO);
    assert_eq!(outcome, Outcome::Found);
    assert_eq!(found, ["us:a/b/healthy", "us:a/b/degraded", "us:a/b/unknown"]);
}

#[test]
fn overdue_ones_come_last() {
    let mut overdue = one("a/b/1", Lifecycle::Healthy);
    overdue.owned.overdue = true;
    let others = [one("a/b/2", Lifecycle::Unknown), one("a/b/3", Lifecycle::Healthy), overdue];
    assert_eq!(asked(&[view("us", others)], Duration::ZERO).1, ["us:a/b/3", "us:a/b/2", "us:a/b/1"]);
}

#[test]
fn full_ones_are_no_candidates() {
    let at = |id, in_flight| {
        let mut one = one(id, Lifecycle::Healthy);
        one.declared.max_concurrency = Some(2);
        one.owned.load = Load { queue_depth: 0, in_flight, error_rate: 0.0 }.into();
        one
    };
    assert_eq!(
        asked(&[view("us", [at("a/b/full", 2), at("a/b/busy", 1)])], Duration::ZERO).1,
        ["us:a/b/busy"]
    );
}

#[test]
fn other_regions_are_asked_in_order_and_only_without_an_own_candidate() {
    assert_eq!(asked(&[healthy("us"), healthy("eu"), healthy("ap")], Duration::ZERO).1, ["us:a/b/1"]);
    let draining = view("us", [one("a/b/1", Lifecycle::Draining)]);
    assert_eq!(asked(&[draining, healthy("eu"), healthy("ap")], Duration::ZERO).1, ["eu:a/b/1"]);
    assert_eq!(asked(&[never_loaded("us"), view("eu", []), healthy("ap")], Duration::ZERO).1, ["ap:a/b/1"]);
}

#[test]
fn a_query_chooses_its_own_order_of_failover_or_none() {
    let views = [view("us", []), healthy("eu"), healthy("ap")];
    assert_eq!(within(&views, &reach(&[("failover", "ap,eu")])).1, ["ap:a/b/1"]);
    assert_eq!(within(&views, &reach(&[("failover", "eu")])).1, ["eu:a/b/1"]);
    assert_eq!(within(&views, &reach(&[("failover", "false")])), (Outcome::None, vec![]));
    // The own region stays the first, wherever a list has it.
    let own = [healthy("us"), healthy("eu")];
    assert_eq!(within(&own, &reach(&[("failover", "eu,us")])).1, ["us:a/b/1"]);
}

#[test]
fn nothing_overrides_residency() {
    let views = [healthy("us"), healthy("eu"), healthy("ap")];
    assert_eq!(within(&views, &reach(&[("residency", "ap")])).1, ["ap:a/b/1"]);
    assert_eq!(within(&views, &reach(&[("residency", "ap,eu")])).1, ["eu:a/b/1"]);
    assert_eq!(within(&views, &reach(&[("residency", "ap"), ("failover", "eu")])), (Outcome::None, vec![]));
    assert_eq!(
        within(&views, &reach(&[("residency", "ap"), ("failover", "false")])),
        (Outcome::None, vec![])
    );
    // Also when all that is left is ejected, and also with a region that is not there.
    let ejected = ask(&views, &reach(&[("residency", "ap")]), Duration::ZERO, |_| Trust::Ejected);
    assert_eq!(ejected.1, ["ap:a/b/1"]);
    let unloaded = [view("us", []), never_loaded("eu")];
    assert_eq!(within(&unloaded, &reach(&[("residency", "us")])).0, Outcome::None);
}

#[test]
fn nothing_found_says_what_it_means() {
    let empty = || view("us", []);
    assert_eq!(asked(&[empty()], Duration::ZERO).0, Outcome::None);
    assert_eq!(asked(&[empty(), never_loaded("ap")], Duration::ZERO).0, Outcome::ViewNotLoaded);
    assert_eq!(asked(&[empty()], HOUR * 2).0, Outcome::TooOld);
    assert_eq!(asked(&[empty(), never_loaded("ap")], HOUR * 2).0, Outcome::ViewNotLoaded);
    // A region that nobody follows is not one without such an instance.
    assert_eq!(within(&[empty()], &reach(&[("failover", "ap")])).0, Outcome::ViewNotLoaded);
}

#[test]
fn i23_under_the_hard_limit_it_is_served_with_its_age_and_over_it_not_at_all() {
    let views = [healthy("us")];
    let (query, reach) = (Query::default(), Reach::default());
    let asking = Asked { views: &views, query: &query, reach: &reach, age_max: HOUR };
    assert_eq!(resolve(asking, Instant(HOUR), everybody).next().unwrap().age, HOUR);
    assert_eq!(asked(&views, HOUR + Duration::from_nanos(1)), (Outcome::TooOld, Vec::new()));
}

#[test]
fn whom_the_caller_ejected_is_left_out_and_a_region_of_such_is_failed_over() {
    let us = || view("us", [one("a/b/1", Lifecycle::Healthy), one("a/b/2", Lifecycle::Degraded)]);
    let views = [us(), healthy("eu")];
    let ejected = |which: &'static str| {
        ask(&views, &Reach::default(), Duration::ZERO, move |one| {
            if one.starts_with(which) { Trust::Ejected } else { Trust::Usable }
        })
    };
    assert_eq!(ejected("us:a/b/1").1, ["us:a/b/2"]);
    assert_eq!(ejected("us").1, ["eu:a/b/1"]);
    // Everywhere: then all of the first region that has any.
    assert_eq!(ejected("").1, ["us:a/b/1", "us:a/b/2"]);
}

#[test]
fn the_first_alone_is_the_next_one_when_the_one_at_hand_is_ejected_and_nobody_is_asked_about_twice() {
    let views = [view("us", ["a/b/1", "a/b/2", "a/b/3"].map(|id| one(id, Lifecycle::Healthy)))];
    let (query, reach) = (Query { name: Some("b".into()), ..Query::default() }, Reach::default());
    let asking = Asked { views: &views, query: &query, reach: &reach, age_max: HOUR };
    let mut about = Vec::new();
    let found = first(asking, Instant::default(), |_: &Region, one: &Registration| {
        about.push(one.declared.id.to_string());
        if about.len() == 1 { Trust::Ejected } else { Trust::Usable }
    });
    assert_eq!(found.unwrap().registration.declared.id.as_str(), "a/b/2");
    assert_eq!(about, ["a/b/1", "a/b/2"]);
}

#[test]
fn whom_the_share_spares_is_the_last_of_its_region_and_no_reason_to_stay_there() {
    let us = || view("us", ["a/b/1", "a/b/2", "a/b/3"].map(|id| one(id, Lifecycle::Healthy)));
    let views = [us(), healthy("eu")];
    let thought = |trust: fn(&str) -> Trust| ask(&views, &Reach::default(), Duration::ZERO, trust).1;
    let first_bad = |one: &str| if one == "us:a/b/1" { Trust::Spared } else { Trust::Usable };
    assert_eq!(thought(first_bad), ["us:a/b/2", "us:a/b/3", "us:a/b/1"]);
    let all_bad_here = |one: &str| match one {
        "us:a/b/1" => Trust::Ejected,
        one if one.starts_with("us") => Trust::Spared,
        _ => Trust::Usable,
    };
    assert_eq!(thought(all_bad_here), ["eu:a/b/1"]);
    // Everywhere: then all of the first region that has any.
    assert_eq!(thought(|_| Trust::Spared), ["us:a/b/1", "us:a/b/2", "us:a/b/3"]);
}

#[test]
fn a_probe_says_that_it_is_one() {
    let views = [healthy("us")];
    let (query, reach) = (Query::default(), Reach::default());
    let asking = Asked { views: &views, query: &query, reach: &reach, age_max: HOUR };
    let probes = |trust| {
        let found = resolve(asking, Instant::default(), |_: &Region, _: &Registration| trust);
        found.map(|candidate| candidate.is_probe).collect::<Vec<_>>()
    };
    assert_eq!(probes(Trust::Probe), [true]);
    assert_eq!(probes(Trust::Usable), [false]);
    assert_eq!(probes(Trust::Ejected), [false]);
    let probe = first(asking, Instant::default(), |_: &Region, _: &Registration| Trust::Probe);
    assert!(probe.unwrap().is_probe);
}

proptest! {
    #![proptest_config(cases(200))]

    /// Brute force: sort everything that fits of the first region that has any, by rank and id, the spared ones last.
    #[test]
    fn candidates_are_what_brute_force_says_and_each_is_asked_about_once(seed: u64, many in 0..40_usize) {
        let mut chance = Chance::new(seed);
        let registrations: Vec<Registration> = ids(many)
            .into_iter()
            .map(|id| {
                let owned = any_owned(&mut chance);
                let declared = any_declared(&mut chance, id);
                Registration { owned, ..registered(declared, Epoch::new(1, Revision(1)), Revision(1)) }
            })
            .collect();
        let (query, reach) = (any_query(&mut chance), Reach { failover: Failover::Never, residency: None });
        let trust = |one: &Registration| match one.hash128() % 5 {
            0 => Trust::Ejected,
            1 => Trust::Spared,
            _ => Trust::Usable,
        };
        let brute = |taken: &dyn Fn(Trust) -> bool| {
            let fits = |one: &&Registration| query.matches(one) && is_callable(one) && taken(trust(one));
            let mut found: Vec<&Registration> = registrations.iter().filter(fits).collect();
            let lifecycles = [Lifecycle::Healthy, Lifecycle::Degraded, Lifecycle::Unknown];
            let at = |one: &Registration| lifecycles.iter().position(|l| *l == one.owned.lifecycle);
            found.sort_by_key(|one| (one.owned.overdue, at(one), &one.declared.id));
            found.into_iter().map(|one| one.declared.id.clone()).collect::<Vec<_>>()
        };
        let everybody = brute(&|_| true);
        let mut expected = brute(&|trust| trust == Trust::Usable);
        let spared = brute(&|trust| trust == Trust::Spared);
        // Whoever is left for the end is asked about once more there.
        let rounds = if expected.is_empty() || spared.is_empty() { 1 } else { 2 };
        if expected.is_empty() {
            expected.clone_from(&everybody);
        } else {
            expected.extend(spared);
        }
        let views = [view("us", registrations.iter().cloned())];
        let asking = Asked { views: &views, query: &query, reach: &reach, age_max: HOUR };
        let asked_about = Cell::new(0);
        let found: Vec<_> = resolve(asking, Instant::default(), |_: &Region, one: &Registration| {
            asked_about.set(asked_about.get() + 1);
            trust(one)
        })
        .map(|candidate| candidate.registration.declared.id.clone())
        .collect();
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!(asked_about.get(), rounds * everybody.len());
        // The first alone is the first of all, and nobody is asked about twice for it.
        let mut about = Vec::new();
        let alone = first(asking, Instant::default(), |_: &Region, one: &Registration| {
            about.push(one.declared.id.clone());
            trust(one)
        });
        prop_assert_eq!(alone.map(|candidate| &candidate.registration.declared.id), expected.first());
        let many = about.len();
        about.sort();
        about.dedup();
        prop_assert_eq!(about.len(), many);
        // Whoever takes one candidate asks about those before it alone.
        asked_about.set(0);
        let _ = resolve(asking, Instant::default(), |_: &Region, _: &Registration| {
            asked_about.set(asked_about.get() + 1);
            Trust::Usable
        });
        prop_assert_eq!(asked_about.get(), usize::from(!found.is_empty()));
    }
}
