//! A reader of many gRPC streams on one connection that costs next to nothing.
//!
//! Who measures what a server can send on a small machine must not take half of it for reading. A full client wakes a
//! task for each message; this one reads whatever has come on a connection in one call and cuts it into messages in
//! place. It opens streams, answers settings and pings, and gives windows so large that nobody waits for more; it does
//! nothing else of HTTP/2, and what it does not know ends the measurement.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::task::Poll;
use std::time::Instant;

/// Bytes that one read may take.
const READ: usize = 256 * 1024;
/// The largest window there is: more than a connection is sent in one measurement.
const WINDOW: u32 = 0x7fff_ffff;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

/// One connection with its streams, all of one method.
#[derive(Debug)]
pub struct Receiver {
    stream: TcpStream,
    /// The beginning of a message of each stream whose end has not come.
    begun: Vec<Vec<u8>>,
    buffer: Vec<u8>,
    filled: usize,
}

impl Receiver {
    /// Opens a stream for each item of `asks`, on which that item's messages are sent; `ends` says that nothing more is
    /// asked on them.
    ///
    /// # Panics
    /// When the server cannot be reached.
    #[must_use]
    pub fn open(authority: &str, path: &str, asks: &[Vec<Vec<u8>>], ends: bool) -> Self {
        let mut stream = TcpStream::connect(authority).expect("the server listens");
        stream.set_nodelay(true).expect("a socket");
        let mut out = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        let mut setting = 4_u16.to_be_bytes().to_vec(); // SETTINGS_INITIAL_WINDOW_SIZE
        setting.extend(WINDOW.to_be_bytes());
        frame(&mut out, SETTINGS, 0, 0, &setting);
        frame(&mut out, WINDOW_UPDATE, 0, 0, &(WINDOW - 0xffff).to_be_bytes());
        let mut head = Vec::new();
        for (name, value) in [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", authority),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ] {
            head.push(0); // literal, not indexed
            for text in [name, value] {
                head.push(u8::try_from(text.len()).ok().filter(|len| *len < 127).expect("a short header"));
                head.extend(text.as_bytes());
            }
        }
        for (at, asks) in asks.iter().enumerate() {
            let id = u32::try_from(at).expect("few streams") * 2 + 1;
            frame(&mut out, HEADERS, END_HEADERS, id, &head);
            for (nth, ask) in asks.iter().enumerate() {
                let mut message = vec![0];
                message.extend(u32::try_from(ask.len()).expect("a short message").to_be_bytes());
                message.extend(ask);
                let is_last = ends && nth + 1 == asks.len();
                frame(&mut out, DATA, if is_last { END_STREAM } else { 0 }, id, &message);
            }
        }
        stream.write_all(&out).expect("the server reads");
        Self { stream, begun: vec![Vec::new(); asks.len()], buffer: vec![0; READ], filled: 0 }
    }

    /// The connection, to end it from elsewhere.
    ///
    /// # Panics
    /// When there are no more descriptors.
    pub fn end(&self) -> impl FnOnce() + use<> {
        let stream = self.stream.try_clone().expect("a descriptor");
        move || {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Lets [`Receiver::poll`] return at once when nothing has come.
    ///
    /// # Panics
    /// When the system refuses.
    pub fn wait_no_more(&self) {
        self.stream.set_nonblocking(true).expect("a socket");
    }

    /// Waits for bytes and gives `take` each message that they complete, with the moment when they came and the number of
    /// its stream, counted from 0. Gives how many bytes there were; 0 at the end of the connection.
    ///
    /// # Panics
    /// When the server ends a stream or breaks the protocol.
    pub fn read(&mut self, take: impl FnMut(Instant, usize, &[u8])) -> usize {
        match self.poll(take) {
            Poll::Ready(read) => read,
            Poll::Pending => 0,
        }
    }

    /// The same for who has many connections and waits for none.
    ///
    /// # Panics
    /// As [`Receiver::read`].
    pub fn poll(&mut self, mut take: impl FnMut(Instant, usize, &[u8])) -> Poll<usize> {
        let read = match self.stream.read(&mut self.buffer[self.filled..]) {
            Ok(0) => return Poll::Ready(0),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Poll::Pending,
            Err(_) => return Poll::Ready(0),
        };
        let now = Instant::now();
        self.filled += read;
        let mut at = 0;
        while let Some((head, rest)) = self.buffer[at..self.filled].split_first_chunk::<9>() {
            let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
            let Some(payload) = rest.get(..length) else { break };
            let (kind, flags) = (head[3], head[4]);
            let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            at += 9 + length;
            match kind {
                DATA => {
                    assert!(flags & (PADDED | END_STREAM) == 0, "stream {id} ends or is padded");
                    let stream = (id / 2) as usize;
                    messages(&mut self.begun[stream], payload, |message| take(now, stream, message));
                }
                HEADERS => assert!(flags & END_STREAM == 0, "stream {id} was refused"),
                SETTINGS | PING if flags & ACK == 0 => {
                    let mut answer = Vec::new();
                    frame(&mut answer, kind, ACK, 0, if kind == PING { payload } else { &[] });
                    // Cut off with a ping still unread.
                    if self.stream.write_all(&answer).is_err() {
                        return Poll::Ready(0);
                    }
                }
                SETTINGS | PING | WINDOW_UPDATE => {}
                RST_STREAM | GOAWAY => panic!("the server ends stream {id}: {payload:?}"),
                other => panic!("a frame of kind {other}"),
            }
        }
        self.buffer.copy_within(at..self.filled, 0);
        self.filled -= at;
        Poll::Ready(read)
    }
}

/// Cuts what came on a stream into messages; the last may be begun only.
fn messages(begun: &mut Vec<u8>, payload: &[u8], mut take: impl FnMut(&[u8])) {
    let mut whole = std::mem::take(begun);
    let mut rest = if whole.is_empty() {
        payload
    } else {
        whole.extend(payload);
        &whole
    };
    while let Some((head, after)) = rest.split_first_chunk::<5>() {
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let Some(message) = after.get(..length) else { break };
        take(message);
        rest = &after[length..];
    }
    begun.extend(rest);
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
    out.extend(&length[1..]);
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
}
