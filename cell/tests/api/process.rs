//! What the process says about itself, and what it says where there is nothing.

use serde_json::{Value, json};

use super::cell::{Cell, eventually};

#[tokio::test]
async fn the_process_says_that_it_lives_serves_and_what_it_is() {
    let cell = Cell::start().await;
    assert_eq!(cell.get("/livez").await.status, 200);
    assert_eq!(cell.get("/readyz").await.status, 200);
    let verbose = eventually("the own region is current", || async {
        let verbose = cell.get("/readyz?verbose").await;
        verbose.text.contains("us (own): current").then_some(verbose)
    })
    .await;
    assert!(verbose.text.contains("store (not needed to be ready): it answers\n"), "{}", verbose.text);
    let version = cell.get("/version").await.json();
    assert_eq!((&version["region"], &version["role"]), (&json!("us"), &json!("cell")));
    assert!(version["version"].is_string() && version["commit"].is_string());
    assert_eq!(version.as_object().unwrap().len(), 4);
    let root = cell.get("/").await;
    assert!(root.status == 200 && root.text.contains("curl"), "{}", root.text);
}

#[tokio::test]
async fn figures_are_in_the_text_form_of_prometheus() {
    let cell = Cell::start().await;
    let answer = cell.get("/metrics").await;
    assert_eq!(answer.status, 200);
    assert!(answer.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    assert!(answer.text.contains("rollcall_cell_view_age_seconds{region=\"us\"}"), "{}", answer.text);
}

#[tokio::test]
async fn obs_01_registrations_look_ups_and_their_time_are_counted_by_what_became_of_them() {
    let cell = Cell::start().await;
    let epoch = cell.register_plain("ops/mail/1").await;
    cell.post("/v1/registrations", &json!({"id": "Ops"})).await.refused(400, "invalid_id");
    let lease = "/v1/registrations/ops/mail/1/lease";
    for _ in 0..2 {
        assert_eq!(cell.fenced("PUT", lease, &epoch, &Value::Null).await.status, 200);
    }
    cell.fenced("PUT", lease, "7", &Value::Null).await.refused(412, "superseded");
    let batch =
        json!({"renewals": [{"id": "ops/mail/1", "epoch": epoch}, {"id": "ops/none/1", "epoch": "7"}]});
    assert_eq!(cell.post("/v1/renewals", &batch).await.status, 200);
    for path in ["/v1/resolve?name=mail", "/v1/resolve?name=none", "/v1/agents"] {
        assert_eq!(cell.get(path).await.status, 200, "{path}");
    }
    let text = cell.get("/metrics").await.text;
    for line in [
        r#"rollcall_cell_api_calls_total{call="register",face="http",outcome="ok"} 1"#,
        r#"rollcall_cell_api_calls_total{call="register",face="http",outcome="refused"} 1"#,
        r#"rollcall_cell_api_calls_total{call="resolve",face="http",outcome="ok"} 2"#,
        r#"rollcall_cell_api_calls_total{call="list",face="http",outcome="ok"} 1"#,
        r#"rollcall_cell_api_duration_seconds_count{call="resolve"} 2"#,
        r#"rollcall_cell_lease_renewals_total{outcome="ok"} 3"#,
        r#"rollcall_cell_lease_renewals_total{outcome="superseded"} 1"#,
        r#"rollcall_cell_lease_renewals_total{outcome="not_registered"} 1"#,
    ] {
        assert!(text.lines().any(|told| told == line), "{line} is not in:\n{text}");
    }
}

#[tokio::test]
async fn an_unknown_path_is_not_found_and_an_unknown_method_not_allowed() {
    let cell = Cell::start().await;
    for path in [
        "/nothing",
        "/v1",
        "/v1/agents/",
        "/v1/agents/a/b",
        "/v1/registrations/a/b/c/d",
        "//",
        "/rollcall.v1.Registrar/Register",
    ] {
        cell.get(path).await.refused(404, "not_found");
    }
    for (method, path, allowed) in [
        ("DELETE", "/v1/agents", "GET,HEAD"),
        ("POST", "/v1/watch", "GET,HEAD"),
        ("GET", "/v1/registrations", "POST"),
        ("GET", "/v1/renewals", "POST"),
        ("POST", "/v1/guard", "GET,HEAD"),
        ("GET", "/v1/guard/release", "POST"),
        ("GET", "/v1/admin/evict", "POST"),
        ("DELETE", "/v1/admin/mute", "POST"),
        ("PUT", "/v1/registrations/a/b/c", "PATCH,DELETE"),
        ("POST", "/v1/registrations/a/b/c/lease", "GET,HEAD,PUT"),
        ("PURGE", "/livez", "GET,HEAD"),
    ] {
        let answer = cell.send(method, path, &[], Vec::new()).await;
        answer.refused(405, "method_not_allowed");
        assert_eq!(answer.header("allow"), Some(allowed), "{method} {path}");
    }
}

#[tokio::test]
async fn no_call_takes_a_parameter_it_does_not_know() {
    let cell = Cell::start().await;
    for (method, path) in [
        ("GET", "/"),
        ("GET", "/livez"),
        ("GET", "/readyz"),
        ("GET", "/metrics"),
        ("GET", "/version"),
        ("GET", "/v1/agents"),
        ("GET", "/v1/agents/a/b/c"),
        ("GET", "/v1/agents/a/b/.well-known/agent-card.json"),
        ("GET", "/v1/regions"),
        ("GET", "/v1/removals"),
        ("GET", "/v1/watch"),
        ("GET", "/v1/guard"),
        ("POST", "/v1/guard/release"),
        ("POST", "/v1/admin/evict"),
        ("POST", "/v1/admin/mute"),
        ("POST", "/v1/registrations"),
        ("POST", "/v1/renewals"),
        ("GET", "/v1/registrations/a/b/c/lease"),
        ("PUT", "/v1/registrations/a/b/c/lease"),
        ("PATCH", "/v1/registrations/a/b/c"),
        ("DELETE", "/v1/registrations/a/b/c"),
    ] {
        let path = format!("{path}?what=1");
        let answer = cell.send(method, &path, &[("if-match", "\"7\"")], Vec::new()).await;
        answer.faulty("unknown_parameter", &["what"]);
    }
}
