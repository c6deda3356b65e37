//! A game day as data: zones, traffic, steps and promises, read from `chaos/scenarios/<name>.toml`. Pure.
//!
//! Promises that what was read can be played: every zone and process that a step or a promise names exists, and steps
//! come in order. An unknown key is an error. Never here: a process, or a judgement.

use std::collections::BTreeSet;

use serde::Deserialize;

/// Most zones: one byte of an address, and far more than two cores can play.
const ZONES_MAX: usize = 12;
/// Longest scenario: a game day is watched by people.
const LAST_STEP_S: u64 = 3_600;

/// One game day.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The file's name without its ending.
    #[serde(skip)]
    pub name: String,
    /// What it shows, in a sentence.
    pub shows: String,
    /// The scenarios and faults that it plays, by their ids.
    pub proves: Vec<String>,
    /// How long the traffic goes on after the last step when everything has recovered.
    pub calm_s: u64,
    /// How long recovery may take after the last step before the run ends without it.
    pub recovery_within_s: u64,
    /// The guard's settings, in all cells.
    #[serde(default)]
    pub guard: Guard,
    /// The agents.
    pub fleet: Fleet,
    /// What callers and writers do.
    pub traffic: Traffic,
    /// Where things are.
    #[serde(rename = "zone")]
    pub zones: Vec<Zone>,
    /// What happens.
    #[serde(rename = "step")]
    pub steps: Vec<Step>,
    /// What must hold beside the promises that always must.
    #[serde(rename = "promise")]
    pub promises: Vec<Promise>,
}

/// The guard's settings.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guard {
    /// The share that may be silent; 1 turns the guard off.
    pub fraction: f64,
    /// So many may always be silent.
    pub floor: usize,
}

impl Default for Guard {
    fn default() -> Self {
        Self { fraction: 0.15, floor: 1 }
    }
}

/// The agents.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fleet {
    /// Their leases.
    pub lease_s: u64,
    /// How many names they share: instances of one name stand in all zones.
    pub names: u32,
}

/// What callers and writers do.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// Between two calls of one caller.
    pub call_every_ms: u64,
    /// Between two writes of one writer.
    pub write_every_ms: u64,
}

/// One failure domain, which becomes a network namespace.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// Its name, unique over all regions.
    pub name: String,
    /// The region it belongs to.
    pub region: String,
    /// Members of the region's etcd.
    pub stores: u16,
    /// Whether a process of the cell runs here.
    pub cell: bool,
    /// Agents.
    pub instances: u32,
    /// Callers.
    pub callers: u32,
    /// Writers: each registers, changes and deregisters instances of its own, one after another.
    pub writers: u32,
}

/// Something that is done at a moment.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Seconds since the traffic flows.
    pub at_s: u64,
    /// What.
    pub act: Act,
}

/// What can be done.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Act {
    /// Cuts these zones off from all others, both ways; among themselves they stay joined.
    Cut {
        /// The zones.
        zones: Vec<String>,
    },
    /// Joins all zones again.
    Heal,
}

/// A promise of this scenario.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Promise {
    /// The scenario, fault or promise that it belongs to.
    pub id: String,
    /// What must hold.
    pub that: Demand,
}

/// What can be demanded of a run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Demand {
    /// So many living agents were removed.
    HealthyRemovals {
        /// At least.
        least: usize,
        /// At most.
        most: usize,
    },
    /// So many agents registered a second time, and hold another epoch than before.
    Reregistrations {
        /// At least.
        least: usize,
        /// At most.
        most: usize,
    },
    /// The guard begins to hold within so long after the first fault, says so in its metric, and is calm at the end.
    GuardHolds {
        /// Seconds.
        within_s: u64,
    },
    /// The guard never holds.
    GuardStaysCalm,
    /// Writers of these zones are acknowledged all the time.
    WritesGoOn {
        /// The zones.
        zones: Vec<String>,
        /// The longest time without an acknowledged write.
        gap_s: u64,
    },
    /// Nothing is acknowledged to writers of these zones while they are cut off.
    WritesStop {
        /// The zones.
        zones: Vec<String>,
    },
    /// Callers of these zones always find candidates.
    ResolvesGoOn {
        /// The zones.
        zones: Vec<String>,
    },
    /// Cells and callers of these zones keep what they knew while they are cut off, and say how old it is.
    LastCopy {
        /// The zones.
        zones: Vec<String>,
    },
    /// Callers of these zones go on with the agents that they reach.
    CallsGoOn {
        /// The zones.
        zones: Vec<String>,
        /// Failed calls of one caller while there is a fault.
        failures_most: usize,
        /// So long after a fault began, or ended, no call fails any more.
        quiet_after_s: u64,
    },
    /// Copies are replaced by whole snapshots so often at most, the first loads not counted.
    Resyncs {
        /// At most.
        most: usize,
    },
    /// Everything is as before so soon after the last step.
    Recovers {
        /// Seconds.
        within_s: u64,
    },
}

