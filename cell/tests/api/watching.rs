//! `GET /v1/watch` of the own region.

use std::time::Instant;

use serde_json::{Value, json};

use super::cell::{Cell, plain};
use super::events::{Event, Events};

fn position(event: &Event, member: &str) -> String {
    let at = &event.data[member];
    format!("{}:{}", at["incarnation"].as_str().unwrap(), at["revision"].as_str().unwrap())
}

#[tokio::test]
async fn a_watch_from_nothing_is_a_snapshot_then_deltas() {
    let cell = Cell::start().await;
    for n in 0..3 {
        cell.register_plain(&format!("ops/mail/{n}")).await;
    }
    let mut events = Events::of(cell.open("/v1/watch", &[]).await);
    let snapshot = events.until("snapshot_end").await;
    let names: Vec<_> = snapshot.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["snapshot_begin", "put", "put", "put", "snapshot_end"]);
    let (begin, end) = (&snapshot[0], &snapshot[4]);
    assert_eq!((&begin.data["region"], &begin.data["count"]), (&json!("us"), &json!(3)));
    assert_eq!(begin.data["digest"].as_str().unwrap().len(), 32);
    assert_eq!(begin.data.as_object().unwrap().len(), 4);
    assert!(snapshot[..4].iter().all(|event| event.id.is_none()), "a broken snapshot starts again");
    assert_eq!(snapshot[1].data, cell.get("/v1/agents/ops/mail/0").await.json());
    assert_eq!(end.id.as_deref(), Some(position(end, "position").as_str()));
    assert_eq!(end.data.as_object().unwrap().len(), 2);

    let epoch = cell.register_plain("ops/mail/3").await;
    let delta = events.next_news().await;
    assert_eq!(delta.name, "delta");
    assert_eq!(delta.id.as_deref(), Some(position(&delta, "to").as_str()));
    assert_eq!(delta.data.as_object().unwrap().len(), 4);
    assert_eq!(delta.data["changes"], json!([{"put": cell.get("/v1/agents/ops/mail/3").await.json()}]));

    cell.fenced("DELETE", "/v1/registrations/ops/mail/3", &epoch, &Value::Null).await;
    let next = events.next_news().await;
    assert_eq!(position(&next, "from"), position(&delta, "to"));
    let removal = json!({"id": "ops/mail/3", "epoch": epoch, "reason": "deregistered", "actor": "owner"});
    assert_eq!(next.data["changes"], json!([{"remove": removal}]));
}

#[tokio::test]
async fn bookmarks_come_by_themselves_and_carry_proof_and_age() {
    let began = Instant::now();
    let cell = Cell::start().await;
    cell.register_plain("ops/mail/1").await;
    let mut events = Events::of(cell.open("/v1/watch", &[]).await);
    events.until("snapshot_end").await;
    let first = events.next().await.unwrap();
    let second = events.next().await.unwrap();
    let most = began.elapsed().as_millis();
    for bookmark in [&first, &second] {
        assert_eq!(bookmark.name, "bookmark");
        assert_eq!(bookmark.id.as_deref(), Some(position(bookmark, "position").as_str()));
        let members: Vec<_> = bookmark.data.as_object().unwrap().keys().cloned().collect();
        assert_eq!(members, ["age_ms", "count", "digest", "position", "region"]);
        assert!(u128::from(bookmark.data["age_ms"].as_u64().unwrap()) <= most, "no older than its cell");
        assert_eq!(bookmark.data["count"], 1);
    }
    assert_ne!(first.id, second.id);
}

#[tokio::test]
async fn bookmarks_do_not_multiply_with_the_changes() {
    let cell = Cell::start().await;
    let mut events = Events::of(cell.open("/v1/watch", &[]).await);
    events.until("snapshot_end").await;
    let started = Instant::now();
    let (mut changes, mut bookmarks) = (0, 0);
    for n in 0..60 {
        cell.register_plain(&format!("ops/mail/{n}")).await;
    }
    while changes < 60 {
        let event = events.next().await.unwrap();
        match event.name.as_str() {
            "delta" => changes += event.data["changes"].as_array().unwrap().len(),
            _ => bookmarks += 1,
        }
    }
    let seconds = started.elapsed().as_secs() + 1;
    assert!(bookmarks <= 2 * seconds + 1, "{bookmarks} bookmarks in {seconds} s");
}

#[tokio::test]
async fn a_watch_goes_on_from_a_position_by_parameter_or_header() {
    let cell = Cell::start().await;
    cell.register_plain("ops/mail/1").await;
    let mut events = Events::of(cell.open("/v1/watch", &[]).await);
    let old = events.until("snapshot_end").await.pop().unwrap().id.unwrap();
    cell.register_plain("ops/mail/2").await;
    let known = events.next_news().await.id.unwrap();
    drop(events);
    cell.register_plain("ops/mail/3").await;

    let put = |event: Event| {
        let changes = event.data["changes"].as_array().unwrap().clone();
        let ids: Vec<_> = changes.iter().map(|change| change["put"]["id"].as_str().unwrap()).collect();
        ids.join(" ")
    };
    let mut from_old = Events::of(cell.open(&format!("/v1/watch?since={old}"), &[]).await);
    assert_eq!(put(from_old.next_news().await), "ops/mail/2 ops/mail/3", "what was missed comes together");
    let mut resumed = Events::of(cell.open("/v1/watch", &[("last-event-id", &known)]).await);
    assert_eq!(put(resumed.next_news().await), "ops/mail/3");
    // A browser repeats the address it was given; where it came to is in the header.
    let both = format!("/v1/watch?since={old}");
    let mut resumed = Events::of(cell.open(&both, &[("last-event-id", &known)]).await);
    assert_eq!(put(resumed.next_news().await), "ops/mail/3");
}

