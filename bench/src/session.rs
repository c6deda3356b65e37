//! A registrant's session with a cell, as the SDK holds one: many calls on one stream, each answered when it is.

use rollcall_proto::v1::registrar_client::RegistrarClient;
use rollcall_proto::v1::renew_response::result::Outcome;
use rollcall_proto::v1::session_request::Request;
use rollcall_proto::v1::session_response::Response;
use rollcall_proto::v1::{
    Capability, Endpoint, RegisterRequest, RenewRequest, SessionRequest, SessionResponse, renew_request::Item,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

/// Calls that may wait to be sent: more than a cell takes up at once on one stream.
const WAITING: usize = 1_024;
/// Calls of one session that are under way while a fleet registers.
const AT_ONCE: usize = 128;
/// Renewals of one message.
const TOGETHER: usize = 500;

/// One session, on a connection of its own.
#[derive(Debug)]
pub struct Session {
    asks: Asks,
    answers: Answers,
}

/// The half of a session that asks; dropping it ends the session once all is answered.
#[derive(Debug)]
pub struct Asks(mpsc::Sender<SessionRequest>);

/// The half of a session that is answered.
#[derive(Debug)]
pub struct Answers(Streaming<SessionResponse>);

impl Session {
    /// Opens one.
    ///
    /// # Panics
    /// When the cell does not answer.
    pub async fn open(url: &str) -> Self {
        let mut registrar = RegistrarClient::connect(url.to_owned()).await.expect("the cell answers");
        let (asks, asked) = mpsc::channel(WAITING);
        let answers = registrar.session(ReceiverStream::new(asked)).await.expect("a session").into_inner();
        Self { asks: Asks(asks), answers: Answers(answers) }
    }

    /// Its halves, for who asks without waiting for answers.
    #[must_use]
    pub fn split(self) -> (Asks, Answers) {
        (self.asks, self.answers)
    }

    /// Its halves, lent.
    pub const fn halves(&mut self) -> (&Asks, &mut Answers) {
        (&self.asks, &mut self.answers)
    }

    /// Asks and waits for the answer; nothing else may be under way.
    ///
    /// # Panics
    /// When the session ends.
    pub async fn call(&mut self, request: Request) -> Response {
        self.asks.ask(0, request).await;
        self.answers.next().await.expect("the session goes on").1
    }

    /// Registers all of these; what to renew them by, in the order in which they were answered.
    ///
    /// # Panics
    /// When one is refused.
    pub async fn register_all(
        &mut self,
        registrations: impl IntoIterator<Item = RegisterRequest>,
    ) -> Vec<Item> {
        let mut registrations = registrations.into_iter();
        let (mut items, mut under_way) = (Vec::new(), 0);
        loop {
            while under_way < AT_ONCE
                && let Some(register) = registrations.next()
            {
                self.asks.ask(0, Request::Register(register)).await;
                under_way += 1;
            }
            if under_way == 0 {
                return items;
            }
            match self.answers.next().await.expect("the session goes on").1 {
                Response::Register(registered) => {
                    items.push(Item { id: registered.id, epoch: registered.epoch, ..Item::default() });
                }
                other => panic!("not registered: {other:?}"),
            }
            under_way -= 1;
        }
    }

    /// Renews these in one message; how many were renewed.
    ///
    /// # Panics
    /// When the session ends.
    pub async fn renew(&mut self, items: Vec<Item>) -> usize {
        match self.call(Request::Renew(RenewRequest { items })).await {
            Response::Renew(renewed) => {
                let is_renewed = |outcome: &Option<Outcome>| matches!(outcome, Some(Outcome::Renewed(_)));
                renewed.results.iter().filter(|one| is_renewed(&one.outcome)).count()
            }
            other => panic!("not renewed: {other:?}"),
        }
    }

    /// Renews all of these, many a message; how many were renewed.
    ///
    /// # Panics
    /// When the session ends.
    pub async fn renew_all(&mut self, items: &[Item]) -> usize {
        let mut renewed = 0;
        for some in items.chunks(TOGETHER) {
            renewed += self.renew(some.to_vec()).await;
        }
        renewed
    }
}

impl Asks {
    /// Asks; the answer carries the same number.
    ///
    /// # Panics
    /// When the session has ended.
    pub async fn ask(&self, call: u64, request: Request) {
        self.0.send(SessionRequest { call, request: Some(request) }).await.expect("the session is open");
    }

    /// Asks unless too much waits to be sent already.
    #[must_use]
    pub fn try_ask(&self, call: u64, request: Request) -> bool {
        self.0.try_send(SessionRequest { call, request: Some(request) }).is_ok()
    }
}

impl Answers {
    /// The next answer, with the number of its call; `None` at the end.
    ///
    /// # Panics
    /// When the session breaks.
    pub async fn next(&mut self) -> Option<(u64, Response)> {
        let answer = self.0.message().await.expect("an answer")?;
        Some((answer.call, answer.response.expect("an answer that says something")))
    }
}

/// A small registration: an endpoint, a capability, a zone.
#[must_use]
pub fn small(id: String, lease_seconds: u64) -> RegisterRequest {
    RegisterRequest {
        id,
        endpoints: vec![Endpoint { url: "http://127.0.0.1:9/".into(), protocol: None }],
        capabilities: vec![Capability { name: "bench:small:v1".into(), ..Capability::default() }],
        zone: Some("a".into()),
        lease_seconds: Some(lease_seconds),
        ..RegisterRequest::default()
    }
}
