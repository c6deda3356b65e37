//! A herd that backs off spreads out and stays spread (museum B77).

use std::time::Duration;

use rollcall_model::testing::Chance;
use rollcall_model::{Backoff, jittered};

const FIRST: Duration = Duration::from_millis(500);
const MOST: Duration = Duration::from_secs(30);

/// The waits of each round, for a thousand clients that lose their connection together again and again.
fn rounds(many: usize) -> Vec<Vec<Duration>> {
    let mut chance = Chance::new(77);
    let mut herd = vec![Backoff::new(FIRST, MOST); 1_000];
    (0..many).map(|_| herd.iter_mut().map(|one| one.next(chance.fraction())).collect()).collect()
}

/// How many of them come in the fullest window of a tenth of a second.
fn crowd(waits: &[Duration]) -> usize {
    let mut windows = std::collections::BTreeMap::<u128, usize>::new();
    waits.iter().for_each(|wait| *windows.entry(wait.as_millis() / 100).or_default() += 1);
    windows.values().copied().max().unwrap_or(0)
}

#[test]
fn b77_the_spread_of_a_herd_does_not_shrink_on_later_rounds() {
    let rounds = rounds(12);
    for (nth, pair) in rounds.windows(2).enumerate() {
        let [now, next] = pair else { unreachable!() };
        let spread = |waits: &[Duration]| *waits.iter().max().unwrap() - *waits.iter().min().unwrap();
        // A twentieth is what a thousand draws may differ by once the bound is reached.
        assert!(
            spread(next).mul_f64(1.05) >= spread(now),
            "round {nth}: {:?} after {:?}",
            spread(next),
            spread(now)
        );
        assert!(crowd(next) <= crowd(now) + 10, "round {nth}: {} after {}", crowd(next), crowd(now));
    }
    assert!(crowd(&rounds[11]) < 25, "a thousand clients come as a trickle in the end");
}

#[test]
fn b77_every_wait_is_drawn_from_zero_to_the_bound() {
    for (nth, waits) in rounds(12).iter().enumerate() {
        let bound = FIRST.saturating_mul(1 << nth).min(MOST);
        assert!(waits.iter().all(|wait| *wait <= bound), "round {nth}");
        for tenth in 0..10_u32 {
            let (low, high) = (bound * tenth / 10, bound * (tenth + 1) / 10);
            let share = waits.iter().filter(|wait| (low..high).contains(wait)).count();
            assert!((50..160).contains(&share), "round {nth}: {share} of 1000 in tenth {tenth}");
        }
    }
}

#[test]
fn b77_only_a_reset_begins_anew() {
    let mut backoff = Backoff::new(FIRST, MOST);
    for _ in 0..200 {
        backoff.next(0.5);
    }
    assert_eq!(backoff.next(1.0), MOST, "no number of attempts wraps the bound");
    backoff.reset();
    assert_eq!(backoff.next(1.0), FIRST);
}

#[test]
fn chance_outside_its_range_never_makes_a_wait_outside_the_bound() {
    let mut backoff = Backoff::new(FIRST, MOST);
    assert_eq!(backoff.next(-1.0), Duration::ZERO);
    assert!(backoff.next(7.0) <= MOST);
    assert_eq!(jittered(FIRST, -1.0), FIRST.mul_f64(0.8));
    assert_eq!(jittered(FIRST, 9.0), FIRST.mul_f64(1.2));
}
