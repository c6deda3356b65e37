//! Watches of regions, on a connection of their own.
//!
//! What comes is read by a task of its own, so that a page is read while the one before it is put into its state. It is
//! never more than a few messages ahead; then the cell waits.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rollcall_model::{Clock, Event, Instant, Position, Region};
use rollcall_proto::asking::Asking;
use rollcall_proto::{Reader, convert, unread, v1};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Streaming};

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
/// Largest piece of a message on the wire: a page of a usual size is one. In pieces of 16 KiB, as they are where nothing is
/// said, the cell calls its kernel six times as often, and wakes this end as often.
const FRAME_BYTES_MAX: u32 = 128 * 1024;
/// Events that are read ahead: one to be taken next, and one behind it.
const AHEAD: usize = 2;

/// Reads the messages of one region's watches, of one after the other: what was read before is shared with what comes.
pub(crate) type SharedReader = Arc<Mutex<Reader>>;

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
        reader: &SharedReader,
        clock: &Clock,
    ) -> Result<Watching, CallError> {
        let request = v1::WatchRequest {
            region: region.as_str().to_owned(),
            query: None,
            since: since.map(convert::position),
        };
        let taken = self.turns.take(|_| false, connect)?;
        let asked = clock.now();
        let watch = unread::watch(taken.line.clone(), request, MESSAGE_BYTES_MAX);
        let opened = match tokio::time::timeout(OPEN_MAX, watch).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(status)) => Err(call_error(&taken.url, &status)),
            Err(_) => Err(CallError::Unanswered { url: taken.url.clone(), within: OPEN_MAX }),
        };
        match opened {
            Ok(answer) => {
                let headers = answer.metadata();
                let asking = Asking::beside(taken.line, headers, asked, clock, rand::random());
                Ok(Watching::of(answer, asking, Arc::clone(reader), taken.turn, taken.url))
            }
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
    let url = url.clone().max_frame_size(FRAME_BYTES_MAX);
    url.http2_keep_alive_interval(PING).keep_alive_timeout(PING).connect_lazy()
}

/// An open watch. Its task ends with it.
pub(crate) struct Watching {
    events: mpsc::Receiver<Result<Event, CallError>>,
    asking: Asking,
    turn: u64,
    /// Where it leads, for people.
    url: String,
    _task: JoinSet<()>,
}

impl Watching {
    fn of(
        answer: Response<Streaming<Bytes>>,
        asking: Asking,
        reader: SharedReader,
        turn: u64,
        url: String,
    ) -> Self {
        let mut stream = answer.into_inner();
        let (read, events) = mpsc::channel(AHEAD);
        let (mut task, from) = (JoinSet::new(), url.clone());
        task.spawn(async move {
            while let Some(message) = stream.message().await.transpose() {
                let event = message.map_err(|status| call_error(&from, &status));
                let event = event.and_then(|message| event_of(&reader, &message));
                let is_last = event.is_err();
                if read.send(event).await.is_err() || is_last {
                    return;
                }
            }
        });
        Self { events, asking, turn, url, _task: task }
    }

    /// The cell at its other end.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The next event; waits as long as nothing happens. `None` when the cell ended the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, CallError> {
        self.events.recv().await.transpose()
    }

    /// Makes a bookmark that is taken now as old as it may be, with the way here.
    pub(crate) fn count(&mut self, event: &mut Event, now: Instant) {
        self.asking.count(event, now, rand::random());
    }
}

fn event_of(reader: &Mutex<Reader>, message: &[u8]) -> Result<Event, CallError> {
    // What was lent is whole whoever panicked.
    let mut reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
    reader.event(message).map_err(|unreadable| CallError::Unreadable(unreadable.to_string()))
}
