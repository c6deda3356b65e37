//! Zones that are cut off from a caller: avoided after a few failed calls, and taken back by the first that succeeds.

use std::sync::Arc;
use std::time::Duration;

use rollcall_model::ejection::{EjectedZone, Reported};
use rollcall_model::resolve::{Asked, Trust, resolve};
use rollcall_model::testing::{Chance, position, registration};
use rollcall_model::{
    Called, EjectionLimits, Ejections, Heard, Instant, Query, Reach, Region, Registration, Snapshot, State,
    Timestamp, View, Zone,
};

use Called::{Failed, Succeeded, TimedOut};

const AGENTS: usize = 10;
/// Between two calls of a caller, and what one costs that nobody answers.
const PACE: Duration = Duration::from_millis(250);
const PATIENCE: Duration = Duration::from_secs(2);

fn region() -> Region {
    Region::parse("us").unwrap()
}

fn at(seconds: u64) -> Instant {
    Instant(Duration::from_secs(seconds))
}

fn one(zone: &str, agent: &str, n: usize) -> Registration {
    let mut one = registration(&format!("ops/{agent}/z{zone}{n}"), 1, 1);
    one.declared.zone = (!zone.is_empty()).then(|| Zone::parse(zone).unwrap());
    one
}

/// A caller of instances in one region.
struct Caller {
    ejections: Ejections,
    views: Vec<View>,
    chance: Chance,
    now: Instant,
    failed: usize,
}

impl Caller {
    fn of(fleet: impl IntoIterator<Item = Registration>, seed: u64) -> Self {
        let mut state = State::default();
        fleet.into_iter().for_each(|one| drop(state.put(Arc::new(one))));
        let mut view = View::new(region());
        let heard = Heard { at: at(0), age: Duration::ZERO };
        view.install(Snapshot::of(region(), position(1, 9), state), Some(heard), "started", Timestamp(0));
        let ejections = Ejections::new(EjectionLimits::default());
        Self { ejections, views: vec![view], chance: Chance::new(seed), now: at(0), failed: 0 }
    }

    /// Forty instances of ten agents in each of three zones.
    fn of_three_zones(seed: u64) -> Self {
        let all = ["a", "b", "c"]
            .into_iter()
            .flat_map(|zone| (0..40).map(move |n| one(zone, &format!("agent-{}", n % AGENTS), n)));
        Self::of(all, seed)
    }

    fn report(&mut self, one: &Registration, called: Called) -> Reported {
        let chance = self.chance.fraction();
        self.ejections.report(&self.views, &region(), one, called, self.now, chance)
    }

    fn trust(&self, one: &Registration) -> Trust {
        self.ejections.trust(&region(), one, self.now)
    }

    /// One call of any agent: of the one that is to be tried, or else of any that may be called.
    fn call(&mut self, becomes: impl Fn(&Registration, &mut Chance) -> Called) {
        self.now = self.now.plus(PACE);
        self.ejections.tend(&self.views, self.now);
        let query = Query { name: Some(format!("agent-{}", self.chance.below(AGENTS))), ..Query::default() };
        let reach = Reach::default();
        let asked =
            Asked { views: &self.views, query: &query, reach: &reach, age_max: Duration::from_secs(1 << 20) };
        let (now, shown) = (self.now, self.ejections.clone());
        let book = &mut self.ejections;
        let trust = |region: &Region, one: &Registration| match shown.trust(region, one, now) {
            Trust::Probe if book.take_probe(region, one, now) => Trust::Probe,
            Trust::Probe => Trust::Ejected,
            other => other,
        };
        let found: Vec<_> =
            resolve(asked, now, trust).map(|c| (Arc::clone(c.registration), c.is_probe)).collect();
        assert!(!found.is_empty(), "I28: an agent never vanishes");
        let probe = found.iter().find(|(_, is_probe)| *is_probe).cloned();
        let (picked, _) = probe.unwrap_or_else(|| self.chance.pick(&found).clone());
        let called = becomes(&picked, &mut self.chance);
        if called != Succeeded {
            self.failed += 1;
            self.now = self.now.plus(PATIENCE);
        }
        self.report(&picked, called);
    }

    fn call_until(&mut self, until: Instant, becomes: impl Fn(&Registration, &mut Chance) -> Called) {
        while self.now < until {
            self.call(&becomes);
        }
    }

    fn zones(&self) -> Vec<EjectedZone> {
        self.ejections.ejected_zones()
    }
}

fn is_in(one: &Registration, zone: &str) -> bool {
    one.declared.zone.as_ref().is_some_and(|of| of.as_str() == zone)
}

fn well(_: &Registration, _: &mut Chance) -> Called {
    Succeeded
}

#[test]
fn i28_a_zone_that_is_cut_off_costs_each_caller_a_few_calls_and_is_back_with_its_heal() {
    for seed in 0..60 {
        let mut caller = Caller::of_three_zones(seed);
        caller.call_until(at(30), well);
        let cut = |one: &Registration, _: &mut Chance| if is_in(one, "c") { TimedOut } else { Succeeded };
        caller.call_until(at(90), cut);
        // Three are evidence, or four when all of the first three are of one agent; then a probe after 5, 10 and 20 s,
        // a fifth sooner at the least.
        assert!(caller.failed <= 4 + 3, "seed {seed}: {} failed calls", caller.failed);
        assert_eq!(caller.zones().len(), 1, "seed {seed}");
        // The wait that runs is 30 s and a fifth at most; then a call, and another where the probe was lost.
        caller.call_until(at(90 + 36 + 4), well);
        assert_eq!(caller.zones(), [], "seed {seed}: back after the heal");
        assert!(caller.ejections.ejected().is_empty(), "seed {seed}");
    }
}

