use std::path::Path;

use rustix::process::Signal;

use crate::process::{Process, eventually, rollcall, say};

fn settings(folder: &Path, listen: &str) -> String {
    let file = folder.join("cell.toml");
    let data = folder.join("data");
    let text = format!(
        "region = \"solo\"\ndata_dir = {data:?}\n\n[listen]\nhttp = \"{listen}\"\ngrpc = \"127.0.0.1:0\"\n\n[store]\nkind = \"embedded\"\n"
    );
    std::fs::write(&file, text).expect("written");
    file.to_str().expect("text").to_owned()
}

/// Starts a cell and waits until it serves; gives its address.
fn start(file: &str) -> (Process, String) {
    let mut command = rollcall();
    command.env("ROLLCALL_LOG_FORMAT", "json").args(["cell", "--config", file]);
    let mut cell = Process::start(command);
    let url = eventually("the cell listens", || {
        assert!(cell.has_ended().is_none(), "it ended: {}", cell.stderr());
        let log = cell.stderr();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let mut listens = lines.filter_map(|line| Some(format!("http://{}", line.get("http")?.as_str()?)));
        listens.next_back()
    });
    eventually("the cell serves", || {
        let regions = say(&url, &["regions", "-o", "json"]).json();
        (regions["regions"][0]["state"] == "current").then_some(())
    });
    (cell, url)
}

#[test]
fn a_cell_of_one_machine_keeps_its_registrations_over_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = settings(folder.path(), "127.0.0.1:0");
    let (cell, url) = start(&file);
    let line = ["register", "--id", "a/b/c", "--endpoint", "http://h:1/", "--lease", "300", "-o", "json"];
    let epoch = eventually("it registers", || {
        let registered = say(&url, &line);
        (registered.code == Some(0))
            .then(|| registered.json()["epoch"].as_str().expect("an epoch").to_owned())
    });
    cell.signal(Signal::TERM);
    let ended = cell.end();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{ended:?}");

    let (cell, url) = start(&file);
    let renewed = eventually("the keeper is in office", || {
        let renewed = say(&url, &["renew", "a/b/c", "--epoch", &epoch]);
        (renewed.code != Some(5)).then_some(renewed)
    });
    assert_eq!(renewed.code, Some(0), "{renewed:?}");
    cell.signal(Signal::INT);
    assert_eq!(cell.end().code, Some(0));
}

#[test]
fn a_cell_whose_address_is_taken_says_so_and_ends_with_5() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = rollcall();
    command.args(["cell", "--config", &settings(folder.path(), &address)]);
    let ended = Process::start(command).end();
    assert_eq!(ended.code, Some(5), "{ended:?}");
    assert!(ended.stderr.contains(&format!("{address} is taken")), "{ended:?}");
}

#[test]
fn a_cell_says_which_replicator_it_cannot_reach() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let source = format!("http://{}", free.local_addr().expect("bound"));
    drop(free);
    let folder = tempfile::tempdir().expect("a folder");
    let file = settings(folder.path(), "127.0.0.1:0");
    let text = std::fs::read_to_string(&file).expect("read");
    std::fs::write(&file, format!("{text}\n[[view]]\nregion = \"eu-west\"\nsource = \"{source}\"\n"))
        .expect("written");
    let (cell, _) = start(&file);
    let line = eventually("it says so", || {
        let log = cell.stderr();
        log.lines().find(|line| line.contains("replicator of a view cannot be reached")).map(str::to_owned)
    });
    for part in [&source, "\"region\":\"eu-west\"", "Connection refused"] {
        assert!(line.contains(part), "{part} is missing: {line}");
    }
    cell.signal(Signal::TERM);
    assert_eq!(cell.end().code, Some(0));
}

#[test]
fn a_role_with_bad_settings_ends_with_2_and_names_line_and_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = settings(folder.path(), "127.0.0.1:0");
    let text = std::fs::read_to_string(&file).expect("read").replace("[store]", "[stoer]");
    std::fs::write(&file, text).expect("written");
    for line in [&["cell", "--config", &file][..], &["config", "check", &file, "--role", "cell"]] {
        let mut command = rollcall();
        command.args(line);
        let ended = Process::start(command).end();
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.stderr.contains("line 8") && ended.stderr.contains("`stoer`"), "{ended:?}");
    }
}
