//! Writers over gRPC, each call on its own. Many on one stream have a route of their own: see `session`.

use std::sync::Arc;

use futures_util::stream;
use rollcall_model::Code;
use rollcall_proto::v1::registrar_server::Registrar;
use rollcall_proto::v1::{
    DeregisterRequest, DeregisterResponse, RegisterRequest, RegisterResponse, RenewRequest, RenewResponse,
    SessionRequest, SessionResponse, UpdateRequest, UpdateResponse,
};
use tonic::{Request, Response, Status, Streaming};

use crate::admission;
use crate::api::Api;
use crate::api::grpc::{calls, refused};
use crate::refusal::Refusal;

/// The service.
pub(super) struct Door {
    pub(super) api: Arc<Api>,
}

#[tonic::async_trait]
impl Registrar for Door {
    type SessionStream = stream::Pending<Result<SessionResponse, Status>>;

    async fn register(
        &self,
        request: Request<RegisterRequest>,
    ) -> Result<Response<RegisterResponse>, Status> {
        let address = admission::address(request.extensions());
        answer(calls::register(&self.api, request.into_inner(), address).await)
    }

    async fn renew(&self, request: Request<RenewRequest>) -> Result<Response<RenewResponse>, Status> {
        answer(calls::renew(&self.api, request.into_inner()).await)
    }

    async fn update(&self, request: Request<UpdateRequest>) -> Result<Response<UpdateResponse>, Status> {
        answer(calls::update(&self.api, request.into_inner()).await)
    }

    async fn deregister(
        &self,
        request: Request<DeregisterRequest>,
    ) -> Result<Response<DeregisterResponse>, Status> {
        answer(calls::deregister(&self.api, request.into_inner()).await)
    }

    async fn session(
        &self,
        _: Request<Streaming<SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        // Its route stands before the service's.
        Err(refused(&Refusal::new(Code::Internal, "a session came where none is answered")))
    }
}

fn answer<T>(outcome: Result<T, Refusal>) -> Result<Response<T>, Status> {
    outcome.map(Response::new).map_err(|refusal| refused(&refusal))
}
