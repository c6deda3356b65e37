//! Reads registrations by the million: what many of them have in common is read once and held once.
//!
//! Promises: what it reads is what the plain conversions read, and what they refuse it refuses, in their words. What it
//! lends it does not keep: a profile goes with its last registration. Never here: a guess at a message that is not laid
//! out as this version lays it out; such a one takes the plain way, and only costs more.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Weak};

use prost::Message as _;
use prost::encoding::{WireType, decode_key, decode_varint};
use rollcall_model::{
    Change, Declared, Endpoint, Epoch, Event, Metadata, Owned, Profile, Registration, Replaced, Revision,
    Timestamp, Zone, limits,
};

use crate::convert::registration::{self, id_from, lifecycle_from, load_from, profile_from, zone_from};
use crate::convert::{event_from, registration_from};
use crate::writer::message;
use crate::{Unreadable, v1};

/// Zones that are known at a time: a region has few. Past it they are all forgotten, which costs nothing but room.
const ZONES_MAX: usize = 1_024;
/// Parts lent, from which on those that came back are looked for.
const LENT_MIN: usize = 1_024;

/// Reads the events of a feed, and the records of a file.
#[derive(Debug, Default)]
pub struct Reader {
    profiles: Shelf<Profile>,
    metadata: Shelf<BTreeMap<String, String>>,
    zones: HashMap<Box<str>, Zone>,
    /// What the last registration declared beside its own, and what its owner said.
    declared: Common<Profile>,
    owned: Common<BTreeMap<String, String>>,
}

impl Reader {
    /// Reads a message of a watch.
    ///
    /// # Errors
    /// No message of a watch, or one with an unreadable part.
    pub fn event(&mut self, bytes: &[u8]) -> Result<Event, Unreadable> {
        if let Some(page) = only_field(bytes, 2) {
            let mut records = Vec::with_capacity(limits::SNAPSHOT_PAGE_RECORDS_MAX);
            let mut rest = page;
            while !rest.is_empty() {
                let Some(Field { tag: 1, value: Value::Bytes(record), .. }) = field(&mut rest) else {
                    return plain(bytes);
                };
                records.push(Arc::new(self.registration(record)?));
            }
            return Ok(Event::Page(records));
        }
        let mut event = plain(bytes)?;
        if let Event::Delta(delta) = &mut event
            && let Some(delta) = Arc::get_mut(delta)
        {
            for change in &mut delta.changes {
                if let Change::Put(put) = change
                    && let Some(put) = Arc::get_mut(put)
                {
                    self.share(put);
                }
            }
        }
        Ok(event)
    }

    /// Reads a registration.
    ///
    /// # Errors
    /// No registration, a field that is missing, or one that no version of ours wrote.
    pub fn registration(&mut self, bytes: &[u8]) -> Result<Registration, Unreadable> {
        if let Some(registration) = self.known_layout(bytes) {
            return Ok(registration);
        }
        let wire = v1::Registration::decode(bytes)
            .map_err(|error| Unreadable::new("registration", error.to_string()))?;
        registration_from(wire)
    }

    /// Puts what was lent before in the place of what is equal to it.
    fn share(&mut self, registration: &mut Registration) {
        let declared = &mut registration.declared;
        let wire = registration::declared(declared);
        let wire = v1::Declared { id: String::new(), endpoints: Vec::new(), zone: None, ..wire };
        let profile = Arc::clone(&declared.profile);
        declared.profile = self
            .profiles
            .lend(&wire.encode_to_vec(), || Some(profile))
            .unwrap_or_else(|| Arc::clone(&declared.profile));
        registration.owned.metadata = self.metadata(registration.owned.metadata.clone());
    }

    fn metadata(&mut self, metadata: Metadata) -> Metadata {
        let wire = v1::Owned { metadata: metadata.to_map(), ..v1::Owned::default() };
        let lent = self.metadata.lend(&wire.encode_to_vec(), || Some(Arc::new(metadata.to_map())));
        lent.map_or(metadata, Metadata::from)
    }

