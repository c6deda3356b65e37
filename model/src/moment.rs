//! A moment that a file remembers, by two clocks, so that a copy is never taken for younger than it is because somebody
//! put the wall clock back (promises I21 and I23, fault F15).
//!
//! Promises: of the two the one that says longer is believed. Never here: reading a clock.

use std::time::Duration;

use crate::time::Timestamp;

/// How long a machine runs, sleep included, and which of its boots that is: no wall clock moves it, and it means nothing
/// in another boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uptime {
    /// Of the boot, random.
    pub boot: String,
    /// Milliseconds since it; negative for a moment before it.
    pub ms: i64,
}

/// A moment by the wall clock, and by the machine's uptime where that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// By the wall clock.
    pub wall: Timestamp,
    /// By the uptime.
    pub uptime: Option<Uptime>,
}

impl Moment {
    /// A moment that only the wall clock knows.
    #[must_use]
    pub const fn of_wall(wall: Timestamp) -> Self {
        Self { wall, uptime: None }
    }

    /// The moment this long before.
    #[must_use]
    pub fn before(mut self, by: Duration) -> Self {
        let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.wall = Timestamp(self.wall.0.saturating_sub(by));
        if let Some(uptime) = &mut self.uptime {
            uptime.ms = uptime.ms.saturating_sub(by);
        }
        self
    }

    /// Whether this came after the other: by the uptime where both are of one boot, which nobody puts back, and by the
    /// wall clock else.
    #[must_use]
    pub fn is_after(&self, other: &Self) -> bool {
        match (&self.uptime, &other.uptime) {
            (Some(this), Some(that)) if this.boot == that.boot => this.ms > that.ms,
            _ => self.wall > other.wall,
        }
    }

    /// How long ago this was, told later: by whichever clock says longer, and never less than nothing.
    ///
    /// In another boot, or on another machine that the file came to, the wall clock alone knows.
    #[must_use]
    pub fn ago(&self, later: &Self) -> Duration {
        let by_wall = later.wall.0.saturating_sub(self.wall.0);
        let by_uptime = match (&self.uptime, &later.uptime) {
            (Some(then), Some(now)) if then.boot == now.boot => now.ms.saturating_sub(then.ms),
            _ => 0,
        };
        Duration::from_millis(by_wall.max(by_uptime).max(0).unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000;

    fn at(wall: i64, boot: &str, ms: i64) -> Moment {
        Moment { wall: Timestamp(wall), uptime: Some(Uptime { boot: boot.into(), ms }) }
    }

    #[test]
    fn i23_f15_a_wall_clock_that_was_put_back_makes_nothing_younger() {
        let saved = at(100 * DAY, "one", 5_000);
        for step in [-DAY, -3_600_000, 0] {
            let ago = saved.ago(&at(100 * DAY + 60_000 + step, "one", 65_000));
            assert_eq!(ago, Duration::from_secs(60), "a step of {step} ms");
        }
        // One that was put forward makes it older, which is the safe side.
        assert_eq!(saved.ago(&at(101 * DAY, "one", 65_000)), Duration::from_secs(86_400));
    }

    #[test]
    fn f15_what_came_later_is_told_by_the_uptime_of_one_boot_and_by_the_wall_clock_else() {
        let (early, late) = (at(100 * DAY, "one", 5_000), at(99 * DAY, "one", 6_000));
        assert!(late.is_after(&early) && !early.is_after(&late), "the wall clock was put back between them");
        let next = at(100 * DAY + 1, "two", 1);
        assert!(next.is_after(&early) && !early.is_after(&next), "another boot");
        assert!(!early.is_after(&early));
    }

    #[test]
    fn after_a_boot_the_wall_clock_tells_and_never_less_than_nothing() {
        let saved = at(100 * DAY, "one", 5_000_000);
        assert_eq!(saved.ago(&at(100 * DAY + 60_000, "two", 1_000)), Duration::from_secs(60));
        assert_eq!(saved.ago(&at(99 * DAY, "two", 9_000_000)), Duration::ZERO);
        let plain = Moment::of_wall(Timestamp(100 * DAY));
        assert_eq!(plain.ago(&at(100 * DAY + 60_000, "two", 1_000)), Duration::from_secs(60));
    }

    #[test]
    fn i21_a_copy_of_an_old_state_is_as_old_as_the_state() {
        let saved = at(100 * DAY, "one", 5_000).before(Duration::from_secs(30));
        assert_eq!(saved.ago(&at(100 * DAY - DAY, "one", 6_000)), Duration::from_secs(31));
    }
}
