//! The clocks of the process, and the only place that reads them.
//!
//! Promises: `monotonic` never goes back, whatever happens to the wall clock. Everything else is told the time as an
//! argument. `wall_ms` is for people to read and is never a reason to decide anything.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

static ZERO: OnceLock<Instant> = OnceLock::new();

/// Time since the process first asked; never goes back and means nothing outside this process.
#[must_use]
pub fn monotonic() -> Duration {
    ZERO.get_or_init(Instant::now).elapsed()
}

/// Milliseconds since 1970 by the wall clock; negative when that clock stands before 1970.
#[must_use]
pub fn wall_ms() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |ms| -ms),
    }
}

/// How long the machine runs, sleep included, and which of its boots that is; none where the system does not say.
#[must_use]
#[cfg(target_os = "linux")]
pub fn uptime() -> Option<(String, i64)> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned();
    let since = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Some((boot, since.tv_sec.saturating_mul(1_000).saturating_add(since.tv_nsec / 1_000_000)))
}

/// How long the machine runs: this system is not asked.
#[must_use]
#[cfg(not(target_os = "linux"))]
pub fn uptime() -> Option<(String, i64)> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_never_goes_back_across_threads() {
        let first = monotonic();
        let others: Vec<_> = (0..4).map(|_| std::thread::spawn(monotonic)).collect();
        let seen: Vec<_> = others.into_iter().map(|thread| thread.join().expect("reads")).collect();
        let last = monotonic();
        assert!(seen.iter().all(|at| *at >= first && *at <= last), "{first:?} {seen:?} {last:?}");
    }

    #[test]
    fn wall_is_in_milliseconds_since_1970() {
        let year_2020 = 1_577_836_800_000;
        let year_2200 = 7_258_118_400_000;
        assert!((year_2020..year_2200).contains(&wall_ms()));
    }
}
