//! A watcher as any client would write one: over gRPC or SSE, with what it is told in one form.
//!
//! It knows the contract and nothing of how the product keeps it. What it makes of what it is told is in its [`Book`].

mod book;

use std::collections::VecDeque;

use rollcall_model::{Change, Event, Position};
use rollcall_proto::convert;
use rollcall_proto::v1::discovery_client::DiscoveryClient;
use rollcall_proto::v1::{WatchRequest, WatchResponse};
use rollcall_tests::stage::REGION;
use serde_json::Value;
use tonic::Streaming;

pub use book::{Book, Happened, happened};

/// One revision is never split, and a group commit can hold sixty cards.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Over what a watcher watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// The stream of the gRPC service.
    Grpc,
    /// Server-sent events.
    Sse,
}

/// Where a process of the cell listens.
#[derive(Clone, Debug)]
pub struct Address {
    /// Over HTTP.
    pub http: String,
    /// Over gRPC.
    pub grpc: String,
}

/// What a watcher is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// A snapshot begins; what was told before no longer counts.
    SnapshotBegin,
    /// One of its records: id and epoch.
    Record(String, u64),
    /// It is complete, up to here.
    SnapshotEnd(Position),
    /// Changes behind the first position up to the second.
    Delta(Position, Position, Vec<Changed>),
    /// Nothing new up to here.
    Bookmark(Position),
    /// A snapshot follows, and why.
    Resync(String),
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Of which instance.
    pub id: String,
    /// Its epoch and revision now; none when it was removed.
    pub put: Option<(u64, u64)>,
}

/// An open watch of everything in the cell's own region. Dropping it closes its connection, which it shares with nobody.
pub struct Watch {
    stream: Stream,
    told: VecDeque<Told>,
}

enum Stream {
    Grpc(Box<Streaming<WatchResponse>>),
    Sse(Box<reqwest::Response>, String),
}

impl Watch {
    /// Opens one: from nothing, or from a position.
    ///
    /// # Errors
    /// Nobody listens, or the watch is refused.
    pub async fn open(face: Face, cell: &Address, since: Option<&Position>) -> Result<Self, String> {
        let stream = match face {
            Face::Grpc => {
                let client = DiscoveryClient::connect(cell.grpc.clone()).await.map_err(words)?;
                let since = since.map(convert::position);
                let request = WatchRequest { region: REGION.to_owned(), query: None, since };
                let mut client = client.max_decoding_message_size(MESSAGE_BYTES_MAX);
                Stream::Grpc(Box::new(client.watch(request).await.map_err(words)?.into_inner()))
            }
            Face::Sse => {
                let client = reqwest::Client::builder().build().map_err(words)?;
                let mut request = client.get(format!("{}/v1/watch", cell.http));
                if let Some(since) = since {
                    request = request.header("last-event-id", since.to_string());
                }
                let answer = request.send().await.map_err(words)?;
                Stream::Sse(Box::new(answer.error_for_status().map_err(words)?), String::new())
            }
        };
        Ok(Self { stream, told: VecDeque::new() })
    }

    /// What comes next.
    ///
    /// # Errors
    /// The watch ended, or told something that is not in the contract.
    pub async fn next(&mut self) -> Result<Told, String> {
        loop {
            if let Some(told) = self.told.pop_front() {
                return Ok(told);
            }
            match &mut self.stream {
                Stream::Grpc(stream) => {
                    let message = stream.message().await.map_err(words)?.ok_or("the stream ended")?;
                    self.told.extend(from_event(convert::event_from(message).map_err(words)?));
                }
                Stream::Sse(answer, text) => {
                    let bytes = answer.chunk().await.map_err(words)?.ok_or("the stream ended")?;
                    // Everything that the contract has is ASCII but for texts of registrants, and a run has none of these.
                    text.push_str(&String::from_utf8_lossy(&bytes));
                    while let Some((event, rest)) = text.split_once("\n\n") {
                        self.told.extend(from_text(event)?);
                        *text = rest.to_owned();
                    }
                }
            }
        }
    }
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn from_event(event: Event) -> Vec<Told> {
    let changed = |change: &Change| match change {
        Change::Put(put) => {
            Changed { id: put.declared.id.as_str().to_owned(), put: Some((put.epoch.get(), put.revision.0)) }
        }
        Change::Remove(removal) => Changed { id: removal.id.as_str().to_owned(), put: None },
    };
    match event {
        Event::SnapshotBegin(_) => vec![Told::SnapshotBegin],
        Event::Page(records) => {
            let told = records.iter().map(|r| Told::Record(r.declared.id.as_str().to_owned(), r.epoch.get()));
            told.collect()
        }
        Event::SnapshotEnd(_, position) => vec![Told::SnapshotEnd(position)],
        Event::Delta(delta) => {
            let changes = delta.changes.iter().map(changed).collect();
            vec![Told::Delta(delta.from.clone(), delta.to.clone(), changes)]
        }
        Event::Bookmark(mark) => vec![Told::Bookmark(mark.position)],
        Event::Resync(_, reason) => vec![Told::Resync(reason.to_owned())],
    }
}

fn from_text(event: &str) -> Result<Option<Told>, String> {
    let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
    let Some(name) = field("event: ") else { return Ok(None) };
    let data: Value = serde_json::from_str(field("data: ").ok_or("an event without data")?).map_err(words)?;
    let number = |value: &Value| {
        let number = value.as_str().and_then(|text| text.parse::<u64>().ok());
        number.ok_or_else(|| format!("{value} is no number, in {event}"))
    };
    let place = |value: &Value| {
        let incarnation = value["incarnation"].as_str().unwrap_or_default();
        let text = format!("{incarnation}:{}", number(&value["revision"])?);
        Position::parse(&text).map_err(|finding| finding.detail)
    };
    let text = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(|| format!("no text in {event}"));
    let changed = |change: &Value| {
        let (put, removed) = (&change["put"], &change["remove"]);
        if removed.is_object() {
            return Ok(Changed { id: text(&removed["id"])?, put: None });
        }
        let put_as = (number(&put["epoch"])?, number(&put["revision"])?);
        Ok::<_, String>(Changed { id: text(&put["id"])?, put: Some(put_as) })
    };
    Ok(Some(match name {
        "snapshot_begin" => Told::SnapshotBegin,
        "put" => Told::Record(text(&data["id"])?, number(&data["epoch"])?),
        "snapshot_end" => Told::SnapshotEnd(place(&data["position"])?),
        "delta" => {
            let changes = data["changes"].as_array().ok_or("a delta without changes")?;
            let changes = changes.iter().map(changed).collect::<Result<_, _>>()?;
            Told::Delta(place(&data["from"])?, place(&data["to"])?, changes)
        }
        "bookmark" => Told::Bookmark(place(&data["position"])?),
        "resync" => Told::Resync(text(&data["reason"])?),
        other => return Err(format!("{other} is no event of the contract")),
    }))
}
