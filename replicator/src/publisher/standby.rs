//! Who of several publishers of one region publishes, decided without I/O and without a word between them.
//!
//! Promises: one that stands by takes over when the feed stays behind the cell, whatever the reason; of two that publish at
//! once one soon leaves it to the other. Nothing depends on it: two at once are harmless (I34), they only write twice.
//! Never here: an election, a lock, an id. The feed itself shows whether somebody publishes.

use std::time::Duration;

use rollcall_model::{Instant, Position, Relation};

/// The feed is behind the cell for at least this long before one that stands by takes over, and up to half as long again, so
/// that several do not start at once. Two beats are missing then, and views are still younger than the three seconds
/// that make them stale.
const PATIENCE: Duration = Duration::from_secs(2);
/// Two publish at once for at least this long before one leaves it to the other, and up to three times as long, so that
/// rarely both do.
const RIVALRY: Duration = Duration::from_secs(3);
/// Another's records that are not followed by more in this time were left over, as those of a producer that was let go of.
const LEFT_OVER: Duration = Duration::from_millis(2_500);

/// One that stands by: follows cell and feed, and compares.
#[derive(Clone, Debug)]
pub struct Standby {
    patience: Duration,
    /// Where the cell is, and since when.
    cell: Option<(Position, Instant)>,
    /// Where the feed ends.
    tail: Option<Position>,
    /// What the feed has not reached yet, and since when.
    missing: Option<(Position, Instant)>,
}

/// Another publisher's records between the own ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rival {
    /// When the last of them was seen, and when it will have been too long.
    seen: Option<(Instant, Instant)>,
}

impl Standby {
    /// One that finds the feed ending at `tail`; `chance` is from 0 to 1.
    #[must_use]
    pub fn new(tail: Option<Position>, chance: f64) -> Self {
        Self { patience: PATIENCE + PATIENCE.mul_f64(chance / 2.0), cell: None, tail, missing: None }
    }

    /// The cell is at this position.
    pub fn cell_at(&mut self, position: &Position, now: Instant) {
        if self.cell.as_ref().is_some_and(|(known, _)| known == position) {
            return;
        }
        self.cell = Some((position.clone(), now));
        if self.missing.is_none() {
            self.compare();
        }
    }

    /// The feed reaches to this position.
    pub fn feed_at(&mut self, position: &Position) {
        let is_ahead = self.tail.as_ref().is_none_or(|tail| match position.relation(tail) {
            Relation::Same(order) => order.is_gt(),
            Relation::OlderHistory => false,
            Relation::NewerHistory | Relation::Conflict => true,
        });
        if !is_ahead {
            return;
        }
        self.tail = Some(position.clone());
        if self.missing.as_ref().is_some_and(|(missing, _)| self.has(missing)) {
            self.compare();
        }
    }

    /// Where the cell and the feed are, if the cell lives in an older history than the feed: then the feed will never be
    /// behind it. A process that is behind comes up; a region that was founded anew without its data does not.
    #[must_use]
    pub fn older_than_the_feed(&self) -> Option<(&Position, &Position)> {
        let (cell, feed) = (&self.cell.as_ref()?.0, self.tail.as_ref()?);
        (cell.relation(feed) == Relation::OlderHistory).then_some((cell, feed))
    }

    /// Since when the feed is behind the cell, if it is.
    #[must_use]
    pub fn behind_since(&self) -> Option<Instant> {
        self.missing.as_ref().map(|(_, since)| *since)
    }

    /// Whether to take over.
    #[must_use]
    pub fn is_due(&self, now: Instant) -> bool {
        self.behind_since().is_some_and(|since| now.since(since) >= self.patience)
    }

    fn compare(&mut self) {
        self.missing = self.cell.clone().filter(|(cell, _)| !self.has(cell));
    }

    fn has(&self, position: &Position) -> bool {
        self.tail.as_ref().is_some_and(|tail| match tail.relation(position) {
            Relation::Same(order) => order.is_ge(),
            // The cell's process lags a restore that the feed has seen.
            Relation::NewerHistory => true,
            Relation::OlderHistory | Relation::Conflict => false,
        })
    }
}

