//! The bounds of serving, over real sockets: what peers hold is given back, and nobody who behaves is let go of.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a promise that is not kept ends the test")]

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request};
use axum::http::Response;
use axum::routing::{get, post};
use rollcall_runtime::serve::{Limits, Peers, Serve, Unreadable};
use rollcall_runtime::{Metrics, Tasks};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Longest wait for anything that comes by itself.
const DEADLINE: Duration = Duration::from_secs(60);
/// Long enough never to come in a test.
const NEVER: Duration = Duration::from_secs(3_600);
/// Short enough to come at once; what must not be cut by it is busy, not fast.
const SOON: Duration = Duration::from_millis(100);

/// File descriptors belong to the process, so the tests take turns.
static TURN: Mutex<()> = Mutex::new(());

/// Runs a test with the process to itself. Its runtime begins after its turn has: a runtime holds descriptors of its
/// own, and one that is made beside a test that counts them looks like a leak.
fn alone(test: impl Future<Output = ()>) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test);
}

struct Server {
    at: SocketAddr,
    tasks: Tasks,
    metrics: Metrics,
}

/// Limits that no test meets by accident.
fn patient() -> Limits {
    Limits { head: NEVER, idle: NEVER, body: NEVER, stalled: NEVER, ..Limits::default() }
}

async fn whole(request: Request) -> Result<String, String> {
    let bytes = axum::body::to_bytes(request.into_body(), usize::MAX).await.map_err(|e| {
        let cause = std::error::Error::source(&e).map(ToString::to_string).unwrap_or_default();
        format!("{e} {cause}")
    })?;
    Ok(format!("{} bytes", bytes.len()))
}

fn words(why: Unreadable) -> Response<Vec<u8>> {
    Response::builder()
        .status(413)
        .header("x-why", "own words")
        .body(format!("{why:?}").into_bytes())
        .unwrap()
}

/// What the machine answers by itself, as an application might.
const MIMIC: &str = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\
                     date: Mon, 30 Nov 2026 09:40:08 GMT\r\n\r\n";

async fn drip() -> Body {
    let step = |n: u32| async move {
        tokio::time::sleep(SOON).await;
        Some((Ok::<_, Infallible>(Bytes::from_static(b"tick\n")), n + 1))
    };
    Body::from_stream(futures_util::stream::unfold(0, step))
}

/// More than any buffer on the way holds.
async fn flood() -> Body {
    let piece = |n: u32| async move {
        (n < 512).then(|| (Ok::<_, Infallible>(Bytes::from(vec![b'.'; 64 * 1024])), n + 1))
    };
    Body::from_stream(futures_util::stream::unfold(0, piece))
}

async fn start(limits: Limits) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (at, tasks, metrics) = (listener.local_addr().unwrap(), Tasks::new(), Metrics::new());
    let app = Router::new()
        .route("/", get(|ConnectInfo(peer): ConnectInfo<SocketAddr>| async move { format!("hello {peer}") }))
        .route("/whole", post(whole))
        .route("/refused", post(|| async { axum::http::StatusCode::IM_A_TEAPOT }))
        .route("/mimic", get(|| async { MIMIC }))
        .route("/drip", get(drip))
        .route("/flood", get(flood));
    let peers = Peers::new(&metrics);
    let serve = Serve { listener, name: "http", app, limits, peers, words, stopping: tasks.cancelled() };
    tasks.spawn("http", serve.run());
    Server { at, tasks, metrics }
}

impl Server {
    async fn open(&self) -> TcpStream {
        TcpStream::connect(self.at).await.unwrap()
    }

    async fn sent(&self, text: &str) -> TcpStream {
        let mut stream = self.open().await;
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    fn figure(&self, line: &str) -> Option<f64> {
        let text = self.metrics.render();
        let found = text.lines().find_map(|found| found.strip_prefix(line).map(str::to_owned));
        found.map(|value| value.trim().parse().unwrap())
    }

    fn cut(&self, reason: &str) -> f64 {
        let line = format!("rollcall_runtime_connections_cut_total{{listener=\"http\",reason=\"{reason}\"}}");
        self.figure(&line).unwrap_or_default()
    }

    async fn has_open(&self, expected: f64) {
        eventually(&format!("{expected} open connections"), || async {
            let open = self.figure("rollcall_runtime_connections_open{listener=\"http\"}");
            (open == Some(expected)).then_some(())
        })
        .await;
    }
}

async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    let asked = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, asked).await.unwrap_or_else(|_| panic!("not in time: {what}"))
}

/// Everything up to the end of the connection; a reset is an end, too.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut bytes));
    let _ = read.await.expect("the connection did not end");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Up to and with this text.
