//! One stream of calls to one process of a cell, shared by all registrants that go there.
//!
//! Promises: renewals that wait together go as one message, each with its own answer, and one that the cell cannot read
//! costs the others nothing. When the stream ends, every call on it fails at once with the reason. Nothing lingers: a
//! session that nobody holds any more is closed, and an idle one sends nothing. Never here: which address, how long an
//! answer is waited for, when to call again.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use rollcall_model::{Code, limits};
use rollcall_proto::v1::registrar_client::RegistrarClient;
use rollcall_proto::v1::renew_request::Item;
use rollcall_proto::v1::renew_response::result::Outcome;
use rollcall_proto::v1::session_request::Request;
use rollcall_proto::v1::session_response::Response;
use rollcall_proto::v1::{RenewRequest, RenewResponse, SessionRequest, SessionResponse};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::transport::Endpoint;

use crate::error::CallError;
use crate::transport::cells::refused;
use crate::transport::grpc::{self, call_error, unreachable};

/// Calls that wait to be written: as many as one message may renew. Beyond it a caller waits with its own patience.
const ASKS_MAX: usize = limits::RENEWALS_MAX;
/// Messages that are written and not yet taken by the connection: what waits here cannot be merged any more.
const WRITTEN_MAX: usize = 1;

type Answer<T> = oneshot::Sender<Result<T, CallError>>;

/// One call.
enum Ask {
    /// May go with others of its kind.
    Renew(Item, Answer<Outcome>),
    /// Goes alone.
    Alone(Request, Answer<Response>),
}

/// Who waits for the answer to one message.
enum Waiting {
    Renewals(Vec<(Item, Answer<Outcome>)>),
    Alone(Answer<Response>),
}

/// The callers' end. The session ends when the last of them is dropped.
#[derive(Debug)]
pub(super) struct Session {
    asks: mpsc::Sender<Ask>,
    /// Where it leads, for people.
    url: String,
    _held: DropGuard,
}

impl Session {
    /// Opens it in the background, on the runtime that calls: that of all registrants.
    pub(super) fn open(url: &Endpoint) -> Arc<Self> {
        let (asks, asked) = mpsc::channel(ASKS_MAX);
        let held = CancellationToken::new();
        let task = run(url.clone(), asked, held.clone());
        // Its end is seen by those who ask, and nobody is left to hear of it otherwise.
        tokio::spawn(task);
        Arc::new(Self { asks, url: grpc::url(url), _held: held.drop_guard() })
    }

    /// Whether it has ended: whoever asks it now gets no answer.
    pub(super) fn is_over(&self) -> bool {
        self.asks.is_closed()
    }

    /// Renews one lease.
    pub(super) async fn renew(&self, item: Item) -> Result<Outcome, CallError> {
        self.ask(|answer| Ask::Renew(item, answer)).await
    }

    /// Any other call.
    pub(super) async fn call(&self, request: Request) -> Result<Response, CallError> {
        self.ask(|answer| Ask::Alone(request, answer)).await
    }

    async fn ask<T>(&self, ask: impl FnOnce(Answer<T>) -> Ask) -> Result<T, CallError> {
        let over = || unreachable(&self.url, "the session has ended");
        let (answer, answered) = oneshot::channel();
        self.asks.send(ask(answer)).await.map_err(|_| over())?;
        answered.await.unwrap_or_else(|_| Err(over()))
    }
}

async fn run(url: Endpoint, mut asked: mpsc::Receiver<Ask>, held: CancellationToken) {
    let mut calls = Calls::default();
    let over = tokio::select! {
        over = carry(&url, &mut asked, &mut calls) => over,
        () = held.cancelled() => return,
    };
    tracing::debug!(url = %url.uri(), %over, "session with a cell ended");
    asked.close();
    while let Ok(ask) = asked.try_recv() {
        calls.take(ask);
    }
    calls.fail(&over);
}

