//! The watch over gRPC, from bytes that its watchers share.
//!
//! The generated service would make each message anew for each watcher. So this one method is answered by a route of its
//! own, which stands before the service's and sends what is written already. On the wire there is no difference.

use std::collections::VecDeque;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use bytes::Bytes;
use futures_util::{Stream, stream};
use rollcall_model::{Code, Event};
use rollcall_proto::stamp::stamped;
use rollcall_proto::v1::WatchRequest;
use rollcall_proto::written::Written;
use rollcall_proto::{Writer, convert};
use tonic::server::{Grpc, ServerStreamingService};
use tonic::{Response, Status};

use crate::api::Api;
use crate::api::grpc::{MESSAGE_BYTES_MAX, REQUEST_BYTES_MAX, discovery, invalid, refused};
use crate::api::watching::{Form, Recent, Said, Watching};
use crate::refusal::Refusal;
use crate::regions::Which;

/// Where it is answered.
pub(super) const PATH: &str = "/rollcall.v1.Discovery/Watch";

type Messages = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

/// Answers one call.
pub(super) async fn answer(api: Arc<Api>, request: Request) -> axum::http::Response<Body> {
    let mut grpc = Grpc::new(Written::<WatchRequest>::default())
        .apply_max_message_size_config(Some(REQUEST_BYTES_MAX), Some(MESSAGE_BYTES_MAX));
    grpc.server_streaming(Door(api), request).await.map(Body::new)
}

struct Door(Arc<Api>);

impl ServerStreamingService<WatchRequest> for Door {
    type Response = Bytes;
    type ResponseStream = Messages;
    type Future = Ready<Result<Response<Messages>, Status>>;

    fn call(&mut self, request: tonic::Request<WatchRequest>) -> Self::Future {
        let written = written(&self.0, request.into_inner());
        ready(written.map(|said| stamped(said, &self.0.clock)).map_err(|refusal| refused(&refusal)))
    }
}

fn written(api: &Api, wire: WatchRequest) -> Result<Messages, Refusal> {
    let which = discovery::which(&wire.region)?;
    if which == Which::All {
        let detail = "one stream carries one region: name it, and open one for each";
        return Err(invalid(Code::InvalidParameter, "region", detail));
    }
    let query = discovery::query(wire.query)?;
    let since = match wire.since {
        None => None,
        wire => Some(
            convert::position_from(wire, "since")
                .map_err(|error| invalid(Code::InvalidParameter, "since", error.why))?,
        ),
    };
    let served = api.regions.select(&which)?;
    if api.stopping.is_cancelled() {
        return Err(Refusal::new(Code::Draining, "the process is shutting down"));
    }
    let watching = Watching::new(
        &api.regions,
        served,
        (Form::Grpc, &query),
        |_| since.clone(),
        api.clock.clone(),
        api.stopping.clone(),
    );
    Ok(Box::pin(stream::unfold((watching, VecDeque::new()), |(mut watching, mut said)| async move {
        loop {
            if let Some(bytes) = said.pop_front() {
                return Some((Ok(bytes), (watching, said)));
            }
            // HTTP/2 keeps the connection alive; the stream itself may be silent.
            match watching.next(None).await {
                Said::Events(_, recent, events, _turn) => {
                    said.extend(events.iter().map(|event| message(&recent, event)));
                }
                Said::Nothing => {}
                Said::Over => return None,
            }
        }
    })))
}

fn message(recent: &Recent, event: &Event) -> Bytes {
    let write = || rollcall_proto::written::message(&convert::event(event));
    match event {
        Event::Delta(delta) => recent.bytes(delta, write),
        Event::Page(records) => Writer::default().page(records),
        Event::SnapshotBegin(_) | Event::SnapshotEnd(..) | Event::Bookmark(_) | Event::Resync(..) => write(),
    }
}
