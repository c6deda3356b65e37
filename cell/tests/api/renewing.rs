//! Leases: renewed, shown, renewed in batches.

use std::time::Instant;

use serde_json::{Value, json};

use super::cell::{Cell, eventually, plain};

const LEASE: &str = "/v1/registrations/ops/mail/1/lease";

#[tokio::test]
async fn a_renewal_answers_the_lease() {
    let cell = Cell::start().await;
    let epoch = cell.register_plain("ops/mail/1").await;
    let answer = cell.fenced("PUT", LEASE, &epoch, &Value::Null).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let body = answer.json();
    assert_eq!(body.as_object().unwrap().len(), 3);
    assert_eq!((&body["lease_seconds"], &body["heartbeat_seconds"]), (&json!(30), &json!(10)));
    assert!(body["lease_expires_at"].as_str().unwrap().ends_with('Z'));
    // Some clients name a kind also where they send nothing.
    let tag = format!("\"{epoch}\"");
    let form = [("if-match", tag.as_str()), ("content-type", "application/x-www-form-urlencoded")];
    assert_eq!(cell.send("PUT", LEASE, &form, Vec::new()).await.status, 200);
    cell.send("PUT", LEASE, &form, b"{}".to_vec()).await.refused(415, "unsupported_media_type");
}

#[tokio::test]
async fn what_a_renewal_reports_is_shown_to_readers() {
    let cell = Cell::start().await;
    let epoch = cell.register_plain("ops/mail/1").await;
    let load = json!({"queue_depth": 3, "in_flight": 2, "error_rate": 0.25});
    let said = json!({"load": load, "lifecycle": "degraded"});
    assert_eq!(cell.fenced("PUT", LEASE, &epoch, &said).await.status, 200);
    let agent = cell.get("/v1/agents/ops/mail/1").await.json();
    assert_eq!((&agent["load"], &agent["lifecycle"]), (&load, &json!("degraded")));
    assert_eq!(agent["epoch"], epoch.as_str(), "a report does not move the epoch");
}

#[tokio::test]
async fn every_refusal_of_a_renewal_has_its_code() {
    let cell = Cell::start().await;
    let epoch = cell.register_plain("ops/mail/1").await;
    cell.send("PUT", LEASE, &[], Vec::new()).await.refused(428, "epoch_required");
    for tag in ["", "7", "*", "W/\"7\"", "\"7\", \"8\"", "\"x\"", "\"-1\""] {
        cell.send("PUT", LEASE, &[("if-match", tag)], Vec::new()).await.refused(400, "invalid_epoch");
    }
    let twice = [("if-match", "\"7\""), ("if-match", "\"7\"")];
    cell.send("PUT", LEASE, &twice, Vec::new()).await.refused(400, "invalid_epoch");
    let other = "/v1/registrations/ops/mail/2/lease";
    cell.fenced("PUT", other, &epoch, &Value::Null).await.refused(404, "not_registered");
    for path in [
        "/v1/registrations/Ops/mail/1/lease",
        "/v1/registrations/ops/mail/%00/lease",
        "/v1/registrations/ops/mail/%FF/lease",
        "/v1/registrations/ops/mail/a%2Fb/lease",
    ] {
        cell.fenced("PUT", path, &epoch, &Value::Null).await.refused(400, "invalid_id");
    }
    cell.fenced("PUT", LEASE, &epoch, &json!({"load": {"x": 1}}))
        .await
        .faulty("unknown_member", &["/load/x"]);
    cell.fenced("PUT", LEASE, &epoch, &json!({"lifecycle": "x"}))
        .await
        .faulty("invalid_body", &["/lifecycle"]);
    let holder = format!("{LEASE}?holder=");
    cell.fenced("PUT", &holder, &epoch, &Value::Null).await.faulty("invalid_parameter", &["holder"]);
    let what = format!("{LEASE}?what=1");
    cell.fenced("PUT", &what, &epoch, &Value::Null).await.faulty("unknown_parameter", &["what"]);
}

