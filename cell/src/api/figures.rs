//! What is counted of calls: how many of each, what became of them, and how long they took.
//!
//! Promises: every attribute is of a closed set, so that no caller can make a cell remember more of them. Never here:
//! an id, a name or an address. A session's and a batch's renewals are counted where leases are renewed.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, Response, StatusCode};
use axum::middleware::Next;
use rollcall_model::Clock;
use rollcall_runtime::meter::{Counter, Histogram, KeyValue, Metrics};

use crate::api::Api;

/// The figures of both faces; clones share them.
#[derive(Clone)]
pub struct Figures {
    calls: Counter<u64>,
    duration: Histogram<f64>,
    clock: Clock,
}

impl Figures {
    /// Makes the instruments.
    #[must_use]
    pub fn new(metrics: &Metrics, clock: Clock) -> Self {
        Self {
            calls: metrics.counter(
                "rollcall.cell.api.calls",
                "{call}",
                "Calls by what was asked and what became of it: ok, refused, limited or failed.",
            ),
            duration: metrics.histogram(
                "rollcall.cell.api.duration",
                "s",
                "Time from a call's head to its answer's head; watches and sessions, which stay, are not in it.",
            ),
            clock,
        }
    }

    /// Counts a call with what became of it; none for what is about the process alone.
    pub(super) async fn count(
        &self,
        asked: Option<Asked>,
        answer: impl Future<Output = Response<Body>>,
    ) -> Response<Body> {
        let Some(asked) = asked else { return answer.await };
        let began = self.clock.now();
        let response = answer.await;
        let call = KeyValue::new("call", asked.call);
        let outcome = KeyValue::new("outcome", outcome(&response));
        self.calls.add(1, &[call.clone(), KeyValue::new("face", asked.face), outcome]);
        if !matches!(asked.call, "watch" | "session") {
            self.duration.record(self.clock.now().since(began).as_secs_f64(), &[call]);
        }
        response
    }
}

/// What is asked, and at which face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    call: &'static str,
    face: &'static str,
}

impl Asked {
    /// A call at the HTTP face.
    pub(super) fn http(method: &Method, path: &str) -> Option<Self> {
        http_call(method, path).map(|call| Self { call, face: "http" })
    }
}

/// Counts a call at the gRPC face.
pub(super) async fn count_grpc(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response<Body> {
    let asked = grpc_call(request.uri().path()).map(|call| Asked { call, face: "grpc" });
    api.figures.count(asked, next.run(request)).await
}

/// The name of a call; none for what is about the process alone.
fn http_call(method: &Method, path: &str) -> Option<&'static str> {
    // No route has more segments than five.
    let mut segments = path.strip_prefix("/v1/")?.splitn(6, '/');
    let parts: [&str; 5] = std::array::from_fn(|_| segments.next().unwrap_or_default());
    let method = if method == Method::HEAD { "GET" } else { method.as_str() };
    Some(match (method, parts) {
        ("POST", ["registrations", "", ..]) => "register",
        ("POST", ["renewals", "", ..]) | ("PUT", ["registrations", _, _, _, "lease"]) => "renew",
        ("GET", ["registrations", _, _, _, "lease"]) => "lease",
        ("PATCH", ["registrations", _, _, _, ""]) => "update",
        ("DELETE", ["registrations", _, _, _, ""]) => "deregister",
        ("GET", ["agents", "", ..]) => "list",
        ("GET", ["agents", _, _, ".well-known", "agent-card.json"]) => "card",
        ("GET", ["agents", _, _, _, ""]) => "get",
        ("GET", ["resolve", "", ..]) => "resolve",
        ("GET", ["regions", "", ..]) => "regions",
        ("GET", ["removals", "", ..]) => "removals",
        ("GET", ["watch", "", ..]) => "watch",
        ("GET", ["guard", "", ..]) => "guard",
        ("POST", ["guard", "release", ..]) => "release",
        ("POST", ["admin", "evict", ..]) => "evict",
        ("POST", ["admin", "mute", ..]) => "mute",
        _ => return None,
    })
}

fn grpc_call(path: &str) -> Option<&'static str> {
    Some(match path.strip_prefix("/rollcall.v1.")? {
        "Registrar/Register" => "register",
        "Registrar/Renew" => "renew",
        "Registrar/Update" => "update",
        "Registrar/Deregister" => "deregister",
        "Registrar/Session" => "session",
        "Discovery/List" => "list",
        "Discovery/Get" => "get",
        "Discovery/Regions" => "regions",
        "Discovery/Removals" => "removals",
        "Discovery/Watch" => "watch",
        "Admin/Guard" => "guard",
        "Admin/Release" => "release",
        "Admin/Evict" => "evict",
        "Admin/Mute" => "mute",
        _ => return None,
    })
}

/// What became of a call, for whoever wakes up for it: `refused` is the caller's to mend, `failed` ours.
fn outcome<B>(response: &Response<B>) -> &'static str {
    // A refusal over gRPC is all head; a status that comes after a body is one of success, or of a stream that broke.
    let status = response.headers().get("grpc-status").and_then(|status| status.to_str().ok());
    match (status, response.status()) {
        (None | Some("0"), StatusCode::TOO_MANY_REQUESTS) | (Some("8"), _) => "limited",
        (None | Some("0"), status) if status.is_server_error() => "failed",
        (None | Some("0"), status) if status.is_client_error() => "refused",
        (None | Some("0"), _) => "ok",
        // Unknown, deadline exceeded, internal, unavailable, data loss.
        (Some("2" | "4" | "13" | "14" | "15"), _) => "failed",
        (Some(_), _) => "refused",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_of_a_call_is_one_of_four_words() {
        let http = |status: u16| outcome(&Response::builder().status(status).body(()).unwrap());
        let words =
            [(200, "ok"), (201, "ok"), (304, "ok"), (404, "refused"), (412, "refused"), (429, "limited")];
        for (status, word) in words.into_iter().chain([(503, "failed"), (504, "failed")]) {
            assert_eq!(http(status), word, "{status}");
        }
        let grpc =
            |status: &str| outcome(&Response::builder().header("grpc-status", status).body(()).unwrap());
        for (status, word) in
            [("0", "ok"), ("3", "refused"), ("5", "refused"), ("8", "limited"), ("14", "failed")]
        {
            assert_eq!(grpc(status), word, "{status}");
        }
    }

    #[test]
    fn calls_of_both_faces_have_one_name_and_others_none() {
        assert_eq!(
            http_call(&Method::POST, "/v1/registrations"),
            grpc_call("/rollcall.v1.Registrar/Register")
        );
        assert_eq!(http_call(&Method::GET, "/v1/agents"), grpc_call("/rollcall.v1.Discovery/List"));
        for (method, path, call) in [
            (Method::PUT, "/v1/registrations/a/b/c/lease", Some("renew")),
            (Method::PATCH, "/v1/registrations/a/b/c", Some("update")),
            (Method::HEAD, "/v1/agents/a/b/c", Some("get")),
            (Method::GET, "/v1/agents/a/b/.well-known/agent-card.json", Some("card")),
            (Method::GET, "/v1/resolve", Some("resolve")),
            (Method::GET, "/metrics", None),
            (Method::DELETE, "/v1/agents", None),
            (Method::GET, "/v1/agents/a/b/c/d/e/f", None),
        ] {
            assert_eq!(http_call(&method, path), call, "{method} {path}");
        }
        assert_eq!(grpc_call("/grpc.health.v1.Health/Check"), None);
    }
}
