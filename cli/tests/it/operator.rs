use serde_json::json;

use crate::process::{Dev, eventually, say};

#[test]
fn an_operator_sees_the_guard_evicts_and_mutes() {
    let dev = Dev::start(&["--agents", "0", "--regions", "solo"]);
    let url = dev.urls[0].as_str();
    let register = ["register", "--id", "a/b/c", "--endpoint", "http://h:1/", "--zone", "a", "-o", "json"];
    assert_eq!(say(url, &register).code, Some(0));
    let guard = eventually("a sweep that counted it", || {
        let guard = say(url, &["guard", "-o", "json"]);
        assert_eq!(guard.code, Some(0), "{guard:?}");
        let guard = guard.json();
        (guard["cohorts"].as_array().expect("a list").len() == 2).then_some(guard)
    });
    assert_eq!((&guard["state"], &guard["held"]), (&json!("calm"), &json!([])));
    let table = say(url, &["guard"]);
    assert!(table.stdout.contains("zone:a  calm"), "{table:?}");

    let released = say(url, &["guard", "release", "a/b/c", "a/b/d", "-o", "json"]);
    assert_eq!(released.code, Some(4), "neither was held: {released:?}");
    let lines: Vec<_> = released.stderr.lines().collect();
    let said = ["not released: a/b/c: it is renewed in time", "not released: a/b/d: it is not registered"];
    assert_eq!(lines, said);
    let released = released.json();
    let refused: Vec<_> =
        released["refused"].as_array().expect("a list").iter().map(|one| &one["id"]).collect();
    assert_eq!((&released["released"], refused), (&json!([]), vec![&json!("a/b/c"), &json!("a/b/d")]));

    let muted = say(url, &["mute", "a/b/c", "--seconds", "60", "-o", "json"]).json();
    assert_eq!((&muted["id"], &muted["seconds"]), (&json!("a/b/c"), &json!(60)));
    let table = say(url, &["mute", "a/b/c", "--seconds", "0"]);
    assert_eq!((table.code, table.stdout.starts_with("id      a/b/c")), (Some(0), true), "{table:?}");

    let evicted = say(url, &["evict", "a/b/c", "--reason", "a drill", "-o", "json"]);
    assert_eq!((evicted.code, &evicted.json()["reason"]), (Some(0), &json!("a drill")));
    let removal = say(url, &["removals", "--id", "a/b/c", "-o", "json"]).json()["removals"][0].clone();
    assert_eq!((&removal["reason"], &removal["actor"]), (&json!("evicted"), &json!("operator:anonymous")));

    for (line, code, problem) in [
        (&["evict", "a/b/c", "--reason", "again"][..], 3, "not_registered"),
        (&["mute", "a/b/c", "--seconds", "1"], 3, "not_registered"),
        (&["evict", "A/b/c", "--reason", "x"], 2, "invalid_id"),
        (&["evict", "a/b/c", "--reason", ""], 2, "invalid_body"),
        (&["mute", "a/b/c", "--seconds", "86401"], 2, "invalid_body"),
        (&["guard", "release", "A/b/c"], 2, "invalid_id"),
    ] {
        let refused = say(url, &[line, &["-o", "json"]].concat());
        assert_eq!((refused.code, &refused.json()["code"]), (Some(code), &json!(problem)), "{line:?}");
    }
    assert_eq!(dev.stop().code, Some(0));
}
