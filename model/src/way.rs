//! How long what another process says was under way, by questions, and by no clock but each side's own (I21).
//!
//! Who asks at one moment, and is told what the other's clock showed, knows that it showed this no earlier than then. From
//! there every other reading of that clock has a moment before which it cannot have been made, but for what two clocks may
//! drift apart. So one question, the one that opened the watch, bounds the way of all that follows, and costs it nothing.
//!
//! Promises: nothing is taken for younger than it is while the clocks drift by no more than [`DRIFT_PARTS`] and do not
//! jump; it looks older by no more than the question's round trip and that drift. Never here: half a round trip, which
//! guesses, and the wall clocks of two machines.

use std::time::Duration;

use crate::time::{Instant, Stamp};

/// Two clocks drift apart by a five-thousandth of the time at most, 200 ppm: twice what a poor crystal does alone.
pub const DRIFT_PARTS: u32 = 5_000;
/// A bound that may be too old by more than this is worth a question: a state that is heard of every second stays
/// *current* with four times as much. Drift alone brings a question after ten to twenty minutes.
const TIGHT: Duration = Duration::from_millis(250);
/// Longest first wait for another question when the last one's answer was long under way; half of it is chance: those who
/// came back together opened their watches in a crowd, and are not to ask in one.
const ASK_AGAIN: Duration = Duration::from_secs(40);
/// Longest wait, for a way that stays long; drawn like the first, it is about a minute.
const ASK_AGAIN_MOST: Duration = Duration::from_secs(90);
/// Stamps travel in whole milliseconds.
const ROUNDED: Duration = Duration::from_millis(1);
/// What comes so many nanoseconds before it can have been made, more than the step of a coarse clock, shows that a clock
/// jumped.
const JUMPED: i128 = 100_000_000;

/// What is known of the way from one other process.
#[derive(Clone, Debug)]
pub struct Way {
    teller: u64,
    known: Option<Known>,
    /// The next question.
    due: Instant,
    wait: Duration,
}

/// The other's clock showed `shown` no earlier than at `asked`, and no later than `within` after it.
#[derive(Clone, Copy, Debug)]
struct Known {
    shown: Duration,
    asked: Instant,
    within: Duration,
}

impl Way {
    /// The question that opens a watch was asked at `asked` and is answered now.
    #[must_use]
    pub fn opened(stamp: Stamp, asked: Instant, now: Instant, chance: f64) -> Self {
        let mut way = Self { teller: stamp.teller, known: None, due: now, wait: ASK_AGAIN };
        way.answered(stamp, asked, now, chance);
        way
    }

    /// Another question was answered. Of two answers the one that says more is kept; what another process says, which a
    /// proxy in between may have asked, says nothing of this one.
    pub fn answered(&mut self, stamp: Stamp, asked: Instant, now: Instant, chance: f64) {
        if stamp.teller != self.teller {
            return;
        }
        let known = self.known.filter(|known| known.made(stamp.at) >= nanos(asked.0));
        let known =
            *self.known.insert(known.unwrap_or(Known { shown: stamp.at, asked, within: now.since(asked) }));
        let enough = TIGHT.mul_f64(0.5 + 0.5 * chance);
        let is_tight = known.looseness(now) < enough;
        if is_tight {
            // When drift has made it loose.
            self.due = known.asked.plus((enough.saturating_sub(known.within)).saturating_mul(DRIFT_PARTS));
            self.wait = ASK_AGAIN;
        } else {
            self.due = now.plus(self.wait.mul_f64(0.5 + 0.5 * chance));
            self.wait = (self.wait * 2).min(ASK_AGAIN_MOST);
        }
    }

    /// How long what is here now and was made when the other's clock showed this was under way at most; `None` when
    /// nothing is known of it.
    pub fn at_most(&mut self, shown: Duration, now: Instant) -> Option<Duration> {
        let way = nanos(now.0) - self.known?.made(shown);
        if way < -JUMPED {
            self.known = None;
            self.due = now;
            return None;
        }
        let way = u64::try_from(way.max(0)).unwrap_or(u64::MAX);
        Some(Duration::from_nanos(way).saturating_add(ROUNDED))
    }

    /// Whether to ask now. It counts as asked: without an answer the next one waits its longest.
    pub fn asks(&mut self, now: Instant) -> bool {
        let is_due = now >= self.due;
        if is_due {
            self.due = now.plus(ASK_AGAIN_MOST);
        }
        is_due
    }
}

impl Known {
    /// The earliest moment at which the other's clock can have shown this, on ours; it may lie before our zero.
    fn made(&self, shown: Duration) -> i128 {
        let since = nanos(shown) - nanos(self.shown);
        // Drift makes what came later early, and what came before it early as well.
        nanos(self.asked.0) + since - since.abs() / i128::from(DRIFT_PARTS)
    }

    /// How much too old it makes what comes now, at most.
    fn looseness(&self, now: Instant) -> Duration {
        self.within.saturating_add(now.since(self.asked) / DRIFT_PARTS)
    }
}

fn nanos(time: Duration) -> i128 {
    i128::try_from(time.as_nanos()).unwrap_or(i128::MAX)
}
