//! What a run is judged by, as pure functions over what was written down.
//!
//! [`always`] holds under any fault; `demanded` is what the scenario demands. A demand that had nothing to look at is
//! broken: it proved nothing. Never here: time of its own, or I/O.

mod copies;
mod counts;
#[cfg(test)]
mod planted;
mod traffic;

use std::collections::BTreeMap;

pub use copies::replaced;
pub use counts::{Removals, epochs_changed, held, registered_again, removals};

use super::record::{Record, Sight};
use super::scenario::{Demand, Scenario};
use crate::check::{self, Rules, Verdict};
use crate::digests::Digests;
use crate::history::Op;
use crate::origin::Origin;
use crate::readers::{self, Look};

/// One promise, judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// Its ids.
    pub id: String,
    /// How many cases were looked at.
    pub checked: usize,
    /// What was broken; empty when it held.
    pub broken: Vec<String>,
    /// What was demanded, and what was seen, in a sentence.
    pub detail: String,
}

/// The promises that hold under any fault, for one region.
#[must_use]
pub fn always(
    scenario: &Scenario,
    record: &Record,
    region: &str,
    origin: &Origin,
    digests: &Digests,
    looks: &[Look],
    rules: &Rules,
) -> Vec<Verdict> {
    let zones: Vec<String> = scenario
        .zones
        .iter()
        .filter(|zone| zone.region == region)
        .map(|zone| format!("writer/{}-", zone.name))
        .collect();
    let of_region = |op: &&Op| zones.iter().any(|zone| op.id.starts_with(zone));
    let ops: Vec<Op> = record.ops.iter().filter(of_region).cloned().collect();
    let mut verdicts = check::all(origin, &ops, rules);
    if !record.died.is_empty() {
        // What is known to be dead is not what the bound is for.
        verdicts.retain(|verdict| verdict.ids != "I07");
        verdicts.push(check::bound(&counts::without_the_dead(record, origin), rules));
    }
    verdicts.push(readers::true_states(origin, looks));
    let sights: Vec<&Sight> = record.sights.iter().filter(|sight| sight.region == region).collect();
    verdicts.push(copies::hashes(digests, &sights));
    verdicts.push(copies::never_back(&sights));
    verdicts.push(copies::converged(digests, &sights));
    verdicts
}

/// Everything judged: what always holds, what the scenario demands, and that the run was no idle one.
#[must_use]
pub fn all(scenario: &Scenario, record: &Record) -> Vec<Judged> {
    let mut all: Vec<Judged> = scenario
        .promises
        .iter()
        .map(|promise| demanded(scenario, record, &promise.id, &promise.that))
        .collect();
    all.push(traffic::busy(scenario, record));
    all.push(counts::landed(record));
    all.extend(counts::crossings(record));
    let mut joined: BTreeMap<&str, Judged> = BTreeMap::new();
    let mut order = Vec::new();
    for verdict in record.regions.iter().flat_map(|region| &region.verdicts) {
        let judged = joined.entry(verdict.ids).or_insert_with(|| {
            order.push(verdict.ids);
            Judged { id: verdict.ids.to_owned(), checked: 0, broken: Vec::new(), detail: String::new() }
        });
        judged.checked += verdict.checked;
        judged.broken.extend(verdict.broken.iter().cloned());
    }
    for ids in order {
        if let Some(mut judged) = joined.remove(ids) {
            let seen = if judged.checked == 0 { "; nothing of its kind happened" } else { "" };
            judged.detail = format!("{}{seen}", meaning(ids));
            all.push(judged);
        }
    }
    let mishaps = Judged {
        id: "run".to_owned(),
        checked: 1,
        broken: record.mishaps.clone(),
        detail: "taps of all members agree, and every line was read".to_owned(),
    };
    all.push(mishaps);
    all
}

/// What the promises that always hold say, for people.
fn meaning(ids: &str) -> &'static str {
    match ids {
        "I01 I15" => "what was acknowledged stands in the store, and what was refused does not",
        "I02 I03" => "epochs of an instance rise and none is given twice",
        "I04" => "writes of an instance are as if done one after another",
        "I05" => "nothing expires within a lease of its last acknowledged renewal",
        "I07" => "no more of a region or zone expires within a lease than the guard allows",
        "I09" => "a new keeper removes nothing within a lease",
        "I10" => "only the keeper in office removes and beats",
        "I11" => "what was deregistered stays so",
        "I13" => "every change is whole at its revision, with a reason for each removal",
        "I17 I18 I20" => {
            "what a cell lists at a revision is what stood then, and what it calls current never goes back"
        }
        "I18 I30" => "what cells and callers hold has the digest of what stood in the store at that revision",
        "I17 I31" => "no holder's position goes back",
        "I35 F32" => "a topic holds its own region's history, and each step of it once",
        "I30 I33 I34" => {
            "a topic has no hole, and is the store's state at every bookmark and in every snapshot"
        }
        "I32" => "at the end every cell holds the digest of what stands in the store",
        _ => "as docs/guarantees.md says",
    }
}

fn demanded(scenario: &Scenario, record: &Record, id: &str, demand: &Demand) -> Judged {
    let (verdict, detail) = match demand {
        Demand::HealthyRemovals { least, most } => counts::healthy_removals(record, *least, *most),
        Demand::TheDeadGo { zones, within_s } => counts::the_dead_go(record, zones, *within_s),
        Demand::Reregistrations { least, most } => counts::reregistrations(record, *least, *most),
        Demand::GuardHolds { within_s } => counts::guard_holds(record, *within_s),
        Demand::GuardStaysCalm => counts::guard_stays_calm(record),
        Demand::Resyncs { most } => copies::resyncs(record, *most),
        Demand::Recovers { within_s } => counts::recovers(record, *within_s),
        Demand::LastCopy { zones, region } => copies::last_copy(record, zones, region),
        Demand::Ages { zones, region, until_s, most_ms } => {
            copies::ages(record, zones, region, *until_s, *most_ms)
        }
        Demand::WritesGoOn { zones, gap_s } => traffic::writes_go_on(record, zones, *gap_s),
        Demand::WritesSucceed { zones } => traffic::writes_succeed(record, zones),
        Demand::WritesStop { zones } => traffic::writes_stop(record, zones),
        Demand::ResolvesGoOn { zones } => traffic::resolves_go_on(record, zones),
        Demand::CallsGoOn { zones, failures_most, quiet_after_s } => {
            traffic::calls_go_on(scenario, record, zones, *failures_most, *quiet_after_s)
        }
    };
    let Verdict { checked, mut broken, .. } = verdict;
    if checked == 0 {
        broken.push("there was nothing to look at".to_owned());
    }
    Judged { id: id.to_owned(), checked, broken, detail }
}
