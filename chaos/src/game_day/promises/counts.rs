//! Removals, registrations, the guard, recovery: what is counted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rollcall_model::RemovalReason;

use crate::check::Verdict;
use crate::game_day::network::Crossings;
use crate::game_day::promises::Judged;
use crate::game_day::record::Record;
use crate::origin::{Ending, Origin};

type Found = (Verdict, String);

/// Removals that nobody asked for: of agents whose owners live, and of what was left to lapse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removals {
    /// Of agents whose owners live.
    pub healthy: usize,
    /// Of others.
    pub dead: usize,
}

/// Counts them.
#[must_use]
pub fn removals(record: &Record) -> Removals {
    let mut removals = Removals::default();
    for standing in record.regions.iter().flat_map(|region| &region.origin.standings) {
        match &standing.until {
            Some((
                _,
                Ending::Removed { reason: RemovalReason::Deregistered | RemovalReason::Replaced, .. },
            ))
            | Some((_, Ending::Replaced | Ending::Restored))
            | None => {}
            Some((moment, Ending::Removed { .. } | Ending::Unexplained)) => {
                let is_dead = record.death(&standing.zone).is_some_and(|at| at <= moment.at);
                if Record::is_of_fleet(&standing.id) && !is_dead {
                    removals.healthy += 1;
                } else {
                    removals.dead += 1;
                }
            }
        }
    }
    removals
}

pub(super) fn healthy_removals(record: &Record, least: usize, most: usize) -> Found {
    let mut verdict = Verdict::default();
    let healthy = removals(record).healthy;
    verdict.judge((least..=most).contains(&healthy), || format!("{healthy} were removed"));
    (verdict, format!("{healthy} agents whose owners live were removed; {} demanded", range(least, most)))
}

/// The history in which agents that were killed are registered all the time: what is left of expiries is of others.
pub(super) fn without_the_dead(record: &Record, origin: &Origin) -> Origin {
    let mut origin = origin.clone();
    for standing in &mut origin.standings {
        let at = standing.until.as_ref().map(|(moment, _)| moment.at);
        let is_dead = record.death(&standing.zone).is_some_and(|death| at.is_some_and(|at| at >= death));
        if is_dead && Record::is_of_fleet(&standing.id) {
            standing.until = None;
        }
    }
    origin
}

pub(super) fn the_dead_go(record: &Record, zones: &[String], within_s: u64) -> Found {
    let mut verdict = Verdict::default();
    let mut last = Duration::ZERO;
    let mut first = Duration::MAX;
    for standing in record.regions.iter().flat_map(|region| &region.origin.standings) {
        let death = record.death(&standing.zone).filter(|_| zones.contains(&standing.zone));
        let Some(death) = death.filter(|_| Record::is_of_fleet(&standing.id)) else { continue };
        let went = match &standing.until {
            Some((moment, Ending::Removed { reason: RemovalReason::Expired, .. })) if moment.at >= death => {
                Some(moment.at - death)
            }
            _ => None,
        };
        verdict.judge(went.is_some_and(|went| went.as_secs() < within_s), || match went {
            Some(went) => format!("{} went {:.1} s after its death", standing.id, went.as_secs_f64()),
            None => format!("{} did not expire: {:?}", standing.id, standing.until),
        });
        last = last.max(went.unwrap_or_default());
        first = first.min(went.unwrap_or(Duration::MAX));
    }
    let words = format!(
        "{} died; the first went {:.1} s after its death and the last {:.1} s; within {within_s} s demanded",
        verdict.checked,
        if verdict.checked == 0 { 0.0 } else { first.as_secs_f64() },
        last.as_secs_f64()
    );
    (verdict, words)
}

/// Registrations beyond the first of each agent.
#[must_use]
pub fn registered_again(record: &Record) -> usize {
    let ids: BTreeSet<&str> = record.granted.iter().map(|granted| granted.id.as_str()).collect();
    record.granted.len() - ids.len()
}

/// Agents that hold another epoch at the end than when the first fault came.
#[must_use]
pub fn epochs_changed(record: &Record) -> usize {
    let first = record.first_fault();
    let mut before: BTreeMap<&str, u64> = BTreeMap::new();
    let mut after: BTreeMap<&str, u64> = BTreeMap::new();
    for granted in &record.granted {
        if granted.at <= first {
            before.insert(&granted.id, granted.epoch);
        }
        after.insert(&granted.id, granted.epoch);
    }
    before.iter().filter(|(id, epoch)| after.get(*id) != Some(epoch)).count()
}

