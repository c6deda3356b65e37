//! The store is away, or does not answer.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use rollcall_cell::store::embedded::Embedded;
use rollcall_cell::store::keys::INCARNATION;
use rollcall_cell::store::{Group, Op, Store};
use rollcall_model::Revision;

use super::cell::{Cell, eventually, plain};
use super::events::Events;
use super::logged::Logged;
use super::moody::{Mood, Moody};

#[tokio::test]
async fn a_cell_that_never_reached_its_store_lives_and_is_not_ready() {
    let cell = Cell::with("us", &[], Moody::new(Mood::Away)).await;
    assert_eq!(cell.get("/livez").await.status, 200);
    cell.get("/readyz").await.refused(503, "view_not_loaded");
    let verbose = cell.get("/readyz?verbose").await;
    verbose.refused(503, "view_not_loaded");
    let detail = verbose.json()["detail"].as_str().unwrap().to_owned();
    for part in ["us (own): not_loaded", "keeper (not needed to be ready): not this process"] {
        assert!(detail.contains(part), "{detail}");
    }
    let list = cell.get("/v1/agents").await.json();
    assert_eq!((&list["agents"], &list["regions"][0]["state"]), (&json!([]), &json!("not_loaded")));
    cell.get("/v1/agents/ops/mail/1").await.refused(503, "view_not_loaded");
    cell.post("/v1/registrations", &plain("ops/mail/1")).await.refused(503, "store_unavailable");
    let lease = "/v1/registrations/ops/mail/1/lease";
    cell.fenced("PUT", lease, "7", &Value::Null).await.refused(503, "store_unavailable");
    cell.get(lease).await.refused(503, "store_unavailable");
    let batch = json!({"renewals": [{"id": "ops/mail/1", "epoch": "7"}]});
    cell.post("/v1/renewals", &batch).await.refused(503, "store_unavailable");
    let path = "/v1/registrations/ops/mail/1";
    cell.fenced("PATCH", path, "7", &json!({"lifecycle": "healthy"})).await.refused(503, "store_unavailable");
    cell.fenced("DELETE", path, "7", &Value::Null).await.refused(503, "store_unavailable");
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_told_by_readiness_and_figure_until_it_does() {
    let store = Moody::new(Mood::Well);
    let cell = Cell::with("us", &[], store.clone()).await;
    cell.keeps().await;
    let other = Cell::with("us", &[], store.clone()).await;
    let says = async |cell: &Cell, line: &str, silent: &str| {
        let (ready, figures) = (cell.get("/readyz?verbose").await, cell.get("/metrics").await.text);
        let line = format!("\nstore (not needed to be ready): {line}");
        (ready.status == 200
            && ready.text.contains(&line)
            && figures.contains(&format!("\nrollcall_cell_store_silent {silent}\n")))
        .then_some(ready.text)
    };
    for mood in [Mood::Away, Mood::Severed] {
        for process in [&cell, &other] {
            eventually("it answers", || says(process, "it answers\n", "0")).await;
        }
        store.becomes(mood);
        let told = eventually("the keeper's process says so", || says(&cell, "no answer for ", "1")).await;
        assert!(told.contains("it is away") || told.contains("it broke off"), "why: {told}");
        assert!(told.contains("what [store] names has to be up"), "what to do: {told}");
        if mood == Mood::Severed {
            eventually("so does one that writes nothing", || says(&other, "no answer for ", "1")).await;
        }
        store.becomes(Mood::Well);
    }
    for process in [&cell, &other] {
        eventually("it answers again", || says(process, "it answers\n", "0")).await;
    }
}

/// A process that is killed in an outage shows after its start what it showed before.
#[tokio::test]
async fn what_was_registered_just_before_the_store_went_away_is_on_disk_while_it_is_away() {
    let folder = tempfile::tempdir().unwrap();
    let store = Moody::new(Mood::Well);
    let cell = Cell::kept_in(folder.path(), store.clone()).await;
    cell.keeps().await;
    cell.register_plain("ops/mail/1").await;
    store.becomes(Mood::Severed);
    let file = folder.path().join("replica.us.state");
    eventually("the copy on disk has it", || async {
        let saved = rollcall_proto::disk::decode(&std::fs::read(&file).ok()?).ok()?;
        saved.snapshot.state().get("ops/mail/1").map(|_| ())
    })
    .await;
}

/// Somebody wrote over the name of the history by hand: nobody can tell what was there, so nothing goes on from it.
#[tokio::test]
async fn a_history_whose_name_was_written_over_is_told_with_what_to_do_and_doing_that_mends_it() {
    let store = Embedded::memory().unwrap();
    let cell = Cell::with("us", &[], store.clone()).await;
    cell.keeps().await;
    cell.register_plain("ops/mail/1").await;
    let by_hand = |effect: Op| {
        let group = Group { also: vec![effect], ..Group::default() };
        let store = store.clone();
        async move { store.commit(group).await.unwrap() }
    };
    by_hand(Op::Put(INCARNATION.into(), "oops".into())).await;
    let told = eventually("readiness says so", || async {
        let ready = cell.get("/readyz?verbose").await;
        assert_eq!(ready.status, 200, "readers are served");
        let mut lines = ready.text.lines().map(str::to_owned);
        lines.find(|line| line.starts_with("store (not needed to be ready): not usable for "))
    })
    .await;
    let refused = cell.post("/v1/registrations", &plain("ops/mail/2")).await;
    refused.refused(503, "store_unavailable");
    for told in [&told, &refused.text] {
        for words in
            ["under meta/incarnation what no cell wrote", "remove the key rollcall/v1/us/meta/incarnation"]
        {
            assert!(told.contains(words), "{words}: {told}");
        }
    }
    by_hand(Op::Remove(INCARNATION.into())).await;
    cell.keeps().await;
    cell.register_plain("ops/mail/2").await;
    assert_eq!(cell.get("/v1/agents/ops/mail/1").await.status, 200, "what was there stays");
    assert!(cell.get("/readyz?verbose").await.text.contains("store (not needed to be ready): it answers"));
}

#[tokio::test]
async fn a_copy_on_disk_that_cannot_be_written_is_told_by_readiness_and_figure_until_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let store = Moody::new(Mood::Well);
    let cell = Cell::kept_in(folder.path(), store.clone()).await;
    cell.keeps().await;
    // Neither is there room for the copy nor for the one before it.
    let places = ["replica.us.state", "replica.us.state.1"].map(|name| folder.path().join(name));
    for place in &places {
        // A copy that was written already is put away.
        let _ = std::fs::remove_file(place);
        std::fs::create_dir(place).unwrap();
        std::fs::write(place.join("what"), "x").unwrap();
    }
    // It is saved at once when the store goes away.
    store.becomes(Mood::Severed);
    let figure = |value: u8| format!("\nrollcall_cell_copy_unsaved{{region=\"us\"}} {value}\n");
    let shown = async |value: u8| cell.get("/metrics").await.text.contains(&figure(value));
    eventually("the figure tells", || async { shown(1).await.then_some(()) }).await;
    let ready = cell.get("/readyz?verbose").await;
    assert_eq!(ready.status, 200, "it is not needed to be ready");
    let line =
        ready.text.lines().find(|line| line.starts_with("copy of us (not needed to be ready): ")).unwrap();
    assert!(line.contains("not written: ") && line.contains("replica.us.state"), "what and where: {line}");
    assert!(line.contains("put away what stands there"), "what to do: {line}");
    for place in &places {
        std::fs::remove_dir_all(place).unwrap();
    }
    store.becomes(Mood::Well);
    eventually("it is written", || async { shown(0).await.then_some(()) }).await;
    assert!(!cell.get("/readyz?verbose").await.text.contains("copy of us"));
}

