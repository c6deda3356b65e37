//! Several processes of one cell: each takes everything, and one of them keeps the leases.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rollcall_cell::store::embedded::Embedded;
use rollcall_cell::store::{Store as _, Tenure};
use rollcall_proto::v1::ask_request::question::About;
use rollcall_proto::v1::ask_request::{Hold, Mute, Question, Release};
use rollcall_proto::v1::ask_response::{self, NoOffice, Renewed, answer};
use rollcall_proto::v1::keeper_client::KeeperClient;
use rollcall_proto::v1::keeper_server::{Keeper, KeeperServer};
use rollcall_proto::v1::{AskRequest, AskResponse};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tonic::{Request, Response, Status};

use super::cell::{Answer, Cell, eventually, plain};

const LEASE: &str = "/v1/registrations/ops/mail/1/lease";
/// How long a registrant waits for an answer.
const REGISTRANTS_PATIENCE: Duration = Duration::from_secs(3);

async fn process(store: &Embedded) -> Cell {
    let cell = Cell::with("us", &[], store.clone()).await;
    eventually("a process that serves", || async { (cell.get("/readyz").await.status == 200).then_some(()) })
        .await;
    cell
}

/// The process that keeps the leases, and another one.
async fn two() -> (Cell, Cell) {
    let store = Embedded::memory().unwrap();
    let keeper = process(&store).await;
    keeper.keeps().await;
    (keeper, process(&store).await)
}

async fn renew(cell: &Cell, epoch: &str) -> Answer {
    cell.fenced("PUT", LEASE, epoch, &Value::Null).await
}

/// Waits until a process knows a registration.
async fn shown(cell: &Cell, id: &str) {
    eventually("the registration is known there", || async {
        (cell.get(&format!("/v1/agents/{id}")).await.status == 200).then_some(())
    })
    .await;
}

/// A keeper's process that was elected and answers like this.
struct Fake {
    asked: Arc<AtomicUsize>,
    is_frozen: Arc<AtomicBool>,
}

impl Fake {
    fn new() -> Self {
        Self { asked: Arc::default(), is_frozen: Arc::default() }
    }

    fn routes(self) -> axum::Router {
        tonic::service::Routes::new(KeeperServer::new(self)).into_axum_router()
    }
}

#[tonic::async_trait]
impl Keeper for Fake {
    async fn ask(&self, request: Request<AskRequest>) -> Result<Response<AskResponse>, Status> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.is_frozen.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        let renewed = answer::Answer::Renewed(Renewed { lease_seconds: 30, superseded: false });
        let answer = ask_response::Answer { answer: Some(renewed) };
        let answers = vec![answer; request.into_inner().questions.len()];
        Ok(Response::new(AskResponse { answers }))
    }
}

/// A store in which this address holds the keeper's office, for as long as the tenure lives.
async fn kept_by(address: &str) -> (Embedded, Tenure) {
    let store = Embedded::memory().unwrap();
    let tenure = store.campaign(&format!("http://{address}")).await.unwrap();
    (store, tenure)
}

/// A process whose keeper is a fake one, and how often that was asked.
async fn with_fake(is_frozen: bool) -> (Cell, Tenure, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (store, tenure) = kept_by(&listener.local_addr().unwrap().to_string()).await;
    let fake = Fake::new();
    fake.is_frozen.store(is_frozen, Ordering::SeqCst);
    let asked = Arc::clone(&fake.asked);
    tokio::spawn(async move { axum::serve(listener, fake.routes()).await });
    (process(&store).await, tenure, asked)
}

/// The keys of the keeper's office.
async fn offices(store: &Embedded) -> usize {
    store.list("keeper/", None, None, 10).await.unwrap().entries.len()
}

#[tokio::test]
async fn i10_the_office_of_a_keeper_that_answered_and_then_refuses_connections_is_vacated() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (store, _tenure) = kept_by(&listener.local_addr().unwrap().to_string()).await;
    // With its runtime the fake's process ends, listener and connections and all.
    let process = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = listener.into_std().unwrap();
    process.spawn(async move {
        axum::serve(TcpListener::from_std(listener).unwrap(), Fake::new().routes()).await
    });
    let cell = self::process(&store).await;
    let epoch = cell.register_plain("ops/mail/1").await;
    assert_eq!(renew(&cell, &epoch).await.status, 200);
    assert_eq!(offices(&store).await, 1);
    process.shutdown_background();
    renew(&cell, &epoch).await.refused(503, "store_unavailable");
    eventually("the office is vacated", || async { (offices(&store).await == 0).then_some(()) }).await;
}

