//! Epochs, leases, shared entries and the guard.

use std::time::Duration;

use rollcall_cell::registrar::{Report, Update};
use rollcall_cell::store::embedded::Embedded;
use rollcall_model::{Code, Declared, Epoch, Holder, Lifecycle, Load, RemovalReason, Scope};
use tokio::net::TcpListener;

use super::cell::{Cell, declared, id, memory};

#[tokio::test]
async fn i02_a_paused_owner_that_wakes_after_its_replacement_is_superseded() {
    let (cell, _folder) = memory().await;
    let old = cell.registrar().register(declared("a/b/1", "http://old:1/")).await.unwrap();
    let new = cell.registrar().register(declared("a/b/1", "http://new:1/")).await.unwrap();
    assert!(new.registration.epoch > old.registration.epoch, "I03: the epoch rises");
    let epoch = old.registration.epoch;
    let refusals = [
        cell.registrar().renew(&id("a/b/1"), epoch, Report::default()).await.unwrap_err(),
        cell.registrar().deregister(&id("a/b/1"), epoch).await.unwrap_err(),
        cell.registrar()
            .update(&id("a/b/1"), epoch, Update { lifecycle: Some(Lifecycle::Offline), ..Update::default() })
            .await
            .unwrap_err(),
    ];
    for refusal in refusals {
        assert_eq!(refusal.code, Code::Superseded);
        let current = refusal.current.unwrap();
        assert_eq!((current.epoch, current.endpoint.as_str()), (new.registration.epoch, "http://new:1/"));
    }
    let removals: Vec<_> =
        cell.running.regions.own_view().removals().iter().map(|r| (r.epoch, r.reason)).collect();
    assert_eq!(removals, [(epoch, RemovalReason::Replaced)]);
    cell.stop().await;
}

#[tokio::test]
async fn i05_i06_a_lease_ends_when_nobody_renews_and_not_before() {
    let (cell, _folder) = memory().await;
    let kept = cell.registrar().register(declared("a/b/kept", "http://h:1/")).await.unwrap();
    cell.registrar().register(declared("a/b/lost", "http://h:2/")).await.unwrap();
    cell.pass(Duration::from_secs(29));
    cell.registrar().renew(&id("a/b/kept"), kept.registration.epoch, Report::default()).await.unwrap();
    assert!(cell.has("a/b/lost"), "I05: a second is left");
    cell.pass(Duration::from_secs(2));
    cell.until("the lapsed one is removed", |cell| !cell.has("a/b/lost")).await;
    assert!(cell.has("a/b/kept"));
    let view = cell.running.regions.own_view();
    let removal = view.removals().last().unwrap().clone();
    assert_eq!(
        (removal.reason, &*removal.actor, removal.term),
        (RemovalReason::Expired, "keeper", cell.running.keeper.term())
    );
    let late = cell.registrar().renew(&id("a/b/lost"), removal.epoch, Report::default()).await.unwrap_err();
    assert_eq!(late.code, Code::NotRegistered, "FEN-02: a late heartbeat resurrects nothing");
    cell.stop().await;
}

#[tokio::test]
async fn i11_a_deregistration_is_final() {
    let (cell, _folder) = memory().await;
    let registered = cell.registrar().register(declared("a/b/1", "http://h:1/")).await.unwrap();
    let epoch = registered.registration.epoch;
    cell.registrar().deregister(&id("a/b/1"), epoch).await.unwrap();
    assert!(!cell.has("a/b/1"));
    for refusal in [
        cell.registrar().renew(&id("a/b/1"), epoch, Report::default()).await.unwrap_err(),
        cell.registrar().deregister(&id("a/b/1"), epoch).await.unwrap_err(),
    ] {
        assert_eq!(refusal.code, Code::NotRegistered);
    }
    let again = cell.registrar().register(declared("a/b/1", "http://h:1/")).await.unwrap();
    assert!(again.registration.epoch > epoch, "I03: also after a removal");
    cell.stop().await;
}