#[tokio::test]
async fn readers_do_not_notice_that_the_store_is_away() {
    let store = Moody::new(Mood::Well);
    let cell = Cell::with("us", &[], store.clone()).await;
    cell.keeps().await;
    let epoch = cell.register_plain("ops/mail/1").await;
    store.becomes(Mood::Away);
    cell.post("/v1/registrations", &plain("ops/mail/2")).await.refused(503, "store_unavailable");
    assert_eq!(cell.get("/readyz").await.status, 200);
    assert_eq!(cell.get("/v1/agents/ops/mail/1").await.status, 200);
    assert_eq!(cell.get("/v1/agents").await.json()["agents"].as_array().unwrap().len(), 1);
    // A renewal is no store write.
    let lease = "/v1/registrations/ops/mail/1/lease";
    assert_eq!(cell.fenced("PUT", lease, &epoch, &Value::Null).await.status, 200);
}

#[tokio::test]
async fn a_write_without_an_answer_is_neither_done_nor_failed() {
    let store = Moody::new(Mood::Well);
    let cell = Cell::with("us", &[], store.clone()).await;
    cell.keeps().await;
    let epoch = cell.register_plain("ops/mail/1").await;
    store.becomes(Mood::Mute);
    cell.post("/v1/registrations", &plain("ops/mail/2")).await.refused(504, "outcome_unknown");
    let path = "/v1/registrations/ops/mail/1";
    cell.fenced("PATCH", path, &epoch, &json!({"lifecycle": "draining"}))
        .await
        .refused(504, "outcome_unknown");
    cell.fenced("DELETE", path, &epoch, &Value::Null).await.refused(504, "outcome_unknown");
    // This store did it after all, and whoever looks sees it.
    eventually("what was written", || async {
        let agents = cell.get("/v1/agents").await.json()["agents"].clone();
        (agents.as_array().unwrap().len() == 1 && agents[0]["id"] == "ops/mail/2").then_some(())
    })
    .await;
}

