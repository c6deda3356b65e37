//! Whether what was read can be played. Pure.
//!
//! Promises that every zone, region and process that a step or a promise names exists, and that steps come in order; what
//! is wrong is said as a sentence.

use std::collections::BTreeSet;

use super::{Act, Demand, Scenario, Zone};

/// Most zones: one byte of an address, and far more than two cores can play.
const ZONES_MAX: usize = 12;
/// Longest scenario: a game day is watched by people.
const LAST_STEP_S: u64 = 3_600;

impl Scenario {
    pub(super) fn check(&self) -> Result<(), String> {
        let names: BTreeSet<&str> = self.zones.iter().map(|zone| zone.name.as_str()).collect();
        if names.len() != self.zones.len() || self.zones.is_empty() || self.zones.len() > ZONES_MAX {
            return Err(format!("1 to {ZONES_MAX} zones, each with a name of its own"));
        }
        if let Some(bad) = names.iter().find(|name| name.is_empty() || name.len() > 6) {
            return Err(format!(
                "zone {bad:?}: a name has 1 to 6 letters, because it becomes an interface's"
            ));
        }
        for region in self.regions() {
            let of = || self.zones.iter().filter(|zone| zone.region == region);
            if of().all(|zone| zone.stores == 0) || !of().any(|zone| zone.cell) {
                return Err(format!("region {region}: it needs a store and a process of the cell"));
            }
            let count = |is_there: fn(&Zone) -> bool| of().filter(|zone| is_there(zone)).count();
            let replicators = usize::from(self.regions().len() > 1);
            if count(|zone| zone.replicator) != replicators || count(|zone| zone.broker) > 1 {
                return Err(format!("region {region}: {replicators} replicators, and one broker at most"));
            }
        }
        if self.regions().len() > 1 && !self.zones.iter().any(|zone| zone.broker) {
            return Err("regions are joined by a broker".to_owned());
        }
        let mut last = 0;
        for step in &self.steps {
            if step.at_s < last || step.at_s > LAST_STEP_S {
                return Err(format!("step at {} s: steps come in order, within an hour", step.at_s));
            }
            last = step.at_s;
            let known = match &step.act {
                Act::Cut { zones } | Act::Flap { zones, .. } | Act::KillAgents { zones } => self.know(zones),
                Act::Part { zones, from } => self.know(zones).and_then(|()| self.know(from)),
                Act::Kill { programs }
                | Act::Start { programs }
                | Act::Freeze { programs }
                | Act::Thaw { programs } => self.know_programs(programs),
                Act::RemoveTopics { region } | Act::Quicken { region } => self.know_region(region),
                Act::Slow { loss_percent: 51.., .. } => {
                    Err("more than 50 % of loss is a cut: a connection does not live through it".to_owned())
                }
                Act::Slow { region, .. } => self.know_region(region).and_then(|()| self.can_be_far(region)),
                Act::Heal => Ok(()),
            };
            known.map_err(|why| format!("step at {} s: {why}", step.at_s))?;
        }
        for promise in &self.promises {
            let known = match &promise.that {
                Demand::LastCopy { zones, region } | Demand::Ages { zones, region, .. } => {
                    self.know(zones).and_then(|()| self.know_region(region))
                }
                Demand::TheDeadGo { zones, .. }
                | Demand::WritesGoOn { zones, .. }
                | Demand::WritesStop { zones }
                | Demand::WritesSucceed { zones }
                | Demand::ResolvesGoOn { zones }
                | Demand::CallsGoOn { zones, .. } => self.know(zones),
                Demand::HealthyRemovals { .. }
                | Demand::Reregistrations { .. }
                | Demand::GuardHolds { .. }
                | Demand::GuardStaysCalm
                | Demand::Resyncs { .. }
                | Demand::Recovers { .. } => Ok(()),
            };
            known.map_err(|why| format!("promise {}: {why}", promise.id))?;
        }
        Ok(())
    }

    fn know(&self, zones: &[String]) -> Result<(), String> {
        match zones.iter().find(|name| !self.zones.iter().any(|zone| zone.name == **name)) {
            Some(zone) => Err(format!("there is no zone {zone:?}")),
            None if zones.is_empty() => Err("no zones are named".to_owned()),
            None => Ok(()),
        }
    }

    fn know_region(&self, region: &str) -> Result<(), String> {
        match self.regions().contains(&region) {
            true => Ok(()),
            false => Err(format!("there is no region {region:?}")),
        }
    }

    /// The long way leads past the bridge, so that a cut would not cut it.
    fn can_be_far(&self, region: &str) -> Result<(), String> {
        if !self.zones.iter().any(|zone| zone.region == region && zone.broker) {
            return Err(format!("region {region:?} has no broker of its own, which a way could lead from"));
        }
        match self.steps.iter().any(|step| matches!(step.act, Act::Cut { .. } | Act::Flap { .. })) {
            true => Err("a scenario has slow ways or cuts, not both".to_owned()),
            false => Ok(()),
        }
    }

    fn know_programs(&self, programs: &[String]) -> Result<(), String> {
        let all: Vec<String> = self.zones.iter().flat_map(Zone::programs).collect();
        match programs.iter().find(|name| !all.contains(name)) {
            Some(program) => Err(format!("there is no program {program:?}, but {}", all.join(", "))),
            None if programs.is_empty() => Err("no programs are named".to_owned()),
            None => Ok(()),
        }
    }
}
