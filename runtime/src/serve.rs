//! Serving HTTP/1.1 and HTTP/2 at a listener, within bounds.
//!
//! Promises: a peer costs a bounded amount for a bounded time. There are at most so many connections at once; one that
//! does not finish a request's head, asks for nothing, or is gone without a word is let go of, and a request's body has
//! arrived in time or is given up. Answers that stream for days are as welcome as short ones: only a connection without
//! any request is idle, and only one that takes nothing of what it asked for is stalled. When the process stops, nothing
//! new is taken, what is in flight is answered, and what has not ended by a deadline is cut.
//!
//! A request that cannot be read is answered in the application's words. It never refuses one that it could read: routes, rights and sizes belong to the application. Each request carries
//! its peer's address as axum's `ConnectInfo<SocketAddr>`.

mod body;
mod connection;
mod gathered;
mod head;
mod pulse;
mod unescaped;
mod unreadable;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::ConnectInfo;
use futures_util::future::Either;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tower::{Service, ServiceExt as _};

use crate::meter::{Counter, Gauge, KeyValue, Metrics};
use connection::Socket;
pub use head::{BadHead, bad_head, is_last};
use pulse::{Pulse, Verdict};
pub use tower::service_fn;
pub use unescaped::Unescaped;
pub use unreadable::{Unreadable, Words};

/// Most bytes of a request's head: far more than applications take (see [`bad_head`]), so that it is they who refuse one
/// that is too large, in their own words, and not the protocol's machine, which has none.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Most bytes of an address, path and query together: what every browser and proxy takes.
pub const ADDRESS_BYTES_MAX: usize = 8 * 1024;
/// Most bytes of a request's header fields, names and values together.
pub const FIELDS_BYTES_MAX: usize = 16 * 1024;
/// Most header fields of a request: as many as the protocol's machine has room for without asking for memory, which for
/// each request is dear.
pub const FIELDS_MAX: usize = 100;
/// File descriptors that are left for files, for the peers this process calls, and for what is just being closed.
const DESCRIPTORS_RESERVE: u64 = 256;
/// Most connections of one listener: 10,000 long watches and a fleet's renewals beside them. A watch on one costs about
/// 30 KiB, so all of them half a gigabyte.
const CONNECTIONS_MOST: usize = 16_384;
/// One listener has at most this share of a process's connections, in quarters, so that none shuts out the others.
const SHARE_QUARTERS: usize = 3;
/// When the system cannot accept (no file descriptor, say), it is asked again after this.
const ACCEPT_AGAIN: Duration = Duration::from_millis(200);

/// How much peers may cost. The default is for a process of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most connections at once. Above it a new one is closed at once, so that its peer tries another process.
    pub connections_max: usize,
    /// Longest time for the head of a request, from the connection's first moment or the head's first byte; 10 s: it
    /// is one packet.
    pub head: Duration,
    /// Longest time without any request; 150 s: callers that call every 100 s or more often keep their connection.
    pub idle: Duration,
    /// Longest time for a request's body, as long as its answer has not begun; 30 s: 256 KiB at 9 KiB/s.
    pub body: Duration,
    /// Longest time in which a peer takes nothing of what is there for it, on a connection on which no other answer
    /// moves either; 30 s, and up to one look more, which is the shortest of `head`, `idle` and this: whoever takes a byte of
    /// a watch now and then stays, and one that is cut goes on where it was.
    pub stalled: Duration,
    /// Interval of HTTP/2 pings, and the longest wait for their answers; 5 s each: a peer that is gone without a word
    /// is let go of within 10 s. For HTTP/1.1 TCP's own probes do the same within three times this.
    pub keep_alive: Duration,
    /// Most requests at once on one HTTP/2 connection; 1,024: a watch for each region many times over, beside calls.
    pub streams_max: u32,
    /// How long what is in flight may take after the stop; 8 s: less than the drain of a whole process, so that this
    /// is the one who ends it.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: CONNECTIONS_MOST,
            head: Duration::from_secs(10),
            idle: Duration::from_secs(150),
            body: Duration::from_secs(30),
            stalled: Duration::from_secs(30),
            keep_alive: Duration::from_secs(5),
            streams_max: 1_024,
            drain: Duration::from_secs(8),
        }
    }
}

impl Limits {
    /// The default, with as many connections as the process's file descriptors allow one listener.
    #[must_use]
    pub fn of_process() -> Self {
        let share = places() / 4 * SHARE_QUARTERS;
        Self { connections_max: share.clamp(1, CONNECTIONS_MOST), ..Self::default() }
    }
}

/// Connections that this process has file descriptors for.
fn places() -> usize {
    use rustix::process::{Resource, getrlimit};
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let places = usize::try_from(descriptors.saturating_sub(DESCRIPTORS_RESERVE)).unwrap_or(usize::MAX);
    places.clamp(16, Semaphore::MAX_PERMITS)
}

