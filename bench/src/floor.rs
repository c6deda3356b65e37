//! The least that a stream of gRPC costs here: a process of its own that reads a session's messages and answers each
//! with as many results, on generated code, and judges nothing. What a cell costs above it is the cell's.
//!
//! It stands in two places: on tonic's own server, and behind the serving edge that every process of ours has. What lies
//! between the two is the edge's.

use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use rollcall_proto::v1::registrar_server::{Registrar, RegistrarServer};
use rollcall_proto::v1::renew_response::{Renewed, Result as Item, result::Outcome};
use rollcall_proto::v1::session_request::Request as Asked;
use rollcall_proto::v1::session_response::Response as Answered;
use rollcall_proto::v1::{
    DeregisterRequest, DeregisterResponse, RegisterRequest, RegisterResponse, RenewRequest, RenewResponse,
    SessionRequest, SessionResponse, UpdateRequest, UpdateResponse,
};
use rollcall_runtime::Metrics;
use rollcall_runtime::serve::{Limits, Peers, Serve};
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

/// Longest wait for its start.
const START: Duration = Duration::from_secs(20);

/// Where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On tonic's own server.
    Bare,
    /// Behind the serving edge of our processes.
    Edge,
}

impl Place {
    const fn word(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Edge => "edge",
        }
    }
}

/// The running process; it ends when this is dropped.
#[derive(Debug)]
pub struct Floor {
    child: Child,
    url: String,
}

impl Floor {
    /// Starts this program once more, as the floor of a figure: its words are the place and the address.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start(figure: &str, place: Place) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        drop(listener);
        let program = std::env::current_exe().expect("this program has a path");
        let child = Command::new(program)
            .args(["part-of", figure, place.word(), &address.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("the floor starts");
        let floor = Self { child, url: format!("http://{address}") };
        let ready = async {
            while tokio::net::TcpStream::connect(address).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(START, ready).await.expect("the floor answers");
        floor
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves at a place's word and an address until the process is ended.
///
/// # Panics
/// When the address cannot be used.
pub async fn serve(place: &str, address: &str) {
    let registrar = RegistrarServer::new(Judgeless);
    if place == Place::Bare.word() {
        let address = address.parse().expect("an address");
        let mut server = tonic::transport::Server::builder().tcp_nodelay(true);
        return server.add_service(registrar).serve(address).await.expect("it serves");
    }
    let serve = Serve {
        listener: rollcall_runtime::listen::bind(address).await.expect("an address"),
        name: "floor",
        app: Routes::new(registrar).into_axum_router(),
        limits: Limits::default(),
        peers: Peers::new(&Metrics::new()),
        words: |_| axum::http::Response::default(),
        stopping: tokio_util::sync::CancellationToken::new(),
    };
    serve.run().await;
}

struct Judgeless;

fn no<T>() -> Result<T, Status> {
    Err(Status::unimplemented("only sessions"))
}

#[tonic::async_trait]
impl Registrar for Judgeless {
    type SessionStream = Pin<Box<dyn Stream<Item = Result<SessionResponse, Status>> + Send>>;

    async fn register(&self, _: Request<RegisterRequest>) -> Result<Response<RegisterResponse>, Status> {
        no()
    }

    async fn renew(&self, _: Request<RenewRequest>) -> Result<Response<RenewResponse>, Status> {
        no()
    }

    async fn update(&self, _: Request<UpdateRequest>) -> Result<Response<UpdateResponse>, Status> {
        no()
    }

    async fn deregister(
        &self,
        _: Request<DeregisterRequest>,
    ) -> Result<Response<DeregisterResponse>, Status> {
        no()
    }

    async fn session(
        &self,
        request: Request<Streaming<SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        Ok(Response::new(Box::pin(request.into_inner().map(|asked| asked.map(answer)))))
    }
}

fn answer(asked: SessionRequest) -> SessionResponse {
    let items = match asked.request {
        Some(Asked::Renew(wire)) => wire.items,
        _ => Vec::new(),
    };
    let renewed = |id| Item {
        id,
        outcome: Some(Outcome::Renewed(Renewed {
            lease_seconds: 300,
            heartbeat_seconds: 100.0,
            lease_expires_at_ms: 1_800_000_000_000,
            superseded: false,
        })),
    };
    let results = items.into_iter().map(|item| renewed(item.id)).collect();
    SessionResponse { call: asked.call, response: Some(Answered::Renew(RenewResponse { results })) }
}
