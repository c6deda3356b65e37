//! `PATCH` and `DELETE`, and what is told about removals.

use serde_json::{Value, json};

use super::cell::{Cell, plain};

const MAIL: &str = "/v1/registrations/ops/mail/1";

#[tokio::test]
async fn a_patch_merges_metadata_and_answers_the_agent() {
    let cell = Cell::start().await;
    let mut body = plain("ops/mail/1");
    body["metadata"] = json!({"keep": "1", "drop": "2", "change": "3"});
    let epoch = cell.register(&body).await;
    let patch = json!({"metadata": {"drop": null, "change": "4", "add": "5", "never": null}, "lifecycle": "draining"});
    let answer = cell.fenced("PATCH", MAIL, &epoch, &patch).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let agent = answer.json();
    assert_eq!(agent["metadata"], json!({"keep": "1", "change": "4", "add": "5"}));
    assert_eq!((&agent["lifecycle"], &agent["epoch"]), (&json!("draining"), &json!(epoch)));
    assert_eq!(cell.get("/v1/agents/ops/mail/1").await.json(), agent, "an owner reads its own write");
    let tag = format!("\"{epoch}\"");
    let merge = [("if-match", tag.as_str()), ("content-type", "application/merge-patch+json")];
    let answer = cell.send("PATCH", MAIL, &merge, br#"{"metadata":{"add":null}}"#.to_vec()).await;
    assert_eq!(answer.json()["metadata"], json!({"keep": "1", "change": "4"}));
}

#[tokio::test]
async fn every_refusal_of_a_patch_has_its_code() {
    let cell = Cell::start().await;
    let epoch = cell.register_plain("ops/mail/1").await;
    let json = [("content-type", "application/json")];
    let calm = json!({"lifecycle": "healthy"});
    cell.send("PATCH", MAIL, &json, calm.to_string().into_bytes()).await.refused(428, "epoch_required");
    cell.fenced("PATCH", MAIL, "x", &calm).await.refused(400, "invalid_epoch");
    cell.fenced("PATCH", "/v1/registrations/ops/mail/2", &epoch, &calm).await.refused(404, "not_registered");
    let tag = format!("\"{epoch}\"");
    let text = [("if-match", tag.as_str()), ("content-type", "text/plain")];
    cell.send("PATCH", MAIL, &text, b"{}".to_vec()).await.refused(415, "unsupported_media_type");
    for (body, code, pointer) in [
        (json!({}), "invalid_body", ""),
        (json!({"metadata": {"k": 1}}), "invalid_body", "/metadata/k"),
        (json!({"metadata": {"k": "v".repeat(1_025)}}), "invalid_body", "/metadata/k"),
        (json!({"lifecycle": "full"}), "invalid_body", "/lifecycle"),
        (json!({"zone": "b"}), "unknown_member", "/zone"),
    ] {
        cell.fenced("PATCH", MAIL, &epoch, &body).await.faulty(code, &[pointer]);
    }
    let holder = format!("{MAIL}?holder=h");
    cell.fenced("PATCH", &holder, &epoch, &calm).await.faulty("unknown_parameter", &["holder"]);
    let large = json!({"metadata": {"k": "v".repeat(300_000)}});
    cell.fenced("PATCH", MAIL, &epoch, &large).await.refused(413, "too_large");
}

#[tokio::test]
async fn a_deregistration_is_final_and_told() {
    let cell = Cell::start().await;
    let epoch = cell.register_plain("ops/mail/1").await;
    cell.send("DELETE", MAIL, &[], Vec::new()).await.refused(428, "epoch_required");
    cell.fenced("DELETE", MAIL, "07", &Value::Null).await.refused(400, "invalid_epoch");
    let holder = format!("{MAIL}?holder=");
    cell.fenced("DELETE", &holder, &epoch, &Value::Null).await.faulty("invalid_parameter", &["holder"]);
    let gone = cell.fenced("DELETE", MAIL, &epoch, &Value::Null).await;
    assert_eq!((gone.status, gone.text.as_str()), (204, ""));
    cell.get("/v1/agents/ops/mail/1").await.refused(404, "not_found");
    cell.fenced("DELETE", MAIL, &epoch, &Value::Null).await.refused(404, "not_registered");
    cell.fenced("PUT", &format!("{MAIL}/lease"), &epoch, &Value::Null).await.refused(404, "not_registered");
    let removals = cell.get("/v1/removals").await.json();
    let mut removal = removals["removals"][0].clone();
    assert!(removal["at"].take().as_str().unwrap().ends_with('Z'));
    assert!(removal["position"].take()["revision"].is_string());
    let expected = json!({"id": "ops/mail/1", "region": "us", "epoch": epoch, "reason": "deregistered",
        "actor": "owner", "at": null, "position": null});
    assert_eq!(removal, expected);
}

#[tokio::test]
async fn removals_come_newest_first_and_an_id_that_was_taken_over_is_among_them() {
    let cell = Cell::start().await;
    let first = cell.register_plain("ops/mail/1").await;
    let second = cell.register_plain("ops/mail/1").await;
    let other = cell.register_plain("ops/mail/2").await;
    cell.fenced("DELETE", "/v1/registrations/ops/mail/2", &other, &Value::Null).await;
    cell.fenced("DELETE", MAIL, &second, &Value::Null).await;
    let told = |body: Value| -> Vec<(String, String)> {
        let list = body["removals"].as_array().unwrap().clone();
        list.iter()
            .map(|r| (r["epoch"].as_str().unwrap().to_owned(), r["reason"].as_str().unwrap().to_owned()))
            .collect()
    };
    let pair = |epoch: &str, reason: &str| (epoch.to_owned(), reason.to_owned());
    let newest = pair(&second, "deregistered");
    let all = told(cell.get("/v1/removals").await.json());
    assert_eq!(all, [newest.clone(), pair(&other, "deregistered"), pair(&first, "replaced")]);
    assert_eq!(told(cell.get("/v1/removals?limit=1").await.json()), std::slice::from_ref(&newest));
    let of_one = told(cell.get("/v1/removals?id=ops/mail/1").await.json());
    assert_eq!(of_one, [newest, pair(&first, "replaced")]);
    for query in ["limit=0", "limit=1001", "limit=x", "id=ops/mail", "id=a/b/c&id=a/b/c"] {
        cell.get(&format!("/v1/removals?{query}")).await.refused(400, "invalid_parameter");
    }
    cell.get("/v1/removals?region=us").await.faulty("unknown_parameter", &["region"]);
}