    /// Reads a registration whose fields are those that this version writes, each once; `None` for any other.
    fn known_layout(&mut self, bytes: &[u8]) -> Option<Registration> {
        let (mut declared, mut owned) = (None, None);
        let (mut epoch, mut registered_at, mut revision) = (0, 0, 0);
        let mut rest = bytes;
        while !rest.is_empty() {
            match field(&mut rest)? {
                Field { tag: 1, value: Value::Bytes(bytes), .. } if declared.is_none() => {
                    declared = Some(bytes)
                }
                Field { tag: 2, value: Value::Number(number), .. } => epoch = number,
                Field { tag: 3, value: Value::Number(number), .. } => registered_at = number.cast_signed(),
                Field { tag: 4, value: Value::Number(number), .. } => revision = number,
                Field { tag: 5, value: Value::Bytes(bytes), .. } if owned.is_none() => owned = Some(bytes),
                // Among these the epochs that a shared entry replaced: there are few.
                Field { .. } => return None,
            }
        }
        Some(Registration {
            declared: self.declared(declared?)?,
            epoch: Epoch::from_wire(epoch)?,
            registered_at: Timestamp(registered_at),
            revision: Revision(revision),
            owned: self.owned(owned?)?,
            replaced: Replaced::default(),
        })
    }

    fn declared(&mut self, bytes: &[u8]) -> Option<Declared> {
        let (mut id, mut zone) = (None, None);
        // The first one by itself: nearly always there is no other.
        let (mut first, mut others) = (None, Vec::new());
        let common = &mut self.declared;
        common.begin();
        let mut rest = bytes;
        while !rest.is_empty() {
            if common.takes_known(&mut rest) {
                continue;
            }
            match field(&mut rest)? {
                Field { tag: 1, value: Value::Bytes(text), .. } => id = Some(std::str::from_utf8(text).ok()?),
                Field { tag: 4, value: Value::Bytes(bytes), .. } if first.is_none() => {
                    first = Some(endpoint(bytes)?);
                }
                Field { tag: 4, value: Value::Bytes(bytes), .. } => others.push(endpoint(bytes)?),
                Field { tag: 8, value: Value::Bytes(text), .. } => {
                    zone = Some(std::str::from_utf8(text).ok()?)
                }
                Field { tag: 1..=15, whole, .. } => common.takes(whole, rest),
                Field { .. } => return None,
            }
        }
        // Fields of a message, in their order, are a message.
        let metadata = &mut self.metadata;
        let profile = common.or_else(|fields| self.profiles.lend(fields, || profile(metadata, fields)))?;
        let id = id_from(id?).ok()?;
        let zone = match zone {
            Some(zone) => Some(self.zone(zone)?),
            None => None,
        };
        let endpoints = match (first, others.is_empty()) {
            (Some(first), true) => first.into(),
            (first, _) => first.into_iter().chain(others).collect(),
        };
        Some(Declared { id, endpoints, zone, profile })
    }

    fn owned(&mut self, bytes: &[u8]) -> Option<Owned> {
        let (mut lifecycle, mut load, mut overdue, mut strained) = (0, None, false, false);
        let common = &mut self.owned;
        common.begin();
        let mut rest = bytes;
        while !rest.is_empty() {
            if common.takes_known(&mut rest) {
                continue;
            }
            match field(&mut rest)? {
                Field { tag: 1, value: Value::Number(number), .. } => {
                    lifecycle = i32::try_from(number).ok()?
                }
                Field { tag: 2, value: Value::Bytes(_), whole } => common.takes(whole, rest),
                Field { tag: 3, value: Value::Bytes(bytes), .. } => {
                    load = Some(v1::Load::decode(bytes).ok()?)
                }
                Field { tag: 4, value: Value::Number(number), .. } => overdue = number != 0,
                Field { tag: 5, value: Value::Number(number), .. } => strained = number != 0,
                Field { .. } => return None,
            }
        }
        let metadata = common.or_else(|fields| said(&mut self.metadata, fields))?;
        Some(Owned {
            lifecycle: lifecycle_from(v1::Lifecycle::try_from(lifecycle).ok()?)?,
            metadata: metadata.into(),
            load: load.map(load_from).into(),
            strained,
            overdue,
        })
    }

    fn zone(&mut self, text: &str) -> Option<Zone> {
        if let Some(zone) = self.zones.get(text) {
            return Some(zone.clone());
        }
        if self.zones.len() >= ZONES_MAX {
            self.zones.clear();
        }
        let zone = zone_from(text).ok()?;
        self.zones.insert(text.into(), zone.clone());
        Some(zone)
    }
}

