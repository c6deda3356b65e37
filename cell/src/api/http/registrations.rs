//! Writers: register, renew, update, deregister.

use axum::extract::{Request, State};
use axum::http::header::ETAG;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use futures_util::future::join_all;
use rollcall_model::body::read_registration;
use rollcall_model::problem::Winner;
use rollcall_model::{Code, Holder, LeaseState};
use serde::Serialize;

use crate::admission;
use crate::api::http::json::{self, PositionJson, Shown};
use crate::api::http::parameters::Parameters;
use crate::api::http::problem;
use crate::api::http::subject::{self, Subject};
use crate::api::http::{Answer, Shared, body, report};
use crate::random;
use crate::refusal::Refusal;
use crate::registrar::{LeaseTimes, Report};

#[derive(Serialize)]
struct Registered<'a> {
    id: &'a str,
    region: &'a str,
    epoch: String,
    #[serde(flatten)]
    lease: Lease,
    position: PositionJson<'a>,
    /// Only where there are holders.
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<&'a str>,
}

#[derive(Serialize)]
struct Lease {
    lease_seconds: u64,
    heartbeat_seconds: serde_json::Number,
    lease_expires_at: String,
    /// Only where it is so.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    superseded: bool,
}

impl From<LeaseTimes> for Lease {
    fn from(times: LeaseTimes) -> Self {
        Self {
            lease_seconds: times.length.as_secs(),
            heartbeat_seconds: json::seconds(times.heartbeat),
            lease_expires_at: json::time(times.expires_at),
            superseded: times.superseded,
        }
    }
}

pub(super) async fn register(State(api): State<Shared>, parameters: Parameters, request: Request) -> Answer {
    parameters.close()?;
    let address = admission::address(request.extensions());
    let body = body::read(request, &[body::JSON]).await?;
    let (declared, holder) = read_registration(&body, random::id).map_err(Refusal::invalid)?;
    // Only what could be done is counted: a malformed body takes nobody's place.
    api.admission.register(api.standing(&declared.id), address)?;
    let registered = api.registrar.register_as(declared, &holder.clone().unwrap_or_default()).await?;
    let epoch = registered.registration.epoch;
    let shown = Registered {
        id: registered.registration.declared.id.as_str(),
        region: api.regions.own().as_str(),
        epoch: epoch.to_string(),
        lease: registered.lease.into(),
        position: PositionJson::from(&registered.position),
        holder: holder.as_ref().map(Holder::as_str),
    };
    let status = if registered.joined { StatusCode::OK } else { StatusCode::CREATED };
    let mut response = json::answer(status, &shown)?;
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{epoch}\"")) {
        response.headers_mut().insert(ETAG, tag);
    }
    Ok(response)
}

pub(super) async fn renew(
    State(api): State<Shared>,
    Subject(id): Subject,
    mut parameters: Parameters,
    headers: HeaderMap,
    request: Request,
) -> Answer {
    let holder = parameters.holder();
    parameters.close()?;
    let epoch = subject::epoch(&headers)?;
    let report = report::renewal(&body::read_if_any(request, &[body::JSON]).await?)?;
    let report = Report { holder, ..report };
    api.admission.renew(1)?;
    let times = api.registrar.renew(&id, epoch, report).await?;
    json::answer(StatusCode::OK, &Lease::from(times))
}

#[derive(Serialize)]
struct LeaseShown<'a> {
    id: &'a str,
    epoch: String,
    state: &'static str,
    last_renewal_at: String,
    lease_expires_at: String,
    lease_seconds: u64,
    missed: u64,
    holders: Option<Vec<HolderShown<'a>>>,
}

#[derive(Serialize)]
struct HolderShown<'a> {
    holder: &'a str,
    epoch: String,
    last_renewal_at: String,
}

pub(super) async fn lease(State(api): State<Shared>, Subject(id): Subject, parameters: Parameters) -> Answer {
    parameters.close()?;
    let facts = api.registrar.lease(&id).await?;
    let shown = LeaseShown {
        id: id.as_str(),
        epoch: facts.epoch.to_string(),
        state: match facts.state {
            LeaseState::Live => "live",
            LeaseState::Suspect => "suspect",
            // Past its deadline and not removed: held, be it only until the next sweep.
            LeaseState::Lapsed => "held",
        },
        last_renewal_at: json::time(facts.renewed_at),
        lease_expires_at: json::time(facts.expires_at),
        lease_seconds: facts.length.as_secs(),
        missed: facts.missed,
        holders: facts.holders.as_ref().map(|holders| {
            let shown = holders.iter().map(|facts| HolderShown {
                holder: facts.holder.as_str(),
                epoch: facts.epoch.to_string(),
                last_renewal_at: json::time(facts.renewed_at),
            });
            shown.collect()
        }),
    };
    json::answer(StatusCode::OK, &shown)
}

#[derive(Serialize)]
struct Results<'a> {
    results: Vec<ItemResult<'a>>,
}

#[derive(Serialize)]
struct ItemResult<'a> {
    id: &'a str,
    status: &'static str,
    lease_expires_at: Option<String>,
    current: Option<Winner<'a>>,
    /// Only where it is so.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    superseded: bool,
}

pub(super) async fn renew_all(State(api): State<Shared>, parameters: Parameters, request: Request) -> Answer {
    parameters.close()?;
    let items = report::renewals(&body::read(request, &[body::JSON]).await?)?;
    api.admission.renew(items.len())?;
    // All at once, a thousand at most: an item may wait for the replica, and the others need not wait for it.
    let outcomes =
        join_all(items.iter().map(|item| api.registrar.renew(&item.id, item.epoch, item.report.clone())))
            .await;
    // Nobody could judge one of them: then the batch is refused and sent again. Renewing twice is harmless.
    let is_verdict = |code| matches!(code, Code::Superseded | Code::NotRegistered);
    let unjudged =
        outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).find(|no| !is_verdict(no.code));
    if let Some(refusal) = unjudged {
        return Err(refusal.clone());
    }
    let results = items.iter().zip(&outcomes).map(|(item, outcome)| {
        let superseded = outcome.as_ref().is_ok_and(|times| times.superseded);
        let (status, expires_at, current) = match outcome {
            Ok(times) => ("ok", Some(json::time(times.expires_at)), None),
            Err(refusal) => (refusal.code.as_str(), None, refusal.current.as_ref().map(problem::winner)),
        };
        ItemResult { id: item.id.as_str(), status, lease_expires_at: expires_at, current, superseded }
    });
    json::answer(StatusCode::OK, &Results { results: results.collect() })
}

pub(super) async fn update(
    State(api): State<Shared>,
    Subject(id): Subject,
    parameters: Parameters,
    headers: HeaderMap,
    request: Request,
) -> Answer {
    parameters.close()?;
    let epoch = subject::epoch(&headers)?;
    let update = report::patch(&body::read(request, &[body::JSON, body::MERGE_PATCH]).await?)?;
    let registration = api.registrar.update(&id, epoch, update).await?;
    let shown = Shown { api: &api, internal: false };
    json::answer(StatusCode::OK, &shown.agent(api.regions.own(), &registration))
}

pub(super) async fn deregister(
    State(api): State<Shared>,
    Subject(id): Subject,
    mut parameters: Parameters,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let holder = parameters.holder();
    parameters.close()?;
    let epoch = subject::epoch(&headers)?;
    api.registrar.let_go(&id, epoch, &holder).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
