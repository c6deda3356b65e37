//! The store on a real etcd.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rollcall_cell::store::contract::{commit, follow_until, put, within};
use rollcall_cell::store::etcd::Etcd;
use rollcall_cell::store::{Committed, Follow, Group, Store, StoreError};
use rollcall_model::Revision;
use tokio::sync::{Mutex, MutexGuard};

use super::etcds::{ALONE, Etcds, Immortal, SHARED};

struct Opened {
    store: Etcd,
    etcds: Arc<Etcds>,
    _alone: Option<MutexGuard<'static, ()>>,
}

/// A region that no other test has.
fn region() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

async fn shared() -> Opened {
    let etcds = Etcds::get();
    Opened { store: Etcd::connect(&[etcds.address(SHARED)], &region()), etcds, _alone: None }
}

async fn alone() -> Opened {
    static ALONE_LOCK: Mutex<()> = Mutex::const_new(());
    let guard = ALONE_LOCK.lock().await;
    let etcds = Etcds::get();
    Opened { store: Etcd::connect(&[etcds.address(ALONE)], &region()), etcds, _alone: Some(guard) }
}

mod contract {
    rollcall_cell::store_contract!(super::shared, super::alone);
}

/// An address that nobody listens on.
fn nobody() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[tokio::test]
async fn without_etcd_every_call_says_that_nothing_was_written() {
    let store = Etcd::connect(&[nobody(), nobody()], "nowhere");
    let group = Group { also: vec![put("a", "1")], ..Group::default() };
    let unavailable = |answer: Result<(), StoreError>| matches!(answer, Err(StoreError::Unavailable(_)));
    assert!(unavailable(within("an answer", store.commit(group)).await.map(drop)));
    assert!(unavailable(within("an answer", store.get("a", None)).await.map(drop)));
    assert!(unavailable(within("an answer", store.list("", None, None, 10)).await.map(drop)));
    assert!(unavailable(within("an answer", store.follow(Revision(1))).await.map(drop)));
    assert!(unavailable(within("an answer", store.campaign("here")).await.map(drop)));
}

#[tokio::test]
async fn a_member_that_is_not_there_costs_no_write() {
    let opened = shared().await;
    let store = Etcd::connect(&[nobody(), opened.etcds.address(SHARED)], &region());
    let revision = commit(&store, vec![put("a", "1")]).await;
    let (entry, _) = store.get("a", None).await.unwrap();
    assert_eq!(entry.unwrap().mod_revision, revision);
    let mut follow = within("a follower", store.follow(revision)).await.unwrap();
    assert_eq!(follow_until(&mut follow, revision).await.len(), 1);
    let tenure = within("the office", store.campaign("here")).await.unwrap();
    assert!(tenure.term > revision.0);
}

#[tokio::test]
async fn a_member_that_is_silent_leaves_a_commit_unknown_and_is_not_asked_first_again() {
    let opened = shared().await;
    // Accepts connections in its backlog and never says a word.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_address = format!("http://{}", silent.local_addr().unwrap());
    let store = Etcd::connect(&[silent_address, opened.etcds.address(SHARED)], &region());
    let group = Group { also: vec![put("a", "1")], ..Group::default() };
    let first = within("an answer", store.commit(group)).await;
    assert!(matches!(first, Err(StoreError::Unknown(_))), "{first:?}");
    // Another commit through the silent one would be unknown as well.
    commit(&store, vec![put("a", "2")]).await;
}

#[tokio::test]
async fn regions_on_one_etcd_do_not_see_each_other() {
    let opened = shared().await;
    let other = Etcd::connect(&[opened.etcds.address(SHARED)], &region());
    let first = commit(&opened.store, vec![put("a", "1")]).await;
    commit(&other, vec![put("a", "other"), put("b", "other")]).await;
    let last = commit(&opened.store, vec![put("a", "2")]).await;
    let mut follow = within("a follower", opened.store.follow(first)).await.unwrap();
    let revisions: Vec<_> =
        follow_until(&mut follow, last).await.into_iter().map(|one| one.revision).collect();
    assert_eq!(revisions, [first, last]);
    assert_eq!(opened.store.list("", None, None, 10).await.unwrap().entries.len(), 1);
}

