//! SIGKILL of every process in turn, under traffic, on the real parts.
//!
//! Expected: no acknowledged registration lost (I01), none resurrected (I11), no epoch twice (I03), and every view
//! equal to its origin within ten seconds of the process's return (I32).

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use rollcall_tests::convergence::are_equal;
use rollcall_tests::http::Http;
use rollcall_tests::regions::{NAMES, Regions};

use crate::store;
use crate::traffic::Traffic;

/// What it shows, in one line.
pub const SHOWS: &str = "three regions: every process killed in turn loses nothing, and all views converge";
/// Every view equals its origin this long after the process is back.
const CONVERGED_WITHIN: Duration = Duration::from_secs(10);
/// Owners of one instance each, in every region.
const OWNERS: usize = 8;

/// What one kill led to.
#[derive(Clone, Debug)]
pub struct Step {
    /// Which process.
    pub process: String,
    /// From the kill until the process could be used again.
    pub back_after: Duration,
    /// From then until every view equalled its origin; `None` when it took too long.
    pub converged_after: Option<Duration>,
}

/// What the run found.
#[derive(Clone, Debug)]
pub struct Report {
    /// Reproduces the owners' choices.
    pub seed: u64,
    /// One for each process.
    pub steps: Vec<Step>,
    /// Acknowledged writes, writes without answer, refusals, in all regions.
    pub counts: (u64, u64, u64),
    /// Broken promises; none is what is expected.
    pub broken: Vec<String>,
}

impl Report {
    /// As text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("kill-each, seed {}\n", self.seed);
        for step in &self.steps {
            let converged = step
                .converged_after
                .map_or("NOT in time".to_owned(), |d| format!("{:.1} s", d.as_secs_f64()));
            let back = step.back_after.as_secs_f64();
            let _ = writeln!(
                text,
                "  killed {:<20} back after {back:.1} s, views equal after {converged}",
                step.process
            );
        }
        let (acknowledged, unknown, refused) = self.counts;
        let _ = writeln!(
            text,
            "  writes acknowledged {acknowledged}, without answer {unknown}, refused {refused}"
        );
        for broken in &self.broken {
            let _ = writeln!(text, "  BROKEN {broken}");
        }
        let _ = writeln!(text, "{}", if self.broken.is_empty() { "held" } else { "broken" });
        text
    }
}

/// Runs it; `say` hears what happens.
///
/// # Panics
/// When the regions do not start or a process cannot be started again.
pub async fn run(seed: u64, say: impl Fn(&str)) -> Report {
    let mut regions = Regions::up(None);
    let cells: Vec<Http> = NAMES.iter().map(|name| regions.cell(name)).collect();
    let traffic: Vec<Traffic> = (0_u64..)
        .zip(&cells)
        .map(|(at, cell)| Traffic::start(cell, OWNERS, seed.wrapping_mul(10).wrapping_add(at)))
        .collect();
    let mut broken = Vec::new();
    let mut steps = Vec::new();
    if converged(&traffic, &cells).await.is_none() {
        broken.push("I32: the views were not equal before the first fault".to_owned());
    }
    for process in Regions::processes() {
        say(&format!("kill {process}"));
        let before = acknowledged(&traffic);
        let killed = Instant::now();
        regions.control("kill", &process).expect("a process is killed");
        // Traffic meets the fault before it heals.
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        regions.control("start", &process).expect("a process starts again");
        regions.control("wait", &process).expect("a process can be used again");
        let back_after = killed.elapsed();
        tokio::time::sleep(Duration::from_millis(500)).await;
        let converged_after = converged(&traffic, &cells).await;
        if converged_after.is_none() {
            let why = are_equal(&cells).await.err().unwrap_or_default();
            broken.push(format!("I32: {process}: views not equal within {CONVERGED_WITHIN:?}: {why}"));
        }
        if acknowledged(&traffic) < before + 5 {
            broken
                .push(format!("quiet: {process}: fewer than five writes were acknowledged around the kill"));
        }
        steps.push(Step { process, back_after, converged_after });
    }
    let mut counts = (0, 0, 0);
    for (traffic, name) in traffic.into_iter().zip(NAMES) {
        traffic.write(false);
        let ledger = traffic.stop().await;
        let mut ledger = ledger.lock().unwrap().clone();
        // The ordinal of the only incarnation of this run is 1: the epoch's upper bits.
        let stands = store::registrations(&regions.etcd(name), name).expect("etcd answers");
        ledger.compare(&stands.into_iter().map(|(id, revision)| (id, (1 << 40) | revision)).collect());
        broken.extend(ledger.broken.iter().map(|what| format!("{name}: {what}")));
        counts = (counts.0 + ledger.acknowledged, counts.1 + ledger.unknown, counts.2 + ledger.refused);
    }
    if !broken.is_empty() {
        say(&format!("what every process said is kept in {}", regions.keep().display()));
    }
    Report { seed, steps, counts, broken }
}

/// Lets writes rest and waits until every view equals its origin.
async fn converged(traffic: &[Traffic], cells: &[Http]) -> Option<Duration> {
    traffic.iter().for_each(|traffic| traffic.write(false));
    let started = Instant::now();
    let mut after = None;
    while after.is_none() && started.elapsed() < CONVERGED_WITHIN {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if are_equal(cells).await.is_ok() {
            after = Some(started.elapsed());
        }
    }
    traffic.iter().for_each(|traffic| traffic.write(true));
    after
}

fn acknowledged(traffic: &[Traffic]) -> u64 {
    traffic.iter().map(|traffic| traffic.ledger.lock().unwrap().acknowledged).sum()
}
