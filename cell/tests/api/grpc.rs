//! gRPC, at its own port and through HTTP's.

use rollcall_model::Code;
use rollcall_proto::refusal::{ENDPOINT_TRAILER, EPOCH_TRAILER, code_of};
use rollcall_proto::v1::discovery_client::DiscoveryClient;
use rollcall_proto::v1::registrar_client::RegistrarClient;
use rollcall_proto::v1::renew_response::result::Outcome;
use rollcall_proto::v1::watch_response::Event;
use rollcall_proto::v1::{self, Endpoint, RegisterRequest, RenewRequest, UpdateRequest, renew_request};
use serde_json::json;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use super::cell::{Cell, DEADLINE, plain};
use super::moody::{Mood, Moody};

pub(super) async fn channel(url: &str) -> Channel {
    Channel::from_shared(url.to_owned()).unwrap().connect().await.unwrap()
}

fn request(id: &str) -> RegisterRequest {
    let endpoint = Endpoint { url: "http://127.0.0.1:9/".into(), protocol: None };
    RegisterRequest { id: id.into(), endpoints: vec![endpoint], ..RegisterRequest::default() }
}

fn renewal(id: &str, epoch: u64) -> renew_request::Item {
    renew_request::Item { id: id.into(), epoch, load: None, lifecycle: 0, holder: None }
}

#[tokio::test]
async fn the_use_cases_are_the_same_at_both_ports() {
    let cell = Cell::start().await;
    for (url, id) in [(&cell.grpc_url, "ops/mail/1"), (&cell.url, "ops/mail/2")] {
        let channel = channel(url).await;
        let mut registrar = RegistrarClient::new(channel.clone());
        let mut discovery = DiscoveryClient::new(channel);
        let registered = registrar.register(request(id)).await.unwrap().into_inner();
        assert_eq!((registered.region.as_str(), registered.lease_seconds), ("us", 30));
        let shown = cell.get(&format!("/v1/agents/{id}")).await.json();
        assert_eq!(shown["epoch"], registered.epoch.to_string());
        let epoch = registered.epoch;

        let items = vec![renewal(id, epoch), renewal("ops/mail/none", epoch)];
        let results = registrar.renew(RenewRequest { items }).await.unwrap().into_inner().results;
        assert!(
            matches!(&results[0].outcome, Some(Outcome::Renewed(renewed)) if renewed.lease_seconds == 30)
        );
        assert!(matches!(&results[1].outcome, Some(Outcome::NotRegistered(_))));

        let update = UpdateRequest {
            id: id.into(),
            epoch,
            lifecycle: v1::Lifecycle::Draining.into(),
            metadata_set: [("k".to_owned(), "v".to_owned())].into(),
            metadata_remove: vec!["other".into()],
        };
        let updated = registrar.update(update).await.unwrap().into_inner().registration.unwrap();
        assert_eq!(updated.owned.unwrap().metadata["k"], "v");

        let get = v1::GetRequest { id: id.into(), region: String::new() };
        let got = discovery.get(get.clone()).await.unwrap().into_inner().agent.unwrap();
        assert_eq!((got.region.as_str(), got.registration.unwrap().epoch), ("us", epoch));

        registrar.deregister(v1::DeregisterRequest { id: id.into(), epoch, holder: None }).await.unwrap();
        let gone = discovery.get(get).await.unwrap_err();
        assert_eq!((gone.code(), code_of(&gone)), (tonic::Code::NotFound, Some(Code::NotFound)));
        let removals = discovery.removals(v1::RemovalsRequest { limit: 1, id: String::new() }).await;
        assert_eq!(removals.unwrap().into_inner().removals[0].removal.as_ref().unwrap().id, id);
    }
}

