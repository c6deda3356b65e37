//! The views' copies on disk, through the run of a whole replicator.

use rollcall_replicator::feed_log::memory::MemoryLog;

use crate::region::{Cell, DEADLINE, Replicator, follower, get, memory, publisher};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_on_disk_that_cannot_be_written_is_told_by_readiness_and_figure() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["view.us-east.state", "view.us-east.state.1"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        std::fs::write(folder.path().join(name).join("what"), "x").unwrap();
    }
    let log = MemoryLog::new();
    let east = Cell::start("us-east").await;
    let a = publisher(&log, &east).await;
    let config = memory("eu-west", None, &["us-east"]);
    let b = Replicator::start(|_| Ok(log.clone()), config, Some(folder.path().to_owned())).await;
    b.converges(&east).await;
    b.figure_when("rollcall_replicator_copy_unsaved", &["us-east"], 1.0).await;
    let ready = b.get("/readyz?verbose").await;
    let line = ready.lines().find(|line| line.starts_with("copy of us-east ")).unwrap_or_default();
    assert!(line.contains("not written: ") && line.contains("view.us-east.state"), "what and where: {ready}");
    a.stop().await;
    b.stop().await;
    east.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f33_a_copy_on_disk_that_is_lost_or_damaged_is_made_again() {
    let log = MemoryLog::new();
    let east = Cell::start("us-east").await;
    let disk = tempfile::tempdir().unwrap();
    let a = publisher(&log, &east).await;
    let file = disk.path().join("view.us-east.state");
    let harms: [&dyn Fn(); 4] = [
        &|| (),
        &|| std::fs::write(&file, b"ROLLCALL, or not").unwrap(),
        &|| std::fs::write(&file, &std::fs::read(&file).unwrap()[..40]).unwrap(),
        &|| {
            std::fs::remove_file(&file).unwrap();
            let _ = std::fs::remove_file(disk.path().join("view.us-east.state.1"));
        },
    ];
    for (n, harm) in harms.iter().enumerate() {
        east.change(|origin| drop(origin.put(&format!("ops/mail/{n}"))));
        let follow = memory("eu-west", None, &["us-east"]);
        let b = Replicator::start(|_| Ok(log.clone()), follow, Some(disk.path().to_owned())).await;
        b.converges(&east).await;
        b.stop().await;
        assert!(file.exists(), "it is saved at the end");
        harm();
    }
    a.stop().await;
    east.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replicator_with_copies_on_disk_is_ready_without_its_log() {
    let log = MemoryLog::new();
    let east = Cell::start("us-east").await;
    let disk = tempfile::tempdir().unwrap();
    let a = publisher(&log, &east).await;
    let follow = || memory("eu-west", None, &["us-east"]);
    let b = Replicator::start(|_| Ok(log.clone()), follow(), Some(disk.path().to_owned())).await;
    b.converges(&east).await;
    b.stop().await;
    log.set_away(true);
    let b = Replicator::start(|_| Ok(log.clone()), follow(), Some(disk.path().to_owned())).await;
    assert!(get(&b, "/readyz").await.starts_with("HTTP/1.1 200"));
    let without = follower(&log).await;
    let answer = get(&without, "/readyz?verbose").await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("view us-east: not_loaded"), "never \"empty\": {answer}");
    log.set_away(false);
    tokio::time::timeout(DEADLINE, without.running.ready.wait()).await.expect("ready");
    for replicator in [a, b, without] {
        replicator.stop().await;
    }
    east.stop().await;
}
