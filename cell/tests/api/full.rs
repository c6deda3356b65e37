//! The store has no space (F08): it takes nothing new, and everybody that is there stays.

use serde_json::{Value, json};

use super::cell::{Cell, eventually, plain};
use super::moody::{Mood, Moody};

const LEASE: &str = "/v1/registrations/ops/mail/1/lease";

#[tokio::test]
async fn f08_a_keeper_that_dies_while_the_store_is_full_is_followed_by_whoever_stood_before() {
    let store = Moody::new(Mood::Well);
    let first = Cell::with("us", &[], store.clone()).await;
    first.keeps().await;
    let epoch = first.register_plain("ops/mail/1").await;
    let second = Cell::with("us", &[], store.clone()).await;
    eventually("the second process renews at the first", || async {
        (second.fenced("PUT", LEASE, &epoch, &Value::Null).await.status == 200).then_some(())
    })
    .await;

    store.becomes(Mood::Full);
    drop(first);
    second.keeps().await;
    assert_eq!(second.fenced("PUT", LEASE, &epoch, &Value::Null).await.status, 200);
    second.post("/v1/registrations", &plain("ops/mail/2")).await.refused(503, "store_unavailable");
}

#[tokio::test]
async fn f08_a_full_store_is_told_by_the_refusal_the_figure_and_readiness_until_it_has_space() {
    is_told_until_it_has_space(Mood::Full, ["compact and defragment etcd", "alarm disarm"], "data_dir").await;
}

#[tokio::test]
async fn f08_a_full_disk_is_told_with_what_helps_against_it_and_not_with_what_helps_etcd() {
    is_told_until_it_has_space(Mood::DiskFull, ["make room on the disk", "data_dir"], "etcd").await;
}

/// It is told with these words, and not with that one, which is about another store.
async fn is_told_until_it_has_space(full: Mood, words: [&str; 2], other: &str) {
    let store = Moody::new(Mood::Well);
    let cell = Cell::with("us", &[], store.clone()).await;
    cell.keeps().await;
    let figure = "\nrollcall_cell_store_full";
    let shows = async |value: &str| {
        let metrics = cell.get("/metrics").await.text;
        metrics.contains(&format!("{figure} {value}\n"))
    };
    assert!(shows("0").await);
    store.becomes(full);
    eventually("the keeper's beat finds out", || async { shows("1").await.then_some(()) }).await;
    let refused = cell.post("/v1/registrations", &plain("ops/mail/1")).await;
    refused.refused(503, "store_unavailable");
    let ready = cell.get("/readyz?verbose").await;
    assert_eq!(ready.status, 200, "readers are served");
    for told in [&refused.text, &ready.text] {
        assert!(told.contains("out of space") && words.iter().all(|word| told.contains(word)), "{told}");
        assert!(!told.contains(other), "{told}");
    }
    store.becomes(Mood::Well);
    eventually("it has space again", || async { shows("0").await.then_some(()) }).await;
    assert!(!cell.get("/readyz?verbose").await.text.contains("out of space"));
}

#[tokio::test]
async fn f08_a_word_said_once_with_a_renewal_is_written_when_the_store_has_space_again() {
    let store = Moody::new(Mood::Well);
    let cell = Cell::with("us", &[], store.clone()).await;
    cell.keeps().await;
    let other = Cell::with("us", &[], store.clone()).await;
    let ids = ["ops/mail/1", "ops/mail/2", "ops/mail/3"];
    let mut epochs = Vec::new();
    for id in ids {
        epochs.push(cell.register_plain(id).await);
    }
    let renew = async |at: usize, body: Value| {
        let path = format!("/v1/registrations/{}/lease", ids[at]);
        assert_eq!(cell.fenced("PUT", &path, &epochs[at], &body).await.status, 200);
    };
    store.becomes(Mood::Full);
    for at in 0..3 {
        renew(at, json!({"lifecycle": "draining"})).await;
    }
    // The second takes it back, the third says something else at another process once there is space.
    renew(1, json!({"lifecycle": "healthy"})).await;
    renew(0, Value::Null).await;
    eventually("the other process knows the third", || async {
        (other.get(&format!("/v1/agents/{}", ids[2])).await.status == 200).then_some(())
    })
    .await;
    store.becomes(Mood::Well);
    let path = format!("/v1/registrations/{}", ids[2]);
    let patched = other.fenced("PATCH", &path, &epochs[2], &json!({"lifecycle": "degraded"})).await;
    assert_eq!(patched.status, 200, "{}", patched.text);
    let lifecycle = async |id: &str| {
        let agent = cell.get(&format!("/v1/agents/{id}")).await.json();
        agent["lifecycle"].as_str().unwrap().to_owned()
    };
    eventually("what was said once is written", || async {
        (lifecycle(ids[0]).await == "draining").then_some(())
    })
    .await;
    assert_eq!((lifecycle(ids[1]).await, lifecycle(ids[2]).await), ("healthy".into(), "degraded".into()));
}
