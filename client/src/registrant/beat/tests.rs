use proptest::prelude::*;
use rollcall_model::Revision;

use super::*;

const OWN: &str = "http://own:1/";
const BEAT: Duration = Duration::from_secs(10);

fn at(ms: u64) -> Instant {
    Instant(Duration::from_millis(ms))
}

fn epoch(revision: u64) -> Epoch {
    Epoch::new(1, Revision(revision))
}

/// The default lease, with this beat.
fn every(beat: Duration) -> LeaseTimes {
    LeaseTimes { beat, length: Duration::from_secs(30) }
}

fn of_length(seconds: u64) -> LeaseTimes {
    LeaseTimes { beat: BEAT, length: Duration::from_secs(seconds) }
}

fn registered() -> Upkeep {
    let mut upkeep = Upkeep::new(vec![OWN.into()], at(0));
    assert_eq!(upkeep.step(at(0)), Step::Register(Identity::Same));
    upkeep.answer(Answer::Registered(epoch(1), every(BEAT)), at(0), 0.5);
    upkeep
}

#[test]
fn a_beat_comes_a_fifth_early_or_late_at_most() {
    for (chance, wait_ms) in [(0.0, 8_000), (0.5, 10_000), (1.0, 12_000)] {
        let mut upkeep = Upkeep::new(vec![OWN.into()], at(0));
        upkeep.step(at(0));
        upkeep.answer(Answer::Registered(epoch(1), every(BEAT)), at(40), chance);
        assert_eq!(upkeep.step(at(40)), Step::Wait(Duration::from_millis(wait_ms - 40)));
        assert_eq!(upkeep.step(at(wait_ms)), Step::Renew(epoch(1)));
    }
}

#[test]
fn lea_15_lea_22_an_owners_beat_is_taken_from_two_seconds_up_to_what_the_registry_asks_for() {
    let seconds = Duration::from_secs;
    for (wish, told, beat) in [
        (None, seconds(10), seconds(10)),
        (Some(seconds(60)), seconds(100), seconds(60)),
        (Some(seconds(5)), Duration::from_millis(6_667), seconds(5)),
        (Some(seconds(1)), seconds(10), seconds(2)),
        (Some(Duration::ZERO), seconds(10), seconds(2)),
        (Some(seconds(15)), seconds(10), seconds(10)),
        (Some(seconds(1)), Duration::from_millis(1_667), Duration::from_millis(1_667)),
    ] {
        let mut upkeep = Upkeep::new(vec![OWN.into()], at(0)).wishing(wish);
        upkeep.step(at(0));
        upkeep.answer(Answer::Registered(epoch(1), every(told)), at(0), 0.5);
        assert_eq!(upkeep.step(at(0)), Step::Wait(beat), "{wish:?} of {told:?}");
        let due = at(0).plus(beat);
        upkeep.step(due);
        upkeep.answer(Answer::Renewed(every(told)), due, 0.5);
        assert_eq!(upkeep.step(due), Step::Wait(beat), "{wish:?} of {told:?}, from then on");
    }
}

#[test]
fn lea_16_a_fleet_that_started_together_does_not_renew_together() {
    // Each draws its own chances, all register in the same instant, and no call takes any time.
    let mut draw = 7_u64;
    let mut chance = || {
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from(u32::try_from(draw >> 33).unwrap()) / f64::from(1_u32 << 31)
    };
    let mut busiest = Vec::new();
    let mut fleet: Vec<_> = (0..1_000)
        .map(|_| {
            let mut upkeep = Upkeep::new(vec![OWN.into()], at(0));
            upkeep.step(at(0));
            upkeep.answer(Answer::Registered(epoch(1), every(BEAT)), at(0), chance());
            (upkeep, at(0))
        })
        .collect();
    for _ in 0..8 {
        let mut seconds = std::collections::BTreeMap::new();
        for (upkeep, now) in &mut fleet {
            let Step::Wait(wait) = upkeep.step(*now) else { panic!("called at once") };
            *now = now.plus(wait);
            upkeep.step(*now);
            upkeep.answer(Answer::Renewed(every(BEAT)), *now, chance());
            *seconds.entry(now.0.as_secs()).or_insert(0) += 1;
        }
        busiest.push(seconds.into_values().max().unwrap());
    }
    assert!(busiest[0] < 300, "of 1,000, {busiest:?} renew in the busiest second of each round");
    assert!(busiest[7] < 200, "and they spread on: {busiest:?}");
}

