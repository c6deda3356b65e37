//! `rollcall dev`: time from its start to `ready`, and resident memory with three regions and twelve agents.
//! Goals: ≤ 1 s, ≤ 120 MB.

use std::time::Duration;

use crate::{load, machine, resident_mib, spread};
use rollcall_tests::dev::Dev;

const ROUNDS: usize = 5;

pub(super) fn run() {
    println!("rollcall dev, three regions, twelve agents");
    println!("{}", machine());
    let (mut ready, mut at_ready, mut later) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        let dev = Dev::start(&[]);
        let first = resident_mib(dev.pid());
        std::thread::sleep(Duration::from_secs(30));
        let after = resident_mib(dev.pid());
        println!(
            "round {round}: ready after {:.2} s, {first:.0} MiB then, {after:.0} MiB 30 s later; load {}",
            dev.ready_after.as_secs_f64(),
            load()
        );
        ready.push(dev.ready_after.as_secs_f64());
        at_ready.push(first);
        later.push(after);
        let _ = dev.stop();
    }
    println!("min / median / max");
    println!("  start to ready, s            {}  (goal 1)", spread(&ready, 2));
    println!("  resident at ready, MiB       {}", spread(&at_ready, 0));
    println!("  resident 30 s later, MiB     {}  (goal 120 MB = 114 MiB)", spread(&later, 0));
}
