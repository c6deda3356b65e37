//! Callers while every process of the registry is dead, with the packets that they send to it counted (I27, F40).
//!
//! Played in a network namespace of its own, where a rule counts what goes to the ports of the cell: first while callers
//! only follow, then while they call, then while all that they call by is a copy of what is dead. A packet on the path of
//! a call would be one for each of ten thousands of calls. Never here: a packet of the registry's own parts; they stand
//! behind other ports.

mod callers;

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rollcall_client::{Registry, RegistryOptions};
use rollcall_model::{Freshness, Region};
use rollcall_tests::eventually::eventually;
use rollcall_tests::stage::{REGION, Shape, Stage};
use serde_json::Value;

use crate::game_day::sealed;
use callers::{Agents, Calls};

/// What it is called by.
pub const VERB: &str = "static-stability";
/// The verb of this program that runs inside of the namespace.
pub const WITHIN: &str = "static-stability-within";
/// What it shows, in one line.
pub const SHOWS: &str =
    "callers go on with every process of the registry dead, and no call sends it a packet";
/// Callers, each with a copy of its own.
const CALLERS: usize = 4;
/// How long packets are counted while all is well.
const CALM: Duration = Duration::from_secs(10);
/// How long everything is dead.
const DEAD: Duration = Duration::from_secs(35);
/// So many calls at least, or the run was too quiet to prove anything.
const CALLS_LEAST: u64 = 2_000;
/// Tries to reach the registry again in a second, of one caller, at most; each is a packet or a few.
const TRIES_MOST: u64 = 20;

/// What was done and sent in a part of the run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part {
    /// Questions that callers asked their copies.
    pub resolves: u64,
    /// Of these, without an answer to go by.
    pub resolves_failed: u64,
    /// Calls of agents.
    pub calls: u64,
    /// Of these, without the agent's answer.
    pub calls_failed: u64,
    /// Packets to the registry.
    pub packets: u64,
    /// How long it took.
    pub took: Duration,
}

/// What the run found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    parts: Vec<(&'static str, Part)>,
    notes: Vec<String>,
    /// Broken promises; none is what is expected.
    pub broken: Vec<String>,
}

impl Report {
    /// As text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{VERB}\n");
        for (name, part) in &self.parts {
            let _ = writeln!(
                text,
                "  {name:<24} {:5.1} s, {:8} resolves ({} failed), {:6} calls ({} failed), {:5} packets to the registry",
                part.took.as_secs_f64(),
                part.resolves,
                part.resolves_failed,
                part.calls,
                part.calls_failed,
                part.packets
            );
        }
        for note in &self.notes {
            let _ = writeln!(text, "  {note}");
        }
        for broken in &self.broken {
            let _ = writeln!(text, "  BROKEN {broken}");
        }
        let _ = writeln!(text, "{}", if self.broken.is_empty() { "held" } else { "broken" });
        text
    }

    fn demand(&mut self, holds: bool, words: impl Into<String>) {
        if !holds {
            self.broken.push(words.into());
        }
    }
}

/// Runs it in a world of its own; gives the exit code.
pub async fn sealed() -> u8 {
    let missing = sealed::missing();
    if !missing.is_empty() {
        eprintln!("{}", missing.join("\n"));
        return 2;
    }
    sealed::run_as(WITHIN, &[]).await
}