#[tokio::test]
async fn i04_a_process_that_lags_refuses_no_epoch_that_holds() {
    let store = Embedded::memory().unwrap();
    let first = Cell::with("us", &[], store.clone()).await;
    first.keeps().await;
    let late = Moody::over(store, Mood::Well);
    let second = Cell::with("us", &[], late.clone()).await;
    eventually("the second process serves", || async {
        (second.get("/readyz").await.status == 200).then_some(())
    })
    .await;
    late.becomes(Mood::Late);

    let path = "/v1/registrations/ops/mail/1";
    let epoch = first.register_plain("ops/mail/1").await;
    let draining = json!({"lifecycle": "draining"});
    second.fenced("PATCH", path, &epoch, &draining).await.refused(503, "store_unavailable");
    second.fenced("DELETE", path, &epoch, &Value::Null).await.refused(503, "store_unavailable");
    // What was never issued, or is not there at all, is refused by the store's word, however late its history is.
    let never = (epoch.parse::<u64>().unwrap() + 1_000_000).to_string();
    let answer = second.fenced("PATCH", path, &never, &draining).await;
    assert_eq!((answer.status, answer.json()["current"]["epoch"].clone()), (412, json!(epoch)));
    let nobody = "/v1/registrations/ops/mail/none";
    second.fenced("DELETE", nobody, &never, &Value::Null).await.refused(404, "not_registered");

    late.becomes(Mood::Well);
    assert_eq!(second.fenced("PATCH", path, &epoch, &draining).await.status, 200);
}

#[tokio::test]
async fn a_replica_that_its_watch_misled_finds_out_and_reads_anew() {
    let logged = Logged::begin();
    let store = Moody::new(Mood::Well);
    let cell = Cell::with("us", &[], store.clone()).await;
    cell.register_plain("ops/mail/1").await;
    assert_eq!(logged.lines(&["INFO", "replica loaded", "reason=\"started\""]).len(), 1);
    assert_eq!(logged.lines(&["WARN", "replica loaded"]), Vec::<String>::new(), "a start is no news");
    store.becomes(Mood::Forgetful);
    // The store has it, and nobody was told.
    cell.register_plain("ops/mail/2").await;
    let resync = eventually("the replica is what the store holds", || async {
        let found = cell.get("/v1/agents/ops/mail/2").await;
        let regions = cell.get("/v1/regions").await.json();
        (found.status == 200).then(|| regions["regions"][0]["last_resync"]["reason"].clone())
    })
    .await;
    assert_eq!(resync, "digest", "and says why");
    assert_eq!(logged.lines(&["WARN", "replica loaded", "reason=\"digest\""]).len(), 1, "in the log as well");
}

