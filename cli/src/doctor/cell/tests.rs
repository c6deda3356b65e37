use rollcall_cell::store::space::Bound;
use serde_json::json;

use super::*;
use crate::doctor::check::Verdict;
use crate::exit::Exit;
use crate::http::Failure;

fn refused(detail: &str) -> Failure {
    let body = json!({"code": "store_unavailable", "detail": detail}).to_string();
    Failure { exit: Exit::Unavailable, body: Some(body), words: "refused".into() }
}

fn region(name: &str, role: &str, state: &str, age_ms: Option<u64>) -> Value {
    json!({"region": name, "role": role, "state": state, "age_ms": age_ms, "count": 3,
        "last_resync": {"at": "2026-11-30T10:00:00.000Z", "reason": "started"}})
}

/// A cell with which all is well.
fn well() -> Answers {
    Answers {
        took: Duration::from_millis(3),
        // Ten past ten.
        clocks: Some((Timestamp(1_796_033_400_000), Timestamp(1_796_033_400_700))),
        version: json!({"version": env!("CARGO_PKG_VERSION"), "commit": crate::COMMIT, "region": "us", "role": "cell"}),
        ready: Ok("ready\nkeeper (not needed to be ready): this process\n".into()),
        regions: Ok(json!({"regions": [
            region("us", "own", "current", Some(200)), region("eu", "view", "current", Some(900)),
        ]})),
        guard: Ok(json!({"state": "calm", "cohorts": [], "held": []})),
    }
}

fn judged(answers: Answers) -> Vec<Check> {
    judge(&Asked { url: "http://h:1".into(), answers: Ok(answers) }, &[])
}

/// What is not ok, by name.
fn findings(answers: Answers) -> Vec<(String, Verdict)> {
    let checks = judged(answers);
    assert!(checks.iter().all(|check| check.next.is_some() == (check.verdict != Verdict::Ok)), "{checks:?}");
    let unwell = checks.into_iter().filter(|check| check.verdict != Verdict::Ok);
    unwell.map(|check| (check.name, check.verdict)).collect()
}

fn finding(name: &str, verdict: Verdict) -> (String, Verdict) {
    (name.to_owned(), verdict)
}

#[test]
fn with_a_cell_that_is_well_every_check_is_ok() {
    assert_eq!(findings(well()), []);
    let names: Vec<_> = judged(well()).into_iter().map(|check| check.name).collect();
    let expected = [
        "reachable",
        "version",
        "clock",
        "ready",
        "store",
        "keeper",
        "guard",
        "region us",
        "region eu",
        "resyncs",
    ];
    assert_eq!(names, expected);
}

#[test]
fn nobody_there_is_one_failure_with_the_next_step() {
    let failure =
        Failure { exit: Exit::Unavailable, body: None, words: "no cell answers at http://h:1".into() };
    let checks = judge(&Asked { url: "http://h:1".into(), answers: Err(failure) }, &[]);
    assert_eq!((checks.len(), checks[0].verdict), (1, Verdict::Fail));
    assert!(checks[0].next.as_ref().unwrap().contains("rollcall dev"));
}

#[test]
fn what_is_no_cell_is_told_and_a_replicator_by_its_name() {
    for (version, word) in
        [(json!({"role": "replicator"}), "--replicator http://h:1"), (Value::Null, "--url")]
    {
        let checks = judged(Answers { version, ..well() });
        assert_eq!((checks.len(), checks[0].verdict), (1, Verdict::Fail));
        assert!(checks[0].next.as_ref().unwrap().contains(word), "{checks:?}");
    }
}

#[test]
fn a_store_that_is_away_is_the_first_thing_to_mend() {
    let regions = json!({"regions": [region("us", "own", "stale", Some(45_000))]});
    let away = Answers { guard: Err(refused("no keeper is in office")), regions: Ok(regions), ..well() };
    let fail = |name| finding(name, Verdict::Fail);
    let expected = [fail("store"), fail("keeper"), finding("guard", Verdict::Warn), fail("region us")];
    assert_eq!(findings(away), expected);
    // At an election alone the store is heard of.
    let election = Answers { guard: Err(refused("no keeper is in office")), ..well() };
    assert_eq!(findings(election), [finding("keeper", Verdict::Warn), finding("guard", Verdict::Warn)]);
}

#[test]
fn a_store_that_does_not_answer_is_told_while_the_last_beat_is_young() {
    let line = "store (not needed to be ready): no answer for 1 s: the store cannot be reached: http://h:2379: x: bring it back";
    let ready = format!("ready\nus (own): current\n{line}\nkeeper (not needed to be ready): this process\n");
    let silent = || Answers { ready: Ok(ready.clone()), ..well() };
    let expected = [finding("store", Verdict::Fail), finding("keeper", Verdict::Warn)];
    assert_eq!(findings(silent()), expected);
    let store = judged(silent()).into_iter().find(|check| check.name == "store").unwrap();
    let detail =
        "no answer for 1 s: the store cannot be reached: http://h:2379: x; the last beat was 0.2 s ago";
    assert_eq!((store.detail.as_str(), store.next.as_deref()), (detail, Some("bring it back")));
    // A cell that never loaded says it with its refusal.
    let detail = format!("the state of us is not loaded yet; us (own): not_loaded; {line}");
    let regions = json!({"regions": [region("us", "own", "not_loaded", None)]});
    let never = Answers { ready: Err(refused(&detail)), regions: Ok(regions), ..well() };
    let store = judged(never).into_iter().find(|check| check.name == "store").unwrap();
    assert!(store.detail.contains("http://h:2379"), "{store:?}");
    let answers = "ready\nstore (not needed to be ready): it answers\n";
    assert_eq!(findings(Answers { ready: Ok(answers.into()), ..well() }), []);
}

