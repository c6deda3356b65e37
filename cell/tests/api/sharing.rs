//! Scope `service`: all replicas of a deployment share one entry.

use rollcall_proto::v1::registrar_client::RegistrarClient;
use rollcall_proto::v1::renew_response::result::Outcome;
use rollcall_proto::v1::{self, Endpoint, RenewRequest, renew_request};
use serde_json::{Value, json};

use super::cell::{Cell, eventually};
use super::moody::{Mood, Moody};

const MAIL: &str = "/v1/registrations/ops/mail/service";
const AGENT: &str = "/v1/agents/ops/mail/service";

fn shared(holder: &str, version: &str) -> Value {
    json!({"id": "ops/mail/service", "scope": "service", "holder": holder, "version": version,
        "endpoints": [{"url": "http://mail.ops.svc/"}]})
}

async fn register(cell: &Cell, body: &Value, status: u16) -> String {
    let answer = cell.post("/v1/registrations", body).await;
    assert_eq!(answer.status, status, "{}", answer.text);
    let epoch = answer.json()["epoch"].as_str().unwrap().to_owned();
    assert_eq!(answer.header("etag"), Some(format!("\"{epoch}\"").as_str()));
    epoch
}

async fn delete(cell: &Cell, holder: &str, epoch: &str) -> u16 {
    cell.fenced("DELETE", &format!("{MAIL}?holder={holder}"), epoch, &Value::Null).await.status
}

async fn changed(cell: &Cell) -> Value {
    cell.get(AGENT).await.json()["revision"].clone()
}

#[tokio::test]
async fn replicas_with_the_same_data_join_one_entry_and_write_nothing() {
    let cell = Cell::start().await;
    let answer = cell.post("/v1/registrations", &shared("pod-1", "1.0.0")).await;
    assert_eq!((answer.status, &answer.json()["holder"]), (201, &json!("pod-1")));
    let epoch = answer.json()["epoch"].as_str().unwrap().to_owned();
    let revision = changed(&cell).await;
    assert_eq!(register(&cell, &shared("pod-2", "1.0.0"), 200).await, epoch);
    assert_eq!(register(&cell, &shared("pod-2", "1.0.0"), 200).await, epoch);
    // A renewal by a holder that is not known joins it too; nobody named is `default`.
    for path in [format!("{MAIL}/lease?holder=pod-3"), format!("{MAIL}/lease")] {
        let answer = cell.fenced("PUT", &path, &epoch, &Value::Null).await;
        assert_eq!((answer.status, answer.json().get("superseded")), (200, None));
    }
    assert_eq!(changed(&cell).await, revision, "joining is no write");
    let lease = cell.get(&format!("{MAIL}/lease")).await.json();
    let holders = lease["holders"].as_array().unwrap();
    let names: Vec<_> = holders.iter().map(|holder| holder["holder"].as_str().unwrap()).collect();
    assert_eq!(names, ["default", "pod-1", "pod-2", "pod-3"]);
    assert!(holders.iter().all(|holder| holder["epoch"] == epoch.as_str()));
    assert!(holders.iter().all(|holder| holder["last_renewal_at"].as_str().unwrap().ends_with('Z')));
    let mut unnamed = shared("", "1.0.0");
    unnamed.as_object_mut().unwrap().remove("holder");
    assert_eq!(cell.post("/v1/registrations", &unnamed).await.json()["holder"], "default");
    let agents = cell.get("/v1/agents").await.json();
    assert_eq!(
        (agents["agents"].as_array().unwrap().len(), &agents["agents"][0]["scope"]),
        (1, &json!("service"))
    );
}

#[tokio::test]
async fn an_entry_goes_with_its_last_holder() {
    let cell = Cell::start().await;
    let epoch = register(&cell, &shared("pod-1", "1.0.0"), 201).await;
    register(&cell, &shared("pod-2", "1.0.0"), 200).await;
    let revision = changed(&cell).await;
    assert_eq!(delete(&cell, "pod-1", &epoch).await, 204);
    assert_eq!(delete(&cell, "pod-1", &epoch).await, 204, "it holds nothing any more");
    assert_eq!(changed(&cell).await, revision, "nothing was written");
    assert_eq!(delete(&cell, "pod-2", &epoch).await, 204);
    cell.get(AGENT).await.refused(404, "not_found");
    assert_eq!(delete(&cell, "pod-2", &epoch).await, 404);
    let removal = cell.get("/v1/removals").await.json()["removals"][0].clone();
    assert_eq!(
        (&removal["reason"], &removal["actor"], &removal["epoch"]),
        (&json!("deregistered"), &json!("owner"), &json!(epoch))
    );
    let late = format!("{MAIL}/lease?holder=pod-2");
    cell.fenced("PUT", &late, &epoch, &Value::Null).await.refused(404, "not_registered");
}

