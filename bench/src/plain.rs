//! A caller that costs little: HTTP/1.1 or Redis' protocol on one connection that is kept, one call at a time.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A request as it goes over the wire, and how its answer is told from the next one.
#[derive(Clone, Debug)]
pub struct Call {
    bytes: Vec<u8>,
    end: fn(&[u8]) -> Option<usize>,
    body: fn(&[u8]) -> &[u8],
}

impl Call {
    /// A GET of this path.
    #[must_use]
    pub fn http(path: &str) -> Self {
        let bytes =
            format!("GET {path} HTTP/1.1\r\nhost: bench\r\naccept: application/json\r\n\r\n").into_bytes();
        Self { bytes, end: http_end, body: |answer| &answer[head(answer).map_or(0, |(head, _)| head)..] }
    }

    /// A command of Redis.
    #[must_use]
    pub fn redis(words: &[&str]) -> Self {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
        Self { bytes, end: redis_end, body: |answer| answer }
    }
}

/// One connection.
#[derive(Debug)]
pub struct Plain {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Plain {
    /// Opens it.
    ///
    /// # Panics
    /// When the server does not listen.
    #[must_use]
    pub fn open(authority: &str) -> Self {
        let stream = TcpStream::connect(authority).expect("the server listens");
        stream.set_nodelay(true).expect("a socket");
        Self { stream, answer: Vec::new() }
    }

    /// Calls and waits for the whole answer, its head as well.
    ///
    /// # Panics
    /// When the server hangs up, or refuses.
    pub fn call(&mut self, call: &Call) -> &[u8] {
        self.stream.write_all(&call.bytes).expect("the server reads");
        self.answer.clear();
        let mut part = [0; 64 * 1024];
        while (call.end)(&self.answer).is_none() {
            let read = self.stream.read(&mut part).expect("an answer");
            assert!(read > 0, "the server hung up");
            self.answer.extend(&part[..read]);
        }
        &self.answer
    }

    /// Makes these calls in turn for so long, from this one on; how many were answered.
    ///
    /// # Panics
    /// As [`Plain::call`].
    pub fn call_for(&mut self, most: Duration, calls: &[Call], first: usize) -> usize {
        let began = Instant::now();
        let mut answered = 0;
        while began.elapsed() < most {
            self.call(&calls[(first + answered) % calls.len()]);
            answered += 1;
        }
        answered
    }
}

/// The body of one answer, on a connection of its own.
///
/// # Panics
/// As [`Plain::call`].
#[must_use]
pub fn once(authority: &str, call: &Call) -> Vec<u8> {
    (call.body)(Plain::open(authority).call(call)).to_vec()
}

/// Bytes of an answer's head, and of its body; `None` until the head is whole.
fn head(answer: &[u8]) -> Option<(usize, usize)> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&answer[..end]).expect("text").to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 200"), "refused: {head}");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    Some((end, length.expect("a length").trim().parse().expect("a number")))
}

fn http_end(answer: &[u8]) -> Option<usize> {
    let (head, body) = head(answer)?;
    (answer.len() >= head + body).then_some(head + body)
}

/// The end of a number, a text or a list of texts.
fn redis_end(answer: &[u8]) -> Option<usize> {
    let (kind, number, mut at) = line(answer, 0)?;
    match kind {
        b':' | b'+' => return Some(at),
        b'*' => {}
        other => panic!("Redis says {}", char::from(other)),
    }
    for _ in 0..number {
        let (_, length, after) = line(answer, at)?;
        at = after + length + 2;
    }
    (answer.len() >= at).then_some(at)
}

/// The line from here on: its kind, its number, and where the next one begins.
fn line(answer: &[u8], from: usize) -> Option<(u8, usize, usize)> {
    let rest = answer.get(from..)?;
    let end = rest.windows(2).position(|two| two == b"\r\n")?;
    let number = std::str::from_utf8(&rest[1..end]).expect("text").parse().unwrap_or(0);
    Some((rest[0], number, from + end + 2))
}
