//! A writer's calls on one stream.
//!
//! Nearly all of them are renewals that can be judged at once. They are answered in the same breath, in words that are
//! written where the generated service would make messages of texts of its own; so this one method is answered by a
//! route that stands before the service's. On the wire there is no difference.
//!
//! Promises: calls run beside each other and are answered as they end, each with its caller's number; what one of them
//! is refused for does not touch the others. At most [`CALLS_MOST`] are under way; then nothing more is read, and the
//! transport's flow control holds the writer back. A stop of the process ends the stream once what was begun has its
//! answer. Dropped by its caller, it leaves begun writes to their outcome, as a call of its own would.

use std::future::{Future, Ready, ready};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::Request as HttpRequest;
use futures_util::Stream;
use futures_util::stream::FuturesUnordered;
use rollcall_model::Code;
use rollcall_proto::refusal;
use rollcall_proto::renewals::{Answer, Asked, Renewals, Words};
use rollcall_proto::v1::session_request::Request;
use rollcall_proto::v1::session_response::{Refusal as Refused, Response};
use rollcall_proto::v1::{Current, RenewRequest, SessionRequest, SessionResponse};
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::server::{Grpc, StreamingService};
use tonic::{Status, Streaming};

use crate::admission;
use crate::api::Api;
use crate::api::grpc::{
    MESSAGE_BYTES_MAX, REQUEST_BYTES_MAX, calls, invalid, refused, retry_after, sentence,
};
use crate::refusal::Refusal;

/// Where it is answered.
pub(super) const PATH: &str = "/rollcall.v1.Registrar/Session";
/// Calls under way on one stream: twice what one group of the store takes, so that one stream can keep it busy.
const CALLS_MOST: usize = 256;

type Call = Pin<Box<dyn Future<Output = SessionResponse> + Send>>;

/// The answers of one stream.
pub(super) struct Session {
    api: Arc<Api>,
    address: Option<IpAddr>,
    /// Read until the writer ends it, it breaks, or the process stops.
    requests: Option<Streaming<Asked>>,
    calls: FuturesUnordered<Call>,
    /// The process stops. One future in a set of its own, which asks it only when it has something to say: asked for every
    /// message, it would be a lock that all sessions take turns at.
    stopping: FuturesUnordered<Pin<Box<WaitForCancellationFutureOwned>>>,
    /// Why the stream ends, if its writer did not end it: said after the last answer.
    farewell: Option<Status>,
}

/// Answers one call.
pub(super) async fn answer(api: Arc<Api>, request: HttpRequest) -> axum::http::Response<Body> {
    let mut grpc =
        Grpc::new(Words).apply_max_message_size_config(Some(REQUEST_BYTES_MAX), Some(MESSAGE_BYTES_MAX));
    grpc.streaming(Door(api), request).await.map(Body::new)
}

struct Door(Arc<Api>);

impl StreamingService<Asked> for Door {
    type Response = Answer;
    type ResponseStream = Session;
    type Future = Ready<Result<tonic::Response<Session>, Status>>;

    fn call(&mut self, request: tonic::Request<Streaming<Asked>>) -> Self::Future {
        let address = admission::address(request.extensions());
        ready(Ok(tonic::Response::new(Session::new(Arc::clone(&self.0), request.into_inner(), address))))
    }
}

impl Session {
    fn new(api: Arc<Api>, requests: Streaming<Asked>, address: Option<IpAddr>) -> Self {
        let stopping = FuturesUnordered::from_iter([Box::pin(api.stopping.clone().cancelled_owned())]);
        let calls = FuturesUnordered::new();
        Self { api, address, requests: Some(requests), calls, stopping, farewell: None }
    }

    /// Ends the reading when the process stops.
    fn look_up(&mut self, context: &mut Context<'_>) {
        if let Poll::Ready(Some(())) = Pin::new(&mut self.stopping).poll_next(context) {
            let draining = Refusal::new(Code::Draining, "this cell is stopping; others of the region go on");
            (self.requests, self.farewell) = (None, Some(refused(&draining)));
        }
    }

