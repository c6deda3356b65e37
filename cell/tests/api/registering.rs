//! `POST /v1/registrations`.

use serde_json::{Value, json};

use super::cell::{Cell, eventually, plain};

fn members(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test]
async fn a_registration_is_answered_with_epoch_lease_and_position() {
    let cell = Cell::start().await;
    let answer = cell.post("/v1/registrations", &plain("ops/mail/1")).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let body = answer.json();
    assert_eq!(
        members(&body),
        ["epoch", "heartbeat_seconds", "id", "lease_expires_at", "lease_seconds", "position", "region"]
    );
    assert_eq!((&body["id"], &body["region"]), (&json!("ops/mail/1"), &json!("us")));
    assert_eq!((&body["lease_seconds"], &body["heartbeat_seconds"]), (&json!(30), &json!(10)));
    let epoch = body["epoch"].as_str().unwrap();
    assert_eq!(answer.header("etag").unwrap(), format!("\"{epoch}\""));
    assert!(body["position"]["revision"].is_string() && body["position"]["incarnation"].is_string());
    let until: jiff::Timestamp = body["lease_expires_at"].as_str().unwrap().parse().unwrap();
    let left = until.duration_since(jiff::Timestamp::now()).as_secs();
    assert!((20..=30).contains(&left), "{left}");
}

#[tokio::test]
async fn a_lease_of_five_seconds_beats_every_third_of_it() {
    let cell = Cell::start().await;
    let mut body = plain("ops/mail/1");
    body["lease_seconds"] = json!(5);
    let answer = cell.post("/v1/registrations", &body).await.json();
    assert_eq!((&answer["lease_seconds"], &answer["heartbeat_seconds"]), (&json!(5), &json!(1.666)));
}

#[tokio::test]
async fn lea_09_lea_22_a_longer_lease_stretches_the_beat_to_a_third_of_it() {
    let cell = Cell::start().await;
    for (lease, beat) in [(15, 5.0), (20, 6.666), (45, 15.0), (60, 20.0), (300, 100.0)] {
        let mut body = plain("ops/mail/1");
        body["lease_seconds"] = json!(lease);
        let answer = cell.post("/v1/registrations", &body).await.json();
        let told = (answer["lease_seconds"].as_u64(), answer["heartbeat_seconds"].as_f64());
        assert_eq!(told, (Some(lease), Some(beat)));
    }
}

