//! An open loop: calls that are due at a steady rate, whatever became of the calls before.
//!
//! Who times a call from when it was due, and not from when it was made, sees what a caller sees who does not wait for
//! others: a server that stands still for a second makes all calls of that second late.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;

/// Gives so many calls out, so many a second, each with its number and the moment when it is due.
///
/// A thread of its own sleeps between them: a runtime's timer is exact to a millisecond only, which at a thousand calls a
/// second is as long as the time between two.
///
/// # Panics
/// When there are more than 2³² of them.
#[must_use]
pub fn offer(calls: usize, per_second: u32) -> mpsc::Receiver<(usize, Instant)> {
    let (due, calls_due) = mpsc::channel(calls);
    std::thread::spawn(move || {
        let began = Instant::now();
        for call in 0..calls {
            let at = began
                + Duration::from_secs(1) * u32::try_from(call).expect("a number of 32 bits") / per_second;
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            if due.try_send((call, at)).is_err() {
                return; // nobody wants more of them
            }
        }
    });
    calls_due
}