#[tokio::test]
async fn a_rollout_of_other_data_is_no_fight_between_two_versions() {
    let cell = Cell::start().await;
    let old = register(&cell, &shared("pod-1", "1.0.0"), 201).await;
    let new = register(&cell, &shared("pod-2", "2.0.0"), 201).await;
    assert_ne!(old, new);
    let revision = changed(&cell).await;
    let path = format!("{MAIL}/lease?holder=pod-1");
    let words =
        json!({"lifecycle": "draining", "load": {"queue_depth": 500, "in_flight": 1, "error_rate": 1.0}});
    let answer = cell.fenced("PUT", &path, &old, &words).await;
    assert_eq!((answer.status, &answer.json()["superseded"]), (200, &json!(true)));
    let batch = json!({"renewals": [
        {"id": "ops/mail/service", "epoch": old, "holder": "pod-1"},
        {"id": "ops/mail/service", "epoch": new, "holder": "pod-2"},
    ]});
    let results = cell.post("/v1/renewals", &batch).await.json()["results"].clone();
    assert_eq!((&results[0]["status"], &results[0]["superseded"]), (&json!("ok"), &json!(true)));
    assert_eq!((&results[1]["status"], results[1].get("superseded")), (&json!("ok"), None));
    assert_eq!(changed(&cell).await, revision, "who was replaced says nothing of the new declaration");
    assert_eq!(cell.get(AGENT).await.json()["version"], "2.0.0");
    // Updates speak of what was declared, and are fenced as ever; so is an epoch that was never issued.
    let patch = json!({"lifecycle": "degraded"});
    cell.fenced("PATCH", MAIL, &old, &patch).await.refused(412, "superseded");
    let (old_epoch, new_epoch): (u64, u64) = (old.parse().unwrap(), new.parse().unwrap());
    for never in [new_epoch + 1_000_000, old_epoch - 1, 5, 0] {
        let never = never.to_string();
        cell.fenced("PUT", &path, &never, &Value::Null).await.refused(412, "superseded");
        cell.fenced("DELETE", &format!("{MAIL}?holder=pod-1"), &never, &Value::Null)
            .await
            .refused(412, "superseded");
    }
    // The newer one leaves first: the older one still keeps the entry, and is its last holder.
    assert_eq!(delete(&cell, "pod-2", &new).await, 204);
    assert_eq!(cell.get(AGENT).await.status, 200);
    assert_eq!(delete(&cell, "pod-1", &old).await, 204);
    cell.get(AGENT).await.refused(404, "not_found");
}

#[tokio::test]
async fn i02_the_farewell_of_a_replaced_process_without_a_name_leaves_its_successor_alone() {
    let cell = Cell::start().await;
    let unnamed = |version: &str| {
        let mut body = shared("", version);
        body.as_object_mut().unwrap().remove("holder");
        body
    };
    let old = register(&cell, &unnamed("1.0.0"), 201).await;
    let new = register(&cell, &unnamed("2.0.0"), 201).await;
    assert_eq!(cell.fenced("DELETE", MAIL, &old, &Value::Null).await.status, 204);
    let agent = cell.get(AGENT).await.json();
    assert_eq!((&agent["version"], &agent["epoch"]), (&json!("2.0.0"), &json!(new)));
    let answer = cell.fenced("PUT", &format!("{MAIL}/lease"), &new, &Value::Null).await;
    assert_eq!((answer.status, answer.json().get("superseded")), (200, None));
    // It renews once more on its way out, and leaves again.
    assert_eq!(cell.fenced("PUT", &format!("{MAIL}/lease"), &old, &Value::Null).await.status, 200);
    let holders = cell.get(&format!("{MAIL}/lease")).await.json()["holders"].clone();
    assert_eq!((&holders[0]["epoch"], &holders[1]["epoch"]), (&json!(old), &json!(new)));
    assert_eq!(cell.fenced("DELETE", MAIL, &old, &Value::Null).await.status, 204);
    assert_eq!(cell.get(AGENT).await.json()["epoch"], json!(new));
    assert_eq!(cell.fenced("DELETE", MAIL, &new, &Value::Null).await.status, 204);
    cell.get(AGENT).await.refused(404, "not_found");
}

#[tokio::test]
async fn a_deployment_that_starts_at_once_has_one_epoch() {
    let cell = Cell::start().await;
    let bodies: Vec<_> = (0..16).map(|n| shared(&format!("pod-{n}"), "1.0.0")).collect();
    let answers =
        futures_util::future::join_all(bodies.iter().map(|body| cell.post("/v1/registrations", body))).await;
    let made = answers.iter().filter(|answer| answer.status == 201).count();
    let epochs: std::collections::BTreeSet<_> =
        answers.iter().map(|answer| answer.json()["epoch"].as_str().unwrap().to_owned()).collect();
    assert_eq!((made, epochs.len()), (1, 1), "{epochs:?}");
}

