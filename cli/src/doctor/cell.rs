//! The checks of a cell.

use std::time::Duration;

use rollcall_model::{Timestamp, limits};
use serde_json::Value;

use super::check::{Check, build, copies, part_of, said};
use super::{Answers, Asked, replicator};
use crate::table::{cell, counted, seconds};

/// Clocks that differ by so much mislead whoever compares times; less is within what the header `Date` can say.
const SKEW: Duration = Duration::from_secs(2);
/// A resync this long ago is news.
const RECENT: Duration = Duration::from_secs(600);

/// `replicators` are those that were asked too: what a view lacks is looked for there, and not advised to be asked again.
pub(super) fn judge(asked: &Asked, replicators: &[Asked]) -> Vec<Check> {
    let url = &asked.url;
    let answers = match &asked.answers {
        Ok(answers) => answers,
        Err(failure) => {
            let next =
                "start one with `rollcall dev` or `rollcall cell`, or name yours with --url or ROLLCALL_URL";
            return vec![Check::fail("reachable", said(failure), next)];
        }
    };
    let role = answers.version.get("role").and_then(Value::as_str).unwrap_or("nothing of Rollcall");
    if role != "cell" {
        let next = if role == "replicator" {
            format!("name the cell with --url, and this one with --replicator {url}")
        } else {
            "name a cell's HTTP address with --url".to_owned()
        };
        return vec![Check::fail("reachable", format!("what answers at {url} is no cell: {role}"), next)];
    }
    let region = cell(answers.version.get("region"));
    let took = answers.took.as_millis();
    let mut checks = vec![
        Check::ok("reachable", format!("{url} answers in {took} ms, the cell of region {region}")),
        build("version", &answers.version),
    ];
    checks.extend(answers.clocks.map(clocks));
    checks.push(ready(answers));
    checks.extend(keeper_and_store(answers));
    checks.push(guard(answers));
    checks.extend(copies("", parts(answers)));
    match &answers.regions {
        Ok(regions) => {
            let now = answers.clocks.map(|(theirs, _)| theirs);
            checks.extend(of_regions(regions, &parts(answers), replicators, now));
        }
        Err(failure) => checks.push(Check::fail("regions", said(failure), "see the log of the cell")),
    }
    checks
}

fn clocks((theirs, own): (Timestamp, Timestamp)) -> Check {
    // The header has whole seconds, cut off: it is half a second late in the middle.
    let apart = own.0 - theirs.0 - 500;
    let length = Duration::from_millis(apart.unsigned_abs());
    if length <= SKEW {
        return Check::ok("clock", "this machine and the cell agree");
    }
    let word = if apart > 0 { "ahead of" } else { "behind" };
    let detail = format!("this machine is {} s {word} the cell", length.as_secs());
    let next = "set both by NTP: leases do not depend on it, but times that are shown will not compare";
    Check::warn("clock", detail, next)
}

fn ready(answers: &Answers) -> Check {
    match &answers.ready {
        Ok(_) => Check::ok("ready", "it serves readers"),
        Err(failure) => Check::fail(
            "ready",
            said(failure),
            "it loads its region from the store: see there, and the cell's log says what it waits for",
        ),
    }
}

/// What readiness says of a part of the process, in its lines or in the words of its refusal.
fn part(answers: &Answers, name: &str) -> Option<String> {
    parts(answers).into_iter().find_map(|(part, said)| (part == name).then_some(said))
}

/// The same of every part that the process needs not to be ready, by name.
fn parts(answers: &Answers) -> Vec<(String, String)> {
    match &answers.ready {
        Ok(text) => text.lines().filter_map(part_of).collect(),
        Err(failure) => said(failure).split("; ").filter_map(part_of).collect(),
    }
}

/// The keeper writes a beat to the store each second, so that the own region's age tells of both.
fn keeper_and_store(answers: &Answers) -> Vec<Check> {
    let regions = answers.regions.as_ref().ok().map(list).unwrap_or_default();
    let own = regions.iter().find(|region| region.get("role").and_then(Value::as_str) == Some("own"));
    let age = own.and_then(|own| own.get("age_ms")).and_then(Value::as_u64).map(Duration::from_millis);
    let is_heard = age.is_some_and(|age| age < limits::CURRENT_AGE);
    let last = match age {
        Some(_) => format!("the last beat was {} ago", seconds(own.and_then(|own| own.get("age_ms")))),
        None => "nothing was ever heard of it".to_owned(),
    };
    // Whoever asks it knows it before the age of the last beat tells.
    let told = part(answers, "store");
    // Its advice has colons of its own.
    let full = told.as_ref().filter(|told| told.starts_with("out of space"));
    if let Some((lack, next)) = full.and_then(|told| told.split_once(": ")) {
        let keeper = match &answers.guard {
            Ok(_) => Check::ok("keeper", "in office: it stays there, and renewals go on"),
            Err(failure) => Check::fail(
                "keeper",
                said(failure),
                "who does not stand for office yet cannot do so without space: see store",
            ),
        };
        return vec![Check::fail("store", lack.to_owned(), next.to_owned()), keeper];
    }
    if let Some((lack, next)) = told.as_ref().and_then(|told| told.rsplit_once(": ")) {
        let keeper = match &answers.guard {
            Ok(_) => Check::warn(
                "keeper",
                "in office still; without the store its office ends in seconds, and renewals are refused then",
                "see store",
            ),
            Err(failure) => {
                Check::fail("keeper", said(failure), "none can be in office before that is mended: see store")
            }
        };
        return vec![Check::fail("store", format!("{lack}; {last}"), next.to_owned()), keeper];
    }
    let is_here = answers.ready.as_ref().is_ok_and(|text| text.contains("ready): this process"));
    match (&answers.guard, is_heard) {
        (Ok(_), true) => {
            let whose = if is_here { "this process" } else { "another process of the cell" };
            vec![Check::ok("store", last), Check::ok("keeper", format!("in office: {whose}"))]
        }
        (Ok(_), false) => vec![
            Check::fail(
                "store",
                last,
                "the keeper is in office and its beats do not come: is the store slow or cut off?",
            ),
            Check::ok("keeper", "in office"),
        ],
        (Err(failure), true) => vec![
            Check::ok("store", last),
            Check::warn("keeper", said(failure), "an election takes some seconds: ask again"),
        ],
        (Err(failure), false) => vec![
            Check::fail(
                "store",
                last,
                "see that what [store] names is up and reached: the cell's log names who does not answer",
            ),
            Check::fail(
                "keeper",
                said(failure),
                "none can be elected without the store: bring that back first",
            ),
        ],
    }
}

