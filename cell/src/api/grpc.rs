//! gRPC: Registrar, Discovery, Admin, Keeper, health and reflection.
//!
//! Promises: a refusal's status carries the code of the contract in its trailers, so that nobody has to read a sentence.

mod admin;
mod calls;
mod discovery;
mod health;
mod keeper;
mod registrar;
mod session;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::middleware::{from_fn_with_state, map_response};
use http_body_util::BodyExt as _;
use rollcall_model::{Code, Invalid, limits};
use rollcall_proto::refusal::{self, ENDPOINT_TRAILER, EPOCH_TRAILER, status};
use rollcall_proto::v1::admin_server::AdminServer;
use rollcall_proto::v1::discovery_server::DiscoveryServer;
use rollcall_proto::v1::keeper_server::KeeperServer;
use rollcall_proto::v1::registrar_server::RegistrarServer;
use tonic::Status;
use tonic::service::Routes;
use tonic_health::pb::health_server::HealthServer;

use crate::api::Api;
use crate::api::figures::count_grpc;
use crate::api::unread::Held;
use crate::random;
use crate::refusal::Refusal;

/// Largest request taken: the same as over HTTP. A batch of a thousand of the longest renewals fits.
const REQUEST_BYTES_MAX: usize = limits::BODY_BYTES_MAX;
/// Largest message sent. Pages stay under 1 MiB, but a delta never splits a revision, and a group commit of the store
/// is 1 MiB before its records get their positions and digests: who follows a cell must take messages of this size.
const MESSAGE_BYTES_MAX: usize = crate::views::MESSAGE_BYTES_MAX;

/// All services.
pub(super) fn routes(api: Arc<Api>) -> Router {
    let registrar = RegistrarServer::new(registrar::Door { api: Arc::clone(&api) })
        .max_decoding_message_size(REQUEST_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let discovery = DiscoveryServer::new(discovery::Door { api: Arc::clone(&api) })
        .max_decoding_message_size(REQUEST_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let keeper = KeeperServer::new(keeper::Door { api: Arc::clone(&api) })
        .max_decoding_message_size(REQUEST_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let admin = AdminServer::new(admin::Door { api: Arc::clone(&api) })
        .max_decoding_message_size(REQUEST_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let routes = Routes::new(registrar)
        .add_service(discovery)
        .add_service(admin)
        .add_service(keeper)
        .add_service(HealthServer::new(health::Door { api: Arc::clone(&api) }));
    // Under both names: many tools ask by the older one alone.
    let described = || {
        use tonic_reflection::pb::{v1, v1alpha};
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(rollcall_proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(v1::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(v1alpha::FILE_DESCRIPTOR_SET)
            .include_reflection_service(false)
    };
    let routes = match (described().build_v1(), described().build_v1alpha()) {
        (Ok(reflection), Ok(older)) => routes.add_service(reflection).add_service(older),
        (Err(error), _) | (_, Err(error)) => {
            // The descriptors are compiled in, and a test reads them; a registry without reflection still serves.
            tracing::error!(%error, "reflection has no descriptors");
            routes
        }
    };
    let sessions = Arc::clone(&api);
    let counted = from_fn_with_state(Arc::clone(&api), count_grpc);
    let session = axum::routing::post(move |request| session::answer(Arc::clone(&sessions), request));
    let watch = axum::routing::post(move |request| watch::answer(Arc::clone(&api), request));
    let routes = routes.into_axum_router().route(session::PATH, session).route(watch::PATH, watch);
    routes.layer(map_response(coded)).layer(counted)
}

/// What the machinery of gRPC refuses by itself has a code of ours, too; and what is large weighs until it is sent.
async fn coded(mut answer: axum::response::Response) -> axum::response::Response {
    let held = answer.extensions_mut().remove::<Arc<Held>>();
    let answer = refusal::completed(answer);
    match held {
        None => answer.map(Body::new),
        Some(held) => answer.map(|body| {
            let over = move |bytes| Arc::clone(&held).over(bytes);
            Body::new(body.map_frame(move |frame| frame.map_data(&over)))
        }),
    }
}

/// What HTTP lists as `errors` stands in the sentence.
fn sentence(refusal: &Refusal) -> String {
    if refusal.findings.is_empty() {
        return refusal.detail.clone();
    }
    let place = |finding: &Invalid| match finding.pointer.as_str() {
        "" => finding.detail.clone(),
        _ => finding.to_string(),
    };
    refusal.findings.iter().map(place).collect::<Vec<_>>().join("; ")
}

/// A refusal as a status.
fn refused(refusal: &Refusal) -> Status {
    let mut status = status(refusal.code, &sentence(refusal), retry_after(refusal));
    if let Some(current) = &refusal.current {
        let trailers =
            [(EPOCH_TRAILER, current.epoch.to_string()), (ENDPOINT_TRAILER, current.endpoint.clone())];
        for (name, value) in trailers {
            if let Ok(value) = value.parse() {
                status.metadata_mut().insert(name, value);
            }
        }
    }
    status
}

/// The wait before another try, spread, so that those who were refused together do not come back together.
fn retry_after(refusal: &Refusal) -> Option<Duration> {
    refusal.retry_after.map(|wait| wait.mul_f64(1.0 + random::chance()))
}

fn invalid(code: Code, field: &str, detail: impl Into<String>) -> Refusal {
    Refusal::invalid(vec![Invalid::new(code, field, detail)])
}

/// Refuses a word of an enumeration that this version does not know; unspecified is a word, too.
fn known<T: TryFrom<i32>>(number: i32, field: &str) -> Result<T, Refusal> {
    let detail = "this version does not know the value";
    T::try_from(number).map_err(|_| invalid(Code::InvalidBody, field, detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rollcall_model::{Epoch, Revision};
    use rollcall_proto::refusal::{code_of, retry_after_of};

    #[test]
    fn a_status_carries_code_wait_and_winner() {
        let current =
            crate::refusal::Current { epoch: Epoch::new(1, Revision(9)), endpoint: "http://h:1/".into() };
        let lost =
            refused(&Refusal { current: Some(current), ..Refusal::new(Code::Superseded, "a newer one") });
        assert_eq!((lost.code(), code_of(&lost)), (tonic::Code::FailedPrecondition, Some(Code::Superseded)));
        assert_eq!(lost.metadata().get(EPOCH_TRAILER).unwrap(), "1099511627785");
        assert_eq!(lost.metadata().get(ENDPOINT_TRAILER).unwrap(), "http://h:1/");
        let busy = refused(&Refusal::new(Code::Overloaded, "x"));
        let wait = retry_after_of(&busy).unwrap();
        assert!((Duration::from_secs(1)..Duration::from_secs(2)).contains(&wait));
    }

    #[test]
    fn a_status_names_each_place() {
        let findings = vec![
            Invalid::new(Code::InvalidId, "/id", "it is empty"),
            Invalid::new(Code::InvalidBody, "/zone", "it must be text"),
        ];
        assert_eq!(
            refused(&Refusal::invalid(findings)).message(),
            "/id: it is empty; /zone: it must be text"
        );
    }

    #[test]
    fn words_of_other_versions_are_refused() {
        assert!(known::<rollcall_proto::v1::Kind>(0, "kind").is_ok());
        assert_eq!(known::<rollcall_proto::v1::Kind>(9, "kind").unwrap_err().code, Code::InvalidBody);
    }
}
