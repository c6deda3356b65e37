//! The embedded store, in memory and on a file.

use std::path::PathBuf;

use rollcall_cell::store::contract::{commit, follow_until, put};
use rollcall_cell::store::embedded::Embedded;
use rollcall_cell::store::{Follow, Op, Store, StoreError};
use rollcall_model::Revision;
use tempfile::TempDir;

struct Opened {
    store: Embedded,
    _folder: Option<TempDir>,
}

async fn memory() -> Opened {
    Opened { store: Embedded::memory().unwrap(), _folder: None }
}

async fn file() -> Opened {
    let (folder, path) = folder();
    Opened { store: Embedded::open(&path).unwrap(), _folder: Some(folder) }
}

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data").join("store.redb");
    (folder, path)
}

mod in_memory {
    rollcall_cell::store_contract!(super::memory, super::memory);
}

mod on_a_file {
    rollcall_cell::store_contract!(super::file, super::file);
}

#[tokio::test]
async fn a_file_keeps_data_revision_and_history() {
    let (_folder, path) = folder();
    let store = Embedded::open(&path).unwrap();
    let first = commit(&store, vec![put("a", "1"), put("b", "1")]).await;
    let second = commit(&store, vec![Op::Remove("b".into())]).await;
    drop(store);

    let store = Embedded::open(&path).unwrap();
    let (entry, head) = store.get("a", None).await.unwrap();
    assert_eq!(head, second);
    assert_eq!(entry.unwrap().create_revision, first);
    let then = store.get("b", Some(first)).await.unwrap().0;
    assert!(then.is_some());
    let mut follow = store.follow(first).await.unwrap();
    let third = commit(&store, vec![put("c", "1")]).await;
    assert_eq!(third, Revision(second.0 + 1));
    let revisions: Vec<_> =
        follow_until(&mut follow, third).await.into_iter().map(|one| one.revision).collect();
    assert_eq!(revisions, [first, second, third]);
}

