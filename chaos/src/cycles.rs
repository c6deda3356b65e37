//! Watches that come and go by the thousand, on a real cell: what they held is given back (I25, F39).
//!
//! Nothing else happens to the cell meanwhile, so whatever it holds more at the end was left by a watch.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rollcall_tests::eventually::eventually;
use rollcall_tests::http::Http;
use rollcall_tests::stage::{Shape, Stage};
use serde_json::json;

use crate::watchers::{Address, Face, Told, Watch};

/// What it is called by.
pub const VERB: &str = "watch-cycles";
/// What it shows, in one line.
pub const SHOWS: &str = "one cell: watches that are opened and dropped by the thousand leave nothing behind";
/// Cycles of the whole run; half of them over each face.
pub const CYCLES: usize = 10_000;
/// Watches that are open at once.
const AT_ONCE: usize = 16;
/// What a watch downloads: some hundred registrations, more than one that needs no place for its snapshot.
const REGISTRATIONS: usize = 150;
/// So much more than before is nothing: what an allocator keeps, and a connection that is just being closed.
const MORE: f64 = 1.05;
/// How long what is given back may take: probes of connections that went without a word take half of it.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);

/// What a process holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    /// Tasks of its runtime.
    pub tasks: f64,
    /// File descriptors.
    pub descriptors: f64,
    /// Resident memory in MiB.
    pub memory_mib: f64,
}

/// What the run found.
#[derive(Clone, Debug)]
pub struct Report {
    /// Watches that were opened, told something, and dropped.
    pub cycles: usize,
    /// Before, after as many as warm a process up.
    pub before: Held,
    /// After.
    pub after: Held,
    /// Broken promises; none is what is expected.
    pub broken: Vec<String>,
}

impl Report {
    /// As text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("watch-cycles: {} cycles\n", self.cycles);
        for (name, held) in [("before", self.before), ("after", self.after)] {
            let Held { tasks, descriptors, memory_mib } = held;
            let _ = writeln!(
                text,
                "  {name:<7} {tasks:5} tasks, {descriptors:5} descriptors, {memory_mib:7.1} MiB"
            );
        }
        for broken in &self.broken {
            let _ = writeln!(text, "  BROKEN {broken}");
        }
        let _ = writeln!(text, "{}", if self.broken.is_empty() { "held" } else { "broken" });
        text
    }
}

/// Runs so many cycles; `say` hears what happens.
///
/// # Panics
/// When the cell does not start.
pub async fn run(cycles: usize, say: impl Fn(&str)) -> Report {
    let settings = "[admission]\naddress_share = \"whole\"\n".to_owned();
    let mut stage = Stage::up(&Shape { members: 1, cells: 1, settings, ..Shape::default() }).await;
    let http = stage.http(0);
    eventually("a keeper is in office", Duration::from_secs(30), || async {
        stage.keeper().map(|_| ()).ok_or_else(|| "nobody".to_owned())
    })
    .await;
    for n in 0..REGISTRATIONS {
        let body = json!({
            "id": format!("chaos/watched/{n}"),
            "endpoints": [{"url": "http://127.0.0.1:9/"}],
            "capabilities": ["text:sum_up:v1"],
            // The run is over before any of them can lapse.
            "lease_seconds": 300,
        });
        http.register(&body).await.expect("it registers");
    }
    let pid = stage.cell(0).pid().expect("the cell runs");
    let (one, other) = stage.listens()[0].clone();
    let cell = Address { http: one, grpc: other };
    let mut broken = Vec::new();
    say("warming up");
    broken.extend(spin(&cell, (cycles / 10).max(200)).await);
    let before = settled(pid, &http, None).await;
    say(&format!("{cycles} cycles"));
    broken.extend(spin(&cell, cycles).await);
    let after = settled(pid, &http, Some(before)).await;
    for (what, was, is) in [
        ("tasks", before.tasks, after.tasks),
        ("descriptors", before.descriptors, after.descriptors),
        ("MiB", before.memory_mib, after.memory_mib),
    ] {
        if is > was * MORE {
            broken.push(format!("I25: {is} {what} after {cycles} watches, {was} before"));
        }
    }
    Report { cycles, before, after, broken }
}

/// Opens and drops so many watches, a few at once; gives what went wrong.
async fn spin(cell: &Address, cycles: usize) -> Vec<String> {
    let (left, cell) = (Arc::new(AtomicUsize::new(cycles)), Arc::new(cell.clone()));
    let spinning = (0..AT_ONCE).map(|_| {
        let (left, cell) = (Arc::clone(&left), Arc::clone(&cell));
        tokio::spawn(async move {
            let next = |left: usize| left.checked_sub(1);
            while let Ok(left) = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
                let face = if left % 2 == 0 { Face::Grpc } else { Face::Sse };
                // A third is dropped before it is told anything, a third in its snapshot, a third behind it.
                once(face, &cell, left % 3).await.map_err(|why| format!("{face:?}: {why}"))?;
            }
            Ok::<_, String>(())
        })
    });
    let mut broken = Vec::new();
    for task in spinning.collect::<Vec<_>>() {
        match task.await {
            Ok(done) => broken.extend(done.err()),
            Err(error) => broken.push(error.to_string()),
        }
    }
    broken
}

async fn once(face: Face, cell: &Address, upto: usize) -> Result<(), String> {
    let mut watch = Watch::open(face, cell, None).await?;
    if upto == 0 {
        return Ok(());
    }
    let told = async {
        loop {
            match (upto, watch.next().await?) {
                (1, Told::SnapshotBegin) | (_, Told::SnapshotEnd(_)) => return Ok::<_, String>(()),
                _ => {}
            }
        }
    };
    let told = tokio::time::timeout(SETTLED_WITHIN, told);
    told.await.map_err(|_| "it was told nothing".to_owned())?
}

/// What the process holds once it holds no more than before; or at last, if that does not come.
async fn settled(pid: u32, http: &Http, before: Option<Held>) -> Held {
    let until = tokio::time::Instant::now() + SETTLED_WITHIN;
    let mut last: Option<Held> = None;
    loop {
        let held = held(pid, http).await;
        let is_still =
            last.is_some_and(|last| (last.tasks, last.descriptors) == (held.tasks, held.descriptors));
        let is_less = |before: Held| {
            held.tasks <= before.tasks * MORE
                && held.descriptors <= before.descriptors * MORE
                && held.memory_mib <= before.memory_mib * MORE
        };
        if before.map_or(is_still, is_less) || tokio::time::Instant::now() > until {
            return held;
        }
        last = Some(held);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

async fn held(pid: u32, http: &Http) -> Held {
    let metrics = http.send("GET", "/metrics", &[], None).await.expect("the cell says its figures");
    let metrics = String::from_utf8_lossy(&metrics.bytes).into_owned();
    let figure = |name: &str| metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the cell runs");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().split(' ').next());
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("the cell runs").count();
    let kib: u32 = resident.and_then(|kib| kib.parse().ok()).expect("a figure");
    Held {
        tasks: figure("rollcall_cell_runtime_tasks").expect("the cell says how many tasks it has"),
        descriptors: f64::from(u32::try_from(files).unwrap_or(u32::MAX)),
        memory_mib: f64::from(kib) / 1024.0,
    }
}
