use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;

use crate::process::{Dev, Ended, Process, eventually, rollcall, say};

fn start(url: &str, line: &[&str]) -> Process {
    let mut command = rollcall();
    command.args(["run", "--url", url, "--id", "demo/job", "--endpoint", "http://127.0.0.1:9/"]).args(line);
    Process::start(command)
}

/// An address where nobody is.
fn nowhere() -> String {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port");
    format!("http://{free}")
}

fn jobs(url: &str) -> Vec<serde_json::Value> {
    let list = say(url, &["agents", "--name", "job", "-o", "json"]).json();
    list["agents"].as_array().expect("a list").clone()
}

#[test]
fn the_exit_code_is_the_commands_own_also_when_the_registry_is_away() {
    let url = nowhere();
    for (script, code) in [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -TERM $$", 143)] {
        let ended = start(&url, &["--", "sh", "-c", script]).end();
        assert_eq!(ended.code, Some(code), "{script}: {ended:?}");
    }
}

#[test]
fn the_commands_output_is_its_own() {
    let Ended { code, stdout, .. } = start(&nowhere(), &["--", "sh", "-c", "echo to stdout"]).end();
    assert_eq!((code, stdout.as_str()), (Some(0), "to stdout\n"));
}

#[test]
fn what_cannot_start_says_why() {
    let ended = start(&nowhere(), &["--", "no-such-command-here"]).end();
    assert_eq!(ended.code, Some(127), "{ended:?}");
    assert!(ended.stderr.contains("no-such-command-here"), "{ended:?}");
    let ended = start(&nowhere(), &["--capability", "email.send", "--", "sh", "-c", "echo ran"]).end();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
    assert!(ended.stderr.contains("/capabilities/0"), "{ended:?}");
    let ended = start("cell:7400", &["--", "true"]).end();
    assert_eq!(ended.code, Some(2), "{ended:?}");
}

#[test]
fn it_is_registered_while_the_command_runs_and_signals_are_passed_on() {
    let dev = Dev::start(&["--agents", "0", "--regions", "solo"]);
    let url = dev.urls[0].as_str();
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let job = start(url, &["--", "sleep", "600"]);
        let found = eventually("the job is registered", || jobs(url).pop());
        assert_eq!(found["lifecycle"], "healthy");
        job.signal(signal);
        let ended = job.end();
        assert_eq!(ended.code, Some(code), "{ended:?}");
        // It was taken back before the process ended, so there is nothing to wait for.
        assert!(jobs(url).is_empty());
        let removals = say(url, &["removals", "-o", "json"]).json();
        assert_eq!(removals["removals"][0]["reason"], "deregistered");
        assert_eq!(removals["removals"][0]["id"], found["id"]);
    }
}

#[test]
fn sdk_02_the_command_is_registered_without_a_word_of_its_own_and_its_sdk_finds_the_cell() {
    let dev = Dev::start(&["--agents", "0", "--regions", "solo"]);
    let url = dev.urls[0].as_str();
    let job = start(url, &["--", "sh", "-c", "echo \"$ROLLCALL_URL\"; exec sleep 600"]);
    eventually("the job is registered", || jobs(url).pop());
    job.signal(Signal::TERM);
    assert_eq!(job.end().stdout.trim_end(), url);
}

#[test]
fn a_command_that_ends_at_once_leaves_no_registration_and_people_read_sentences() {
    let dev = Dev::start(&["--agents", "0", "--regions", "solo"]);
    let url = dev.urls[0].as_str();
    for (command, code) in
        [("exit 0", 0), ("exit 3", 3), ("sleep 0.1", 0), ("sleep 0.12", 0), ("sleep 0.3", 0)]
    {
        let ended = start(url, &["--", "sh", "-c", command]).end();
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(jobs(url).is_empty(), "{command} left a registration behind");
        for line in ended.stderr.lines() {
            assert!(line.starts_with("rollcall: demo/job/"), "{command}: no sentence: {line}");
        }
        if command.starts_with("exit") {
            assert_eq!(ended.stderr, "", "{command} was registered");
        }
    }
    let job = start(url, &["--", "sleep", "600"]);
    eventually("the job is registered", || {
        job.stderr().contains("is registered in solo, epoch ").then_some(())
    });
    job.signal(Signal::TERM);
    let said = job.end().stderr;
    assert!(said.contains("rollcall: draining; SIGTERM passed on to the command"), "{said}");
    assert!(said.trim_end().ends_with("is deregistered"), "{said}");
}

#[test]
fn a_signal_tells_callers_that_it_is_going_while_the_command_finishes() {
    let dev = Dev::start(&["--agents", "0", "--regions", "solo"]);
    let url = dev.urls[0].as_str();
    let folder = tempfile::tempdir().expect("a folder");
    let done = folder.path().join("done");
    // It takes the signal as a wish, and ends when its work is done.
    let script = format!("trap : TERM; while [ ! -e '{}' ]; do sleep 0.05; done; exit 7", done.display());
    let job = start(url, &["--", "sh", "-c", &script]);
    eventually("the job is registered", || jobs(url).pop());
    job.signal(Signal::TERM);
    eventually("the job is draining", || jobs(url).pop().filter(|job| job["lifecycle"] == "draining"));
    std::fs::write(&done, "").expect("written");
    let ended = job.end();
    assert_eq!(ended.code, Some(7), "{ended:?}");
    assert!(jobs(url).is_empty());
}

