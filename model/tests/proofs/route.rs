//! Each route's order as a scenario, its shares over many seeds, and what holds for all of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use rollcall_model::resolve::{Candidate, is_callable};
use rollcall_model::route::{For, Policy, unmeasured};
use rollcall_model::testing::{Chance, any_declared, any_owned, ids, registered, registration};
use rollcall_model::{
    Capability, CapabilityName, Details, Epoch, Lifecycle, Load, Region, Registration, Revision, Route,
    Skill, Wish, Zone,
};

use crate::cases;

fn one(name: &str) -> Registration {
    registration(&format!("a/b/{name}"), 1, 1)
}

fn named(names: &[&str]) -> Vec<Registration> {
    names.iter().map(|name| one(name)).collect()
}

fn zone(name: &str) -> Zone {
    Zone::parse(name).unwrap()
}

fn wish(parameters: &[(&str, &str)]) -> Wish {
    let mut wish = Wish::default();
    for (name, value) in parameters {
        assert!(wish.set(name, value).unwrap(), "{name}");
    }
    wish
}

/// The names in the order of a route.
struct Scene {
    region: Region,
    all: Vec<Arc<Registration>>,
}

impl Scene {
    fn new(all: impl IntoIterator<Item = Registration>) -> Self {
        Self { region: Region::parse("us").unwrap(), all: all.into_iter().map(Arc::new).collect() }
    }

    fn ordered(&self, route: &Route, caller: For<'_>, chance: &mut Chance) -> Vec<Arc<Registration>> {
        let candidate = |registration| Candidate {
            region: &self.region,
            age: Duration::ZERO,
            registration,
            is_probe: false,
        };
        let mut candidates: Vec<_> = self.all.iter().map(candidate).collect();
        route.order(&mut candidates, caller, &mut || chance.fraction());
        candidates.into_iter().map(|candidate| Arc::clone(candidate.registration)).collect()
    }

    fn names(&self, route: &Route, caller: For<'_>, chance: &mut Chance) -> Vec<String> {
        let ordered = self.ordered(route, caller, chance);
        ordered.iter().map(|one| one.declared.id.instance().to_owned()).collect()
    }

    /// How often each of them leads.
    fn leaders(&self, route: &Route, caller: For<'_>, answers: u32) -> BTreeMap<String, u32> {
        let mut led = BTreeMap::new();
        let mut chance = Chance::new(7);
        for _ in 0..answers {
            *led.entry(self.names(route, caller, &mut chance).remove(0)).or_default() += 1;
        }
        led
    }
}

const NOBODY: For<'_> = For { zone: None, turn: 0, measured: &unmeasured };

fn rank(registration: &Registration) -> (bool, u8) {
    let rank = match registration.owned.lifecycle {
        Lifecycle::Healthy => 0,
        Lifecycle::Degraded => 1,
        _ => 2,
    };
    (registration.owned.overdue, rank)
}

#[test]
fn the_callers_zone_comes_first_and_weights_are_shares_within_it() {
    let mut all = named(&["far", "light", "heavy"]);
    all[0].declared.zone = Some(zone("b"));
    all[1].declared.zone = Some(zone("a"));
    all[2].declared.zone = Some(zone("a"));
    all[2].declared.weight = 300;
    let scene = Scene::new(all);
    let own = zone("a");
    let led = scene.leaders(&Route::Zone, For { zone: Some(&own), ..NOBODY }, 4_000);
    assert_eq!(led.get("far"), None);
    assert!((2_850..3_150).contains(&led["heavy"]), "{led:?}");
    // Without a zone all three are near: 100, 100 and 300 of 500.
    let led = scene.leaders(&Route::Zone, NOBODY, 5_000);
    assert!((850..1_150).contains(&led["far"]) && (2_800..3_200).contains(&led["heavy"]), "{led:?}");
}

#[test]
fn an_instance_of_weight_nothing_comes_last() {
    let mut all = named(&["none", "some"]);
    all[0].declared.weight = 0;
    assert_eq!(
        Scene::new(all).leaders(&Route::Zone, NOBODY, 500),
        BTreeMap::from([("some".to_owned(), 500)])
    );
}