fn plain(bytes: &[u8]) -> Result<Event, Unreadable> {
    let wire =
        v1::WatchResponse::decode(bytes).map_err(|error| Unreadable::new("event", error.to_string()))?;
    event_from(wire)
}

fn profile(known: &mut Shelf<BTreeMap<String, String>>, fields: &[u8]) -> Option<Arc<Profile>> {
    // Metadata is declared as its owner says it, in a field of another number, and is mostly known.
    let (mut others, mut words) = (Vec::with_capacity(fields.len()), Vec::with_capacity(fields.len()));
    let mut rest = fields;
    while !rest.is_empty() {
        match field(&mut rest)? {
            Field { tag: 12, value: Value::Bytes(entry), .. } => message(2, entry, &mut words),
            Field { whole, .. } => others.extend_from_slice(whole),
        }
    }
    let mut profile = profile_from(v1::Declared::decode(others.as_slice()).ok()?).ok()?;
    profile.metadata = said(known, &words)?.into();
    Some(Arc::new(profile))
}

/// Metadata as an owner says it.
fn said(known: &mut Shelf<BTreeMap<String, String>>, fields: &[u8]) -> Option<Arc<BTreeMap<String, String>>> {
    known.lend(fields, || Some(Arc::new(v1::Owned::decode(fields).ok()?.metadata)))
}

fn endpoint(bytes: &[u8]) -> Option<Endpoint> {
    let (mut url, mut protocol) = ("", None);
    let mut rest = bytes;
    while !rest.is_empty() {
        match field(&mut rest)? {
            Field { tag: 1, value: Value::Bytes(bytes), .. } => url = std::str::from_utf8(bytes).ok()?,
            Field { tag: 2, value: Value::Bytes(bytes), .. } => {
                protocol = Some(std::str::from_utf8(bytes).ok()?)
            }
            Field { .. } => return None,
        }
    }
    Endpoint::of(url, protocol)
}

/// Parts that were lent and are not kept: known as long as somebody has them.
///
/// They are looked for by two hashes whose keys are drawn by chance, so that nobody who registers can make two parts that
/// are taken for one.
#[derive(Debug)]
struct Shelf<T> {
    hashes: [RandomState; 2],
    lent: HashMap<(u64, u64), Weak<T>>,
    /// How many there may be before those that came back are cleared away.
    sweep_at: usize,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self { hashes: [RandomState::new(), RandomState::new()], lent: HashMap::new(), sweep_at: LENT_MIN }
    }
}

impl<T> Shelf<T> {
    fn key(&self, bytes: &[u8]) -> (u64, u64) {
        (self.hashes[0].hash_one(bytes), self.hashes[1].hash_one(bytes))
    }

    /// What these bytes are, made if nobody has it.
    fn lend(&mut self, bytes: &[u8], make: impl FnOnce() -> Option<Arc<T>>) -> Option<Arc<T>> {
        let key = self.key(bytes);
        if let Some(known) = self.lent.get(&key).and_then(Weak::upgrade) {
            return Some(known);
        }
        let made = make()?;
        if self.lent.len() >= self.sweep_at {
            self.lent.retain(|_, lent| lent.strong_count() > 0);
            self.sweep_at = LENT_MIN.max(self.lent.len() * 2);
        }
        self.lent.insert(key, Arc::downgrade(&made));
        Some(made)
    }
}

/// What a message has in common with the one before it: in order of id nearly all of it. Where the same bytes stand again
/// between the fields that are each message's own, nothing of them is read, looked for or hashed.
#[derive(Debug)]
struct Common<T> {
    /// Whole fields, and where each stretch of them ends that stood together.
    fields: Vec<u8>,
    ends: Vec<usize>,
    /// Of the stretches so many came again.
    again: usize,
    /// All that came was known, and what these fields are is `lent`.
    is_known: bool,
    /// So much of the message was left behind the last stretch.
    left: usize,
    lent: Weak<T>,
}

impl<T> Default for Common<T> {
    fn default() -> Self {
        Self {
            fields: Vec::new(),
            ends: Vec::new(),
            again: 0,
            is_known: true,
            left: usize::MAX,
            lent: Weak::new(),
        }
    }
}