#[tokio::test]
async fn an_older_epoch_loses_and_is_told_who_won() {
    let cell = Cell::start().await;
    let old = cell.register_plain("ops/mail/1").await;
    let mut successor = plain("ops/mail/1");
    successor["endpoints"] = json!([{"url": "http://127.0.0.1:10/"}]);
    let new = cell.register(&successor).await;
    let expected = json!({"epoch": new, "endpoint": "http://127.0.0.1:10/"});
    for (method, path, body) in [
        ("PUT", LEASE, Value::Null),
        ("PATCH", "/v1/registrations/ops/mail/1", json!({"lifecycle": "draining"})),
        ("DELETE", "/v1/registrations/ops/mail/1", Value::Null),
    ] {
        let problem = cell.fenced(method, path, &old, &body).await.refused(412, "superseded");
        assert_eq!(problem["current"], expected, "{method}");
    }
    assert_eq!(cell.fenced("PUT", LEASE, &new, &Value::Null).await.status, 200);
    assert_eq!(cell.get("/v1/agents/ops/mail/1").await.json()["lifecycle"], "healthy");
}

#[tokio::test]
async fn an_epoch_that_was_never_issued_is_waited_for_and_then_loses() {
    let cell = Cell::start().await;
    let epoch: u64 = cell.register_plain("ops/mail/1").await.parse().unwrap();
    let ahead = (epoch + 1_000_000).to_string();
    // An epoch of the next incarnation waits as well: this cell may be the last to hear of it.
    let next = (epoch + (1 << 40)).to_string();
    for (method, path, body) in [
        ("PUT", LEASE, Value::Null),
        ("PATCH", "/v1/registrations/ops/mail/1", json!({"lifecycle": "draining"})),
        ("DELETE", "/v1/registrations/ops/mail/1", Value::Null),
    ] {
        for ahead in [&ahead, &next] {
            let started = Instant::now();
            let problem = cell.fenced(method, path, ahead, &body).await.refused(412, "superseded");
            assert_eq!(problem["current"]["epoch"], epoch.to_string());
            let detail = format!("epoch {ahead} was never issued for this instance: {epoch} holds it");
            assert_eq!(problem["detail"], detail);
            assert!(started.elapsed().as_millis() >= 900, "{method} did not wait");
        }
    }
    for beyond in ["4503599627370496", "18446744073709551615", "99999999999999999999999"] {
        cell.fenced("PUT", LEASE, beyond, &Value::Null).await.faulty("invalid_epoch", &[""]);
    }
    let nobody = "/v1/registrations/ops/mail/2/lease";
    cell.fenced("PUT", nobody, &ahead, &Value::Null).await.refused(404, "not_registered");
}

#[tokio::test]
async fn a_lease_is_shown_as_its_keeper_sees_it() {
    let cell = Cell::start().await;
    let epoch = cell.register_plain("ops/mail/1").await;
    let lease = eventually("the keeper knows the lease", || async {
        let answer = cell.get(LEASE).await;
        (answer.status == 200).then(|| answer.json())
    })
    .await;
    let at = |member: &str| lease[member].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert_eq!(at("lease_expires_at").duration_since(at("last_renewal_at")).as_millis(), 30_000);
    let mut rest = lease.clone();
    for time in ["lease_expires_at", "last_renewal_at"] {
        rest.as_object_mut().unwrap().remove(time);
    }
    let expected = json!({"id": "ops/mail/1", "epoch": epoch, "state": "live", "lease_seconds": 30, "missed": 0,
        "holders": null});
    assert_eq!(rest, expected);
    cell.get("/v1/registrations/ops/mail/2/lease").await.refused(404, "not_registered");
    cell.get(&format!("{LEASE}?holder=h")).await.faulty("unknown_parameter", &["holder"]);
}

