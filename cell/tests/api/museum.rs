//! Faults of other registries that need a hand in the cell's own store or between its processes: one sentence of origin
//! per test. Those that a whole process shows are in `tests/museum`.

use std::time::{Duration, Instant};

use rollcall_cell::store::embedded::Embedded;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::cell::{Answer, Cell, eventually};
use super::moody::{Mood, Moody};

/// Two of the shortest leases, and a sweep.
const TWO_LEASES: Duration = Duration::from_millis(11_500);
/// Between two beats of that lease.
const BEAT: Duration = Duration::from_millis(800);

fn brief(id: &str, listener: &TcpListener) -> Value {
    let url = format!("http://{}/", listener.local_addr().unwrap());
    json!({"id": id, "endpoints": [{"url": url}], "lease_seconds": 5})
}

async fn renew(cell: &Cell, id: &str, epoch: &str, body: &Value) -> Answer {
    cell.fenced("PUT", &format!("/v1/registrations/{id}/lease"), epoch, body).await
}

/// A second process that serves.
async fn second(store: &Embedded) -> Cell {
    let cell = Cell::with("us", &[], store.clone()).await;
    eventually("a process that serves", || async { (cell.get("/readyz").await.status == 200).then_some(()) })
        .await;
    cell
}

/// B05: who expires judged by an old copy of the leases and condemned those that had renewed.
#[tokio::test]
async fn b05_a_keeper_whose_copy_is_two_leases_late_removes_nobody_that_is_alive() {
    let store = Embedded::memory().unwrap();
    let late = Moody::over(store.clone(), Mood::Well);
    let keeper = Cell::with("us", &[], late.clone()).await;
    keeper.keeps().await;
    let other = second(&store).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let steady = keeper.register(&brief("museum/steady/1", &listener)).await;
    keeper.register(&brief("museum/moved/1", &listener)).await;

    late.becomes(Mood::Late);
    // The keeper still believes the registration before, which nobody renews any more.
    let moved = other.register(&brief("museum/moved/1", &listener)).await;
    let began = Instant::now();
    while began.elapsed() < TWO_LEASES {
        assert_eq!(renew(&keeper, "museum/steady/1", &steady, &Value::Null).await.status, 200);
        assert_eq!(other.get("/v1/agents/museum/moved/1").await.json()["epoch"], json!(moved));
        tokio::time::sleep(BEAT).await;
    }
    late.becomes(Mood::Well);
    eventually("its owner renews", || async {
        (renew(&other, "museum/moved/1", &moved, &Value::Null).await.status == 200).then_some(())
    })
    .await;
    let removals = other.get("/v1/removals").await.json();
    let reasons: Vec<_> = removals["removals"].as_array().unwrap().iter().map(|one| &one["reason"]).collect();
    assert_eq!(reasons, ["replaced"], "by its own owner");
}

/// B13: a server that was not responsible for an instance deleted it, because word from the responsible one failed.
#[tokio::test]
async fn b13_a_process_that_cannot_hear_the_keeper_removes_nobody_and_calls_nobody_unknown() {
    let store = Embedded::memory().unwrap();
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let keeper = Cell::reached_at(&format!("http://{nobody}"), store.clone()).await;
    keeper.keeps().await;
    let other = second(&store).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let epoch = keeper.register(&brief("museum/heard/1", &listener)).await;
    let began = Instant::now();
    while began.elapsed() < TWO_LEASES {
        assert_eq!(renew(&keeper, "museum/heard/1", &epoch, &Value::Null).await.status, 200);
        renew(&other, "museum/heard/1", &epoch, &Value::Null).await.refused(503, "store_unavailable");
        assert_eq!(other.get("/v1/agents/museum/heard/1").await.status, 200);
    }
    assert_eq!(other.get("/v1/removals").await.json()["removals"], json!([]));
}

/// B23: a heartbeat whose write had failed was reported as success.
#[tokio::test]
async fn b23_a_renewal_is_answered_200_for_a_deadline_that_moved_and_for_nothing_else() {
    let store = Moody::new(Mood::Well);
    let cell = Cell::with("us", &[], store.clone()).await;
    cell.keeps().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let id = "museum/told/1";
    let epoch = cell.register(&brief(id, &listener)).await;
    let deadline = async || {
        let lease = cell.get(&format!("/v1/registrations/{id}/lease")).await.json();
        lease["lease_expires_at"].as_str().unwrap().to_owned()
    };
    let before = deadline().await;
    store.becomes(Mood::Away);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let draining = json!({"lifecycle": "draining"});
    assert_eq!(renew(&cell, id, &epoch, &draining).await.status, 200);
    assert!(deadline().await > before, "what was answered happened");
    let shown = async || cell.get(&format!("/v1/agents/{id}")).await.json()["lifecycle"].clone();
    assert_eq!(shown().await, "healthy", "what was said beside it was not, and waits for the next beat");
    let path = format!("/v1/registrations/{id}");
    cell.fenced("PATCH", &path, &epoch, &draining).await.refused(503, "store_unavailable");
    store.becomes(Mood::Mute);
    cell.fenced("PATCH", &path, &epoch, &json!({"lifecycle": "degraded"}))
        .await
        .refused(504, "outcome_unknown");
    store.becomes(Mood::Well);
    eventually("the next beat tells it", || async {
        assert_eq!(renew(&cell, id, &epoch, &draining).await.status, 200);
        (shown().await == "draining").then_some(())
    })
    .await;
}
