use std::path::Path;

use rustix::process::Signal;

use crate::process::{Dev, Ended, Process, eventually, rollcall, say};

/// What is not ok: name and verdict of each.
fn unwell(ended: &Ended) -> Vec<(String, String)> {
    let body = ended.json();
    let text = |check: &serde_json::Value, member: &str| check[member].as_str().expect("text").to_owned();
    let checks = body["checks"].as_array().expect("a list").iter();
    for check in checks.clone() {
        assert!(!text(check, "detail").is_empty(), "{check}");
        assert_eq!(check["next"].is_string(), check["verdict"] != "ok", "{check}");
    }
    let unwell = checks.filter(|check| check["verdict"] != "ok");
    unwell.map(|check| (text(check, "name"), text(check, "verdict"))).collect()
}

fn doctor(url: &str) -> Ended {
    say(url, &["doctor", "-o", "json"])
}

/// Starts a cell with this store and, if one is given, a view from there; gives its address.
fn cell(folder: &Path, store: &str, view: Option<&str>) -> (Process, String) {
    let file = folder.join("cell.toml");
    let data = folder.join("data");
    let view = view
        .map_or(String::new(), |source| format!("\n[[view]]\nregion = \"eu-west\"\nsource = \"{source}\"\n"));
    let text = format!(
        "region = \"solo\"\ndata_dir = {data:?}\n[listen]\nhttp = \"127.0.0.1:0\"\ngrpc = \"127.0.0.1:0\"\n[store]\n{store}\n{view}"
    );
    std::fs::write(&file, text).expect("written");
    let mut command = rollcall();
    command.env("ROLLCALL_LOG_FORMAT", "json").arg("cell").arg("--config").arg(file);
    let cell = Process::start(command);
    let url = eventually("the cell listens", || {
        let log = cell.stderr();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let mut listens = lines.filter_map(|line| Some(format!("http://{}", line.get("http")?.as_str()?)));
        listens.next_back()
    });
    (cell, url)
}

fn nowhere() -> String {
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    format!("http://{}", free.expect("a free port"))
}

fn pair(name: &str, verdict: &str) -> (String, String) {
    (name.to_owned(), verdict.to_owned())
}

#[test]
fn a_healthy_world_has_nothing_to_mend() {
    let dev = Dev::start(&["--agents", "3", "--regions", "us,eu"]);
    let well =
        eventually("all is well", || Some(doctor(&dev.urls[0])).filter(|ended| unwell(ended).is_empty()));
    assert_eq!((well.code, well.stderr.as_str()), (Some(0), ""), "{well:?}");
    let table = say(&dev.urls[1], &["doctor"]);
    assert_eq!(table.code, Some(0), "{table:?}");
    for line in ["CHECK ", "reachable ", "region us ", "region eu "] {
        assert!(table.stdout.lines().any(|shown| shown.starts_with(line)), "{line}: {}", table.stdout);
    }
    // A cell is no replicator.
    let ended = say(&dev.urls[0], &["doctor", "--replicator", &dev.urls[1], "-o", "json"]);
    assert_eq!((ended.code, unwell(&ended)), (Some(1), vec![pair("replicator", "fail")]), "{ended:?}");
}

#[test]
fn a_replicator_that_is_not_there_is_found_by_its_region() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = nowhere();
    let (cell, url) = cell(folder.path(), "kind = \"embedded\"", Some(&source));
    let ended = eventually("only that is wrong", || {
        let ended = doctor(&url);
        (unwell(&ended) == [pair("region eu-west", "fail")]).then_some(ended)
    });
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let table = say(&url, &["doctor"]);
    let why = format!("nothing is known of it; {source} fails: Connection refused");
    let next = format!(
        "\nregion eu-west: start the replicator whose [listen] grpc is {source}, or correct `source`"
    );
    // A narrow table breaks its lines; the JSON has them whole.
    let checks = ended.json()["checks"].as_array().expect("a list").clone();
    let region = checks.into_iter().find(|check| check["name"] == "region eu-west").expect("the region");
    assert!(region["detail"].as_str().expect("text").contains(&why), "{region}");
    assert!(table.stdout.contains(&next), "{table:?}");
    cell.signal(Signal::TERM);
    assert_eq!(cell.end().code, Some(0));
}

#[test]
fn a_store_that_is_not_there_is_found_with_what_hangs_on_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = format!("kind = \"etcd\"\nendpoints = [\"{}\"]", nowhere());
    let (cell, url) = cell(folder.path(), &store, None);
    let ended = doctor(&url);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let fail = |name| pair(name, "fail");
    let expected = [fail("ready"), fail("store"), fail("keeper"), pair("guard", "warn"), fail("region solo")];
    assert_eq!(unwell(&ended), expected, "{ended:?}");
    cell.signal(Signal::TERM);
    assert_eq!(cell.end().code, Some(0));
}

#[test]
fn nobody_there_is_a_failure_with_the_next_step() {
    let url = nowhere();
    let ended = doctor(&url);
    let detail = format!("no cell answers at {url}/: Connection refused (os error 111)");
    assert_eq!(ended.json()["checks"][0]["detail"], detail);
    assert_eq!((ended.code, unwell(&ended)), (Some(5), vec![pair("reachable", "fail")]), "{ended:?}");
    let ended = say(&url, &["doctor", "--replicator", &url, "-o", "json"]);
    let detail = format!("no replicator answers at {url}/: Connection refused (os error 111)");
    assert_eq!(ended.json()["checks"][1]["detail"], detail);
    let ended = say("cell:7400", &["doctor"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
}
