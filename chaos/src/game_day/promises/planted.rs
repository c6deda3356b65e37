//! Every demand is seen to fail: a violation is planted into a record that holds, and its promise breaks.

use std::time::Duration;

use rollcall_model::RemovalReason;

use super::*;
use crate::game_day::record::{Empty, Failed, Fault, Granted, GuardSight, Tick, Told};
use crate::history::{Act, Outcome};
use crate::origin::{Ending, Moment, Standing};

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn zones(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn sight(holder: &str, at: u64, count: u64, age: u64) -> Sight {
    Sight {
        holder: holder.to_owned(),
        cell: true,
        zone: "c".to_owned(),
        region: "us".to_owned(),
        asked: s(at),
        at: s(at),
        position: Some((1, 9)),
        count,
        digest: count.to_string(),
        age_ms: age * 1_000,
        resync: "0".to_owned(),
    }
}

fn guard(at: u64, holding: bool) -> GuardSight {
    let holding_cohorts = if holding { vec!["zone:c".to_owned()] } else { Vec::new() };
    GuardSight { region: "us".to_owned(), at: s(at), holding: holding_cohorts, suspects: 0, alerted: holding }
}

fn write(zone: &str, at: u64, outcome: Outcome) -> Op {
    Op {
        client: 0,
        cell: 0,
        id: format!("writer/{zone}-1/{at}"),
        act: Act::Renew(1),
        invoked: s(at),
        returned: Some(s(at)),
        outcome,
    }
}

fn failed(caller: &str, at: u64) -> Failed {
    Failed {
        caller: caller.to_owned(),
        zone: "a".to_owned(),
        target: "fleet/x/c-1".to_owned(),
        target_zone: "c".to_owned(),
        sent: s(at),
        at: s(at + 1),
        answered: false,
        why: "no answer".to_owned(),
    }
}

/// Zone c is cut off from 20 to 80 s; everything holds.
fn sound() -> Record {
    let fault = Fault {
        what: "zone c is cut off".to_owned(),
        zones: zones(&["c"]),
        programs: Vec::new(),
        at: s(20),
        until: Some(s(80)),
        landed: true,
    };
    let mut record = Record { ended: s(100), last_step: s(80), recovered: Some(s(90)), ..Record::default() };
    record.faults.push(fault);
    record.granted = vec![Granted { id: "fleet/x/c-1".to_owned(), zone: "c".to_owned(), epoch: 5, at: s(1) }];
    for at in 1..100 {
        let age = if (20..80).contains(&at) { at - 19 } else { 0 };
        record.sights.push(sight("cell-c", at, 7, age));
        record.guards.push(guard(at, (30..85).contains(&at)));
        record.ops.push(write("a", at, Outcome::Done));
        let cut = (22..80).contains(&at);
        record.ops.push(write("c", at, if cut { Outcome::Unknown("x".into()) } else { Outcome::Done }));
        record.ticks.push(Tick { zone: "a".to_owned(), at: s(at), resolves: 9, calls: 9, ..Tick::default() });
    }
    record.failed.push(failed("caller-a1", 25));
    record
}

fn all_demands() -> Vec<Demand> {
    let (a, c) = (|| zones(&["a"]), || zones(&["c"]));
    vec![
        Demand::HealthyRemovals { least: 0, most: 0 },
        Demand::Reregistrations { least: 0, most: 0 },
        Demand::GuardHolds { within_s: 15 },
        Demand::WritesGoOn { zones: a(), gap_s: 5 },
        Demand::WritesStop { zones: c() },
        Demand::ResolvesGoOn { zones: a() },
        Demand::LastCopy { zones: c(), region: "us".to_owned() },
        Demand::CallsGoOn { zones: a(), failures_most: 1, quiet_after_s: 10 },
        Demand::Resyncs { most: 0 },
        Demand::Recovers { within_s: 15 },
        Demand::WritesSucceed { zones: a() },
    ]
}

fn scenario() -> Scenario {
    crate::game_day::read("zone-partition").unwrap()
}

/// The demands that break once this was planted, by their place.
fn broken(plant: impl FnOnce(&mut Record)) -> Vec<usize> {
    let mut record = sound();
    plant(&mut record);
    let judged = all_demands().into_iter().map(|demand| demanded(&scenario(), &record, "x", &demand));
    judged.enumerate().filter(|(_, judged)| !judged.broken.is_empty()).map(|(place, _)| place).collect()
}

#[test]
fn a_sound_record_breaks_nothing() {
    assert_eq!(broken(|_| {}), Vec::<usize>::new());
}

#[test]
fn each_planted_violation_breaks_its_own_demand() {
    let expired = |record: &mut Record| {
        let moment = Moment { life: 0, revision: 9, at: s(60) };
        let standing = Standing {
            id: "fleet/x/c-1".to_owned(),
            epoch: 5,
            from: Moment { revision: 5, ..moment },
            tag: String::new(),
            lease: s(30),
            zone: "c".to_owned(),
            until: Some((moment, Ending::Unexplained)),
            said: Vec::new(),
        };
        let mut origin = Origin::default();
        origin.standings.push(standing);
        record.regions.push(Told { region: "us".to_owned(), origin, verdicts: Vec::new() });
    };
    assert_eq!(broken(expired), [0]);
    let again = |record: &mut Record| {
        record.granted.push(Granted { epoch: 6, at: s(82), ..record.granted[0].clone() });
    };
    assert_eq!(broken(again), [1]);
    assert_eq!(broken(|record| record.guards.retain(|guard| guard.holding.is_empty())), [2]);
    assert_eq!(broken(|record| record.guards.iter_mut().for_each(|guard| guard.alerted = false)), [2]);
    let holds_on = |record: &mut Record| record.guards.retain(|guard| guard.at <= s(80));
    assert_eq!(broken(holds_on), [2]);
    assert_eq!(broken(|record| record.ops.retain(|op| op.invoked < s(40) || op.invoked > s(50))), [3]);
    assert_eq!(broken(|record| record.ops.push(write("c", 50, Outcome::Done))), [4]);
    let empty = || Empty {
        caller: "caller-a1".to_owned(),
        zone: "a".to_owned(),
        name: "x".to_owned(),
        at: s(50),
        outcome: "none".to_owned(),
    };
    assert_eq!(broken(|record| record.empty.push(empty())), [5]);
    assert_eq!(broken(|record| record.sights[50].count = 6), [6]);
    assert_eq!(broken(|record| record.sights[50].age_ms = 0), [6]);
    assert_eq!(broken(|record| record.failed.push(failed("caller-a1", 26))), [7]);
    assert_eq!(broken(|record| record.failed.push(failed("caller-a2", 40))), [7]);
    let wrong = Failed { target_zone: "b".to_owned(), answered: true, ..failed("caller-a1", 26) };
    assert_eq!(broken(|record| record.failed.push(wrong)), [7]);
    assert_eq!(broken(|record| record.sights[90].resync = "1".to_owned()), [8]);
    assert_eq!(broken(|record| record.recovered = None), [9]);
    let refused = Outcome::Refused { status: 503, retry_after: None };
    assert_eq!(broken(|record| record.ops.push(write("a", 50, refused))), [10]);
}

/// One of zone c, killed at 20 s, that expired at 50 s.
fn dead(record: &mut Record) {
    let moment = Moment { life: 0, revision: 9, at: s(50) };
    let ending =
        Ending::Removed { reason: RemovalReason::Expired, actor: "keeper".to_owned(), term: Some(1) };
    let standing = Standing {
        id: "fleet/x/c-1".to_owned(),
        epoch: 5,
        from: Moment { revision: 5, at: s(1), ..moment },
        tag: String::new(),
        lease: s(30),
        zone: "c".to_owned(),
        until: Some((moment, ending)),
        said: Vec::new(),
    };
    let mut origin = Origin::default();
    origin.standings.push(standing);
    record.regions.push(Told { region: "us".to_owned(), origin, verdicts: Vec::new() });
    record.died.push(("c".to_owned(), s(20)));
}

#[test]
fn the_dead_that_go_late_or_not_at_all_and_the_living_that_go_are_told_apart() {
    let go = Demand::TheDeadGo { zones: zones(&["c"]), within_s: 45 };
    let none = Demand::HealthyRemovals { least: 0, most: 0 };
    let judge = |plant: fn(&mut Record)| -> Vec<bool> {
        let mut record = sound();
        dead(&mut record);
        plant(&mut record);
        let judge = |demand| demanded(&scenario(), &record, "x", demand).broken.is_empty();
        vec![judge(&go), judge(&none)]
    };
    assert_eq!(judge(|_| {}), [true, true]);
    assert_eq!(judge(|record| record.died[0].1 = s(4)), [false, true], "46 s is too late");
    assert_eq!(judge(|record| record.regions[0].origin.standings[0].until = None), [false, true]);
    assert_eq!(judge(|record| record.died[0].1 = s(60)), [false, false], "it went before it died");
    assert_eq!(judge(|record| record.died.clear()), [false, false], "nobody had died");
}

#[test]
fn what_had_nothing_to_look_at_proved_nothing() {
    let record = Record::default();
    for demand in all_demands().into_iter().skip(1) {
        let judged = demanded(&scenario(), &record, "x", &demand);
        assert!(!judged.broken.is_empty(), "{demand:?} holds for a run in which nothing happened");
    }
    assert!(!counts::landed(&record).broken.is_empty());
}

#[test]
fn a_copy_that_is_no_state_of_its_origin_or_goes_back_is_seen() {
    let digests = Digests::default();
    let sights = [sight("cell-c", 1, 7, 0)];
    let untrue = copies::hashes(&digests, &sights.iter().collect::<Vec<_>>());
    assert!(untrue.broken.len() == 1 && untrue.broken[0].starts_with("I30"), "{:?}", untrue.broken);
    let back = [sight("cell-c", 1, 7, 0), Sight { position: Some((1, 8)), ..sight("cell-c", 2, 7, 0) }];
    let back = copies::never_back(&back.iter().collect::<Vec<_>>());
    assert!(back.broken.len() == 1 && back.broken[0].starts_with("I17"), "{:?}", back.broken);
    let behind = copies::converged(&digests, &sights.iter().collect::<Vec<_>>());
    assert!(behind.broken.len() == 1 && behind.broken[0].starts_with("I32"), "{:?}", behind.broken);
}

#[test]
fn a_fault_that_was_not_seen_to_work_breaks_the_run() {
    let mut record = sound();
    record.faults[0].landed = false;
    assert_eq!(counts::landed(&record).broken.len(), 1);
}

/// Each zone called once in each phase, and all were answered but those of the zone that was cut off.
fn quiet() -> Record {
    let mut record = sound();
    record.ticks.clear();
    for (zone, at) in ["a", "b", "c"].iter().flat_map(|zone| [1, 50, 99].map(|at| (*zone, at))) {
        let calls_failed = u64::from(zone == "c" && at == 50);
        record.ticks.push(Tick {
            zone: zone.to_owned(),
            at: s(at),
            resolves: 1,
            calls: 1,
            calls_failed,
            ..Tick::default()
        });
    }
    record
}

#[test]
fn only_silence_is_too_little_traffic() {
    assert_eq!(
        traffic::busy(&scenario(), &quiet()).broken,
        Vec::<String>::new(),
        "however slow the machine is"
    );
    for place in 0..9 {
        let mut silent = quiet();
        silent.ticks[place].calls = 0;
        silent.ticks[place].calls_failed = 0;
        assert_eq!(traffic::busy(&scenario(), &silent).broken.len(), 1, "{:?}", silent.ticks[place]);
    }
    for place in [0, 1, 2, 3, 4, 5, 6, 8] {
        let mut unanswered = quiet();
        unanswered.ticks[place].calls_failed = 1;
        assert_eq!(traffic::busy(&scenario(), &unanswered).broken.len(), 1, "{:?}", unanswered.ticks[place]);
    }
}

#[test]
fn a_slow_machine_breaks_no_promise_of_the_registry() {
    let reached = Failed { target_zone: "b".to_owned(), ..failed("caller-a1", 26) };
    assert_eq!(broken(|record| record.failed.extend(vec![reached; 9])), Vec::<usize>::new());
    let late = |record: &mut Record| {
        // The answer to a question of 75 s came after the heal, and holds what came with it.
        record.sights[78] =
            Sight { asked: s(75), at: s(82), count: 9, age_ms: 0, ..sight("cell-c", 82, 9, 0) };
    };
    assert_eq!(broken(late), Vec::<usize>::new());
    let on_its_way = |record: &mut Record| {
        record.sights[21..].iter_mut().for_each(|sight| (sight.position, sight.count) = (Some((1, 10)), 8));
        record.sights[21..].iter_mut().for_each(|sight| sight.digest = "8".to_owned());
    };
    assert_eq!(broken(on_its_way), Vec::<usize>::new(), "a delta of before the cut is applied at 22 s");
}
