//! Discovery over the views: a watch is a place in a view, and nothing is queued for it (I26).

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::middleware::map_response;
use futures_util::future::OptionFuture;
use futures_util::{Stream, stream};
use rollcall_model::{Code, Cursor, Event, Region, View};
use rollcall_proto::convert::{self, RegionStatus};
use rollcall_proto::refusal;
use rollcall_proto::stamp::stamped;
use rollcall_proto::v1::discovery_server::{Discovery, DiscoveryServer};
use rollcall_proto::v1::{
    GetRequest, GetResponse, ListRequest, ListResponse, RegionsRequest, RegionsResponse, RemovalsRequest,
    RemovalsResponse, WatchRequest, WatchResponse,
};
use tokio::sync::watch;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use super::{Api, Shared};

/// Discovery, health and reflection.
pub async fn routes(api: Api) -> Router {
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<DiscoveryServer<Answers>>().await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(rollcall_proto::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1();
    let routes =
        Routes::new(DiscoveryServer::new(Answers { api: Arc::new(api) })).add_service(health_service);
    let routes = match reflection {
        Ok(reflection) => routes.add_service(reflection),
        Err(error) => {
            // The descriptors are compiled in; without reflection the views are served all the same.
            tracing::error!(%error, "reflection has no descriptors");
            routes
        }
    };
    // What the machinery of gRPC refuses by itself has a code of ours, too.
    routes.into_axum_router().layer(map_response(async |answer: axum::response::Response| {
        refusal::completed(answer).map(axum::body::Body::new)
    }))
}

struct Answers {
    api: Shared,
}

/// One watcher: its place, what is ready to be sent, and the view as it changes.
struct Watcher {
    api: Shared,
    cursor: Cursor,
    ready: VecDeque<Event>,
    view: watch::Receiver<Arc<View>>,
}

impl Watcher {
    /// The next message; `None` ends the stream.
    async fn next(&mut self) -> Option<Result<WatchResponse, Status>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(convert::event(&event)));
            }
            let view = Arc::clone(&self.view.borrow_and_update());
            self.ready = self.cursor.advance(&view, self.api.clock.now()).into();
            if !self.ready.is_empty() {
                continue;
            }
            let now = self.api.clock.now();
            let due = self.cursor.due().map(|due| tokio::time::sleep(due.since(now)));
            tokio::select! {
                Some(()) = OptionFuture::from(due) => {}
                () = self.api.stopping.cancelled() => return None,
                changed = self.view.changed() => changed.ok()?,
            }
        }
    }
}

#[tonic::async_trait]
impl Discovery for Answers {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<WatchResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let request = request.into_inner();
        let region = Region::parse(&request.region)
            .map_err(|finding| refusal::status(Code::InvalidParameter, &finding.detail, None))?;
        let Some(view) = self.api.views.of(&region) else {
            let detail = format!("region {region} is not followed by this replicator");
            return Err(refusal::status(Code::InvalidParameter, &detail, None));
        };
        let query = convert::query_from(request.query)
            .map_err(|finding| refusal::status(finding.code, &finding.detail, None))?;
        let since = request
            .since
            .map(|since| convert::position_from(Some(since), "since"))
            .transpose()
            .map_err(|error| refusal::status(Code::InvalidParameter, &error.to_string(), None))?;
        let watcher = Watcher {
            api: Arc::clone(&self.api),
            cursor: Cursor::new(query, since),
            ready: VecDeque::new(),
            view,
        };
        let messages = stream::unfold(watcher, |mut watcher| async move {
            let message = watcher.next().await?;
            Some((message, watcher))
        });
        let messages: Self::WatchStream = Box::pin(messages);
        Ok(stamped(messages, &self.api.clock))
    }

    async fn regions(&self, _: Request<RegionsRequest>) -> Result<Response<RegionsResponse>, Status> {
        let now = self.api.clock.now();
        let views = self.api.views.all();
        let status = |view: &Arc<View>| {
            convert::region_status(&RegionStatus { view: View::clone(view), own: false }, now)
        };
        Ok(stamped(RegionsResponse { regions: views.iter().map(status).collect() }, &self.api.clock))
    }

    async fn list(&self, _: Request<ListRequest>) -> Result<Response<ListResponse>, Status> {
        Err(ask_a_cell())
    }

    async fn get(&self, _: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        Err(ask_a_cell())
    }

    async fn removals(&self, _: Request<RemovalsRequest>) -> Result<Response<RemovalsResponse>, Status> {
        Err(ask_a_cell())
    }
}

fn ask_a_cell() -> Status {
    let detail = "a replicator serves watches of its views; ask a cell, which serves all regions";
    refusal::status(Code::MethodNotAllowed, detail, None)
}
