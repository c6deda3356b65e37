use std::net::TcpListener;
use std::process::Command;

use crate::process::{Dev, Process, eventually, rollcall, say};

#[test]
fn every_printed_line_works_and_sigterm_ends_it_with_0() {
    let dev = Dev::start(&[]);
    assert_eq!(dev.urls.len(), 3, "{}", dev.process.stdout());
    let guide = eventually("the guide", || Some(dev.process.stderr()).filter(|text| text.contains("Ctrl-C")));
    let lines: Vec<_> = guide.lines().filter(|line| line.starts_with("  ")).map(str::trim).collect();
    assert_eq!(lines.len(), 3, "{guide}");
    for line in lines {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]);
        let ended = Process::start(shell).end();
        assert_eq!(ended.code, Some(0), "{line}: {ended:?}");
        assert!(ended.stdout.contains("demo/"), "{line}: {ended:?}");
    }
    let ended = dev.stop();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.stdout.lines().count(), 1, "{ended:?}");
}

#[test]
fn when_ready_every_region_sees_the_whole_fleet_and_every_agent_answers() {
    let dev = Dev::start(&["--regions", "north,south", "--agents", "7"]);
    for url in &dev.urls {
        let list = say(url, &["agents", "--region", "all", "-o", "json"]).json();
        let agents = list["agents"].as_array().expect("a list").clone();
        assert_eq!(agents.len(), 7, "{list}");
        for agent in agents {
            let endpoint = agent["endpoints"][0]["url"].as_str().expect("an endpoint");
            let mut curl = Command::new("curl");
            curl.args(["-sf", "-d", r#"{"text":"hello"}"#, endpoint]);
            let heard = Process::start(curl).end().json();
            assert_eq!(heard["agent"], agent["id"]);
            assert_eq!(heard["received"]["text"], "hello");
            let mut curl = Command::new("curl");
            curl.args(["-sf", &format!("{endpoint}/.well-known/agent-card.json")]);
            assert_eq!(
                Process::start(curl).end().json()["name"],
                endpoint.split('/').rev().nth(1).expect("a name")
            );
        }
        eventually("every region is current", || {
            let regions = say(url, &["regions", "-o", "json"]).json();
            let mut regions = regions["regions"].as_array().expect("a list").iter();
            regions.all(|region| region["state"] == "current").then_some(())
        });
    }
    assert_eq!(dev.stop().code, Some(0));
}

#[test]
fn a_fleet_of_none_is_ready_too() {
    let dev = Dev::start(&["--agents", "0"]);
    let list = say(&dev.urls[0], &["agents", "--region", "all", "-o", "json"]).json();
    assert_eq!(list["agents"], serde_json::json!([]));
    assert_eq!(dev.stop().code, Some(0));
}

#[test]
fn with_too_few_file_descriptors_it_says_how_many_it_needs() {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 64 && exec \"$0\" dev --base-port 0", env!("CARGO_BIN_EXE_rollcall")]);
    let ended = Process::start(command).end();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
    let told = "this process may open 64 files and connections at once and needs 292: ";
    assert!(ended.stderr.starts_with(told), "{ended:?}");
}

#[test]
fn a_taken_port_is_named_before_anything_starts() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("bound").port();
    let mut command = rollcall();
    command.args(["dev", "--base-port", &port.to_string()]);
    let ended = Process::start(command).end();
    assert_eq!(ended.code, Some(5), "{ended:?}");
    assert!(ended.stderr.contains(&format!("port {port} is taken, nothing was started")), "{ended:?}");
    assert_eq!(ended.stdout, "");
}

#[test]
fn regions_that_cannot_be_are_wrong_calls() {
    for line in
        [&["dev", "--regions", "a,a"][..], &["dev", "--base-port", "65530"], &["dev", "--regions", "A"]]
    {
        let mut command = rollcall();
        command.args(line);
        let ended = Process::start(command).end();
        assert_eq!(ended.code, Some(2), "{ended:?}");
    }
}

#[test]
fn a_data_directory_keeps_registrations_over_a_restart_and_the_fleet_takes_its_own_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().to_str().expect("text");
    let dev = Dev::start(&["--agents", "3", "--data-dir", folder]);
    let line =
        ["register", "--id", "ops/mail/1", "--endpoint", "http://h:1/", "--lease", "300", "-o", "json"];
    let epoch = say(&dev.urls[1], &line).json()["epoch"].as_str().expect("an epoch").to_owned();
    assert_eq!(dev.stop().code, Some(0));

    let dev = Dev::start(&["--agents", "0", "--data-dir", folder]);
    let agent = say(&dev.urls[1], &["agent", "ops/mail/1", "-o", "json"]).json();
    assert_eq!(agent["epoch"], epoch.as_str(), "{agent}");
    let renewed = say(&dev.urls[1], &["renew", "ops/mail/1", "--epoch", &epoch]);
    assert_eq!(renewed.code, Some(0), "{renewed:?}");
    for url in &dev.urls {
        let list = say(url, &["agents", "--region", "all", "-o", "json"]).json();
        assert_eq!(list["agents"].as_array().map(Vec::len), Some(1), "{list}");
    }
    assert_eq!(dev.stop().code, Some(0));
}
