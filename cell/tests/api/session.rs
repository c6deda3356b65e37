//! A writer's calls on one stream.

use std::collections::BTreeMap;

use bytes::{Buf as _, BufMut as _};
use rollcall_cell::config::{AddressShare, AdmissionConfig};
use rollcall_model::Code;
use rollcall_proto::refusal::code_of;
use rollcall_proto::v1::registrar_client::RegistrarClient;
use rollcall_proto::v1::renew_response::result::Outcome;
use rollcall_proto::v1::session_request::Request;
use rollcall_proto::v1::session_response::Response;
use rollcall_proto::v1::{self, Endpoint, RegisterRequest, SessionRequest, SessionResponse, renew_request};
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Status, Streaming};

use super::cell::{Cell, DEADLINE};

/// A session and its two ends.
struct Session {
    asks: mpsc::Sender<SessionRequest>,
    answers: Streaming<SessionResponse>,
}

impl Session {
    async fn open(cell: &Cell) -> Self {
        let (asks, asked) = mpsc::channel(1_024);
        let mut registrar = RegistrarClient::connect(cell.url.clone()).await.unwrap();
        let answers = registrar.session(ReceiverStream::new(asked)).await.unwrap().into_inner();
        Self { asks, answers }
    }

    async fn ask(&self, call: u64, request: Request) {
        self.asks.send(SessionRequest { call, request: Some(request) }).await.unwrap();
    }

    async fn answer(&mut self) -> (u64, Response) {
        let answer = tokio::time::timeout(DEADLINE, self.answers.message()).await.expect("an answer in time");
        let answer = answer.unwrap().expect("the stream goes on");
        (answer.call, answer.response.unwrap())
    }
}

fn register(id: &str) -> Request {
    let endpoint = Endpoint { url: "http://127.0.0.1:9/".into(), protocol: None };
    Request::Register(RegisterRequest {
        id: id.into(),
        endpoints: vec![endpoint],
        ..RegisterRequest::default()
    })
}

fn renewal(id: &str, epoch: u64) -> renew_request::Item {
    renew_request::Item { id: id.into(), epoch, ..renew_request::Item::default() }
}

