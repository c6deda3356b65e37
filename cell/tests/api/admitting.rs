//! Admission: a storm of new registrations is told when to come back, and does not touch those who are known.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rollcall_cell::config::{AddressShare, AdmissionConfig};
use rollcall_model::Code;
use rollcall_proto::refusal::{code_of, retry_after_of};
use rollcall_proto::v1::registrar_client::RegistrarClient;
use rollcall_proto::v1::{Endpoint, RegisterRequest};
use serde_json::{Value, json};

use super::cell::{Cell, eventually, plain};

const LEASE: &str = "/v1/registrations/ops/known/1/lease";

const fn narrow(burst: u32, address_share: AddressShare) -> AdmissionConfig {
    AdmissionConfig { registrations_per_second: 1, burst, renewals_per_second: 50_000, address_share }
}

/// What came back in the time since `started`, at a token a second.
fn came_back(started: Instant) -> usize {
    usize::try_from(started.elapsed().as_secs() + 1).unwrap()
}

#[tokio::test]
async fn i14_while_new_ones_are_refused_with_a_wait_every_renewal_is_answered() {
    let started = Instant::now();
    let cell = Cell::admitting(narrow(20, AddressShare::Whole)).await;
    let epoch = cell.register_plain("ops/known/1").await;
    let storm = join_all((0..80).map(|n| {
        let cell = &cell;
        async move { cell.post("/v1/registrations", &plain(&format!("ops/new/{n}"))).await }
    }));
    let beats = join_all((0..80).map(|_| cell.fenced("PUT", LEASE, &epoch, &Value::Null)));
    let batch = json!({"renewals": vec![json!({"id": "ops/known/1", "epoch": epoch}); 1_000]});
    let batches = join_all((0..4).map(|_| cell.post("/v1/renewals", &batch)));
    let (storm, beats, batches) = tokio::join!(storm, beats, batches);
    assert!(beats.iter().chain(&batches).all(|answer| answer.status == 200), "I14");
    let admitted = storm.iter().filter(|answer| answer.status == 201).count();
    assert!((19..=19 + came_back(started)).contains(&admitted), "{admitted} were admitted");
    for refused in storm.iter().filter(|answer| answer.status != 201) {
        // Checks Retry-After too.
        refused.refused(429, "rate_limited");
    }
    let shown = cell.get("/v1/agents?name=new&limit=1000").await.json();
    assert_eq!(shown["agents"].as_array().unwrap().len(), admitted, "a refusal registered nothing");
    let figures = cell.get("/metrics").await.text;
    let line = format!("rollcall_cell_admission_refusals_total{{reason=\"too_many\"}} {}", 80 - admitted);
    assert!(figures.contains(&line), "{line} is not in {figures}");
}

#[tokio::test]
async fn adm_02_an_instance_that_is_known_registers_anew_while_new_ones_are_refused() {
    let cell = Cell::admitting(narrow(1, AddressShare::Whole)).await;
    cell.register_plain("ops/known/1").await;
    let refused = cell.post("/v1/registrations", &plain("ops/new/1")).await;
    refused.refused(429, "rate_limited");
    for _ in 0..10 {
        cell.register_plain("ops/known/1").await;
    }
    cell.post("/v1/registrations", &json!({"id": "ops/new/1"})).await.refused(400, "invalid_body");
    // Who waits as long as was said comes in, if nobody else does.
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    let (told, since) = (Duration::from_secs(wait), Instant::now());
    eventually("the refused one registers", || async {
        let answer = cell.post("/v1/registrations", &plain("ops/new/1")).await;
        assert!(answer.status == 201 || since.elapsed() < told, "not within the {told:?} it was told");
        (answer.status == 201).then_some(())
    })
    .await;
}

#[tokio::test]
async fn one_address_has_a_tenth_of_the_new_registrations() {
    let started = Instant::now();
    let cell = Cell::admitting(narrow(100, AddressShare::Tenth)).await;
    let asked = (0..40).map(|n| {
        let cell = &cell;
        async move { cell.post("/v1/registrations", &plain(&format!("ops/new/{n}"))).await }
    });
    let answers = join_all(asked).await;
    let admitted = answers.iter().filter(|answer| answer.status == 201).count();
    assert!((10..=10 + came_back(started)).contains(&admitted), "{admitted} were admitted");
    for refused in answers.iter().filter(|answer| answer.status != 201) {
        let problem = refused.refused(429, "rate_limited");
        assert!(problem["detail"].as_str().unwrap().contains("this address"), "{problem}");
    }
}

#[tokio::test]
async fn grpc_callers_pass_the_same_door_at_both_addresses() {
    let cell = Cell::admitting(narrow(10, AddressShare::Tenth)).await;
    let request = |id: &str| RegisterRequest {
        id: id.into(),
        endpoints: vec![Endpoint { url: "http://127.0.0.1:9/".into(), ..Endpoint::default() }],
        ..RegisterRequest::default()
    };
    let mut alone = RegistrarClient::connect(cell.grpc_url.clone()).await.unwrap();
    alone.register(request("ops/known/1")).await.unwrap();
    let mut both = RegistrarClient::connect(cell.url.clone()).await.unwrap();
    for client in [&mut alone, &mut both] {
        client.register(request("ops/known/1")).await.unwrap();
        let refused = client.register(request("ops/new/1")).await.unwrap_err();
        assert_eq!(
            (refused.code(), code_of(&refused)),
            (tonic::Code::ResourceExhausted, Some(Code::RateLimited))
        );
        assert!(retry_after_of(&refused).unwrap() >= Duration::from_secs(1));
        assert!(refused.message().contains("this address"), "{}", refused.message());
    }
}