    /// Reads what has come and begins it, until there is an answer, nothing more to read, or no room for it.
    fn read(&mut self, context: &mut Context<'_>) -> Option<Answer> {
        self.look_up(context);
        while let Some(requests) = &mut self.requests
            && self.calls.len() < CALLS_MOST
        {
            match Pin::new(requests).poll_next(context) {
                Poll::Ready(Some(Ok(Asked::Renewals(renewals)))) => {
                    if let Some(answer) = self.renew(&renewals) {
                        return Some(answer);
                    }
                }
                Poll::Ready(Some(Ok(Asked::Other(request)))) => {
                    self.calls.push(Box::pin(perform(Arc::clone(&self.api), *request, self.address)));
                }
                // What comes after words that cannot be read cannot be told apart any more.
                Poll::Ready(Some(Err(status))) => {
                    (self.requests, self.farewell) = (None, Some(refusal::unread(&status)));
                }
                Poll::Ready(None) => self.requests = None,
                Poll::Pending => return None,
            }
        }
        None
    }

    /// The answer to renewals, or a call that is begun.
    fn renew(&self, renewals: &Renewals) -> Option<Answer> {
        let call = renewals.call();
        match calls::renew_at_once(&self.api, renewals) {
            Ok(Some(answer)) => Some(answer),
            Ok(None) => {
                match renewals.message().map(|message| message.request) {
                    Ok(Some(Request::Renew(wire))) => {
                        self.calls.push(Box::pin(look_into(Arc::clone(&self.api), call, wire)));
                        None
                    }
                    // It was read as renewals.
                    Ok(_) | Err(_) => Some(said(answered(call, Err(unknown())))),
                }
            }
            Err(refusal) => Some(said(answered(call, Err(refusal)))),
        }
    }
}

impl Stream for Session {
    type Item = Result<Answer, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // What was begun before comes first.
        if !self.calls.is_empty()
            && let Poll::Ready(Some(answer)) = Pin::new(&mut self.calls).poll_next(context)
        {
            return Poll::Ready(Some(Ok(said(answer))));
        }
        if let Some(answer) = self.read(context) {
            return Poll::Ready(Some(Ok(answer)));
        }
        match Pin::new(&mut self.calls).poll_next(context) {
            Poll::Ready(Some(answer)) => Poll::Ready(Some(Ok(said(answer)))),
            Poll::Ready(None) if self.requests.is_none() => Poll::Ready(self.farewell.take().map(Err)),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

async fn look_into(api: Arc<Api>, call: u64, wire: RenewRequest) -> SessionResponse {
    answered(call, calls::renew_admitted(&api, wire).await.map(Response::Renew))
}

fn said(answer: SessionResponse) -> Answer {
    Answer::Message(Box::new(answer))
}

fn unknown() -> Refusal {
    invalid(Code::InvalidBody, "/request", "this version knows no such request")
}

fn answered(call: u64, outcome: Result<Response, Refusal>) -> SessionResponse {
    let response = outcome.unwrap_or_else(|refusal| Response::Refusal(told(&refusal)));
    SessionResponse { call, response: Some(response) }
}

async fn perform(api: Arc<Api>, asked: SessionRequest, address: Option<IpAddr>) -> SessionResponse {
    let outcome = match asked.request {
        Some(Request::Register(wire)) => calls::register(&api, wire, address).await.map(Response::Register),
        Some(Request::Renew(wire)) => calls::renew(&api, wire).await.map(Response::Renew),
        Some(Request::Update(wire)) => calls::update(&api, wire).await.map(Response::Update),
        Some(Request::Deregister(wire)) => calls::deregister(&api, wire).await.map(Response::Deregister),
        None => Err(unknown()),
    };
    answered(asked.call, outcome)
}

fn told(refusal: &Refusal) -> Refused {
    Refused {
        code: refusal.code.as_str().to_owned(),
        detail: sentence(refusal),
        retry_after_ms: retry_after(refusal).map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        current: refusal
            .current
            .as_ref()
            .map(|current| Current { epoch: current.epoch.get(), endpoint: current.endpoint.clone() }),
    }
}