async fn until(stream: &mut TcpStream, text: &str) -> String {
    let mut bytes = Vec::new();
    let read = async {
        while !String::from_utf8_lossy(&bytes).contains(text) {
            assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "ended before {text:?}");
        }
    };
    tokio::time::timeout(DEADLINE, read).await.unwrap_or_else(|_| panic!("never came: {text:?}"));
    String::from_utf8_lossy(&bytes).into_owned()
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn alive() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

const ASK: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

#[test]
fn a_request_knows_its_peer_and_a_connection_serves_many() {
    alone(async {
        let server = start(patient()).await;
        let mut stream = server.open().await;
        let own = stream.local_addr().unwrap();
        for _ in 0..3 {
            stream.write_all(ASK.as_bytes()).await.unwrap();
            until(&mut stream, &format!("hello {own}")).await;
        }
    });
}

#[test]
fn f39_heads_that_never_become_whole_are_let_go_of() {
    alone(async {
        let server = start(Limits { head: SOON, ..patient() }).await;
        let (files, tasks) = (descriptors(), alive());
        let mut slow = Vec::new();
        for text in ["", "G", "GET / HT", "GET / HTTP/1.1\r\nhost: a\r\nx: "] {
            for _ in 0..50 {
                slow.push(server.sent(text).await);
            }
        }
        // One that had an answer first, and begins another head.
        let mut second = server.sent(ASK).await;
        until(&mut second, "hello").await;
        second.write_all(b"GET /").await.unwrap();
        slow.push(second);
        for stream in &mut slow {
            assert!(!rest(stream).await.contains("HTTP/1.1"), "answered");
        }
        assert!(server.cut("slow_head") >= 201.0);
        drop(slow);
        server.has_open(0.0).await;
        eventually("files and tasks as before", || async {
            (descriptors() <= files && alive() <= tasks).then_some(())
        })
        .await;
    });
}

#[test]
fn f39_a_connection_without_requests_ends_and_one_with_a_stream_does_not() {
    alone(async {
        let server = start(Limits { idle: SOON, ..patient() }).await;
        let mut watch = server.sent("GET /drip HTTP/1.1\r\nhost: a\r\n\r\n").await;
        let mut idle = server.sent(ASK).await;
        assert!(rest(&mut idle).await.contains("hello"));
        assert_eq!(server.cut("idle"), 1.0);
        // The stream has outlived the limit many times over.
        let mut seen = String::new();
        while seen.matches("tick").count() < 5 {
            seen.push_str(&until(&mut watch, "tick").await);
        }
        assert_eq!(server.cut("idle"), 1.0);
    });
}

#[test]
fn i25_a_peer_that_takes_nothing_of_what_it_asked_for_is_cut_and_a_slow_one_is_not() {
    alone(async {
        let server = start(Limits { stalled: SOON * 5, ..patient() }).await;
        let flood = "GET /flood HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        let mut slow = server.sent(flood).await;
        let mut never = server.sent(flood).await;
        let mut dripping = server.sent("GET /drip HTTP/1.1\r\nhost: a\r\n\r\n").await;
        until(&mut never, "HTTP/1.1 200").await;
        let mut piece = vec![0; 1024 * 1024];
        let mut took = 0;
        // It takes a megabyte in the time, over and over, and so it has all of it in the end.
        loop {
            let read = tokio::time::timeout(DEADLINE, slow.read(&mut piece)).await.unwrap().unwrap();
            if read == 0 {
                break;
            }
            let before = took / piece.len();
            took += read;
            if took / piece.len() > before {
                tokio::time::sleep(SOON / 2).await;
            }
        }
        assert!(took > 512 * 64 * 1024, "{took} bytes came");
        eventually("the one that takes nothing is cut", || async {
            (server.cut("stalled") == 1.0).then_some(())
        })
        .await;
        assert!(rest(&mut never).await.len() < 512 * 64 * 1024);
        until(&mut dripping, "tick").await;
        assert_eq!(server.cut("stalled"), 1.0, "whoever has taken all there is waits as long as it likes");
    });
}

#[test]
fn f39_a_body_that_never_arrives_is_given_up_and_one_after_its_answer_is_not() {
    alone(async {
        let server = start(Limits { body: SOON, ..patient() }).await;
        for head in ["content-length: 9", "transfer-encoding: chunked"] {
            let mut stream = server.sent(&format!("POST /whole HTTP/1.1\r\nhost: a\r\n{head}\r\n\r\n")).await;
            let answer = rest(&mut stream).await;
            assert!(answer.contains("the body had not arrived"), "{head}: {answer}");
        }
        let mut stream = server.sent("POST /whole HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc").await;
        until(&mut stream, "3 bytes").await;
    });
}

