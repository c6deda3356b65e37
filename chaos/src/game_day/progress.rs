//! How a run is doing while it runs: one line for people, and whether everything is as before. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use super::record::{Record, Sight, Tick};
use super::scenario::{Scenario, Zone};

/// A state is current below this age; the product's own line.
const CURRENT: Duration = Duration::from_secs(3);

/// One line: each zone's calls and failures in the last second, who is settled, the guard, and the oldest copy.
#[must_use]
pub fn line(record: &Record, scenario: &Scenario) -> String {
    let mut parts = Vec::new();
    for zone in &scenario.zones {
        if let Some(tick) = last_tick(record, &zone.name) {
            let (name, all) = (&zone.name, zone.instances);
            let Tick { calls, calls_failed, settled, .. } = tick;
            parts.push(format!("{name}: {calls} calls, {calls_failed} failed, {settled}/{all} settled"));
        }
    }
    for region in scenario.regions() {
        if let Some(guard) = record.guards.iter().rfind(|guard| guard.region == region) {
            let state = if guard.holding.is_empty() { "calm" } else { "holding" };
            parts.push(format!("guard of {region} {state}, {} suspects", guard.suspects));
        }
    }
    let oldest = holders(record, scenario).into_iter().max_by_key(|sight| sight.age_ms);
    if let Some(oldest) = oldest.filter(|sight| u128::from(sight.age_ms) >= CURRENT.as_millis()) {
        let (holder, region) = (&oldest.holder, &oldest.region);
        parts.push(format!("{holder}'s copy of {region} is {} s old", oldest.age_ms / 1_000));
    }
    parts.join("; ")
}

/// What is not as before, looking at what was seen since then; none when everything is.
#[must_use]
pub fn amiss(record: &Record, scenario: &Scenario, since: Duration) -> Option<String> {
    let lives = |zone: &&Zone| record.death(&zone.name).is_none();
    let all = |region: &str| -> u64 {
        let of = scenario.zones.iter().filter(|zone| zone.region == region).filter(lives);
        of.map(|zone| u64::from(zone.instances)).sum()
    };
    for zone in scenario.zones.iter().filter(lives) {
        let tick = last_tick(record, &zone.name).filter(|tick| tick.at > since);
        let settled = tick.map_or(0, |tick| tick.settled);
        if settled < u64::from(zone.instances) {
            return Some(format!("{settled} of {} agents of zone {} are settled", zone.instances, zone.name));
        }
        if tick.is_some_and(|tick| tick.calls_failed > 0) {
            return Some(format!("calls of zone {} fail", zone.name));
        }
        let answered = |tick: &&Tick| tick.zone == zone.name && tick.calls > tick.calls_failed;
        let recent = record.ticks.iter().rev().take_while(|tick| tick.at > since);
        if zone.callers > 0 && !recent.into_iter().any(|tick| answered(&tick)) {
            return Some(format!("no call of zone {} was answered yet", zone.name));
        }
    }
    for region in scenario.regions() {
        let guard = record.guards.iter().rfind(|guard| guard.region == region && guard.at > since);
        if guard.is_none_or(|guard| !guard.holding.is_empty()) {
            return Some(format!("the guard of {region} is not calm"));
        }
    }
    let sights = holders(record, scenario);
    for zone in scenario.zones.iter().filter(|zone| zone.cell) {
        for region in scenario.regions() {
            let sight =
                sights.iter().find(|sight| sight.cell && sight.zone == zone.name && sight.region == region);
            let current = sight.is_some_and(|sight| {
                sight.at > since
                    && u128::from(sight.age_ms) < CURRENT.as_millis()
                    && sight.count >= all(region)
            });
            if !current {
                return Some(format!(
                    "the cell of zone {} does not hold all of {region} currently",
                    zone.name
                ));
            }
        }
    }
    for zone in scenario.zones.iter().filter(lives) {
        for region in scenario.regions() {
            let of_zone = |sight: &&&Sight| {
                sight.holder.starts_with("caller-") && sight.zone == zone.name && sight.region == region
            };
            let holds = |sight: &&&Sight| sight.at > since && sight.count >= all(region);
            let holding = sights.iter().filter(of_zone).filter(holds).count();
            if holding < zone.callers as usize {
                let (callers, name) = (zone.callers, &zone.name);
                return Some(format!("{holding} of {callers} callers of zone {name} hold all of {region}"));
            }
        }
    }
    None
}

/// What callers were told before everything stood, in words; nothing when they always found somebody.
#[must_use]
pub fn early(record: &Record) -> String {
    let mut outcomes: BTreeMap<&str, usize> = BTreeMap::new();
    for empty in &record.empty {
        *outcomes.entry(&empty.outcome).or_default() += 1;
    }
    let words: Vec<_> =
        outcomes.iter().map(|(outcome, count)| format!(", {count} questions were told {outcome}")).collect();
    words.concat()
}

fn last_tick<'a>(record: &'a Record, zone: &str) -> Option<&'a Tick> {
    record.ticks.iter().rfind(|tick| tick.zone == zone)
}

/// The last sight of each holder and region.
fn holders<'a>(record: &'a Record, scenario: &Scenario) -> Vec<&'a Sight> {
    let mut last: BTreeMap<(&str, &str), &Sight> = BTreeMap::new();
    let holders: u32 = scenario
        .zones
        .iter()
        .map(|zone| zone.callers + u32::from(zone.cell) + u32::from(zone.replicator))
        .sum();
    // All of them speak at least once in a few seconds; there is no need to go further back.
    let most = holders as usize * scenario.regions().len() * 4 + 64;
    for sight in record.sights.iter().rev().take(most) {
        last.entry((&sight.holder, &sight.region)).or_insert(sight);
    }
    last.into_values().collect()
}
