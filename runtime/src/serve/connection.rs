//! The socket of a connection: it tells the connection's pulse what came, and closes without losing the last answer.
//!
//! A peer that is answered before it has sent everything (its body is too large, say) goes on sending. Closed at once,
//! the kernel would answer those bytes with a reset, and many a peer would lose the answer that lies unread before it.
//! So the socket says that nothing more comes, and reads and throws away for a moment what still does.
//!
//! And it is where the protocol's machine is given words ([`unreadable`](super::unreadable)).

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use super::gathered::Gathered;
use super::pulse::{Came, Pulse};
use super::unreadable::{self, Unreadable, Words};

/// How long what comes after the last answer is read and thrown away.
const LINGER: Duration = Duration::from_secs(5);
/// So much of it at a time.
const DISCARD_BYTES: usize = 8 * 1024;
/// What is written in pieces this large is of answers; pings and windows are smaller.
const ANSWER_BYTES: usize = 256;
/// So much of a head is remembered until it is answered: its request line, unless that is very long.
const HEAD_BYTES: usize = 1024;

pub(super) struct Socket {
    stream: Gathered,
    /// The peer speaks HTTP/2: it may ask for much at once.
    has_streams: bool,
    pulse: Arc<Pulse>,
    /// Set once the writing side is closed and the peer may still be sending.
    lingering: Option<Pin<Box<Sleep>>>,
    words: Words,
    /// The beginning of the head that is being read, or was last.
    head: Vec<u8>,
    /// The application's answer that goes out in the machine's place, and how much of it has.
    instead: Option<(Vec<u8>, usize)>,
}

impl Socket {
    pub(super) fn new(stream: TcpStream, pulse: Arc<Pulse>, words: Words) -> Self {
        let stream = Gathered::new(stream);
        Self { stream, has_streams: false, pulse, lingering: None, words, head: Vec::new(), instead: None }
    }

    /// Where the machine's own answer begins, if it is one. Bytes of an application may look like it (a registrant chooses
    /// some of them), so only where the machine can have answered is there one.
    fn own_answer(&self, bytes: &[u8]) -> Option<(usize, Unreadable)> {
        unreadable::own_answer(bytes).filter(|_| self.pulse.awaits_head())
    }

    /// Notes bytes that came. The machine keeps them to itself, so the beginning of a head is remembered for its words.
    fn came(&mut self, bytes: &[u8]) {
        match self.pulse.came(bytes) {
            Came::Streams => {
                self.has_streams = true;
                self.head = Vec::new();
                return;
            }
            Came::Other => return,
            Came::Beginning => self.head.clear(),
            Came::More => {}
        }
        let room = HEAD_BYTES - self.head.len().min(HEAD_BYTES);
        self.head.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }

    /// Gathers small answers while there are several that may have something to say.
    fn gather(&mut self) {
        self.stream.gather(self.has_streams && self.pulse.has_several());
    }

    /// Notes that the network took some of an answer: its peer is slow, and no more than that.
    fn noted(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(ANSWER_BYTES..)) = written {
            self.pulse.wrote();
        }
        written
    }

    /// Writes what was said in the place of so many bytes. Until it is through, the same bytes are offered again.
    fn poll_instead(&mut self, cx: &mut Context<'_>, bytes: usize) -> Poll<io::Result<usize>> {
        while let Some((words, sent)) = &mut self.instead {
            match words.get(*sent..) {
                Some(rest) if !rest.is_empty() => {
                    *sent += ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?;
                }
                Some(_) | None => self.instead = None,
            }
        }
        Poll::Ready(Ok(bytes))
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        if let Some(came) = buffer.filled().get(before..)
            && !came.is_empty()
        {
            self.came(came);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.instead.is_some() {
            return self.poll_instead(cx, bytes.len());
        }
        match self.own_answer(bytes) {
            None => {
                self.gather();
                let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
                self.noted(written)
            }
            Some((0, why)) => {
                let why = why.of_head(&self.head);
                self.instead = Some((unreadable::written((self.words)(why)), 0));
                self.poll_instead(cx, bytes.len())
            }
            // What stands before it goes out as it is; then it is the first.
            Some((begins, _)) => {
                Pin::new(&mut self.stream).poll_write(cx, bytes.get(..begins).unwrap_or_default())
            }
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // The machine's own answer is always the last, and in one piece.
        let last = parts.iter().rposition(|part| !part.is_empty()).unwrap_or_default();
        match (parts.get(last), parts.get(..last)) {
            (Some(part), Some(before)) if self.own_answer(part).is_some() => {
                if before.iter().all(|part| part.is_empty()) {
                    return self.poll_write(cx, part);
                }
                Pin::new(&mut self.stream).poll_write_vectored(cx, before)
            }
            _ => {
                self.gather();
                let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
                self.noted(written)
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingering.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            if !self.pulse.has_unread() {
                return Poll::Ready(Ok(()));
            }
            self.lingering = Some(Box::pin(tokio::time::sleep(LINGER)));
        }
        let mut space = [0; DISCARD_BYTES];
        loop {
            if let Some(until) = &mut self.lingering
                && until.as_mut().poll(cx).is_ready()
            {
                return Poll::Ready(Ok(()));
            }
            let mut buffer = ReadBuf::new(&mut space);
            match ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                // The peer is done, or gone.
                Ok(()) | Err(_) => return Poll::Ready(Ok(())),
            }
        }
    }
}