impl Scenario {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence that says where.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut scenario: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        name.clone_into(&mut scenario.name);
        scenario.check()?;
        Ok(scenario)
    }

    fn check(&self) -> Result<(), String> {
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
        }
        let known = |zones: &[String]| match zones.iter().find(|zone| !names.contains(zone.as_str())) {
            Some(zone) => Err(format!("there is no zone {zone:?}")),
            None if zones.is_empty() => Err("no zones are named".to_owned()),
            None => Ok(()),
        };
        let mut last = 0;
        for step in &self.steps {
            if step.at_s < last || step.at_s > LAST_STEP_S {
                return Err(format!("step at {} s: steps come in order, within an hour", step.at_s));
            }
            last = step.at_s;
            if let Act::Cut { zones } = &step.act {
                known(zones).map_err(|why| format!("step at {} s: {why}", step.at_s))?;
            }
        }
        for promise in &self.promises {
            match &promise.that {
                Demand::WritesGoOn { zones, .. }
                | Demand::WritesStop { zones }
                | Demand::ResolvesGoOn { zones }
                | Demand::LastCopy { zones }
                | Demand::CallsGoOn { zones, .. } => {
                    known(zones).map_err(|why| format!("promise {}: {why}", promise.id))?;
                }
                Demand::HealthyRemovals { .. }
                | Demand::Reregistrations { .. }
                | Demand::GuardHolds { .. }
                | Demand::GuardStaysCalm
                | Demand::Resyncs { .. }
                | Demand::Recovers { .. } => {}
            }
        }
        Ok(())
    }

    /// The regions in the order in which their zones stand.
    #[must_use]
    pub fn regions(&self) -> Vec<&str> {
        let mut regions: Vec<&str> = Vec::new();
        for zone in &self.zones {
            if !regions.contains(&zone.region.as_str()) {
                regions.push(&zone.region);
            }
        }
        regions
    }

    /// How many agents there are.
    #[must_use]
    pub fn instances(&self) -> usize {
        self.zones.iter().map(|zone| zone.instances as usize).sum()
    }

    /// How many agents a region has.
    #[must_use]
    pub fn instances_of(&self, region: &str) -> usize {
        let of = self.zones.iter().filter(|zone| zone.region == region);
        of.map(|zone| zone.instances as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
shows = "x"
proves = []
calm_s = 1
recovery_within_s = 1
fleet = { lease_s = 5, names = 1 }
traffic = { call_every_ms = 1, write_every_ms = 1 }
zone = [{ name = "a", region = "r", stores = 1, cell = true, instances = 1, callers = 1, writers = 1 }]
step = [{ at_s = 1, act = { do = "cut", zones = ["a"] } }]
promise = [{ id = "x", that = { is = "last-copy", zones = ["a"] } }]
"#;

    #[test]
    fn every_scenario_that_is_shipped_can_be_played() {
        let names = crate::game_day::names();
        assert!(names.contains(&"zone-partition".to_owned()), "{names:?}");
        for name in names {
            crate::game_day::read(&name).unwrap();
        }
    }

    #[test]
    fn what_names_a_zone_that_is_not_there_is_refused() {
        Scenario::parse("x", SMALL).unwrap();
        for (from, to) in [
            (r#"do = "cut", zones = ["a"]"#, r#"do = "cut", zones = ["b"]"#),
            (r#"is = "last-copy", zones = ["a"]"#, r#"is = "last-copy", zones = ["b"]"#),
            (r#"name = "a""#, r#"name = "a-long-name""#),
            ("cell = true", "cell = false"),
            ("calm_s = 1", "calm = 1"),
        ] {
            let text = SMALL.replace(from, to);
            assert_ne!(text, SMALL, "{from}");
            assert!(Scenario::parse("x", &text).is_err(), "{to} was taken");
        }
    }
}
