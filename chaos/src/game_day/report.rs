//! What a game day found, as the contract's JSON (`report.json`) and as text. Pure.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::promises::{self, Judged};
use super::record::Record;
use super::scenario::Scenario;

/// Sentences shown of each promise that was broken; the rest is counted.
const SHOWN: usize = 5;

/// `report.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The scenario's name.
    pub scenario: String,
    /// The seed that plays it again.
    pub seed: u64,
    /// The commit that was played.
    pub commit: String,
    /// `held` or `broken`.
    pub verdict: &'static str,
    /// RFC 3339.
    pub started_at: String,
    /// From the first traffic to its end.
    pub duration_s: f64,
    /// How large it was.
    pub fleet: FleetSize,
    /// What was done.
    pub faults: Vec<FaultLine>,
    /// What callers did.
    pub traffic: TrafficLine,
    /// What the guard did.
    pub guard: GuardLine,
    /// What was removed without its owner's word.
    pub removals: RemovalsLine,
    /// Registrations beyond the first of each agent.
    pub reregistrations: usize,
    /// Agents with another epoch at the end than when the first fault came.
    pub epochs_changed: usize,
    /// Copies replaced by whole snapshots.
    pub resyncs: usize,
    /// From the last step until everything was as before.
    pub recovery_s: Option<f64>,
    /// The oldest copy that anybody resolved from.
    pub max_age_ms: u64,
    /// Each promise.
    pub promises: Vec<PromiseLine>,
}

/// How large it was.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct FleetSize {
    /// Agents.
    pub instances: usize,
    /// Zones.
    pub zones: usize,
    /// Members of etcd.
    pub stores: usize,
    /// Processes of cells.
    pub cells: usize,
}

/// One fault.
#[derive(Clone, Debug, Serialize)]
pub struct FaultLine {
    /// Since when.
    pub at_s: f64,
    /// Until when.
    pub until_s: Option<f64>,
    /// What.
    pub what: String,
    /// Whether it was seen to work.
    pub landed: bool,
}

/// What callers did.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TrafficLine {
    /// Questions.
    pub resolves: u64,
    /// Those without a candidate.
    pub resolve_failures: u64,
    /// Calls of agents.
    pub calls: u64,
    /// Those that failed.
    pub call_failures: u64,
    /// Failed calls by when that was.
    pub failures_by_phase: Phases,
}

/// Before the first fault, until the last one is over, and after it.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Phases {
    /// Before.
    pub before: u64,
    /// During.
    pub during: u64,
    /// After.
    pub after: u64,
}

/// What the guard did.
#[derive(Clone, Debug, Serialize)]
pub struct GuardLine {
    /// First seen to hold.
    pub held_from_s: Option<f64>,
    /// Last seen to hold.
    pub held_until_s: Option<f64>,
    /// Which cohorts.
    pub cohorts: Vec<String>,
}

/// What was removed.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RemovalsLine {
    /// Agents whose owners live.
    pub healthy: usize,
    /// Others.
    pub dead: usize,
}

/// One promise.
#[derive(Clone, Debug, Serialize)]
pub struct PromiseLine {
    /// Its ids.
    pub id: String,
    /// `held` or `broken`.
    pub verdict: &'static str,
    /// How many cases were looked at.
    pub checked: usize,
    /// What was demanded and seen; then what was broken.
    pub detail: String,
}

/// What a run was, beside what happened in it.
#[derive(Clone, Debug)]
pub struct Run {
    /// The seed.
    pub seed: u64,
    /// The commit.
    pub commit: String,
    /// RFC 3339.
    pub started_at: String,
}

