//! Runs a scenario on real processes and prints its report.
#![allow(clippy::print_stdout, reason = "the report is the result")]

use std::process::ExitCode;

use rollcall_chaos::kill_each;

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let scenario = arguments.next().unwrap_or_default();
    if scenario != "kill-each" {
        eprintln!("usage: rollcall-chaos kill-each [SEED]");
        return ExitCode::from(2);
    }
    let seed = arguments.next().and_then(|seed| seed.parse().ok()).unwrap_or_else(rand::random::<u32>);
    let report = kill_each::run(u64::from(seed), |line| eprintln!("{line}")).await;
    print!("{}", report.text());
    if report.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