#[tokio::test]
async fn an_entry_lives_while_any_holder_renews_and_lapses_when_none_does() {
    let cell = Cell::start().await;
    let mut body = shared("pod-1", "1.0.0");
    body["lease_seconds"] = json!(5);
    let epoch = register(&cell, &body, 201).await;
    body["holder"] = json!("pod-2");
    register(&cell, &body, 200).await;
    // Only one of them goes on, and for longer than a lease.
    eventually("the other is forgotten", || async {
        let path = format!("{MAIL}/lease?holder=pod-2");
        assert_eq!(cell.fenced("PUT", &path, &epoch, &Value::Null).await.status, 200);
        let lease = cell.get(&format!("{MAIL}/lease")).await.json();
        (lease["holders"].as_array().unwrap().len() == 1).then_some(())
    })
    .await;
    let removal = eventually("the removal", || async {
        cell.get("/v1/removals").await.json()["removals"].get(0).cloned()
    })
    .await;
    assert_eq!((&removal["reason"], &removal["actor"]), (&json!("expired"), &json!("keeper")));
}

#[tokio::test]
async fn a_last_holder_whose_leaving_the_store_did_not_take_may_stay() {
    let store = Moody::new(Mood::Well);
    let cell = Cell::with("us", &[], store.clone()).await;
    cell.keeps().await;
    let epoch = register(&cell, &shared("pod-1", "1.0.0"), 201).await;
    store.becomes(Mood::Away);
    let path = format!("{MAIL}?holder=pod-1");
    cell.fenced("DELETE", &path, &epoch, &Value::Null).await.refused(503, "store_unavailable");
    let lease = format!("{MAIL}/lease?holder=pod-1");
    assert_eq!(cell.fenced("PUT", &lease, &epoch, &Value::Null).await.status, 200, "renewals need no store");
    store.becomes(Mood::Well);
    assert_eq!(cell.get(AGENT).await.status, 200);
    eventually("it leaves after all", || async {
        (cell.fenced("DELETE", &path, &epoch, &Value::Null).await.status == 204).then_some(())
    })
    .await;
    cell.get(AGENT).await.refused(404, "not_found");
}

#[tokio::test]
async fn two_parts_of_an_id_name_one_shared_entry() {
    let cell = Cell::start().await;
    let mut body = shared("pod-1", "1.0.0");
    body["id"] = json!("ops/mail");
    let answer = cell.post("/v1/registrations", &body).await;
    assert_eq!((answer.status, &answer.json()["id"]), (201, &json!("ops/mail/service")));
    body["holder"] = json!("pod-2");
    assert_eq!(cell.post("/v1/registrations", &body).await.status, 200);
    for holder in ["", &"h".repeat(65)] {
        body["holder"] = json!(holder);
        cell.post("/v1/registrations", &body).await.faulty("invalid_body", &["/holder"]);
    }
}

#[tokio::test]
async fn holders_are_known_over_grpc_too() {
    let cell = Cell::start().await;
    let mut registrar = RegistrarClient::connect(cell.grpc_url.clone()).await.unwrap();
    let request = |holder: &str, version: &str| v1::RegisterRequest {
        id: "ops/mail/service".into(),
        scope: v1::Scope::Service.into(),
        holder: Some(holder.into()),
        version: Some(version.into()),
        endpoints: vec![Endpoint { url: "http://mail.ops.svc/".into(), protocol: None }],
        ..v1::RegisterRequest::default()
    };
    let first = registrar.register(request("pod-1", "1.0.0")).await.unwrap().into_inner();
    assert_eq!(first.holder.as_deref(), Some("pod-1"));
    let second = registrar.register(request("pod-2", "2.0.0")).await.unwrap().into_inner();
    let item = |epoch: u64, holder: &str| renew_request::Item {
        id: "ops/mail/service".into(),
        epoch,
        holder: Some(holder.into()),
        ..renew_request::Item::default()
    };
    let items = vec![item(first.epoch, "pod-1"), item(second.epoch, "pod-2")];
    let results = registrar.renew(RenewRequest { items }).await.unwrap().into_inner().results;
    let superseded: Vec<_> = results
        .iter()
        .map(|result| matches!(&result.outcome, Some(Outcome::Renewed(renewed)) if renewed.superseded))
        .collect();
    assert_eq!(superseded, [true, false]);
    for (epoch, holder, status) in [(second.epoch, "pod-2", 200), (first.epoch, "pod-1", 404)] {
        let request =
            v1::DeregisterRequest { id: "ops/mail/service".into(), epoch, holder: Some(holder.into()) };
        registrar.deregister(request).await.unwrap();
        assert_eq!(cell.get(AGENT).await.status, status);
    }
}
