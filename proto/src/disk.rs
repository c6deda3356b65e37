//! A state as bytes for a file: magic, format, length and checksum before the message, so that a torn or foreign file
//! is told from a good one (promise I24). Reading and writing files is for the edges.

mod newest;

use std::sync::Arc;

use prost::Message;
use rollcall_model::history::Step;
use rollcall_model::{Moment, Revision, Snapshot, SnapshotBuilder, SnapshotHead, Timestamp, Uptime};

use crate::convert::{delta, delta_from, head, head_from, registration, registration_from};
use crate::reader::{Field, Value, field};
use crate::store::Beat;
use crate::{Reader, Unreadable, Writer, v1};
pub use newest::{Newest, newest};

const MAGIC: &[u8; 8] = b"ROLLCALL";
const FORMAT: u32 = 1;
const HEADER: usize = 8 + 4 + 8 + 16;
/// The number of `records` in the message.
const RECORDS: u32 = 2;

/// Where a subscriber goes on reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPlace {
    /// The topic's name or id: an offset of another topic means nothing.
    pub topic: String,
    /// The first record not in the state.
    pub next_offset: u64,
}

/// A state with what its holder needs to go on.
#[derive(Clone, Debug)]
pub struct Saved {
    /// The state, verified.
    pub snapshot: Snapshot,
    /// When the state was so: as long before it was written as the state was old then.
    pub saved_at: Moment,
    /// Of a subscriber.
    pub log: Option<LogPlace>,
    /// Of a cell's replica: the last beat and its revision.
    pub beat: Option<(Beat, Revision)>,
    /// The newest part of what led to the state, for a holder that others follow; see [`rollcall_model::View::recall`].
    pub history: Vec<Step>,
}

/// To bytes.
#[must_use]
pub fn encode(saved: &Saved) -> Vec<u8> {
    // In parts, in the order of their numbers: together they are the bytes of one message, and no second copy of a
    // million records is made for it.
    let first = v1::DiskState { head: Some(head(saved.snapshot.head())), ..v1::DiskState::default() };
    let last = v1::DiskState {
        saved_at_ms: saved.saved_at.wall.0,
        saved_uptime: saved
            .saved_at
            .uptime
            .as_ref()
            .map(|uptime| v1::Uptime { boot: uptime.boot.clone(), ms: uptime.ms }),
        log: saved
            .log
            .as_ref()
            .map(|log| v1::LogPlace { topic: log.topic.clone(), next_offset: log.next_offset }),
        beat: saved.beat.as_ref().map(|(beat, revision)| v1::StoreBeat {
            term: beat.term,
            count: beat.count,
            nonce: beat.nonce.clone(),
            revision: revision.0,
        }),
        history: saved.history.iter().map(step).collect(),
        ..v1::DiskState::default()
    };
    let mut bytes = vec![0; HEADER];
    bytes.extend_from_slice(&first.encode_to_vec());
    let mut writer = Writer::default();
    for record in saved.snapshot.state().iter() {
        writer.record(RECORDS, record, &mut bytes);
    }
    bytes.extend_from_slice(&last.encode_to_vec());
    let (header, body) = bytes.split_at_mut(HEADER);
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    header[12..20].copy_from_slice(&(body.len() as u64).to_le_bytes());
    header[20..].copy_from_slice(&checksum(body));
    bytes
}

/// From bytes; the state inside is verified by count and digest.
///
/// # Errors
/// Cut, changed, foreign, of another format, or not the state it claims to be.
pub fn decode(bytes: &[u8]) -> Result<Saved, Unreadable> {
    let (records, others) = parts(bytes)?;
    let Frame { head, saved_at, message } = Frame::of(&others)?;
    let mut builder = SnapshotBuilder::begin(head);
    let mut reader = Reader::default();
    for record in records {
        builder.add([Arc::new(reader.registration(record)?)]);
    }
    let snapshot = builder.finish().map_err(|unverified| Unreadable::new("disk", unverified.as_str()))?;
    Ok(Saved {
        snapshot,
        saved_at,
        log: message.log.map(|log| LogPlace { topic: log.topic, next_offset: log.next_offset }),
        beat: message.beat.map(|beat| {
            (Beat { term: beat.term, count: beat.count, nonce: beat.nonce }, Revision(beat.revision))
        }),
        history: message.history.into_iter().map(step_from).collect::<Result<_, _>>()?,
    })
}