#[test]
fn an_answer_before_the_body_is_not_lost_to_what_still_comes() {
    alone(async {
        let server = start(patient()).await;
        let mut stream =
            server.sent("POST /refused HTTP/1.1\r\nhost: a\r\ncontent-length: 9000000\r\n\r\n").await;
        // More than the buffers between us hold: it only fits if somebody reads it.
        stream.write_all(&vec![b'x'; 9_000_000]).await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 418"), "{answer}");
    });
}

#[test]
fn a_head_that_cannot_be_read_is_answered_in_the_applications_words() {
    alone(async {
        let server = start(patient()).await;
        let large = format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "x".repeat(200_000));
        let many: String = (0..400).map(|n| format!("x{n}: 1\r\n")).collect();
        for (head, why) in [
            ("nonsense\r\n\r\n", "Malformed"),
            ("GET / HTTP/1.1\r\nhost a\r\n\r\n", "Malformed"),
            ("POST /whole HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n", "Malformed"),
            ("\u{16}\u{3}\u{1}\u{2}", "Malformed"),
            ("GET /?version=>=2 HTTP/1.1\r\nhost: a\r\n\r\n", "Unescaped(Unescaped(['>']))"),
            (&large, "TooLarge"),
            (&format!("GET / HTTP/1.1\r\nhost: a\r\n{many}\r\n"), "TooLarge"),
        ] {
            let answer = rest(&mut server.sent(head).await).await;
            let length = why.len();
            let expected = format!(
                "HTTP/1.1 413 Payload Too Large\r\nconnection: close\r\ncontent-length: {length}\r\nx-why: own words\r\n\r\n{why}"
            );
            assert_eq!(answer, expected, "{}", head.get(..40).unwrap_or(head));
        }
    });
}

#[test]
fn the_address_that_is_named_is_that_of_the_head_that_cannot_be_read() {
    alone(async {
        let server = start(patient()).await;
        let mut stream = server.sent("GET /?a=%3E HTTP/1.1\r\nhost: a\r\n\r\n").await;
        until(&mut stream, "hello").await;
        // In pieces, behind one that was answered on the same connection.
        for piece in ["GET /?a=\"b", "\" c HTT", "P/1.1\r\nhost: a\r\n\r\n"] {
            stream.write_all(piece.as_bytes()).await.unwrap();
            // The server reads on this thread, too.
            tokio::task::yield_now().await;
        }
        let answer = rest(&mut stream).await;
        assert!(answer.ends_with("\r\n\r\nUnescaped(Unescaped(['\"', ' ']))"), "{answer}");
    });
}

#[test]
fn i46_an_answer_that_looks_like_the_machines_own_goes_out_as_it_is() {
    alone(async {
        let server = start(patient()).await;
        let mut stream = server.sent("GET /mimic HTTP/1.1\r\nhost: a\r\n\r\n").await;
        until(&mut stream, MIMIC).await;
        stream.write_all(ASK.as_bytes()).await.unwrap();
        until(&mut stream, "hello").await;
    });
}

#[test]
fn f39_above_the_bound_a_connection_is_closed_and_below_it_taken_again() {
    alone(async {
        let server = start(Limits { connections_max: 20, ..patient() }).await;
        let mut held = Vec::new();
        for _ in 0..20 {
            held.push(server.sent(ASK).await);
        }
        for stream in &mut held {
            until(stream, "hello").await;
        }
        let mut over = server.open().await;
        assert_eq!(rest(&mut over).await, "");
        assert_eq!(server.cut("full"), 1.0);
        // Those who are in are served.
        held[7].write_all(ASK.as_bytes()).await.unwrap();
        until(&mut held[7], "hello").await;
        held.truncate(10);
        server.has_open(10.0).await;
        let mut next = server.sent(ASK).await;
        until(&mut next, "hello").await;
    });
}

#[test]
fn i25_what_two_thousand_connections_held_is_given_back() {
    alone(async {
        let server = start(patient()).await;
        let (files, tasks) = (descriptors(), alive());
        for round in 0..200 {
            let mut streams = Vec::new();
            for _ in 0..10 {
                streams.push(
                    server
                        .sent(if round % 2 == 0 { ASK } else { "GET /drip HTTP/1.1\r\nhost: a\r\n\r\n" })
                        .await,
                );
            }
            for stream in &mut streams {
                until(stream, if round % 2 == 0 { "hello" } else { "tick" }).await;
            }
        }
        server.has_open(0.0).await;
        eventually("files and tasks as before", || async {
            (descriptors() <= files && alive() <= tasks).then_some(())
        })
        .await;
    });
}

