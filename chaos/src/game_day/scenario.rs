//! A game day as data: zones, traffic, steps and promises, read from `chaos/scenarios/<name>.toml`. Pure.
//!
//! Promises that what was read can be played: every zone and process that a step or a promise names exists, and steps
//! come in order. An unknown key is an error. Never here: a process, or a judgement.

mod check;

use serde::Deserialize;

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
    /// Whether writers also say something under an epoch that they have replaced, which must be refused.
    #[serde(default)]
    pub stale_words: bool,
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
    #[serde(default)]
    pub stores: u16,
    /// Whether a process of the cell runs here.
    #[serde(default)]
    pub cell: bool,
    /// Whether the region's Kafka broker runs here. Regions without one share the first that there is.
    #[serde(default)]
    pub broker: bool,
    /// Whether the region's replicator runs here.
    #[serde(default)]
    pub replicator: bool,
    /// Agents.
    #[serde(default)]
    pub instances: u32,
    /// Callers.
    #[serde(default)]
    pub callers: u32,
    /// Writers: each registers, changes and deregisters instances of its own, one after another.
    #[serde(default)]
    pub writers: u32,
}

impl Zone {
    /// The names of the programs in it: `store-a1`, `cell-a`, `broker-a`, `replicator-a`.
    #[must_use]
    pub fn programs(&self) -> Vec<String> {
        let name = &self.name;
        let mut programs: Vec<String> = (1..=self.stores).map(|n| format!("store-{name}{n}")).collect();
        for (is_there, what) in
            [(self.cell, "cell"), (self.broker, "broker"), (self.replicator, "replicator")]
        {
            if is_there {
                programs.push(format!("{what}-{name}"));
            }
        }
        programs
    }
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
    /// Cuts these zones and those off from each other, both ways; others reach both.
    Part {
        /// These.
        zones: Vec<String>,
        /// Those.
        from: Vec<String>,
    },
    /// Joins all zones again.
    Heal,
    /// Cuts these zones off and heals, again and again, and leaves them healed.
    Flap {
        /// The zones.
        zones: Vec<String>,
        /// Seconds cut off.
        off_s: u64,
        /// Seconds joined.
        on_s: u64,
        /// How often.
        times: u64,
    },
    /// Ends programs by SIGKILL.
    Kill {
        /// The programs.
        programs: Vec<String>,
    },
    /// Starts again what was killed.
    Start {
        /// The programs.
        programs: Vec<String>,
    },
    /// Freezes programs.
    Freeze {
        /// The programs.
        programs: Vec<String>,
    },
    /// Makes the way from a region's broker to the other regions long.
    Slow {
        /// The region.
        region: String,
        /// From one end to the other.
        delay_ms: u64,
        /// Bytes a second on each connection; left out, as fast as the machine.
        bytes_per_second: Option<u32>,
        /// Of a hundred packets in each direction so many are lost, and sent again by their connection's ends.
        #[serde(default)]
        loss_percent: u8,
    },
    /// Makes that way short again.
    Quicken {
        /// The region.
        region: String,
    },
    /// Lets go on what was frozen.
    Thaw {
        /// The programs.
        programs: Vec<String>,
    },
    /// Ends the agents, callers and writers of these zones by SIGKILL; their addresses stay, so that their ports refuse.
    KillAgents {
        /// The zones.
        zones: Vec<String>,
    },
    /// Removes a region's topics from its broker.
    RemoveTopics {
        /// The region.
        region: String,
    },
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
    /// All agents of these zones, which were killed, are removed as expired.
    TheDeadGo {
        /// The zones.
        zones: Vec<String>,
        /// Seconds from their death to the last removal.
        within_s: u64,
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
    /// Every write of these zones that is sent while there is a fault is acknowledged.
    WritesSucceed {
        /// The zones.
        zones: Vec<String>,
    },
    /// Callers of these zones always find candidates.
    ResolvesGoOn {
        /// The zones.
        zones: Vec<String>,
    },
    /// Cells and callers of these zones keep what they knew of a region while there is a fault, and say how old it is.
    LastCopy {
        /// The zones.
        zones: Vec<String>,
        /// The region.
        region: String,
    },
    /// What cells of these zones hold of a region is never older than this, from the first step on.
    Ages {
        /// The zones.
        zones: Vec<String>,
        /// The region.
        region: String,
        /// Until so many seconds after the traffic began.
        until_s: u64,
        /// The age that none says more than.
        most_ms: u64,
    },
    /// Callers of these zones go on with the agents that they reach; calls of agents of other regions do not count.
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

    /// Whether the way from a region's broker to others is ever long.
    #[must_use]
    pub fn is_far(&self, region: &str) -> bool {
        self.steps.iter().any(|step| matches!(&step.act, Act::Slow { region: slow, .. } if slow == region))
    }

    /// What is done when, in order; a flap is many cuts and heals.
    #[must_use]
    pub fn moments(&self) -> Vec<(u64, Act)> {
        let mut moments = Vec::new();
        for step in &self.steps {
            match &step.act {
                Act::Flap { zones, off_s, on_s, times } => {
                    for n in 0..*times {
                        let at = step.at_s + n * (off_s + on_s);
                        moments.push((at, Act::Cut { zones: zones.clone() }));
                        moments.push((at + off_s, Act::Heal));
                    }
                }
                act => moments.push((step.at_s, act.clone())),
            }
        }
        moments.sort_by_key(|(at, _)| *at);
        moments
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
promise = [{ id = "x", that = { is = "last-copy", zones = ["a"], region = "r" } }]
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
    fn a_flap_is_cuts_and_heals_in_turn() {
        let flap = r#"do = "flap", zones = ["a"], off_s = 2, on_s = 3, times = 2"#;
        let scenario = Scenario::parse("x", &SMALL.replace(r#"do = "cut", zones = ["a"]"#, flap)).unwrap();
        let cut = || Act::Cut { zones: vec!["a".to_owned()] };
        assert_eq!(scenario.moments(), [(1, cut()), (3, Act::Heal), (6, cut()), (8, Act::Heal)]);
    }

    #[test]
    fn what_names_a_zone_that_is_not_there_is_refused() {
        Scenario::parse("x", SMALL).unwrap();
        for (from, to) in [
            (r#"do = "cut", zones = ["a"]"#, r#"do = "cut", zones = ["b"]"#),
            (r#"is = "last-copy", zones = ["a"]"#, r#"is = "last-copy", zones = ["b"]"#),
            (r#"region = "r" } }]"#, r#"region = "s" } }]"#),
            (r#"do = "cut", zones = ["a"]"#, r#"do = "kill", programs = ["cell-b"]"#),
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
