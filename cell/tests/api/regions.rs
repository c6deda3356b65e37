//! Several regions at one address.

use rollcall_cell::store::embedded::Embedded;
use serde_json::{Value, json};

use super::cell::{Cell, eventually};
use super::events::Events;

/// Cell `us`, and cell `eu` that follows it and a region `ap` which nobody serves.
async fn pair() -> (Cell, Cell) {
    let us = Cell::start().await;
    let views = [("us", us.grpc_url.as_str()), ("ap", "http://127.0.0.1:9")];
    let eu = Cell::with("eu", &views, Embedded::memory().unwrap()).await;
    eu.keeps().await;
    (us, eu)
}

async fn seen(cell: &Cell, path: &str) -> Value {
    eventually(path, || async {
        let answer = cell.get(path).await;
        (answer.status == 200).then(|| answer.json())
    })
    .await
}

#[tokio::test]
async fn regions_are_shown_with_role_state_and_age() {
    let (us, eu) = pair().await;
    us.register_plain("ops/mail/1").await;
    seen(&eu, "/v1/agents/ops/mail/1?region=us").await;
    let body = eventually("the other region is current", || async {
        let body = eu.get("/v1/regions").await.json();
        (body["regions"][2]["state"] == "current").then_some(body)
    })
    .await;
    let regions = body["regions"].as_array().unwrap();
    let shown: Vec<_> =
        regions.iter().map(|r| (r["region"].as_str().unwrap(), r["role"].as_str().unwrap())).collect();
    assert_eq!(shown, [("eu", "own"), ("ap", "view"), ("us", "view")]);
    let expected = json!({"region": "ap", "role": "view", "state": "not_loaded", "age_ms": null, "position": null,
        "count": null, "digest": null, "last_resync": null});
    assert_eq!(regions[1], expected);
    let of_us = &regions[2];
    assert_eq!(of_us["count"], 1);
    assert!(of_us["age_ms"].as_u64().unwrap() < 3_000, "what is called current: {body}");
    assert_eq!(of_us["digest"].as_str().unwrap().len(), 32);
    let own = us.get("/v1/regions").await.json();
    assert_eq!(own["regions"][0]["digest"], of_us["digest"]);
    assert_eq!(own["regions"][0]["position"]["incarnation"], of_us["position"]["incarnation"]);
    eu.get("/v1/regions?region=us").await.faulty("unknown_parameter", &["region"]);
}

#[tokio::test]
async fn a_list_of_all_regions_begins_with_the_own_one_and_is_paged_across() {
    let (us, eu) = pair().await;
    for n in 0..2 {
        us.register_plain(&format!("ops/mail/{n}")).await;
        eu.register_plain(&format!("ops/mail/{n}")).await;
    }
    seen(&eu, "/v1/agents/ops/mail/1?region=us").await;
    let mut shown = Vec::new();
    let mut token = String::new();
    loop {
        let page = eu.get(&format!("/v1/agents?region=all&limit=1{token}")).await.json();
        for agent in page["agents"].as_array().unwrap() {
            shown.push(format!("{} {}", agent["region"].as_str().unwrap(), agent["id"].as_str().unwrap()));
        }
        let states: Vec<_> =
            page["regions"].as_array().unwrap().iter().map(|r| r["region"].clone()).collect();
        assert_eq!(states, ["eu", "ap", "us"]);
        match page["next_page_token"].as_str() {
            Some(next) => token = format!("&page_token={next}"),
            None => break,
        }
    }
    assert_eq!(shown, ["eu ops/mail/0", "eu ops/mail/1", "us ops/mail/0", "us ops/mail/1"]);
    let of_us = eu.get("/v1/agents?region=us&limit=1").await.json();
    let token = of_us["next_page_token"].as_str().unwrap();
    eu.get(&format!("/v1/agents?region=own&page_token={token}"))
        .await
        .faulty("invalid_parameter", &["page_token"]);
}

#[tokio::test]
async fn a_region_that_was_never_loaded_is_not_empty() {
    let (_us, eu) = pair().await;
    let list = eu.get("/v1/agents?region=ap").await;
    assert_eq!((list.status, &list.json()["agents"]), (200, &json!([])));
    assert_eq!(list.json()["regions"][0]["state"], "not_loaded");
    eu.get("/v1/agents/ops/mail/1?region=ap").await.refused(503, "view_not_loaded");
    eu.get("/v1/agents/ops/mail/1?region=all").await.refused(503, "view_not_loaded");
    eu.get("/v1/agents/ops/mail/1").await.refused(404, "not_found");
    eu.get("/v1/agents/ops/mail/.well-known/agent-card.json").await.refused(503, "view_not_loaded");
}

#[tokio::test]
async fn a_watch_of_a_region_that_was_never_loaded_opens_at_once_and_says_what_it_waits_for() {
    let (_us, eu) = pair().await;
    let mut watch = eu.open("/v1/watch?region=ap", &[]).await;
    assert_eq!(
        (watch.status().as_u16(), &watch.headers()["content-type"]),
        (200, &"text/event-stream".parse().unwrap())
    );
    let first = watch.chunk().await.unwrap().unwrap();
    assert_eq!(first, ": waiting for ap, never loaded here so far\n\n");
}