#[tokio::test]
async fn a_position_of_another_history_gets_a_resync_and_a_snapshot() {
    let cell = Cell::start().await;
    cell.register_plain("ops/mail/1").await;
    let mut events = Events::of(cell.open("/v1/watch?since=1-another:5", &[]).await);
    let told = events.until("snapshot_end").await;
    let names: Vec<_> = told.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["resync", "snapshot_begin", "put", "snapshot_end"]);
    assert_eq!(told[0].data, json!({"region": "us", "reason": "new_incarnation"}));
    assert_eq!(told[0].id, None);
}

/// B27: a watch from a revision to come was sent old events.
#[tokio::test]
async fn i17_b27_a_position_ahead_of_the_cell_is_told_to_resync_and_sent_nothing_older() {
    let cell = Cell::start().await;
    cell.register_plain("ops/mail/1").await;
    let mut events = Events::of(cell.open("/v1/watch", &[]).await);
    let now = events.until("snapshot_end").await.pop().unwrap().id.unwrap();
    let (incarnation, revision) = now.split_once(':').unwrap();
    let revision: u64 = revision.parse().unwrap();
    // The keeper's beats reach it in some seconds; until then there is nothing to send that is not older.
    let ahead = revision + 4;
    let mut watch = Events::of(cell.open(&format!("/v1/watch?since={incarnation}:{ahead}"), &[]).await);
    let told = watch.until("snapshot_begin").await;
    let said: Vec<_> = told.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(said, ["resync", "snapshot_begin"]);
    assert_eq!(told[0].data, json!({"region": "us", "reason": "behind"}));
    let reached: u64 = told[1].data["position"]["revision"].as_str().unwrap().parse().unwrap();
    assert!(reached >= ahead, "{reached} is older than {ahead}");
}

#[tokio::test]
async fn a_position_that_never_was_gets_a_resync_and_a_snapshot_at_once() {
    let cell = Cell::start().await;
    cell.register_plain("ops/mail/1").await;
    let mut events = Events::of(cell.open("/v1/watch", &[]).await);
    let now = events.until("bookmark").await.pop().unwrap().id.unwrap();
    let (incarnation, _) = now.split_once(':').unwrap();
    let mut watch = Events::of(cell.open(&format!("/v1/watch?since={incarnation}:999999999999"), &[]).await);
    let told = watch.until("snapshot_end").await;
    let names: Vec<_> = told.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["resync", "snapshot_begin", "put", "snapshot_end"]);
    assert_eq!(told[0].data, json!({"region": "us", "reason": "unknown_position"}));
}

#[tokio::test]
async fn a_filtered_watch_has_the_figures_of_the_whole_region() {
    let cell = Cell::start().await;
    let mut body = plain("ops/mail/1");
    body["capabilities"] = json!(["a:b:v1", {"name": "admin:reset:v1", "internal": true}]);
    let epoch = cell.register(&body).await;
    cell.register_plain("ops/mail/2").await;
    let mut events = Events::of(cell.open("/v1/watch?capability=a:b:v1&lifecycle=healthy", &[]).await);
    let snapshot = events.until("snapshot_end").await;
    assert_eq!(snapshot.len(), 3);
    assert_eq!(snapshot[0].data["count"], 2);
    assert_eq!(snapshot[1].data["capabilities"].as_array().unwrap().len(), 1);
    // One that is not asked for says nothing; one that no longer fits is shown a last time.
    cell.register_plain("ops/mail/3").await;
    let path = "/v1/registrations/ops/mail/1";
    cell.fenced("PATCH", path, &epoch, &json!({"lifecycle": "draining"})).await;
    let delta = events.next_news().await;
    assert_eq!(delta.data["changes"].as_array().unwrap().len(), 1);
    assert_eq!(delta.data["changes"][0]["put"]["lifecycle"], "draining");
    let mut shown = Events::of(cell.open("/v1/watch?name=mail&internal=true", &[]).await);
    let snapshot = shown.until("snapshot_end").await;
    assert_eq!(snapshot[1].data["capabilities"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn every_bad_parameter_of_a_watch_is_refused_before_it_opens() {
    let cell = Cell::start().await;
    for (query, code, name) in [
        ("since=5", "invalid_parameter", "since"),
        ("since=", "invalid_parameter", "since"),
        ("since=1-a:5&since=1-a:6", "invalid_parameter", "since"),
        ("region=all&since=1-a:5", "invalid_parameter", "since"),
        ("region=all&since=us@1-a:5,mars@1-a:5", "invalid_parameter", "since"),
        ("since=mars@1-a:5", "invalid_parameter", "since"),
        ("region=mars", "invalid_parameter", "region"),
        ("capability=x", "invalid_capability", "capability"),
        ("limit=5", "unknown_parameter", "limit"),
    ] {
        cell.get(&format!("/v1/watch?{query}")).await.faulty(code, &[name]);
    }
    for (path, id) in [("/v1/watch", "five"), ("/v1/watch", "mars@1-a:5")] {
        let header = [("last-event-id", id)];
        cell.send("GET", path, &header, Vec::new()).await.faulty("invalid_parameter", &["Last-Event-ID"]);
    }
}

#[tokio::test]
async fn watches_end_when_the_process_stops() {
    let cell = Cell::start().await;
    let mut events = Events::of(cell.open("/v1/watch", &[]).await);
    events.until("snapshot_end").await;
    let stragglers = cell.tasks.drain(std::time::Duration::from_secs(10)).await;
    assert_eq!(stragglers, Vec::<&str>::new());
    while let Some(event) = events.next().await {
        assert_eq!(event.name, "bookmark");
    }
}
