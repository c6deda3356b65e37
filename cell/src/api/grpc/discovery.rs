//! Readers over gRPC.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, stream};
use rollcall_model::{Code, InstanceId, Query, View, limits};
use rollcall_proto::convert::{self, RegionStatus};
use rollcall_proto::v1::discovery_server::Discovery;
use rollcall_proto::v1::{self, GetRequest, GetResponse, ListRequest, ListResponse};
use rollcall_proto::v1::{RegionsRequest, RegionsResponse, RemovalItem, RemovalsRequest, RemovalsResponse};
use rollcall_proto::v1::{WatchRequest, WatchResponse};
use tonic::{Request, Response, Status};

use crate::api::Api;
use crate::api::grpc::{invalid, known, refused};
use crate::api::reading::{self, Place};
use crate::api::watching::{Said, Watching};
use crate::refusal::Refusal;
use crate::regions::Which;

/// HTTP/2 keeps the connection alive; the stream itself may be silent.
const PATIENCE: Duration = Duration::from_secs(60);

/// The service.
pub(super) struct Door {
    pub(super) api: Arc<Api>,
}

type Watched = Pin<Box<dyn Stream<Item = Result<WatchResponse, Status>> + Send>>;

#[tonic::async_trait]
impl Discovery for Door {
    async fn list(&self, request: Request<ListRequest>) -> Result<Response<ListResponse>, Status> {
        self.listed(request.into_inner()).map(Response::new).map_err(|refusal| refused(&refusal))
    }

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        self.got(&request.into_inner()).map(Response::new).map_err(|refusal| refused(&refusal))
    }

    async fn regions(&self, _: Request<RegionsRequest>) -> Result<Response<RegionsResponse>, Status> {
        let views = self.api.regions.now(&Which::All).map_err(|refusal| refused(&refusal))?;
        Ok(Response::new(RegionsResponse { regions: self.standing(&views) }))
    }

    async fn removals(
        &self,
        request: Request<RemovalsRequest>,
    ) -> Result<Response<RemovalsResponse>, Status> {
        self.gone(&request.into_inner()).map(Response::new).map_err(|refusal| refused(&refusal))
    }

    type WatchStream = Watched;

    async fn watch(&self, request: Request<WatchRequest>) -> Result<Response<Watched>, Status> {
        self.watched(request.into_inner()).map(Response::new).map_err(|refusal| refused(&refusal))
    }
}

impl Door {
    fn listed(&self, wire: ListRequest) -> Result<ListResponse, Refusal> {
        let which = which(&wire.region)?;
        let limit = limit(wire.limit)?;
        let place = match wire.page_token.as_str() {
            "" => None,
            token => {
                let place = Place::parse(token);
                Some(place.ok_or_else(|| Refusal::invalid(vec![reading::foreign_token()]))?)
            }
        };
        let query = query(wire.query)?;
        let views = self.api.regions.now(&which)?;
        let listing = reading::list(&views, &query, limit, place.as_ref())?;
        let agent = |(region, found): &(rollcall_model::Region, Arc<rollcall_model::Registration>)| {
            v1::Agent { region: region.as_str().to_owned(), registration: Some(convert::registration(found)) }
        };
        Ok(ListResponse {
            agents: listing.agents.iter().map(agent).collect(),
            regions: self.standing(&views),
            next_page_token: listing.next.as_ref().map(Place::token),
        })
    }

    fn got(&self, wire: &GetRequest) -> Result<GetResponse, Refusal> {
        let which = which(&wire.region)?;
        let id = InstanceId::parse(&wire.id).map_err(|finding| Refusal::invalid(vec![finding]))?;
        let (region, found) = reading::find(&self.api.regions.now(&which)?, &id)?;
        let agent = v1::Agent {
            region: region.as_str().to_owned(),
            registration: Some(convert::registration(&found)),
        };
        Ok(GetResponse { agent: Some(agent) })
    }

    fn gone(&self, wire: &RemovalsRequest) -> Result<RemovalsResponse, Refusal> {
        let limit = limit(wire.limit)?;
        let id = match wire.id.as_str() {
            "" => None,
            text => {
                let bad =
                    |finding: rollcall_model::Invalid| invalid(Code::InvalidParameter, "id", finding.detail);
                Some(InstanceId::parse(text).map_err(bad)?)
            }
        };
        let views = self.api.regions.now(&Which::All)?;
        let removals = reading::removals(&views, id.as_ref(), limit).into_iter().map(|gone| RemovalItem {
            region: gone.region.as_str().to_owned(),
            removal: Some(convert::removal(&gone.removal)),
            position: gone.position.as_ref().map(convert::position),
        });
        Ok(RemovalsResponse { removals: removals.collect() })
    }

    fn standing(&self, views: &[Arc<View>]) -> Vec<v1::RegionStatus> {
        let now = self.api.clock.now();
        let status = |view: &Arc<View>| {
            let own = view.region() == self.api.regions.own();
            convert::region_status(&RegionStatus { view: View::clone(view), own }, now)
        };
        views.iter().map(status).collect()
    }

    fn watched(&self, wire: WatchRequest) -> Result<Watched, Refusal> {
        let which = which(&wire.region)?;
        if which == Which::All {
            let detail = "one stream carries one region: name it, and open one for each";
            return Err(invalid(Code::InvalidParameter, "region", detail));
        }
        let query = query(wire.query)?;
        let since = match wire.since {
            None => None,
            wire => Some(
                convert::position_from(wire, "since")
                    .map_err(|error| invalid(Code::InvalidParameter, "since", error.why))?,
            ),
        };
        let views = self.api.regions.select(&which)?;
        if self.api.stopping.is_cancelled() {
            return Err(Refusal::new(Code::Draining, "the process is shutting down"));
        }
        let clock = self.api.clock.clone();
        let watching = Watching::new(views, &query, |_| since.clone(), clock, self.api.stopping.clone());
        let seed = (watching, VecDeque::new());
        Ok(Box::pin(stream::unfold(seed, |(mut watching, mut said)| async move {
            loop {
                if let Some(event) = said.pop_front() {
                    return Some((Ok(convert::event(&event)), (watching, said)));
                }
                match watching.next(PATIENCE).await {
                    Said::Events(_, events) => said.extend(events),
                    Said::Nothing => {}
                    Said::Over => return None,
                }
            }
        })))
    }
}

fn which(region: &str) -> Result<Which, Refusal> {
    if region.is_empty() {
        return Ok(Which::Own);
    }
    Which::parse(region).map_err(|finding| Refusal::invalid(vec![finding]))
}

fn limit(number: u32) -> Result<usize, Refusal> {
    match usize::try_from(number).unwrap_or(usize::MAX) {
        0 => Ok(limits::PAGE_DEFAULT),
        number => reading::limit(number).map_err(|detail| invalid(Code::InvalidParameter, "limit", detail)),
    }
}

fn query(wire: Option<v1::Query>) -> Result<Query, Refusal> {
    if let Some(wire) = &wire {
        known::<v1::Kind>(wire.kind, "kind")?;
        known::<v1::Lifecycle>(wire.lifecycle, "lifecycle")?;
    }
    convert::query_from(wire).map_err(|finding| Refusal::invalid(vec![finding]))
}
