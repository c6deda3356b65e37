//! Watches of regions, on a connection of their own.

use std::time::Duration;

use bytes::Bytes;
use rollcall_model::{Event, Position, Region};
use rollcall_proto::{Reader, convert, unread, v1};
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

use crate::error::{CallError, StartError};
use crate::transport::grpc::call_error;
use crate::transport::turns::Turns;

/// Ping of a connection with an open watch, and the wait for its answer: a connection whose other end fell silent is
/// noticed within ten seconds (fault F23 allows fifteen).
const PING: Duration = Duration::from_secs(5);
const _: () = assert!(2 * PING.as_secs() < 15, "F23");
/// Longest wait for a watch to open; what it then sends may take as long as it likes.
const OPEN_MAX: Duration = Duration::from_secs(5);
/// Largest message: a page is under 1 MiB; a delta never splits a revision, and one commit of the store is 1 MiB of
/// values. Room for both with what wraps them.
const MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The processes of one cell, to be watched. One connection at a time.
#[derive(Debug)]
pub(crate) struct Watches {
    turns: Turns<Channel>,
}

impl Watches {
    /// Takes the URLs; connects when the first watch needs it.
    pub(crate) fn new(urls: &[String]) -> Result<Self, StartError> {
        Ok(Self { turns: Turns::new(urls)? })
    }

    /// Opens a watch on one region, from a position or from nothing.
    pub(crate) async fn watch(
        &self,
        region: &Region,
        since: Option<&Position>,
    ) -> Result<Watching, CallError> {
        let request = v1::WatchRequest {
            region: region.as_str().to_owned(),
            query: None,
            since: since.map(convert::position),
        };
        let taken = self.turns.take(|_| false, connect)?;
        let watch = unread::watch(taken.line.clone(), request, MESSAGE_BYTES_MAX);
        let opened = match tokio::time::timeout(OPEN_MAX, watch).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(status)) => Err(call_error(&taken.url, &status)),
            Err(_) => Err(CallError::Unanswered { url: taken.url.clone(), within: OPEN_MAX }),
        };
        match opened {
            Ok(stream) => Ok(Watching { stream, turn: taken.turn, url: taken.url }),
            Err(error) => {
                self.turns.judge(&taken, &error);
                Err(error)
            }
        }
    }

    /// After a watch broke: the next one goes to the next address.
    pub(crate) fn broke(&self, watching: &Watching) {
        self.turns.leave(watching.turn);
    }
}

fn connect(url: &Endpoint) -> Channel {
    url.clone().http2_keep_alive_interval(PING).keep_alive_timeout(PING).connect_lazy()
}

/// An open watch.
pub(crate) struct Watching {
    stream: Streaming<Bytes>,
    turn: u64,
    url: String,
}

impl Watching {
    /// The next event; waits as long as nothing happens. `None` when the cell ended the stream.
    pub(crate) async fn next(&mut self, reader: &mut Reader) -> Result<Option<Event>, CallError> {
        match self.stream.message().await {
            Ok(Some(message)) => reader
                .event(&message)
                .map(Some)
                .map_err(|unreadable| CallError::Unreadable(unreadable.to_string())),
            Ok(None) => Ok(None),
            Err(status) => Err(call_error(&self.url, &status)),
        }
    }
}
