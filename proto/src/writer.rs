//! Writes registrations by the million: what many of them have in common is put together once.
//!
//! Promises: what it writes are the bytes of the plain conversions, so that no reader can tell. What it remembers is the
//! last registration alone: in order of id an agent's instances stand together, and these are what is alike.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};
use rollcall_model::{Declared, Endpoint, Metadata, Owned, Profile, Registration};

use crate::convert::registration::{declared, epochs, lifecycle, load};
use crate::reader::{Field, field};
use crate::v1;

/// Room for what stands before a message: its key and its length, each at most so long.
const KEY_AND_LENGTH: usize = 2 * 10;
/// Room for a record of a usual size.
const RECORD: usize = 192;

/// Writes the events of a feed, and the records of a file.
#[derive(Debug, Default)]
pub struct Writer {
    profile: Option<Shared<Arc<Profile>, [Vec<u8>; 3]>>,
    metadata: Option<Shared<Metadata, Vec<u8>>>,
    /// Parts of a record, before it is known how long they are; kept for their room.
    declared: Vec<u8>,
    owned: Vec<u8>,
    record: Vec<u8>,
}

/// What was written last, and its bytes. It is held, so that nothing else can stand at its address.
#[derive(Debug)]
struct Shared<T, B> {
    of: T,
    bytes: B,
}

impl Writer {
    /// A page of a snapshot as a message of a watch.
    #[must_use]
    pub fn page(&mut self, records: &[Arc<Registration>]) -> Bytes {
        // How long it is is known at the end, and stands at the beginning.
        let mut bytes = Vec::with_capacity(KEY_AND_LENGTH + records.len() * RECORD);
        bytes.resize(KEY_AND_LENGTH, 0);
        for record in records {
            self.record(1, record, &mut bytes);
        }
        let mut front = Vec::with_capacity(KEY_AND_LENGTH);
        key_and_length(2, bytes.len() - KEY_AND_LENGTH, &mut front);
        let begin = KEY_AND_LENGTH - front.len();
        bytes[begin..KEY_AND_LENGTH].copy_from_slice(&front);
        Bytes::from(bytes).slice(begin..)
    }

    /// A registration as a message in the field of this number.
    pub(crate) fn record(&mut self, number: u32, registration: &Registration, to: &mut Vec<u8>) {
        self.declared(&registration.declared);
        self.owned(&registration.owned);
        self.record.clear();
        let record = &mut self.record;
        message(1, &self.declared, record);
        number_unless_zero(2, registration.epoch.get(), record);
        number_unless_zero(3, registration.registered_at.0.cast_unsigned(), record);
        number_unless_zero(4, registration.revision.0, record);
        message(5, &self.owned, record);
        // Hardly ever any.
        prost::encoding::uint64::encode_packed(6, &epochs(&registration.replaced), record);
        message(number, record, to);
    }

    fn declared(&mut self, of: &Declared) {
        let known = self.profile.take().filter(|known| Arc::ptr_eq(&known.of, &of.profile));
        let profile = known.unwrap_or_else(|| Shared { of: Arc::clone(&of.profile), bytes: parts(of) });
        let [before_endpoints, before_zone, behind] = &profile.bytes;
        let to = &mut self.declared;
        to.clear();
        text(1, of.id.as_str(), to);
        to.extend_from_slice(before_endpoints);
        for one in &of.endpoints {
            endpoint(one, to);
        }
        to.extend_from_slice(before_zone);
        if let Some(zone) = &of.zone {
            text(8, zone.as_str(), to);
        }
        to.extend_from_slice(behind);
        self.profile = Some(profile);
    }

    fn owned(&mut self, of: &Owned) {
        let known = self.metadata.take().filter(|known| std::ptr::eq(&*known.of, &*of.metadata));
        let metadata = known.unwrap_or_else(|| {
            let only = v1::Owned { metadata: of.metadata.to_map(), ..v1::Owned::default() };
            Shared { of: of.metadata.clone(), bytes: only.encode_to_vec() }
        });
        let to = &mut self.owned;
        to.clear();
        // Every lifecycle has a number above zero.
        number_unless_zero(1, i32::from(lifecycle(of.lifecycle)).cast_unsigned().into(), to);
        to.extend_from_slice(&metadata.bytes);
        if let Some(of) = of.load.get() {
            prost::encoding::message::encode(3, &load(of), to);
        }
        number_unless_zero(4, of.overdue.into(), to);
        number_unless_zero(5, of.strained.into(), to);
        self.metadata = Some(metadata);
    }
}

/// What a profile is on the wire, as it stands around an instance's endpoints and zone.
fn parts(of: &Declared) -> [Vec<u8>; 3] {
    let wire = v1::Declared { id: String::new(), endpoints: Vec::new(), zone: None, ..declared(of) };
    let bytes = wire.encode_to_vec();
    let mut parts = [const { Vec::new() }; 3];
    let mut rest = bytes.as_slice();
    while let Some(Field { tag, whole, .. }) = field(&mut rest) {
        let part = match tag {
            ..4 => 0,
            4..8 => 1,
            8.. => 2,
        };
        parts[part].extend_from_slice(whole);
    }
    parts
}

fn endpoint(of: &Endpoint, to: &mut Vec<u8>) {
    let (url, protocol) = (of.url(), of.protocol());
    let long = |text: &str| 1 + encoded_len_varint(text.len() as u64) + text.len();
    let has_url = !url.is_empty();
    key_and_length(4, if has_url { long(url) } else { 0 } + protocol.map_or(0, long), to);
    if has_url {
        text(1, url, to);
    }
    if let Some(protocol) = protocol {
        text(2, protocol, to);
    }
}

fn key_and_length(number: u32, length: usize, to: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, to);
    encode_varint(length as u64, to);
}

fn message(number: u32, bytes: &[u8], to: &mut Vec<u8>) {
    key_and_length(number, bytes.len(), to);
    to.extend_from_slice(bytes);
}

fn text(number: u32, text: &str, to: &mut Vec<u8>) {
    message(number, text.as_bytes(), to);
}

fn number_unless_zero(number: u32, value: u64, to: &mut Vec<u8>) {
    if value != 0 {
        encode_key(number, WireType::Varint, to);
        encode_varint(value, to);
    }
}
