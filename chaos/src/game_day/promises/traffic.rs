//! Writers, callers and their calls.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::check::Verdict;
use crate::game_day::record::{Failed, Fault, Record};
use crate::game_day::scenario::Scenario;
use crate::history::Op;

/// A write that was in flight when a cut began may still be answered.
const ON_THEIR_WAY: Duration = Duration::from_secs(1);

type Found = (Verdict, String);

fn of_zone<'a>(record: &'a Record, zone: &str) -> impl Iterator<Item = &'a Op> {
    let prefix = format!("writer/{zone}-");
    record.ops.iter().filter(move |op| op.id.starts_with(&prefix))
}

/// Between two acknowledged writes of a zone, and to the run's beginning and end, never passes more than the gap.
pub(super) fn writes_go_on(record: &Record, zones: &[String], gap_s: u64) -> Found {
    let mut verdict = Verdict::default();
    let (mut longest, mut count) = (Duration::ZERO, 0);
    for zone in zones {
        let mut at: Vec<Duration> =
            of_zone(record, zone).filter(|op| op.is_acknowledged()).filter_map(|op| op.returned).collect();
        at.sort_unstable();
        verdict.judge(!at.is_empty(), || format!("zone {zone} had no write acknowledged"));
        count += at.len();
        at.push(record.ended);
        for pair in at.windows(2) {
            let gap = pair[1] - pair[0];
            longest = longest.max(gap);
            verdict.judge(gap.as_secs() < gap_s, || {
                format!(
                    "zone {zone} had no write acknowledged for {:.1} s from {:.1} s on",
                    gap.as_secs_f64(),
                    pair[0].as_secs_f64()
                )
            });
        }
    }
    let zones = zones.join(", ");
    (
        verdict,
        format!(
            "{count} writes of zone {zones} were acknowledged, {:.1} s apart at most; {gap_s} s allowed",
            longest.as_secs_f64()
        ),
    )
}

/// Every write that is sent while there is a fault is acknowledged; says how long they took then and before.
pub(super) fn writes_succeed(record: &Record, zones: &[String]) -> Found {
    let mut verdict = Verdict::default();
    let (mut calm, mut faulty) = (Vec::new(), Vec::new());
    for op in zones.iter().flat_map(|zone| of_zone(record, zone)) {
        let Some(returned) = op.returned else { continue };
        let during =
            |fault: &Fault| op.invoked >= fault.at && op.invoked < fault.until.unwrap_or(record.ended);
        if record.faults.iter().any(during) {
            verdict.judge(op.is_acknowledged(), || {
                let (act, id, at) = (&op.act, &op.id, op.invoked.as_secs_f64());
                format!("{act:?} of {id} at {at:.1} s: {:?}", op.outcome)
            });
            faulty.push(returned - op.invoked);
        } else if op.invoked < record.first_fault() {
            calm.push(returned - op.invoked);
        }
    }
    let (before, then) = (nearly_all(calm), nearly_all(faulty));
    let words = format!(
        "{} writes of zone {} were sent during faults; 99 % took {} ms at most, and {} ms before",
        verdict.checked,
        zones.join(", "),
        then.as_millis(),
        before.as_millis()
    );
    (verdict, words)
}

/// What 99 % stay within.
fn nearly_all(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    let place = (times.len() * 99).div_ceil(100).saturating_sub(1);
    times.get(place).copied().unwrap_or_default()
}

/// Nothing that was sent while a zone was cut off is acknowledged there before the cut heals.
pub(super) fn writes_stop(record: &Record, zones: &[String]) -> Found {
    let mut verdict = Verdict::default();
    for fault in record.faults.iter().filter(|fault| fault.zones.iter().any(|zone| zones.contains(zone))) {
        let until = fault.until.unwrap_or(record.ended);
        for op in zones.iter().flat_map(|zone| of_zone(record, zone)) {
            let Some(returned) = op.returned else { continue };
            if op.invoked > fault.at + ON_THEIR_WAY && returned < until {
                verdict.judge(!op.is_acknowledged(), || {
                    format!("{:?} of {} was acknowledged at {:.1} s", op.act, op.id, returned.as_secs_f64())
                });
            }
        }
    }
    let detail =
        format!("{} writes of zone {} ended while it was cut off", verdict.checked, zones.join(", "));
    (verdict, detail)
}

pub(super) fn resolves_go_on(record: &Record, zones: &[String]) -> Found {
    let mut verdict = Verdict::default();
    let of_zones = record.ticks.iter().filter(|tick| zones.contains(&tick.zone) && tick.at >= record.began);
    let resolves: u64 = of_zones.map(|tick| tick.resolves).sum();
    for empty in record.empty.iter().filter(|empty| zones.contains(&empty.zone) && empty.at >= record.began) {
        let (caller, name, outcome) = (&empty.caller, &empty.name, &empty.outcome);
        let at = empty.at.as_secs_f64();
        verdict.judge(false, || format!("{caller} asked for {name} at {at:.1} s and was told {outcome}"));
    }
    verdict.checked = usize::try_from(resolves).unwrap_or(usize::MAX);
    (verdict, format!("{resolves} questions of zone {} were asked and found candidates", zones.join(", ")))
}

