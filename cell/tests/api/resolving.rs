//! Resolving over HTTP: whom a caller of this region would call, and in which order.

use std::collections::BTreeMap;

use rollcall_cell::store::embedded::Embedded;
use serde_json::{Value, json};

use super::cell::{Cell, eventually, plain};

/// Cells `us` and `ap`, and cell `eu` that fails over to `us`, then to `ap`, then to `sa`, which nobody serves.
async fn three() -> (Cell, Cell, Cell) {
    let us = Cell::with("us", &[], Embedded::memory().unwrap()).await;
    let ap = Cell::with("ap", &[], Embedded::memory().unwrap()).await;
    us.keeps().await;
    ap.keeps().await;
    let views = [("us", us.grpc_url.as_str()), ("ap", ap.grpc_url.as_str()), ("sa", "http://127.0.0.1:9")];
    let eu = Cell::with("eu", &views, Embedded::memory().unwrap()).await;
    eu.keeps().await;
    (us, ap, eu)
}

async fn agent(cell: &Cell, id: &str, more: Value) {
    let mut body = plain(id);
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    cell.register(&body).await;
}

/// Waits until a cell shows an agent of another region.
async fn seen(cell: &Cell, id: &str, region: &str) {
    let path = format!("/v1/agents/{id}?region={region}");
    eventually(&path, || async { (cell.get(&path).await.status == 200).then_some(()) }).await;
}

async fn resolved(cell: &Cell, query: &str) -> Value {
    let answer = cell.get(&format!("/v1/resolve?{query}")).await;
    assert_eq!(answer.status, 200, "{query}: {}", answer.text);
    answer.json()
}

/// The outcome, and the candidates as `region id`.
async fn found(cell: &Cell, query: &str) -> (String, Vec<String>) {
    let body = resolved(cell, query).await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let candidates = body["candidates"].as_array().unwrap().iter();
    let candidates =
        candidates.map(|candidate| format!("{} {}", text(&candidate["region"]), text(&candidate["id"])));
    (text(&body["outcome"]), candidates.collect())
}

fn answer(outcome: &str, candidates: &[&str]) -> (String, Vec<String>) {
    (outcome.to_owned(), candidates.iter().map(|&candidate| candidate.to_owned()).collect())
}