#[test]
fn a_stop_answers_what_is_in_flight_ends_what_is_idle_and_cuts_what_does_not_end() {
    alone(async {
        let server = start(Limits { drain: SOON, ..patient() }).await;
        let mut idle = server.sent(ASK).await;
        until(&mut idle, "hello").await;
        let mut endless = server.sent("GET /drip HTTP/1.1\r\nhost: a\r\n\r\n").await;
        until(&mut endless, "tick").await;
        let mut silent = server.open().await;
        server.has_open(3.0).await;
        assert_eq!(server.tasks.drain(DEADLINE).await, Vec::<&str>::new());
        rest(&mut idle).await;
        rest(&mut endless).await;
        rest(&mut silent).await;
        assert_eq!(server.cut("drain"), 1.0);
        assert!(TcpStream::connect(server.at).await.is_err(), "still taken after the stop");
    });
}

#[test]
fn a_request_in_flight_at_the_stop_is_answered() {
    alone(async {
        let server = start(patient()).await;
        let mut stream = server.sent("POST /whole HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\na").await;
        let ping = server.sent(ASK).await;
        server.has_open(2.0).await;
        drop(ping);
        server.has_open(1.0).await;
        server.tasks.cancelled().cancel();
        stream.write_all(b"bc").await.unwrap();
        assert!(rest(&mut stream).await.contains("3 bytes"));
    });
}

#[test]
fn f23_a_half_open_http2_peer_is_noticed_by_its_unanswered_pings() {
    alone(async {
        let server = start(Limits { keep_alive: SOON, ..patient() }).await;
        // The preface and empty settings, and then never another word: pings find no answer.
        let mut mute = server.open().await;
        mute.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        rest(&mut mute).await;
        server.has_open(0.0).await;
    });
}

#[test]
fn an_http2_peer_that_sends_its_preface_byte_by_byte_is_not_let_go_of() {
    alone(async {
        let head = 5 * SOON;
        let server = start(Limits { head, ..patient() }).await;
        let mut peer = server.open().await;
        peer.set_nodelay(true).unwrap();
        for byte in b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0" {
            peer.write_all(&[*byte]).await.unwrap();
            peer.flush().await.unwrap();
            // So that each comes by itself.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // One that never goes on with it is let go of like any slow head.
        let mut slow = server.sent("PRI * HTT").await;
        assert_eq!(rest(&mut slow).await, "");
        assert_eq!(server.cut("slow_head"), 1.0);
        // The other began before it, and is still there to be pinged.
        peer.write_all(b"\0\0\x08\x06\0\0\0\0\0pingping").await.unwrap();
        let pong = async {
            let mut bytes = Vec::new();
            while !bytes.windows(8).any(|part| part == b"pingping") {
                assert_ne!(peer.read_buf(&mut bytes).await.unwrap(), 0, "it was let go of");
            }
        };
        tokio::time::timeout(DEADLINE, pong).await.expect("no answer to a ping");
        assert_eq!(server.cut("slow_head"), 1.0);
    });
}

/// Makes a socket's machine seem gone: the kernel drops all that comes for it, probes and acknowledgements too.
fn fall_silent(stream: &TcpStream) {
    // The classic filter program "return 0": keep nothing of any packet.
    let nothing = socket2::SockFilter::new(0x06, 0, 0, 0);
    socket2::SockRef::from(stream).attach_filter(&[nothing]).unwrap();
}

#[test]
fn f23_a_half_open_http1_peer_is_noticed_by_the_systems_probes() {
    alone(async {
        // Whole seconds are the system's grain.
        let server = start(Limits { keep_alive: Duration::from_secs(1), ..patient() }).await;
        let (files, tasks) = (descriptors(), alive());
        let mut idle = server.sent(ASK).await;
        until(&mut idle, "hello").await;
        let mut watch = server.sent("GET /drip HTTP/1.1\r\nhost: a\r\n\r\n").await;
        until(&mut watch, "tick").await;
        let mut answered = server.sent(ASK).await;
        until(&mut answered, "hello").await;
        server.has_open(3.0).await;
        fall_silent(&idle);
        fall_silent(&watch);
        // Neither of them says that it goes, and only they are let go of.
        server.has_open(1.0).await;
        answered.write_all(ASK.as_bytes()).await.unwrap();
        until(&mut answered, "hello").await;
        drop(answered);
        server.has_open(0.0).await;
        drop((idle, watch));
        eventually("files and tasks as before", || async {
            (descriptors() <= files && alive() <= tasks).then_some(())
        })
        .await;
    });
}