/// What stands around the records.
struct Frame {
    head: SnapshotHead,
    saved_at: Moment,
    message: v1::DiskState,
}

impl Frame {
    /// Of a file that is whole; its records are not looked at.
    fn read(bytes: &[u8]) -> Result<Self, Unreadable> {
        Self::of(&parts(bytes)?.1)
    }

    fn of(others: &[u8]) -> Result<Self, Unreadable> {
        let mut message =
            v1::DiskState::decode(others).map_err(|error| Unreadable::new("disk", error.to_string()))?;
        let head = head_from(message.head.take())?;
        let uptime = message.saved_uptime.take().map(|uptime| Uptime { boot: uptime.boot, ms: uptime.ms });
        Ok(Self { head, saved_at: Moment { wall: Timestamp(message.saved_at_ms), uptime }, message })
    }
}

/// The records of a file that is whole, unread, and the message without them.
fn parts(bytes: &[u8]) -> Result<(Vec<&[u8]>, Vec<u8>), Unreadable> {
    let bad = |why: &str| Unreadable::new("disk", why);
    let (header, body) = bytes.split_at_checked(HEADER).ok_or_else(|| bad("the file is cut"))?;
    if &header[..8] != MAGIC {
        return Err(bad("the file is not one of Rollcall's"));
    }
    if header[8..12] != FORMAT.to_le_bytes() {
        return Err(bad("the file has another format"));
    }
    if header[12..20] != (body.len() as u64).to_le_bytes() {
        return Err(bad("the file is cut"));
    }
    if header[20..36] != checksum(body) {
        return Err(bad("the file is damaged"));
    }
    split(body).ok_or_else(|| bad("the file is damaged"))
}

fn step(step: &Step) -> v1::HistoryStep {
    let replaced = step.before.iter().zip(0..).filter_map(|(was, change)| {
        Some(v1::Replaced { change, registration: Some(registration(was.as_ref()?)) })
    });
    v1::HistoryStep { delta: Some(delta(&step.delta)), before: replaced.collect() }
}

fn step_from(wire: v1::HistoryStep) -> Result<Step, Unreadable> {
    let delta = delta_from(wire.delta.ok_or_else(|| Unreadable::missing("history.delta"))?)?;
    let mut before = vec![None; delta.changes.len()];
    for replaced in wire.before {
        let record = replaced.registration.ok_or_else(|| Unreadable::missing("history.before"))?;
        let place = usize::try_from(replaced.change).ok().and_then(|change| before.get_mut(change));
        *place.ok_or_else(|| {
            Unreadable::new("history.before", "it replaced by a change that is not there")
        })? = Some(Arc::new(registration_from(record)?));
    }
    Ok(Step::new(Arc::new(delta), before))
}

/// The records in the message, unread, and the message without them.
fn split(body: &[u8]) -> Option<(Vec<&[u8]>, Vec<u8>)> {
    let (mut records, mut others) = (Vec::new(), Vec::new());
    let mut rest = body;
    while !rest.is_empty() {
        match field(&mut rest)? {
            Field { tag: RECORDS, value: Value::Bytes(record), .. } => records.push(record),
            Field { whole, .. } => others.extend_from_slice(whole),
        }
    }
    Some((records, others))
}

fn checksum(body: &[u8]) -> [u8; 16] {
    xxhash_rust::xxh3::xxh3_128(body).to_le_bytes()
}
