//! A socket whose small writes leave together.
//!
//! HTTP/2's machine hands over one message at a time and asks after each for it to leave. With a hundred watches on one
//! connection that is a hundred calls of the kernel for one change, which cost more than making the messages did. So what
//! it hands over in one turn is gathered, and leaves at the beginning of its next, which comes at once: in between, the
//! streams of the connection that have something to say are heard. A turn more costs as much as a small message does, so
//! that a connection with one stream, which has no company to wait for, does not gather.
//!
//! Promises: bytes leave in the order they came, at the next turn or before; no more than [`MOST`] wait. Never here: a
//! timer. Only who is asked to gather does; until then this is the socket itself.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Most bytes that wait: some dozens of messages. Larger ones are not copied for company.
const MOST: usize = 64 * 1024;
/// What is larger leaves by itself, behind what waits.
const LARGE: usize = 16 * 1024;

pub(super) struct Gathered {
    stream: TcpStream,
    is_gathering: bool,
    waiting: Vec<u8>,
    /// Of these, so many have left.
    left: usize,
    /// The next turn is asked for.
    is_due: bool,
}

impl Gathered {
    pub(super) const fn new(stream: TcpStream) -> Self {
        Self { stream, is_gathering: false, waiting: Vec::new(), left: 0, is_due: false }
    }

    /// Whether small writes are gathered from now on. What waits already leaves before what comes then.
    pub(super) const fn gather(&mut self, gathers: bool) {
        self.is_gathering = gathers;
    }

    /// Writes what waits.
    fn poll_leave(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.waiting.get(self.left..).filter(|rest| !rest.is_empty()) {
            let wrote = ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?;
            if wrote == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.left += wrote;
        }
        // Given back: thousands of connections rest between two messages.
        (self.waiting, self.left, self.is_due) = (Vec::new(), 0, false);
        Poll::Ready(Ok(()))
    }

    /// Takes these, if they are few and there is room; false when they have to leave by themselves.
    fn poll_keep(&mut self, cx: &mut Context<'_>, parts: &[io::IoSlice<'_>]) -> Poll<io::Result<bool>> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        if !self.is_gathering || bytes > LARGE || self.waiting.len() + bytes > MOST {
            ready!(self.poll_leave(cx))?;
        }
        let keeps = self.is_gathering && bytes <= LARGE;
        if keeps {
            if self.waiting.capacity() == 0 {
                // All of it at once: grown in steps it would be copied at each, and touch fresh memory.
                self.waiting.reserve_exact(MOST);
            }
            parts.iter().for_each(|part| self.waiting.extend_from_slice(part));
        }
        Poll::Ready(Ok(keeps))
    }
}