fn code(response: &Response) -> &str {
    match response {
        Response::Refusal(refusal) => &refusal.code,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn renewals_of_a_session_are_counted() {
    let cell = Cell::start().await;
    let mut session = Session::open(&cell).await;
    session.ask(1, register("ops/mail/1")).await;
    let (1, Response::Register(registered)) = session.answer().await else { panic!("not registered") };
    for items in [1, 20] {
        let items = vec![renewal("ops/mail/1", registered.epoch); items];
        session.ask(2, Request::Renew(v1::RenewRequest { items })).await;
        let (2, Response::Renew(_)) = session.answer().await else { panic!("not renewed") };
    }
    let figures = cell.get("/metrics").await.text;
    assert!(figures.contains(r#"rollcall_cell_lease_renewals_total{outcome="ok"} 21"#), "{figures}");
}

#[tokio::test]
async fn every_call_of_a_writer_goes_on_one_stream() {
    let cell = Cell::start().await;
    let mut session = Session::open(&cell).await;
    session.ask(7, register("ops/mail/1")).await;
    let (call, Response::Register(registered)) = session.answer().await else { panic!("not registered") };
    assert_eq!((call, registered.region.as_str(), registered.lease_seconds), (7, "us", 30));
    let (id, epoch) = ("ops/mail/1", registered.epoch);

    let items = vec![renewal(id, epoch), renewal("ops/mail/none", epoch), renewal(id, epoch + 1_000_000)];
    session.ask(8, Request::Renew(v1::RenewRequest { items })).await;
    let (8, Response::Renew(renewed)) = session.answer().await else { panic!("not renewed") };
    let outcomes: Vec<_> = renewed.results.iter().map(|result| result.outcome.as_ref().unwrap()).collect();
    assert!(
        matches!(outcomes[..], [Outcome::Renewed(_), Outcome::NotRegistered(_), Outcome::Superseded(_)]),
        "{outcomes:?}"
    );

    let draining = v1::UpdateRequest {
        id: id.into(),
        epoch,
        lifecycle: v1::Lifecycle::Draining.into(),
        ..v1::UpdateRequest::default()
    };
    session.ask(9, Request::Update(draining)).await;
    let (9, Response::Update(updated)) = session.answer().await else { panic!("not updated") };
    assert_eq!(updated.registration.unwrap().epoch, epoch);

    session.ask(10, Request::Deregister(v1::DeregisterRequest { id: id.into(), epoch, holder: None })).await;
    assert!(matches!(session.answer().await, (10, Response::Deregister(_))));
    assert_eq!(cell.get(&format!("/v1/agents/{id}")).await.status, 404);
}

#[tokio::test]
async fn a_refusal_is_an_answer_and_ends_nothing() {
    let cell = Cell::start().await;
    let mut session = Session::open(&cell).await;
    session.ask(1, register("Ops/mail")).await;
    let (1, refused) = session.answer().await else { panic!("another call's answer") };
    assert_eq!(code(&refused), Code::InvalidId.as_str());
    session.asks.send(SessionRequest { call: 2, request: None }).await.unwrap();
    let (2, refused) = session.answer().await else { panic!("another call's answer") };
    assert_eq!(code(&refused), Code::InvalidBody.as_str());

    let winner = cell.register_plain("ops/mail/1").await;
    let stale = v1::DeregisterRequest { id: "ops/mail/1".into(), epoch: 1, holder: None };
    session.ask(3, Request::Deregister(stale)).await;
    let (3, Response::Refusal(lost)) = session.answer().await else { panic!("a stale epoch won") };
    let current = lost.current.expect("who holds it");
    assert_eq!((lost.code.as_str(), current.epoch.to_string()), ("superseded", winner));

    session.ask(4, register("ops/mail/2")).await;
    assert!(matches!(session.answer().await, (4, Response::Register(_))), "the stream goes on");
}

#[tokio::test]
async fn thousands_of_calls_on_one_stream_are_all_answered_once() {
    let address_share = AddressShare::Whole;
    let cell = Cell::admitting(AdmissionConfig { address_share, ..AdmissionConfig::default() }).await;
    let Session { asks, mut answers } = Session::open(&cell).await;
    let asking = tokio::spawn(async move {
        for call in 0..3_000 {
            let request = Some(register(&format!("ops/mail/{call}")));
            asks.send(SessionRequest { call, request }).await.unwrap();
        }
    });
    let mut seen = BTreeMap::<u64, u32>::new();
    let all = async {
        // The writer ends the stream; its last answers still come.
        while let Some(answer) = answers.message().await.unwrap() {
            assert!(matches!(answer.response, Some(Response::Register(_))), "{answer:?}");
            *seen.entry(answer.call).or_default() += 1;
        }
    };
    tokio::time::timeout(DEADLINE, all).await.expect("the stream ends when its writer ended it");
    asking.await.unwrap();
    assert_eq!(seen.len(), 3_000);
    assert!(seen.values().all(|times| *times == 1));
}

#[tokio::test]
async fn a_call_that_waits_holds_no_other_up() {
    let cell = Cell::start().await;
    let epoch: u64 = cell.register_plain("ops/mail/1").await.parse().unwrap();
    let mut session = Session::open(&cell).await;
    // It speaks of a revision that the cell has not applied, and waits for it.
    let ahead = v1::RenewRequest { items: vec![renewal("ops/mail/1", epoch + 1_000_000)] };
    session.ask(1, Request::Renew(ahead)).await;
    session.ask(2, register("ops/mail/2")).await;
    assert!(matches!(session.answer().await, (2, Response::Register(_))));
    assert!(matches!(session.answer().await, (1, Response::Renew(_))));
}

/// Bytes as they are, in place of messages.
#[derive(Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;
    fn encoder(&mut self) -> Self {
        Self
    }
    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;
    fn encode(&mut self, item: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;
    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let all = from.remaining();
        Ok(Some(from.copy_to_bytes(all).to_vec()))
    }
}

#[tokio::test]
async fn words_that_cannot_be_read_end_the_session_with_their_code() {
    let cell = Cell::start().await;
    for (words, expected) in
        [(b"\xff\xff\xff\xff".to_vec(), Code::InvalidBody), (vec![0; 262_145], Code::TooLarge)]
    {
        let channel = tonic::transport::Channel::from_shared(cell.url.clone()).unwrap();
        let mut client = tonic::client::Grpc::new(channel.connect().await.unwrap());
        client.ready().await.unwrap();
        let path = "/rollcall.v1.Registrar/Session".parse().unwrap();
        let stream = tokio_stream::once(words).chain(tokio_stream::pending());
        let answers = client.streaming(tonic::Request::new(stream), path, Raw).await;
        let end = tokio::time::timeout(DEADLINE, answers.unwrap().into_inner().message()).await.unwrap();
        let status = end.expect_err("the stream ends");
        assert_eq!((status.code(), code_of(&status)), (tonic::Code::InvalidArgument, Some(expected)));
    }
}

#[tokio::test]
async fn a_stopping_cell_answers_what_was_begun_and_says_that_it_drains() {
    let cell = Cell::start().await;
    let mut session = Session::open(&cell).await;
    session.ask(1, register("ops/mail/1")).await;
    assert!(matches!(session.answer().await, (1, Response::Register(_))));
    cell.tasks.cancelled().cancel();
    let end = tokio::time::timeout(DEADLINE, session.answers.message()).await.expect("an end in time");
    let status = end.expect_err("the stream ends");
    assert_eq!(code_of(&status), Some(Code::Draining));
}

#[tokio::test]
async fn a_renewal_that_says_nothing_is_answered_like_one_that_says_what_is_known() {
    let cell = Cell::start().await;
    let mut items = Vec::new();
    for n in 0..20 {
        let id = format!("ops/mail/{n}");
        let epoch = cell.register_plain(&id).await.parse().unwrap();
        items.push(renewal(&id, epoch));
    }
    // A shared entry, declared anew by another holder: its first one keeps it alive.
    let mut session = Session::open(&cell).await;
    for (call, holder) in [(0, None), (1, Some("second".to_owned()))] {
        let Request::Register(wire) = register("ops/shared/1") else { unreachable!() };
        let wire = RegisterRequest {
            scope: v1::Scope::Service.into(),
            holder,
            version: Some(format!("1.0.{call}")),
            ..wire
        };
        session.ask(call, Request::Register(wire)).await;
        let (_, Response::Register(registered)) = session.answer().await else { panic!("not registered") };
        if call == 0 {
            items.push(renewal("ops/shared/1", registered.epoch));
        }
    }
    let saying: Vec<_> = items
        .iter()
        .cloned()
        .map(|item| renew_request::Item { lifecycle: v1::Lifecycle::Healthy.into(), ..item })
        .collect();
    let mut answers = Vec::new();
    for (call, items) in [(300, items), (301, saying)] {
        session.ask(call, Request::Renew(v1::RenewRequest { items })).await;
        let (answered, Response::Renew(mut renewed)) = session.answer().await else { panic!("not renewed") };
        assert_eq!(answered, call);
        for result in &mut renewed.results {
            let Some(Outcome::Renewed(renewed)) = &mut result.outcome else { panic!("{result:?}") };
            assert!(renewed.lease_expires_at_ms > 0);
            renewed.lease_expires_at_ms = 0;
        }
        answers.push(renewed);
    }
    assert_eq!(answers[0], answers[1]);
    let superseded = answers[0].results.iter().map(|result| match &result.outcome {
        Some(Outcome::Renewed(renewed)) => renewed.superseded,
        _ => false,
    });
    assert_eq!(superseded.filter(|superseded| *superseded).count(), 1, "the shared entry's first holder");
}
