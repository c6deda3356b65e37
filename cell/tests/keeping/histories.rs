//! What becomes of a region's history: restarts, restored backups, other histories, hands in the store.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rollcall_cell::registrar::Report;
use rollcall_cell::store::embedded::Embedded;
use rollcall_cell::store::{Group, Op, Store as _};
use rollcall_model::{Code, Lifecycle, Owned, RemovalReason};
use rollcall_proto::store::encode_owned;

use super::cell::{Cell, declared, id};

fn copy(from: &Path, to: &Path) -> PathBuf {
    std::fs::copy(from, to).unwrap();
    to.to_owned()
}

/// A cell that was backed up with `a/b/before` in it and runs again.
async fn backed_up(folder: &Path) -> (Cell, PathBuf, PathBuf, PathBuf) {
    let (data, store) = (folder.join("cell"), folder.join("store.redb"));
    std::fs::create_dir(&data).unwrap();
    let cell = Cell::start(Embedded::open(&store).unwrap(), &data).await;
    cell.registrar().register(declared("a/b/before", "http://h:1/")).await.unwrap();
    cell.stop().await;
    let backup = copy(&store, &folder.join("backup.redb"));
    (Cell::start(Embedded::open(&store).unwrap(), &data).await, data, store, backup)
}

async fn founded(cell: &Cell, ordinal: u16) {
    cell.until("a new incarnation", |cell| {
        cell.running.regions.own_view().position().is_some_and(|p| p.incarnation.ordinal() == ordinal)
    })
    .await;
}

/// B39: a restored backup lowered revisions, and caches took what was newer for old.
#[tokio::test]
async fn f04_b39_a_restored_backup_is_a_new_incarnation_and_epochs_do_not_fall() {
    let folder = tempfile::tempdir().unwrap();
    let (cell, data, store, backup) = backed_up(folder.path()).await;
    let after = cell.registrar().register(declared("a/b/after", "http://h:1/")).await.unwrap();
    let old = cell.running.regions.own_view().position().unwrap().incarnation.clone();
    cell.stop().await;

    copy(&backup, &store);
    let cell = Cell::start(Embedded::open(&store).unwrap(), &data).await;
    founded(&cell, old.ordinal() + 1).await;
    assert!(cell.has("a/b/before"), "what the backup held is there");
    assert!(!cell.has("a/b/after"), "I32: nothing of the lost history is left");
    let again = cell.registrar().register(declared("a/b/after", "http://h:1/")).await.unwrap();
    assert!(again.registration.epoch > after.registration.epoch, "I03: epochs do not fall over a restore");
    cell.stop().await;
}

/// A process that is killed leaves no copy of its state, or one that is older than the backup.
#[tokio::test]
async fn f04_a_backup_that_is_newer_than_the_copy_on_disk_is_told_by_the_last_beat() {
    let folder = tempfile::tempdir().unwrap();
    let (cell, data, store, backup) = backed_up(folder.path()).await;
    let after = cell.registrar().register(declared("a/b/after", "http://h:1/")).await.unwrap();
    let seen = after.registration.epoch.revision();
    let file = data.join("replica.us-east.beat");
    cell.until("a beat after it on disk", |_| {
        let saved = std::fs::read(&file).ok().and_then(|bytes| rollcall_proto::disk::decode(&bytes).ok());
        saved.is_some_and(|saved| saved.snapshot.head().position.revision > seen)
    })
    .await;
    cell.stop().await;
    for copy in ["replica.us-east.state", "replica.us-east.state.1"] {
        let _ = std::fs::remove_file(data.join(copy));
    }

    copy(&backup, &store);
    let cell = Cell::start(Embedded::open(&store).unwrap(), &data).await;
    founded(&cell, 2).await;
    let again = cell.registrar().register(declared("a/b/after", "http://h:1/")).await.unwrap();
    assert!(again.registration.epoch > after.registration.epoch, "I03: epochs do not fall over a restore");
    cell.stop().await;
    // Its own history is known again, with a copy of the state and without one.
    for copies in [&["replica.us-east.state", "replica.us-east.state.1"][..], &[]] {
        let cell = Cell::start(Embedded::open(&store).unwrap(), &data).await;
        cell.until("it goes on", |cell| cell.has("a/b/after")).await;
        assert_eq!(cell.running.regions.own_view().position().unwrap().incarnation.ordinal(), 2);
        cell.stop().await;
        for copy in copies {
            let _ = std::fs::remove_file(data.join(copy));
        }
    }
}

