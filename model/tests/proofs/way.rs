//! The way of what another process says, told from outside with both clocks and the truth in view: never too short, and too
//! long by no more than what was asked for.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use rollcall_model::way::DRIFT_PARTS;
use rollcall_model::{Instant, Stamp, Way};

use crate::cases;

const MS: Duration = Duration::from_millis(1);

/// Two clocks, told by the truth in microseconds: ours is the truth, the other's has a zero and a pace of its own.
#[derive(Clone, Copy, Debug)]
struct Other {
    zero: u64,
    /// How much it gains, in millionths; at most what is allowed for.
    gains: i64,
}

impl Other {
    /// What it shows, as it travels: in whole milliseconds.
    fn shows(self, truth: u64) -> Duration {
        let truth = i64::try_from(truth).unwrap();
        let shown = self.zero + u64::try_from(truth + truth * self.gains / 1_000_000).unwrap();
        Duration::from_millis(shown / 1_000)
    }

    fn stamp(self, truth: u64) -> Stamp {
        Stamp { teller: 7, at: self.shows(truth) }
    }
}

fn at(truth: u64) -> Instant {
    Instant(Duration::from_micros(truth))
}

/// What happens next: after a pause something is said, or asked; it takes so long to come, and the question so long to go.
#[derive(Clone, Debug)]
struct Step {
    pause: u64,
    is_question: bool,
    there: u64,
    back: u64,
}

fn steps(way: u64) -> impl Strategy<Value = Vec<Step>> {
    let step = (0..40_000_000_u64, any::<bool>(), 0..=way, 0..=way)
        .prop_map(|(pause, is_question, there, back)| Step { pause, is_question, there, back });
    vec(step, 1..60)
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn i21_nothing_is_younger_than_it_is_over_any_way_while_clocks_drift_as_allowed(
        zero in 0..u64::from(u32::MAX),
        gains in -200_i64..=200,
        opening in (0..20_000_000_u64, 0..20_000_000_u64),
        steps in steps(20_000_000),
        chance in 0.0..1.0_f64,
    ) {
        let other = Other { zero, gains };
        let (asked, answered) = (1_000, 1_000 + opening.0);
        let mut truth = answered + opening.1;
        let mut way = Way::opened(other.stamp(answered), at(asked), at(truth), chance);
        // The best question so far: what it took in all, and when.
        let mut best = vec![(truth - asked, asked)];
        for step in steps {
            truth += step.pause;
            if step.is_question {
                let (asked, answered) = (truth, truth + step.there);
                truth = answered + step.back;
                way.answered(other.stamp(answered), at(asked), at(truth), chance);
                best.push((truth - asked, asked));
            } else {
                let made = truth;
                truth += step.back;
                let most = way.at_most(other.shows(made), at(truth)).unwrap();
                let real = Duration::from_micros(step.back);
                prop_assert!(most + Duration::from_micros(1) >= real, "{most:?} of {real:?}");
                let drift = |asked: u64| 2 * Duration::from_micros(truth - asked) / DRIFT_PARTS;
                let loosest = best.iter().map(|(took, asked)| Duration::from_micros(*took) + drift(*asked)).min();
                prop_assert!(most <= real + loosest.unwrap() + 3 * MS, "{most:?} of {real:?}, {best:?}");
            }
        }
    }
}

fn opened(took: Duration, chance: f64) -> Way {
    let zero = Instant(Duration::from_secs(100));
    Way::opened(Stamp { teller: 7, at: Duration::from_secs(5_000) }, zero, zero.plus(took), chance)
}

fn after(seconds: u64) -> Instant {
    Instant(Duration::from_secs(100 + seconds))
}

#[test]
fn on_a_good_way_nobody_asks_for_ten_minutes_and_then_not_all_at_once() {
    let first = |chance| {
        let mut way = opened(2 * MS, chance);
        (1..).find(|second| way.asks(after(*second))).unwrap()
    };
    let (soonest, latest) = (first(0.0), first(1.0));
    assert!((600..700).contains(&soonest) && (1_200..1_300).contains(&latest), "{soonest} {latest}");
}

#[test]
fn a_watch_that_was_long_in_opening_asks_again_spread_over_seconds_and_then_about_once_a_minute() {
    let asked = |chance| {
        let mut way = opened(Duration::from_secs(3), chance);
        let mut at = Vec::new();
        for second in 3..300 {
            if way.asks(after(second)) {
                at.push(second);
                let stamp = Stamp { teller: 7, at: Duration::from_secs(5_000 + second) };
                way.answered(stamp, after(second - 3), after(second), chance);
            }
        }
        at
    };
    assert_eq!(asked(0.0), [23, 63, 108, 153, 198, 243, 288]);
    assert_eq!(asked(1.0), [43, 123, 213]);
}

#[test]
fn a_question_without_an_answer_is_not_asked_again_for_a_minute_and_a_half() {
    let mut way = opened(Duration::from_secs(3), 0.0);
    let asked: Vec<u64> = (3..300).filter(|second| way.asks(after(*second))).collect();
    assert_eq!(asked, [23, 113, 203, 293]);
}

#[test]
fn a_short_question_makes_a_long_opening_good_and_a_longer_one_takes_nothing_back() {
    let mut way = opened(Duration::from_secs(3), 0.5);
    let shown = Duration::from_secs(5_010);
    // It was answered at once and came back late, or came late and was answered at once: nobody knows.
    assert_eq!(way.at_most(shown, after(13)).unwrap().as_millis(), 3_003);
    way.answered(Stamp { teller: 7, at: shown }, Instant(after(13).0 - 2 * MS), after(13), 0.5);
    assert_eq!(way.at_most(shown, after(13)).unwrap(), 3 * MS);
    way.answered(Stamp { teller: 7, at: shown + Duration::from_secs(1) }, after(11), after(14), 0.5);
    assert_eq!(way.at_most(shown + Duration::from_secs(1), after(14)).unwrap().as_millis(), 3);
}

#[test]
fn what_another_process_answers_says_nothing_of_this_one() {
    let mut way = opened(Duration::from_secs(3), 0.5);
    let before = way.at_most(Duration::from_secs(5_010), after(13));
    way.answered(Stamp { teller: 8, at: Duration::from_secs(1) }, after(12), after(13), 0.5);
    assert_eq!(way.at_most(Duration::from_secs(5_010), after(13)), before);
}

#[test]
fn a_clock_that_jumped_ahead_makes_nothing_young_and_is_asked_anew() {
    let mut way = opened(2 * MS, 0.5);
    assert!(!way.asks(after(10)));
    // It says that it made this in a quarter of an hour from now.
    assert_eq!(way.at_most(Duration::from_secs(5_900), after(10)), None);
    assert!(way.asks(after(10)));
    way.answered(Stamp { teller: 7, at: Duration::from_secs(5_900) }, after(10), after(10), 0.5);
    assert_eq!(way.at_most(Duration::from_secs(5_901), after(13)).unwrap().as_secs(), 2);
}
