//! The process over HTTP: alive, ready, figures, version, and the list of regions.
//!
//! Ready means that what can be served is: each followed region has its view, from disk or from the log, or the log was
//! asked and has none. A Kafka that is away does not make a replicator unready that has its copies; whether it publishes
//! is a figure and a line of `?verbose`, not a reason to take its views from the cells.

use std::fmt::Write;
use std::sync::Arc;

use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use rollcall_model::problem::{MEDIA_TYPE, Problem};
use rollcall_model::{Code, Instant, Position, Timestamp, View};
use rollcall_runtime::serve::{self, BadHead, Unreadable};
use rollcall_runtime::{build_info, meter};
use serde::Serialize;

use super::{Api, Shared};
use crate::publisher::Doing;

/// All routes.
pub fn routes(api: Api) -> Router {
    Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(figures))
        .route("/version", get(version))
        .route("/v1/regions", get(regions))
        .fallback(|uri: Uri| async move {
            let detail = format!("a replicator serves nothing at {}; a cell serves the registry", uri.path());
            problem(Code::NotFound, &detail)
        })
        .method_not_allowed_fallback(|| async {
            problem(Code::MethodNotAllowed, "a replicator is only read")
        })
        .layer(from_fn(judge_head))
        .with_state(Arc::new(api))
}

/// A refusal as every face of Rollcall says it.
fn problem(code: Code, detail: &str) -> Response {
    refused(code, detail).map(axum::body::Body::from)
}

fn refused(code: Code, detail: &str) -> axum::http::Response<Vec<u8>> {
    let mut response = axum::http::Response::new(Problem::new(code, detail).json());
    *response.status_mut() = StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    response
}

/// What is said to a request that cannot be read as one.
#[must_use]
pub fn unreadable(why: Unreadable) -> axum::http::Response<Vec<u8>> {
    match why {
        Unreadable::Malformed => refused(
            Code::InvalidParameter,
            "the head of the request cannot be read: HTTP/1.1 and HTTP/2 are spoken here, without TLS",
        ),
        Unreadable::Unescaped(those) => refused(Code::InvalidParameter, &those.to_string()),
        Unreadable::TooLarge => refused(Code::TooLarge, TOO_MANY_HEADERS),
    }
}

const TOO_MANY_HEADERS: &str = "there are too many headers, or they are too long";

async fn judge_head(request: Request, next: Next) -> Response {
    let bad = |detail| problem(Code::InvalidParameter, detail);
    match serve::bad_head(&request) {
        None => next.run(request).await,
        Some(BadHead::Address) => bad("path and parameters are too long"),
        Some(BadHead::Fields) => problem(Code::TooLarge, TOO_MANY_HEADERS),
        Some(BadHead::Host) => bad("a request of HTTP/1.1 has exactly one Host header"),
    }
}

async fn readyz(State(api): State<Shared>, RawQuery(query): RawQuery) -> Response {
    let status = if api.ready.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let is_verbose =
        query.is_some_and(|query| query.split('&').any(|part| part.split('=').next() == Some("verbose")));
    let word = if api.ready.is_ready() { "ready" } else { "not ready" };
    let text = if is_verbose { format!("{}{word}\n", lines(&api)) } else { format!("{word}\n") };
    (status, text).into_response()
}

fn lines(api: &Api) -> String {
    let mut text = String::new();
    let now = api.clock.now();
    for view in api.views.all() {
        let age = view.age(now).map_or_else(|| "-".into(), |age| format!("{} ms", age.as_millis()));
        let _ = writeln!(text, "view {}: {}, age {age}", view.region(), view.freshness(now).as_str());
    }
    if let Some(publisher) = &api.publisher {
        let status = publisher.borrow().clone();
        let state = match status.doing(now) {
            Doing::Waiting(reason) => format!("waiting: {reason}"),
            Doing::StandingBy => "standing by while another publishes, if one does".into(),
            Doing::Publishing => "publishing".into(),
            Doing::Starting => "starting".into(),
        };
        let _ = writeln!(text, "publisher {}: {state}", api.region);
        for drift in status.drift {
            let _ = writeln!(text, "topic {drift}");
        }
    }
    for line in api.unsaved.lines() {
        let _ = writeln!(text, "{line}");
    }
    for name in api.ready.waiting() {
        let _ = writeln!(text, "waiting for {name}");
    }
    text
}

async fn figures(State(api): State<Shared>) -> Response {
    ([(header::CONTENT_TYPE, meter::CONTENT_TYPE)], api.metrics.render()).into_response()
}

#[derive(Serialize)]
struct Version {
    version: &'static str,
    commit: &'static str,
    region: String,
    role: &'static str,
}

async fn version(State(api): State<Shared>) -> Json<Version> {
    let region = api.region.to_string();
    Json(Version { version: build_info::VERSION, commit: api.commit, region, role: "replicator" })
}

#[derive(Serialize)]
struct Regions {
    regions: Vec<RegionAnswer>,
}

#[derive(Serialize)]
struct RegionAnswer {
    region: String,
    role: &'static str,
    state: &'static str,
    age_ms: Option<u64>,
    position: Option<PositionAnswer>,
    count: Option<u64>,
    digest: Option<String>,
    last_resync: Option<ResyncAnswer>,
}

#[derive(Serialize)]
struct PositionAnswer {
    incarnation: String,
    revision: String,
}

#[derive(Serialize)]
struct ResyncAnswer {
    at: String,
    reason: &'static str,
}

async fn regions(State(api): State<Shared>) -> Json<Regions> {
    let now = api.clock.now();
    Json(Regions { regions: api.views.all().iter().map(|view| answer(view, now)).collect() })
}

fn answer(view: &View, now: Instant) -> RegionAnswer {
    let position = |position: &Position| PositionAnswer {
        incarnation: position.incarnation.to_string(),
        revision: position.revision.to_string(),
    };
    RegionAnswer {
        region: view.region().to_string(),
        role: "view",
        state: view.freshness(now).as_str(),
        age_ms: view.age(now).map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        position: view.position().map(position),
        count: view.state().map(rollcall_model::State::count),
        digest: view.state().map(|state| state.digest().to_string()),
        last_resync: view
            .last_resync()
            .map(|resync| ResyncAnswer { at: rfc3339(resync.at), reason: resync.reason }),
    }
}

fn rfc3339(at: Timestamp) -> String {
    // Out of jiff's ten thousand years is out of any clock's.
    jiff::Timestamp::from_millisecond(at.0).unwrap_or_default().to_string()
}