pub(super) fn reregistrations(record: &Record, least: usize, most: usize) -> Found {
    let mut verdict = Verdict::default();
    let (again, changed) = (registered_again(record), epochs_changed(record));
    verdict.judge((least..=most).contains(&again), || format!("{again} registered again"));
    verdict.judge((least..=most).contains(&changed), || format!("{changed} hold another epoch than before"));
    let registered = record.granted.len() - again;
    if registered == 0 {
        verdict.checked = 0;
    }
    let demanded = range(least, most);
    (
        verdict,
        format!(
            "of {registered} agents {again} registered again and {changed} hold another epoch; {demanded} demanded"
        ),
    )
}

/// When the guard was first seen to hold, when last, and which cohorts it held.
#[must_use]
pub fn held(record: &Record) -> Option<(Duration, Duration, Vec<String>)> {
    let mut holding = record.guards.iter().filter(|guard| !guard.holding.is_empty());
    let first = holding.next()?;
    let last = holding.next_back().unwrap_or(first);
    let cohorts: BTreeSet<&String> = record.guards.iter().flat_map(|guard| &guard.holding).collect();
    Some((first.at, last.at, cohorts.into_iter().cloned().collect()))
}

pub(super) fn guard_holds(record: &Record, within_s: u64) -> Found {
    let mut verdict = Verdict::default();
    let Some((from, until, cohorts)) = held(record) else {
        verdict.judge(false, || "it never held".to_owned());
        return (verdict, format!("the guard never held; within {within_s} s demanded"));
    };
    let took = from.saturating_sub(record.first_fault());
    verdict
        .judge(took.as_secs() <= within_s, || format!("it held {:.1} s after the fault", took.as_secs_f64()));
    let alerted = record.guards.iter().any(|guard| !guard.holding.is_empty() && guard.alerted);
    verdict.judge(alerted, || "its metric never said so".to_owned());
    let calm = record.guards.iter().any(|guard| guard.at > record.last_fault() && guard.holding.is_empty());
    verdict.judge(calm, || "it was never calm again".to_owned());
    let words = format!(
        "it held {} from {:.1} s after the fault on, for {:.1} s, and its metric {}",
        cohorts.join(", "),
        took.as_secs_f64(),
        (until - from).as_secs_f64(),
        if alerted { "said so" } else { "did not say so" }
    );
    (verdict, words)
}

pub(super) fn guard_stays_calm(record: &Record) -> Found {
    let mut verdict = Verdict::default();
    for guard in &record.guards {
        verdict.judge(guard.holding.is_empty(), || {
            format!("at {:.1} s it held {:?}", guard.at.as_secs_f64(), guard.holding)
        });
    }
    (verdict, "the guard is never seen to hold".to_owned())
}

pub(super) fn recovers(record: &Record, within_s: u64) -> Found {
    let mut verdict = Verdict::default();
    let took = record.recovered.map(|at| at.saturating_sub(record.last_step));
    verdict.judge(took.is_some_and(|took| took.as_secs() <= within_s), || format!("it took {took:?}"));
    let words = match took {
        Some(took) => format!("everything was as before {:.1} s after the last step", took.as_secs_f64()),
        None => "it was never again as before".to_owned(),
    };
    (verdict, format!("{words}; within {within_s} s demanded"))
}

/// I16: of what goes between regions nothing is to or from a store, a cell or a replicator. Feeds go by the brokers.
pub(super) fn crossings(record: &Record) -> Option<Judged> {
    let Crossings { writes, feeds } = record.crossings?;
    let mut broken = Vec::new();
    if writes > 0 {
        broken.push(format!(
            "I16: {writes} packets went between regions to or from a store, a cell or a replicator"
        ));
    }
    let detail =
        format!("{feeds} packets of brokers went between regions, and {writes} of what takes writes");
    Some(Judged { id: "I16 packets".to_owned(), checked: 1, broken, detail })
}

/// A run whose faults did not work proves nothing.
pub(super) fn landed(record: &Record) -> super::Judged {
    let mut verdict = Verdict::default();
    for fault in &record.faults {
        verdict.judge(fault.landed, || format!("{} was not seen to work", fault.what));
    }
    if verdict.checked == 0 {
        verdict.broken.push("there was no fault".to_owned());
    }
    let detail = "every fault was seen to work: packets were dropped, processes were gone".to_owned();
    super::Judged { id: "landed".to_owned(), checked: verdict.checked, broken: verdict.broken, detail }
}

fn range(least: usize, most: usize) -> String {
    if least == most { most.to_string() } else { format!("{least} to {most}") }
}
