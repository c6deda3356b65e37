//! Large answers: how large one is, and what happens while nobody takes them.

use std::collections::BTreeSet;

use http_body_util::BodyExt as _;
use rollcall_model::limits;
use rollcall_proto::Message as _;
use rollcall_proto::v1;
use rollcall_proto::v1::discovery_client::DiscoveryClient;
use serde_json::json;
use tonic::body::Body;
use tonic::codegen::Service as _;
use tonic::transport::Channel;

use super::cell::{Cell, eventually};
use super::grpc::channel;

/// So many of the largest registrations are more than one page.
const MANY: usize = 14;

/// A cell with large agents in the namespace `big`, and one small one beside them, whose epoch this gives.
async fn fleet() -> (Cell, String) {
    let cell = Cell::start().await;
    let capabilities: Vec<_> =
        (0..200).map(|n| json!({"name": format!("c{n}:x:v1"), "description": "d".repeat(1_000)})).collect();
    for n in 0..MANY {
        cell.register(&json!({
            "id": format!("big/x/{n:02}"), "endpoints": [{"url": "http://127.0.0.1:9/"}], "capabilities": capabilities,
        }))
        .await;
    }
    let epoch = cell.register_plain("small/x/1").await;
    (cell, epoch)
}

fn ids<'a>(agents: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    agents.map(str::to_owned).collect()
}

fn all() -> BTreeSet<String> {
    (0..MANY).map(|n| format!("big/x/{n:02}")).collect()
}

