//! How old a bookmark is on arrival: what it said when it was made, and what the way may have added.
//!
//! A bookmark may have waited in three places that its own age does not know of: in the publisher's queue while a broker
//! was frozen, in the log, and on the way from it. No two clocks are compared. The log says how long a record can have lain
//! there; and since a publisher has one bookmark at most under way, the one that arrives now was made after the one
//! before it stood in the log. One second of that is the beat itself, the tolerance that promise I21 gives.

use std::time::Duration;

use rollcall_model::Instant;

/// Bookmarks are made once a second.
const BEAT: Duration = Duration::from_secs(1);

/// What is known of the last bookmark's way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Way {
    /// It stood in the log by then at the earliest.
    appended: Option<Instant>,
}

impl Way {
    /// The age of a bookmark that arrives now, as far as it can be known. Never too young (I21) by more than a beat.
    pub fn age(
        &mut self,
        said: Option<Duration>,
        lain_at_most: Option<Duration>,
        now: Instant,
    ) -> Option<Duration> {
        let Some(lain) = lain_at_most else {
            self.appended = None;
            return None;
        };
        let unseen = self.appended.map_or(Duration::ZERO, |appended| now.since(appended));
        self.appended = Some(Instant(now.0.saturating_sub(lain)));
        Some(said?.saturating_add(lain.max(unseen.saturating_sub(BEAT))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    const fn known(millis: u64) -> Option<Duration> {
        Some(ms(millis))
    }

    #[test]
    fn a_steady_feed_keeps_the_age_that_was_said() {
        let mut way = Way::default();
        for second in 1..5 {
            assert_eq!(way.age(known(40), known(10), Instant(ms(second * 1000))), known(50));
        }
    }

    #[test]
    fn i21_what_lay_in_the_log_is_as_old_as_it_lay_there() {
        let mut way = Way::default();
        assert_eq!(way.age(known(40), known(60_000), Instant(ms(90_000))), known(60_040));
        assert_eq!(way.age(known(40), None, Instant(ms(91_000))), None);
    }

    #[test]
    fn i21_the_first_bookmark_after_a_freeze_is_not_taken_for_young() {
        // Made at 2 s, queued while the broker was frozen, appended and read at 12 s.
        let mut way = Way::default();
        way.age(known(0), known(0), Instant(ms(1_000)));
        assert_eq!(way.age(known(0), known(0), Instant(ms(12_000))), known(10_000));
        assert_eq!(
            way.age(known(0), known(0), Instant(ms(12_100))),
            known(0),
            "the next one was made afterwards"
        );
    }
}