impl Rival {
    /// A record of another stands among the own ones.
    pub fn seen(&mut self, now: Instant, chance: f64) {
        self.seen = Some(match self.seen {
            Some((last, leave_at)) if now.since(last) <= LEFT_OVER => (now, leave_at),
            Some(_) | None => (now, now.plus(RIVALRY + RIVALRY.mul_f64(2.0 * chance))),
        });
    }

    /// Whether to leave it to the other.
    #[must_use]
    pub fn is_to_leave(&self, now: Instant) -> bool {
        self.seen.is_some_and(|(last, leave_at)| now >= leave_at && now.since(last) <= LEFT_OVER)
    }
}

#[cfg(test)]
mod tests {
    use rollcall_model::{Incarnation, Revision};

    use super::*;

    fn at(incarnation: &str, revision: u64) -> Position {
        Position::new(Incarnation::parse(incarnation).unwrap(), Revision(revision))
    }

    fn now(ms: u64) -> Instant {
        Instant::default().plus(Duration::from_millis(ms))
    }

    #[test]
    fn a_feed_that_keeps_up_is_left_to_who_writes_it() {
        let mut standby = Standby::new(Some(at("1-a", 1)), 0.0);
        for beat in 1..100 {
            standby.cell_at(&at("1-a", beat), now(beat * 1_000));
            assert!(!standby.is_due(now(beat * 1_000 + 900)));
            standby.feed_at(&at("1-a", beat));
        }
    }

    #[test]
    fn a_feed_that_stays_behind_is_taken_over_after_two_to_three_seconds() {
        for (chance, patience) in [(0.0, 2_000), (1.0, 3_000)] {
            let mut standby = Standby::new(Some(at("1-a", 9)), chance);
            standby.cell_at(&at("1-a", 9), now(0));
            standby.cell_at(&at("1-a", 10), now(1_000));
            standby.cell_at(&at("1-a", 11), now(2_000));
            assert!(!standby.is_due(now(999 + patience)), "{chance}");
            assert!(standby.is_due(now(1_000 + patience)), "counted from what it lacks first: {chance}");
        }
    }

    #[test]
    fn a_cell_of_an_older_history_than_its_feed_is_told_until_it_has_come_up() {
        let mut standby = Standby::new(Some(at("2-b", 9)), 0.0);
        assert_eq!(standby.older_than_the_feed(), None, "nothing is known of the cell yet");
        standby.cell_at(&at("1-a", 50), now(0));
        assert_eq!(standby.older_than_the_feed(), Some((&at("1-a", 50), &at("2-b", 9))));
        assert!(!standby.is_due(now(60_000)), "and it never takes over");
        standby.cell_at(&at("2-b", 3), now(1_000));
        assert_eq!(standby.older_than_the_feed(), None);
    }

    #[test]
    fn a_feed_that_lags_and_moves_is_judged_by_what_it_lacks_now() {
        let mut standby = Standby::new(Some(at("1-a", 9)), 0.0);
        standby.cell_at(&at("1-a", 10), now(0));
        standby.cell_at(&at("1-a", 11), now(1_500));
        standby.feed_at(&at("1-a", 10));
        assert!(!standby.is_due(now(3_000)));
        assert!(standby.is_due(now(3_500)));
        standby.feed_at(&at("1-a", 11));
        assert!(!standby.is_due(now(9_000)));
    }

    #[test]
    fn a_feed_of_an_older_history_is_behind_and_one_of_a_newer_is_not() {
        let mut standby = Standby::new(Some(at("1-a", 99)), 0.0);
        standby.cell_at(&at("2-b", 1), now(0));
        assert!(standby.is_due(now(2_000)));
        standby.feed_at(&at("3-c", 1));
        assert!(!standby.is_due(now(2_000)));
    }

    #[test]
    fn of_two_at_once_one_leaves_and_what_was_left_over_makes_nobody_leave() {
        let mut rival = Rival::default();
        for second in 0..10 {
            rival.seen(now(second * 1_000), 0.5);
            assert_eq!(rival.is_to_leave(now(second * 1_000)), second >= 6, "{second} s");
        }
        assert!(!rival.is_to_leave(now(12_000)), "it has left");
        let mut rival = Rival::default();
        rival.seen(now(0), 0.0);
        rival.seen(now(100), 0.0);
        rival.seen(now(60_000), 0.0);
        assert!(!rival.is_to_leave(now(60_000)));
    }
}