#[tokio::test]
async fn a_batch_is_answered_in_its_order() {
    let cell = Cell::start().await;
    let lost = cell.register_plain("ops/mail/1").await;
    let won = cell.register_plain("ops/mail/1").await;
    let other = cell.register_plain("ops/mail/2").await;
    let batch = json!({"renewals": [
        {"id": "ops/mail/2", "epoch": other, "lifecycle": "degraded", "load": {"queue_depth": 1, "in_flight": 0, "error_rate": 0}},
        {"id": "ops/mail/1", "epoch": lost},
        {"id": "ops/mail/3", "epoch": other},
        {"id": "ops/mail/1", "epoch": won},
    ]});
    let answer = cell.post("/v1/renewals", &batch).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let mut body = answer.json();
    for at in [0, 3] {
        assert!(body["results"][at]["lease_expires_at"].take().is_string());
    }
    let current = json!({"epoch": won, "endpoint": "http://127.0.0.1:9/"});
    let expected = json!({"results": [
        {"id": "ops/mail/2", "status": "ok", "lease_expires_at": null, "current": null},
        {"id": "ops/mail/1", "status": "superseded", "lease_expires_at": null, "current": current},
        {"id": "ops/mail/3", "status": "not_registered", "lease_expires_at": null, "current": null},
        {"id": "ops/mail/1", "status": "ok", "lease_expires_at": null, "current": null},
    ]});
    assert_eq!(body, expected);
    assert_eq!(cell.get("/v1/agents/ops/mail/2").await.json()["lifecycle"], "degraded");
    assert_eq!(cell.post("/v1/renewals", &json!({"renewals": []})).await.json(), json!({"results": []}));
}

#[tokio::test]
async fn a_malformed_item_refuses_the_whole_batch() {
    let cell = Cell::start().await;
    let epoch = cell.register_plain("ops/mail/1").await;
    let good = json!({"id": "ops/mail/1", "epoch": epoch, "lifecycle": "draining"});
    let bad = json!({"renewals": [good, {"id": "ops/mail/1", "epoch": 7}]});
    cell.post("/v1/renewals", &bad).await.faulty("invalid_body", &["/renewals/1/epoch"]);
    assert_eq!(cell.get("/v1/agents/ops/mail/1").await.json()["lifecycle"], "healthy");
    let many = json!({"renewals": vec![json!({"id": "ops/mail/1", "epoch": "7"}); 1_001]});
    cell.post("/v1/renewals", &many).await.faulty("invalid_body", &["/renewals"]);
    let thousand = json!({"renewals": vec![json!({"id": "ops/mail/1", "epoch": epoch}); 1_000]});
    let answer = cell.post("/v1/renewals", &thousand).await;
    assert_eq!((answer.status, answer.json()["results"].as_array().unwrap().len()), (200, 1_000));
    cell.post("/v1/renewals", &json!({})).await.faulty("invalid_body", &["/renewals"]);
    cell.post("/v1/renewals", &json!({"renewals": [], "x": 1})).await.faulty("unknown_member", &["/x"]);
    cell.post("/v1/renewals?what=1", &json!({"renewals": []})).await.faulty("unknown_parameter", &["what"]);
}

#[tokio::test]
async fn a_lease_that_is_not_renewed_becomes_suspect_and_its_end_is_told() {
    let cell = Cell::start().await;
    let mut body = plain("ops/mail/1");
    body["lease_seconds"] = json!(5);
    let epoch = cell.register(&body).await;
    let lease = eventually("a suspect", || async {
        let lease = cell.get(LEASE).await.json();
        (lease["state"] == "suspect").then_some(lease)
    })
    .await;
    assert!(lease["missed"].as_u64().unwrap() >= 1, "{lease}");
    let removal = eventually("the removal", || async {
        let body = cell.get("/v1/removals?id=ops/mail/1").await.json();
        body["removals"].get(0).cloned()
    })
    .await;
    assert_eq!(
        (&removal["reason"], &removal["actor"], &removal["epoch"]),
        (&json!("expired"), &json!("keeper"), &json!(epoch))
    );
    cell.get("/v1/agents/ops/mail/1").await.refused(404, "not_found");
    cell.fenced("PUT", LEASE, &epoch, &Value::Null).await.refused(404, "not_registered");
}