#[tokio::test]
async fn mod_19_version_lifecycle_last_heartbeat_and_ttl_are_data() {
    let cell = Cell::start().await;
    let card = json!({"name": "Market", "skills": [{"id": "analysis", "name": "Analysis"}]});
    let body = json!({"id": "fin/market/v2-eastus", "endpoints": [{"url": "http://h:1/"}], "card": card,
                      "lease_seconds": 300});
    let epoch = cell.register(&body).await;
    let agent = cell.get("/v1/agents/fin/market/v2-eastus").await.json();
    assert_eq!((&agent["version"], &agent["lifecycle"]), (&json!("1.0.0"), &json!("healthy")));
    assert_eq!(agent["skills"][0]["name"], "Analysis");
    let found = cell.get("/v1/agents?version=%5E1").await.json();
    assert_eq!(
        found["agents"][0]["id"], "fin/market/v2-eastus",
        "a version that nobody named is one to ask for"
    );
    let path = "/v1/registrations/fin/market/v2-eastus/lease";
    let lease = async || cell.get(path).await.json();
    let heard =
        async || lease().await["last_renewal_at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let before = heard().await;
    assert_eq!(lease().await["lease_seconds"], 300);
    eventually("a renewal moves the last heartbeat", || async {
        assert_eq!(cell.fenced("PUT", path, &epoch, &Value::Null).await.status, 200);
        (heard().await > before).then_some(())
    })
    .await;
}

#[tokio::test]
async fn hlt_08_an_instance_that_restarts_at_another_address_leaves_the_old_one_nowhere() {
    let cell = Cell::start().await;
    let at = |address: &str| json!({"id": "ops/mail/pod-1", "endpoints": [{"url": address}]});
    let old = cell.register(&at("http://10.0.0.1:8080/")).await;
    cell.register(&at("http://10.0.0.2:8080/")).await;
    for path in ["/v1/agents", "/v1/agents/ops/mail/pod-1", "/v1/resolve?name=mail"] {
        let text = cell.get(path).await.text;
        assert!(text.contains("10.0.0.2") && !text.contains("10.0.0.1"), "{path}: {text}");
    }
    let path = "/v1/registrations/ops/mail/pod-1";
    let refused = cell.fenced("PUT", &format!("{path}/lease"), &old, &Value::Null).await;
    let problem = refused.refused(412, "superseded");
    assert_eq!(problem["current"]["endpoint"], "http://10.0.0.2:8080/");
    cell.fenced("DELETE", path, &old, &Value::Null).await.refused(412, "superseded");
    assert_eq!(cell.get("/v1/agents/ops/mail/pod-1").await.status, 200, "its late end takes nothing with it");
}

#[tokio::test]
async fn scn_06_each_reason_why_a_registered_agent_is_not_found_is_told_to_its_owner() {
    let cell = Cell::start().await;
    // Near-misses of the grammar stay out, so that none of them is registered and never found.
    for capability in ["email/send", "email.send", "email_send", "email:send:1", "Email:send:v1"] {
        let mut body = plain("ops/mail/1");
        body["capabilities"] = json!([capability]);
        cell.post("/v1/registrations", &body).await.faulty("invalid_capability", &["/capabilities/0"]);
    }
    // An owner that beats under another id than it registered hears of it with its first beat.
    let epoch = cell.register_plain("ops/mail/1").await;
    for id in ["ops/mail/2", "ops/mail-x/1", "prod/mail/1"] {
        let path = format!("/v1/registrations/{id}/lease");
        cell.fenced("PUT", &path, &epoch, &Value::Null).await.refused(404, "not_registered");
    }
    for id in ["ops/mail", "Ops/mail/1", "ops/mail/1/", "ops/mail/1%20"] {
        let path = format!("/v1/registrations/{id}/lease");
        let answer = cell.fenced("PUT", &path, &epoch, &Value::Null).await;
        assert!(matches!(answer.status, 400 | 404 | 405), "{id}: {}", answer.text);
    }
    // One that says of itself that it takes nothing is listed, with the word, and no candidate.
    let path = "/v1/registrations/ops/mail/1";
    for lifecycle in ["starting", "draining", "offline"] {
        let told = cell.fenced("PATCH", path, &epoch, &json!({"lifecycle": lifecycle})).await;
        assert_eq!(told.status, 200, "{}", told.text);
        assert_eq!(cell.get("/v1/agents?name=mail").await.json()["agents"][0]["lifecycle"], lifecycle);
        assert_eq!(cell.get("/v1/resolve?name=mail").await.json()["candidates"], json!([]), "{lifecycle}");
    }
}

#[tokio::test]
async fn an_id_of_two_parts_gets_its_instance_from_the_server() {
    let cell = Cell::start().await;
    let first = cell.post("/v1/registrations", &plain("ops/mail")).await.json();
    let second = cell.post("/v1/registrations", &plain("ops/mail")).await.json();
    let id = first["id"].as_str().unwrap();
    assert!(id.starts_with("ops/mail/") && id.len() > "ops/mail/".len(), "{id}");
    assert_ne!(first["id"], second["id"]);
    assert_eq!(cell.get(&format!("/v1/agents/{id}")).await.status, 200);
}

#[tokio::test]
async fn each_registration_of_an_instance_has_a_higher_epoch() {
    let cell = Cell::start().await;
    let mut last = 0;
    for _ in 0..5 {
        let epoch: u64 = cell.register_plain("ops/mail/1").await.parse().unwrap();
        assert!(epoch > last);
        last = epoch;
    }
}

#[tokio::test]
async fn a_whole_registration_is_shown_as_it_was_declared() {
    let cell = Cell::start().await;
    let epoch = cell
        .register(&json!({
            "id": "ops/email_agent/a1b2c3", "kind": "tool", "scope": "instance", "lifecycle": "starting",
            "endpoints": [{"url": "http://10.20.30.40:8080/callback", "protocol": "http"}, {"url": "kafka://mail.in"}],
            "capabilities": ["email:send:v1", {"name": "template:render:v2", "description": "renders",
                "input_types": ["json"], "output_types": ["text"], "input_summary": "a", "output_summary": "b",
                "schema_url": "http://h/s", "tags": ["fast"], "internal": false}],
            "version": "2.3.1", "zone": "a", "weight": 50, "max_concurrency": 8, "max_queue": 2,
            "metadata": {"preferred_queue": "high_priority"}, "lease_seconds": 60,
            "card": {"name": "Mail", "skills": [{"id": "write", "name": "Write", "tags": ["text"]}]},
        }))
        .await;
    let mut agent = cell.get("/v1/agents/ops/email_agent/a1b2c3").await.json();
    let object = agent.as_object_mut().unwrap();
    for text in ["card_digest", "registered_at", "revision"] {
        assert!(object.remove(text).unwrap().is_string(), "{text}");
    }
    let plain = |name: &str| {
        json!({"name": name, "description": null, "input_types": [], "output_types": [], "input_summary": null,
               "output_summary": null, "schema_url": null, "tags": [], "internal": false})
    };
    let expected = json!({
        "id": "ops/email_agent/a1b2c3", "region": "us", "zone": "a", "kind": "tool", "scope": "instance",
        "epoch": epoch,
        "endpoints": [{"url": "http://10.20.30.40:8080/callback", "protocol": "http"},
                      {"url": "kafka://mail.in", "protocol": null}],
        "capabilities": [plain("email:send:v1"), {"name": "template:render:v2", "description": "renders",
            "input_types": ["json"], "output_types": ["text"], "input_summary": "a", "output_summary": "b",
            "schema_url": "http://h/s", "tags": ["fast"], "internal": false}],
        "skills": [{"id": "write", "name": "Write", "tags": ["text"]}],
        "version": "2.3.1", "weight": 50, "max_concurrency": 8, "max_queue": 2,
        "metadata": {"preferred_queue": "high_priority"}, "lifecycle": "starting", "load": null, "overdue": false,
    });
    assert_eq!(agent, expected);
}

#[tokio::test]
async fn what_is_wrong_in_a_body_has_its_code_and_place() {
    let cell = Cell::start().await;
    let with = |member: &str, value: Value| {
        let mut body = plain("a/b/c");
        body[member] = value;
        body
    };
    for (body, code, pointer) in [
        (json!([]), "invalid_body", ""),
        (json!({"endpoints": [{"url": "http://h/"}]}), "invalid_body", "/id"),
        (with("id", json!("A/b/c")), "invalid_id", "/id"),
        (with("id", json!("a/b/c/d")), "invalid_id", "/id"),
        (with("id", json!(7)), "invalid_body", "/id"),
        (json!({"id": "a/b/c"}), "invalid_body", "/endpoints"),
        (with("endpoints", json!([{"url": "http://0.0.0.0/"}])), "invalid_endpoint", "/endpoints/0/url"),
        (with("endpoints", json!([{"url": "ftp://h/"}])), "invalid_endpoint", "/endpoints/0/url"),
        (with("capabilities", json!(["email.send"])), "invalid_capability", "/capabilities/0"),
        (with("epoch", json!("1")), "unknown_member", "/epoch"),
        (with("lease_expires_at", json!("2030")), "unknown_member", "/lease_expires_at"),
        (with("lease_seconds", json!(4)), "invalid_body", "/lease_seconds"),
        (with("lease_seconds", json!(301)), "invalid_body", "/lease_seconds"),
        (with("kind", json!("robot")), "invalid_body", "/kind"),
        (with("zone", json!(1)), "invalid_body", "/zone"),
        (with("metadata", json!({"k": 1})), "invalid_body", "/metadata/k"),
        (with("card", json!({})), "invalid_card", "/card/name"),
        (with("scope", json!("fleet")), "invalid_body", "/scope"),
        (with("holder", json!("pod-1")), "invalid_body", "/holder"),
    ] {
        cell.post("/v1/registrations", &body).await.faulty(code, &[pointer]);
    }
    let json = [("content-type", "application/json")];
    cell.send("POST", "/v1/registrations", &json, b"{".to_vec()).await.refused(400, "invalid_json");
    cell.send("POST", "/v1/registrations", &[], Vec::new()).await.refused(400, "invalid_json");
    let body = json!({"id": 1, "zone": 2, "what": 3, "endpoints": [{"url": "ftp://h/"}], "lease_seconds": 4});
    let pointers = ["/id", "/zone", "/what", "/endpoints/0/url", "/lease_seconds"];
    cell.post("/v1/registrations", &body).await.faulty("invalid_body", &pointers);
    assert_eq!(cell.get("/v1/agents").await.json()["agents"], json!([]));
}

#[tokio::test]
async fn a_body_over_its_limit_is_too_large_however_large_it_is() {
    let cell = Cell::start().await;
    let json = [("content-type", "application/json")];
    for bytes in [256 * 1024 + 1, 2 * 1024 * 1024, 32 * 1024 * 1024] {
        let answer = cell.send("POST", "/v1/registrations", &json, vec![b' '; bytes]).await;
        answer.refused(413, "too_large");
    }
    let mut full = plain("a/b/c").to_string().into_bytes();
    full.resize(256 * 1024, b' ');
    assert_eq!(cell.send("POST", "/v1/registrations", &json, full).await.status, 201);
}

#[tokio::test]
async fn only_json_is_taken() {
    let cell = Cell::start().await;
    let body = plain("a/b/c").to_string().into_bytes();
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/merge-patch+json", ""] {
        let answer = cell.send("POST", "/v1/registrations", &[("content-type", kind)], body.clone()).await;
        answer.refused(415, "unsupported_media_type");
    }
    cell.send("POST", "/v1/registrations", &[], body.clone()).await.refused(415, "unsupported_media_type");
    let charset = [("content-type", "Application/JSON; charset=utf-8")];
    assert_eq!(cell.send("POST", "/v1/registrations", &charset, body).await.status, 201);
}
