//! The socket of a connection: it tells the connection's pulse what came, and closes without losing the last answer.
//!
//! A peer that is answered before it has sent everything (its body is too large, say) goes on sending. Closed at once,
//! the kernel would answer those bytes with a reset, and many a peer would lose the answer that lies unread before it.
//! So the socket says that nothing more comes, and reads and throws away for a moment what still does.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use super::pulse::Pulse;

/// How long what comes after the last answer is read and thrown away.
const LINGER: Duration = Duration::from_secs(5);
/// So much of it at a time.
const DISCARD_BYTES: usize = 8 * 1024;

pub(super) struct Socket {
    stream: TcpStream,
    pulse: Arc<Pulse>,
    /// Set once the writing side is closed and the peer may still be sending.
    lingering: Option<Pin<Box<Sleep>>>,
}

impl Socket {
    pub(super) fn new(stream: TcpStream, pulse: Arc<Pulse>) -> Self {
        Self { stream, pulse, lingering: None }
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
            self.pulse.came(came);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
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