#[tokio::test]
async fn a_page_of_large_agents_ends_early_and_the_next_one_goes_on() {
    let (cell, _) = fleet().await;
    let (mut seen, mut pages, mut token) = (Vec::new(), 0, String::new());
    loop {
        let page = cell.get(&format!("/v1/agents?namespace=big&limit=1000{token}")).await;
        assert!(page.text.len() < limits::PAGE_BYTES_MAX + 4_096, "{} bytes", page.text.len());
        let page = page.json();
        let agents = page["agents"].as_array().unwrap();
        assert!(agents.len() > 1);
        seen.extend(agents.iter().map(|agent| agent["id"].as_str().unwrap().to_owned()));
        pages += 1;
        match page["next_page_token"].as_str() {
            Some(next) => token = format!("&page_token={next}"),
            None => break,
        }
    }
    assert_eq!((seen.len(), ids(seen.iter().map(String::as_str))), (MANY, all()), "each of them once");
    assert!(pages > 1);
    let found = cell.get("/v1/resolve?namespace=big&limit=1000").await;
    assert!(found.text.len() < limits::PAGE_BYTES_MAX + 4_096, "{} bytes", found.text.len());
    let found = found.json();
    let many = found["candidates"].as_array().unwrap().len();
    assert!(many > 1 && many < MANY, "{many}");
    assert_eq!((&found["outcome"], &found["regions"][0]["region"]), (&json!("found"), &json!("us")));
    let few = cell.get("/v1/resolve?namespace=big&limit=2").await.json();
    assert_eq!(few["candidates"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_page_of_large_agents_ends_early_over_grpc_too() {
    let (cell, _) = fleet().await;
    let mut discovery = DiscoveryClient::new(channel(&cell.url).await);
    let query = v1::Query { namespace: Some("big".into()), ..v1::Query::default() };
    let mut asked = v1::ListRequest { query: Some(query), limit: 1_000, ..v1::ListRequest::default() };
    let (mut seen, mut pages) = (Vec::new(), 0);
    loop {
        let page = discovery.list(asked.clone()).await.unwrap().into_inner();
        assert!(page.agents.len() > 1);
        seen.extend(page.agents.into_iter().map(|agent| agent.registration.unwrap().declared.unwrap().id));
        pages += 1;
        let Some(next) = page.next_page_token else { break };
        asked.page_token = next;
    }
    assert_eq!((seen.len(), ids(seen.iter().map(String::as_str))), (MANY, all()), "each of them once");
    assert!(pages > 1);
}

/// A caller with so small a window that what it does not read stays with the cell; the kernel takes a page by itself.
async fn narrow(cell: &Cell) -> Channel {
    let endpoint = Channel::from_shared(cell.url.clone()).unwrap();
    endpoint.initial_stream_window_size(65_535).connect().await.unwrap()
}

async fn send(channel: &mut Channel, method: &str, path: &str, message: Vec<u8>) -> http::Response<Body> {
    let mut request = http::Request::builder().method(method).uri(path);
    if method == "POST" {
        request = request.header("content-type", "application/grpc").header("te", "trailers");
    }
    let request = request.body(Body::new(http_body_util::Full::new(message.into()))).unwrap();
    std::future::poll_fn(|cx| channel.poll_ready(cx)).await.unwrap();
    channel.call(request).await.unwrap()
}

#[tokio::test]
async fn f39_i25_answers_that_nobody_takes_are_bounded_together_and_small_ones_go_on() {
    let (cell, epoch) = fleet().await;
    let mut narrow = narrow(&cell).await;
    let (mut held, mut taken, mut refused) = (Vec::new(), 0, 0);
    for n in 0..60 {
        // Each of these is a large answer of its own: a page without room for the next is not kept.
        let path = if n % 2 == 0 { "/v1/agents?namespace=big" } else { "/v1/resolve?namespace=big" };
        let answer = send(&mut narrow, "GET", path, Vec::new()).await;
        match answer.status().as_u16() {
            200 => taken += 1,
            503 => refused += 1,
            other => panic!("{path}: {other}"),
        }
        held.push(answer);
    }
    let most = limits::UNREAD_BYTES_MAX / limits::PAGE_BYTES_MAX;
    assert!(taken >= most - 1 && taken <= most + most / 4, "{taken} taken, {refused} refused");
    let problem = cell.get("/v1/agents?namespace=big&limit=3").await.refused(503, "overloaded");
    assert!(problem["detail"].as_str().unwrap().contains("limit"), "{problem}");
    cell.get("/v1/resolve?namespace=big").await.refused(503, "overloaded");
    cell.get("/v1/agents/big/x/00").await.refused(503, "overloaded");
    let mut discovery = DiscoveryClient::new(channel(&cell.url).await);
    let status = discovery.list(v1::ListRequest::default()).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::Unavailable);
    // What is small, and what owners say, goes on.
    for path in
        ["/v1/agents?namespace=small", "/v1/resolve?namespace=small", "/v1/regions", "/v1/guard", "/metrics"]
    {
        assert_eq!(cell.get(path).await.status, 200, "{path}");
    }
    let lease = "/v1/registrations/small/x/1/lease";
    assert_eq!(cell.fenced("PUT", lease, &epoch, &json!({})).await.status, 200);
    cell.register_plain("small/x/2").await;
    drop(held);
    eventually("room again", || async {
        (cell.get("/v1/agents?namespace=big").await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn i25_a_large_answer_over_grpc_holds_its_room_until_it_is_taken() {
    let (cell, _) = fleet().await;
    let narrow = narrow(&cell).await;
    let query = v1::Query { namespace: Some("big".into()), ..v1::Query::default() };
    let asked = v1::ListRequest { query: Some(query), ..v1::ListRequest::default() }.encode_to_vec();
    let mut message = vec![0];
    message.extend_from_slice(&u32::try_from(asked.len()).unwrap().to_be_bytes());
    message.extend_from_slice(&asked);
    let ask = || {
        let (mut narrow, message) = (narrow.clone(), message.clone());
        async move { send(&mut narrow, "POST", "/rollcall.v1.Discovery/List", message).await }
    };
    // What was begun has its status at its end, which is not read; a refusal has it at once.
    let is_refused = |answer: &http::Response<Body>| answer.headers().get("grpc-status").is_some();
    let mut held = Vec::new();
    for _ in 0..40 {
        let mut answer = ask().await;
        if !is_refused(&answer) {
            assert!(answer.body_mut().frame().await.unwrap().is_ok(), "it is on its way");
        }
        held.push(answer);
    }
    let most = limits::UNREAD_BYTES_MAX / limits::PAGE_BYTES_MAX / 2;
    let taken = held.iter().filter(|answer| !is_refused(answer)).count();
    assert!(taken >= most - 1 && taken <= most + most / 4, "{taken} taken");
    drop(held);
    eventually("room again", || async { (!is_refused(&ask().await)).then_some(()) }).await;
}