#[test]
fn ctrl_c_of_a_terminal_reaches_the_command_once_whatever_its_stdin_is() {
    let dev = Dev::start(&["--agents", "0", "--regions", "solo"]);
    let url = dev.urls[0].as_str();
    let folder = tempfile::tempdir().expect("a folder");
    for (nth, stdin) in ["", " < /dev/null"].into_iter().enumerate() {
        let done = folder.path().join(nth.to_string());
        // It counts the signals, and ends when it is told to.
        let counting =
            format!("trap \"echo told\" INT; while [ ! -e {} ]; do sleep 0.05; done; exit 7", done.display());
        let rollcall = env!("CARGO_BIN_EXE_rollcall");
        let line = format!(
            "exec {rollcall} run --url {url} --id demo/job --endpoint http://127.0.0.1:9/ -- sh -c '{counting}'{stdin}"
        );
        // A terminal of its own, with what is written here as its keys.
        let mut terminal = Command::new("script");
        terminal.args(["--quiet", "--return", "--command", &line, "/dev/null"]).stdin(Stdio::piped());
        terminal.env("SHELL", "/bin/sh");
        let mut terminal =
            Terminal(terminal.stdout(Stdio::piped()).spawn().expect("script of util-linux is there"));
        let mut keys = terminal.0.stdin.take().expect("piped");
        eventually("the job is registered", || jobs(url).pop());
        keys.write_all(b"\x03").expect("Ctrl-C is typed");
        eventually("the job is draining", || jobs(url).pop().filter(|job| job["lifecycle"] == "draining"));
        std::fs::write(&done, "").expect("written");
        let status = eventually("it ends", || terminal.0.try_wait().expect("it can be asked"));
        let mut said = String::new();
        terminal.0.stdout.take().expect("piped").read_to_string(&mut said).expect("it is text");
        assert_eq!((status.code(), said.matches("told").count()), (Some(7), 1), "{stdin:?}: {said}");
        assert!(said.contains("the command has SIGINT from the terminal"), "{said}");
        assert!(said.trim_end().ends_with("is deregistered") && jobs(url).is_empty(), "{said}");
    }
}

/// Ended with the test.
struct Terminal(Child);

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_registry_that_comes_later_is_found() {
    // Outside of the range that the system hands out, where other tests might get in between.
    let pairs = (0..).map(|at| 20_000 + 2 * u16::try_from((std::process::id() + at) % 5_000).expect("small"));
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let port = pairs.take(5_000).find(|port| free(*port) && free(port + 1)).expect("a free pair of ports");
    let url = format!("http://127.0.0.1:{port}");
    let job = start(&url, &["--", "sleep", "600"]);
    let told =
        format!("registration failed, trying on: the cell at {url} cannot be reached: Connection refused");
    eventually("the first try has failed", || job.stderr().contains(&told).then_some(()));
    let dev = Dev::start(&["--agents", "0", "--regions", "solo", "--base-port", &port.to_string()]);
    assert_eq!(dev.urls, [url.as_str()]);
    eventually("the job is registered", || jobs(&url).pop());
    job.signal(Signal::TERM);
    assert_eq!(job.end().code, Some(143));
}

#[test]
fn two_jobs_share_an_entry_until_the_last_one_ends() {
    let dev = Dev::start(&["--agents", "0", "--regions", "solo"]);
    let url = dev.urls[0].as_str();
    let shared = ["--scope", "service", "--", "sleep", "600"];
    let first = start(url, &shared);
    let found = eventually("the first job is registered", || jobs(url).pop());
    assert_eq!((&found["id"], &found["scope"]), (&"demo/job/service".into(), &"service".into()));
    let second = start(url, &shared);
    eventually("the second job joined", || second.stderr().contains("registered").then_some(()));
    first.signal(Signal::TERM);
    let ended = first.end();
    assert_eq!(ended.code, Some(143));
    assert!(ended.stderr.contains("; the entry goes with its last holder"), "{ended:?}");
    let left = jobs(url).pop().expect("the other job still holds it");
    assert_eq!((&left["epoch"], &left["lifecycle"]), (&found["epoch"], &"healthy".into()));
    second.signal(Signal::TERM);
    assert_eq!(second.end().code, Some(143));
    assert!(jobs(url).is_empty());
}

#[test]
fn mod_17_in_a_pod_the_metadata_says_where_it_is() {
    let dev = Dev::start(&["--agents", "0", "--regions", "solo"]);
    let url = dev.urls[0].as_str();
    let mut command = rollcall();
    command.args(["run", "--url", url, "--id", "demo/job", "--endpoint", "http://127.0.0.1:9/"]);
    command.args(["--metadata", "service_name=own", "--", "sleep", "600"]);
    command.env("POD_NAME", "job-7d9f").env("POD_NAMESPACE", "demo").env("SERVICE_NAME", "job");
    let job = Process::start(command);
    let found = eventually("the job is registered", || jobs(url).pop());
    let expected =
        serde_json::json!({"pod_name": "job-7d9f", "pod_namespace": "demo", "service_name": "own"});
    assert_eq!(found["metadata"], expected);
    job.signal(Signal::TERM);
    assert_eq!(job.end().code, Some(143));
}
