//! Input that nobody means well with, at real processes under traffic: it is refused at the door with the reason, what
//! is good beside it goes through whole, and nothing of it reaches the store.

use std::time::Duration;

use rollcall_tests::http::Http;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{Scenario, scenario};
use crate::check::Verdict;
use crate::game::Game;

/// A refusal takes no longer, however much was sent.
const ANSWERED: Duration = Duration::from_secs(10);
/// Nobody registers in this namespace but what is refused here.
const NEVER: &str = "hostile";

pub(super) fn all() -> Vec<Scenario> {
    vec![scenario(
        "hostile-requests",
        "F41",
        "malformed, oversized and hostile input (F41-F44) is refused at the door, and nobody else notices",
        |game| Box::pin(hostile(game)),
    )]
}

async fn hostile(game: &mut Game) {
    let mut verdict = Verdict { ids: "I47 I46", ..Verdict::default() };
    let mut seen = 0;
    for url in game.stage.urls() {
        let http = Http::patient(url.clone(), ANSWERED);
        for (what, body) in bodies() {
            let answer = http.send("POST", "/v1/registrations", &[], Some(&body)).await;
            let status = answer.as_ref().map(|answer| answer.status);
            let says_why = answer.as_ref().is_ok_and(|answer| answer.json()["code"].is_string());
            verdict.judge(matches!(status, Ok(400..=499)) && says_why, || {
                format!("I47: {what} was answered {status:?}, with a code: {says_why}")
            });
            seen += 1;
        }
        for (what, bytes) in raw() {
            let status = ask_raw(&url, &bytes).await;
            verdict.judge(status.is_none_or(|status| (400..500).contains(&status)), || {
                format!("I47: {what} was answered {status:?}")
            });
            seen += 1;
        }
        for endpoint in GOOD {
            let id = "chaos/good/one";
            let answer = http.register(&json!({"id": id, "endpoints": [{"url": endpoint}]})).await;
            let shown = http.get("/v1/agents?namespace=chaos&name=good").await.unwrap_or_default();
            let back = &shown["agents"][0]["endpoints"][0]["url"];
            verdict.judge(answer.is_ok() && back == endpoint, || {
                format!("I46: {endpoint} was answered {answer:?} and is shown as {back}")
            });
        }
        let alive = http.get("/readyz").await;
        verdict.judge(alive.is_ok(), || format!("I47: {url} is not ready any more: {alive:?}"));
    }
    game.landed(format!("sent {seen} requests that nobody means well with"));
    game.flow(Duration::from_secs(1)).await;
    let reached = game
        .sees(Duration::ZERO, |event| {
            event.key.contains(NEVER) || event.key.starts_with("rollcall/v1/us-east/reg/chaos/../")
        })
        .await;
    verdict.judge(!reached, || "I47: something of it is in the store".to_owned());
    game.verdicts.push(verdict);
}

/// Addresses that can be dialled and must come back as they were written.
const GOOD: [&str; 4] =
    ["http://[::1]:80/", "http://[2001:db8::1]:8080/a", "https://[::1]/", "grpc://127.0.0.1:9"];

fn good() -> Value {
    json!({"id": format!("{NEVER}/a/1"), "endpoints": [{"url": "http://127.0.0.1:9/"}]})
}

fn with(key: &str, value: Value) -> String {
    let mut body = good();
    body[key] = value;
    body.to_string()
}

/// Bodies of a registration, each with one thing wrong.
fn bodies() -> Vec<(String, String)> {
    let mut bodies: Vec<(String, String)> = [
        ("nothing", String::new()),
        ("half an object", "{".to_owned()),
        ("a list", "[]".to_owned()),
        ("null", "null".to_owned()),
        ("not a number", with("lease_seconds", json!(0)).replace(":0", ":NaN")),
        ("deep nesting", "[".repeat(200_000)),
        (
            "deep nesting inside",
            with("metadata", json!(0)).replace(":0", &format!(":{}", "{\"a\":".repeat(50_000))),
        ),
        ("a name of a million bytes", with("id", json!(format!("{NEVER}/{}/1", "a".repeat(1_000_000))))),
        ("ten thousand capabilities", {
            let all: Vec<String> = (0..10_000).map(|n| format!("a:b{n}:v1")).collect();
            with("capabilities", json!(all))
        }),
        ("a card of two megabytes", with("card", json!({"name": "x".repeat(2_000_000)}))),
        ("a lease of minus one", with("lease_seconds", json!(-1))),
    ]
    .map(|(what, body)| (what.to_owned(), body))
    .into();
    for name in [
        "../x",
        "a/../b",
        "%2F",
        "a%00b",
        "a\nb",
        "a\u{2028}b",
        "a\u{202e}b",
        "\u{0430}gent",
        "a b",
        "agent.",
        "{{x}}",
        "\u{1f600}",
        "a\\b",
        "a\0b",
        "",
        ".",
    ] {
        bodies.push((format!("the name {name:?}"), with("id", json!(format!("{NEVER}/{name}/1")))));
    }
    for url in [
        "http://[::1%eth0]:80/",
        "http://::1:80/",
        "http://0.0.0.0:80/",
        "http://[::]:80/",
        "file:///etc/passwd",
        "http://",
        "javascript:alert(1)",
        "http://h:99999/",
        "http://a b/",
    ] {
        bodies.push((format!("the endpoint {url:?}"), with("endpoints", json!([{ "url": url }]))));
    }
    bodies
}

/// What is no good HTTP at all, or lies about its length.
fn raw() -> Vec<(&'static str, Vec<u8>)> {
    let post = "POST /v1/registrations HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\n";
    let bad = b"{\"id\":\"hostile/\xff\xfe/1\",\"endpoints\":[{\"url\":\"http://127.0.0.1:9/\"}]}";
    let head = format!("{post}content-length: {}\r\n\r\n", bad.len());
    vec![
        ("bytes that are no text", [head.as_bytes(), bad].concat()),
        ("a header of 300 KB", format!("{post}x: {}\r\n\r\n", "a".repeat(300_000)).into_bytes()),
        ("a body of 100 MB", format!("{post}content-length: 104857600\r\n\r\n{{").into_bytes()),
        ("no HTTP", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03hello\r\n\r\n".to_vec()),
        ("two lengths", format!("{post}content-length: 5\r\ncontent-length: 6\r\n\r\n{{}}").into_bytes()),
        ("a path out of the way", b"PUT /v1/registrations/a/b/%2e%2e%2f%2e%2e/lease HTTP/1.1\r\nhost: h\r\nif-match: \"1\"\r\ncontent-length: 0\r\n\r\n".to_vec()),
    ]
}

/// Sends bytes and gives the status of what comes back; none when the connection is closed without a word, or the
/// server waits for the rest.
async fn ask_raw(url: &str, bytes: &[u8]) -> Option<u16> {
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).await.ok()?;
    // A server that has refused already may close while it is still written to.
    let _ = stream.write_all(bytes).await;
    let mut answer = vec![0; 4_096];
    let read = tokio::time::timeout(Duration::from_secs(3), stream.read(&mut answer)).await.ok()?.ok()?;
    let text = String::from_utf8_lossy(&answer[..read]).into_owned();
    text.split_whitespace().nth(1)?.parse().ok()
}
