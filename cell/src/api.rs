//! The cell's two faces: HTTP with JSON, and gRPC, on the same use cases.
//!
//! Promises: a refusal means the same on both, because both read it from one table; what a reader is told is never
//! older than the view it was read from. Never here: a decision about a registration, a lease or a state.

mod figures;
mod grpc;
mod hint;
mod http;
mod reading;
mod unread;
mod watching;

pub(crate) use watching::{Downloads, Encodings};

use std::sync::Arc;

use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse as _;
use futures_util::FutureExt as _;
use rollcall_model::{Clock, Code, InstanceId};
use rollcall_runtime::serve::{App, service_fn};
use rollcall_runtime::unsaved::Unsaved;
use tokio_util::sync::CancellationToken;
use tonic::codegen::Service as _;

use crate::admission::{AdmissionHandle, Standing};
use crate::refusal::Refusal;
use crate::regions::Regions;
use crate::registrar::Registrar;
use crate::store::silence::Silence;
use crate::store::space::Space;
use crate::views::Sources;

pub use figures::Figures;
pub use http::{Lists, Turns};
pub use unread::Unread;

/// What both faces are made of.
#[derive(Clone)]
pub struct Api {
    /// The owners' use cases.
    pub registrar: Registrar,
    /// The door before them.
    pub admission: AdmissionHandle,
    /// What readers read.
    pub regions: Regions,
    /// Whether the store has any.
    pub space: Space,
    /// Whether it answers.
    pub silence: Silence,
    /// From where the other regions' views come.
    pub sources: Sources,
    /// Which copies on disk cannot be written.
    pub unsaved: Unsaved,
    /// What is counted of calls.
    pub figures: Figures,
    /// Time.
    pub clock: Clock,
    /// The failure domain that this process stands in.
    pub zone: Option<String>,
    /// Version of the build.
    pub version: &'static str,
    /// Commit of the build.
    pub commit: &'static str,
    /// Lists that were asked for before.
    pub lists: Lists,
    /// Answers that wait for their callers.
    pub unread: Unread,
    /// Whose turn it is in a round.
    pub turns: Turns,
    /// Renders the figures.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
    /// Cancelled when the process stops: watches end then.
    pub stopping: CancellationToken,
}

impl Api {
    /// Whether this cell knows an instance already. While its view was never loaded, nobody is known.
    fn standing(&self, id: &InstanceId) -> Standing {
        if self.registrar.current(id).is_some() { Standing::Known } else { Standing::New }
    }
}

/// The HTTP face.
pub fn http(api: Api) -> impl App {
    let face = http::Face::new(Arc::new(api));
    service_fn(move |request| face.clone().answer(request).map(Ok))
}

/// What both faces say to a request that cannot be read as one.
#[must_use]
pub fn unreadable(why: rollcall_runtime::serve::Unreadable) -> axum::http::Response<Vec<u8>> {
    http::unreadable(why)
}

/// The gRPC face: Registrar, Discovery, Keeper, health and reflection.
pub fn grpc(api: Api) -> impl App {
    // Answered by gRPC's machine, plain HTTP would get an empty 200.
    let face = grpc::routes(Arc::new(api));
    service_fn(move |request: Request| {
        let mut face = face.clone();
        async move {
            if is_grpc(&request) {
                return face.call(request).await;
            }
            let detail = "this port speaks gRPC alone; HTTP, and gRPC too, is at the cell's other one";
            Ok(Refusal::new(Code::UnsupportedMediaType, detail).into_response())
        }
    })
}

/// Both faces at one address: what comes as `application/grpc` is answered as gRPC, everything else as HTTP.
pub fn both(api: Api) -> impl App {
    let api = Arc::new(api);
    let grpc = grpc::routes(Arc::clone(&api));
    let http = http::Face::new(api);
    // One dispatch by content type, not one merged table: so each face keeps its own answer to what it does not know.
    service_fn(move |request: Request| {
        let (mut grpc, http) = (grpc.clone(), http.clone());
        async move { if is_grpc(&request) { grpc.call(request).await } else { Ok(http.answer(request).await) } }
    })
}

fn is_grpc(request: &Request) -> bool {
    request.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}