impl AsyncRead for Gathered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // A machine that is woken reads first: this is its next turn.
        if self.is_due
            && let Poll::Ready(Err(error)) = self.poll_leave(cx)
        {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Gathered {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if ready!(self.poll_keep(cx, &[io::IoSlice::new(bytes)]))? {
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if ready!(self.poll_keep(cx, parts))? {
            return Poll::Ready(Ok(parts.iter().map(|part| part.len()).sum()));
        }
        // A call with one piece is the cheaper one, and most small answers are one.
        let mut pieces = parts.iter().filter(|part| !part.is_empty());
        match (pieces.next(), pieces.next()) {
            (Some(only), None) => Pin::new(&mut self.stream).poll_write(cx, only),
            _ => Pin::new(&mut self.stream).poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.waiting.is_empty() && !self.is_due {
            self.is_due = true;
            cx.waker().wake_by_ref();
        }
        // A socket has nothing to flush, and what waits leaves without being asked again.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_leave(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;

    use super::*;

    async fn pair() -> (Gathered, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        (Gathered::new(stream), peer)
    }

    /// What a machine does in one turn: it reads, then hands over each of these and asks for it to leave.
    async fn turn(gathered: &mut Gathered, said: &[&[u8]]) {
        poll_fn(|cx| {
            let mut space = [0; 8];
            assert!(Pin::new(&mut *gathered).poll_read(cx, &mut ReadBuf::new(&mut space)).is_pending());
            for bytes in said {
                let parts = bytes.split_at(bytes.len() / 2);
                let parts = [io::IoSlice::new(parts.0), io::IoSlice::new(parts.1)];
                let kept = Pin::new(&mut *gathered).poll_write_vectored(cx, &parts);
                assert!(matches!(kept, Poll::Ready(Ok(many)) if many == bytes.len()), "{kept:?}");
                assert!(Pin::new(&mut *gathered).poll_flush(cx).is_ready());
            }
            Poll::Ready(())
        })
        .await;
    }

    #[tokio::test]
    async fn what_is_said_in_one_turn_leaves_together_at_the_next() {
        let (mut gathered, mut peer) = pair().await;
        gathered.gather(true);
        turn(&mut gathered, &[b"one ", b"two ", b"three"]).await;
        let mut came = [0; 64];
        let early = peer.try_read(&mut came).unwrap_err();
        assert_eq!(early.kind(), io::ErrorKind::WouldBlock, "it waits for its company");
        turn(&mut gathered, &[b"!"]).await;
        let many = peer.read(&mut came).await.unwrap();
        assert_eq!(&came[..many], b"one two three");
        poll_fn(|cx| Pin::new(&mut gathered).poll_shutdown(cx)).await.unwrap();
        let mut rest = Vec::new();
        peer.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"!", "an end leaves nothing behind");
    }

    #[tokio::test]
    async fn what_is_large_leaves_behind_what_waits_and_nothing_waits_without_bound() {
        let (mut gathered, mut peer) = pair().await;
        gathered.gather(true);
        let mut said = Vec::new();
        for n in 0..200_u32 {
            let bytes = vec![n.to_le_bytes()[0]; if n % 7 == 0 { LARGE + 1 } else { 900 }];
            let parts = [io::IoSlice::new(&bytes)];
            let mut left = 0;
            while left < bytes.len() {
                let rest = [io::IoSlice::new(&parts[0][left..])];
                let write = poll_fn(|cx| Pin::new(&mut gathered).poll_write_vectored(cx, &rest));
                let mut space = vec![0; 64 * 1024];
                // The peer reads, or a full socket would hold both up.
                tokio::select! {
                    biased;
                    wrote = write => left += wrote.unwrap(),
                    read = peer.read(&mut space) => said.extend_from_slice(&space[..read.unwrap()]),
                }
                assert!(gathered.waiting.len() <= MOST);
            }
        }
        poll_fn(|cx| Pin::new(&mut gathered).poll_shutdown(cx)).await.unwrap();
        peer.read_to_end(&mut said).await.unwrap();
        let sizes = (0..200).map(|n| if n % 7 == 0 { LARGE + 1 } else { 900 });
        assert_eq!(said.len(), sizes.sum::<usize>());
        assert!(said.is_sorted(), "in order");
    }

    #[tokio::test]
    async fn who_is_alone_again_writes_at_once_and_behind_what_waited() {
        let (mut gathered, mut peer) = pair().await;
        gathered.gather(true);
        turn(&mut gathered, &[b"one "]).await;
        gathered.gather(false);
        let wrote = poll_fn(|cx| Pin::new(&mut gathered).poll_write(cx, b"two")).await;
        assert_eq!(wrote.unwrap(), 3);
        let mut came = [0; 7];
        let read = tokio::time::timeout(std::time::Duration::from_secs(20), peer.read_exact(&mut came));
        read.await.expect("both have left").unwrap();
        assert_eq!(&came, b"one two");
    }

    #[tokio::test]
    async fn who_is_not_asked_to_gather_writes_at_once() {
        let (mut gathered, mut peer) = pair().await;
        turn(&mut gathered, &[b"one"]).await;
        let mut came = [0; 8];
        assert_eq!(peer.read(&mut came).await.unwrap(), 3);
    }
}