/// A process may open too few files and connections to serve anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this process may open {limit} files and connections at once and needs {needed}: raise the limit, with `ulimit -n \
     {needed}` in a shell that may, or LimitNOFILE= of its unit"
)]
pub struct TooFewDescriptors {
    /// The limit it runs under.
    pub limit: u64,
    /// The least that it can work with.
    pub needed: u64,
}

/// Raises the soft limit of file descriptors to the hard one: the soft one is 1,024 almost everywhere, for the sake of
/// programs that use `select`. Called once by a process that will listen. `own` are those that it holds itself beside
/// what is left for files.
///
/// # Errors
/// When even the hard limit leaves none for connections: said at the start, because later every peer is refused without
/// a word.
pub fn raise_descriptor_limit(own: u64) -> Result<(), TooFewDescriptors> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of file descriptors stays as it is");
    }
    enough(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX), own)
}

fn enough(limit: u64, own: u64) -> Result<(), TooFewDescriptors> {
    let needed = DESCRIPTORS_RESERVE + own;
    if limit < needed { Err(TooFewDescriptors { limit, needed }) } else { Ok(()) }
}

/// What the peers of a process hold, over all its listeners. Cloned for each of them.
#[derive(Clone, Debug)]
pub struct Peers {
    /// A permit for each connection: together the listeners leave file descriptors for files, whoever comes.
    places: Arc<Semaphore>,
    open: Gauge<f64>,
    cut: Counter<u64>,
}

impl Peers {
    /// Nobody yet, and the instruments that count them.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        Self {
            places: Arc::new(Semaphore::new(places())),
            open: metrics.gauge(
                "rollcall.runtime.connections.open",
                "{connection}",
                "Connections that peers hold, by listener.",
            ),
            cut: metrics.counter(
                "rollcall.runtime.connections.cut",
                "{connection}",
                "Connections that were ended from this side, by listener and reason: full (above the bound), \
                 slow_head, idle, stalled, drain.",
            ),
        }
    }
}

/// What answers at a listener: routes, or a function in front of them ([`tower::service_fn`]) that says for itself what
/// needs no route. Routes cost a call several boxes.
pub trait App:
    Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone + Send + Sync + 'static
{
}

impl<A> App for A where
    A: Service<Request, Response = Response, Error = Infallible, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static
{
}

type Request = hyper::Request<Body>;
type Response = hyper::Response<Body>;

/// A listener and what is served there.
pub struct Serve<A> {
    /// Bound already.
    pub listener: TcpListener,
    /// Its name in logs and figures.
    pub name: &'static str,
    /// What answers.
    pub app: A,
    /// How much peers may cost.
    pub limits: Limits,
    /// Where its peers are counted.
    pub peers: Peers,
    /// What is said to a request that cannot be read.
    pub words: Words,
    /// Cancelled when the process stops.
    pub stopping: CancellationToken,
}

impl<A: App> Serve<A> {
    /// Serves until the process stops and what was in flight has ended, or its deadline has passed.
    pub async fn run(self) {
        let Self { listener, name, app, limits, peers, words, stopping } = self;
        let shared = Arc::new(Shared { name, app, limits, peers, words, stopping: stopping.clone() });
        let mut open = JoinSet::new();
        let mut is_full = false;
        loop {
            let accepted = tokio::select! {
                () = stopping.cancelled() => break,
                Some(ended) = open.join_next() => {
                    look(name, ended);
                    shared.count(open.len());
                    continue;
                }
                accepted = listener.accept() => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) if is_of_the_peer(&error) => continue,
                Err(error) => {
                    tracing::warn!(listener = name, %error, "no connection can be accepted");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                    continue;
                }
            };
            let place = Arc::clone(&shared.peers.places).try_acquire_owned();
            let place = place.ok().filter(|_| open.len() < limits.connections_max);
            let Some(place) = place else {
                shared.cut("full");
                if !is_full {
                    is_full = true;
                    tracing::warn!(
                        listener = name,
                        connections = open.len(),
                        "full: new connections are closed"
                    );
                }
                continue;
            };
            if is_full && open.len() < limits.connections_max / 10 * 9 {
                is_full = false;
                tracing::info!(listener = name, connections = open.len(), "connections are taken again");
            }
            let connection = Arc::clone(&shared).connection(stream, peer);
            open.spawn(async move {
                connection.await;
                drop(place);
            });
            shared.count(open.len());
        }
        drop(listener);
        let rest = async {
            while let Some(ended) = open.join_next().await {
                look(name, ended);
            }
        };
        if tokio::time::timeout(limits.drain, rest).await.is_err() {
            tracing::warn!(
                listener = name,
                connections = open.len(),
                "connections did not end in time, cutting them"
            );
            (0..open.len()).for_each(|_| shared.cut("drain"));
            open.shutdown().await;
        }
        shared.count(0);
    }
}

struct Shared<A> {
    name: &'static str,
    app: A,
    limits: Limits,
    peers: Peers,
    words: Words,
    stopping: CancellationToken,
}

impl<A: App> Shared<A> {
    fn count(&self, open: usize) {
        // The figure needs no more digits than a double has.
        #[allow(clippy::cast_precision_loss, reason = "at most some ten thousand")]
        self.peers.open.record(open as f64, &[KeyValue::new("listener", self.name)]);
    }

    fn cut(&self, reason: &'static str) {
        self.peers.cut.add(1, &[KeyValue::new("listener", self.name), KeyValue::new("reason", reason)]);
    }

    /// Serves one connection to its end.
    async fn connection(self: Arc<Self>, stream: TcpStream, peer: SocketAddr) {
        let Limits { keep_alive, streams_max, .. } = self.limits;
        if let Err(error) = prepare(&stream, keep_alive) {
            tracing::debug!(%error, "connection has no probes of its own");
        }
        let pulse = Arc::new(Pulse::new());
        let app = self.app.clone();
        let (beat, body_time) = (Arc::clone(&pulse), self.limits.body);
        let service = hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let turn = beat.begin();
            let (mut request, answered) = body::timed(request, body_time, &turn);
            request.extensions_mut().insert(ConnectInfo(peer));
            let app = app.clone();
            async move {
                let answer = app.oneshot(request).await;
                answered.begun();
                answer.map(|answer| answer.map(|body| body::counted(body, turn)))
            }
        });
        let mut builder = Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(HEAD_BYTES_MAX);
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(keep_alive)
            .keep_alive_timeout(keep_alive)
            .max_concurrent_streams(streams_max)
            .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX));
        let io = TokioIo::new(Socket::new(stream, Arc::clone(&pulse), self.words));
        let mut connection = Box::pin(builder.serve_connection(io, service));
        let mut is_ending = false;
        // Each is asked only when it has something to say: a connection's task runs for every message, and the end of the
        // process is one lock that all connections would take turns at.
        let mut calls = FuturesUnordered::new();
        calls.push(Either::Left(self.stopping.cancelled().map(|()| Call::Stop)));
        calls.push(Either::Right(next_look(&self.limits, &pulse)));
        loop {
            tokio::select! {
                biased;
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(listener = self.name, %peer, %error, "connection broke off");
                    }
                    return;
                }
                Some(call) = calls.next() => {
                    let verdict = match call {
                        Call::Stop if is_ending => continue,
                        Call::Stop => {
                            connection.as_mut().graceful_shutdown();
                            is_ending = true;
                            continue;
                        }
                        Call::Look => pulse.look(&self.limits),
                    };
                    match verdict {
                        Verdict::Alive => {}
                        Verdict::SlowHead => {
                            self.cut("slow_head");
                            return;
                        }
                        // Neither pings nor TCP's probes see it: the peer is there, and leaves what it asked for lying.
                        Verdict::Stalled => {
                            self.cut("stalled");
                            tracing::debug!(listener = self.name, %peer, "connection takes nothing, cutting it");
                            return;
                        }
                        // Told to end already, and still there after another such time.
                        Verdict::Idle if is_ending => return,
                        Verdict::Idle => {
                            self.cut("idle");
                            connection.as_mut().graceful_shutdown();
                            pulse.rest();
                            is_ending = true;
                        }
                    }
                    calls.push(Either::Right(next_look(&self.limits, &pulse)));
                }
            }
        }
    }
}

/// When a connection is to be looked at again.
fn next_look(limits: &Limits, pulse: &Pulse) -> impl Future<Output = Call> + use<> {
    tokio::time::sleep_until(pulse.next_look(limits)).map(|()| Call::Look)
}

/// What a connection is called for beside what comes on it.
enum Call {
    Stop,
    Look,
}

/// Small answers leave at once: held back for company they would wait 40 ms for an acknowledgement. And a peer that is
/// gone without a word is noticed, whether it owes an acknowledgement or nothing at all. The same ends one that takes
/// nothing for that long although there is something for it.
fn prepare(stream: &TcpStream, keep_alive: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(
        &TcpKeepalive::new().with_time(keep_alive).with_interval(keep_alive).with_retries(2),
    )?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(keep_alive * 3))?;
    Ok(())
}

/// Whether it is only this one peer that was not accepted.
fn is_of_the_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

fn look(name: &'static str, ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        // One request's defect takes its connection with it, not the process: a peer could repeat it at will.
        tracing::error!(listener = name, %error, "a request panicked");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_may_open_too_little_is_told_how_much_it_needs() {
        assert_eq!(enough(256, 0), Ok(()));
        assert_eq!(enough(u64::MAX, 36), Ok(()));
        let refused = enough(64, 36).expect_err("too few").to_string();
        assert!(
            refused.starts_with("this process may open 64 files and connections at once and needs 292:"),
            "{refused}"
        );
        assert!(refused.contains("`ulimit -n 292`"), "{refused}");
    }
}