#[test]
fn rou_03_round_robin_is_perfectly_even_and_in_order() {
    for many in 1..12 {
        let names: Vec<String> = (0..many).map(|n| format!("{n:02}")).collect();
        let mut all: Vec<_> = names.iter().map(|name| one(name)).collect();
        // One that is worse never takes a turn.
        let mut worse = one("zz");
        worse.owned.lifecycle = Lifecycle::Degraded;
        all.push(worse);
        let scene = Scene::new(all);
        let first: Vec<String> = (0..5 * many)
            .map(|turn| {
                let mut order =
                    scene.names(&Route::RoundRobin, For { turn, ..NOBODY }, &mut Chance::new(turn));
                assert_eq!(order.pop().as_deref(), Some("zz"));
                order.remove(0)
            })
            .collect();
        let round: Vec<String> = names.iter().cycle().take(first.len()).cloned().collect();
        assert_eq!(first, round);
    }
}

#[test]
fn rou_06_those_with_the_most_room_come_first() {
    let loaded = |name: &str, most, in_flight, queue_depth| {
        let mut one = one(name);
        one.declared.max_concurrency = most;
        one.owned.load = Load { queue_depth, in_flight, error_rate: 0.0 }.into();
        one
    };
    let scene = Scene::new([
        loaded("half", Some(8), 4, 0),
        loaded("queue", Some(4), 1, 2),
        loaded("small", Some(4), 1, 0),
        loaded("free", Some(2), 0, 0),
        loaded("unlimited", None, 3, 0),
    ]);
    for seed in 0..20 {
        let order = scene.names(&Route::LeastLoaded, NOBODY, &mut Chance::new(seed));
        assert_eq!(order, ["free", "small", "unlimited", "half", "queue"]);
    }
    let plain = Scene::new([loaded("two", None, 2, 0), loaded("one", None, 1, 0), one("silent")]);
    assert_eq!(plain.names(&Route::LeastLoaded, NOBODY, &mut Chance::new(1)), ["silent", "one", "two"]);
}

#[test]
fn rou_04_the_fastest_quarter_shares_the_lead_and_the_others_follow_by_speed() {
    let names: Vec<String> = (1..=8).map(|n| format!("{n}")).collect();
    let scene = Scene::new(names.iter().map(|name| one(name)));
    let measured = |candidate: &Candidate<'_>| {
        let number: u64 = candidate.registration.declared.id.instance().parse().unwrap();
        Some(Duration::from_millis(10 * number))
    };
    let led = scene.leaders(&Route::Latency, For { measured: &measured, ..NOBODY }, 1_000);
    assert_eq!(led.keys().collect::<Vec<_>>(), ["1", "2"]);
    assert!(led.values().all(|led| (400..600).contains(led)), "{led:?}");
    let order = scene.names(&Route::Latency, For { measured: &measured, ..NOBODY }, &mut Chance::new(1));
    assert_eq!(order[2..], ["3", "4", "5", "6", "7", "8"]);
    // One that was never called is tried with the fastest, or nobody would ever know.
    let newcomer = |candidate: &Candidate<'_>| measured(candidate).filter(|time| time.as_millis() < 80);
    let led = scene.leaders(&Route::Latency, For { measured: &newcomer, ..NOBODY }, 1_000);
    assert!(led.contains_key("8"), "{led:?}");
}

#[test]
fn where_nothing_was_measured_latency_is_the_order_by_zone() {
    let mut all = named(&["far", "near"]);
    all[1].declared.zone = Some(zone("a"));
    let (scene, own) = (Scene::new(all), zone("a"));
    let caller = For { zone: Some(&own), ..NOBODY };
    for seed in 0..20 {
        let order = |route| scene.names(&route, caller, &mut Chance::new(seed));
        assert_eq!(order(Route::Latency), order(Route::Zone));
    }
}

fn able(name: &str, capabilities: &[&str]) -> Registration {
    let mut one = one(name);
    let capability =
        |name: &&str| Capability::new(CapabilityName::parse(name).unwrap(), false, Details::default());
    one.declared.capabilities = capabilities.iter().map(capability).collect();
    one
}

