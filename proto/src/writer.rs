//! Writes registrations by the million: what many of them have in common is put together once.
//!
//! Promises: what it writes are the bytes of the plain conversions, so that no reader can tell. What it remembers is the
//! last registration alone: in order of id an agent's instances stand together, and these are what is alike.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message as _;
use prost::encoding::{WireType, encoded_len_varint};
use rollcall_model::{Declared, Metadata, Profile, Registration};

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
    pub(crate) fn record(&mut self, number: u32, of: &Registration, to: &mut Vec<u8>) {
        // How long each part is, is counted before it is written: so nothing is written twice.
        let known = self.profile.take().filter(|known| Arc::ptr_eq(&known.of, &of.declared.profile));
        let profile = known
            .unwrap_or_else(|| Shared { of: Arc::clone(&of.declared.profile), bytes: parts(&of.declared) });
        let metadata = &of.owned.metadata;
        let known = self.metadata.take().filter(|known| std::ptr::eq(&*known.of, &**metadata));
        let metadata = known.unwrap_or_else(|| {
            let mut bytes = Vec::new();
            for (key, value) in metadata.iter() {
                // Of an entry neither is written that says nothing, as the generated code writes it.
                let long = |text: &str| if text.is_empty() { 0 } else { framed(text.len()) };
                key_and_length(2, long(key) + long(value), &mut bytes);
                for (number, said) in [(1, key), (2, value)].into_iter().filter(|(_, said)| !said.is_empty())
                {
                    text(number, said, &mut bytes);
                }
            }
            Shared { of: metadata.clone(), bytes }
        });
        let said = Said {
            lifecycle: i32::from(lifecycle(of.owned.lifecycle)).cast_unsigned().into(),
            metadata: &metadata.bytes,
            load: of.owned.load.get().map(load),
            overdue: of.owned.overdue.into(),
            strained: of.owned.strained.into(),
        };
        let declared_bytes = declared_bytes(&of.declared, &profile.bytes);
        let (said_bytes, registered_at) = (said.bytes(), of.registered_at.0.cast_unsigned());
        // Hardly ever any.
        let replaced = epochs(&of.replaced);
        let bytes = framed(declared_bytes)
            + number_bytes(of.epoch.get())
            + number_bytes(registered_at)
            + number_bytes(of.revision.0)
            + framed(said_bytes)
            + prost::encoding::uint64::encoded_len_packed(6, &replaced);
        key_and_length(number, bytes, to);
        key_and_length(1, declared_bytes, to);
        write_declared(&of.declared, &profile.bytes, to);
        number_unless_zero(2, of.epoch.get(), to);
        number_unless_zero(3, registered_at, to);
        number_unless_zero(4, of.revision.0, to);
        key_and_length(5, said_bytes, to);
        said.write(to);
        prost::encoding::uint64::encode_packed(6, &replaced, to);
        (self.profile, self.metadata) = (Some(profile), Some(metadata));
    }
}

fn declared_bytes(of: &Declared, profile: &[Vec<u8>; 3]) -> usize {
    let zone = of.zone.as_ref().map_or(0, |zone| framed(zone.as_str().len()));
    let endpoints = of.endpoints.iter().map(|one| framed(endpoint_bytes(one.parts())));
    let shared = profile.iter().map(Vec::len).sum::<usize>();
    framed(of.id.as_str().len()) + endpoints.sum::<usize>() + zone + shared
}

fn write_declared(of: &Declared, [before_endpoints, before_zone, behind]: &[Vec<u8>; 3], to: &mut Vec<u8>) {
    text(1, of.id.as_str(), to);
    to.extend_from_slice(before_endpoints);
    for one in &of.endpoints {
        let (url, protocol) = one.parts();
        key_and_length(4, endpoint_bytes((url, protocol)), to);
        if !url.is_empty() {
            text(1, url, to);
        }
        if let Some(protocol) = protocol {
            text(2, protocol, to);
        }
    }
    to.extend_from_slice(before_zone);
    if let Some(zone) = &of.zone {
        text(8, zone.as_str(), to);
    }
    to.extend_from_slice(behind);
}

fn endpoint_bytes((url, protocol): (&str, Option<&str>)) -> usize {
    let url = if url.is_empty() { 0 } else { framed(url.len()) };
    url + protocol.map_or(0, |protocol| framed(protocol.len()))
}

/// What its owner says of a registration, as numbers and bytes.
struct Said<'a> {
    /// Every lifecycle has a number above zero.
    lifecycle: u64,
    metadata: &'a [u8],
    load: Option<v1::Load>,
    overdue: u64,
    strained: u64,
}

impl Said<'_> {
    fn bytes(&self) -> usize {
        number_bytes(self.lifecycle)
            + self.metadata.len()
            + self.load.as_ref().map_or(0, |load| framed(load.encoded_len()))
            + number_bytes(self.overdue)
            + number_bytes(self.strained)
    }

    fn write(&self, to: &mut Vec<u8>) {
        number_unless_zero(1, self.lifecycle, to);
        to.extend_from_slice(self.metadata);
        if let Some(load) = &self.load {
            prost::encoding::message::encode(3, load, to);
        }
        number_unless_zero(4, self.overdue, to);
        number_unless_zero(5, self.strained, to);
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

/// Bytes of a field with so many in it: here every field's number takes one.
fn framed(bytes: usize) -> usize {
    1 + encoded_len_varint(bytes as u64) + bytes
}

fn number_bytes(value: u64) -> usize {
    if value == 0 { 0 } else { 1 + encoded_len_varint(value) }
}

fn key_and_length(number: u32, length: usize, to: &mut Vec<u8>) {
    key(number, WireType::LengthDelimited, to);
    varint(length as u64, to);
}

/// A message, or a text, in the field of this number.
pub(crate) fn message(number: u32, bytes: &[u8], to: &mut Vec<u8>) {
    key_and_length(number, bytes.len(), to);
    to.extend_from_slice(bytes);
}

fn text(number: u32, text: &str, to: &mut Vec<u8>) {
    message(number, text.as_bytes(), to);
}

fn number_unless_zero(number: u32, value: u64, to: &mut Vec<u8>) {
    if value != 0 {
        key(number, WireType::Varint, to);
        varint(value, to);
    }
}

fn key(number: u32, wire: WireType, to: &mut Vec<u8>) {
    varint(u64::from(number << 3 | wire as u32), to);
}

fn varint(value: u64, to: &mut Vec<u8>) {
    let mut rest = value;
    while rest >= 0x80 {
        to.push(rest.to_le_bytes()[0] | 0x80);
        rest >>= 7;
    }
    to.push(rest.to_le_bytes()[0]);
}