/// The run itself; `say` hears what happens.
///
/// # Errors
/// This is not a world of its own, or a tool in it failed.
///
/// # Panics
/// When the registry does not start.
pub async fn within(say: impl Fn(&str)) -> Result<Report, String> {
    if std::process::id() != 1 {
        return Err(format!("{WITHIN} is not for people: use {VERB}"));
    }
    run("ip", &["link", "set", "lo", "up"])?;
    let mut report = Report::default();
    let mut stage = Stage::up(&Shape { members: 1, cells: 1, ..Shape::default() }).await;
    eventually("a keeper is in office", Duration::from_secs(30), || async {
        stage.keeper().map(|_| ()).ok_or_else(|| "nobody".to_owned())
    })
    .await;
    let agents = Agents::start(&stage.http(0)).await;
    let counter = Packets::count(stage.listens())?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut registries = Vec::new();
    for n in 0..CALLERS {
        registries.push(registry(&stage, &folder.path().join(format!("caller{n}"))).await?);
    }
    for registry in &registries {
        eventually("a caller has all agents, on disk too", Duration::from_secs(60), || async {
            let has = registry.snapshot().views()[0].state().map_or(0, |state| state.count());
            (has == agents.count()).then_some(()).ok_or_else(|| format!("{has} of {}", agents.count()))
        })
        .await;
    }
    on_disk(folder.path()).await;

    say("all is well, and nobody calls");
    let quiet = part(&counter, CALM, Calls::none()).await?;
    report.parts.push(("well, no calls", quiet));
    say("all is well, and everybody calls");
    let busy = part(&counter, CALM, Calls::start(&registries, &agents)).await?;
    report.parts.push(("well, calls", busy));
    // What follows a copy is acknowledgements and pings; how many depends on the moment, and not on the calls.
    report.demand(busy.packets <= quiet.packets * 2 + 50, "I27: calling sends packets to the registry");

    say("every process of the registry is killed, and one caller starts anew");
    stage.cell(0).kill();
    stage.etcd.member(0).kill();
    drop(registries.remove(0));
    let anew = registry(&stage, &folder.path().join("caller0")).await?;
    let status = anew.regions().into_iter().next().ok_or("a caller has its own region")?;
    let age = status.age.unwrap_or_default();
    report.notes.push(format!("started from disk: {} agents, {:.1} s old", status.count, age.as_secs_f64()));
    report.demand(status.count == agents.count(), "F40: a caller that starts has not all of its copy");
    report.demand(age > Duration::ZERO && age < DEAD * 4, format!("F40: its age is {age:?}"));
    registries.insert(0, anew);
    counter.reset()?;
    let dead = part(&counter, DEAD, Calls::start(&registries, &agents)).await?;
    report.parts.push(("dead, calls", dead));
    let tries = u64::try_from(CALLERS).unwrap_or(0) * DEAD.as_secs() * TRIES_MOST;
    report.demand(
        dead.packets <= tries,
        format!("I27: more packets to the dead than {tries}, of trying again"),
    );
    for (name, part) in [("well", busy), ("dead", dead)] {
        let failed = part.resolves_failed + part.calls_failed;
        report.demand(failed == 0, format!("I27: {name}: {failed} resolves or calls failed"));
        report.demand(part.calls >= CALLS_LEAST, format!("quiet: {name}: {} calls", part.calls));
        report.demand(part.packets * 10 < part.calls, format!("I27: {name}: a packet for every tenth call"));
    }
    let old =
        registries.iter().all(|r| r.regions().iter().all(|region| region.freshness == Freshness::Stale));
    report.demand(old, "I23: a copy of what is dead does not say that it is stale");

    say("everything is started again");
    stage.etcd.member(0).start_again();
    stage.cell(0).start_again();
    let back = Instant::now();
    for registry in &registries {
        eventually("a caller is current again", Duration::from_secs(60), || async {
            let regions = registry.regions();
            let is_current = regions.iter().all(|region| region.freshness == Freshness::Current);
            is_current.then_some(()).ok_or_else(|| format!("{regions:?}"))
        })
        .await;
    }
    report.notes.push(format!("all callers current {:.1} s after the start", back.elapsed().as_secs_f64()));
    let resyncs: u64 = registries.iter().map(|registry| registry.snapshot().views()[0].resyncs()).sum();
    report.demand(resyncs == 0, format!("REP-02: {resyncs} snapshots were downloaded anew"));
    Ok(report)
}

async fn registry(stage: &Stage, directory: &Path) -> Result<Registry, String> {
    std::fs::create_dir_all(directory).map_err(|error| error.to_string())?;
    let region = Region::parse(REGION).map_err(|finding| finding.detail)?;
    let urls = stage.listens().iter().map(|(_, grpc)| grpc.clone());
    let options = RegistryOptions::new(urls, region).with_directory(directory);
    Registry::connect(options).await.map_err(|error| error.to_string())
}

/// Waits until every caller's copy is on disk.
async fn on_disk(folder: &Path) {
    let has_file = |n: usize| {
        let directory = folder.join(format!("caller{n}"));
        let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
        files.filter_map(|file| file.metadata().ok()).any(|file| file.len() > 1_000)
    };
    eventually("every copy is on disk", Duration::from_secs(60), || async {
        let all = (0..CALLERS).all(has_file);
        all.then_some(()).ok_or_else(|| "not yet".to_owned())
    })
    .await;
}

async fn part(counter: &Packets, time: Duration, calls: Calls) -> Result<Part, String> {
    let (began, before) = (Instant::now(), counter.read()?);
    tokio::time::sleep(time).await;
    let packets = counter.read()? - before;
    let took = began.elapsed();
    Ok(Part { packets, took, ..calls.stop().await })
}

/// A rule that counts packets to the cell's ports.
struct Packets(());

impl Packets {
    fn count(listens: &[(String, String)]) -> Result<Self, String> {
        let port = |url: &String| url.rsplit(':').next().unwrap_or_default().to_owned();
        let ports: Vec<_> = listens.iter().flat_map(|(http, grpc)| [port(http), port(grpc)]).collect();
        run("nft", &["add table inet rollcall"])?;
        run("nft", &["add counter inet rollcall registry"])?;
        run("nft", &["add chain inet rollcall out { type filter hook output priority 0; policy accept; }"])?;
        let rule =
            format!("add rule inet rollcall out tcp dport {{ {} }} counter name registry", ports.join(", "));
        run("nft", &[&rule])?;
        Ok(Self(()))
    }

    fn read(&self) -> Result<u64, String> {
        let text = run("nft", &["-j", "list counter inet rollcall registry"])?;
        let parsed: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let parts = parsed["nftables"].as_array().into_iter().flatten();
        parts.filter_map(|part| part["counter"]["packets"].as_u64()).next().ok_or(text)
    }

    fn reset(&self) -> Result<(), String> {
        run("nft", &["reset counter inet rollcall registry"]).map(drop)
    }
}

fn run(tool: &str, arguments: &[&str]) -> Result<String, String> {
    let done = Command::new(tool).args(arguments).output().map_err(|error| format!("{tool}: {error}"))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    Err(format!("{tool} {}: {}", arguments.join(" "), String::from_utf8_lossy(&done.stderr).trim()))
}