#[tokio::test]
async fn mrg_05_another_region_answers_when_the_own_one_has_nobody_and_may() {
    let (us, ap, eu) = three().await;
    agent(&us, "ops/mail/us", json!({})).await;
    agent(&ap, "ops/mail/ap", json!({})).await;
    agent(&ap, "ops/cal/ap", json!({})).await;
    agent(&eu, "ops/cal/eu", json!({})).await;
    seen(&eu, "ops/mail/us", "us").await;
    seen(&eu, "ops/cal/ap", "ap").await;

    let own = eventually("the own region is current", || async {
        let own = resolved(&eu, "name=cal").await;
        (own["candidates"][0]["freshness"] == "current").then_some(own)
    })
    .await;
    assert_eq!((&own["outcome"], own["candidates"].as_array().unwrap().len()), (&json!("found"), 1));
    let candidate = &own["candidates"][0];
    assert_eq!((&candidate["id"], &candidate["region"]), (&json!("ops/cal/eu"), &json!("eu")));
    // An agent as everywhere, and how old the statement is.
    assert_eq!(candidate["lifecycle"], "healthy");
    assert!(candidate["age_ms"].as_u64().unwrap() < 3_000, "what is called current: {candidate}");
    let mut alone = candidate.clone();
    for member in ["age_ms", "freshness"] {
        alone.as_object_mut().unwrap().remove(member);
    }
    assert_eq!(eu.get("/v1/agents/ops/cal/eu").await.json(), alone);
    // All regions with their state, in the one order of every answer, whatever the order they are asked in.
    let listed = async |path: &str| {
        let regions = eu.get(path).await.json()["regions"].as_array().unwrap().clone();
        regions.iter().map(|r| r["region"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for path in
        ["/v1/resolve", "/v1/resolve?region=us&failover=sa,ap", "/v1/agents?region=all", "/v1/regions"]
    {
        assert_eq!(listed(path).await, ["eu", "ap", "sa", "us"], "{path}");
    }

    // The configured order of failover, and not the alphabet's.
    assert_eq!(found(&eu, "name=mail").await, answer("found", &["us ops/mail/us"]));
    assert_eq!(found(&eu, "name=mail&failover=true").await, answer("found", &["us ops/mail/us"]));
    assert_eq!(found(&eu, "name=mail&failover=ap,us").await, answer("found", &["ap ops/mail/ap"]));
    assert_eq!(found(&eu, "name=mail&failover=false").await, answer("none", &[]));
    assert_eq!(found(&eu, "name=mail&region=ap").await, answer("found", &["ap ops/mail/ap"]));
    assert_eq!(found(&us, "name=cal").await, answer("none", &[]));
}

#[tokio::test]
async fn residency_forbids_whatever_else_is_said() {
    let (us, _ap, eu) = three().await;
    agent(&us, "ops/mail/us", json!({})).await;
    agent(&eu, "ops/cal/eu", json!({})).await;
    seen(&eu, "ops/mail/us", "us").await;
    assert_eq!(found(&eu, "name=mail&residency=eu,ap").await, answer("none", &[]));
    assert_eq!(found(&eu, "name=mail&residency=ap&failover=us").await, answer("none", &[]));
    assert_eq!(found(&eu, "name=mail&residency=us").await, answer("found", &["us ops/mail/us"]));
    // The own region as well.
    assert_eq!(found(&eu, "name=cal&residency=us,ap").await, answer("none", &[]));
    // One that is not loaded matters only where it may be asked.
    assert_eq!(found(&eu, "name=gone&residency=us").await, answer("none", &[]));
}

#[tokio::test]
async fn nobody_found_where_a_region_was_never_loaded_is_said_so() {
    let (_us, ap, eu) = three().await;
    seen_state(&eu, "us").await;
    seen_state(&eu, "ap").await;
    assert_eq!(found(&eu, "name=mail").await, answer("view_not_loaded", &[]));
    assert_eq!(found(&eu, "name=mail&failover=us,ap").await, answer("none", &[]));
    assert_eq!(found(&eu, "name=mail&failover=sa").await, answer("view_not_loaded", &[]));
    agent(&ap, "ops/mail/ap", json!({})).await;
    seen(&eu, "ops/mail/ap", "ap").await;
    assert_eq!(found(&eu, "name=mail").await, answer("found", &["ap ops/mail/ap"]));
}

async fn seen_state(cell: &Cell, region: &str) {
    eventually("its view is current", || async {
        let regions = cell.get("/v1/regions").await.json();
        let mut regions = regions["regions"].as_array().unwrap().iter();
        regions.any(|r| r["region"] == region && r["state"] == "current").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_bad_question_is_refused_with_the_parameters_name() {
    let cell = Cell::with("us", &[("eu", "http://127.0.0.1:9")], Embedded::memory().unwrap()).await;
    for (query, code, pointers) in [
        ("failover=mars", "invalid_parameter", &["failover"][..]),
        ("residency=us,mars", "invalid_parameter", &["residency"]),
        ("failover=eu,eu", "invalid_parameter", &["failover"]),
        ("region=mars", "invalid_parameter", &["region"]),
        ("policy=fastest", "invalid_parameter", &["policy"]),
        ("policy=sticky", "invalid_parameter", &["affinity_key"]),
        ("policy=sticky&affinity_key=", "invalid_parameter", &["affinity_key"]),
        ("policy=specialist", "invalid_parameter", &["prefer"]),
        ("policy=canary&canary_share=0.1", "invalid_parameter", &["canary_version"]),
        ("policy=canary&canary_version=*&canary_share=2", "invalid_parameter", &["canary_share"]),
        ("canary_version=new", "invalid_parameter", &["canary_version"]),
        ("from_zone=a%20b", "invalid_parameter", &["from_zone"]),
        ("policy=zone&policy=zone", "invalid_parameter", &["policy"]),
        ("limit=0", "invalid_parameter", &["limit"]),
        ("page_token=61", "unknown_parameter", &["page_token"]),
        ("capability=email.send", "invalid_capability", &["capability"]),
        ("what=1", "unknown_parameter", &["what"]),
    ] {
        cell.get(&format!("/v1/resolve?{query}")).await.faulty(code, pointers);
    }
    let refused = cell.get("/v1/resolve?failover=mars").await;
    assert!(refused.text.contains("it serves eu, us"), "{}", refused.text);
    assert_eq!(cell.send("POST", "/v1/resolve", &[], Vec::new()).await.status, 405);
}

#[tokio::test]
async fn each_policy_orders_those_who_may_be_called() {
    let cell = Cell::start().await;
    let capability = |extra: &[&str]| {
        let mut names = vec!["market:research:v1"];
        names.extend(extra);
        json!(names)
    };
    agent(
        &cell,
        "a/b/1",
        json!({"zone": "a", "version": "1.0.0",
        "capabilities": capability(&["x:y:v1", "sector:analysis:v1"])}),
    )
    .await;
    agent(
        &cell,
        "a/b/2",
        json!({"zone": "b", "version": "1.1.0",
        "capabilities": capability(&["sector:analysis:v1"])}),
    )
    .await;
    agent(
        &cell,
        "a/b/3",
        json!({"zone": "c", "version": "2.0.0", "max_concurrency": 4,
        "capabilities": capability(&[])}),
    )
    .await;
    agent(&cell, "a/b/4", json!({"lifecycle": "starting", "capabilities": capability(&[])})).await;
    let order = async |query: &str| {
        let query = format!("capability=market:research:v1&{query}");
        let (outcome, order) = found(&cell, &query).await;
        assert_eq!((outcome.as_str(), order.len()), ("found", 3), "{query}");
        order.into_iter().map(|one| one.rsplit('/').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for (zone, first) in [("a", "1"), ("b", "2"), ("c", "3")] {
        assert_eq!(order(&format!("from_zone={zone}")).await[0], first);
        // Nothing measures in a cell, so that this is the order by zone.
        assert_eq!(order(&format!("policy=latency&from_zone={zone}")).await[0], first);
    }
    let mut led = BTreeMap::new();
    for _ in 0..12 {
        *led.entry(order("policy=round_robin").await.remove(0)).or_insert(0) += 1;
        // Somebody else's question has a round of its own: in one with it, the same would always lead.
        order("policy=round_robin&namespace=a").await;
        order("policy=round_robin&namespace=a").await;
    }
    assert_eq!(led, BTreeMap::from([("1".into(), 4), ("2".into(), 4), ("3".into(), 4)]));
    let special = order("policy=specialist&prefer=sector:analysis:v1,fast").await;
    assert_eq!(special, ["2", "1", "3"]);
    for key in ["alice", "bob", "carol"] {
        let first = order(&format!("policy=sticky&affinity_key={key}")).await;
        assert_eq!(order(&format!("policy=sticky&affinity_key={key}")).await, first);
    }
    let canary = "policy=canary&canary_version=%5E2&canary_share=";
    assert_eq!(order(&format!("{canary}1")).await[0], "3");
    assert_eq!(order(&format!("{canary}0")).await[2], "3");
    // Full: no candidate at all, whatever the policy.
    let epoch = cell.get("/v1/agents/a/b/3").await.json()["epoch"].as_str().unwrap().to_owned();
    let load = json!({"load": {"queue_depth": 0, "in_flight": 4, "error_rate": 0.0}});
    let renewed = cell.fenced("PUT", "/v1/registrations/a/b/3/lease", &epoch, &load).await;
    assert_eq!(renewed.status, 200, "{}", renewed.text);
    eventually("the full one is left out", || async {
        let (_, order) = found(&cell, "name=b&policy=least_loaded").await;
        (order.len() == 2).then_some(())
    })
    .await;
    assert_eq!(resolved(&cell, "name=b&limit=1").await["candidates"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn internal_capabilities_find_nobody_unless_they_are_asked_for() {
    let cell = Cell::start().await;
    agent(&cell, "a/b/1", json!({"capabilities": [{"name": "a:b:v1", "internal": true}]})).await;
    assert_eq!(found(&cell, "capability=a:b:v1").await, answer("none", &[]));
    assert_eq!(found(&cell, "capability=a:b:v1&internal=true").await, answer("found", &["us a/b/1"]));
}

#[tokio::test]
async fn res_08_res_11_a_second_provider_is_found_by_the_same_question_as_long_as_it_serves() {
    let cell = Cell::start().await;
    let sends = "capability=email:send:v1";
    assert_eq!(found(&cell, sends).await, answer("none", &[]));
    let provider = |lifecycle: &str| json!({"capabilities": ["email:send:v1"], "lifecycle": lifecycle});
    agent(&cell, "ops/mail/1", provider("healthy")).await;
    assert_eq!(found(&cell, sends).await, answer("found", &["us ops/mail/1"]));
    // Another team's, under another name, and one that is not there yet.
    let mut other = plain("lab/letters/1");
    other["capabilities"] = json!(["email:send:v1", "paper:send:v1"]);
    let epoch = cell.register(&other).await;
    agent(&cell, "ops/pigeons/1", provider("starting")).await;
    let (outcome, mut both) = found(&cell, sends).await;
    both.sort();
    assert_eq!((outcome, both), answer("found", &["us lab/letters/1", "us ops/mail/1"]));
    let candidates = resolved(&cell, sends).await["candidates"].clone();
    for member in ["id", "endpoints", "capabilities", "epoch", "lifecycle", "age_ms"] {
        assert!(!candidates[0][member].is_null(), "{member}: {candidates}");
    }
    let path = "/v1/registrations/lab/letters/1";
    cell.fenced("PATCH", path, &epoch, &json!({"lifecycle": "draining"})).await;
    assert_eq!(found(&cell, sends).await, answer("found", &["us ops/mail/1"]));
}