#[test]
fn rou_05_the_best_fit_comes_first_and_of_these_the_one_that_does_the_least_else() {
    let mut skilled = able("skilled", &["market:research:v1"]);
    skilled.declared.skills = vec![Skill {
        id: "sector-analysis".into(),
        name: "Sectors".into(),
        tags: vec!["supply-chain".into()],
    }];
    let mut hidden = able("hidden", &["market:research:v1", "supply:chain:v1"]);
    hidden.declared.capabilities[1].internal = true;
    let scene = Scene::new([
        able("generalist", &["market:research:v1", "supply:chain:v1", "a:b:v1", "c:d:v1"]),
        able("specialist", &["market:research:v1", "supply:chain:v1"]),
        able("base", &["market:research:v1"]),
        hidden,
        skilled,
    ]);
    let order = |prefer: &str, seed| {
        let wish = wish(&[("policy", "specialist"), ("prefer", prefer)]);
        scene.names(&wish.route().unwrap(), NOBODY, &mut Chance::new(seed))
    };
    for seed in 0..20 {
        let by_capability = order("supply:chain:v1", seed);
        assert_eq!(by_capability[..2], ["specialist", "generalist"]);
        // A skill, and a tag of it: two fit.
        let by_skill = order("sector-analysis, supply-chain,supply:chain:v1", seed);
        assert_eq!(by_skill[..3], ["skilled", "specialist", "generalist"]);
    }
}

#[test]
fn rou_08_a_twentieth_of_the_answers_begins_with_the_version_on_trial() {
    let version = |name: &str, version: Option<&str>| {
        let mut one = one(name);
        one.declared.version = version.map(str::to_owned);
        one
    };
    let scene = Scene::new([
        version("old-1", Some("1.4.0")),
        version("old-2", Some("1.9.9")),
        version("none", None),
        version("new", Some("2.0.1")),
    ]);
    let route = wish(&[("policy", "canary"), ("canary_version", "^2")]).route().unwrap();
    for seed in 0..8 {
        let mut chance = Chance::new(seed);
        let led = (0..10_000).filter(|_| scene.names(&route, NOBODY, &mut chance)[0] == "new").count();
        // Five hundred are due; four standard deviations are 87.
        assert!((413..587).contains(&led), "seed {seed}: {led}");
    }
    for (share, leader) in [("0", 0), ("1", 500)] {
        let parameters = [("policy", "canary"), ("canary_version", "^2"), ("canary_share", share)];
        let led = scene.leaders(&wish(&parameters).route().unwrap(), NOBODY, 500);
        assert_eq!(led.get("new").copied().unwrap_or_default(), leader, "{led:?}");
    }
    // Better the version on trial than nobody.
    let alone = Scene::new([version("new", Some("2.0.1"))]);
    assert_eq!(alone.leaders(&route, NOBODY, 100), BTreeMap::from([("new".to_owned(), 100)]));
}

#[test]
fn sticky_keys_are_spread_by_weight() {
    let mut all = named(&["1", "2", "3", "4"]);
    all[3].declared.weight = 300;
    let scene = Scene::new(all);
    let mut led: BTreeMap<String, u32> = BTreeMap::new();
    for key in 0..6_000 {
        let leader =
            scene.names(&Route::Sticky(format!("session-{key}")), NOBODY, &mut Chance::new(0)).remove(0);
        *led.entry(leader).or_default() += 1;
    }
    for (name, due) in [("1", 1_000), ("2", 1_000), ("3", 1_000), ("4", 3_000)] {
        assert!((due - 160..due + 160).contains(&led[name]), "{name}: {led:?}");
    }
}

#[test]
fn a_key_leaves_an_overdue_instance_and_not_a_degraded_one() {
    let names = ["1", "2", "3"];
    for key in 0..50 {
        let route = Route::Sticky(format!("{key}"));
        let leader =
            |all: Vec<Registration>| Scene::new(all).names(&route, NOBODY, &mut Chance::new(0)).remove(0);
        let holder = leader(named(&names));
        let changed = |change: fn(&mut Registration)| {
            let mut all = named(&names);
            change(all.iter_mut().find(|one| one.declared.id.instance() == holder).unwrap());
            leader(all)
        };
        assert_eq!(changed(|one| one.owned.lifecycle = Lifecycle::Degraded), holder);
        assert_ne!(changed(|one| one.owned.overdue = true), holder);
    }
}

