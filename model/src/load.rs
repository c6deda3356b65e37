//! What a report of load is worth: a lifecycle derived from it, and whether readers should hear of it.
//!
//! Readers route by coarse load, and every write reaches every holder of the state. Promises: a value that swings
//! around any point by less than the band around it writes nothing; however an instance's load moves, it causes at
//! most a burst of writes and then one every so often; a lifecycle that the owner tells is never delayed. Full is load,
//! not lifecycle.

use std::time::Duration;

use crate::declaration::Declared;
use crate::lifecycle::{LastLoad, Lifecycle, Load};
use crate::registration::Owned;
use crate::time::Instant;

/// When load degrades an instance, and how often its load is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadLimits {
    /// So many waiting pieces of work degrade a healthy instance. 100: at 100 ms each, a caller waits for ten seconds,
    /// longer than any delivery does.
    pub degraded_queue: u32,
    /// It recovers at so many or fewer. 50: half, so that a queue that swings does not swing the lifecycle.
    pub recovered_queue: u32,
    /// Such a share of failures degrades a healthy instance. 0.3: with one retry a caller still succeeds in nine of
    /// ten calls; beyond it retries make things worse.
    pub degraded_errors: f64,
    /// It recovers at such a share or less. 0.1.
    pub recovered_errors: f64,
    /// Time between two writes of one instance's load in the long run. 30 s: 10,000 instances whose load moves all the
    /// time are 333 writes a second, a tenth of what a store takes.
    pub write_every: Duration,
    /// Writes that may come at once before that. 4: a spike and its end are told as they happen.
    pub write_burst: u32,
}

impl Default for LoadLimits {
    fn default() -> Self {
        Self {
            degraded_queue: 100,
            recovered_queue: 50,
            degraded_errors: 0.3,
            recovered_errors: 0.1,
            write_every: Duration::from_secs(30),
            write_burst: 4,
        }
    }
}

/// Something that readers should hear of.
#[derive(Clone, Debug, PartialEq)]
pub struct News {
    /// What readers are to see.
    pub owned: Owned,
    /// The owner told another lifecycle: this is written whatever was written before.
    pub is_told: bool,
}

/// Pieces of work by which a count must differ from what readers see, at least.
const COUNT_BAND: u32 = 4;
/// Share of failures by which it must differ.
const ERRORS_BAND: f64 = 0.1;

/// What a renewal's words change for readers; none when they would not route otherwise.
#[must_use]
pub fn news(
    declared: &Declared,
    seen: &Owned,
    lifecycle: Option<Lifecycle>,
    load: Option<Load>,
    limits: &LoadLimits,
) -> Option<News> {
    let was = if seen.strained { Lifecycle::Healthy } else { seen.lifecycle };
    let told = lifecycle.unwrap_or(was);
    let strained = told == Lifecycle::Healthy
        && match load {
            Some(load) => is_strained(load, seen.strained, limits),
            // A word without load is the owner's own judgement.
            None => seen.strained && lifecycle.is_none(),
        };
    // Whoever says "healthy" with every beat says nothing new; without a load beside it, it overrules what was derived.
    let is_told = told != was || (seen.strained && load.is_none() && lifecycle.is_some());
    let is_news = is_told
        || strained != seen.strained
        || load.is_some_and(|load| is_worth_telling(declared, seen.load.get(), load));
    is_news.then(|| News {
        owned: Owned {
            lifecycle: if strained { Lifecycle::Degraded } else { told },
            strained,
            load: load.map_or(seen.load, LastLoad::from),
            ..seen.clone()
        },
        is_told,
    })
}

/// Spends one write of an instance's load; `false` when it has to wait. `next` is the instance's own memory of it.
pub fn may_write(next: &mut Instant, now: Instant, limits: &LoadLimits) -> bool {
    let from = (*next).max(now);
    if from.since(now) > limits.write_every * limits.write_burst.saturating_sub(1) {
        return false;
    }
    *next = from.plus(limits.write_every);
    true
}

fn is_strained(load: Load, already: bool, limits: &LoadLimits) -> bool {
    if already {
        load.queue_depth > limits.recovered_queue || load.error_rate > limits.recovered_errors
    } else {
        load.queue_depth >= limits.degraded_queue || load.error_rate >= limits.degraded_errors
    }
}

fn is_worth_telling(declared: &Declared, seen: Option<Load>, load: Load) -> bool {
    let Some(seen) = seen else { return true };
    // Half of what readers see, and a few: the band has no boundary that a value could swing around.
    let moved = |was: u32, now: u32| was.abs_diff(now) > COUNT_BAND.max(was / 2);
    moved(seen.in_flight, load.in_flight)
        || moved(seen.queue_depth, load.queue_depth)
        || (seen.error_rate - load.error_rate).abs() > ERRORS_BAND
        || declared.max_concurrency.is_some_and(|most| {
            // Callers leave a full one alone, so it is told at once; and its end once a quarter is free again.
            if is_full(declared, seen) {
                !is_full(declared, load) && load.in_flight <= most - most.div_ceil(4)
            } else {
                is_full(declared, load)
            }
        })
}

/// No free hand and no place in the queue.
#[must_use]
pub fn is_full(declared: &Declared, load: Load) -> bool {
    declared
        .max_concurrency
        .is_some_and(|most| load.in_flight >= most && load.queue_depth >= declared.max_queue)
}
