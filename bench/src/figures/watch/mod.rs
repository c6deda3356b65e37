//! Fan-out: a thousand changes a second told to many watchers by a cell, beside etcd's own watch of the same changes.
//!
//! The two take turns on one etcd. Changes are updates of registrations over sessions, or puts of values as long as
//! those. A change is timed when its writer has its acknowledgement, and for each watcher when the message came that
//! reaches its revision. Deliveries are changes times watchers, counted from what came. The reader is no full client: it
//! reads revisions and counts changes in the bytes ([`crate::receiver`]). Goals: p99 with 100 watchers ≤ 2 ×
//! etcd's and ≤ 25 ms; with 1,000 deliveries per CPU-second ≥ 5 × etcd's, at a p99 ≤ 50 ms.

mod watching;
mod writers;

use std::time::{Duration, Instant};

use crate::region::Region;
use crate::{cpu_time, load, machine, spread};

use watching::{By, Watching};
use writers::{CellWriter, EtcdWriter};

const ROUNDS: usize = 3;
const WATCHERS: [usize; 2] = [100, 1_000];
/// Connections that the watchers share.
const CONNECTIONS: usize = 4;
const PER_SECOND: usize = 1_000;
const CHANGES: usize = 4 * PER_SECOND;

/// What one measurement gave.
struct Measured {
    /// From acknowledged to told, p50 and p99 in milliseconds.
    waits: (f64, f64),
    /// The same from when it was asked for.
    whole: (f64, f64),
    changes_per_second: f64,
    deliveries: f64,
    messages: f64,
    bytes: f64,
    seconds: f64,
    /// Processor seconds of the cell, of etcd, and of this process.
    cell: f64,
    etcd: f64,
    own: f64,
}

pub(super) async fn run() {
    println!(
        "{PER_SECOND} changes/s told to {WATCHERS:?} watchers on {CONNECTIONS} connections, {CHANGES} changes a measurement; p50 / p99"
    );
    println!("changes and revisions are counted in the bytes by a plain reader, alike for both");
    println!("{}", machine());
    let region = Region::up();
    let mut cell = CellWriter::open(&region.cell()).await;
    let mut etcd = EtcdWriter::open(&region.etcd(), cell.size_in(&region.etcd()).await).await;
    let all = [By::Cell, By::Etcd, By::EtcdShared];
    let mut rounds: Vec<Vec<Measured>> = Vec::new();
    for round in 0..=ROUNDS {
        let mut row = Vec::new();
        for watchers in WATCHERS {
            for by in all {
                let watching = Watching::open(&region, by, watchers).await;
                let before = (region.cell_time(), region.etcd_time(), cpu_time(std::process::id()));
                let began = Instant::now();
                let changes = match by {
                    By::Cell => cell.write().await,
                    By::Etcd | By::EtcdShared => etcd.write().await,
                };
                let wrote = began.elapsed().as_secs_f64();
                watching.told(watchers * changes.len()).await;
                let since = |now: Duration, then: Duration| (now - then).as_secs_f64();
                let measured = Measured {
                    seconds: began.elapsed().as_secs_f64(),
                    cell: since(region.cell_time(), before.0),
                    etcd: since(region.etcd_time(), before.1),
                    own: since(cpu_time(std::process::id()), before.2),
                    changes_per_second: changes.len() as f64 / wrote,
                    ..watching.close(changes)
                };
                if round > 0 {
                    print(round, watchers, by, &measured);
                    row.push(measured);
                }
            }
        }
        if round > 0 {
            rounds.push(row); // the first round warms all of them up
        }
    }
    summary(&rounds);
}

fn print(round: usize, watchers: usize, by: By, of: &Measured) {
    println!(
        "round {round}: {watchers} watchers of {by:?}: acknowledged → told {:.1} / {:.1} ms, asked → told {:.1} / {:.1} ms at {:.0} changes/s; {:.0} deliveries in {:.1} s: {:.0} messages, {:.0} MB; CPU s: cell {:.2}, etcd {:.2}, here {:.2}; load {}",
        of.waits.0,
        of.waits.1,
        of.whole.0,
        of.whole.1,
        of.changes_per_second,
        of.deliveries,
        of.seconds,
        of.messages,
        of.bytes / 1e6,
        of.cell,
        of.etcd,
        of.own,
        load()
    );
}

fn summary(rounds: &[Vec<Measured>]) {
    // In the order in which a round measures them.
    let of = |at: usize, what: &dyn Fn(&Measured) -> f64| -> Vec<f64> {
        rounds.iter().map(|row| what(&row[at])).collect()
    };
    let ratio = |ours: &[f64], theirs: &[f64]| -> Vec<f64> {
        ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect()
    };
    let better = |one: &[f64], other: &[f64], pick: fn(f64, f64) -> f64| -> Vec<f64> {
        one.iter().zip(other).map(|(one, other)| pick(*one, *other)).collect()
    };
    for (at, watchers) in WATCHERS.into_iter().enumerate() {
        let (ours, streams, shared) = (at * 3, at * 3 + 1, at * 3 + 2);
        let goal = if watchers == 100 {
            "p99 ≤ 25 ms and ≤ 2 × etcd"
        } else {
            "p99 ≤ 50 ms, 5 × etcd per CPU-second"
        };
        println!("{watchers} watchers, min / median / max (goal: {goal})");
        for (name, wait) in [
            ("p50 acknowledged → told", &(|m: &Measured| m.waits.0) as &dyn Fn(&Measured) -> f64),
            ("p99 acknowledged → told", &|m: &Measured| m.waits.1),
            ("p99 asked → told", &|m: &Measured| m.whole.1),
        ] {
            let (a, b, c) = (of(ours, wait), of(streams, wait), of(shared, wait));
            println!("  {name}, ms: cell {}", spread(&a, 1));
            println!("    etcd, a stream each     {}", spread(&b, 1));
            println!("    etcd, shared streams    {}", spread(&c, 1));
            if name.starts_with("p99") {
                let to = ratio(&a, &better(&b, &c, f64::min));
                println!("    cell to the better      {}", spread(&to, 2));
            }
        }
        let a = of(ours, &|m| m.deliveries / m.cell);
        let whole = of(ours, &|m| m.deliveries / (m.cell + m.etcd));
        let b = of(streams, &|m| m.deliveries / m.etcd);
        let c = of(shared, &|m| m.deliveries / m.etcd);
        let best = better(&b, &c, f64::max);
        println!("  deliveries per CPU-second: cell {}", spread(&a, 0));
        println!("    cell and its etcd       {}", spread(&whole, 0));
        println!("    etcd, a stream each     {}", spread(&b, 0));
        println!("    etcd, shared streams    {}", spread(&c, 0));
        println!("    cell to the better      {}", spread(&ratio(&a, &best), 1));
        println!("    cell and its etcd to it {}", spread(&ratio(&whole, &best), 1));
    }
}
