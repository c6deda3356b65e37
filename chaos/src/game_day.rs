//! Game days: a scenario of a file, played on real processes in network namespaces, and reported to people.
//!
//! `make game-day SCENARIO=zone-partition`. [`scenario`] is read, [`layout`] says where everything is, [`run`] plays it
//! in the [`sealed`] world, [`promises`] judge what was written down ([`record`]), [`report`] and [`page`] tell it.
//! Promises that nothing outside of the sealed world is touched and nothing of it is left. Never here: a promise that
//! is judged by the product's own word alone; taps and callers know better.

pub mod layout;
pub mod network;
pub mod page;
pub mod programs;
pub mod progress;
pub mod promises;
pub mod record;
pub mod report;
pub mod run;
pub mod scenario;
pub mod sealed;
pub mod topics;
pub mod watching;
pub mod words;
pub mod zone;
pub mod zones;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rollcall_tests::paths;

use self::layout::Binaries;
use self::report::{Report, Run};
use self::scenario::Scenario;

/// The verb for people.
pub const VERB: &str = "game-day";
/// Something is missing, or the call is wrong.
const CANNOT: u8 = 2;
/// Ended early.
const INTERRUPTED: u8 = 130;

/// Plays a scenario in a world of its own: `game-day SCENARIO [SEED]`; without one it lists them.
pub async fn begin(arguments: &[String], say: fn(&str)) -> ExitCode {
    let Some(name) = arguments.first() else {
        say(&format!("{VERB} SCENARIO [SEED]; there are:"));
        for name in names() {
            say(&read(&name).map_or_else(|why| why, |scenario| format!("  {name:<28} {}", scenario.shows)));
        }
        return ExitCode::SUCCESS;
    };
    let missing = match read(name) {
        Ok(_) => sealed::missing(),
        Err(why) => vec![why],
    };
    for what in &missing {
        say(&format!("cannot play: {what}"));
    }
    if !missing.is_empty() {
        return ExitCode::from(CANNOT);
    }
    ExitCode::from(sealed::run(arguments).await)
}

/// The part of it inside that world; prints the report with `print`.
pub async fn within(arguments: &[String], say: fn(&str), print: fn(&str)) -> ExitCode {
    tokio::select! {
        done = play(arguments, say, print) => match done {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(why) => {
                say(&format!("the run was not played to its end: {why}"));
                ExitCode::FAILURE
            }
        },
        // Returning ends the first process of the world, and the kernel every other one.
        () = sealed::told_to_end() => ExitCode::from(INTERRUPTED),
    }
}

async fn play(arguments: &[String], say: fn(&str), print: fn(&str)) -> Result<bool, String> {
    let name = arguments.first().ok_or("no scenario")?;
    let scenario = read(name)?;
    let seed = arguments.get(1).and_then(|seed| seed.parse().ok()).unwrap_or_else(rand::random::<u32>);
    let seed = u64::from(seed);
    sealed::settle()?;
    let started = jiff::Timestamp::now();
    let commit = commit();
    let folder = Path::new(sealed::FOLDER);
    let etcd = paths::tools().join("etcd/bin/etcd");
    if !etcd.exists() {
        return Err(format!("{} is missing: infra/install.sh test puts it there", etcd.display()));
    }
    let broker = paths::repository().join("infra/kafka/start.sh");
    let binaries = Binaries { etcd, rollcall: paths::rollcall(), broker };
    say(&format!("{}: {} (seed {seed})", scenario.name, scenario.shows));
    let kept = reports().join(format!("{}-{name}", started.strftime("%Y%m%d-%H%M%S")));
    let record = match run::play(&scenario, seed, folder, &binaries, say).await {
        Ok(record) => record,
        Err(why) => {
            keep_logs(folder, &kept)?;
            return Err(format!("{why}; logs are in {}", kept.display()));
        }
    };
    let run = Run { seed, commit, started_at: started.strftime("%Y-%m-%dT%H:%M:%SZ").to_string() };
    let report = Report::of(&scenario, &run, &record);
    let text = report.text(&scenario, &record);
    if !report.holds() {
        keep_logs(folder, &kept)?;
    }
    let json = serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?;
    write(&kept, "report.json", &(json + "\n"))?;
    write(&kept, "report.html", &page::of(&scenario, &report, &record))?;
    write(&kept, "report.txt", &text)?;
    print(&text);
    print(&format!("{}\n", kept.display()));
    Ok(report.holds())
}

fn folder() -> PathBuf {
    paths::repository().join("chaos/scenarios")
}

fn reports() -> PathBuf {
    paths::repository().join("chaos/reports")
}

fn read(name: &str) -> Result<Scenario, String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.chars().all(plain) {
        return Err(format!("{name:?} is no scenario's name"));
    }
    let file = folder().join(format!("{name}.toml"));
    let text = std::fs::read_to_string(&file)
        .map_err(|_| format!("there is no scenario {name:?}; there are {}", names().join(", ")))?;
    Scenario::parse(name, &text).map_err(|why| format!("{}: {why}", file.display()))
}

/// The scenarios that there are.
#[must_use]
pub fn names() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".toml")?.to_owned()))
        .collect();
    names.sort_unstable();
    names
}

fn write(folder: &Path, name: &str, text: &str) -> Result<(), String> {
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(folder.join(name), text));
    written.map_err(|error| format!("{}: {error}", folder.join(name).display()))
}

/// What the programs said, out of the world before it goes.
fn keep_logs(from: &Path, kept: &Path) -> Result<(), String> {
    for entry in std::fs::read_dir(from).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if (name.ends_with(".log") || name.ends_with(".toml"))
            && let Ok(text) = std::fs::read(entry.path())
        {
            write(&kept.join("logs"), &name, &String::from_utf8_lossy(&text))?;
        }
    }
    Ok(())
}

/// The commit that is played, with a word where files differ from it.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let done = std::process::Command::new("git")
            .current_dir(paths::repository())
            .args(arguments)
            .output()
            .ok()?;
        done.status.success().then(|| String::from_utf8_lossy(&done.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    let is_clean = git(&["status", "--porcelain"]).is_none_or(|changes| changes.is_empty());
    if is_clean { commit } else { format!("{commit} and changes") }
}