/// A caller fails a few times when a fault begins or ends, and then finds those that it reaches.
///
/// Whom a caller is sent to is the registry's; that an agent answers in time which lives and can be reached is the
/// machine's. So calls count that were sent across a cut, or to an address where another answers.
pub(super) fn calls_go_on(
    scenario: &Scenario,
    record: &Record,
    zones: &[String],
    failures_most: usize,
    quiet_after_s: u64,
) -> Found {
    let mut verdict = Verdict::default();
    let mut by_caller: BTreeMap<&str, Vec<&Failed>> = BTreeMap::new();
    let region = |name: &str| scenario.zones.iter().find(|zone| zone.name == name).map(|zone| &zone.region);
    let own = |failed: &&Failed| {
        zones.contains(&failed.zone) && region(&failed.zone) == region(&failed.target_zone)
    };
    let mut slow = 0;
    for failed in record.failed.iter().filter(|failed| failed.at >= record.began).filter(own) {
        if failed.answered || record.were_apart(&failed.zone, &failed.target_zone, failed.sent, failed.at) {
            by_caller.entry(&failed.caller).or_default().push(failed);
        } else {
            slow += 1;
        }
    }
    let turns: Vec<Duration> =
        record.faults.iter().flat_map(|fault| [Some(fault.at), fault.until]).flatten().collect();
    let mut worst = 0;
    let mut last = Duration::ZERO;
    for (caller, failed) in &by_caller {
        worst = worst.max(failed.len());
        verdict
            .judge(failed.len() <= failures_most, || format!("{caller} had {} failed calls", failed.len()));
        for failed in failed {
            // Counted from the last turn before it had failed: a cut fails calls that were sent before it.
            let turn = turns.iter().filter(|turn| **turn <= failed.at).max();
            let since = turn.map_or(failed.at, |turn| failed.at - *turn);
            last = last.max(since);
            verdict.judge(turn.is_some() && since.as_secs() < quiet_after_s, || {
                format!(
                    "{caller} called {} in vain at {:.1} s: {}",
                    failed.target,
                    failed.sent.as_secs_f64(),
                    failed.why
                )
            });
        }
    }
    let counted = record.ticks.iter().filter(|tick| zones.contains(&tick.zone) && tick.at >= record.began);
    let calls: u64 = counted.map(|tick| tick.calls).sum();
    verdict.checked = usize::try_from(calls).unwrap_or(usize::MAX);
    let words = format!(
        "{calls} calls of zone {}; {worst} of the worst caller failed by a fault, the last one {:.1} s after a turn; {failures_most} and {quiet_after_s} s allowed; {slow} of agents that could be reached had no answer in time",
        zones.join(", "),
        last.as_secs_f64()
    );
    (verdict, words)
}

/// Callers of every zone asked and called in every phase, and were answered where nothing kept them from anybody;
/// otherwise the run proves nothing. How often is no matter: that is the machine's speed, and in a zone that is cut off
/// the chance of whom a caller tries.
pub(super) fn busy(scenario: &Scenario, record: &Record) -> super::Judged {
    let mut verdict = Verdict::default();
    let (first, last) = (record.first_fault(), record.last_fault());
    let phases = [("before", Duration::ZERO, first), ("during", first, last), ("after", last, record.ended)];
    for zone in scenario.zones.iter().filter(|zone| zone.callers > 0) {
        for (phase, from, until) in phases.iter().filter(|(_, from, until)| from < until) {
            let ticks = record
                .ticks
                .iter()
                .filter(|tick| tick.zone == zone.name && (*from..*until).contains(&tick.at));
            let (mut calls, mut answered) = (0, 0);
            for tick in ticks {
                calls += tick.calls;
                answered += tick.calls - tick.calls_failed;
            }
            let is_cut =
                *phase == "during" && record.faults.iter().any(|fault| fault.zones.contains(&zone.name));
            verdict.judge(calls > 0 && (answered > 0 || is_cut), || {
                format!(
                    "zone {} had {calls} calls {phase} the faults, {answered} of them answered",
                    zone.name
                )
            });
        }
    }
    if verdict.checked == 0 {
        verdict.broken.push("there was nothing to look at".to_owned());
    }
    let detail = "callers of every zone called before, during and after the faults, and were answered \
                  where nothing kept them from anybody"
        .to_owned();
    super::Judged { id: "traffic".to_owned(), checked: verdict.checked, broken: verdict.broken, detail }
}
