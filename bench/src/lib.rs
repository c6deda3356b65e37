//! What every figure is printed with: machine, load, spread.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench fails by panicking and prints"
)]

pub mod bare;
pub mod fields;
pub mod figures;
pub mod fleet;
pub mod floor;
pub mod nacos;
pub mod offered;
pub mod pair;
pub mod plain;
pub mod receiver;
pub mod region;
pub mod session;

use std::time::Duration;

/// The machine and how busy it is, as one line.
#[must_use]
pub fn machine() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| {
            line.strip_prefix("model name").map(|rest| rest.trim_start_matches([' ', '\t', ':']).to_owned())
        })
        .unwrap_or_else(|| "unknown processor".into());
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let memory = read("/proc/meminfo");
    let memory =
        memory.lines().next().unwrap_or_default().split_whitespace().nth(1).unwrap_or("0").to_owned();
    let gib = memory.parse::<u64>().unwrap_or(0) / 1024 / 1024;
    format!("{cores} cores ({cpu}), {gib} GiB, load {}", load())
}

/// The load averages of 1, 5 and 15 minutes.
#[must_use]
pub fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

/// Resident memory of a process, in MiB.
#[must_use]
pub fn resident_mib(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

/// Processor time a process has used so far.
#[must_use]
pub fn cpu_time(pid: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = after.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// A value of a sorted list, by share from 0 to 1.
///
/// # Panics
/// When the list is empty.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = ((sorted.len() - 1) as f64 * share).round() as usize;
    sorted[at]
}

/// Minimum, median and maximum, as text.
#[must_use]
pub fn spread(values: &[f64], digits: usize) -> String {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let of = |share| quantile(&sorted, share);
    format!("{:.digits$} / {:.digits$} / {:.digits$}", of(0.0), of(0.5), of(1.0))
}
