//! A way to a process that can be cut in one direction without a sound.
//!
//! While a direction is cut nothing of it arrives, connections stay open and new ones are taken: as on a network that
//! drops packets, nobody is told. What was on its way is delivered when the cut heals, as a sender's retransmissions
//! would be.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The way; dropping it closes it and everything on it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    requests: watch::Sender<bool>,
    answers: watch::Sender<bool>,
    broken_off: watch::Sender<u64>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Opens a way to this address, `http://host:port` or `host:port`.
    pub async fn to(target: &str) -> Self {
        let target = target.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (requests, requests_cut) = watch::channel(false);
        let (answers, answers_cut) = watch::channel(false);
        let (broken_off, breaks) = watch::channel(0);
        let task = tokio::spawn(async move {
            // Ends with the task, and its connections with it.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((inbound, _)) = listener.accept().await {
                let (target, there, back) = (target.clone(), requests_cut.clone(), answers_cut.clone());
                let mut breaks = breaks.clone();
                breaks.mark_unchanged();
                connections.spawn(async move {
                    let carried = async {
                        // Without a target the connection just ends, as it would without a proxy.
                        if let Ok(outbound) = TcpStream::connect(&target).await {
                            let (from_client, to_client) = inbound.into_split();
                            let (from_cell, to_cell) = outbound.into_split();
                            tokio::join!(pump(from_client, to_cell, there), pump(from_cell, to_client, back));
                        }
                    };
                    tokio::select! {
                        () = carried => {}
                        _ = breaks.changed() => {}
                    }
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Self { address, requests, answers, broken_off, task }
    }

    /// Its own address, as a URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Cuts or heals the way of requests and the way of answers.
    pub fn cut(&self, requests: bool, answers: bool) {
        self.requests.send_replace(requests);
        self.answers.send_replace(answers);
    }

    /// Ends every connection at once; what was on its way is never delivered.
    pub fn break_off(&self) {
        self.broken_off.send_modify(|count| *count += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut cut: watch::Receiver<bool>) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count) = from.read(&mut buffer).await {
        // The end of a stream is cut as well: it is a packet like any other.
        if cut.wait_for(|cut| !cut).await.is_err()
            || count == 0
            || to.write_all(&buffer[..count]).await.is_err()
        {
            break;
        }
    }
    let _ = to.shutdown().await;
}
