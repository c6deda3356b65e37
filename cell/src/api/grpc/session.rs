//! A writer's calls on one stream.
//!
//! Promises: calls run beside each other and are answered as they end, each with its caller's number; what one of them
//! is refused for does not touch the others. At most [`CALLS_MOST`] are under way; then nothing more is read, and the
//! transport's flow control holds the writer back. A stop of the process ends the stream once what was begun has its
//! answer. Dropped by its caller, it leaves begun writes to their outcome, as a call of its own would.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::stream::FuturesUnordered;
use rollcall_model::Code;
use rollcall_proto::refusal;
use rollcall_proto::v1::session_request::Request;
use rollcall_proto::v1::session_response::{Refusal as Refused, Response};
use rollcall_proto::v1::{Current, SessionRequest, SessionResponse};
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::{Status, Streaming};

use crate::api::Api;
use crate::api::grpc::{calls, invalid, refused, retry_after, sentence};
use crate::refusal::Refusal;

/// Calls under way on one stream: twice what one group of the store takes, so that one stream can keep it busy.
const CALLS_MOST: usize = 256;

type Call = Pin<Box<dyn Future<Output = SessionResponse> + Send>>;

/// The answers of one stream.
pub(super) struct Session {
    api: Arc<Api>,
    address: Option<IpAddr>,
    /// Read until the writer ends it, it breaks, or the process stops.
    requests: Option<Streaming<SessionRequest>>,
    calls: FuturesUnordered<Call>,
    stopping: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Why the stream ends, if its writer did not end it: said after the last answer.
    farewell: Option<Status>,
}

impl Session {
    pub(super) fn new(api: Arc<Api>, requests: Streaming<SessionRequest>, address: Option<IpAddr>) -> Self {
        let stopping = Box::pin(api.stopping.clone().cancelled_owned());
        let calls = FuturesUnordered::new();
        Self { api, address, requests: Some(requests), calls, stopping, farewell: None }
    }

    /// Reads what has come and begins it, until there is nothing more to read or no room for it.
    fn begin(&mut self, context: &mut Context<'_>) {
        if self.requests.is_some() && self.stopping.as_mut().poll(context).is_ready() {
            let draining = Refusal::new(Code::Draining, "this cell is stopping; others of the region go on");
            (self.requests, self.farewell) = (None, Some(refused(&draining)));
        }
        while let Some(requests) = &mut self.requests
            && self.calls.len() < CALLS_MOST
        {
            match Pin::new(requests).poll_next(context) {
                Poll::Ready(Some(Ok(request))) => {
                    self.calls.push(Box::pin(perform(Arc::clone(&self.api), request, self.address)));
                }
                // What comes after words that cannot be read cannot be told apart any more.
                Poll::Ready(Some(Err(status))) => {
                    (self.requests, self.farewell) = (None, Some(refusal::unread(&status)));
                }
                Poll::Ready(None) => self.requests = None,
                Poll::Pending => return,
            }
        }
    }
}

impl Stream for Session {
    type Item = Result<SessionResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.begin(context);
        match Pin::new(&mut self.calls).poll_next(context) {
            Poll::Ready(Some(answer)) => Poll::Ready(Some(Ok(answer))),
            Poll::Ready(None) if self.requests.is_none() => Poll::Ready(self.farewell.take().map(Err)),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

async fn perform(api: Arc<Api>, asked: SessionRequest, address: Option<IpAddr>) -> SessionResponse {
    let outcome = match asked.request {
        Some(Request::Register(wire)) => calls::register(&api, wire, address).await.map(Response::Register),
        Some(Request::Renew(wire)) => calls::renew(&api, wire).await.map(Response::Renew),
        Some(Request::Update(wire)) => calls::update(&api, wire).await.map(Response::Update),
        Some(Request::Deregister(wire)) => calls::deregister(&api, wire).await.map(Response::Deregister),
        None => Err(invalid(Code::InvalidBody, "/request", "this version knows no such request")),
    };
    let response = outcome.unwrap_or_else(|refusal| Response::Refusal(told(&refusal)));
    SessionResponse { call: asked.call, response: Some(response) }
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