fn guard(answers: &Answers) -> Check {
    let status = match &answers.guard {
        Ok(status) => status,
        Err(_) => return Check::warn("guard", "nobody knows while no keeper is in office", "see keeper"),
    };
    if status.get("state").and_then(Value::as_str) == Some("calm") {
        return Check::ok("guard", "calm: what falls silent expires after its lease");
    }
    let of = |name: &str| status.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let holding = of("cohorts").iter().filter(|cohort| cohort.get("since").is_some_and(Value::is_string));
    let cohorts: Vec<_> = holding
        .map(|cohort| {
            let member = |name: &str| cell(cohort.get(name));
            format!(
                "{}: {} of {} silent, limit {}",
                member("cohort"),
                member("suspects"),
                member("registered"),
                member("limit")
            )
        })
        .collect();
    let held = counted(&of("held").len().to_string(), "registration");
    Check::warn(
        "guard",
        format!("holding {held} past the deadline; {}", cohorts.join("; ")),
        "a zone or a network is away: `rollcall guard` lists them; those known to be dead go with `rollcall guard release`",
    )
}

fn of_regions(
    regions: &Value,
    parts: &[(String, String)],
    replicators: &[Asked],
    now: Option<Timestamp>,
) -> Vec<Check> {
    let regions = list(regions);
    let mut checks: Vec<_> = regions.iter().map(|region| of_region(region, parts, replicators)).collect();
    checks.push(resyncs(&regions, now));
    if regions.len() == 1 {
        checks.push(Check::ok(
            "configuration",
            "one region alone: callers have nowhere to fail over to; [[view]] in the cell's file adds one",
        ));
    }
    checks
}

fn of_region(region: &Value, parts: &[(String, String)], replicators: &[Asked]) -> Check {
    let member = |name: &str| cell(region.get(name));
    let name = format!("region {}", member("region"));
    let state = member("state");
    let agents = counted(&member("count"), "agent");
    let mut detail = match state.as_str() {
        "not_loaded" => "never loaded: nothing is known of it".to_owned(),
        state => format!("{state}, {} old, {agents}", seconds(region.get("age_ms"))),
    };
    let source = format!("source of {}", member("region"));
    let source = parts.iter().find_map(|(part, said)| (*part == source).then_some(said.as_str()));
    if let Some(said) = source {
        detail = format!("{detail}; {said}");
    }
    let next = if region.get("role").and_then(Value::as_str) == Some("own") {
        "see store and keeper".to_owned()
    } else {
        replicator::advice(&member("region"), source, replicators)
    };
    match state.as_str() {
        "current" => Check::ok(name, detail),
        "behind" => Check::warn(name, detail, next),
        _ => Check::fail(name, detail, next),
    }
}

fn resyncs(regions: &[Value], now: Option<Timestamp>) -> Check {
    let recent = regions.iter().filter_map(|region| {
        let resync = region.get("last_resync")?;
        let reason = resync.get("reason")?.as_str().filter(|reason| *reason != "started")?;
        let at: jiff::Timestamp = resync.get("at")?.as_str()?.parse().ok()?;
        let ago = u64::try_from(now?.0 - at.as_millisecond()).unwrap_or_default();
        let is_recent = Duration::from_millis(ago) < RECENT;
        is_recent.then(|| format!("{} {} s ago: {reason}", cell(region.get("region")), ago / 1_000))
    });
    let recent: Vec<_> = recent.collect();
    if recent.is_empty() {
        return Check::ok("resyncs", "none but at the start in the last ten minutes");
    }
    Check::warn(
        "resyncs",
        recent.join("; "),
        "once is how a lost piece heals; again and again, see the log of the replicator of that region",
    )
}

fn list(regions: &Value) -> Vec<Value> {
    regions.get("regions").and_then(Value::as_array).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests;
