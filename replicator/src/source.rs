//! The own cell's feed, over the wire: the only thing this crate knows of a cell.
//!
//! Promises: one stream at a time from one of several endpoints, each tried in turn; a stream that falls silent is
//! reported as ended, because bookmarks come every second. It never decides what to do about that.

use std::time::Duration;

use rollcall_model::{Clock, Event, Position, Region};
use rollcall_proto::asking::Asking;
use rollcall_proto::v1::discovery_client::DiscoveryClient;
use rollcall_proto::v1::{WatchRequest, WatchResponse};
use rollcall_proto::{convert, refusal};
use tonic::codec::Streaming;
use tonic::transport::{Channel, Endpoint};

use crate::chance;

/// Largest message taken. Pages of a snapshot are at most 1 MiB; a delta over this comes as a snapshot instead.
pub const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// An endpoint that does not answer in this time is left for the next.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// A connection whose other end is gone without a word is noticed in twice this.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// A stream that says nothing for this long is dead: ten missed bookmarks.
const SILENCE: Duration = Duration::from_secs(10);

/// Why the cell's feed ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// Try again, at the next endpoint.
    #[error("the cell at {url} cannot be reached: {why}")]
    Away {
        /// Where it was looked for.
        url: String,
        /// What happened there.
        why: String,
    },
    /// An event is larger than a message may be: it can only be had as part of a snapshot.
    #[error("the cell's next event is larger than {MESSAGE_BYTES_MAX} bytes")]
    TooLarge,
    /// The cell speaks another version, or of another region.
    #[error("the answer of the cell at {url} cannot be used: {why}")]
    Unusable {
        /// Where it came from.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The settings name no cell.
    #[error("{0}")]
    NoCell(String),
}

/// The endpoints of the own cell.
#[derive(Clone, Debug)]
pub struct Source {
    region: Region,
    endpoints: Vec<Endpoint>,
    next: usize,
    clock: Clock,
}

/// A stream of the cell's events.
#[derive(Debug)]
pub struct Events {
    url: String,
    region: Region,
    stream: Streaming<WatchResponse>,
    /// When the last event came: silence is counted from here, however often somebody asks.
    heard: tokio::time::Instant,
    asking: Asking,
    clock: Clock,
}

impl Source {
    /// The cell of `region`; all its processes serve the same feed.
    ///
    /// # Errors
    /// An endpoint that is no URL.
    pub fn new(region: Region, endpoints: &[String], clock: Clock) -> Result<Self, SourceError> {
        let parse = |text: &String| {
            let endpoint = Endpoint::from_shared(text.clone())
                .map_err(|error| SourceError::NoCell(format!("{text:?} is no URL of a cell: {error}")))?;
            Ok(endpoint
                .connect_timeout(CONNECT_WITHIN)
                .http2_keep_alive_interval(KEEP_ALIVE)
                .keep_alive_timeout(KEEP_ALIVE)
                .keep_alive_while_idle(true))
        };
        let endpoints: Vec<Endpoint> = endpoints.iter().map(parse).collect::<Result<_, SourceError>>()?;
        if endpoints.is_empty() {
            return Err(SourceError::NoCell("no endpoint is given".into()));
        }
        Ok(Self { region, endpoints, next: 0, clock })
    }

    /// Opens the feed from a position, or from nothing. Every call turns to the next endpoint.
    ///
    /// # Errors
    /// When that endpoint does not serve it.
    pub async fn open(&mut self, since: Option<&Position>) -> Result<Events, SourceError> {
        let endpoint = &self.endpoints[self.next % self.endpoints.len()];
        self.next = self.next.wrapping_add(1);
        let url = endpoint.uri().to_string().trim_end_matches('/').to_owned();
        let channel: Channel = endpoint.connect().await.map_err(|error| away(&url, innermost(&error)))?;
        let mut client = DiscoveryClient::new(channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let request = WatchRequest {
            region: self.region.as_str().to_owned(),
            query: None,
            since: since.map(convert::position),
        };
        let asked = self.clock.now();
        let opened = tokio::time::timeout(SILENCE, client.watch(request)).await;
        let answer = opened.map_err(|_| away(&url, "no answer"))?.map_err(|status| sorted(&url, &status))?;
        let clock = self.clock.clone();
        let asking = Asking::beside(channel, answer.metadata(), asked, &clock, chance::draw());
        let heard = tokio::time::Instant::now();
        Ok(Events { url, region: self.region.clone(), stream: answer.into_inner(), heard, asking, clock })
    }
}

impl Events {
    /// The next event; a bookmark is as old as it may be, with the way here. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The stream is over.
    pub async fn next(&mut self) -> Result<Event, SourceError> {
        let message = tokio::time::timeout_at(self.heard + SILENCE, self.stream.message()).await;
        let message = message
            .map_err(|_| away(&self.url, "the stream fell silent"))?
            .map_err(|status| sorted(&self.url, &status))?
            .ok_or_else(|| away(&self.url, "the stream ended"))?;
        self.heard = tokio::time::Instant::now();
        let unusable = |why: String| SourceError::Unusable { url: self.url.clone(), why };
        let mut event = convert::event_from(message).map_err(|error| unusable(error.to_string()))?;
        self.asking.count(&mut event, self.clock.now(), chance::draw());
        match region_of(&event) {
            Some(region) if *region != self.region => Err(unusable(format!("it serves region {region}"))),
            Some(_) | None => Ok(event),
        }
    }
}

fn region_of(event: &Event) -> Option<&Region> {
    match event {
        Event::SnapshotBegin(head) => Some(&head.region),
        Event::SnapshotEnd(region, _) | Event::Resync(region, _) => Some(region),
        Event::Delta(delta) => Some(&delta.region),
        Event::Bookmark(bookmark) => Some(&bookmark.region),
        Event::Page(_) => None,
    }
}

fn sorted(url: &str, status: &tonic::Status) -> SourceError {
    // The decoder of this side refuses with this code; a cell's refusals carry ours in a trailer.
    if status.code() == tonic::Code::OutOfRange && refusal::code_of(status).is_none() {
        return SourceError::TooLarge;
    }
    away(url, format!("{:?}: {}", status.code(), status.message()))
}

fn away(url: &str, why: impl Into<String>) -> SourceError {
    SourceError::Away { url: url.to_owned(), why: why.into() }
}

/// Those above it only repeat that something failed.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut at = error;
    while let Some(below) = at.source() {
        at = below;
    }
    at.to_string()
}