#[test]
fn a_copy_on_disk_that_cannot_be_written_is_a_warning_with_what_to_do() {
    let line =
        "copy of eu (not needed to be ready): not written: /d/view.eu.state: Is a directory: put it away";
    let checks = judged(Answers { ready: Ok(format!("ready\n{line}\n")), ..well() });
    let copy = checks.iter().find(|check| check.name == "copy of eu").unwrap();
    let seen = (copy.verdict, copy.detail.as_str(), copy.next.as_deref());
    assert_eq!(seen, (Verdict::Warn, "not written: /d/view.eu.state: Is a directory", Some("put it away")));
}

#[test]
fn a_cell_that_never_loaded_is_not_ready() {
    let regions = json!({"regions": [region("us", "own", "not_loaded", None)]});
    let ready = Err(refused("the state of us is not loaded yet"));
    let empty = Answers { ready, guard: Err(refused("x")), regions: Ok(regions), ..well() };
    let checks = judged(empty);
    let ready = checks.iter().find(|check| check.name == "ready").unwrap();
    assert_eq!((ready.verdict, ready.detail.as_str()), (Verdict::Fail, "the state of us is not loaded yet"));
}

#[test]
fn other_regions_fail_when_stale_or_never_loaded_and_warn_before() {
    let with = |state, age| {
        let regions =
            json!({"regions": [region("us", "own", "current", Some(1)), region("eu", "view", state, age)]});
        findings(Answers { regions: Ok(regions), ..well() })
    };
    assert_eq!(with("behind", Some(5_000)), [finding("region eu", Verdict::Warn)]);
    assert_eq!(with("stale", Some(50_000)), [finding("region eu", Verdict::Fail)]);
    assert_eq!(with("not_loaded", None), [finding("region eu", Verdict::Fail)]);
}

#[test]
fn a_guard_that_holds_is_told_with_its_cohorts() {
    let guard = json!({"state": "holding", "held": ["a/b/c"], "cohorts": [
        {"cohort": "region", "registered": 120, "suspects": 40, "limit": 18, "since": "T", "settling_until": null},
        {"cohort": "zone:b", "registered": 40, "suspects": 0, "limit": 6, "since": null, "settling_until": null},
    ]});
    let checks = judged(Answers { guard: Ok(guard), ..well() });
    let guard = checks.iter().find(|check| check.name == "guard").unwrap();
    assert_eq!(guard.verdict, Verdict::Warn);
    assert_eq!(guard.detail, "holding 1 registration past the deadline; region: 40 of 120 silent, limit 18");
}

#[test]
fn clocks_that_differ_and_other_builds_are_warnings() {
    let at = |own| Answers { clocks: Some((Timestamp(1_796_033_400_000), Timestamp(own))), ..well() };
    assert_eq!(findings(at(1_796_033_402_400)), []);
    for (own, words) in [(1_796_033_500_500, "100 s ahead of"), (1_796_033_300_500, "100 s behind")] {
        let checks = judged(at(own));
        let clock = checks.iter().find(|check| check.name == "clock").unwrap();
        assert!(clock.verdict == Verdict::Warn && clock.detail.contains(words), "{clock:?}");
    }
    let version = json!({"version": "0.0.9", "commit": "x", "region": "us", "role": "cell"});
    assert_eq!(findings(Answers { version, ..well() }), [finding("version", Verdict::Warn)]);
}

#[test]
fn a_resync_for_another_reason_than_the_start_is_news_for_ten_minutes() {
    let with = |at: &str, reason: &str| {
        let mut eu = region("eu", "view", "current", Some(1));
        eu["last_resync"] = json!({"at": at, "reason": reason});
        let regions = json!({"regions": [region("us", "own", "current", Some(1)), eu]});
        findings(Answers { regions: Ok(regions), ..well() })
    };
    assert_eq!(with("2026-11-30T10:09:00.000Z", "gap"), [finding("resyncs", Verdict::Warn)]);
    assert_eq!(with("2026-11-30T09:09:00.000Z", "gap"), []);
    assert_eq!(with("2026-11-30T10:09:00.000Z", "started"), []);
}

#[test]
fn f08_a_full_store_is_told_as_such_with_what_to_do() {
    for bound in [Bound::Quota, Bound::Disk] {
        is_told_as_full(bound.remedy());
    }
}

fn is_told_as_full(remedy: &str) {
    let line = format!("store (not needed to be ready): out of space for 70 s: {remedy}");
    let full = || Answers {
        ready: Ok(format!("ready\nus (own): stale\n{line}\nkeeper (not needed to be ready): this process\n")),
        regions: Ok(json!({"regions": [region("us", "own", "stale", Some(70_000))]})),
        ..well()
    };
    let store = judged(full()).into_iter().find(|check| check.name == "store").unwrap();
    assert_eq!((store.verdict, store.detail.as_str()), (Verdict::Fail, "out of space for 70 s"));
    assert_eq!(store.next.as_deref(), Some(remedy));
    let not_ready =
        refused(&format!("us (own): not_loaded; {line}; keeper (not needed to be ready): not this process"));
    let told = judged(Answers { ready: Err(not_ready), ..full() });
    let store = told.into_iter().find(|check| check.name == "store").unwrap();
    assert_eq!(store.next.as_deref(), Some(remedy), "in a refusal as well");
    let expected = [finding("store", Verdict::Fail), finding("region us", Verdict::Fail)];
    assert_eq!(findings(full()), expected, "its keeper is in office");
    let nobody = Answers { guard: Err(refused("no keeper")), ..full() };
    assert!(findings(nobody).contains(&finding("keeper", Verdict::Fail)));
}
