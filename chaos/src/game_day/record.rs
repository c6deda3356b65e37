//! What a run wrote down; everything that is judged is in here. Data only.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::network::Crossings;
use crate::check::Verdict;
use crate::history::Op;
use crate::origin::Origin;

/// An agent was given an epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// The agent.
    pub id: String,
    /// Its zone.
    pub zone: String,
    /// The epoch.
    pub epoch: u64,
    /// When its owner knew.
    pub at: Duration,
}

/// One second of one zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tick {
    /// The zone.
    pub zone: String,
    /// Its end.
    pub at: Duration,
    /// Agents that hold a registration and had no failure at their last call.
    pub settled: u64,
    /// Renewals that succeeded, since the beginning.
    pub renewals: u64,
    /// Calls to the registry that failed, since the beginning.
    pub failures: u64,
    /// Questions of callers in this second.
    pub resolves: u64,
    /// Those without a candidate.
    pub resolves_empty: u64,
    /// Calls of agents that ended in this second.
    pub calls: u64,
    /// Those that failed.
    pub calls_failed: u64,
}

/// A call of an agent that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// Which caller.
    pub caller: String,
    /// Its zone.
    pub zone: String,
    /// The agent.
    pub target: String,
    /// Its zone.
    pub target_zone: String,
    /// When it was sent.
    pub sent: Duration,
    /// When it had failed.
    pub at: Duration,
    /// Whether somebody answered, who was another or in trouble.
    pub answered: bool,
    /// How.
    pub why: String,
}

/// A question without a candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {
    /// Which caller.
    pub caller: String,
    /// Its zone.
    pub zone: String,
    /// The name that it asked for.
    pub name: String,
    /// When.
    pub at: Duration,
    /// What the SDK said of it: `none`, `view_not_loaded`, `too_old`.
    pub outcome: String,
}

/// What somebody holds of a region at a moment: a cell's process by its own word, or a caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sight {
    /// Who.
    pub holder: String,
    /// Whether it is a cell's process.
    pub cell: bool,
    /// In which zone.
    pub zone: String,
    /// Of which region.
    pub region: String,
    /// When it was asked.
    pub asked: Duration,
    /// When the answer was there: what it says was so at some moment between the two.
    pub at: Duration,
    /// The incarnation's ordinal and the revision; none while nothing is loaded.
    pub position: Option<(u16, u64)>,
    /// How many registrations.
    pub count: u64,
    /// The state's digest.
    pub digest: String,
    /// How old it says it is.
    pub age_ms: u64,
    /// Changes whenever the state is replaced by a whole snapshot.
    pub resync: String,
}

/// What a holder says while it was never told how old its copy is: a day and
/// what passed since, which is no age of anything.
const UNHEARD_MS: u64 = 24 * 3_600 * 1_000;

impl Sight {
    /// Whether there is a state, and its holder knows how old it is.
    #[must_use]
    pub const fn is_heard(&self) -> bool {
        self.position.is_some() && self.age_ms < UNHEARD_MS
    }
}

/// What a cell's process says of the guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardSight {
    /// The cell's region.
    pub region: String,
    /// When.
    pub at: Duration,
    /// Cohorts that hold or settle.
    pub holding: Vec<String>,
    /// Suspects of the region.
    pub suspects: u64,
    /// Whether the metric says the same.
    pub alerted: bool,
}

/// Something that was done to the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// In words.
    pub what: String,
    /// The zones that it shuts off, or none.
    pub zones: Vec<String>,
    /// The programs that it ends or freezes, or none.
    pub programs: Vec<String>,
    /// When it was done: from then on it works.
    pub at: Duration,
    /// When taking it back began: until then it works. None when it was never taken back.
    pub until: Option<Duration>,
    /// Whether it was seen to work: packets were dropped, a process was gone.
    pub landed: bool,
}

/// What stood in a region's store, and what its readers saw of it.
#[derive(Debug)]
pub struct Told {
    /// The region.
    pub region: String,
    /// What the tap saw, worked out.
    pub origin: Origin,
    /// The promises that always hold, judged.
    pub verdicts: Vec<Verdict>,
}

/// Everything.
#[derive(Debug, Default)]
pub struct Record {
    /// Faults in order.
    pub faults: Vec<Fault>,
    /// Zones whose agents were killed, and when.
    pub died: Vec<(String, Duration)>,
    /// Epochs in order of their arrival here.
    pub granted: Vec<Granted>,
    /// Seconds of zones.
    pub ticks: Vec<Tick>,
    /// Failed calls.
    pub failed: Vec<Failed>,
    /// Questions without a candidate.
    pub empty: Vec<Empty>,
    /// What was held.
    pub sights: Vec<Sight>,
    /// What was said of the guard.
    pub guards: Vec<GuardSight>,
    /// What writers asked and were told.
    pub ops: Vec<Op>,
    /// What happened, in words.
    pub diary: Vec<(Duration, String)>,
    /// Regions' stores.
    pub regions: Vec<Told>,
    /// When everything stood and the steps began; what was before is no matter of theirs.
    pub began: Duration,
    /// When the last step was done.
    pub last_step: Duration,
    /// When everything was as before, after the last step; none when it never was.
    pub recovered: Option<Duration>,
    /// The end of the traffic.
    pub ended: Duration,
    /// What went from one region to another; nothing where there is one region.
    pub crossings: Option<Crossings>,
    /// How late the run itself was woken at worst: by so much it may have seen things later than they were.
    pub late: Duration,
    /// What went wrong with the run itself.
    pub mishaps: Vec<String>,
}

impl Fault {
    /// Whether it keeps these two zones from each other; zones that are cut off together stay joined.
    #[must_use]
    pub fn parts(&self, zone: &str, other: &str) -> bool {
        let cut = |name: &str| self.zones.iter().any(|zone| zone == name);
        cut(zone) != cut(other)
    }
}

impl Record {
    /// Whether a cut kept these two zones from each other at any moment from `from` to `until`.
    #[must_use]
    pub fn were_apart(&self, zone: &str, other: &str, from: Duration, until: Duration) -> bool {
        let within = |fault: &&Fault| fault.at <= until && fault.until.unwrap_or(self.ended) >= from;
        self.faults.iter().filter(within).any(|fault| fault.parts(zone, other))
    }

    /// When the first fault began; the end where there was none.
    #[must_use]
    pub fn first_fault(&self) -> Duration {
        self.faults.iter().map(|fault| fault.at).min().unwrap_or(self.ended)
    }

    /// When the last fault was over.
    #[must_use]
    pub fn last_fault(&self) -> Duration {
        self.faults.iter().map(|fault| fault.until.unwrap_or(self.ended)).max().unwrap_or(self.ended)
    }

    /// When the agents of a zone were killed, if they were.
    #[must_use]
    pub fn death(&self, zone: &str) -> Option<Duration> {
        self.died.iter().find(|(died, _)| died == zone).map(|(_, at)| *at)
    }

    /// The agents of the fleet that living owners hold, by a writer's word never.
    #[must_use]
    pub fn is_of_fleet(id: &str) -> bool {
        id.starts_with(FLEET)
    }
}

/// Namespace of the fleet's agents.
pub const FLEET: &str = "fleet/";