impl Report {
    /// Judges a run.
    #[must_use]
    pub fn of(scenario: &Scenario, run: &Run, record: &Record) -> Self {
        let judged = promises::all(scenario, record);
        let held = judged.iter().all(|judged| judged.broken.is_empty());
        let removals = promises::removals(record);
        let guard = promises::held(record);
        let (from, until, cohorts) = match guard {
            Some((from, until, cohorts)) => (Some(seconds(from)), Some(seconds(until)), cohorts),
            None => (None, None, Vec::new()),
        };
        let counted = || record.ticks.iter().filter(|tick| tick.at >= record.began);
        let sum = |of: fn(&super::record::Tick) -> u64| counted().map(of).sum();
        Self {
            scenario: scenario.name.clone(),
            seed: run.seed,
            commit: run.commit.clone(),
            verdict: word(held),
            started_at: run.started_at.clone(),
            duration_s: seconds(record.ended),
            fleet: FleetSize {
                instances: scenario.instances(),
                zones: scenario.zones.len(),
                stores: scenario.zones.iter().map(|zone| usize::from(zone.stores)).sum(),
                cells: scenario.zones.iter().filter(|zone| zone.cell).count(),
            },
            faults: record
                .faults
                .iter()
                .map(|fault| FaultLine {
                    at_s: seconds(fault.at),
                    until_s: fault.until.map(seconds),
                    what: fault.what.clone(),
                    landed: fault.landed,
                })
                .collect(),
            traffic: TrafficLine {
                resolves: sum(|tick| tick.resolves),
                resolve_failures: sum(|tick| tick.resolves_empty),
                calls: sum(|tick| tick.calls),
                call_failures: sum(|tick| tick.calls_failed),
                failures_by_phase: phases(record),
            },
            guard: GuardLine { held_from_s: from, held_until_s: until, cohorts },
            removals: RemovalsLine { healthy: removals.healthy, dead: removals.dead },
            reregistrations: promises::registered_again(record),
            epochs_changed: promises::epochs_changed(record),
            resyncs: promises::replaced(record).len(),
            recovery_s: record.recovered.map(|at| seconds(at.saturating_sub(record.last_step))),
            max_age_ms: record
                .sights
                .iter()
                .filter(|sight| sight.is_heard())
                .map(|sight| sight.age_ms)
                .max()
                .unwrap_or(0),
            promises: judged.into_iter().map(line).collect(),
        }
    }

    /// Whether every promise held.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.promises.iter().all(|promise| promise.verdict == word(true))
    }

    /// As text.
    #[must_use]
    pub fn text(&self, scenario: &Scenario, record: &Record) -> String {
        let mut text = format!("{}, seed {}, commit {}\n", self.scenario, self.seed, self.commit);
        let _ = writeln!(text, "{} ({})\n", scenario.shows, scenario.proves.join(", "));
        for (at, what) in &record.diary {
            let _ = writeln!(text, "  {:7.1} s  {what}", seconds(*at));
        }
        text.push('\n');
        for (what, figure) in self.figures() {
            let _ = writeln!(text, "  {what:<26} {figure}");
        }
        text.push('\n');
        for promise in &self.promises {
            let mark = if promise.verdict == word(true) { "held  " } else { "BROKEN" };
            let mut lines = promise.detail.lines();
            let _ = writeln!(text, "  {mark}  {:<34} {}", promise.id, lines.next().unwrap_or_default());
            for line in lines {
                let _ = writeln!(text, "          {line}");
            }
        }
        let _ = writeln!(text, "\n{}", self.verdict);
        // Often nobody sees more of a run than its last lines.
        for promise in self.promises.iter().filter(|promise| promise.verdict != word(true)) {
            let _ =
                writeln!(text, "  BROKEN  {}: {}", promise.id, promise.detail.replace('\n', "\n          "));
        }
        text
    }

    /// The figures for people: what, and how much.
    #[must_use]
    pub fn figures(&self) -> Vec<(&'static str, String)> {
        let FleetSize { instances, zones, stores, cells } = self.fleet;
        let traffic = &self.traffic;
        let Phases { before, during, after } = traffic.failures_by_phase;
        let guard = match (self.guard.held_from_s, self.guard.held_until_s) {
            (Some(from), Some(until)) => {
                format!("{from:.1} s to {until:.1} s: {}", self.guard.cohorts.join(", "))
            }
            _ => "never".to_owned(),
        };
        let recovery =
            self.recovery_s.map_or("never".to_owned(), |took| format!("{took:.1} s after the last step"));
        vec![
            ("fleet", format!("{instances} agents, {zones} zones, {stores} stores, {cells} cells")),
            ("duration", format!("{:.0} s", self.duration_s)),
            ("resolves", format!("{}, {} without a candidate", traffic.resolves, traffic.resolve_failures)),
            ("calls", format!("{}, {} failed", traffic.calls, traffic.call_failures)),
            ("failed calls", format!("{before} before, {during} during, {after} after the faults")),
            ("guard held", guard),
            ("removed", format!("{} living, {} dead", self.removals.healthy, self.removals.dead)),
            ("registered again", format!("{}; {} epochs changed", self.reregistrations, self.epochs_changed)),
            ("whole snapshots", self.resyncs.to_string()),
            ("as before", recovery),
            ("oldest copy", format!("{:.1} s", seconds(Duration::from_millis(self.max_age_ms)))),
        ]
    }
}

