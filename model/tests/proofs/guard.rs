//! The expiry guard as a simulation: fleets that are cut off and alive must lose nobody, ones that die must go.
//!
//! `ROLLCALL_SEEDS=2000` runs that many seeds of each scenario; the usual run takes fewer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rollcall_model::deadlines::suspect_after;
use rollcall_model::guard::Census;
use rollcall_model::sweep::sweep;
use rollcall_model::testing::{Chance, declared, registered};
use rollcall_model::{
    Change, Cohort, Deadlines, Epoch, ExpiryGuard, GuardLimits, Holder, Instant, Phase, Renewal, Revision,
    State, Timestamp, Verdict, Zone, jittered,
};

const WALL: Timestamp = Timestamp(0);

/// Evenly from [0, 1).
fn even(chance: &mut Chance) -> f64 {
    f64::from(u32::try_from(chance.number() >> 32).unwrap()) / 2_f64.powi(32)
}

/// A beat of ten seconds, moved by up to a fifth.
fn beat(chance: &mut Chance) -> u64 {
    u64::try_from(jittered(Duration::from_secs(10), even(chance)).as_millis()).unwrap()
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    /// The guard as it is.
    Guard,
    /// The guard without the last wait: lets go as soon as the suspects are few enough.
    NoSettling,
    /// The usual rule: freeze a sweep in which more than the fraction lapse.
    Textbook,
}

/// Which instances are cut off at which time.
type Cut = fn(instance: usize, ms: u64) -> bool;

fn zone_for(seconds: u64) -> impl Fn(usize, u64) -> bool {
    move |instance, ms| instance % 3 == 2 && (60_000..60_000 + seconds * 1_000).contains(&ms)
}

const FLEET: usize = 120;

fn fleet() -> (State, Deadlines) {
    let mut state = State::default();
    for instance in 0..FLEET {
        let zone = Zone::parse(["a", "b", "c"][instance % 3]).unwrap();
        let mut declared = declared(&format!("sim/agent/{instance}"));
        declared.zone = Some(zone);
        declared.lease_seconds = 30;
        state.put(Arc::new(registered(declared, Epoch::new(1, Revision(2)), Revision(2))));
    }
    let deadlines = Deadlines::begin(&state, 1, Revision(2), Instant::default(), WALL, 0);
    (state, deadlines)
}

/// Runs one seed and gives how many healthy instances were removed.
fn healthy_removed(seed: u64, rule: Rule, until_ms: u64, cut: &impl Fn(usize, u64) -> bool) -> usize {
    let (_, mut deadlines) = fleet();
    let mut guard = ExpiryGuard::new(GuardLimits::default());
    let mut chance = Chance::new(seed);
    let epoch = Epoch::new(1, Revision(2));
    let mut next: Vec<u64> = (0..FLEET).map(|_| chance.number() % 10_000).collect();
    let ids: Vec<String> = (0..FLEET).map(|instance| format!("sim/agent/{instance}")).collect();
    let mut removed = 0;
    let mut revision = 2;
    for ms in (0..until_ms).step_by(100) {
        let now = Instant(Duration::from_millis(ms));
        for instance in 0..FLEET {
            if next[instance] <= ms {
                next[instance] = ms + beat(&mut chance);
                if !cut(instance, ms) {
                    let _ = deadlines.renew(&ids[instance], &Holder::default(), epoch, now, WALL);
                }
            }
        }
        if ms % 1_000 != 0 {
            continue;
        }
        let gone = match rule {
            Rule::Guard => sweep(&mut deadlines, &mut guard, now, usize::MAX, 0).remove,
            Rule::NoSettling | Rule::Textbook => {
                let overdue = deadlines.overdue(now);
                let region = overdue.census.get(&Cohort::Region).copied().unwrap_or_default();
                let lapsed = deadlines.clone().take(&overdue, usize::MAX, |_| true).len() as u64;
                let counted = if rule == Rule::Textbook { lapsed } else { region.suspects };
                let held = counted > GuardLimits::default().limit(region.registered);
                deadlines.take(&overdue, usize::MAX, |_| !held)
            }
        };
        for due in gone {
            removed += 1;
            revision += 1;
            let change = rollcall_model::testing::removal(due.id.as_str(), 2, revision);
            deadlines.follow(&Change::Remove(Arc::new(change)), now, WALL);
        }
    }
    removed
}

