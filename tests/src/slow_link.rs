//! A long way to a process: what is sent arrives later, in order, and at no more than a rate.
//!
//! Promises: each direction is delayed by itself, so a round trip takes twice the delay; what is on the way is bounded, as
//! on a real line, and a sender that is faster waits. Both settings can be changed while connections are open. Never
//! here: loss, which a stream's two ends repair among themselves and which is felt as delay.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

/// Bytes read at once.
const PIECE_BYTES: usize = 16 * 1024;
/// Pieces on the way in one direction: 4 MiB, more than a fast line holds in a tenth of a second.
const PIECES_MAX: usize = 256;

/// How long the way is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// From one end to the other.
    pub delay: Duration,
    /// Bytes a second in each direction of each connection; none is as fast as the machine.
    pub bytes_per_second: Option<u32>,
}

impl Way {
    /// No way at all.
    pub const NONE: Self = Self { delay: Duration::ZERO, bytes_per_second: None };

    /// Only a delay.
    #[must_use]
    pub const fn delayed(delay: Duration) -> Self {
        Self { delay, bytes_per_second: None }
    }
}

/// The way; dropping it closes it and everything on it.
#[derive(Debug)]
pub struct SlowLink {
    address: SocketAddr,
    way: watch::Sender<Way>,
    carried: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl SlowLink {
    /// Opens a way from an address of this machine to `target`, `host:port`.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub async fn open(listen: &str, target: &str, way: Way) -> std::io::Result<Self> {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        let (way, told) = watch::channel(way);
        let carried = Arc::<AtomicU64>::default();
        let (target, counted) = (target.to_owned(), Arc::clone(&carried));
        let task = tokio::spawn(async move {
            // Ends with the task, and its connections with it.
            let mut connections = JoinSet::new();
            while let Ok((inbound, _)) = listener.accept().await {
                let (target, told, counted) = (target.clone(), told.clone(), Arc::clone(&counted));
                connections.spawn(async move {
                    // Without a target the connection just ends, as it would without a way.
                    let Ok(outbound) = TcpStream::connect(&target).await else { return };
                    let _ = (inbound.set_nodelay(true), outbound.set_nodelay(true));
                    let (from_near, to_near) = inbound.into_split();
                    let (from_far, to_far) = outbound.into_split();
                    tokio::join!(
                        carry(from_near, to_far, told.clone(), &counted),
                        carry(from_far, to_near, told, &counted)
                    );
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { address, way, carried, task })
    }

    /// Where it is entered, `host:port`.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Bytes that came out at its ends, in both directions.
    #[must_use]
    pub fn carried(&self) -> u64 {
        self.carried.load(Ordering::Relaxed)
    }

    /// Makes the way longer or shorter, also for what is sent over open connections.
    pub fn set(&self, way: Way) {
        self.way.send_replace(way);
    }
}

impl Drop for SlowLink {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    way: watch::Receiver<Way>,
    carried: &AtomicU64,
) {
    let (entered, mut leaving) = mpsc::channel::<(Instant, Vec<u8>)>(PIECES_MAX);
    let arriving = way.clone();
    let enter = async move {
        let mut buffer = vec![0; PIECE_BYTES];
        while let Ok(count) = from.read(&mut buffer).await {
            let piece = buffer[..count].to_vec();
            if entered.send((Instant::now(), piece)).await.is_err() || count == 0 {
                break;
            }
        }
    };
    let leave = async move {
        // When the line has carried all before.
        let mut free_at = Instant::now();
        while let Some((entered_at, piece)) = leaving.recv().await {
            let Way { delay, bytes_per_second } = *arriving.borrow();
            if let Some(rate) = bytes_per_second {
                let takes = Duration::from_secs_f64(piece.len() as f64 / f64::from(rate.max(1)));
                free_at = free_at.max(entered_at) + takes;
                tokio::time::sleep_until(free_at + delay).await;
            } else {
                tokio::time::sleep_until(entered_at + delay).await;
            }
            // The end of a stream has as far to go.
            if piece.is_empty() || to.write_all(&piece).await.is_err() {
                break;
            }
            carried.fetch_add(piece.len() as u64, Ordering::Relaxed);
        }
        let _ = to.shutdown().await;
    };
    tokio::join!(enter, leave);
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn echo() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.into_split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        address
    }

    #[tokio::test]
    async fn an_answer_takes_the_way_twice_and_everything_arrives_in_order() {
        let delay = Duration::from_millis(40);
        let link = SlowLink::open("127.0.0.1:0", &echo().await, Way::delayed(delay)).await.expect("open");
        let mut stream = TcpStream::connect(link.address()).await.expect("a connection");
        let sent: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
        let began = Instant::now();
        let (mut from, mut to) = stream.split();
        let mut first = [0; 1];
        to.write_all(&sent[..1]).await.expect("sent");
        from.read_exact(&mut first).await.expect("back");
        assert!(began.elapsed() >= 2 * delay, "{:?}", began.elapsed());
        let mut back = vec![0; sent.len() - 1];
        let (written, read) = tokio::join!(to.write_all(&sent[1..]), from.read_exact(&mut back));
        written.expect("sent");
        read.expect("back");
        assert!(first[0] == sent[0] && back == sent[1..], "nothing is lost, doubled or moved");
    }

    #[tokio::test]
    async fn a_rate_is_kept() {
        let link = SlowLink::open("127.0.0.1:0", &echo().await, Way::NONE).await.expect("open");
        link.set(Way { delay: Duration::ZERO, bytes_per_second: Some(64 * 1024) });
        let mut stream = TcpStream::connect(link.address()).await.expect("a connection");
        let began = Instant::now();
        let (mut from, mut to) = stream.split();
        let (sent, mut back) = (vec![7; 16 * 1024], vec![0; 16 * 1024]);
        let (written, read) = tokio::join!(to.write_all(&sent), from.read_exact(&mut back));
        written.expect("sent");
        read.expect("back");
        assert!(began.elapsed() >= Duration::from_millis(250), "{:?}", began.elapsed());
    }
}