/// Commits `k/<n>` in order, until told to stop, and gives what became of each.
async fn commit_on(store: &Etcd, count: usize) -> Vec<Result<Committed, StoreError>> {
    let mut answers = Vec::new();
    for n in 0..count {
        let group = Group { also: vec![put(&format!("k/{n:05}"), "1")], ..Group::default() };
        answers.push(within("an answer", store.commit(group)).await);
        if answers.last().is_some_and(Result::is_err) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_commit_that_was_answered_is_lost_when_etcd_is_killed() {
    let opened = alone().await;
    let store = opened.store.clone();
    let begun = commit(&store, vec![put("begun", "1")]).await;
    let mut follow = within("a follower", store.follow(begun)).await.unwrap();
    follow_until(&mut follow, begun).await;

    let writer = tokio::spawn({
        let store = store.clone();
        async move { commit_on(&store, 400).await }
    });
    // Killed in the midst of it, once some have been seen.
    let seen = follow_until(&mut follow, Revision(begun.0 + 20)).await;
    let etcds = Arc::clone(&opened.etcds);
    tokio::task::spawn_blocking(move || {
        etcds.kill(ALONE);
        etcds.start_again(ALONE);
    })
    .await
    .unwrap();
    let answers = within("all answers", writer).await.unwrap();

    // The watch has ended; it goes on behind the last revision that it gave.
    let mut last = seen.last().unwrap().revision;
    let broken = loop {
        match within("the end of the watch", follow.next()).await {
            Ok(more) => last = more.last().unwrap().revision,
            Err(error) => break error,
        }
    };
    assert!(matches!(broken, StoreError::Unavailable(_)), "{broken:?}");
    let ended = commit(&store, vec![put("ended", "1")]).await;
    let mut follow = within("a follower", store.follow(Revision(last.0 + 1))).await.unwrap();
    let rest = follow_until(&mut follow, ended).await;
    assert!(rest[0].revision > last);

    let page = within("a page", store.list("k/", None, None, 500)).await.unwrap();
    let (mut done, mut failed) = (0, 0);
    for (n, answer) in answers.iter().enumerate() {
        let key = format!("k/{n:05}");
        let found = page.entries.iter().find(|entry| entry.key == key);
        match answer {
            Ok(Committed::Done { revision, .. }) => {
                assert_eq!(found.map(|entry| entry.mod_revision), Some(*revision), "{key} is lost");
                done += 1;
            }
            Err(StoreError::Unavailable(_)) => {
                assert_eq!(found, None, "{key} was written, though it was said not to be");
                failed += 1;
            }
            Err(StoreError::Unknown(_)) => failed += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(done > 20 && failed > 0, "{done} done, {failed} failed: the kill was not felt");
}

/// Waits out eight seconds, where a lease lasts five. A machine that stood still for some of them loses an office
/// rightly, so there are a few tries; an office that nobody renews is lost in each.
#[tokio::test]
async fn an_office_is_kept_for_longer_than_its_lease() {
    let opened = shared().await;
    let store = &opened.store;
    for _ in 0..4 {
        let tenure = within("the office", store.campaign("here")).await.unwrap();
        if tokio::time::timeout(Duration::from_secs(8), tenure.lost.cancelled()).await.is_ok() {
            continue;
        }
        let group =
            Group { fence: vec![tenure.fence.clone()], also: vec![put("held", "1")], ..Group::default() };
        let held = within("an answer", store.commit(group)).await;
        if matches!(held, Ok(Committed::Done { .. })) {
            return;
        }
    }
    panic!("the office was lost each time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_office_of_a_keeper_whose_etcd_was_killed_is_lost_and_is_free_when_etcd_is_back() {
    let opened = alone().await;
    let store = opened.store.clone();
    let tenure = within("the office", store.campaign("here")).await.unwrap();
    let etcds = Arc::clone(&opened.etcds);
    tokio::task::spawn_blocking({
        let etcds = Arc::clone(&etcds);
        move || etcds.kill(ALONE)
    })
    .await
    .unwrap();
    within("the loss", tenure.lost.cancelled()).await;
    let address = etcds.address(ALONE);
    tokio::task::spawn_blocking(move || etcds.start_again(ALONE)).await.unwrap();
    // An etcd that is back gives the old lease its five seconds again, and this one will not let it lapse.
    let _immortal = Immortal::lease(&address, &tenure);
    let next = within("the office again", async {
        loop {
            match store.campaign("here").await {
                Ok(tenure) => break tenure,
                Err(StoreError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(50)).await,
                Err(error) => panic!("{error:?}"),
            }
        }
    })
    .await;
    assert!(next.term > tenure.term);
    let late = Group { fence: vec![tenure.fence.clone()], also: vec![put("late", "1")], ..Group::default() };
    assert_eq!(store.commit(late).await, Ok(Committed::Fenced));
}

/// B11: a member that served watches from very old revisions was so busy that keep-alives through it failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b11_fifty_watches_from_the_first_revision_cost_neither_the_office_nor_a_write() {
    let opened = alone().await;
    let store = opened.store.clone();
    let tenure = within("the office", store.campaign("here")).await.unwrap();
    let text = "x".repeat(4_000);
    let first = commit(&store, vec![put("h/0", "1")]).await;
    for round in 0..250 {
        commit(&store, (0..16).map(|n| put(&format!("h/{n}"), &format!("{round} {text}"))).collect()).await;
    }
    let mut watches = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let store = store.clone();
        watches.spawn(async move {
            let mut follow = store.follow(first).await.unwrap();
            let mut seen = 0;
            while seen < 250 {
                seen += follow.next().await.unwrap().len();
            }
            seen
        });
    }
    let began = std::time::Instant::now();
    // Beside them, for longer than the office's lease, and until they have what they asked for.
    while began.elapsed() < Duration::from_secs(6) || watches.try_join_next().is_none() {
        let group =
            Group { fence: vec![tenure.fence.clone()], also: vec![put("beat", "1")], ..Group::default() };
        let answer = within("a fenced write", store.commit(group)).await;
        assert!(matches!(answer, Ok(Committed::Done { .. })), "{answer:?}");
        assert!(!tenure.lost.is_cancelled(), "the office was lost");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    within("all watches", async { while watches.join_next().await.is_some() {} }).await;
    assert!(!tenure.lost.is_cancelled());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_was_killed_and_started_again_need_not_wait_for_its_own_office() {
    let opened = shared().await;
    let folder = tempfile::tempdir().unwrap();
    let (file, region) = (folder.path().join("office"), region());
    let started = || Etcd::connect(&[opened.etcds.address(SHARED)], &region).remembering(&file);
    // With its runtime everything of it ends, in the midst of its office.
    let first = std::thread::scope(|scope| {
        let killed = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { started().campaign("here").await.unwrap() })
        });
        killed.join().unwrap()
    });
    let _immortal = Immortal::lease(&opened.etcds.address(SHARED), &first);
    let store = started();
    let second = within("the office", store.campaign("here")).await.unwrap();
    assert!(second.term > first.term);
    let late = Group { fence: vec![first.fence.clone()], also: vec![put("late", "1")], ..Group::default() };
    assert_eq!(store.commit(late).await, Ok(Committed::Fenced));
}

#[tokio::test]
async fn f54_a_stray_key_in_the_offices_place_does_not_leave_the_region_without_a_keeper() {
    let opened = shared().await;
    let stray = Group { also: vec![put("keeper/zzz", "junk")], ..Group::default() };
    within("the stray key", opened.store.commit(stray)).await.unwrap();
    let tenure = within("the office is won all the same", opened.store.campaign("here")).await.unwrap();
    assert!(!tenure.lost.is_cancelled());
}