#[tokio::test]
async fn an_owners_word_moves_the_revision_and_not_the_epoch_and_ends_with_the_registration() {
    let (cell, _folder) = memory().await;
    let registered = cell.registrar().register(declared("a/b/1", "http://h:1/")).await.unwrap();
    let epoch = registered.registration.epoch;
    let update = Update {
        lifecycle: Some(Lifecycle::Draining),
        metadata: [("k".to_owned(), Some("v".to_owned()))].into(),
        ..Update::default()
    };
    let updated = cell.registrar().update(&id("a/b/1"), epoch, update).await.unwrap();
    assert_eq!((updated.epoch, updated.owned.lifecycle), (epoch, Lifecycle::Draining));
    assert!(updated.revision > registered.registration.revision);
    let second = Update { metadata: [("k".to_owned(), None)].into(), ..Update::default() };
    let updated = cell.registrar().update(&id("a/b/1"), epoch, second).await.unwrap();
    assert!(updated.owned.metadata.is_empty());
    let again = cell.registrar().register(declared("a/b/1", "http://h:1/")).await.unwrap();
    let state = cell.running.regions.own_view();
    let shown = state.state().unwrap().get("a/b/1").unwrap().clone();
    assert_eq!((shown.epoch, shown.owned.lifecycle), (again.registration.epoch, Lifecycle::Healthy));
    state.state().unwrap().prove().unwrap();
    cell.stop().await;
}

#[tokio::test]
async fn a_renewal_writes_nothing_to_the_store() {
    let (cell, _folder) = memory().await;
    let registered = cell.registrar().register(declared("a/b/1", "http://h:1/")).await.unwrap();
    let changed = || cell.running.regions.own_view().changed().cloned().unwrap();
    let before = changed();
    for _ in 0..100 {
        cell.registrar().renew(&id("a/b/1"), registered.registration.epoch, Report::default()).await.unwrap();
    }
    assert_eq!(changed(), before);
    cell.stop().await;
}

#[tokio::test]
async fn i01_registrations_that_arrive_together_all_stand_and_share_revisions() {
    let (cell, _folder) = memory().await;
    let mut writes = tokio::task::JoinSet::new();
    for at in 0..200 {
        let registrar = cell.registrar().clone();
        writes.spawn(async move {
            registrar.register(declared(&format!("a/b/{at}"), "http://h:1/")).await.unwrap()
        });
    }
    let mut revisions = std::collections::BTreeSet::new();
    while let Some(registered) = writes.join_next().await {
        revisions.insert(registered.unwrap().position.revision);
    }
    assert_eq!(cell.running.regions.own_view().state().unwrap().count(), 200);
    assert!(revisions.len() < 100, "{} revisions for 200 registrations", revisions.len());
    cell.stop().await;
}

#[tokio::test]
async fn i02_one_instance_registered_by_many_at_once_has_one_last_holder_and_refuses_none() {
    let (cell, _folder) = memory().await;
    let mut writes = tokio::task::JoinSet::new();
    for at in 0..300 {
        let registrar = cell.registrar().clone();
        writes.spawn(async move { registrar.register(declared("a/b/1", &format!("http://h{at}:1/"))).await });
    }
    let mut epochs = Vec::new();
    while let Some(registered) = writes.join_next().await {
        epochs.push(registered.unwrap().unwrap().registration.epoch);
    }
    let distinct: std::collections::BTreeSet<_> = epochs.iter().collect();
    assert_eq!(distinct.len(), epochs.len(), "I03: no epoch twice");
    let shown = cell.running.regions.own_view().state().unwrap().get("a/b/1").unwrap().epoch;
    assert_eq!(Some(&&shown), distinct.last());
    cell.stop().await;
}

fn shared(id: &str, url: &str) -> Declared {
    let mut declared = declared(id, url);
    declared.scope = Scope::Service;
    declared
}

fn holder(name: &str) -> Holder {
    Holder::parse(name).unwrap()
}

async fn renew_as(cell: &Cell, name: &str, epoch: Epoch) -> Result<(), Code> {
    let report = Report { holder: holder(name), ..Report::default() };
    cell.registrar().renew(&id("a/b/1"), epoch, report).await.map(drop).map_err(|refusal| refusal.code)
}

