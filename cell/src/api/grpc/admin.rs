//! Operators over gRPC, on the use cases that HTTP has.

use std::sync::Arc;
use std::time::Duration;

use rollcall_model::{Code, InstanceId};
use rollcall_proto::v1::admin_server::Admin;
use rollcall_proto::v1::guard_response::{Cohort, State};
use rollcall_proto::v1::release_response::Refused;
use rollcall_proto::v1::{
    EvictRequest, EvictResponse, GuardRequest, GuardResponse, MuteRequest, MuteResponse, ReleaseRequest,
    ReleaseResponse,
};
use tonic::{Request, Response, Status};

use crate::api::Api;
use crate::api::grpc::{invalid, refused};
use crate::operator::{self, CohortFacts, GuardFacts, OPERATOR};
use crate::refusal::Refusal;

/// The service.
pub(super) struct Door {
    pub(super) api: Arc<Api>,
}

#[tonic::async_trait]
impl Admin for Door {
    async fn guard(&self, _: Request<GuardRequest>) -> Result<Response<GuardResponse>, Status> {
        answer(self.api.registrar.guard().await.map(|facts| shown(&facts)))
    }

    async fn release(&self, request: Request<ReleaseRequest>) -> Result<Response<ReleaseResponse>, Status> {
        answer(self.let_go(&request.into_inner().ids).await)
    }

    async fn evict(&self, request: Request<EvictRequest>) -> Result<Response<EvictResponse>, Status> {
        answer(self.remove(request.into_inner()).await)
    }

    async fn mute(&self, request: Request<MuteRequest>) -> Result<Response<MuteResponse>, Status> {
        answer(self.silence(request.into_inner()).await)
    }
}

impl Door {
    async fn let_go(&self, ids: &[String]) -> Result<ReleaseResponse, Refusal> {
        operator::check_releases(ids.len()).map_err(|detail| invalid(Code::InvalidBody, "/ids", detail))?;
        for (at, text) in ids.iter().enumerate() {
            id(text, &format!("/ids/{at}"))?;
        }
        let outcome = self.api.registrar.release(ids, OPERATOR).await?;
        let refused = outcome.refused.into_iter().map(|(id, why)| Refused { id, why });
        Ok(ReleaseResponse { released: outcome.released, refused: refused.collect() })
    }

    async fn remove(&self, asked: EvictRequest) -> Result<EvictResponse, Refusal> {
        let id = id(&asked.id, "/id")?;
        operator::check_reason(&asked.reason)
            .map_err(|detail| invalid(Code::InvalidBody, "/reason", detail))?;
        self.api.registrar.evict(&id, &asked.reason, OPERATOR).await?;
        let region = self.api.regions.own().as_str().to_owned();
        Ok(EvictResponse { id: asked.id, region, reason: asked.reason, actor: operator::actor(OPERATOR) })
    }

    async fn silence(&self, asked: MuteRequest) -> Result<MuteResponse, Refusal> {
        let id = id(&asked.id, "/id")?;
        let seconds =
            asked.seconds.ok_or_else(|| invalid(Code::InvalidBody, "/seconds", "it is required"))?;
        operator::check_mute(seconds).map_err(|detail| invalid(Code::InvalidBody, "/seconds", detail))?;
        let muted_until = self.api.registrar.mute(&id, Duration::from_secs(seconds), OPERATOR).await?;
        let region = self.api.regions.own().as_str().to_owned();
        Ok(MuteResponse { id: asked.id, region, seconds, muted_until_ms: muted_until.0 })
    }
}

fn shown(facts: &GuardFacts) -> GuardResponse {
    let cohort = |facts: &CohortFacts| Cohort {
        cohort: facts.cohort.to_string(),
        registered: facts.registered,
        suspects: facts.suspects,
        limit: facts.limit,
        since_ms: facts.since.map(|at| at.0),
        settling_until_ms: facts.settling_until.map(|at| at.0),
    };
    let state = if facts.is_calm() { State::Calm } else { State::Holding };
    GuardResponse {
        state: state.into(),
        cohorts: facts.cohorts.iter().map(cohort).collect(),
        held: facts.held.iter().map(|id| id.as_str().to_owned()).collect(),
    }
}

fn id(text: &str, place: &str) -> Result<InstanceId, Refusal> {
    InstanceId::parse(text).map_err(|finding| invalid(Code::InvalidId, place, finding.detail))
}

fn answer<T>(outcome: Result<T, Refusal>) -> Result<Response<T>, Status> {
    outcome.map(Response::new).map_err(|refusal| refused(&refusal))
}