#[tokio::test]
async fn a_source_that_has_no_state_is_left_for_another_one_that_has() {
    let us = Cell::start().await;
    // It serves us, and has never heard of it.
    let empty = Cell::with("ap", &[("us", "http://127.0.0.1:9")], Embedded::memory().unwrap()).await;
    us.register_plain("ops/mail/1").await;
    let sources = format!("{},{}", empty.grpc_url, us.grpc_url);
    let eu = Cell::with("eu", &[("us", &sources)], Embedded::memory().unwrap()).await;
    seen(&eu, "/v1/agents/ops/mail/1?region=us").await;
}

#[tokio::test]
async fn removals_of_other_regions_are_told_too() {
    let (us, eu) = pair().await;
    let epoch = us.register_plain("ops/mail/1").await;
    seen(&eu, "/v1/agents/ops/mail/1?region=us").await;
    us.fenced("DELETE", "/v1/registrations/ops/mail/1", &epoch, &Value::Null).await;
    let told = eventually("the removal", || async {
        let body = eu.get("/v1/removals").await.json();
        body["removals"].get(0).cloned()
    })
    .await;
    assert_eq!(
        (&told["region"], &told["epoch"], &told["reason"]),
        (&json!("us"), &json!(epoch), &json!("deregistered"))
    );
}

#[tokio::test]
async fn a_watch_of_all_regions_goes_on_in_each_where_it_was() {
    let (us, eu) = pair().await;
    us.register_plain("ops/mail/1").await;
    seen(&eu, "/v1/agents/ops/mail/1?region=us").await;
    let mut events = Events::of(eu.open("/v1/watch?region=all", &[]).await);
    let mut whole = Vec::new();
    let mut id = String::new();
    while whole.len() < 2 {
        let event = events.next().await.unwrap();
        if event.name == "snapshot_end" {
            whole.push(event.data["region"].as_str().unwrap().to_owned());
            id = event.id.unwrap();
        }
    }
    whole.sort();
    assert_eq!(whole, ["eu", "us"]);
    let places: Vec<_> = id.split(',').map(|place| place.split_once('@').unwrap().0).collect();
    assert_eq!(places, ["eu", "us"], "{id}");
    drop(events);
    us.register_plain("ops/mail/2").await;
    eu.register_plain("ops/mail/3").await;
    seen(&eu, "/v1/agents/ops/mail/2?region=us").await;
    let mut events = Events::of(eu.open("/v1/watch?region=all", &[("last-event-id", &id)]).await);
    let mut news = Vec::new();
    while news.len() < 2 {
        let event = events.next_news().await;
        assert_eq!(event.name, "delta", "{event:?}");
        assert_eq!(event.id.unwrap().matches('@').count(), 2);
        news.push(event.data["changes"][0]["put"]["id"].as_str().unwrap().to_owned());
    }
    news.sort();
    assert_eq!(news, ["ops/mail/2", "ops/mail/3"]);
}

/// A region that is taken out of a cell is no reason for its browsers to lose the others.
#[tokio::test]
async fn i38_a_watch_of_all_regions_goes_on_after_one_was_taken_out_which_counts_no_longer() {
    let us = Cell::start().await;
    us.register_plain("ops/mail/1").await;
    let mut events = Events::of(us.open("/v1/watch?region=all", &[]).await);
    let id = events.until("snapshot_end").await.pop().unwrap().id.unwrap();
    drop(events);
    us.register_plain("ops/mail/2").await;
    let id = format!("{id},eu-west@1-abc:5");
    let mut events = Events::of(us.open("/v1/watch?region=all", &[("last-event-id", &id)]).await);
    let gone = events.next_news().await;
    assert_eq!(
        (gone.name.as_str(), &gone.data),
        ("resync", &json!({"region": "eu-west", "reason": "not_served"}))
    );
    let news = events.next_news().await;
    assert_eq!(news.data["changes"][0]["put"]["id"], "ops/mail/2");
    assert!(!news.id.unwrap().contains("eu-west"), "the next id is of what is served");
}

#[tokio::test]
async fn a_watch_of_a_view_that_was_never_loaded_opens_and_waits() {
    let us = Cell::start().await;
    // Nobody listens there until the test does.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let source = format!("http://{}", listener.local_addr().unwrap());
    let eu = Cell::with("eu", &[("us", source.as_str())], Embedded::memory().unwrap()).await;
    let mut events = Events::of(eu.open("/v1/watch?region=us", &[]).await);
    us.register_plain("ops/mail/1").await;
    let to = us.grpc_url.trim_start_matches("http://").to_owned();
    listener.set_nonblocking(true).unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    tokio::spawn(async move {
        while let Ok((mut from, _)) = listener.accept().await {
            let mut to = tokio::net::TcpStream::connect(&to).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut from, &mut to).await });
        }
    });
    let names: Vec<_> = events.until("snapshot_end").await.into_iter().map(|event| event.name).collect();
    assert_eq!(names, ["snapshot_begin", "put", "snapshot_end"]);
}
