//! What the guard keeps past its deadline is called overdue, everywhere (ADR 0009).

use rollcall_cell::store::embedded::Embedded;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::cell::{Cell, eventually};
use super::events::Events;
use super::moody::{Mood, Moody};

async fn overdue(cell: &Cell, path: &str) -> Vec<String> {
    let agents = cell.get(path).await.json();
    let agents = agents["agents"].as_array().unwrap().iter().filter(|agent| agent["overdue"] == true);
    agents.map(|agent| agent["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn an_overdue_mark_reaches_watchers_and_other_regions_and_goes_with_a_renewal() {
    let us = Cell::start().await;
    let eu = Cell::with("eu", &[("us", us.grpc_url.as_str())], Embedded::memory().unwrap()).await;
    // Its endpoint answers, so that silence is no evidence of death.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let mut epochs = Vec::new();
    for n in 0..4 {
        let body = json!({"id": format!("ops/mail/{n}"), "endpoints": [{"url": url}], "lease_seconds": 5});
        epochs.push(us.register(&body).await);
    }
    let mut events = Events::of(us.open("/v1/watch", &[]).await);
    let ids: Vec<_> = (0..4).map(|n| format!("ops/mail/{n}")).collect();
    eventually("another region sees all of them overdue", || async {
        (overdue(&eu, "/v1/agents?region=us").await == ids).then_some(())
    })
    .await;
    assert_eq!(overdue(&us, "/v1/agents").await, ids);
    let marked = |event: &Value| {
        let changes = event["changes"].as_array().cloned().unwrap_or_default();
        changes.iter().any(|change| change["put"]["overdue"] == true)
    };
    while !marked(&events.next_news().await.data) {}

    let path = "/v1/registrations/ops/mail/0/lease";
    let renewed = us.fenced("PUT", path, &epochs[0], &Value::Null).await;
    assert_eq!(renewed.status, 200, "I08: it renews with its old epoch");
    assert_eq!(overdue(&us, "/v1/agents").await, ids[1..], "the own region knows at once");
    eventually("another region sees that it is back", || async {
        assert_eq!(us.fenced("PUT", path, &epochs[0], &Value::Null).await.status, 200);
        (overdue(&eu, "/v1/agents?region=us").await == ids[1..]).then_some(())
    })
    .await;
    let agent = us.get("/v1/agents/ops/mail/0").await.json();
    assert_eq!((&agent["epoch"], &agent["lifecycle"]), (&json!(epochs[0]), &json!("healthy")));
}

/// A watcher keeps what it was told until something takes it back, and an order must follow from what is shown.
#[tokio::test]
async fn what_only_the_keeper_knows_is_told_to_who_asks_now_and_to_no_stream_or_order() {
    let store = Moody::new(Mood::Well);
    let cell = Cell::with("us", &[], store.clone()).await;
    cell.keeps().await;
    let body = |n| json!({"id": format!("ops/mail/{n}"), "endpoints": [{"url": "http://127.0.0.1:9/"}], "lease_seconds": 5});
    let epoch = cell.register(&body(1)).await;
    cell.register(&body(2)).await;
    // No mark is written while there is no space for one.
    store.becomes(Mood::Full);
    eventually("both are overdue", || async {
        (overdue(&cell, "/v1/agents").await.len() == 2).then_some(())
    })
    .await;
    let snapshot = Events::of(cell.open("/v1/watch", &[]).await).until("snapshot_end").await;
    let puts: Vec<_> =
        snapshot.iter().filter(|event| event.name == "put").map(|put| &put.data["overdue"]).collect();
    assert_eq!(puts, [&json!(false); 2]);
    let path = "/v1/registrations/ops/mail/1/lease";
    assert_eq!(cell.fenced("PUT", path, &epoch, &Value::Null).await.status, 200);
    assert_eq!(overdue(&cell, "/v1/agents").await, ["ops/mail/2"], "the keeper knows");
    let resolved = cell.get("/v1/resolve").await.json();
    let candidates = resolved["candidates"].as_array().unwrap();
    assert!(candidates.len() == 2 && candidates.iter().all(|one| one["overdue"] == false), "{resolved}");
}
