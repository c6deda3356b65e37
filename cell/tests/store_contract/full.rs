//! The embedded store on a disk that is really full: nothing of a refused commit is there, and it goes on by itself
//! when there is space again.
//!
//! Both disks are made for a process of their own, the test's child: a limit on the size of files (where the system
//! must be told not to kill for it), and a file system of 3 MiB in a mount namespace.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rollcall_cell::store::contract::{commit, put};
use rollcall_cell::store::embedded::Embedded;
use rollcall_cell::store::space::Bound;
use rollcall_cell::store::{Group, Store, StoreError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Where the child works; it does nothing without it.
const FOLDER: &str = "ROLLCALL_TEST_FULL_DISK";

fn child(folder: &Path, name: &str, shell: &str, wrap: &[&str]) -> Output {
    let script = format!("{shell} exec \"$0\" --ignored --exact store_contract::full::{name} --nocapture");
    let mut line: Vec<&str> = wrap.to_vec();
    line.extend(["sh", "-c", &script]);
    Command::new(line[0])
        .args(&line[1..])
        .arg(std::env::current_exe().unwrap())
        .env(FOLDER, folder)
        .output()
        .unwrap()
}

#[track_caller]
fn passed(output: &Output) {
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn f08_a_file_that_may_not_grow_is_a_full_store_until_it_may() {
    let folder = tempfile::tempdir().unwrap();
    passed(&child(folder.path(), "inside_a_size_limit", "trap '' XFSZ;", &[]));
}

#[test]
fn f08_a_disk_without_space_is_a_full_store_until_there_is_some() {
    let folder = tempfile::tempdir().unwrap();
    let mount = format!("mount -t tmpfs -o size=3m none {} || exit 77;", folder.path().display());
    let output = child(folder.path(), "on_a_small_disk", &mount, &["unshare", "-rm"]);
    let is_forbidden = output.status.code() == Some(77) || output.stderr.starts_with(b"unshare");
    if is_forbidden {
        return left_out("a disk of an own size", &String::from_utf8_lossy(&output.stderr));
    }
    passed(&output);
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

fn place() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// Small writes fail when redb writes its pages out, at the commit; large ones before.
async fn is_refused_and_goes_on(store: Embedded, fill: impl Fn(), free: impl Fn()) {
    let mut last = commit(&store, vec![put("a", "1")]).await;
    for round in 0..3 {
        fill();
        for bytes in [20_000, 600_000, 20_000] {
            let large = "x".repeat(bytes);
            let mut outcome = None;
            // A disk that is full for large writes may still take some small ones.
            for _ in 0..200 {
                let also = vec![put("b", &large), put("a", "2")];
                match store.commit(Group { also, ..Group::default() }).await {
                    Ok(_) => last = store.get("a", None).await.unwrap().1,
                    Err(error) => {
                        outcome = Some(error);
                        break;
                    }
                }
            }
            assert_eq!(outcome, Some(StoreError::Full(Bound::Disk)), "round {round}, {bytes} bytes");
        }
        free();
        let next = commit(&store, vec![put("a", "3")]).await;
        assert_eq!(next.0, last.0 + 1, "what was refused has left no trace");
        last = next;
        assert_eq!(store.get("a", None).await.unwrap().0.unwrap().value, "3");
    }
}

#[tokio::test]
#[ignore = "a child of the test above"]
async fn inside_a_size_limit() {
    let Some(folder) = place() else { return };
    let store = Embedded::open(&folder.join("store.redb")).unwrap();
    let whole = getrlimit(Resource::Fsize);
    let limit = |current| setrlimit(Resource::Fsize, Rlimit { current, maximum: whole.maximum }).unwrap();
    is_refused_and_goes_on(store, || limit(Some(64 * 1024)), || limit(whole.current)).await;
}

#[tokio::test]
#[ignore = "a child of the test above"]
async fn on_a_small_disk() {
    let Some(folder) = place() else { return };
    let store = Embedded::open(&folder.join("store.redb")).unwrap();
    let ballast = folder.join("ballast");
    // It fails, and has taken what there was.
    let fill = || assert!(std::fs::write(&ballast, vec![1; 4 * 1024 * 1024]).is_err());
    is_refused_and_goes_on(store, fill, || std::fs::remove_file(&ballast).unwrap()).await;
}