fn seeds() -> u64 {
    std::env::var("ROLLCALL_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(25)
}

fn nobody_is_lost(until_ms: u64, cut: impl Fn(usize, u64) -> bool) {
    for seed in 0..seeds() {
        assert_eq!(healthy_removed(seed, Rule::Guard, until_ms, &cut), 0, "seed {seed}");
    }
}

#[test]
fn i07_a_zone_cut_for_25_31_60_or_100_seconds_loses_nobody() {
    for seconds in [25, 31, 60, 100] {
        nobody_is_lost(260_000, zone_for(seconds));
    }
}

#[test]
fn i07_forty_spread_over_all_zones_lose_nobody() {
    nobody_is_lost(200_000, |instance, ms| instance < 40 && (60_000..120_000).contains(&ms));
}

#[test]
fn i07_seven_of_one_zone_lose_nobody() {
    nobody_is_lost(200_000, |instance, ms| {
        instance % 3 == 1 && instance < 21 && (60_000..120_000).contains(&ms)
    });
}

#[test]
fn i07_all_of_the_region_lose_nobody() {
    nobody_is_lost(200_000, |_, ms| (60_000..130_000).contains(&ms));
}

#[test]
fn i07_a_link_that_flaps_20_seconds_off_and_2_on_loses_nobody() {
    nobody_is_lost(460_000, |instance, ms| {
        instance % 3 == 2 && (60_000..360_000).contains(&ms) && (ms - 60_000) % 22_000 < 20_000
    });
}

#[test]
fn the_textbook_rule_loses_the_zone_and_the_guard_without_its_last_wait_a_part_of_it() {
    let cut: Cut = |instance, ms| instance % 3 == 2 && (60_000..160_000).contains(&ms);
    let lost = |rule| (0..10).map(|seed| healthy_removed(seed, rule, 260_000, &cut)).collect::<Vec<_>>();
    let textbook = lost(Rule::Textbook);
    assert!(textbook.iter().all(|lost| *lost > 30), "{textbook:?}");
    let hasty = lost(Rule::NoSettling);
    assert!(
        hasty.iter().sum::<usize>() > 0 && hasty.iter().sum::<usize>() < textbook.iter().sum(),
        "{hasty:?}"
    );
}

#[test]
fn i06_b03_a_small_fleet_loses_its_one_dead_member_and_is_never_frozen_for_ever() {
    for size in 1..=6_usize {
        let mut deadlines = Deadlines::default();
        let mut guard = ExpiryGuard::new(GuardLimits::default());
        for instance in 0..size {
            let put =
                registered(declared(&format!("a/b/{instance}")), Epoch::new(1, Revision(2)), Revision(2));
            deadlines.follow(&Change::Put(Arc::new(put)), Instant::default(), WALL);
        }
        let mut gone = Vec::new();
        for second in 0..120_u64 {
            let now = Instant(Duration::from_secs(second));
            if second % 10 == 0 {
                for instance in 1..size {
                    let id = format!("a/b/{instance}");
                    assert!(matches!(
                        deadlines.renew(&id, &Holder::default(), Epoch::new(1, Revision(2)), now, WALL),
                        Renewal::Renewed(_)
                    ));
                }
            }
            for due in sweep(&mut deadlines, &mut guard, now, usize::MAX, 0).remove {
                gone.push((due.id.as_str().to_owned(), second));
                let change = rollcall_model::testing::removal(due.id.as_str(), 2, 3);
                deadlines.follow(&Change::Remove(Arc::new(change)), now, WALL);
            }
        }
        assert_eq!(gone, [("a/b/0".to_owned(), 30)], "of {size}");
    }
}

#[test]
fn i08_what_an_operator_releases_or_a_refused_connection_proves_goes_while_the_rest_is_held() {
    let (_, mut deadlines) = fleet();
    let mut guard = ExpiryGuard::new(GuardLimits::default());
    let epoch = Epoch::new(1, Revision(2));
    // Zone c falls silent for good.
    for second in 0..60_u64 {
        let now = Instant(Duration::from_secs(second));
        if second % 10 == 0 {
            for instance in (0..FLEET).filter(|instance| instance % 3 != 2) {
                let _ =
                    deadlines.renew(&format!("sim/agent/{instance}"), &Holder::default(), epoch, now, WALL);
            }
        }
        assert_eq!(sweep(&mut deadlines, &mut guard, now, usize::MAX, 0).remove, [], "held at {second} s");
    }
    let now = Instant(Duration::from_secs(60));
    assert!(guard.is_holding());
    assert!(deadlines.judge("sim/agent/2", epoch, Verdict::ProvedDead, now));
    assert!(deadlines.judge("sim/agent/5", epoch, Verdict::Released("operator:ann".into()), now));
    assert!(
        !deadlines.judge("sim/agent/0", epoch, Verdict::ProvedDead, now),
        "a live one cannot be condemned"
    );
    let gone: Vec<_> =
        sweep(&mut deadlines, &mut guard, now, usize::MAX, 0).remove.into_iter().map(|due| due.id).collect();
    assert_eq!(gone.iter().map(|id| id.as_str()).collect::<Vec<_>>(), ["sim/agent/2", "sim/agent/5"]);
    assert!(guard.is_holding(), "38 are still silent");
    // A renewal disproves the verdict.
    assert!(deadlines.judge("sim/agent/8", epoch, Verdict::ProvedDead, now));
    let _ = deadlines.renew("sim/agent/8", &Holder::default(), epoch, now, WALL);
    assert_eq!(deadlines.get("sim/agent/8").unwrap().verdict(), None);
}

#[test]
fn i08_a_guard_that_lets_go_waits_one_more_suspect_period() {
    let (_, mut deadlines) = fleet();
    let mut guard = ExpiryGuard::new(GuardLimits::default());
    let epoch = Epoch::new(1, Revision(2));
    let mut settled = None;
    let mut first_removal = None;
    for second in 0..200_u64 {
        let now = Instant(Duration::from_secs(second));
        if second % 10 == 0 {
            // Everybody is silent from 20 to 90 s; then all but one come back.
            for instance in (0..FLEET).filter(|instance| *instance != 2 && !(20..90).contains(&second)) {
                let _ =
                    deadlines.renew(&format!("sim/agent/{instance}"), &Holder::default(), epoch, now, WALL);
            }
        }
        let plan = sweep(&mut deadlines, &mut guard, now, usize::MAX, 0);
        let settles = |turn: &&rollcall_model::guard::Turn| matches!(turn.phase, Phase::Settling { .. });
        if plan.turns.iter().any(|turn| settles(&turn)) {
            settled.get_or_insert(second);
        }
        if !plan.remove.is_empty() {
            first_removal.get_or_insert(second);
        }
    }
    let period = suspect_after(Duration::from_secs(30)).as_secs();
    assert_eq!((settled, first_removal), (Some(90), Some(90 + period)));
}

#[test]
fn i07_in_any_window_of_one_lease_no_more_than_the_limit_goes() {
    // A slow death that never makes many suspect at once: one more falls silent every two seconds.
    let (_, mut deadlines) = fleet();
    let mut guard = ExpiryGuard::new(GuardLimits::default());
    let epoch = Epoch::new(1, Revision(2));
    let mut gone: Vec<u64> = Vec::new();
    for second in 0..400_u64 {
        let now = Instant(Duration::from_secs(second));
        for instance in 0..FLEET {
            if (instance as u64) * 2 > second && second % 5 == 0 {
                let _ =
                    deadlines.renew(&format!("sim/agent/{instance}"), &Holder::default(), epoch, now, WALL);
            }
        }
        for due in sweep(&mut deadlines, &mut guard, now, usize::MAX, 0).remove {
            gone.push(second);
            let change = rollcall_model::testing::removal(due.id.as_str(), 2, 3);
            deadlines.follow(&Change::Remove(Arc::new(change)), now, WALL);
        }
    }
    for (at, second) in gone.iter().enumerate() {
        let registered = (FLEET - at) as u64;
        let in_window = gone[at..].iter().take_while(|later| **later < second + 30).count() as u64;
        assert!(
            in_window <= GuardLimits::default().limit(registered).max(1),
            "{in_window} from {second} s on"
        );
    }
    assert!(!gone.is_empty());
}

/// A census of one cohort, as a sweep finds it.
fn crowd(registered: u64) -> BTreeMap<Cohort, Census> {
    BTreeMap::from([(Cohort::Region, Census { registered, ..Census::default() })])
}

/// How many the guard lets go at once without evidence.
fn let_go(guard: &mut ExpiryGuard, lease: u64, now: u64) -> usize {
    let (lease, now) = (Duration::from_secs(lease), Instant(Duration::from_secs(now)));
    (0..1_000).take_while(|_| guard.allow(None, lease, now)).count()
}

#[test]
fn i07_newcomers_of_the_window_do_not_make_its_share_larger() {
    let mut guard = ExpiryGuard::new(GuardLimits::default());
    for second in 0..40 {
        guard.judge(crowd(60), Instant(Duration::from_secs(second)));
    }
    // Of 60 nine may go within a lease of 30 s; that 140 more have come since changes nothing for this window.
    guard.judge(crowd(200), Instant(Duration::from_secs(40)));
    assert_eq!(let_go(&mut guard, 30, 40), 9);
    guard.judge(crowd(191), Instant(Duration::from_secs(69)));
    assert_eq!(let_go(&mut guard, 30, 69), 0);
    // A window that began with all of them has a share of all of them.
    guard.judge(crowd(191), Instant(Duration::from_secs(70)));
    assert_eq!(let_go(&mut guard, 30, 70), 28);
}

#[test]
fn i07_a_short_lease_forgets_nothing_that_counts_for_a_long_one() {
    let mut guard = ExpiryGuard::new(GuardLimits::default());
    guard.judge(crowd(100), Instant(Duration::from_secs(0)));
    assert_eq!(let_go(&mut guard, 300, 1), 15);
    guard.judge(crowd(85), Instant(Duration::from_secs(10)));
    assert_eq!(let_go(&mut guard, 5, 10), 12, "of 85 within the last five seconds");
    assert_eq!(let_go(&mut guard, 300, 11), 0, "27 went within the last 300 seconds");
}
