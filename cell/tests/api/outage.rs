//! The store is away, or does not answer.

use serde_json::{Value, json};

use rollcall_cell::store::embedded::Embedded;

use super::cell::{Cell, eventually, plain};
use super::moody::{Mood, Moody};

#[tokio::test]
async fn a_cell_that_never_reached_its_store_lives_and_is_not_ready() {
    let cell = Cell::with("us", &[], Moody::new(Mood::Away)).await;
    assert_eq!(cell.get("/livez").await.status, 200);
    cell.get("/readyz").await.refused(503, "view_not_loaded");
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
    let store = Moody::new(Mood::Well);
    let cell = Cell::with("us", &[], store.clone()).await;
    cell.register_plain("ops/mail/1").await;
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
}