#[tokio::test]
async fn i09_a_new_keeper_removes_no_shared_entry_on_the_word_of_one_holder() {
    let folder = tempfile::tempdir().unwrap();
    let (data, store) = (folder.path().join("cell"), folder.path().join("store.redb"));
    std::fs::create_dir(&data).unwrap();
    let cell = Cell::start(Embedded::open(&store).unwrap(), &data).await;
    let one = cell.registrar().register_as(shared("a/b/1", "http://h:1/"), &holder("one")).await.unwrap();
    let epoch = one.registration.epoch;
    let two = cell.registrar().register_as(shared("a/b/1", "http://h:1/"), &holder("two")).await.unwrap();
    assert_eq!((two.joined, two.registration.epoch), (true, epoch));
    cell.stop().await;

    let cell = Cell::start(Embedded::open(&store).unwrap(), &data).await;
    cell.registrar().let_go(&id("a/b/1"), epoch, &holder("one")).await.unwrap();
    assert!(cell.has("a/b/1"), "the other one has not been heard yet, and lives");
    renew_as(&cell, "two", epoch).await.unwrap();
    for _ in 0..4 {
        cell.pass(Duration::from_secs(9));
        renew_as(&cell, "two", epoch).await.unwrap();
    }
    assert!(cell.has("a/b/1"));
    cell.registrar().let_go(&id("a/b/1"), epoch, &holder("two")).await.unwrap();
    assert!(!cell.has("a/b/1"), "a lease later the keeper knows all there are");
    assert_eq!(renew_as(&cell, "two", epoch).await, Err(Code::NotRegistered), "I11");
    cell.stop().await;
}

#[tokio::test]
async fn a_shared_entry_whose_last_holder_left_in_a_new_keepers_first_lease_goes_with_it_as_deregistered() {
    let folder = tempfile::tempdir().unwrap();
    let (data, store) = (folder.path().join("cell"), folder.path().join("store.redb"));
    std::fs::create_dir(&data).unwrap();
    let cell = Cell::start(Embedded::open(&store).unwrap(), &data).await;
    let one = cell.registrar().register_as(shared("a/b/1", "http://h:1/"), &holder("one")).await.unwrap();
    cell.stop().await;
    let cell = Cell::start(Embedded::open(&store).unwrap(), &data).await;
    cell.registrar().let_go(&id("a/b/1"), one.registration.epoch, &holder("one")).await.unwrap();
    assert!(cell.has("a/b/1"));
    cell.pass(Duration::from_secs(31));
    cell.until("it goes with its lease", |cell| !cell.has("a/b/1")).await;
    let view = cell.running.regions.own_view();
    let removal = view.removals().last().unwrap();
    assert_eq!((removal.reason, &*removal.actor), (RemovalReason::Deregistered, "owner"));
    cell.stop().await;
}

#[tokio::test]
async fn an_overdue_mark_is_written_once_and_taken_back_by_a_report_or_the_next_sweep() {
    let (cell, _folder) = memory().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let answers = format!("http://{}/", listener.local_addr().unwrap());
    let mut epochs = Vec::new();
    for at in 0..4 {
        let registered = cell.registrar().register(declared(&format!("a/b/{at}"), &answers)).await.unwrap();
        epochs.push(registered.registration.epoch);
    }
    cell.pass(Duration::from_secs(31));
    let marked = |cell: &Cell| {
        let view = cell.running.regions.own_view();
        view.state().unwrap().iter().map(|one| one.owned.overdue).collect::<Vec<_>>()
    };
    cell.until("all are marked", |cell| marked(cell) == [true; 4]).await;
    let changed = || cell.running.regions.own_view().changed().cloned().unwrap();
    let before = changed();
    // Two beats of the keeper later nothing else was written.
    let beats = cell.running.regions.own_view().position().unwrap().revision.0 + 2;
    cell.until("two beats", |cell| cell.running.regions.own_view().position().unwrap().revision.0 >= beats)
        .await;
    assert_eq!(changed(), before);
    let load = Some(Load { queue_depth: 1, in_flight: 1, error_rate: 0.0 });
    let report = Report { load, ..Report::default() };
    cell.registrar().renew(&id("a/b/0"), epochs[0], report).await.unwrap();
    assert_eq!(marked(&cell), [false, true, true, true], "with the report");
    cell.registrar().renew(&id("a/b/1"), epochs[1], Report::default()).await.unwrap();
    cell.until("the next sweep takes it back", |cell| marked(cell) == [false, false, true, true]).await;
    cell.running.regions.own_view().state().unwrap().prove().unwrap();
    cell.stop().await;
}