#[test]
fn a_policy_says_what_it_lacks_and_every_word_of_the_contract_is_known() {
    for (policy, lacks) in
        [("specialist", "prefer"), ("canary", "canary_version"), ("sticky", "affinity_key")]
    {
        let refused = wish(&[("policy", policy)]).route().unwrap_err();
        assert_eq!(refused.pointer, lacks);
    }
    for policy in Policy::ALL {
        let all =
            [("policy", policy.as_str()), ("prefer", "x"), ("canary_version", "*"), ("affinity_key", "k")];
        wish(&all).route().unwrap();
    }
    assert_eq!(Wish::default().route().unwrap(), Route::Zone);
    for (name, value) in [
        ("policy", "fastest"),
        ("policy", ""),
        ("from_zone", "a b"),
        ("affinity_key", ""),
        ("prefer", ""),
        ("prefer", "a,,b"),
        ("canary_version", "two"),
        ("canary_share", "1.1"),
        ("canary_share", "-0.1"),
        ("canary_share", "NaN"),
        ("canary_share", "5%"),
    ] {
        assert_eq!(Wish::default().set(name, value).unwrap_err().pointer, name, "{name}={value}");
    }
    assert_eq!(Wish::default().set("capability", "x"), Ok(false));
    assert!(wish(&[("policy", "zone")]).set("policy", "zone").is_err());
}

fn any_scene(chance: &mut Chance) -> Scene {
    let many = 1 + chance.below(12);
    let all = ids(many).into_iter().map(|id| {
        let mut one = registered(any_declared(chance, id), Epoch::new(1, Revision(1)), Revision(1));
        one.owned = any_owned(chance);
        one
    });
    let callable: Vec<_> = all.filter(is_callable).collect();
    if callable.is_empty() { Scene::new([one("1")]) } else { Scene::new(callable) }
}

fn any_route(chance: &mut Chance) -> Route {
    let all = [
        ("policy", Policy::ALL[chance.below(7)].as_str()),
        ("prefer", "email:send:v1,fast"),
        ("canary_version", "^1"),
        ("canary_share", "0.5"),
        ("affinity_key", "k"),
    ];
    wish(&all).route().unwrap()
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn a_route_takes_nobody_in_leaves_nobody_out_and_keeps_better_ones_first(seed: u64) {
        let mut chance = Chance::new(seed);
        let (scene, route, own) = (any_scene(&mut chance), any_route(&mut chance), zone("a"));
        let caller = For { zone: Some(&own).filter(|_| seed % 2 == 0), turn: seed, ..NOBODY };
        let ordered = scene.ordered(&route, caller, &mut chance);
        let ids = |all: &[Arc<Registration>]| {
            let mut ids: Vec<_> = all.iter().map(|one| one.declared.id.clone()).collect();
            ids.sort();
            ids
        };
        prop_assert_eq!(ids(&ordered), ids(&scene.all));
        // Whom a key sticks to may stand before better ones; nobody else may.
        let from = usize::from(matches!(route, Route::Sticky(_)));
        prop_assert!(ordered[from..].is_sorted_by_key(|one| rank(one)), "{:?}", route);
    }

    #[test]
    fn a_key_stays_with_its_instance_whoever_else_comes_or_goes(seed: u64) {
        let mut chance = Chance::new(seed);
        let all: Vec<Registration> = any_scene(&mut chance).all.iter().map(|one| {
            let mut one = Registration::clone(one);
            one.owned.overdue = false;
            one
        }).collect();
        let route = Route::Sticky(format!("key-{seed}"));
        let leader = |all: Vec<Registration>| {
            Scene::new(all).ordered(&route, NOBODY, &mut Chance::new(0)).remove(0).declared.id.clone()
        };
        let holder = leader(all.clone());
        // Others go, in any number.
        let left: Vec<_> =
            all.iter().filter(|one| one.declared.id == holder || chance.one_in(2)).cloned().collect();
        prop_assert_eq!(&leader(left), &holder);
        // Another comes: the key stays, or is the newcomer's.
        let newcomer = one("newcomer");
        let id = newcomer.declared.id.clone();
        let now = leader(all.into_iter().chain([newcomer]).collect());
        prop_assert!(now == holder || now == id);
    }
}