#[test]
fn each_answer_to_a_renewal_has_its_next_step() {
    let same = Step::Register(Identity::Same);
    let wait = |ms| Step::Wait(Duration::from_millis(ms));
    for (answer, next) in [
        (Answer::Renewed(every(BEAT)), wait(9_000)),
        (Answer::Renewed(every(Duration::from_secs(5))), wait(4_000)),
        (Answer::NotRegistered, same),
        (Answer::Superseded(OWN.into()), same),
        (Answer::Superseded("http://other:1/".into()), Step::Register(Identity::New)),
        (Answer::Superseded(String::new()), Step::Register(Identity::New)),
        (Answer::Failed(None), wait(9_000)),
        (Answer::Failed(Some(Duration::from_secs(2))), wait(9_000)),
        (Answer::Failed(Some(Duration::from_secs(25))), wait(25_000)),
        (Answer::Failed(Some(Duration::from_secs(3_600))), wait(60_000)),
        (Answer::Registered(epoch(9), every(BEAT)), wait(9_000)),
    ] {
        let mut upkeep = registered();
        assert_eq!(upkeep.step(at(10_000)), Step::Renew(epoch(1)));
        upkeep.answer(answer.clone(), at(11_000), 0.5);
        assert_eq!(upkeep.step(at(11_000)), next, "{answer:?}");
    }
}

#[test]
fn lea_13_a_lease_far_from_the_registered_one_is_registered_anew_once() {
    for (seconds, is_far) in [(30, false), (15, false), (60, false), (14, true), (61, true), (0, true)] {
        let mut upkeep = registered();
        upkeep.step(at(10_000));
        upkeep.answer(Answer::Renewed(of_length(seconds)), at(10_000), 0.5);
        let wait = Step::Wait(BEAT);
        let next = if is_far { Step::Register(Identity::Same) } else { wait };
        assert_eq!(upkeep.step(at(10_000)), next, "{seconds}");
        if is_far {
            upkeep.answer(Answer::Registered(epoch(2), every(BEAT)), at(10_000), 0.5);
            assert_eq!((upkeep.step(at(10_000)), upkeep.held()), (wait, Some(epoch(2))));
            // It insists, so it is believed: nobody registers with every beat.
            upkeep.step(at(20_000));
            upkeep.answer(Answer::Renewed(of_length(seconds)), at(20_000), 0.5);
            assert_eq!(upkeep.step(at(20_000)), wait, "{seconds}");
        }
    }
}

#[test]
fn lea_13_a_doubted_lease_is_renewed_on_while_it_cannot_be_registered_anew() {
    let mut upkeep = registered();
    upkeep.step(at(10_000));
    upkeep.answer(Answer::Renewed(of_length(5)), at(10_000), 0.5);
    assert_eq!(upkeep.step(at(10_000)), Step::Register(Identity::Same));
    upkeep.answer(Answer::Failed(None), at(10_000), 0.5);
    assert_eq!(upkeep.step(at(20_000)), Step::Renew(epoch(1)));
    upkeep.answer(Answer::Renewed(of_length(5)), at(20_000), 0.5);
    assert_eq!(upkeep.step(at(20_000)), Step::Register(Identity::Same), "it is tried again");
}

#[test]
fn lea_13_of_a_shared_entry_the_lease_may_be_another_holders() {
    let mut upkeep = registered().sharing();
    upkeep.step(at(10_000));
    upkeep.answer(Answer::Renewed(of_length(300)), at(10_000), 0.5);
    assert_eq!(upkeep.step(at(10_000)), Step::Wait(BEAT));
}

#[test]
fn registering_waits_longer_and_longer_up_to_sixteen_seconds() {
    let mut upkeep = Upkeep::new(Vec::new(), at(0));
    let mut now = at(0);
    let mut waits = Vec::new();
    for _ in 0..7 {
        assert_eq!(upkeep.step(now), Step::Register(Identity::Same));
        upkeep.answer(Answer::Failed(None), now, 1.0);
        let Step::Wait(wait) = upkeep.step(now) else { panic!("called at once") };
        waits.push(wait.as_secs());
        now = now.plus(wait);
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 16, 16]);
}

#[test]
fn a_refusal_of_a_registration_is_left_alone_as_long_as_it_asks() {
    let mut upkeep = Upkeep::new(Vec::new(), at(0));
    upkeep.step(at(0));
    upkeep.answer(Answer::Failed(Some(Duration::from_secs(7))), at(0), 0.0);
    upkeep.nudge(at(1));
    assert_eq!(upkeep.step(at(1)), Step::Wait(Duration::from_millis(6_999)));
}