/// Registers `live` instances that answer and `silent` ones whose port refuses; lets only the live ones renew.
pub(super) async fn half_dead(cell: &Cell, live: usize, silent: usize) -> tokio::net::TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let answers = format!("http://{}/", listener.local_addr().unwrap());
    let mut epochs = Vec::new();
    for at in 0..live {
        let registered =
            cell.registrar().register(declared(&format!("a/live/{at}"), &answers)).await.unwrap();
        epochs.push((registered.registration.declared.id.clone(), registered.registration.epoch));
    }
    for at in 0..silent {
        cell.registrar().register(declared(&format!("a/silent/{at}"), &answers)).await.unwrap();
    }
    for _ in 0..4 {
        cell.pass(Duration::from_secs(9));
        for (id, epoch) in &epochs {
            cell.registrar().renew(id, *epoch, Report::default()).await.unwrap();
        }
    }
    listener
}

#[tokio::test]
async fn i07_i08_a_silent_half_is_held_until_an_operator_releases_exactly_those_listed() {
    let (cell, _folder) = memory().await;
    let _listener = half_dead(&cell, 4, 4).await;
    cell.until("the guard holds", |cell| cell.running.keeper.is_holding()).await;
    cell.until("all four are held", |cell| {
        cell.running.keeper.guard().is_some_and(|guard| guard.held.len() == 4)
    })
    .await;
    assert!((0..4).all(|at| cell.has(&format!("a/silent/{at}"))), "held entries stay resolvable");

    let asked = ["a/silent/1", "a/live/1", "a/none/1"].map(str::to_owned);
    let outcome = cell.registrar().release(&asked, "ann").await.unwrap();
    assert_eq!(outcome.released, ["a/silent/1"]);
    assert_eq!(outcome.refused.len(), 2);
    cell.until("the released one goes", |cell| !cell.has("a/silent/1")).await;
    let view = cell.running.regions.own_view();
    let removal = view.removals().last().unwrap();
    assert_eq!((removal.reason, &*removal.actor), (RemovalReason::Expired, "operator:ann"));
    assert!(cell.has("a/silent/0"), "the others are still held");

    let held = view.state().unwrap().get("a/silent/0").unwrap().epoch;
    let renewed = cell.registrar().renew(&id("a/silent/0"), held, Report::default()).await;
    assert!(renewed.is_ok(), "FEN-05: the old epoch renews without a registration: {renewed:?}");
    cell.stop().await;
}

#[tokio::test]
async fn what_refuses_connections_is_dead_and_goes_while_the_rest_is_held() {
    let (cell, _folder) = memory().await;
    let listener = half_dead(&cell, 4, 4).await;
    cell.until("the guard holds", |cell| cell.running.keeper.is_holding()).await;
    drop(listener);
    cell.until("evidence lets the dead ones go", |cell| {
        (0..4).all(|at| !cell.has(&format!("a/silent/{at}")))
    })
    .await;
    cell.until("the guard is calm", |cell| {
        !cell.running.keeper.is_holding() || {
            cell.pass(Duration::from_millis(200));
            false
        }
    })
    .await;
    cell.stop().await;
}

#[tokio::test]
async fn b15_an_evicted_instance_is_gone_and_comes_back_only_with_a_higher_epoch() {
    let (cell, _folder) = memory().await;
    let registered = cell.registrar().register(declared("a/b/1", "http://h:1/")).await.unwrap();
    cell.registrar().evict(&id("a/b/1"), "a drill", "ann").await.unwrap();
    assert!(!cell.has("a/b/1"));
    let view = cell.running.regions.own_view();
    let removal = view.removals().last().unwrap();
    assert_eq!((removal.reason, &*removal.actor), (RemovalReason::Evicted, "operator:ann"));
    let late = cell.registrar().renew(&id("a/b/1"), registered.registration.epoch, Report::default()).await;
    assert_eq!(late.unwrap_err().code, Code::NotRegistered);
    let again = cell.registrar().register(declared("a/b/1", "http://h:1/")).await.unwrap();
    assert!(again.registration.epoch > registered.registration.epoch);
    cell.stop().await;
}

#[tokio::test]
async fn a_muted_instance_is_answered_and_lapses_all_the_same() {
    let (cell, _folder) = memory().await;
    let registered = cell.registrar().register(declared("a/b/1", "http://h:1/")).await.unwrap();
    cell.registrar().mute(&id("a/b/1"), Duration::from_secs(60), "ann").await.unwrap();
    for _ in 0..3 {
        cell.pass(Duration::from_secs(9));
        cell.registrar().renew(&id("a/b/1"), registered.registration.epoch, Report::default()).await.unwrap();
    }
    cell.pass(Duration::from_secs(4));
    cell.until("it lapses", |cell| !cell.has("a/b/1")).await;
    cell.stop().await;
}
