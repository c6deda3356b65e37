//! Reports of load against every series there is: few writes, and no swing of the lifecycle (HLT-02, HLT-06).

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use rollcall_model::load::{is_full, may_write, news};
use rollcall_model::testing::declared;
use rollcall_model::{Declared, Instant, Lifecycle, Load, LoadLimits, Owned};

use crate::cases;

const LIMITS: LoadLimits = LoadLimits {
    degraded_queue: 100,
    recovered_queue: 50,
    degraded_errors: 0.3,
    recovered_errors: 0.1,
    write_every: Duration::from_secs(30),
    write_burst: 4,
};

fn bounded(most: Option<u32>) -> Declared {
    let mut declared = declared("a/b/c");
    declared.max_concurrency = most;
    declared
}

fn load(queue_depth: u32, in_flight: u32, error_rate: f64) -> Load {
    Load { queue_depth, in_flight, error_rate }
}

/// An instance as readers see it, and how often they were told.
struct Seen {
    declared: Declared,
    owned: Owned,
    next: Instant,
    writes: u32,
    told: u32,
}

impl Seen {
    fn new(most: Option<u32>) -> Self {
        let declared = bounded(most);
        let owned = Owned::of(&declared);
        Self { declared, owned, next: Instant::default(), writes: 0, told: 0 }
    }

    fn hear(&mut self, lifecycle: Option<Lifecycle>, load: Option<Load>, now: Instant) {
        if let Some(news) = news(&self.declared, &self.owned, lifecycle, load, &LIMITS) {
            if news.is_told {
                self.told += 1;
            } else if !may_write(&mut self.next, now, &LIMITS) {
                return;
            } else {
                self.writes += 1;
            }
            self.owned = news.owned;
        }
    }
}

fn any_load() -> impl Strategy<Value = Load> {
    let count = || prop_oneof![0..12_u32, 0..300_u32, Just(u32::MAX)];
    (count(), count(), 0.0..=1.0_f64).prop_map(|(queue, flight, errors)| load(queue, flight, errors))
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn however_load_moves_it_causes_a_burst_of_writes_and_then_one_every_so_often(
        series in vec((any_load(), 0..20_000_u64), 1..200),
        most in proptest::option::of(0..20_u32),
    ) {
        let (mut seen, mut now) = (Seen::new(most), Instant(Duration::from_secs(1_000)));
        let begun = now;
        for (load, ms) in series {
            now = now.plus(Duration::from_millis(ms));
            seen.hear(None, Some(load), now);
            let allowed = u64::from(LIMITS.write_burst) + now.since(begun).as_secs() / LIMITS.write_every.as_secs();
            prop_assert!(u64::from(seen.writes) <= allowed, "{} writes of {allowed}", seen.writes);
        }
    }

    #[test]
    fn a_value_that_swings_around_any_point_within_its_band_writes_nothing(
        centre in 0..400_u32, swings in vec(-2..=2_i64, 1..100), errors in 0.05..0.95_f64,
    ) {
        let mut seen = Seen::new(None);
        let at = |swing: i64| u32::try_from(i64::from(centre) + swing).unwrap_or(0);
        // The first two reports settle what is seen, and whether it is degraded.
        for _ in 0..2 {
            seen.hear(None, Some(load(at(0), at(0), errors)), Instant::default());
        }
        let (before, strained) = (seen.writes, seen.owned.strained);
        let edges = [LIMITS.degraded_queue, LIMITS.recovered_queue];
        let away = edges.iter().all(|edge| centre.abs_diff(*edge) > 2)
            && [LIMITS.degraded_errors, LIMITS.recovered_errors].iter().all(|edge| (errors - edge).abs() > 0.05);
        for (nth, swing) in swings.iter().enumerate() {
            let now = Instant(Duration::from_secs(100 * (nth as u64 + 1)));
            let sway = 0.02 * f64::from(i32::try_from(*swing).unwrap());
            seen.hear(None, Some(load(at(*swing), at(*swing), errors + sway)), now);
        }
        if away {
            prop_assert_eq!(seen.writes, before);
        } else {
            // At the edge of degraded it may cross once; the way back is far.
            prop_assert!(seen.writes <= before + 1, "{} writes", seen.writes - before);
            prop_assert!(seen.owned.strained || !strained || centre <= LIMITS.recovered_queue + 2);
        }
    }

    #[test]
    fn a_lifecycle_that_the_owner_tells_is_written_at_once_whatever_its_load_wrote(
        series in vec(any_load(), 0..20),
        word in prop::sample::select(Lifecycle::ALL.to_vec()),
        with in proptest::option::of(any_load()),
    ) {
        let mut seen = Seen::new(None);
        for load in series {
            seen.hear(None, Some(load), Instant::default());
        }
        seen.hear(Some(word), with, Instant::default());
        match (word, seen.owned.strained) {
            (Lifecycle::Healthy, true) => prop_assert_eq!(seen.owned.lifecycle, Lifecycle::Degraded),
            _ => prop_assert_eq!(seen.owned.lifecycle, word),
        }
        if with.is_none() {
            prop_assert!(!seen.owned.strained, "a word without load is the owner's own judgement");
        }
    }
}

#[test]
fn load_degrades_with_hysteresis_and_only_who_is_healthy() {
    let mut seen = Seen::new(None);
    let mut at = 0;
    let mut hear = |lifecycle, load| {
        at += 1_000;
        seen.hear(lifecycle, Some(load), Instant(Duration::from_secs(at)));
        seen.owned.lifecycle
    };
    assert_eq!(hear(None, load(99, 0, 0.29)), Lifecycle::Healthy);
    assert_eq!(hear(None, load(100, 0, 0.0)), Lifecycle::Degraded);
    assert_eq!(hear(None, load(51, 0, 0.0)), Lifecycle::Degraded);
    assert_eq!(hear(Some(Lifecycle::Healthy), load(51, 0, 0.0)), Lifecycle::Degraded, "said with every beat");
    assert_eq!(hear(None, load(50, 0, 0.1)), Lifecycle::Healthy);
    assert_eq!(hear(None, load(0, 0, 0.3)), Lifecycle::Degraded);
    assert_eq!(hear(Some(Lifecycle::Draining), load(500, 0, 1.0)), Lifecycle::Draining);
    assert_eq!(hear(None, load(0, 0, 0.0)), Lifecycle::Draining);
    assert_eq!(hear(Some(Lifecycle::Degraded), load(0, 0, 0.0)), Lifecycle::Degraded);
    assert_eq!(hear(None, load(0, 0, 0.0)), Lifecycle::Degraded, "the owner said so, not its load");
}

#[test]
fn a_full_instance_is_told_at_once_and_free_again_once_a_quarter_is() {
    let mut seen = Seen::new(Some(8));
    let mut at = 0;
    let mut hear = |in_flight| {
        at += 1_000;
        seen.hear(None, Some(load(0, in_flight, 0.0)), Instant(Duration::from_secs(at)));
        (is_full(&seen.declared, seen.owned.load.get().unwrap()), seen.owned.lifecycle)
    };
    for (in_flight, full) in [(7, false), (8, true), (7, true), (8, true), (6, false), (7, false), (8, true)]
    {
        assert_eq!(
            hear(in_flight),
            (full, Lifecycle::Healthy),
            "at {in_flight}: full is load, not lifecycle"
        );
    }
}
