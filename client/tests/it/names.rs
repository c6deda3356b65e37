//! F48: the name of a cell resolves to nothing, or to an old address.
//!
//! Names are those of a file of hosts that belongs to a process of its own, the test's child in a mount namespace.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use rollcall_client::{Registry, RegistryOptions};

use crate::cell::{Cell, DEADLINE, region};

/// The child's file of hosts; it does nothing without it.
const HOSTS: &str = "ROLLCALL_TEST_HOSTS";

#[test]
fn f48_a_name_without_an_address_costs_no_open_watch_and_the_next_address_is_tried() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = folder.path().join("hosts");
    std::fs::write(&hosts, "127.0.0.1 localhost\n").unwrap();
    let script = format!(
        "mount --bind {} /etc/hosts || exit 77; exec \"$0\" --ignored --exact names::with_hosts_of_its_own --nocapture",
        hosts.display()
    );
    let output = Command::new("unshare")
        .args(["-rm", "sh", "-c", &script])
        .arg(std::env::current_exe().unwrap())
        .env(HOSTS, &hosts)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) || said.starts_with("unshare") {
        return left_out("a file of hosts of an own", &said);
    }
    let passed = String::from_utf8_lossy(&output.stdout).contains("1 passed");
    assert!(output.status.success() && passed, "{}{said}", String::from_utf8_lossy(&output.stdout));
}

/// Says that nothing was proved, because this machine forbids what the test needs. Where a machine judges, which sets
/// `CI`, that is a failure: nobody reads there what a run that passed has said.
fn left_out(what: &str, why: &str) {
    let line =
        format!("LEFT OUT: {what} needs a mount namespace, which this machine forbids: {}", why.trim());
    assert!(std::env::var_os("CI").is_none_or(|ci| ci.is_empty()), "{line}");
    // Not by the macro, whose words the harness keeps to itself when a test passes.
    std::io::stderr().write_all(format!("\n{line}\n").as_bytes()).unwrap();
}

async fn sees(registry: &Registry, agents: u64) {
    let seen =
        registry.until(|snapshot| snapshot.views()[0].state().is_some_and(|state| state.count() == agents));
    assert!(tokio::time::timeout(DEADLINE, seen).await.is_ok(), "never {agents}: {:?}", registry.regions());
}

#[tokio::test]
#[ignore = "a child of the test above"]
async fn with_hosts_of_its_own() {
    let Some(hosts) = std::env::var_os(HOSTS) else { return };
    let name_is_at = |address: Option<&str>| {
        let line = address.map(|address| format!("{address} cell.rollcall.test\n")).unwrap_or_default();
        std::fs::write(Path::new(&hosts), format!("127.0.0.1 localhost\n{line}")).unwrap();
    };
    let cell = Cell::new();
    let (named, other) = (cell.serve(), cell.serve());
    cell.load("us", 1, &[]);
    name_is_at(Some("127.0.0.1"));
    let url = format!("http://cell.rollcall.test:{}", named.address.port());
    let mut options = RegistryOptions::new([url, other.url()], region("us"));
    options.first_load = DEADLINE;
    let registry = Registry::connect(options).await.unwrap();

    name_is_at(None);
    cell.put("us", "ops/mail/1");
    sees(&registry, 1).await;
    assert_eq!((cell.watches(), cell.connections()), (1, 1), "the open one is kept");

    let address = named.address;
    drop(named);
    cell.put("us", "ops/mail/2");
    sees(&registry, 2).await;

    // Where it was long ago nobody listens.
    name_is_at(Some("127.0.0.9"));
    drop(other);
    let _named = cell.serve_at(address);
    name_is_at(Some("127.0.0.1"));
    cell.put("us", "ops/mail/3");
    sees(&registry, 3).await;
    assert_eq!(registry.snapshot().views()[0].resyncs(), 0);
}
