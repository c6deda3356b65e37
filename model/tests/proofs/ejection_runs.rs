//! Callers that resolve, call and report, over fleets that fail and heal at random: I28 at every step.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use rollcall_model::resolve::{Asked, Trust, resolve};
use rollcall_model::testing::{Chance, position, registration};
use rollcall_model::{
    Called, EjectionLimits, Ejections, Heard, InstanceId, Instant, Query, Reach, Region, Registration,
    Snapshot, State, Timestamp, View,
};

use crate::cases;

/// One call after the other, so much later each.
const STEP: Duration = Duration::from_millis(50);

struct World {
    chance: Chance,
    now: Instant,
    /// Every instance: is it bad?
    fleet: BTreeMap<(Region, InstanceId), (Registration, bool)>,
    views: Vec<View>,
    revision: u64,
    ejections: Ejections,
    probed: BTreeMap<(Region, InstanceId), Instant>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let mut fleet = BTreeMap::new();
        for region in ["us", "eu"].map(|name| Region::parse(name).unwrap()) {
            for agent in ["ops/mail", "ops/mail-in", "ops/bill"] {
                for n in 0..chance.below(7) {
                    let one = registration(&format!("{agent}/{n}"), 1, 1);
                    fleet.insert((region.clone(), one.declared.id.clone()), (one, false));
                }
            }
        }
        let ejections = Ejections::new(EjectionLimits::default());
        let mut world = Self {
            chance,
            now: Instant::default(),
            fleet,
            views: Vec::new(),
            revision: 1,
            ejections,
            probed: BTreeMap::new(),
        };
        world.show();
        world
    }

    /// The views as the fleet is now.
    fn show(&mut self) {
        self.revision += 1;
        let view = |name: &str| {
            let region = Region::parse(name).unwrap();
            let mut state = State::default();
            let here = self.fleet.iter().filter(|((at, _), _)| *at == region);
            here.for_each(|(_, (one, _))| drop(state.put(Arc::new(one.clone()))));
            let mut view = View::new(region.clone());
            let heard = Heard { at: self.now, age: Duration::ZERO };
            view.install(
                Snapshot::of(region, position(1, self.revision), state),
                Some(heard),
                "started",
                Timestamp(0),
            );
            view
        };
        self.views = vec![view("us"), view("eu")];
        self.ejections.tend(&self.views, self.now);
    }

    /// Something happens to the fleet: instances fail or heal, go, or come back with a new epoch.
    fn disturb(&mut self) {
        let all: Vec<_> = self.fleet.keys().cloned().collect();
        if all.is_empty() {
            return;
        }
        let which = self.chance.pick(&all).clone();
        match self.chance.below(4) {
            0 | 1 => {
                // A region or an agent at once, or one alone.
                let wide = self.chance.below(3);
                let bad = !self.chance.one_in(3);
                for (key, (_, is_bad)) in &mut self.fleet {
                    if *key == which
                        || (wide == 0 && key.0 == which.0)
                        || (wide == 1 && key.1.agent() == which.1.agent())
                    {
                        *is_bad = bad;
                    }
                }
            }
            2 => {
                self.fleet.remove(&which);
                self.show();
            }
            _ => {
                self.revision += 1;
                let anew = registration(which.1.as_str(), self.revision, self.revision);
                assert_eq!(
                    self.ejections.trust(&which.0, &anew, self.now),
                    Trust::Usable,
                    "a new epoch is clean"
                );
                self.fleet.insert(which, (anew, false));
                self.show();
            }
        }
    }

    /// One call by whoever asks for an agent; what became of it.
    fn call(&mut self, agent: &str) -> Option<Called> {
        self.now = self.now.plus(STEP);
        if self.now.0.subsec_millis() == 0 {
            self.ejections.tend(&self.views, self.now);
        }
        let query = Query { name: Some(agent.into()), ..Query::default() };
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
        let candidates: Vec<_> = resolve(asked, now, trust)
            .map(|c| (c.region.clone(), Arc::clone(c.registration), c.is_probe))
            .collect();
        let probe = candidates.iter().find(|(_, _, is_probe)| *is_probe).cloned();
        for (region, one, _) in candidates.iter().filter(|(_, _, is_probe)| *is_probe) {
            let key = (region.clone(), one.declared.id.clone());
            if let Some(before) = self.probed.insert(key, now) {
                assert!(
                    now.since(before) >= Duration::from_secs(3),
                    "I28: two probes of {} at once",
                    one.declared.id
                );
            }
        }
        let picked =
            probe.or_else(|| (!candidates.is_empty()).then(|| self.chance.pick(&candidates).clone()));
        let (region, one, _) = picked?;
        let key = (region.clone(), one.declared.id.clone());
        let called = match self.fleet.get(&key) {
            Some((_, true)) if self.chance.one_in(2) => Called::Failed,
            Some((_, true)) => Called::TimedOut,
            Some((_, false)) | None => Called::Succeeded,
        };
        let fraction = self.chance.fraction();
        self.ejections.report(&self.views, &region, &one, called, now, fraction);
        self.check();
        Some(called)
    }

    /// I28: of no agent more than half is ejected, and who is ejected is there with that epoch.
    fn check(&self) {
        let mut by_agent: BTreeMap<String, usize> = BTreeMap::new();
        for one in self.ejections.ejected() {
            let (registered, _) = self.fleet.get(&(one.region.clone(), one.id.clone())).expect("it is there");
            assert_eq!(registered.epoch, one.epoch, "I28: an old epoch of {} is ejected", one.id);
            *by_agent.entry(one.id.agent().to_owned()).or_default() += 1;
        }
        for (agent, ejected) in by_agent {
            let all = self.fleet.keys().filter(|(_, id)| id.agent() == agent).count();
            assert!(ejected * 2 <= all, "I28: {ejected} of {all} of {agent} are ejected");
        }
    }
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn i28_ejection_is_bounded_probed_by_one_and_heals(seed: u64) {
        let mut world = World::new(seed);
        let agents = ["mail", "mail-in", "bill"];
        for _ in 0..1_500 {
            if world.chance.one_in(60) {
                world.disturb();
                world.check();
            }
            let agent = *world.chance.pick(&agents);
            world.call(agent);
        }
        // All is well again: nobody stays out. The last wait is 36 s; then there is a probe, or, for those of a region
        // that nobody asks, half a minute more.
        world.fleet.values_mut().for_each(|(_, is_bad)| *is_bad = false);
        let healed = world.now;
        while !world.ejections.ejected().is_empty() {
            prop_assert!(world.now.since(healed) < Duration::from_secs(90), "{:?}", world.ejections.ejected());
            for agent in agents {
                world.call(agent);
            }
        }
    }

    /// What ejection is for: with a third of an agent cut off, hardly a call goes there.
    #[test]
    fn callers_of_an_agent_with_a_zone_cut_off_hardly_notice(seed: u64) {
        let mut world = World::new(seed);
        let us = Region::parse("us").unwrap();
        world.fleet.clear();
        for n in 0..12 {
            let one = registration(&format!("ops/mail/{n}"), 1, 1);
            world.fleet.insert((us.clone(), one.declared.id.clone()), (one, n % 3 == 0));
        }
        world.show();
        let bad = |world: &mut World, calls: usize| {
            (0..calls).filter(|_| world.call("mail") != Some(Called::Succeeded)).count()
        };
        // Until all four are ejected; then a probe of each after 4 to 6 s, 8 to 12, 16 to 24, and every 24 to 36.
        let (at_first, then) = (bad(&mut world, 200), bad(&mut world, 2_000));
        prop_assert!(at_first <= 4 * (3 + 2), "{at_first} of the first 200 calls were bad");
        prop_assert!(then <= 4 * 7, "{then} of 2,000 calls were bad");
        prop_assert!(at_first >= 4 && then >= 4, "nothing was cut off");
    }
}
