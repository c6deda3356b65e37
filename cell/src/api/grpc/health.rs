//! `grpc.health.v1`: serving as soon as the own region's state can be served, and until the process stops.
//!
//! Promises: it says the same as `/readyz`, because it asks the same question when it is asked.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::{Stream, stream};
use rollcall_proto::v1::discovery_server::SERVICE_NAME as DISCOVERY;
use rollcall_proto::v1::registrar_server::SERVICE_NAME as REGISTRAR;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::api::Api;
use crate::regions::Which;

/// The service.
pub(super) struct Door {
    pub(super) api: Arc<Api>,
}

type Watched = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

fn status(api: &Api, service: &str) -> ServingStatus {
    if !["", REGISTRAR, DISCOVERY].contains(&service) {
        ServingStatus::ServiceUnknown
    } else if api.regions.can_serve() && !api.stopping.is_cancelled() {
        ServingStatus::Serving
    } else {
        ServingStatus::NotServing
    }
}

fn answer(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl Health for Door {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        match status(&self.api, &request.get_ref().service) {
            ServingStatus::ServiceUnknown => Err(Status::not_found("no such service is served here")),
            status => Ok(Response::new(answer(status))),
        }
    }

    type WatchStream = Watched;

    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Watched>, Status> {
        let service = request.into_inner().service;
        let views = self.api.regions.select(&Which::Own).map_err(|refusal| super::refused(&refusal))?;
        let Some(own) = views.into_iter().next().map(|served| served.view) else {
            return Err(Status::internal("no own region"));
        };
        let seed = (Arc::clone(&self.api), own, service, None);
        Ok(Response::new(Box::pin(stream::unfold(seed, |(api, mut own, service, last)| async move {
            loop {
                own.mark_unchanged();
                let now = status(&api, &service);
                if last != Some(now) {
                    return Some((Ok(answer(now)), (api, own, service, Some(now))));
                }
                if api.stopping.is_cancelled() {
                    return None;
                }
                tokio::select! {
                    () = api.stopping.cancelled() => {}
                    changed = own.changed() => changed.ok()?,
                }
            }
        }))))
    }
}
