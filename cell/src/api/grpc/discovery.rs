//! Readers over gRPC.

use std::sync::Arc;

use futures_util::stream;
use rollcall_model::{Code, InstanceId, Query, View, limits};
use rollcall_proto::Message;
use rollcall_proto::convert::{self, RegionStatus};
use rollcall_proto::stamp::stamped;
use rollcall_proto::v1::discovery_server::Discovery;
use rollcall_proto::v1::{self, GetRequest, GetResponse, ListRequest, ListResponse};
use rollcall_proto::v1::{RegionsRequest, RegionsResponse, RemovalItem, RemovalsRequest, RemovalsResponse};
use rollcall_proto::v1::{WatchRequest, WatchResponse};
use tonic::{Request, Response, Status};

use crate::api::Api;
use crate::api::grpc::{invalid, known, refused};
use crate::api::hint;
use crate::api::reading::{self, Place};
use crate::api::unread::Unread;
use crate::refusal::Refusal;
use crate::regions::Which;

/// A response is there as a message and as what is written of it.
const WEIGHT: usize = 2;

/// The service.
pub(super) struct Door {
    pub(super) api: Arc<Api>,
}

#[tonic::async_trait]
impl Discovery for Door {
    async fn list(&self, request: Request<ListRequest>) -> Result<Response<ListResponse>, Status> {
        self.listed(request.into_inner()).map_err(|refusal| refused(&refusal))
    }

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        let got = self.got(&request.into_inner());
        got.and_then(|got| self.weighed(got)).map_err(|refusal| refused(&refusal))
    }

    async fn regions(&self, _: Request<RegionsRequest>) -> Result<Response<RegionsResponse>, Status> {
        let views = self.api.regions.now(&Which::All).map_err(|refusal| refused(&refusal))?;
        Ok(stamped(RegionsResponse { regions: self.standing(&views) }, &self.api.clock))
    }

    async fn removals(
        &self,
        request: Request<RemovalsRequest>,
    ) -> Result<Response<RemovalsResponse>, Status> {
        let gone = self.gone(&request.into_inner());
        gone.and_then(|gone| self.weighed(gone)).map_err(|refusal| refused(&refusal))
    }

    type WatchStream = stream::Pending<Result<WatchResponse, Status>>;

    async fn watch(&self, _: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        // Its route stands before the service's: see `watch`.
        Err(refused(&Refusal::new(Code::Internal, "a watch came where none is answered")))
    }
}

impl Door {
    fn listed(&self, wire: ListRequest) -> Result<Response<ListResponse>, Refusal> {
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
        let mut walk = reading::walk(&views, &query, place.as_ref())?;
        let (mut agents, mut bytes, mut held, mut last) = (Vec::new(), 0, None, None);
        let has_more = loop {
            let Some((at, found)) = walk.next() else { break false };
            let Some(region) = views.get(at).map(|view| view.region()).filter(|_| agents.len() < limit)
            else {
                break true;
            };
            let agent = v1::Agent {
                region: region.as_str().to_owned(),
                registration: Some(convert::registration(found)),
            };
            bytes += agent.encoded_len();
            if bytes > limits::PAGE_BYTES_MAX && !agents.is_empty() {
                break true;
            }
            if held.is_none() && !Unread::passes(bytes) {
                held = Some(self.api.unread.take(WEIGHT * limits::PAGE_BYTES_MAX)?);
            }
            agents.push(agent);
            last = Some((region, found));
        };
        let next =
            last.filter(|_| has_more).map(|(region, last)| Place::behind(last, region, &views, &query));
        let next_page_token = next.as_ref().map(Place::token);
        let hint = if agents.is_empty() { hint::of(&self.api.regions, &query)? } else { None };
        let regions = self.standing(&views);
        let mut response = Response::new(ListResponse { agents, regions, next_page_token, hint });
        if let Some(mut held) = held {
            held.shrink(WEIGHT * response.get_ref().encoded_len());
            response.extensions_mut().insert(Arc::new(held));
        }
        Ok(response)
    }

    /// A response that weighs until it is taken, if it is large.
    fn weighed<T: Message>(&self, answer: T) -> Result<Response<T>, Refusal> {
        let bytes = answer.encoded_len();
        let mut response = Response::new(answer);
        if !Unread::passes(bytes) {
            response.extensions_mut().insert(Arc::new(self.api.unread.take(WEIGHT * bytes)?));
        }
        Ok(response)
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
}

pub(super) fn which(region: &str) -> Result<Which, Refusal> {
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

pub(super) fn query(wire: Option<v1::Query>) -> Result<Query, Refusal> {
    if let Some(wire) = &wire {
        known::<v1::Kind>(wire.kind, "kind")?;
        known::<v1::Lifecycle>(wire.lifecycle, "lifecycle")?;
    }
    convert::query_from(wire).map_err(|finding| Refusal::invalid(vec![finding]))
}
