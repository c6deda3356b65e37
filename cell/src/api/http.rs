//! HTTP with JSON: the routes, and what is said where there is none.

mod agents;
mod body;
mod card;
mod json;
mod lists;
mod operator;
mod parameters;
mod problem;
mod process;
mod registrations;
mod report;
mod resolve;
mod row;
mod subject;
mod watch;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::CONNECTION;
use axum::http::{self, HeaderValue, Method, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use rollcall_model::{Code, Invalid};
use rollcall_runtime::serve::{self, BadHead, Unreadable};
use tonic::codegen::Service as _;

use crate::api::Api;
use crate::api::figures::Asked;
use crate::api::http::parameters::Parameters;
use crate::refusal::Refusal;

pub use lists::Lists;
pub use resolve::Turns;

type Shared = Arc<Api>;
type Answer = Result<Response, Refusal>;

/// The HTTP face: what is done with every request, whatever it asks, and then the routes.
///
/// It is a function around the routes and no layers on them: each of those costs a call several boxes.
#[derive(Clone)]
pub(super) struct Face {
    api: Shared,
    routes: Router,
}

impl Face {
    pub(super) fn new(api: Shared) -> Self {
        Self { routes: routes(Arc::clone(&api)), api }
    }

    /// Refuses a head that cannot be trusted or is too large, before anything reads it; and counts what is answered.
    pub(super) async fn answer(self, request: Request) -> Response {
        let is_last = serve::is_last(&request);
        let mut response = match serve::bad_head(&request) {
            Some(bad) => refused_head(bad).into_response(),
            None => {
                let api = Arc::clone(&self.api);
                let asked = Asked::http(request.method(), request.uri().path());
                api.figures.count(asked, self.routed(request)).await
            }
        };
        if is_last {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    async fn routed(mut self, request: Request) -> Response {
        // What is asked for most need not look for its route.
        if request.method() == Method::GET && request.uri().path() == LISTS {
            return agents::list(State(self.api), request.into_parts().0.uri).await.into_response();
        }
        let Ok(response) = self.routes.call(request).await;
        response
    }
}

/// Where lists are.
const LISTS: &str = "/v1/agents";

/// All routes of the HTTP face.
fn routes(api: Shared) -> Router {
    Router::new()
        .route("/", get(root))
        .route("/v1/registrations", post(registrations::register))
        .route("/v1/renewals", post(registrations::renew_all))
        .route(
            "/v1/registrations/{namespace}/{name}/{instance}",
            axum::routing::patch(registrations::update).delete(registrations::deregister),
        )
        .route(
            "/v1/registrations/{namespace}/{name}/{instance}/lease",
            get(registrations::lease).put(registrations::renew),
        )
        .route(LISTS, get(agents::list))
        .route("/v1/agents/{namespace}/{name}/{instance}", get(agents::get))
        .route("/v1/agents/{namespace}/{name}/.well-known/agent-card.json", get(card::card))
        .route("/v1/resolve", get(resolve::answer))
        .route("/v1/regions", get(agents::regions))
        .route("/v1/removals", get(agents::removals))
        .route("/v1/guard", get(operator::guard))
        .route("/v1/guard/release", post(operator::release))
        .route("/v1/admin/evict", post(operator::evict))
        .route("/v1/admin/mute", post(operator::mute))
        .route("/v1/watch", get(watch::watch))
        .route("/livez", get(process::live))
        .route("/readyz", get(process::ready))
        .route("/metrics", get(process::metrics))
        .route("/version", get(process::version))
        .fallback(nothing_here)
        .method_not_allowed_fallback(no_such_method)
        .with_state(api)
}

fn refused_head(bad: BadHead) -> Refusal {
    let head = |detail: &str| Refusal::invalid(vec![Invalid::new(Code::InvalidParameter, "", detail)]);
    match bad {
        BadHead::Address => {
            let most = serve::ADDRESS_BYTES_MAX;
            head(&format!("path and parameters together are at most {most} bytes"))
        }
        BadHead::Fields => Refusal::new(Code::TooLarge, too_many_headers()),
        BadHead::Host => head("a request of HTTP/1.1 has exactly one Host header"),
    }
}

fn too_many_headers() -> String {
    format!("headers are at most {}, and {} bytes in all", serve::FIELDS_MAX, serve::FIELDS_BYTES_MAX)
}

/// What is said to a request that cannot be read as one.
pub(super) fn unreadable(why: Unreadable) -> http::Response<Vec<u8>> {
    let (code, detail) = match why {
        Unreadable::Malformed => (
            Code::InvalidParameter,
            "the head of the request cannot be read: HTTP/1.1 and HTTP/2 are spoken here, without TLS"
                .to_owned(),
        ),
        Unreadable::Unescaped(those) => (Code::InvalidParameter, those.to_string()),
        Unreadable::TooLarge => (Code::TooLarge, too_many_headers()),
    };
    problem::unread(code, &detail)
}

async fn nothing_here(uri: Uri) -> Refusal {
    Refusal::new(Code::NotFound, format!("nothing is served at {}; GET / says what is", uri.path()))
}

async fn no_such_method(method: Method, uri: Uri) -> Refusal {
    Refusal::new(Code::MethodNotAllowed, format!("{} does not take {method}", uri.path()))
}

/// What to try next, for somebody who opened the address in a browser or with curl.
async fn root(State(api): State<Shared>, parameters: Parameters) -> Answer {
    parameters.close()?;
    let region = api.regions.own();
    Ok(process::text(format!(
        "Rollcall {}: the registry of region {region}.\n\n\
         Who is there:      curl $URL/v1/agents\n\
         Whom to call:      curl $URL/v1/resolve?name=<name>\n\
         Which regions:     curl $URL/v1/regions\n\
         What happens:      curl -N $URL/v1/watch\n\
         Who went and why:  curl $URL/v1/removals\n\
         What is held:      curl $URL/v1/guard\n\
         Register:          curl -X POST $URL/v1/registrations -H 'content-type: application/json' \\\n\
         \x20                    -d '{{\"id\": \"demo/hello\", \"endpoints\": [{{\"url\": \"http://127.0.0.1:8080/\"}}]}}'\n\
         Keep it alive:     curl -X PUT $URL/v1/registrations/<id>/lease -H 'if-match: \"<epoch>\"'\n",
        api.version,
    )))
}
