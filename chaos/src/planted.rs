//! The checkers' own proof: bugs planted into the product, one after another, each of which a named check must find.
//!
//! `rollcall-chaos planted`, with a `rollcall` that was built with its feature `planted` in `ROLLCALL_BIN`. Each bug is a
//! game day of its own; without any, the same scenario must hold. A bug that only other checks find counts as missed.

use std::process::{Command, ExitCode, Stdio};

use serde_json::Value;

use crate::game_day;

/// The verb.
pub const VERB: &str = "planted";
/// The scenario that meets views.
const VIEWS: &str = "planted-views";
/// The shortest one in which the guard holds.
const GUARD: &str = "zone-partition-short";
/// Every run has the same chance.
const SEED: &str = "1";

/// Bug, scenario, the check that must find it.
const ROWS: [(&str, &str, &str); 6] = [
    ("skip-a-delta", VIEWS, "I18 I30"),
    ("accept-a-stale-epoch", VIEWS, "I04"),
    ("wipe-on-empty", VIEWS, "I18 I30"),
    ("ignore-the-digest", VIEWS, "I32"),
    ("delete-while-held", GUARD, "I07"),
    ("offset-before-view", VIEWS, "I33 views go on by delta"),
];

/// Runs them, or the one of this name, and prints which check found which bug.
#[must_use]
pub fn run(only: Option<&str>, print: fn(&str)) -> ExitCode {
    let mut all_found = true;
    let rows: Vec<_> = ROWS.iter().filter(|(bug, ..)| only.is_none_or(|only| only == *bug)).collect();
    if only.is_none() {
        let found = broken("", VIEWS);
        all_found &= found.as_ref().is_ok_and(Vec::is_empty);
        print(&format!("{:<22} {VIEWS:<22} {}\n", "no bug", words(&found, "")));
    }
    for (bug, scenario, check) in rows {
        let found = broken(bug, scenario);
        let is_found = found.as_ref().is_ok_and(|found| found.iter().any(|id| id == check));
        all_found &= is_found;
        print(&format!("{bug:<22} {scenario:<22} {}\n", words(&found, check)));
    }
    if all_found { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn words(found: &Result<Vec<String>, String>, check: &str) -> String {
    match found {
        Err(why) => format!("NOT PLAYED: {why}"),
        Ok(found) if found.is_empty() && check.is_empty() => "every promise holds".to_owned(),
        Ok(found) if check.is_empty() => format!("BROKEN WITHOUT A BUG: {}", found.join(", ")),
        Ok(found) if found.iter().any(|id| id == check) => {
            let others: Vec<&str> = found.iter().map(String::as_str).filter(|id| *id != check).collect();
            let others =
                if others.is_empty() { String::new() } else { format!("; also {}", others.join(", ")) };
            format!("found by {check}{others}")
        }
        Ok(found) => format!("MISSED by {check}; broken: {}", found.join(", ")),
    }
}

/// The promises that a run with this bug broke.
fn broken(bug: &str, scenario: &str) -> Result<Vec<String>, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let done = Command::new(own)
        .args([game_day::VERB, scenario, SEED])
        .env("ROLLCALL_PLANTED", bug)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let folder = said.lines().next_back().ok_or("it cannot be played here, or was not played to its end")?;
    let report =
        std::fs::read_to_string(format!("{folder}/report.json")).map_err(|error| error.to_string())?;
    let report: Value = serde_json::from_str(&report).map_err(|error| error.to_string())?;
    let promises = report["promises"].as_array().into_iter().flatten();
    let broken = promises.filter(|promise| promise["verdict"] == "broken");
    Ok(broken.filter_map(|promise| promise["id"].as_str()).map(str::to_owned).collect())
}
