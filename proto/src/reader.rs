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
    Timestamp, Zone,
};

use crate::convert::registration::{self, id_from, lifecycle_from, load_from, profile_from, zone_from};
use crate::convert::{event_from, registration_from};
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
    /// Fields of a message, put together to be looked for; kept for its room.
    gathered: Vec<u8>,
}

impl Reader {
    /// Reads a message of a watch.
    ///
    /// # Errors
    /// No message of a watch, or one with an unreadable part.
    pub fn event(&mut self, bytes: &[u8]) -> Result<Event, Unreadable> {
        if let Some(page) = only_field(bytes, 2) {
            let mut records = Vec::new();
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
        self.gathered.clear();
        let mut rest = bytes;
        while !rest.is_empty() {
            match field(&mut rest)? {
                Field { tag: 1, value: Value::Bytes(text), .. } => id = Some(std::str::from_utf8(text).ok()?),
                Field { tag: 4, value: Value::Bytes(bytes), .. } if first.is_none() => {
                    first = Some(endpoint(bytes)?);
                }
                Field { tag: 4, value: Value::Bytes(bytes), .. } => others.push(endpoint(bytes)?),
                Field { tag: 8, value: Value::Bytes(text), .. } => {
                    zone = Some(std::str::from_utf8(text).ok()?)
                }
                Field { tag: 1..=15, whole, .. } => self.gathered.extend_from_slice(whole),
                Field { .. } => return None,
            }
        }
        let id = id_from(id?).ok()?;
        let zone = match zone {
            Some(zone) => Some(self.zone(zone)?),
            None => None,
        };
        // Fields of a message, in their order, are a message.
        let gathered = std::mem::take(&mut self.gathered);
        let profile = match self.profiles.lent(&gathered) {
            Some(profile) => Some(profile),
            None => self.profile(&gathered),
        };
        self.gathered = gathered;
        let endpoints = match (first, others.is_empty()) {
            (Some(first), true) => first.into(),
            (first, _) => first.into_iter().chain(others).collect(),
        };
        Some(Declared { id, endpoints, zone, profile: profile? })
    }

    fn profile(&mut self, fields: &[u8]) -> Option<Arc<Profile>> {
        let mut profile = profile_from(v1::Declared::decode(fields).ok()?).ok()?;
        profile.metadata = self.metadata(profile.metadata);
        self.profiles.lend(fields, || Some(Arc::new(profile)))
    }

    fn owned(&mut self, bytes: &[u8]) -> Option<Owned> {
        let (mut lifecycle, mut load, mut overdue, mut strained) = (0, None, false, false);
        self.gathered.clear();
        let mut rest = bytes;
        while !rest.is_empty() {
            match field(&mut rest)? {
                Field { tag: 1, value: Value::Number(number), .. } => {
                    lifecycle = i32::try_from(number).ok()?
                }
                Field { tag: 2, value: Value::Bytes(_), whole } => self.gathered.extend_from_slice(whole),
                Field { tag: 3, value: Value::Bytes(bytes), .. } => {
                    load = Some(v1::Load::decode(bytes).ok()?)
                }
                Field { tag: 4, value: Value::Number(number), .. } => overdue = number != 0,
                Field { tag: 5, value: Value::Number(number), .. } => strained = number != 0,
                Field { .. } => return None,
            }
        }
        let metadata = self.metadata.lend(&self.gathered, || {
            Some(Arc::new(v1::Owned::decode(self.gathered.as_slice()).ok()?.metadata))
        })?;
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
    /// What was lent last, by its bytes: in order of id it is nearly always asked for again, and nothing need be hashed.
    last: (Vec<u8>, Weak<T>),
    /// How many there may be before those that came back are cleared away.
    sweep_at: usize,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self {
            hashes: [RandomState::new(), RandomState::new()],
            lent: HashMap::new(),
            last: Default::default(),
            sweep_at: LENT_MIN,
        }
    }
}

impl<T> Shelf<T> {
    fn key(&self, bytes: &[u8]) -> (u64, u64) {
        (self.hashes[0].hash_one(bytes), self.hashes[1].hash_one(bytes))
    }

    /// What these bytes are, if somebody has it.
    fn lent(&mut self, bytes: &[u8]) -> Option<Arc<T>> {
        if self.last.0 == bytes
            && let Some(known) = self.last.1.upgrade()
        {
            return Some(known);
        }
        let known = self.lent.get(&self.key(bytes)).and_then(Weak::upgrade)?;
        self.remember(bytes, &known);
        Some(known)
    }

    /// What these bytes are, made if nobody has it.
    fn lend(&mut self, bytes: &[u8], make: impl FnOnce() -> Option<Arc<T>>) -> Option<Arc<T>> {
        if let Some(known) = self.lent(bytes) {
            return Some(known);
        }
        let made = make()?;
        if self.lent.len() >= self.sweep_at {
            self.lent.retain(|_, lent| lent.strong_count() > 0);
            self.sweep_at = LENT_MIN.max(self.lent.len() * 2);
        }
        self.lent.insert(self.key(bytes), Arc::downgrade(&made));
        self.remember(bytes, &made);
        Some(made)
    }

    fn remember(&mut self, bytes: &[u8], lent: &Arc<T>) {
        self.last.0.clear();
        self.last.0.extend_from_slice(bytes);
        self.last.1 = Arc::downgrade(lent);
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
