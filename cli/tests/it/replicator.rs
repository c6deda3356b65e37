use rustix::process::Signal;

use crate::process::{Dev, Process, eventually, rollcall};

/// A port that nobody listens at.
fn nowhere() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").to_string()
}

#[test]
fn a_replicator_without_its_brokers_says_where_they_are_goes_on_and_ends_when_told() {
    let dev = Dev::start(&["--regions", "us-east", "--agents", "0"]);
    let (out, back) = (nowhere(), nowhere());
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("replicator.toml");
    let text = format!(
        "region = \"us-east\"\ndata_dir = {:?}\n\n[listen]\nhttp = \"127.0.0.1:0\"\ngrpc = \"127.0.0.1:0\"\n\n\
         [cell]\nendpoints = [{:?}]\n\n[publish]\nkind = \"kafka\"\nbrokers = {out:?}\n\n\
         [[follow]]\nregion = \"eu-west\"\nkind = \"kafka\"\nbrokers = {back:?}\n",
        folder.path().join("data"),
        dev.urls[0],
    );
    std::fs::write(&file, text).expect("written");
    let mut command = rollcall();
    command.args(["replicator", "--config", file.to_str().expect("text")]);
    let mut replicator = Process::start(command);
    eventually("both logs are named in a warning", || {
        assert!(replicator.has_ended().is_none(), "it ended: {}", replicator.stderr());
        let said = replicator.stderr();
        let warns = |address: &str, region: &str| {
            said.lines().any(|line| line.contains("WARN") && line.contains(address) && line.contains(region))
        };
        (warns(&out, "us-east") && warns(&back, "eu-west")).then_some(())
    });
    replicator.signal(Signal::TERM);
    assert_eq!(replicator.end().code, Some(0));
    dev.stop();
}