#[tokio::test]
async fn lists_are_filtered_and_paged() {
    let cell = Cell::start().await;
    for n in 0..3 {
        cell.register_plain(&format!("ops/mail/{n}")).await;
    }
    let mut discovery = DiscoveryClient::new(channel(&cell.url).await);
    let query = v1::Query { name: Some("mail".into()), ..v1::Query::default() };
    let first = v1::ListRequest { query: Some(query), limit: 2, ..v1::ListRequest::default() };
    let page = discovery.list(first.clone()).await.unwrap().into_inner();
    assert_eq!((page.agents.len(), page.regions.len()), (2, 1));
    let second = v1::ListRequest { page_token: page.next_page_token.unwrap(), ..first.clone() };
    let other = v1::ListRequest { query: None, ..second.clone() };
    let page = discovery.list(second).await.unwrap().into_inner();
    assert_eq!((page.agents.len(), page.next_page_token), (1, None));
    for bad in [
        other,
        v1::ListRequest { page_token: "zz".into(), ..first.clone() },
        v1::ListRequest { limit: 1_001, ..first.clone() },
        v1::ListRequest { region: "mars".into(), ..first.clone() },
    ] {
        let status = discovery.list(bad).await.unwrap_err();
        assert_eq!(
            (status.code(), code_of(&status)),
            (tonic::Code::InvalidArgument, Some(Code::InvalidParameter))
        );
    }
    let nameless = v1::Query { metadata: [(String::new(), String::new())].into(), ..v1::Query::default() };
    let nameless = v1::ListRequest { query: Some(nameless), ..v1::ListRequest::default() };
    let status = discovery.list(nameless).await.unwrap_err();
    cell.get("/v1/agents?metadata.=").await.refused(400, "unknown_parameter");
    assert_eq!(code_of(&status), Some(Code::UnknownParameter), "as over HTTP");
    let regions = discovery.regions(v1::RegionsRequest {}).await.unwrap().into_inner().regions;
    assert_eq!((regions[0].region.as_str(), regions[0].count), ("us", Some(3)));
}

#[tokio::test]
async fn res_05_an_empty_list_over_grpc_says_when_nobody_has_the_capability_at_all() {
    let cell = Cell::start().await;
    let mut body = plain("ops/mail/1");
    body["capabilities"] = json!(["email:send:v1"]);
    cell.register(&body).await;
    let mut discovery = DiscoveryClient::new(channel(&cell.url).await);
    for (name, hint) in [
        ("email:sned:v1", Some("nobody in any region that is loaded has email:sned:v1: is it spelt right?")),
        ("email:send:v1", None),
    ] {
        let query =
            v1::Query { capabilities: vec![name.into()], zone: Some("x".into()), ..v1::Query::default() };
        let list = v1::ListRequest { query: Some(query), ..v1::ListRequest::default() };
        let list = discovery.list(list).await.unwrap().into_inner();
        assert_eq!((list.agents.len(), list.hint.as_deref()), (0, hint));
    }
}

#[tokio::test]
async fn refusals_carry_their_code_in_trailers() {
    let cell = Cell::start().await;
    let mut registrar = RegistrarClient::new(channel(&cell.url).await);
    let bad = registrar.register(request("A/b/c")).await.unwrap_err();
    assert_eq!((bad.code(), code_of(&bad)), (tonic::Code::InvalidArgument, Some(Code::InvalidId)));
    let old = registrar.register(request("ops/mail/1")).await.unwrap().into_inner().epoch;
    let new = registrar.register(request("ops/mail/1")).await.unwrap().into_inner().epoch;
    let late = v1::DeregisterRequest { id: "ops/mail/1".into(), epoch: old, holder: None };
    let lost = registrar.deregister(late).await.unwrap_err();
    assert_eq!((lost.code(), code_of(&lost)), (tonic::Code::FailedPrecondition, Some(Code::Superseded)));
    assert_eq!(lost.metadata().get(EPOCH_TRAILER).unwrap().to_str().unwrap(), new.to_string());
    assert_eq!(lost.metadata().get(ENDPOINT_TRAILER).unwrap(), "http://127.0.0.1:9/");
    let items = vec![renewal("ops/mail/1", old)];
    let results = registrar.renew(RenewRequest { items }).await.unwrap().into_inner().results;
    assert!(matches!(&results[0].outcome, Some(Outcome::Superseded(current)) if current.epoch == new));
    let unknown = RegisterRequest { kind: 9, ..request("ops/mail/2") };
    let status = registrar.register(unknown).await.unwrap_err();
    assert_eq!(code_of(&status), Some(Code::InvalidBody));
}

#[tokio::test]
async fn a_call_without_an_epoch_is_told_that_it_needs_one() {
    let cell = Cell::start().await;
    let mut registrar = RegistrarClient::new(channel(&cell.url).await);
    registrar.register(request("ops/mail/1")).await.unwrap();
    let id = || "ops/mail/1".to_owned();
    let lifecycle = v1::Lifecycle::Draining.into();
    let update = UpdateRequest { id: id(), lifecycle, ..UpdateRequest::default() };
    let refused = [
        registrar.deregister(v1::DeregisterRequest { id: id(), ..Default::default() }).await.unwrap_err(),
        registrar.update(update).await.unwrap_err(),
        registrar.renew(RenewRequest { items: vec![renewal("ops/mail/1", 0)] }).await.unwrap_err(),
    ];
    for status in refused {
        assert_eq!(
            (status.code(), code_of(&status)),
            (tonic::Code::InvalidArgument, Some(Code::EpochRequired))
        );
    }
    assert_eq!(cell.get("/v1/agents/ops/mail/1").await.status, 200);
}