#[tokio::test]
async fn an_empty_file_is_no_store_and_stays_as_it_is() {
    let (_folder, path) = folder();
    drop(Embedded::open(&path).unwrap());
    std::fs::write(&path, "").unwrap();
    let Err(StoreError::Unavailable(why)) = Embedded::open(&path) else { panic!("it was taken for a store") };
    assert!(why.contains("it is empty") && why.contains("backup"), "{why}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
}

#[tokio::test]
async fn a_crash_while_a_store_was_made_leaves_none_and_the_next_start_makes_it() {
    for left in [&b""[..], b"redb", &[7; 100_000]] {
        let (_folder, path) = folder();
        let half = path.with_extension("redb.new");
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        std::fs::write(&half, left).unwrap();
        let store = Embedded::open(&path).unwrap();
        commit(&store, vec![put("a", "1")]).await;
        drop(store);
        let store = Embedded::open(&path).unwrap();
        assert!(store.get("a", None).await.unwrap().0.is_some());
        assert!(!half.exists());
    }
}

#[tokio::test]
async fn a_compaction_stands_after_the_file_is_opened_again() {
    let (_folder, path) = folder();
    let store = Embedded::open(&path).unwrap();
    let first = commit(&store, vec![put("a", "1")]).await;
    let second = commit(&store, vec![put("a", "2")]).await;
    store.compact(second).await.unwrap();
    drop(store);
    let store = Embedded::open(&path).unwrap();
    assert_eq!(store.get("a", Some(first)).await, Err(StoreError::Compacted(second)));
    assert_eq!(store.follow(first).await.map(drop), Err(StoreError::Compacted(second)));
}

#[tokio::test]
async fn the_term_rises_when_the_file_is_opened_again() {
    let (_folder, path) = folder();
    let store = Embedded::open(&path).unwrap();
    let first = store.campaign("here").await.unwrap();
    drop(store);
    drop(first.clone());
    let store = Embedded::open(&path).unwrap();
    let second = store.campaign("here").await.unwrap();
    assert!(second.term > first.term);
}

#[tokio::test]
async fn a_file_that_is_open_already_is_refused_by_name() {
    let (_folder, path) = folder();
    let _store = Embedded::open(&path).unwrap();
    match Embedded::open(&path).map(drop) {
        Err(StoreError::Unavailable(why)) => assert!(why.contains("store.redb"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_file_that_is_none_of_ours_is_refused_by_name() {
    let (folder, _) = folder();
    let path = folder.path().join("notes.txt");
    std::fs::write(&path, "remember the milk\n".repeat(1000)).unwrap();
    match Embedded::open(&path).map(drop) {
        Err(StoreError::Unavailable(why)) => assert!(why.contains("notes.txt"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_follower_that_compaction_outran_is_told() {
    let store = memory().await.store;
    let first = commit(&store, vec![put("a", "1")]).await;
    let mut follow = store.follow(first).await.unwrap();
    let second = commit(&store, vec![put("a", "2")]).await;
    store.compact(second).await.unwrap();
    assert_eq!(follow.next().await, Err(StoreError::Compacted(second)));
}

#[tokio::test]
async fn compaction_gives_space_back() {
    let (_folder, path) = folder();
    let store = Embedded::open(&path).unwrap();
    let large = "x".repeat(64 * 1024);
    let mut size = Vec::new();
    for round in 0..6 {
        let mut last = Revision(0);
        for _ in 0..40 {
            last = commit(&store, vec![put("a", &large)]).await;
        }
        store.compact(last).await.unwrap();
        if round >= 2 {
            size.push(std::fs::metadata(&path).unwrap().len());
        }
    }
    assert!(size.iter().all(|later| *later <= size[0]), "the file grows without bound: {size:?}");
}

/// Set in the process that [`a_commit_that_was_answered_survives_a_kill`] kills: where it writes.
const VICTIM: &str = "ROLLCALL_TEST_STORE_VICTIM";

#[test]
fn a_commit_that_was_answered_survives_a_kill() {
    if let Some(path) = std::env::var_os(VICTIM) {
        return write_until_killed(&PathBuf::from(path));
    }
    let (_folder, path) = folder();
    let mut victim = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["a_commit_that_was_answered_survives_a_kill", "--nocapture"])
        .env(VICTIM, &path)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufRead::lines(std::io::BufReader::new(victim.stdout.take().unwrap()));
    let answered = |line: String| line.strip_prefix("answered ").map(str::to_owned);
    let last = lines.map_while(Result::ok).filter_map(answered).nth(100);
    victim.kill().unwrap();
    victim.wait().unwrap();
    let last: u64 = last.expect("the victim wrote").parse().unwrap();

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Embedded::open(&path).unwrap();
        let mut follow = store.follow(Revision(2)).await.unwrap();
        let found = follow_until(&mut follow, Revision(last)).await;
        let expected: Vec<_> = (2..=found.last().unwrap().revision.0).map(Revision).collect();
        assert_eq!(found.iter().map(|one| one.revision).collect::<Vec<_>>(), expected);
        assert_eq!(commit(&store, vec![put("after", "1")]).await.0, expected.len() as u64 + 2);
    });
}

fn write_until_killed(path: &std::path::Path) {
    use std::io::Write;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Embedded::open(path).unwrap();
        let mut out = std::io::stdout();
        loop {
            let revision = commit(&store, vec![put("a", "1"), put("b", "2")]).await;
            writeln!(out, "\nanswered {revision}").unwrap();
            out.flush().unwrap();
        }
    });
}

#[tokio::test]
async fn a_file_of_one_region_is_not_opened_as_anothers() {
    let (_folder, path) = folder();
    let store = Embedded::open(&path).unwrap().of_region("us-east").unwrap();
    let written = commit(&store, vec![put("a", "1")]).await;
    drop(store);
    let refused = Embedded::open(&path).unwrap().of_region("eu-west").err().unwrap();
    assert!(matches!(refused, StoreError::Refused(_)), "{refused}");
    assert!(refused.to_string().contains("region us-east and not of eu-west"), "{refused}");
    let store = Embedded::open(&path).unwrap().of_region("us-east").unwrap();
    assert_eq!(store.get("a", None).await.unwrap().1, written, "and nothing was written to it");
}