#[tokio::test]
async fn a_restart_goes_on_in_the_same_incarnation_with_a_full_lease_of_grace() {
    let folder = tempfile::tempdir().unwrap();
    let (data, store) = (folder.path().join("cell"), folder.path().join("store.redb"));
    std::fs::create_dir(&data).unwrap();
    let cell = Cell::start(Embedded::open(&store).unwrap(), &data).await;
    let registered = cell.registrar().register(declared("a/b/1", "http://h:1/")).await.unwrap();
    cell.pass(Duration::from_secs(29));
    cell.stop().await;
    let cell = Cell::start(Embedded::open(&store).unwrap(), &data).await;
    let position = cell.running.regions.own_view().position().unwrap().clone();
    assert_eq!(position.incarnation, registered.position.incarnation);
    cell.pass(Duration::from_secs(20));
    let renewed =
        cell.registrar().renew(&id("a/b/1"), registered.registration.epoch, Report::default()).await;
    assert!(renewed.is_ok(), "I09: {renewed:?}");
    cell.stop().await;
}

#[tokio::test]
async fn f54_a_record_overwritten_by_hand_is_gone_and_told_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::memory().unwrap();
    let cell = Cell::start(store.clone(), folder.path()).await;
    cell.registrar().register(declared("a/b/1", "http://h:1/")).await.unwrap();
    let junk = Group { also: vec![Op::Put("reg/a/b/1".into(), "junk".into())], ..Group::default() };
    store.commit(junk).await.unwrap();
    cell.until("the ghost is gone", |cell| !cell.has("a/b/1")).await;
    let view = cell.running.regions.own_view();
    let removal = view.removals().last().unwrap();
    assert_eq!((removal.reason, &*removal.actor), (RemovalReason::Evicted, "operator:store"));
    assert!(removal.at.0 > 0, "it stands among the newest removals");
    cell.registrar().register(declared("a/b/1", "http://h:1/")).await.unwrap();
    cell.stop().await;
}

#[tokio::test]
async fn f54_an_owners_word_overwritten_by_hand_costs_the_word_and_no_registration_however_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::memory().unwrap();
    let cell = Cell::start(store.clone(), &folder.path().join("one")).await;
    let registered = cell.registrar().register(declared("a/b/1", "http://h:1/")).await.unwrap();
    let again = cell.registrar().register(declared("a/b/2", "http://h:2/")).await.unwrap();
    let (entry, _) = store.get("reg/a/b/2", None).await.unwrap();
    // A word that cannot be read; and a record put once more, which leaves an older word behind.
    let word = Owned { lifecycle: Lifecycle::Draining, ..Owned::of(&again.registration.declared) };
    for put in [
        Op::Put("own/a/b/1".into(), "junk".into()),
        Op::Put("own/a/b/2".into(), encode_owned(&word)),
        Op::Put("reg/a/b/2".into(), entry.unwrap().value),
    ] {
        store.commit(Group { also: vec![put], ..Group::default() }).await.unwrap();
    }
    let (_, head) = store.get("head", None).await.unwrap();
    let shown =
        |cell: &Cell| cell.running.regions.own_view().position().is_some_and(|at| at.revision >= head);
    cell.until("it follows", shown).await;
    let state = |cell: &Cell| {
        let view = cell.running.regions.own_view();
        let state = view.state().unwrap();
        (state.count(), state.digest())
    };
    let followed = state(&cell);
    assert_eq!(followed.0, 2);
    let report = Report::default();
    cell.registrar().renew(&id("a/b/1"), registered.registration.epoch, report).await.unwrap();
    cell.stop().await;
    let cell = Cell::start(store, &folder.path().join("other")).await;
    cell.until("it is read anew", |cell| cell.has("a/b/1")).await;
    assert_eq!(state(&cell), followed, "I18: who reads it anew comes to the same");
    cell.stop().await;
}

#[tokio::test]
async fn f52_another_history_with_our_ordinal_is_left_for_a_new_incarnation() {
    let folder = tempfile::tempdir().unwrap();
    let (data, other) = (folder.path().join("cell"), folder.path().join("other"));
    let cell = Cell::start(Embedded::memory().unwrap(), &data).await;
    let known = cell.registrar().register(declared("a/b/1", "http://h:1/")).await.unwrap();
    cell.stop().await;
    // A stranger founds another store for the same region; our cell is then pointed at it.
    let store = Embedded::memory().unwrap();
    Cell::start(store.clone(), &other).await.stop().await;
    let cell = Cell::start(store, &data).await;
    founded(&cell, 2).await;
    let again = cell.registrar().register(declared("a/b/1", "http://h:1/")).await.unwrap();
    assert!(again.registration.epoch > known.registration.epoch, "I03");
    cell.stop().await;
}

#[tokio::test]
async fn a_registration_whose_history_cannot_be_read_is_refused_as_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::memory().unwrap();
    let cell = Cell::start(store.clone(), folder.path()).await;
    let junk = Group { also: vec![Op::Put("meta/incarnation".into(), "junk".into())], ..Group::default() };
    store.commit(junk).await.unwrap();
    let refused = cell.registrar().register(declared("a/b/1", "http://h:1/")).await.unwrap_err();
    assert_eq!(refused.code, Code::StoreUnavailable);
    cell.stop().await;
}