#[test]
fn i28_a_caller_that_is_itself_cut_off_avoids_all_zones_but_its_own() {
    for seed in 0..60 {
        let mut caller = Caller::of_three_zones(seed);
        caller.call_until(at(30), well);
        let cut = |one: &Registration, _: &mut Chance| if is_in(one, "c") { Succeeded } else { TimedOut };
        caller.call_until(at(90), cut);
        assert_eq!(caller.zones().len(), 2, "seed {seed}: two of three are avoided, whatever their share");
        assert!(caller.failed <= 2 * (4 + 3) + 2, "seed {seed}: {} failed calls", caller.failed);
        caller.call_until(at(90 + 36 + 8), well);
        assert_eq!(caller.zones(), [], "seed {seed}");
    }
}

#[test]
fn i28_calls_that_fail_at_random_eject_no_zone() {
    for seed in 0..20 {
        let mut caller = Caller::of_three_zones(seed);
        for _ in 0..1_500 {
            caller.call(|_, chance| if chance.one_in(10) { Failed } else { Succeeded });
            assert_eq!(caller.zones(), [], "seed {seed}");
        }
    }
}

#[test]
fn i28_where_all_zones_fail_everybody_is_tried_on() {
    let mut caller = Caller::of_three_zones(1);
    caller.call_until(at(30), well);
    // That somebody is always found stands in the call.
    caller.call_until(at(300), |_, _| TimedOut);
    assert!(caller.zones().len() < 3, "the last zone is never ejected: {:?}", caller.zones());
    caller.call_until(at(400), well);
    assert_eq!(caller.zones(), []);
}

#[test]
fn one_agent_that_is_bad_everywhere_says_nothing_of_zones() {
    for seed in 0..20 {
        let mut caller = Caller::of_three_zones(seed);
        for _ in 0..1_000 {
            let bad = |one: &Registration, _: &mut Chance| match one.declared.id.agent() {
                "ops/agent-3" => Failed,
                _ => Succeeded,
            };
            caller.call(bad);
            assert_eq!(caller.zones(), [], "seed {seed}");
        }
    }
}

#[test]
fn one_agent_that_is_bad_in_a_zone_is_avoided_there_and_no_other_is() {
    let fleet: Vec<_> = (0..4).map(|n| one("c", "mail", n)).collect();
    let (elsewhere, other) = (one("a", "mail", 9), one("c", "bill", 9));
    let mut caller = Caller::of(fleet.iter().chain([&elsewhere, &other]).cloned(), 1);
    for bad in &fleet[..3] {
        assert_eq!(caller.report(bad, Failed), Reported::Nothing);
    }
    // It answers elsewhere, and others answer there.
    caller.report(&elsewhere, Succeeded);
    caller.report(&other, Succeeded);
    let Reported::ZoneEjected(ejected) = caller.report(&fleet[3], Failed) else { panic!("not ejected") };
    assert_eq!(ejected.agent.as_deref(), Some("ops/mail"));
    assert_eq!(fleet.iter().map(|one| caller.trust(one)).collect::<Vec<_>>(), [Trust::Ejected; 4]);
    assert_eq!((caller.trust(&other), caller.trust(&elsewhere)), (Trust::Usable, Trust::Usable));
}

#[test]
fn a_success_between_them_or_no_answer_elsewhere_is_no_evidence() {
    let fleet: Vec<_> = (0..6).map(|n| one("c", if n % 2 == 0 { "mail" } else { "bill" }, n)).collect();
    let elsewhere = one("a", "mail", 9);
    let mut caller = Caller::of(fleet.iter().chain([&elsewhere]).cloned(), 1);
    for (place, called) in [(0, Failed), (1, Failed), (2, Succeeded), (3, Failed), (4, Failed)] {
        caller.report(&fleet[place], called);
    }
    caller.report(&elsewhere, Succeeded);
    assert_eq!(caller.zones(), [], "two in a row");
    let mut caller = Caller::of(fleet.iter().chain([&elsewhere]).cloned(), 1);
    fleet.iter().for_each(|one| drop(caller.report(one, TimedOut)));
    assert_eq!(caller.zones(), [], "the caller's own network may be down");
    assert!(matches!(caller.report(&elsewhere, Succeeded), Reported::ZoneEjected(_)), "now it is not");
    assert_eq!(caller.zones().len(), 1);
    assert!(matches!(caller.report(&fleet[0], Succeeded), Reported::ZoneReadmitted(_)));
    assert_eq!(fleet.iter().map(|one| caller.trust(one)).collect::<Vec<_>>(), [Trust::Usable; 6]);
}

#[test]
fn whoever_has_no_zone_is_judged_alone() {
    let fleet: Vec<_> = (0..6).map(|n| one("", if n % 2 == 0 { "mail" } else { "bill" }, n)).collect();
    let elsewhere = one("a", "mail", 9);
    let mut caller = Caller::of(fleet.iter().chain([&elsewhere]).cloned(), 1);
    for one in &fleet {
        assert_eq!(caller.report(one, Failed), Reported::Nothing);
        caller.report(&elsewhere, Succeeded);
    }
    assert_eq!(caller.zones(), []);
}