fn line(judged: Judged) -> PromiseLine {
    let held = judged.broken.is_empty();
    let mut detail = judged.detail;
    for words in judged.broken.iter().take(SHOWN) {
        let _ = write!(detail, "\n{words}");
    }
    if judged.broken.len() > SHOWN {
        let _ = write!(detail, "\nand {} more", judged.broken.len() - SHOWN);
    }
    PromiseLine { id: judged.id, verdict: word(held), checked: judged.checked, detail }
}

fn phases(record: &Record) -> Phases {
    let (first, last) = (record.first_fault(), record.last_fault());
    let mut phases = Phases::default();
    for failed in record.failed.iter().filter(|failed| failed.at >= record.began) {
        // A cut fails calls that were sent before it.
        match failed {
            failed if failed.at < first => phases.before += 1,
            failed if failed.sent < last => phases.during += 1,
            _ => phases.after += 1,
        }
    }
    phases
}

const fn word(held: bool) -> &'static str {
    if held { "held" } else { "broken" }
}

/// Tenths of a second are enough for people.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Run {
        Run { seed: 1, commit: "x".to_owned(), started_at: "2026-01-01T00:00:00Z".to_owned() }
    }

    #[test]
    fn the_text_ends_with_what_was_broken_and_why() {
        let scenario = crate::game_day::read("zone-partition").unwrap();
        let record = Record { mishaps: vec!["two members disagree on x".to_owned()], ..Record::default() };
        let text = Report::of(&scenario, &run(), &record).text(&scenario, &record);
        let end = text.lines().rev().take(2).collect::<Vec<_>>();
        assert_eq!(end[0].trim(), "two members disagree on x");
        assert!(end[1].trim().starts_with("BROKEN  run: "), "{}", end[1]);
        let (_, broken) = text.split_once("\nbroken\n").unwrap();
        assert!(broken.contains("SCN-01 everybody resolves: 0 questions"), "with what was seen: {broken}");
        assert!(!broken.contains("  held  "), "and nothing else: {broken}");
    }

    /// `report.json` as people's tools know it.
    #[test]
    fn the_report_has_exactly_the_members_of_the_contract() {
        let scenario = crate::game_day::read("zone-partition").unwrap();
        let fault = crate::game_day::record::Fault {
            what: String::new(),
            zones: Vec::new(),
            programs: Vec::new(),
            at: Duration::ZERO,
            until: None,
            landed: true,
        };
        let record = Record { faults: vec![fault], ..Record::default() };
        let json = serde_json::to_value(Report::of(&scenario, &run(), &record)).unwrap();
        let members = |value: &serde_json::Value| {
            let mut names: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
            names.sort();
            names.join(" ")
        };
        assert_eq!(
            members(&json),
            "commit duration_s epochs_changed faults fleet guard max_age_ms promises recovery_s removals \
             reregistrations resyncs scenario seed started_at traffic verdict"
        );
        assert_eq!(members(&json["fleet"]), "cells instances stores zones");
        assert_eq!(members(&json["faults"][0]), "at_s landed until_s what");
        assert_eq!(
            members(&json["traffic"]),
            "call_failures calls failures_by_phase resolve_failures resolves"
        );
        assert_eq!(members(&json["traffic"]["failures_by_phase"]), "after before during");
        assert_eq!(members(&json["guard"]), "cohorts held_from_s held_until_s");
        assert_eq!(members(&json["removals"]), "dead healthy");
        assert_eq!(members(&json["promises"][0]), "checked detail id verdict");
        assert_eq!(json["recovery_s"], serde_json::Value::Null, "a member without a value is there");
    }
}