impl<T> Common<T> {
    /// At the beginning of the next message.
    fn begin(&mut self) {
        (self.again, self.is_known, self.left) = (0, true, usize::MAX);
    }

    /// Where the stretches end that came again.
    fn end(&self) -> usize {
        self.again.checked_sub(1).and_then(|last| self.ends.get(last).copied()).unwrap_or(0)
    }

    /// Takes the next stretch, if it comes now as it came before.
    fn takes_known(&mut self, rest: &mut &[u8]) -> bool {
        if !self.is_known {
            return false;
        }
        let Some(end) = self.ends.get(self.again) else { return false };
        let stretch = self.fields.get(self.end()..*end).unwrap_or_default();
        let Some(behind) = rest.strip_prefix(stretch) else { return false };
        *rest = behind;
        self.left = behind.len();
        self.again += 1;
        true
    }

    /// Takes a field that is none of those, with what is left behind it.
    fn takes(&mut self, field: &[u8], rest: &[u8]) {
        if self.is_known {
            self.forget_the_rest();
        }
        let goes_on = self.left == field.len() + rest.len();
        self.fields.extend_from_slice(field);
        match self.ends.last_mut().filter(|_| goes_on) {
            Some(end) => *end = self.fields.len(),
            None => self.ends.push(self.fields.len()),
        }
        self.left = rest.len();
    }

    fn forget_the_rest(&mut self) {
        self.fields.truncate(self.end());
        self.ends.truncate(self.again);
        // A message that breaks off leaves fields behind of which nobody has said what they are.
        (self.is_known, self.lent) = (false, Weak::new());
    }

    /// What all that came is: as before, or as it is found by its bytes.
    fn or_else(&mut self, find: impl FnOnce(&[u8]) -> Option<Arc<T>>) -> Option<Arc<T>> {
        if self.again < self.ends.len() && self.is_known {
            self.forget_the_rest();
        }
        if self.is_known
            && let Some(lent) = self.lent.upgrade()
        {
            return Some(lent);
        }
        let found = find(&self.fields)?;
        self.lent = Arc::downgrade(&found);
        Some(found)
    }
}

pub(crate) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

pub(crate) struct Field<'a> {
    pub(crate) tag: u32,
    /// With its key and its length.
    pub(crate) whole: &'a [u8],
    pub(crate) value: Value<'a>,
}

/// Takes the next field; `None` for what is none, and for kinds that a registration does not have.
pub(crate) fn field<'a>(rest: &mut &'a [u8]) -> Option<Field<'a>> {
    let before = *rest;
    // Nearly always the key is one byte, and so is the length or the number.
    if let [key @ 8..0x80, number @ ..0x80, after @ ..] = before
        && let key_of = u32::from(*key)
        && let Some(value) = match key_of & 7 {
            0 => Some((Value::Number(u64::from(*number)), after)),
            2 => after
                .split_at_checked(usize::from(*number))
                .map(|(bytes, after)| (Value::Bytes(bytes), after)),
            _ => None,
        }
    {
        let (value, after) = value;
        *rest = after;
        return Some(Field { tag: key_of >> 3, whole: &before[..before.len() - after.len()], value });
    }
    let (tag, wire) = decode_key(rest).ok()?;
    let number = decode_varint(rest).ok()?;
    let value = match wire {
        WireType::Varint => Value::Number(number),
        WireType::LengthDelimited => {
            let (bytes, after) = rest.split_at_checked(usize::try_from(number).ok()?)?;
            *rest = after;
            Value::Bytes(bytes)
        }
        WireType::SixtyFourBit | WireType::ThirtyTwoBit | WireType::StartGroup | WireType::EndGroup => {
            return None;
        }
    };
    Some(Field { tag, whole: &before[..before.len() - rest.len()], value })
}

/// The bytes of a message's field, if it is the one with this number and the only one.
fn only_field(bytes: &[u8], wanted: u32) -> Option<&[u8]> {
    let mut rest = bytes;
    match field(&mut rest)? {
        Field { tag, value: Value::Bytes(bytes), .. } if tag == wanted && rest.is_empty() => Some(bytes),
        Field { .. } => None,
    }
}