#[tokio::test]
async fn i10_a_keeper_that_is_silent_or_was_never_heard_keeps_its_office() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (heard_store, _heard) = kept_by(&listener.local_addr().unwrap().to_string()).await;
    let fake = Fake::new();
    let is_frozen = Arc::clone(&fake.is_frozen);
    tokio::spawn(async move { axum::serve(listener, fake.routes()).await });
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
    let (unheard_store, _unheard) = kept_by(&nobody).await;
    let (heard, unheard) = (process(&heard_store).await, process(&unheard_store).await);
    let epoch = heard.register_plain("ops/mail/1").await;
    assert_eq!(renew(&heard, &epoch).await.status, 200);
    is_frozen.store(true, Ordering::SeqCst);
    let other = unheard.register_plain("ops/mail/1").await;
    for _ in 0..3 {
        renew(&heard, &epoch).await.refused(503, "store_unavailable");
        renew(&unheard, &other).await.refused(503, "store_unavailable");
    }
    assert_eq!((offices(&heard_store).await, offices(&unheard_store).await), (1, 1));
}

#[tokio::test]
async fn a_renewal_at_any_process_moves_the_lease_and_every_process_shows_it() {
    let (keeper, other) = two().await;
    let epoch = other.register_plain("ops/mail/1").await;
    assert_eq!(renew(&other, &epoch).await.status, 200);
    for (at, shows) in [(&other, &keeper), (&keeper, &other), (&other, &other)] {
        let before = shows.get(LEASE).await.json();
        assert_eq!((&before["state"], &before["epoch"]), (&json!("live"), &json!(epoch)));
        eventually("a later renewal is shown", || async {
            let answer = renew(at, &epoch).await;
            assert_eq!(answer.status, 200, "{}", answer.text);
            assert_eq!(answer.json()["lease_seconds"], 30);
            let now = shows.get(LEASE).await.json();
            (now["last_renewal_at"].as_str() > before["last_renewal_at"].as_str()).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_forwarder_tells_superseded_and_not_registered_as_the_keeper_judges() {
    let (keeper, other) = two().await;
    let old = keeper.register_plain("ops/mail/1").await;
    let body = json!({"id": "ops/mail/1", "endpoints": [{"url": "http://new:1/"}]});
    let new = keeper.register(&body).await;
    let problem = renew(&other, &old).await.refused(412, "superseded");
    assert_eq!(
        (&problem["current"]["epoch"], &problem["current"]["endpoint"]),
        (&json!(new), &json!("http://new:1/"))
    );
    assert_eq!(renew(&other, &new).await.status, 200);
    let unknown = "/v1/registrations/ops/mail/2/lease";
    other.fenced("PUT", unknown, &old, &Value::Null).await.refused(404, "not_registered");
    other.get(unknown).await.refused(404, "not_registered");
}

#[tokio::test]
async fn what_a_renewal_reports_at_any_process_is_shown_to_readers() {
    let (_keeper, other) = two().await;
    let epoch = other.register_plain("ops/mail/1").await;
    let load = json!({"queue_depth": 3, "in_flight": 2, "error_rate": 0.25});
    let answer = other.fenced("PUT", LEASE, &epoch, &json!({"load": load})).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(other.get("/v1/agents/ops/mail/1").await.json()["load"], load);
}

#[tokio::test]
async fn a_thousand_renewals_go_to_the_keeper_as_a_few_messages() {
    let (cell, _tenure, asked) = with_fake(false).await;
    let renewals: Vec<_> = (0..1_000).map(|n| json!({"id": format!("ops/mail/{n}"), "epoch": "7"})).collect();
    let answer = cell.post("/v1/renewals", &json!({"renewals": renewals})).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let results = answer.json()["results"].as_array().unwrap().clone();
    assert_eq!(results.len(), 1_000);
    assert!(results.iter().all(|result| result["status"] == "ok"));
    let figures = cell.get("/metrics").await.text;
    assert!(
        figures.contains("rollcall_cell_forward_questions_total{outcome=\"answered\"} 1000\n"),
        "{figures}"
    );
    let messages = asked.load(Ordering::SeqCst);
    assert!((1..=20).contains(&messages), "{messages} messages");
}

#[tokio::test]
async fn a_question_of_another_process_is_never_forwarded_again() {
    let (cell, _tenure, asked) = with_fake(false).await;
    let epoch = cell.register_plain("ops/mail/1").await.parse().unwrap();
    let mut client = KeeperClient::connect(cell.grpc_url.clone()).await.unwrap();
    let hold = || Hold { id: "ops/mail/1".into(), epoch, holder: "default".into() };
    let lease = About::Lease("ops/mail/1".into());
    let questions = [About::Renew(hold()), About::LetGo(hold()), About::Wrote(hold()), lease];
    let questions: Vec<_> = questions.map(|about| Question { about: Some(about) }).into();
    let answers = client.ask(AskRequest { questions }).await.unwrap().into_inner().answers;
    let no_office = ask_response::Answer { answer: Some(answer::Answer::NoOffice(NoOffice {})) };
    assert_eq!(answers, vec![no_office; 4]);
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn the_keeper_takes_no_more_from_another_process_than_from_an_operator() {
    let cell = Cell::start().await;
    cell.keeps().await;
    cell.register_plain("ops/mail/1").await;
    let mut client = KeeperClient::connect(cell.grpc_url.clone()).await.unwrap();
    let mute = |seconds| Mute { id: "ops/mail/1".into(), seconds, operator: "x".into() };
    let release = Release { ids: vec!["ops/mail/1".into(); 1_001], operator: "x".into() };
    let questions = [About::Mute(mute(86_401)), About::Mute(mute(u64::MAX)), About::Release(release)];
    for about in questions {
        let questions = vec![Question { about: Some(about) }];
        let answers = client.ask(AskRequest { questions }).await.unwrap().into_inner().answers;
        let Some(answer::Answer::Refusal(refusal)) = &answers[0].answer else { panic!("{answers:?}") };
        assert_eq!(refusal.code, "invalid_body");
        assert!(refusal.detail.contains("at most 86400") || refusal.detail.contains("1,000"), "{refusal:?}");
    }
    let questions = vec![Question { about: Some(About::Mute(mute(86_400))) }];
    let answers = client.ask(AskRequest { questions }).await.unwrap().into_inner().answers;
    assert_eq!(answers[0].answer, Some(answer::Answer::Yes(true)), "a day is allowed");
}

#[tokio::test]
async fn a_frozen_keeper_costs_a_refusal_in_time_and_nothing_else() {
    let (cell, _tenure, asked) = with_fake(true).await;
    let epoch = cell.register_plain("ops/mail/1").await;
    let refused = tokio::spawn(tokio::time::timeout(REGISTRANTS_PATIENCE, async move {
        renew(&cell, &epoch).await.refused(503, "store_unavailable");
        cell
    }));
    eventually("the keeper is asked", || async { (asked.load(Ordering::SeqCst) > 0).then_some(()) }).await;
    let cell = refused.await.unwrap().expect("a refusal within a registrant's patience");
    cell.get(LEASE).await.refused(503, "store_unavailable");
    cell.get("/v1/guard").await.refused(503, "store_unavailable");
    assert_eq!(cell.get("/v1/agents/ops/mail/1").await.status, 200);
    assert_eq!(cell.post("/v1/registrations", &plain("ops/mail/2")).await.status, 201);
}

#[tokio::test]
async fn while_the_keeper_is_dead_renewals_are_refused_and_go_on_after_the_next_took_over() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = gone.local_addr().unwrap().to_string();
    drop(gone);
    let (store, tenure) = kept_by(&address).await;
    let cell = process(&store).await;
    let epoch = cell.register_plain("ops/mail/1").await;
    for _ in 0..3 {
        renew(&cell, &epoch).await.refused(503, "store_unavailable");
    }
    store.resign(&tenure).await;
    cell.keeps().await;
    assert_eq!(renew(&cell, &epoch).await.status, 200);
}

#[tokio::test]
async fn when_the_keepers_process_stops_the_other_takes_over_and_loses_no_lease() {
    let (keeper, other) = two().await;
    let epoch = other.register_plain("ops/mail/1").await;
    assert_eq!(renew(&other, &epoch).await.status, 200);
    keeper.tasks.cancelled().cancel();
    eventually("the other process keeps the leases", || async {
        let answer = renew(&other, &epoch).await;
        if answer.status != 200 {
            answer.refused(503, "store_unavailable");
        }
        other.get("/readyz?verbose").await.text.contains("): this process").then_some(())
    })
    .await;
    other.keeps().await;
    assert_eq!(renew(&other, &epoch).await.status, 200);
}

#[tokio::test]
async fn operators_see_and_act_on_the_guard_at_every_process() {
    let (keeper, other) = two().await;
    let epoch = other.register_plain("ops/mail/1").await;
    shown(&keeper, "ops/mail/1").await;
    let guard = eventually("a sweep that counted it", || async {
        let guard = other.get("/v1/guard").await.json();
        (guard["cohorts"][0]["registered"] == 1).then_some(guard)
    })
    .await;
    assert_eq!((&guard["state"], &guard["cohorts"][0]["cohort"]), (&json!("calm"), &json!("region")));
    let ids = json!({"ids": ["ops/mail/1", "ops/mail/2"]});
    let released = other.post("/v1/guard/release", &ids).await.json();
    let refused = json!([
        {"id": "ops/mail/1", "why": "it is renewed in time"},
        {"id": "ops/mail/2", "why": "it is not registered"},
    ]);
    assert_eq!(released, json!({"released": [], "refused": refused}));
    let mute = |id: &str| json!({"id": id, "seconds": 3_600});
    other.post("/v1/admin/mute", &mute("ops/mail/2")).await.refused(404, "not_registered");
    assert_eq!(other.post("/v1/admin/mute", &mute("ops/mail/1")).await.status, 200);
    let before = keeper.get(LEASE).await.json()["last_renewal_at"].clone();
    for cell in [&keeper, &other] {
        assert_eq!(renew(cell, &epoch).await.status, 200);
        assert_eq!(cell.get(LEASE).await.json()["last_renewal_at"], before, "a muted renewal moves nothing");
    }
}

#[tokio::test]
async fn holders_of_a_shared_entry_join_and_leave_at_any_process_and_the_last_one_ends_it() {
    let (keeper, other) = two().await;
    let shared = |holder: &str| json!({"id": "ops/mail/1", "scope": "service", "holder": holder, "endpoints": [{"url": "http://mail/"}]});
    let epoch = other.register(&shared("pod-1")).await;
    shown(&keeper, "ops/mail/1").await;
    for (cell, holder) in [(&keeper, "pod-2"), (&other, "pod-3")] {
        let answer = cell.post("/v1/registrations", &shared(holder)).await;
        assert_eq!(
            (answer.status, answer.json()["epoch"].as_str()),
            (200, Some(epoch.as_str())),
            "{}",
            answer.text
        );
    }
    let names = |lease: &Value| -> Vec<String> {
        let holders = lease["holders"].as_array().unwrap();
        holders.iter().map(|holder| holder["holder"].as_str().unwrap().to_owned()).collect()
    };
    for cell in [&keeper, &other] {
        assert_eq!(names(&cell.get(LEASE).await.json()), ["pod-1", "pod-2", "pod-3"]);
    }
    let leave = async |cell: &Cell, holder: &str| {
        let path = format!("/v1/registrations/ops/mail/1?holder={holder}");
        let answer = cell.fenced("DELETE", &path, &epoch, &Value::Null).await;
        assert_eq!(answer.status, 204, "{holder}: {}", answer.text);
    };
    leave(&other, "pod-1").await;
    leave(&keeper, "pod-2").await;
    assert_eq!(names(&other.get(LEASE).await.json()), ["pod-3"]);
    leave(&other, "pod-3").await;
    renew(&other, &epoch).await.refused(404, "not_registered");
    assert_eq!(keeper.get("/v1/agents/ops/mail/1").await.status, 404);
}