/// Carries calls there and answers back; ends with the reason why it cannot any more.
async fn carry(endpoint: &Endpoint, asked: &mut mpsc::Receiver<Ask>, calls: &mut Calls) -> CallError {
    let url = grpc::url(endpoint);
    let (write, written) = mpsc::channel(WRITTEN_MAX);
    let mut client = RegistrarClient::new(endpoint.connect_lazy());
    let mut answers = match client.session(ReceiverStream::new(written)).await {
        Ok(response) => response.into_inner(),
        Err(status) => return call_error(&url, &status),
    };
    let mut batch = Vec::new();
    loop {
        tokio::select! {
            answer = answers.message() => match answer {
                Ok(Some(answer)) => calls.answer(answer),
                Ok(None) => return unreachable(&url, "it ended the session"),
                Err(status) => return call_error(&url, &status),
            },
            // Only when everything is written: what comes meanwhile is merged.
            _ = asked.recv_many(&mut batch, ASKS_MAX), if calls.ready.is_empty() => {
                for ask in batch.drain(..) {
                    calls.take(ask);
                }
                calls.merge();
            }
            room = write.reserve(), if !calls.ready.is_empty() => match (room, calls.ready.pop_front()) {
                (Ok(room), Some(request)) => room.send(request),
                // Its end has a reason, which the answers tell; without a word from them there is no more to say.
                (Err(_), _) => return match answers.message().await {
                    Err(status) => call_error(&url, &status),
                    Ok(_) => unreachable(&url, "the connection broke"),
                },
                (Ok(_), None) => {}
            },
        }
    }
}

/// The calls of one session: each is answered, or fails, once. There are as many as there are registrants: each has one
/// call under way, and one that gave up leaves the session.
#[derive(Default)]
struct Calls {
    last: u64,
    /// Renewals that were taken together.
    renewals: Vec<(Item, Answer<Outcome>)>,
    ready: VecDeque<SessionRequest>,
    waiting: HashMap<u64, Waiting>,
}

impl Calls {
    /// Takes a call, unless its caller has given up: what nobody waits for is not begun.
    fn take(&mut self, ask: Ask) {
        match ask {
            Ask::Renew(item, answer) if !answer.is_closed() => self.renewals.push((item, answer)),
            Ask::Alone(request, answer) if !answer.is_closed() => {
                self.write(request, Waiting::Alone(answer));
            }
            Ask::Renew(..) | Ask::Alone(..) => {}
        }
    }

    /// Makes one message of the renewals that were taken.
    fn merge(&mut self) {
        let renewals = std::mem::take(&mut self.renewals);
        if !renewals.is_empty() {
            self.renew(renewals);
        }
    }

    fn renew(&mut self, renewals: Vec<(Item, Answer<Outcome>)>) {
        let items = renewals.iter().map(|(item, _)| item.clone()).collect();
        self.write(Request::Renew(RenewRequest { items }), Waiting::Renewals(renewals));
    }

    fn write(&mut self, request: Request, waiting: Waiting) {
        self.last += 1;
        self.waiting.insert(self.last, waiting);
        self.ready.push_back(SessionRequest { call: self.last, request: Some(request) });
    }

    /// Gives an answer to those who wait for it. One who gave up does not hear it, and needs not.
    fn answer(&mut self, answer: SessionResponse) {
        let Some(waiting) = self.waiting.remove(&answer.call) else { return };
        match (waiting, answer.response) {
            (Waiting::Renewals(renewals), Some(Response::Renew(renewed))) => judge(renewals, renewed),
            (Waiting::Renewals(renewals), Some(Response::Refusal(refusal))) => {
                let refusal = refused(refusal);
                if renewals.len() > 1 && is_of_one(&refusal) {
                    // One item spoils the message for all, so each goes alone.
                    for renewal in renewals {
                        self.renew(vec![renewal]);
                    }
                } else {
                    Waiting::Renewals(renewals).fail(&refusal);
                }
            }
            (waiting, Some(Response::Refusal(refusal))) => waiting.fail(&refused(refusal)),
            (Waiting::Alone(waiting), Some(response)) => drop(waiting.send(Ok(response))),
            (waiting, _) => waiting.fail(&CallError::Unreadable("session: an answer to another call".into())),
        }
    }

    fn fail(&mut self, error: &CallError) {
        self.merge();
        for (_, waiting) in self.waiting.drain() {
            waiting.fail(error);
        }
    }
}

impl Waiting {
    fn fail(self, error: &CallError) {
        match self {
            Self::Renewals(renewals) => {
                for (_, answer) in renewals {
                    drop(answer.send(Err(error.clone())));
                }
            }
            Self::Alone(answer) => drop(answer.send(Err(error.clone()))),
        }
    }
}

/// Answers come in the order of the items.
fn judge(renewals: Vec<(Item, Answer<Outcome>)>, renewed: RenewResponse) {
    let mut results = renewed.results.into_iter();
    for (item, answer) in renewals {
        let result = results.next().filter(|result| result.id == item.id);
        let outcome = result.and_then(|result| result.outcome);
        drop(answer.send(outcome.ok_or_else(|| CallError::Unreadable("renew response: no outcome".into()))));
    }
}

/// Whether a message was refused for what one of its items says, and not for what the cell can do now.
fn is_of_one(error: &CallError) -> bool {
    matches!(error, CallError::Refused { code, .. } if code.status() == 400 || *code == Code::TooLarge)
}
