//! One agent, and questions with filters.

use serde_json::{Value, json};

use super::cell::{Cell, eventually, plain};

async fn ids(cell: &Cell, query: &str) -> Vec<String> {
    let answer = cell.get(&format!("/v1/agents?{query}")).await;
    assert_eq!(answer.status, 200, "{query}: {}", answer.text);
    let body = answer.json();
    body["agents"].as_array().unwrap().iter().map(|a| a["id"].as_str().unwrap().to_owned()).collect()
}

async fn fleet() -> Cell {
    let cell = Cell::start().await;
    for body in [
        json!({"id": "ops/mail/1", "endpoints": [{"url": "http://127.0.0.1:9/"}], "version": "2.3.1", "zone": "a",
               "capabilities": ["email:send:v1", {"name": "email:batch_send:v1", "tags": ["fast"]}],
               "metadata": {"team": "red", "queue": "high"}}),
        json!({"id": "ops/mail/2", "endpoints": [{"url": "http://127.0.0.1:9/"}], "version": "3.0.0", "zone": "b",
               "capabilities": ["email:send:v1"], "metadata": {"team": "blue"}, "lifecycle": "starting"}),
        json!({"id": "lab/translate/1", "kind": "tool",
               "card": {"name": "T", "version": "2.9.9", "url": "http://127.0.0.1:9/",
                        "skills": [{"id": "de-fr", "name": "German to French", "tags": ["language", "fast"]}]}}),
    ] {
        cell.register(&body).await;
    }
    cell
}

#[tokio::test]
async fn every_filter_filters_and_all_that_is_asked_must_match() {
    let cell = fleet().await;
    let (mail1, mail2, translate) = ("ops/mail/1", "ops/mail/2", "lab/translate/1");
    for (query, expected) in [
        ("", vec![translate, mail1, mail2]),
        ("namespace=ops", vec![mail1, mail2]),
        ("name=mail", vec![mail1, mail2]),
        ("namespace=lab&name=mail", vec![]),
        ("capability=email:send:v1", vec![mail1, mail2]),
        ("capability=email:send:v1&capability=email:batch_send:v1", vec![mail1]),
        ("capability=nobody:has:v1", vec![]),
        ("skill=de-fr", vec![translate]),
        ("skill=German%20to%20French", vec![translate]),
        ("tag=fast", vec![translate, mail1]),
        ("tag=fast&tag=language", vec![translate]),
        ("kind=tool", vec![translate]),
        ("version=^2.3", vec![translate, mail1]),
        ("version=>=2.3.1,<2.9.9", vec![mail1]),
        ("version=*", vec![translate, mail1, mail2]),
        ("zone=b", vec![mail2]),
        ("lifecycle=starting", vec![mail2]),
        ("metadata.team=red", vec![mail1]),
        ("metadata.team=red&metadata.queue=low", vec![]),
        ("metadata.team=r%EF%BF%BDd", vec![]),
        ("region=own&zone=a", vec![mail1]),
        ("region=us&zone=a", vec![mail1]),
        ("region=all&zone=a", vec![mail1]),
    ] {
        assert_eq!(ids(&cell, query).await, expected, "{query}");
    }
}

#[tokio::test]
async fn every_bad_parameter_is_refused_with_its_name() {
    let cell = fleet().await;
    for (query, code, name) in [
        ("metadata.team=%ff", "invalid_parameter", "metadata.team"),
        ("limit=0", "invalid_parameter", "limit"),
        ("limit=1001", "invalid_parameter", "limit"),
        ("limit=1&limit=1", "invalid_parameter", "limit"),
        ("page_token=zz", "invalid_parameter", "page_token"),
        ("page_token=", "invalid_parameter", "page_token"),
        ("page_token=6575206f70732f6d61696c2f31", "invalid_parameter", "page_token"),
        ("region=mars", "invalid_parameter", "region"),
        ("region=us,eu", "invalid_parameter", "region"),
        ("kind=robot", "invalid_parameter", "kind"),
        ("version=two", "invalid_parameter", "version"),
        ("namespace=Ops", "invalid_parameter", "namespace"),
        ("zone=a&zone=a", "invalid_parameter", "zone"),
        ("internal=yes", "invalid_parameter", "internal"),
        ("capability=email.send", "invalid_capability", "capability"),
        ("capability=email:send:v1&capability=x", "invalid_capability", "capability"),
        ("instance=1", "unknown_parameter", "instance"),
        ("since=1-a:5", "unknown_parameter", "since"),
        ("policy=zone", "unknown_parameter", "policy"),
    ] {
        cell.get(&format!("/v1/agents?{query}")).await.faulty(code, &[name]);
    }
}

