//! Operators: the guard seen and released, evict, mute.

use rollcall_model::Code;
use rollcall_proto::refusal::code_of;
use rollcall_proto::v1;
use rollcall_proto::v1::admin_client::AdminClient;
use rollcall_proto::v1::guard_response::State;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tonic::transport::Channel;

use super::cell::{Cell, eventually};
use super::moody::{Mood, Moody};

/// Registers with the shortest lease at an endpoint that answers, so that silence is no evidence of death.
async fn short(cell: &Cell, listener: &TcpListener, id: &str) -> String {
    let url = format!("http://{}/", listener.local_addr().unwrap());
    cell.register(&json!({"id": id, "endpoints": [{"url": url}], "zone": "a", "lease_seconds": 5})).await
}

async fn renew(cell: &Cell, living: &[(String, String)]) {
    let items: Vec<_> = living.iter().map(|(id, epoch)| json!({"id": id, "epoch": epoch})).collect();
    let answer = cell.post("/v1/renewals", &json!({"renewals": items})).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
}

fn cohort<'a>(guard: &'a Value, name: &str) -> &'a Value {
    guard["cohorts"].as_array().unwrap().iter().find(|cohort| cohort["cohort"] == name).unwrap()
}

#[tokio::test]
async fn a_calm_guard_counts_its_cohorts_and_holds_nothing() {
    let cell = Cell::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    short(&cell, &listener, "ops/mail/1").await;
    let guard = eventually("a sweep that counted it", || async {
        let guard = cell.get("/v1/guard").await.json();
        (!guard["cohorts"].as_array().unwrap().is_empty()).then_some(guard)
    })
    .await;
    let of = |cohort| json!({"cohort": cohort, "registered": 1, "suspects": 0, "limit": 1, "since": null, "settling_until": null});
    assert_eq!(guard, json!({"state": "calm", "cohorts": [of("region"), of("zone:a")], "held": []}));
}

