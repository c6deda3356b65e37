//! The time that ages are told by: monotonic, and cheap enough to be asked with every resolve.
//!
//! On Linux it is the kernel's coarse monotonic clock, which moves every few milliseconds and costs a tenth of the
//! fine one. An age is told in milliseconds and bounds are in seconds.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rollcall_model::{Clock, Uptime};

/// A clock that begins now.
pub(crate) fn clock() -> Clock {
    let zero = monotonic();
    let wall_ms = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    };
    Clock::new(move || monotonic().saturating_sub(zero), wall_ms).with_uptime(uptime)
}

#[cfg(target_os = "linux")]
fn uptime() -> Option<Uptime> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned();
    let since = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Some(Uptime { boot, ms: since.tv_sec.saturating_mul(1_000).saturating_add(since.tv_nsec / 1_000_000) })
}

#[cfg(not(target_os = "linux"))]
const fn uptime() -> Option<Uptime> {
    None
}

#[cfg(target_os = "linux")]
fn monotonic() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    // The kernel's monotonic clock begins at zero.
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(not(target_os = "linux"))]
fn monotonic() -> Duration {
    static ZERO: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    ZERO.elapsed()
}
