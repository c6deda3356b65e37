//! What is said to requests that only a raw socket can send.

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::cell::{Cell, DEADLINE};

/// Sends bytes, and reads until the connection ends.
async fn said(cell: &Cell, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(cell.url.trim_start_matches("http://")).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut answer));
    read.await.expect("the connection did not end").unwrap();
    String::from_utf8(answer).unwrap()
}

fn registration(headers: &str) -> Vec<u8> {
    format!(
        "POST /v1/registrations HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n{headers}\r\n\r\n"
    )
    .into_bytes()
}

#[tokio::test]
async fn a_body_announced_as_too_large_is_refused_before_it_comes() {
    let cell = Cell::start().await;
    for expect in ["", "\r\nexpect: 100-continue"] {
        for length in ["262145", "100000000", "18446744073709551613"] {
            let answer = said(&cell, &registration(&format!("content-length: {length}{expect}"))).await;
            assert!(answer.starts_with("HTTP/1.1 413 "), "{length}: {answer}");
            assert!(answer.contains("\"code\":\"too_large\""), "{answer}");
            assert!(!answer.contains("100 Continue"), "{answer}");
        }
    }
    let mut chunked = registration("transfer-encoding: chunked");
    chunked.extend_from_slice(b"400000\r\n");
    chunked.resize(chunked.len() + 1024 * 1024, b' ');
    let answer = said(&cell, &chunked).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");

    let mut stream = TcpStream::connect(cell.url.trim_start_matches("http://")).await.unwrap();
    stream
        .write_all(&registration("content-length: 2\r\nexpect: 100-continue\r\nconnection: close"))
        .await
        .unwrap();
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).await.unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"{}").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
}

#[tokio::test]
async fn a_packed_body_is_refused_and_an_unpacked_one_is_not() {
    let cell = Cell::start().await;
    let body = r#"{"id":"a/b/c","endpoints":[{"url":"http://h:1/"}]}"#;
    for (coding, status) in [("gzip", 415), ("br, gzip", 415), ("identity", 201), ("", 201)] {
        let headers =
            format!("content-encoding: {coding}\r\nconnection: close\r\ncontent-length: {}", body.len());
        let answer = said(&cell, &[registration(&headers), body.as_bytes().to_vec()].concat()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{coding}: {answer}");
        assert_eq!(answer.contains("content-encoding says "), status == 415, "{answer}");
    }
    // The coding of nothing does not matter, as its kind does not.
    let renew = "PUT /v1/registrations/a/b/x/lease HTTP/1.1\r\nhost: a\r\nif-match: \"1\"\r\n\
                 content-encoding: gzip\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let answer = said(&cell, renew.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused_in_our_words() {
    let cell = Cell::start().await;
    let get = |path: &str, headers: &str| {
        format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{headers}\r\n").into_bytes()
    };
    let many: String = (0..120).map(|n| format!("x-{n}: 1\r\n")).collect();
    for (request, status, code) in [
        (get(&format!("/v1/agents?zone={}", "x".repeat(8_200)), ""), 400, "invalid_parameter"),
        (get(&format!("/{}", "x".repeat(40_000)), ""), 400, "invalid_parameter"),
        (get("/v1/agents", &format!("x: {}\r\n", "x".repeat(17_000))), 413, "too_large"),
        (get("/v1/agents", &format!("x: {}\r\n", "x".repeat(60_000))), 413, "too_large"),
        (get("/v1/agents", &many), 413, "too_large"),
        // These cannot even be read as requests.
        (b"nonsense\r\n\r\n".to_vec(), 400, "invalid_parameter"),
        (b"GET / HTTP/1.1\r\nhost a\r\n\r\n".to_vec(), 400, "invalid_parameter"),
        (registration("content-length: -1"), 400, "invalid_parameter"),
        (get("/v1/agents", &format!("x: {}\r\n", "x".repeat(200_000))), 413, "too_large"),
        (get("/v1/agents", &many.repeat(4)), 413, "too_large"),
    ] {
        let answer = said(&cell, &request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        assert!(answer.contains("content-type: application/problem+json"), "{answer}");
        assert!(answer.contains(&format!("\"code\":\"{code}\"")), "{answer}");
        assert!(answer.contains("connection: close"), "{answer}");
    }
    assert!(said(&cell, &get("/livez", "")).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn the_port_of_grpc_alone_says_so_to_whoever_speaks_plain_http() {
    let cell = Cell::start().await;
    let answer = reqwest::get(format!("{}/v1/agents", cell.grpc_url)).await.unwrap();
    let (status, body) = (answer.status().as_u16(), answer.json::<Value>().await.unwrap());
    assert_eq!((status, body["code"].as_str()), (415, Some("unsupported_media_type")), "{body}");
    assert!(body["detail"].as_str().unwrap().contains("gRPC"), "{body}");
}

#[tokio::test]
async fn a_request_that_two_readers_would_read_differently_is_refused_or_the_last_of_its_connection() {
    let cell = Cell::start().await;
    let body = r#"{"id":"a/b/c","endpoints":[{"url":"http://h:1/"}]}"#;
    let chunks = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    // What follows on the same connection would be the request that a careless reader in front did not see.
    let smuggled = "GET /v1/agents HTTP/1.1\r\nhost: a\r\n\r\n";
    let both = [
        "content-length: 4\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 4",
    ];
    for headers in both {
        let bytes = [registration(headers), chunks.as_bytes().to_vec(), smuggled.into()].concat();
        let answer = said(&cell, &bytes).await;
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{headers}: {answer}");
        assert!(answer.contains("connection: close"), "{headers}: {answer}");
    }
    for (request, status) in [
        ("GET /v1/agents HTTP/1.1\r\nconnection: close\r\n\r\n", 400),
        ("GET /v1/agents HTTP/1.1\r\nhost: a\r\nhost: b\r\nconnection: close\r\n\r\n", 400),
        ("GET /v1/agents HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n", 200),
        ("GET /v1/agents HTTP/1.0\r\n\r\n", 200),
    ] {
        let answer = said(&cell, request.as_bytes()).await;
        let version = if request.contains("1.0") { "HTTP/1.0" } else { "HTTP/1.1" };
        assert!(answer.starts_with(&format!("{version} {status} ")), "{request:?}: {answer}");
    }
}