#[tokio::test]
async fn i08_a_silent_half_is_held_shown_released_by_id_and_settles() {
    let cell = Cell::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (mut living, mut silent) = (Vec::new(), Vec::new());
    for n in 0..4 {
        for (name, list) in [("live", &mut living), ("mute", &mut silent)] {
            let id = format!("ops/{name}/{n}");
            let epoch = short(&cell, &listener, &id).await;
            list.push((id, epoch));
        }
    }
    let guard = eventually("all four are held", || async {
        renew(&cell, &living).await;
        let guard = cell.get("/v1/guard").await.json();
        (guard["held"].as_array().unwrap().len() == 4).then_some(guard)
    })
    .await;
    assert_eq!(guard["state"], "holding");
    assert_eq!(guard["held"], json!(silent.iter().map(|(id, _)| id).collect::<Vec<_>>()));
    for name in ["region", "zone:a"] {
        let cohort = cohort(&guard, name);
        assert_eq!((&cohort["registered"], &cohort["suspects"]), (&json!(8), &json!(4)), "{cohort}");
        assert_eq!((&cohort["limit"], &cohort["settling_until"]), (&json!(1), &Value::Null), "{cohort}");
        assert!(cohort["since"].as_str().unwrap().ends_with('Z'), "{cohort}");
    }

    let asked = json!({"ids": ["ops/mute/1", "ops/live/1", "ops/none/1"]});
    let outcome = cell.post("/v1/guard/release", &asked).await;
    assert_eq!(outcome.status, 200, "{}", outcome.text);
    let outcome = outcome.json();
    assert_eq!(outcome["released"], json!(["ops/mute/1"]));
    let guard = cell.get("/v1/guard").await.json();
    let held = ["ops/mute/0", "ops/mute/2", "ops/mute/3"];
    assert_eq!((&guard["held"], &cohort(&guard, "region")["suspects"]), (&json!(held), &json!(3)), "at once");
    let refused: Vec<_> = outcome["refused"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
    assert_eq!(refused, ["ops/live/1", "ops/none/1"]);
    assert!(outcome["refused"].as_array().unwrap().iter().all(|one| one["why"].is_string()), "{outcome}");
    let removal = eventually("the released one goes", || async {
        renew(&cell, &living).await;
        cell.get("/v1/removals?id=ops/mute/1").await.json()["removals"].get(0).cloned()
    })
    .await;
    assert_eq!((&removal["reason"], &removal["actor"]), (&json!("expired"), &json!("operator:anonymous")));
    assert_eq!(cell.get("/v1/agents/ops/mute/0").await.status, 200, "the others are still held");

    silent.remove(1);
    renew(&cell, &living).await;
    renew(&cell, &silent).await;
    let guard = cell.get("/v1/guard").await.json();
    assert_eq!((&guard["state"], &guard["held"]), (&json!("holding"), &json!([])), "no sweep judged it yet");
    assert_eq!(cohort(&guard, "region")["suspects"], 0, "nobody that is back is counted");
    let guard = eventually("all are back and the guard settles", || async {
        renew(&cell, &living).await;
        renew(&cell, &silent).await;
        let guard = cell.get("/v1/guard").await.json();
        cohort(&guard, "region")["settling_until"].is_string().then_some(guard)
    })
    .await;
    assert_eq!((&guard["state"], &guard["held"]), (&json!("holding"), &json!([])));
}

#[tokio::test]
async fn an_evicted_instance_is_gone_with_its_reason() {
    let cell = Cell::start().await;
    cell.register_plain("ops/mail/1").await;
    let asked = json!({"id": "ops/mail/1", "reason": "it answers nonsense"});
    let answer = cell.post("/v1/admin/evict", &asked).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let expected = json!({
        "id": "ops/mail/1", "region": "us", "reason": "it answers nonsense", "actor": "operator:anonymous",
    });
    assert_eq!(answer.json(), expected);
    cell.get("/v1/agents/ops/mail/1").await.refused(404, "not_found");
    let removal = cell.get("/v1/removals?id=ops/mail/1").await.json()["removals"][0].clone();
    assert_eq!((&removal["reason"], &removal["actor"]), (&json!("evicted"), &json!("operator:anonymous")));
    cell.post("/v1/admin/evict", &asked).await.refused(404, "not_registered");
}

#[tokio::test]
async fn a_muted_instance_is_answered_as_before_and_becomes_suspect() {
    let cell = Cell::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let epoch = short(&cell, &listener, "ops/mail/1").await;
    let answer = cell.post("/v1/admin/mute", &json!({"id": "ops/mail/1", "seconds": 60})).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let body = answer.json();
    assert_eq!((&body["id"], &body["seconds"]), (&json!("ops/mail/1"), &json!(60)));
    assert!(body["muted_until"].as_str().unwrap().ends_with('Z'));
    let lease = "/v1/registrations/ops/mail/1/lease";
    eventually("a suspect that renews", || async {
        assert_eq!(cell.fenced("PUT", lease, &epoch, &Value::Null).await.status, 200);
        (cell.get(lease).await.json()["state"] == "suspect").then_some(())
    })
    .await;
    let ended = cell.post("/v1/admin/mute", &json!({"id": "ops/mail/1", "seconds": 0})).await;
    assert_eq!(ended.status, 200, "{}", ended.text);
    assert_eq!(cell.fenced("PUT", lease, &epoch, &Value::Null).await.status, 200);
    assert_eq!(cell.get(lease).await.json()["state"], "live", "0 ends it");
    let other = json!({"id": "ops/mail/2", "seconds": 1});
    cell.post("/v1/admin/mute", &other).await.refused(404, "not_registered");
}

#[tokio::test]
async fn every_fault_of_an_operators_call_has_its_code_and_place() {
    let cell = Cell::start().await;
    for (path, body, code, pointer) in [
        ("/v1/guard/release", json!({}), "invalid_body", "/ids"),
        ("/v1/guard/release", json!({"ids": ["a/b"]}), "invalid_id", "/ids/0"),
        ("/v1/guard/release", json!({"ids": [], "x": 1}), "unknown_member", "/x"),
        ("/v1/admin/evict", json!({"id": "a/b/c"}), "invalid_body", "/reason"),
        ("/v1/admin/evict", json!({"id": "a/b", "reason": "x"}), "invalid_id", "/id"),
        ("/v1/admin/evict", json!({"id": "a/b/c", "reason": "x", "y": 1}), "unknown_member", "/y"),
        ("/v1/admin/mute", json!({"id": "a/b/c"}), "invalid_body", "/seconds"),
        ("/v1/admin/mute", json!({"id": "a/b/c", "seconds": 86_401}), "invalid_body", "/seconds"),
        ("/v1/admin/mute", json!({"id": "a/b/c", "seconds": 1, "x": 1}), "unknown_member", "/x"),
    ] {
        cell.post(path, &body).await.faulty(code, &[pointer]);
        cell.send("POST", path, &[], Vec::new()).await.faulty("invalid_json", &[""]);
        cell.send("POST", path, &[("content-type", "text/plain")], b"{}".to_vec())
            .await
            .refused(415, "unsupported_media_type");
    }
}

async fn admin(cell: &Cell) -> AdminClient<Channel> {
    AdminClient::connect(cell.grpc_url.clone()).await.unwrap()
}

#[tokio::test]
async fn over_grpc_an_operator_sees_releases_evicts_and_mutes_as_over_http() {
    let cell = Cell::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut admin = admin(&cell).await;
    let (mut living, mut silent) = (Vec::new(), Vec::new());
    for n in 0..4 {
        for (name, list) in [("live", &mut living), ("mute", &mut silent)] {
            let id = format!("ops/{name}/{n}");
            let epoch = short(&cell, &listener, &id).await;
            list.push((id, epoch));
        }
    }
    let calm = admin.guard(v1::GuardRequest {}).await.unwrap().into_inner();
    assert_eq!((calm.state(), calm.held.len()), (State::Calm, 0));
    let guard = eventually("all four are held", || {
        let mut admin = admin.clone();
        async {
            renew(&cell, &living).await;
            let guard = admin.guard(v1::GuardRequest {}).await.unwrap().into_inner();
            (guard.held.len() == 4).then_some((guard, admin))
        }
    })
    .await
    .0;
    assert_eq!(guard.state(), State::Holding);
    for name in ["region", "zone:a"] {
        let cohort = guard.cohorts.iter().find(|cohort| cohort.cohort == name).unwrap();
        assert_eq!((cohort.registered, cohort.suspects, cohort.limit), (8, 4, 1));
        assert!(cohort.since_ms.is_some() && cohort.settling_until_ms.is_none());
    }

    let ids = ["ops/mute/1", "ops/live/1"].map(str::to_owned).into();
    let outcome = admin.release(v1::ReleaseRequest { ids }).await.unwrap().into_inner();
    assert_eq!((outcome.released, outcome.refused.len()), (vec!["ops/mute/1".to_owned()], 1));
    assert_eq!((&*outcome.refused[0].id, &*outcome.refused[0].why), ("ops/live/1", "it is renewed in time"));

    let evict = v1::EvictRequest { id: "ops/live/2".into(), reason: "a drill".into() };
    let evicted = admin.evict(evict.clone()).await.unwrap().into_inner();
    assert_eq!((&*evicted.region, &*evicted.actor), ("us", "operator:anonymous"));
    cell.get("/v1/agents/ops/live/2").await.refused(404, "not_found");
    let again = admin.evict(evict).await.unwrap_err();
    assert_eq!((again.code(), code_of(&again)), (tonic::Code::NotFound, Some(Code::NotRegistered)));

    let mute = v1::MuteRequest { id: "ops/live/1".into(), seconds: Some(60) };
    let muted = admin.mute(mute).await.unwrap().into_inner();
    assert_eq!(muted.seconds, 60);
    assert!(muted.muted_until_ms > guard.cohorts[0].since_ms.unwrap() + 59_000);
}

#[tokio::test]
async fn over_grpc_every_fault_of_an_operators_call_has_its_code() {
    let cell = Cell::start().await;
    let mut admin = admin(&cell).await;
    let evict = |id: &str, reason: &str| v1::EvictRequest { id: id.into(), reason: reason.into() };
    let mute = |seconds| v1::MuteRequest { id: "a/b/c".into(), seconds };
    let release = |ids: Vec<String>| v1::ReleaseRequest { ids };
    let refused = [
        (admin.evict(evict("a/b", "x")).await.map(drop), Code::InvalidId),
        (admin.evict(evict("a/b/c", " ")).await.map(drop), Code::InvalidBody),
        (admin.evict(evict("a/b/c", &"x".repeat(1_025))).await.map(drop), Code::InvalidBody),
        (admin.mute(mute(None)).await.map(drop), Code::InvalidBody),
        (admin.mute(mute(Some(86_401))).await.map(drop), Code::InvalidBody),
        (admin.mute(mute(Some(1))).await.map(drop), Code::NotRegistered),
        (admin.release(release(vec!["a/b".into()])).await.map(drop), Code::InvalidId),
        (admin.release(release(vec!["a/b/c".into(); 1_001])).await.map(drop), Code::InvalidBody),
    ];
    for (nth, (outcome, code)) in refused.into_iter().enumerate() {
        assert_eq!(code_of(&outcome.unwrap_err()), Some(code), "call {nth}");
    }
    let away = Cell::with("us", &[], Moody::new(Mood::Away)).await;
    let mut admin = self::admin(&away).await;
    for outcome in [
        admin.guard(v1::GuardRequest {}).await.map(drop),
        admin.evict(evict("a/b/c", "x")).await.map(drop),
        admin.mute(mute(Some(1))).await.map(drop),
        admin.release(release(vec!["a/b/c".into()])).await.map(drop),
    ] {
        assert_eq!(code_of(&outcome.unwrap_err()), Some(Code::StoreUnavailable));
    }
}

#[tokio::test]
async fn without_a_keeper_an_operator_is_told_to_come_back() {
    let cell = Cell::with("us", &[], Moody::new(Mood::Away)).await;
    cell.get("/v1/guard").await.refused(503, "store_unavailable");
    for (path, body) in [
        ("/v1/guard/release", json!({"ids": ["a/b/c"]})),
        ("/v1/admin/evict", json!({"id": "a/b/c", "reason": "x"})),
        ("/v1/admin/mute", json!({"id": "a/b/c", "seconds": 1})),
    ] {
        cell.post(path, &body).await.refused(503, "store_unavailable");
    }
}
