//! The A2A card host.

use serde_json::json;

use super::cell::Cell;

const V03: &str = "{ \"name\":\"T\\u0041\",\n \"protocolVersion\":\"0.3.0\", \"url\":\"http://127.0.0.1:9/\", \"version\":\"1.0.0\"}";
const V1: &str = r#"{"name":"T","version":"2.0.0","supportedInterfaces":[{"url":"http://127.0.0.1:9/","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}"#;
const PATH: &str = "/v1/agents/ops/mail/.well-known/agent-card.json";

async fn register(cell: &Cell, instance: &str, card: &str) {
    let body = format!(r#"{{"id":"ops/mail/{instance}","card":{card}}}"#);
    let kind = [("content-type", "application/json")];
    let answer = cell.send("POST", "/v1/registrations", &kind, body.into_bytes()).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
}

#[tokio::test]
async fn a_card_is_served_byte_for_byte() {
    let cell = Cell::start().await;
    register(&cell, "1", V03).await;
    let answer = cell.get(PATH).await;
    assert_eq!((answer.status, answer.text.as_str()), (200, V03));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert!(answer.header("cache-control").unwrap().contains("max-age="));
    let tag = answer.header("etag").unwrap().to_owned();
    assert!(tag.starts_with('"') && tag.ends_with('"'), "{tag}");
    for known in [tag.clone(), format!("\"x\", W/{tag}"), "*".to_owned()] {
        let same = cell.send("GET", PATH, &[("if-none-match", &known)], Vec::new()).await;
        assert_eq!((same.status, same.text.as_str(), same.header("etag")), (304, "", Some(tag.as_str())));
    }
    let other = cell.send("GET", PATH, &[("if-none-match", "\"x\"")], Vec::new()).await;
    assert_eq!(other.status, 200);
}

#[tokio::test]
async fn the_version_asked_for_is_preferred_and_no_filter() {
    let cell = Cell::start().await;
    register(&cell, "1", V03).await;
    let asked = async |version| cell.send("GET", PATH, &[("a2a-version", version)], Vec::new()).await;
    assert_eq!(asked("1.0").await.text, V03, "the only card is not hidden");
    register(&cell, "2", V1).await;
    assert_eq!(cell.get(PATH).await.text, V1, "the newest");
    assert_eq!(asked("0.3").await.text, V03);
    assert_eq!(asked("1.0").await.text, V1);
    assert_eq!(cell.get(&format!("{PATH}?instance=1")).await.text, V03);
}

#[tokio::test]
async fn where_there_is_no_card_it_is_said_so() {
    let cell = Cell::start().await;
    cell.get(PATH).await.refused(404, "not_found");
    cell.register_plain("ops/mail/1").await;
    cell.get(PATH).await.refused(404, "not_found");
    register(&cell, "2", V1).await;
    assert_eq!(cell.get(PATH).await.status, 200);
    cell.get(&format!("{PATH}?instance=1")).await.refused(404, "not_found");
    cell.get(&format!("{PATH}?instance=A")).await.faulty("invalid_parameter", &["instance"]);
    for whole in ["us", "own", "all"] {
        assert_eq!(cell.get(&format!("{PATH}?region={whole}")).await.text, V1, "{whole}");
    }
    cell.get(&format!("{PATH}?region=eu")).await.faulty("invalid_parameter", &["region"]);
    let bad = "/v1/agents/Ops/mail/.well-known/agent-card.json";
    cell.get(bad).await.refused(400, "invalid_id");
}

#[tokio::test]
async fn a_card_gives_endpoints_version_and_skills_and_shows_its_digest() {
    let cell = Cell::start().await;
    register(&cell, "1", V1).await;
    let agent = cell.get("/v1/agents/ops/mail/1").await.json();
    assert_eq!(
        (&agent["version"], &agent["endpoints"][0]["url"]),
        (&json!("2.0.0"), &json!("http://127.0.0.1:9/"))
    );
    assert_eq!(agent["card_digest"].as_str().unwrap().len(), 64);
}

/// Museum B75: a registry kept the first card for ever; name and version stayed while the live card moved on.
#[tokio::test]
async fn b75_a_card_that_changed_is_the_one_that_readers_and_callers_see() {
    let cell = Cell::start().await;
    register(&cell, "1", V03).await;
    let seen = async || {
        let agent = cell.get("/v1/agents/ops/mail/1").await.json();
        let tag = cell.get(PATH).await.header("etag").unwrap().to_owned();
        (agent["card_digest"].clone(), agent["version"].clone(), tag)
    };
    let (digest, version, tag) = seen().await;
    register(&cell, "1", V1).await;
    let (new_digest, new_version, new_tag) = seen().await;
    assert!(digest != new_digest && version != new_version && tag != new_tag, "{digest} {version} {tag}");
    let again = cell.send("GET", PATH, &[("if-none-match", &tag)], Vec::new()).await;
    assert_eq!((again.status, again.text.as_str()), (200, V1), "who kept the old one is given the new one");
    let unchanged = seen().await;
    register(&cell, "1", V1).await;
    assert_eq!(seen().await.0, unchanged.0, "the same card has the same digest at any epoch");
}