#[tokio::test]
async fn a_watch_pages_a_snapshot_and_goes_on_from_a_position() {
    let cell = Cell::start().await;
    for n in 0..3 {
        cell.register_plain(&format!("ops/mail/{n}")).await;
    }
    let mut discovery = DiscoveryClient::new(channel(&cell.url).await);
    let mut stream = discovery.watch(v1::WatchRequest::default()).await.unwrap().into_inner();
    let mut next = async || {
        let message = tokio::time::timeout(DEADLINE, stream.message()).await.unwrap().unwrap();
        message.unwrap().event.unwrap()
    };
    let Event::SnapshotBegin(head) = next().await else { panic!("no head") };
    let Event::Page(page) = next().await else { panic!("no page") };
    let Event::SnapshotEnd(end) = next().await else { panic!("no end") };
    assert_eq!((head.count, page.records.len()), (3, 3));
    cell.register_plain("ops/mail/3").await;
    let since = v1::WatchRequest { since: end.position, ..v1::WatchRequest::default() };
    let mut resumed = discovery.watch(since).await.unwrap().into_inner();
    loop {
        let message = tokio::time::timeout(DEADLINE, resumed.message()).await.unwrap().unwrap();
        match message.unwrap().event.unwrap() {
            Event::Bookmark(_) => {}
            Event::Delta(delta) => {
                assert_eq!(delta.changes.len(), 1);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    let all = v1::WatchRequest { region: "all".into(), ..v1::WatchRequest::default() };
    let status = discovery.watch(all).await.unwrap_err();
    assert_eq!(code_of(&status), Some(Code::InvalidParameter));
}

#[tokio::test]
async fn i46_what_an_owner_chose_arrives_with_equal_bytes_whatever_it_looks_like() {
    let cell = Cell::start().await;
    let mut registration = plain("ops/mail/1");
    registration["capabilities"] = json!([{"name": "mail:send:v1", "description": "d".repeat(1_000)}]);
    let epoch = cell.register(&registration).await;
    let mut discovery = DiscoveryClient::new(channel(&cell.url).await);
    let mut stream = discovery.watch(v1::WatchRequest::default()).await.unwrap().into_inner();
    // What HTTP/1's machine says by itself, as the last bytes of a message.
    let text = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\
                date: Mon, 30 Nov 2026 09:40:08 GMT\r\n\r\n";
    let change = json!({"metadata": {"m": text}});
    let patched = cell.fenced("PATCH", "/v1/registrations/ops/mail/1", &epoch, &change).await;
    assert_eq!(patched.status, 200);
    let told = loop {
        let message = tokio::time::timeout(DEADLINE, stream.message()).await.unwrap().unwrap();
        if let Event::Delta(delta) = message.unwrap().event.unwrap() {
            break delta;
        }
    };
    let Some(v1::change::Change::Put(put)) = told.changes[0].change.clone() else { panic!("{told:?}") };
    assert_eq!(put.owned.unwrap().metadata["m"], text);
    let request = v1::GetRequest { id: "ops/mail/1".into(), ..v1::GetRequest::default() };
    let got = discovery.get(request).await.unwrap().into_inner().agent.unwrap().registration.unwrap();
    assert_eq!(got.owned.unwrap().metadata["m"], text);
}

#[tokio::test]
async fn health_follows_whether_the_region_can_be_served() {
    let ask = |service: &str| HealthCheckRequest { service: service.into() };
    let store = Moody::new(Mood::Away);
    let cell = Cell::with("us", &[], store.clone()).await;
    let mut health = HealthClient::new(channel(&cell.url).await);
    let status = health.check(ask("rollcall.v1.Registrar")).await.unwrap().into_inner().status();
    assert_eq!(status, ServingStatus::NotServing);
    let mut watch = health.watch(ask("")).await.unwrap().into_inner();
    let mut next = async || {
        let message = tokio::time::timeout(DEADLINE, watch.message()).await.unwrap().unwrap();
        message.unwrap().status()
    };
    assert_eq!(next().await, ServingStatus::NotServing);
    store.becomes(Mood::Well);
    assert_eq!(next().await, ServingStatus::Serving);
    let unknown = health.check(ask("no.Such")).await.unwrap_err();
    assert_eq!((unknown.code(), code_of(&unknown)), (tonic::Code::NotFound, Some(Code::NotFound)));
}

#[tokio::test]
async fn reflection_names_every_service() {
    let cell = Cell::start().await;
    let mut reflection = ServerReflectionClient::new(channel(&cell.url).await);
    let list = MessageRequest::ListServices(String::new());
    let question = ServerReflectionRequest { host: String::new(), message_request: Some(list) };
    let asked = reflection.server_reflection_info(tokio_stream::once(question)).await;
    let answer = asked.unwrap().into_inner().message().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(services)) = answer.message_response else {
        panic!("{answer:?}")
    };
    let mut names: Vec<_> = services.service.into_iter().map(|service| service.name).collect();
    names.sort();
    let expected = [
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
        "rollcall.v1.Admin",
        "rollcall.v1.Discovery",
        "rollcall.v1.Keeper",
        "rollcall.v1.Registrar",
    ];
    assert_eq!(names, expected);
    // Tools of before ask by the older name, for the same.
    use tonic_reflection::pb::v1alpha as older;
    let mut reflection =
        older::server_reflection_client::ServerReflectionClient::new(channel(&cell.url).await);
    let list = older::server_reflection_request::MessageRequest::ListServices(String::new());
    let question = older::ServerReflectionRequest { host: String::new(), message_request: Some(list) };
    let asked = reflection.server_reflection_info(tokio_stream::once(question)).await;
    let answer = asked.unwrap().into_inner().message().await.unwrap().unwrap().message_response;
    let Some(older::server_reflection_response::MessageResponse::ListServicesResponse(services)) = answer
    else {
        panic!("{answer:?}")
    };
    let mut names: Vec<_> = services.service.into_iter().map(|service| service.name).collect();
    names.sort();
    assert_eq!(names, expected);
}

#[tokio::test]
async fn an_unknown_grpc_path_is_answered_in_grpc() {
    let cell = Cell::start().await;
    for kind in ["application/grpc", "application/grpc+proto"] {
        let answer = cell.send("POST", "/no.Such/Method", &[("content-type", kind)], Vec::new()).await;
        assert_eq!((answer.status, answer.header("grpc-status")), (200, Some("12")), "{}", answer.text);
        assert_eq!(answer.header("rollcall-code"), Some("method_not_allowed"));
    }
    cell.send("POST", "/no.Such/Method", &[], Vec::new()).await.refused(404, "not_found");
}

#[tokio::test]
async fn what_grpc_itself_refuses_has_a_code_of_the_table() {
    let cell = Cell::start().await;
    let method = "/rollcall.v1.Registrar/Register";
    let frame = |declared: u32, sent: &[u8]| [&[0], &declared.to_be_bytes()[..], sent].concat();
    for (path, encoding, body, status, code) in [
        ("/rollcall.v1.Registrar/Nothing", "identity", frame(0, b""), "12", "method_not_allowed"),
        ("/rollcall.v1.Nothing/Register", "identity", frame(0, b""), "12", "method_not_allowed"),
        (method, "identity", frame(4, b"\xff\xff\xff\xff"), "3", "invalid_body"),
        (method, "identity", frame(9, b"cut"), "3", "invalid_body"),
        (method, "identity", Vec::new(), "3", "invalid_body"),
        (method, "identity", [&[1], &frame(0, b"")[1..]].concat(), "3", "invalid_body"),
        (method, "identity", frame(262_145, b""), "3", "too_large"),
        (method, "gzip", frame(0, b""), "12", "method_not_allowed"),
        ("/rollcall.v1.Discovery/Watch", "identity", frame(1, b"\xff"), "3", "invalid_body"),
    ] {
        let headers = [("content-type", "application/grpc"), ("grpc-encoding", encoding), ("te", "trailers")];
        let answer = cell.send("POST", path, &headers, body).await;
        let told = (answer.header("grpc-status"), answer.header("rollcall-code"));
        assert_eq!(told, (Some(status), Some(code)), "{path} {:?}", answer.headers);
        assert!(!answer.header("grpc-message").unwrap_or_default().is_empty(), "{path}: no words");
    }
}

#[tokio::test]
async fn the_largest_batch_of_renewals_fits_into_a_request() {
    let cell = Cell::start().await;
    let part = "x".repeat(41);
    let item = |n: usize| renew_request::Item {
        load: Some(v1::Load { queue_depth: u32::MAX, in_flight: u32::MAX, error_rate: 0.5 }),
        lifecycle: v1::Lifecycle::Degraded.into(),
        ..renewal(&format!("{part}/{part}/{part}{n:03}"), (1 << 52) - 1)
    };
    let mut registrar = RegistrarClient::new(channel(&cell.url).await);
    let items: Vec<_> = (0..1_000).map(item).collect();
    let results = registrar.renew(RenewRequest { items }).await.unwrap().into_inner().results;
    assert_eq!(results.len(), 1_000);
}
