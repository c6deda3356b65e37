//! Faults of other registries that need a hand in the cell's own store or between its processes: one sentence of origin
//! per test. Those that a whole process shows are in `tests/museum`.

use std::time::{Duration, Instant};

use rollcall_cell::store::embedded::Embedded;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::cell::{Answer, Cell, eventually, plain};
use super::events::Events;
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

/// B07: a fault of the network that let nothing of two fifths of a fleet through made masses of it unhealthy.
#[tokio::test]
async fn b07_two_fifths_whose_beats_are_lost_stay_are_resolved_last_and_go_on_with_their_epochs() {
    let cell = Cell::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut fleet = Vec::new();
    for n in 0..10 {
        let id = format!("museum/mail/{n}");
        let epoch = cell.register(&brief(&id, &listener)).await;
        fleet.push((id, epoch));
    }
    let (lost, heard) = fleet.split_at(4);
    let began = Instant::now();
    while began.elapsed() < TWO_LEASES {
        for (id, epoch) in heard {
            assert_eq!(renew(&cell, id, epoch, &Value::Null).await.status, 200);
        }
        tokio::time::sleep(BEAT).await;
    }
    let resolved = cell.get("/v1/resolve?name=mail").await.json();
    let resolved: Vec<_> =
        resolved["candidates"].as_array().unwrap().iter().map(|one| &one["overdue"]).collect();
    assert_eq!(resolved, [vec![&json!(false); 6], vec![&json!(true); 4]].concat(), "nobody is gone");
    for (id, epoch) in lost {
        assert_eq!(renew(&cell, id, epoch, &Value::Null).await.status, 200, "with its old epoch");
    }
    let removals = cell.get("/v1/removals").await.json()["removals"].clone();
    assert_eq!(removals, json!([]));
}

/// B33: after the loss of its servers a watch went round in a loop without a pause and starved everything else.
///
/// Time is virtual: it goes on when every task waits.
#[tokio::test(start_paused = true)]
async fn b33_a_store_that_is_gone_is_asked_now_and_then_and_readers_are_served_meanwhile() {
    let store = Moody::new(Mood::Well);
    let cell = Cell::with("us", &[], store.clone()).await;
    cell.keeps().await;
    cell.register_plain("museum/mail/1").await;
    store.becomes(Mood::Severed);
    let before = store.asked();
    for _ in 0..60 {
        assert_eq!(cell.get("/v1/agents/museum/mail/1").await.status, 200);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    // The replica, the keeper and the audit, each with waits that grow to a second.
    let asked = store.asked() - before;
    assert!((30..300).contains(&asked), "{asked} times in a minute");
}

/// B35: a server that was replaying its log at its start answered with what it had so far.
#[tokio::test]
async fn b35_a_process_that_starts_calls_nothing_current_before_it_holds_all() {
    const AGENTS: usize = 400;
    let store = Embedded::memory().unwrap();
    let first = Cell::with("us", &[], store.clone()).await;
    first.keeps().await;
    for n in 0..AGENTS {
        first.register_plain(&format!("museum/mail/{n}")).await;
    }
    // It is asked from the moment it listens on, without a pause.
    let second = Cell::with("us", &[], store).await;
    eventually("it is current", || {
        let list = second.get("/v1/agents?limit=1000");
        async {
            let list = list.await.json();
            let agents = list["agents"].as_array().unwrap().len();
            let region = &list["regions"][0];
            if region["state"] == "not_loaded" {
                assert_eq!(agents, 0, "no part of a state is shown");
                return None;
            }
            assert_eq!(agents, AGENTS, "{region}");
            (region["state"] == "current").then_some(())
        }
    })
    .await;
}

/// B37: after a restore some streams were not ended, and their readers kept what another history had told them.
#[tokio::test]
async fn b37_b39_another_history_begins_every_watch_anew_and_what_it_lacks_is_dropped() {
    let store = Moody::new(Mood::Well);
    let cell = Cell::with("us", &[], store.clone()).await;
    cell.keeps().await;
    cell.register_plain("museum/kept/1").await;
    cell.register_plain("museum/lost/1").await;
    let far = Cell::with("eu", &[("us", cell.grpc_url.as_str())], Embedded::memory().unwrap()).await;
    eventually("another region follows it", || async {
        (far.get("/v1/agents/museum/lost/1?region=us").await.status == 200).then_some(())
    })
    .await;
    let mut watches = Vec::new();
    for (watched, path) in [
        (&cell, "/v1/watch"),
        (&cell, "/v1/watch?name=lost"),
        (&cell, "/v1/watch?region=all"),
        (&far, "/v1/watch?region=us"),
    ] {
        let mut watch = Events::of(watched.open(path, &[]).await);
        watch.until("snapshot_end").await;
        watches.push((path, watch));
    }

    // The store is brought back from somewhere where only one of them is known.
    let other = Embedded::memory().unwrap();
    let before = Cell::with("us", &[], other.clone()).await;
    before.keeps().await;
    before.register_plain("museum/kept/1").await;
    drop(before);
    store.becomes(Mood::Severed);
    store.holds(other);
    store.becomes(Mood::Well);

    for (path, watch) in &mut watches {
        let told = watch.until("snapshot_end").await;
        let resync = told.iter().find(|event| event.name == "resync").expect("it begins anew");
        assert_eq!(resync.data["reason"], "new_incarnation", "{path}");
        let puts: Vec<_> =
            told.iter().filter(|event| event.name == "put").map(|event| &event.data["id"]).collect();
        let expected = if path.contains("lost") { vec![] } else { vec!["museum/kept/1"] };
        assert_eq!(puts, expected, "{path}");
    }
    eventually("the keeper is in office again", || async {
        (cell.post("/v1/registrations", &plain("museum/later/1")).await.status == 201).then_some(())
    })
    .await;
    for (path, watch) in watches.iter_mut().filter(|(path, _)| !path.contains("lost")) {
        let event = watch.next_news().await;
        let id = event.data.pointer("/changes/0/put/id");
        assert_eq!(id, Some(&json!("museum/later/1")), "{path}: {event:?}");
    }
}