#[tokio::test]
async fn a_list_says_for_each_region_whether_it_can_be_trusted() {
    let cell = Cell::start().await;
    let body = eventually("its region is current", || async {
        let body = cell.get("/v1/agents?capability=a:b:v1").await.json();
        (body["regions"][0]["state"] == "current").then_some(body)
    })
    .await;
    assert_eq!((&body["agents"], &body["next_page_token"]), (&json!([]), &Value::Null));
    let regions = body["regions"].as_array().unwrap();
    assert_eq!(regions.len(), 1);
    assert_eq!(regions[0]["region"], "us");
    assert!(regions[0]["age_ms"].as_u64().unwrap() < 3_000, "what is called current: {body}");
}

#[tokio::test]
async fn res_05_an_empty_list_says_beside_it_when_nobody_has_the_capability_at_all() {
    let cell = fleet().await;
    let hint = |path: String| {
        let cell = &cell;
        async move {
            let answer = cell.get(&path).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.text);
            answer.headers.get("rollcall-hint").map(|hint| hint.to_str().unwrap().to_owned())
        }
    };
    let strange = |names: &str| Some(format!("nobody in any region that is loaded has {names}"));
    for call in ["agents", "resolve"] {
        let path = |query: &str| format!("/v1/{call}?{query}");
        // Twice: what is kept of an answer is answered alike.
        for _ in 0..2 {
            let one = hint(path("capability=email:sned:v1")).await;
            assert_eq!(one, strange("email:sned:v1: is it spelt right?"), "{call}");
        }
        let two = hint(path("capability=a:b:v1&capability=email:send:v1&capability=c:d:v1&zone=x")).await;
        assert_eq!(two, strange("a:b:v1 or c:d:v1: are they spelt right?"), "{call}");
        for query in ["capability=email:send:v1", "capability=email:send:v1&zone=x", "zone=x", ""] {
            assert_eq!(hint(path(query)).await, None, "{call}: {query}");
        }
    }
    // What somebody registers with is known at once, and what nobody has any more is not.
    let mut body = plain("ops/fax/1");
    body["capabilities"] = json!(["fax:send:v1"]);
    let query = || "/v1/agents?zone=x&capability=fax:send:v1".to_owned();
    assert!(hint(query()).await.is_some());
    let epoch = cell.register(&body).await;
    assert_eq!(hint(query()).await, None);
    cell.fenced("DELETE", "/v1/registrations/ops/fax/1", &epoch, &Value::Null).await;
    assert!(hint(query()).await.is_some());
}

#[tokio::test]
async fn internal_capabilities_are_left_out_unless_asked_for() {
    let cell = Cell::start().await;
    let mut body = plain("ops/mail/1");
    body["capabilities"] = json!(["a:b:v1", {"name": "admin:reset:v1", "internal": true}]);
    let epoch = cell.register(&body).await;
    let names = |agent: &Value| -> Vec<String> {
        let list = agent["capabilities"].as_array().unwrap();
        list.iter().map(|c| c["name"].as_str().unwrap().to_owned()).collect()
    };
    let one = cell.get("/v1/agents/ops/mail/1").await.json();
    assert_eq!(names(&one), ["a:b:v1"]);
    let shown = cell.get("/v1/agents/ops/mail/1?internal=true").await.json();
    assert_eq!(names(&shown), ["a:b:v1", "admin:reset:v1"]);
    let listed = cell.get("/v1/agents").await.json();
    assert_eq!(names(&listed["agents"][0]), ["a:b:v1"]);
    let listed = cell.get("/v1/agents?internal=true").await.json();
    assert_eq!(names(&listed["agents"][0]).len(), 2);
    let path = "/v1/registrations/ops/mail/1";
    let patched = cell.fenced("PATCH", path, &epoch, &json!({"lifecycle": "healthy"})).await.json();
    assert_eq!(names(&patched), ["a:b:v1"]);
}

#[tokio::test]
async fn one_agent_is_found_or_not() {
    let cell = Cell::start().await;
    cell.register_plain("ops/mail/1").await;
    for path in ["", "?region=own", "?region=us", "?region=all"] {
        let answer = cell.get(&format!("/v1/agents/ops/mail/1{path}")).await;
        assert_eq!((answer.status, &answer.json()["id"]), (200, &json!("ops/mail/1")));
    }
    cell.get("/v1/agents/ops/mail/2").await.refused(404, "not_found");
    cell.get("/v1/agents/ops/mail/2?region=all").await.refused(404, "not_found");
    cell.get("/v1/agents/ops/mail/1?region=mars").await.faulty("invalid_parameter", &["region"]);
    cell.get("/v1/agents/ops/mail/1?zone=a").await.faulty("unknown_parameter", &["zone"]);
    for path in ["ops/mail/A", "ops/mail/%00", "ops/mail/a%2Fb", "ops/mail/..a", "ops/mail/.well-known"] {
        cell.get(&format!("/v1/agents/{path}")).await.refused(400, "invalid_id");
    }
}