#[tokio::test]
async fn i20_a_replica_that_was_misled_is_not_current_until_it_was_read_anew_through_any_outage() {
    let store = Moody::new(Mood::Well);
    let cell = Cell::with("us", &[], store.clone()).await;
    cell.keeps().await;
    cell.register_plain("ops/mail/1").await;
    eventually("it is current", || async { (shown(&cell).await == ("current".into(), 1)).then_some(()) })
        .await;
    store.becomes(Mood::Headless);
    cell.register_plain("ops/mail/2").await;
    eventually("it finds out, and the store breaks off", || async { (store.refused() > 0).then_some(()) })
        .await;
    // Each try finds the store there and its history open to be followed; only the state cannot be read.
    eventually("it tries again and again", || async {
        let (state, agents) = shown(&cell).await;
        assert!(state != "current", "I20: {agents} agents of 2 called {state}");
        (store.refused() > 8).then_some(())
    })
    .await;
    store.becomes(Mood::Well);
    eventually("it is current again", || async {
        let (state, agents) = shown(&cell).await;
        assert!(state != "current" || agents == 2, "I20: {agents} agents called {state}");
        (state == "current").then_some(())
    })
    .await;
    let regions = cell.get("/v1/regions").await.json();
    assert_eq!(regions["regions"][0]["last_resync"]["reason"], "digest", "the reason is kept");
}

/// The age of a state is counted from when it was the head, and not from when it had been read.
#[tokio::test]
async fn i20_i21_a_state_that_was_read_slowly_is_as_old_as_its_first_page() {
    let store = Embedded::memory().unwrap();
    let first = Cell::with("us", &[], store.clone()).await;
    first.keeps().await;
    first.register_plain("ops/mail/1").await;
    let slow = Moody::over(store, Mood::Slow);
    let second = Cell::with("us", &[], slow.clone()).await;
    eventually("it reads", || async { slow.was_waited_for().then_some(()) }).await;
    let reads = Instant::now();
    let path = "/v1/registrations/ops/mail/1";
    let epoch = first.register_plain("ops/mail/1").await;
    assert_eq!(first.fenced("DELETE", path, &epoch, &Value::Null).await.status, 204);
    eventually("a second passes", || async { (reads.elapsed() > Duration::from_secs(1)).then_some(()) })
        .await;
    let held = reads.elapsed();
    // Its pages go on, and what came since is told later.
    slow.becomes(Mood::Late);
    let age = eventually("it shows who was there", || async {
        let list = second.get("/v1/agents").await.json();
        let is_there = list["agents"].as_array().unwrap().len() == 1;
        is_there.then(|| list["regions"][0]["age_ms"].as_u64().unwrap())
    })
    .await;
    assert!(u128::from(age) >= held.as_millis(), "{age} ms, and read for {held:?}");
    slow.becomes(Mood::Well);
    eventually("it catches up", || async { (shown(&second).await == ("current".into(), 0)).then_some(()) })
        .await;
}

/// What a process says of its own region: the state's word, and how many agents it shows.
async fn shown(cell: &Cell) -> (String, usize) {
    let list = cell.get("/v1/agents").await.json();
    let state = list["regions"][0]["state"].as_str().unwrap().to_owned();
    (state, list["agents"].as_array().unwrap().len())
}

/// B31: watchers asked for a compacted revision again and again, or died of it.
#[tokio::test]
async fn b31_f05_a_replica_that_compaction_outran_reads_anew_once_and_calls_nothing_older_current() {
    let store = Embedded::memory().unwrap();
    let first = Cell::with("us", &[], store.clone()).await;
    first.keeps().await;
    first.register_plain("ops/mail/1").await;
    let severed = Moody::over(store.clone(), Mood::Well);
    let second = Cell::with("us", &[], severed.clone()).await;
    eventually("the second process shows it", || async {
        (shown(&second).await == ("current".into(), 1)).then_some(())
    })
    .await;
    let mut watcher = Events::of(second.open("/v1/watch", &[]).await);
    watcher.until("snapshot_end").await;

    severed.becomes(Mood::Severed);
    eventually("it does not call itself current", || async {
        (shown(&second).await == ("behind".into(), 1)).then_some(())
    })
    .await;
    let epoch: u64 = first.register_plain("ops/mail/2").await.parse().unwrap();
    // The revision is in the lower bits; everything before it is gone.
    store.compact(Revision(epoch & ((1 << 40) - 1))).await.unwrap();
    assert_eq!(shown(&second).await.1, 1, "it serves what it has");

    severed.becomes(Mood::Well);
    eventually("it is current again", || async {
        let (state, agents) = shown(&second).await;
        assert!(state != "current" || agents == 2, "I20: {agents} agents called {state}");
        (state == "current").then_some(())
    })
    .await;
    let names: Vec<_> = watcher.until("snapshot_end").await.into_iter().map(|event| event.name).collect();
    let news: Vec<_> = names.iter().filter(|name| *name != "bookmark").collect();
    assert_eq!(
        news,
        ["resync", "snapshot_begin", "put", "put", "snapshot_end"],
        "and so are those it serves"
    );
    let regions = second.get("/v1/regions").await.json();
    assert_eq!(regions["regions"][0]["last_resync"]["reason"], "history_passed");
    let metrics = second.get("/metrics").await.text;
    assert!(metrics.contains("rollcall_cell_view_resyncs{region=\"us\"} 1\n"), "once: {metrics}");
}