#[test]
fn registrations_that_never_last_keep_their_spread() {
    let mut upkeep = registered();
    let mut bounds = Vec::new();
    for round in 0_u64..4 {
        let now = at(20_000 * (round + 1));
        assert!(matches!(upkeep.step(now), Step::Renew(_)));
        upkeep.answer(Answer::NotRegistered, now, 0.5);
        upkeep.step(now);
        upkeep.answer(Answer::Failed(None), now, 1.0);
        let Step::Wait(wait) = upkeep.step(now) else { panic!("called at once") };
        bounds.push(wait.as_secs());
        upkeep.step(now.plus(wait));
        upkeep.answer(
            Answer::Registered(epoch(round + 2), every(Duration::from_secs(1))),
            now.plus(wait),
            0.5,
        );
    }
    assert_eq!(bounds, [1, 2, 4, 8]);
}

#[test]
fn a_hanging_call_does_not_stretch_the_gap_between_beats() {
    let mut upkeep = registered();
    upkeep.step(at(10_000));
    upkeep.answer(Answer::Failed(None), at(13_000), 0.5);
    assert_eq!(upkeep.step(at(13_000)), Step::Wait(Duration::from_secs(7)));
}

#[test]
fn what_the_owner_says_goes_out_at_once_but_not_twice_in_a_floor() {
    let mut upkeep = registered();
    upkeep.nudge(at(3_000));
    assert_eq!(upkeep.step(at(3_000)), Step::Renew(epoch(1)));
    upkeep.answer(Answer::Renewed(every(BEAT)), at(3_010), 0.5);
    upkeep.nudge(at(3_010));
    assert_eq!(upkeep.step(at(3_010)), Step::Wait(FLOOR));
}

#[test]
fn an_answer_gets_less_time_on_a_short_lease() {
    for (beat_ms, patience_ms) in [(10_000, 3_000), (1_667, 1_667), (200, 1_000)] {
        let mut upkeep = Upkeep::new(Vec::new(), at(0));
        upkeep.step(at(0));
        upkeep.answer(Answer::Registered(epoch(1), every(Duration::from_millis(beat_ms))), at(0), 0.5);
        assert_eq!(upkeep.patience(), Duration::from_millis(patience_ms));
    }
}

fn any_answer() -> impl Strategy<Value = Answer> {
    let wait = prop_oneof![Just(0_u64), 0..5_000_u64, Just(u64::MAX)].prop_map(Duration::from_millis);
    let length = prop_oneof![Just(0_u64), Just(5), Just(30), Just(300), Just(u64::MAX)];
    let lease = (wait.clone(), length)
        .prop_map(|(beat, length)| LeaseTimes { beat, length: Duration::from_secs(length) });
    prop_oneof![
        ((1_u64..1_000), lease.clone())
            .prop_map(|(revision, lease)| Answer::Registered(epoch(revision), lease)),
        lease.prop_map(Answer::Renewed),
        Just(Answer::NotRegistered),
        prop_oneof![Just(OWN.to_owned()), Just("http://other:1/".to_owned()), Just(String::new())]
            .prop_map(Answer::Superseded),
        proptest::option::of(wait).prop_map(Answer::Failed),
    ]
}

/// How long a call takes: mostly nothing, which is what makes loops hot.
fn any_took() -> impl Strategy<Value = u64> {
    prop_oneof![4 => Just(0_u64), 1 => 0..4_000_u64]
}

proptest! {
    #[test]
    fn no_answers_make_a_hot_loop_or_a_stop(
        answers in proptest::collection::vec((any_answer(), any_took(), 0.0..1.0_f64, any::<bool>()), 1..200)
    ) {
        let mut upkeep = Upkeep::new(vec![OWN.into()], at(0));
        let mut now = at(0);
        let mut sent: Vec<Instant> = Vec::new();
        let mut failed_before = None;
        for (answer, took_ms, chance, nudged) in answers {
            if let Step::Wait(wait) = upkeep.step(now) {
                // The longest beat with its jitter is the longest silence there is.
                prop_assert!(wait <= BEAT_MAX.mul_f64(1.2), "it stopped for {wait:?}");
                now = now.plus(wait);
                prop_assert!(!matches!(upkeep.step(now), Step::Wait(_)), "it did not call when it was due");
            }
            if let Some(failed) = failed_before {
                prop_assert!(now.since(failed) >= FLOOR, "it called {:?} after a failure", now.since(failed));
            }
            sent.push(now);
            now = now.plus(Duration::from_millis(took_ms));
            let failed = matches!(answer, Answer::Failed(_));
            upkeep.answer(answer, now, chance);
            failed_before = failed.then_some(now);
            if nudged {
                upkeep.nudge(now);
            }
        }
        for three in sent.windows(3) {
            prop_assert!(three[2].since(three[0]) >= FLOOR, "three calls within {:?}", three[2].since(three[0]));
        }
    }
}