/// A keeper that stays in office while its replica reads anew judges by what was read, not by what it kept before.
#[tokio::test]
async fn i02_i06_i11_a_keeper_whose_replica_compaction_outran_knows_every_epoch_that_was_given_meanwhile() {
    let store = Embedded::memory().unwrap();
    let moody = Moody::over(store.clone(), Mood::Well);
    let keeper = Cell::with("us", &[], moody.clone()).await;
    keeper.keeps().await;
    let second = Cell::with("us", &[], store.clone()).await;
    let first = second.register_plain("ops/mail/1").await;
    let left = second.register_plain("ops/mail/2").await;
    let stays = second.register_plain("ops/mail/3").await;
    eventually("the keeper shows them", || async {
        (shown(&keeper).await == ("current".into(), 3)).then_some(())
    })
    .await;

    moody.becomes(Mood::Severed);
    eventually("it hears nothing", || async { (shown(&keeper).await.0 == "behind").then_some(()) }).await;
    let again = second.register_plain("ops/mail/1").await;
    second.fenced("DELETE", "/v1/registrations/ops/mail/2", &left, &Value::Null).await;
    let new = second.register_plain("ops/mail/4").await;
    let head: u64 = new.parse().unwrap();
    store.compact(Revision(head & ((1 << 40) - 1))).await.unwrap();
    moody.becomes(Mood::Well);
    eventually("it is current again", || async { (shown(&keeper).await.0 == "current").then_some(()) }).await;
    let regions = keeper.get("/v1/regions").await.json();
    assert_eq!(regions["regions"][0]["last_resync"]["reason"], "history_passed");

    let renew = |id: &str, epoch: &str| {
        let (lease, epoch) = (format!("/v1/registrations/{id}/lease"), epoch.to_owned());
        let keeper = &keeper;
        async move { keeper.fenced("PUT", &lease, &epoch, &Value::Null).await }
    };
    renew("ops/mail/1", &first).await.refused(412, "superseded");
    assert_eq!(renew("ops/mail/1", &again).await.status, 200, "the epoch that stands");
    renew("ops/mail/2", &left).await.refused(404, "not_registered");
    assert_eq!(renew("ops/mail/4", &new).await.status, 200, "registered meanwhile");
    assert_eq!(renew("ops/mail/3", &stays).await.status, 200, "nothing happened to it");
}

#[tokio::test]
async fn rep_04_a_replica_whose_watch_broke_off_goes_on_from_its_revision_and_so_do_its_watchers() {
    let store = Embedded::memory().unwrap();
    let first = Cell::with("us", &[], store.clone()).await;
    first.keeps().await;
    first.register_plain("ops/mail/1").await;
    let severed = Moody::over(store, Mood::Well);
    let second = Cell::with("us", &[], severed.clone()).await;
    eventually("the second process shows it", || async {
        (shown(&second).await == ("current".into(), 1)).then_some(())
    })
    .await;
    let mut watcher = Events::of(second.open("/v1/watch", &[]).await);
    watcher.until("snapshot_end").await;
    severed.becomes(Mood::Severed);
    eventually("it does not call itself current", || async {
        (shown(&second).await == ("behind".into(), 1)).then_some(())
    })
    .await;
    first.register_plain("ops/mail/2").await;
    first.register_plain("ops/mail/3").await;
    severed.becomes(Mood::Well);
    let mut told = Vec::new();
    while told.len() < 2 {
        let news = watcher.next_news().await;
        assert_eq!(news.name, "delta", "what happened meanwhile, and nothing anew");
        let changes = news.data["changes"].as_array().unwrap();
        told.extend(changes.iter().map(|change| change["put"]["id"].as_str().unwrap().to_owned()));
    }
    assert_eq!(told, ["ops/mail/2", "ops/mail/3"]);
    assert_eq!(second.get("/v1/regions").await.json()["regions"][0]["last_resync"], Value::Null);
}
