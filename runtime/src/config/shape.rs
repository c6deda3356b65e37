//! What a settings type asks for at a path, learnt by letting it read one key and watching what it calls.
//!
//! Promises: the type itself is the only list of its keys, so there is no second list to keep in step. It never builds
//! a value: every probe ends in an error by design.

use std::cell::RefCell;
use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

/// One step into the settings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// A key of a section.
    Key(String),
    /// An element of a list.
    Index(usize),
}

/// What the type wants to read at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Text.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A boolean or a number.
    Number,
    /// A list.
    List,
    /// A section.
    Section,
    /// It looks at the value first, so only reading it in earnest will tell.
    Anything,
}

/// What came of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The type knows it; the steps carry the keys as the type spells them.
    Known(Vec<Step>, Asked),
    /// No such key after these steps; the type knows those.
    Unknown(Vec<Step>, &'static [&'static str]),
    /// A list after these steps wants a number next.
    NotIndexed(Vec<Step>),
    /// A plain value after these steps; nothing can be inside it.
    Plain(Vec<Step>),
}

/// Follows `segments` (lower case, with underscores) into `T`.
pub(super) fn probe<T: DeserializeOwned>(segments: &[String]) -> Found {
    let watched = RefCell::new(Watched { steps: Vec::new(), found: None });
    // Whether it failed says nothing: it always does.
    let _ = T::deserialize(Probe { rest: segments, watched: &watched });
    let Watched { steps, found } = watched.into_inner();
    found.unwrap_or_else(|| as_given(steps, segments))
}

struct Watched {
    steps: Vec<Step>,
    found: Option<Found>,
}

/// From here on the type does not tell its keys before it sees them: take the rest as it was written.
fn as_given(mut steps: Vec<Step>, segments: &[String]) -> Found {
    let rest = segments.get(steps.len()..).unwrap_or_default();
    steps.extend(rest.iter().cloned().map(Step::Key));
    Found::Known(steps, Asked::Anything)
}

#[derive(Clone, Copy)]
struct Probe<'a> {
    rest: &'a [String],
    watched: &'a RefCell<Watched>,
}

impl<'a> Probe<'a> {
    /// Ends the probe at a value of this kind.
    fn end<V>(self, asked: Asked) -> Result<V, Ended> {
        let mut watched = self.watched.borrow_mut();
        let steps = watched.steps.clone();
        watched.found = Some(match (self.rest, asked) {
            (rest, Asked::Anything) => {
                let mut steps = steps;
                steps.extend(rest.iter().cloned().map(Step::Key));
                Found::Known(steps, Asked::Anything)
            }
            ([], asked) => Found::Known(steps, asked),
            (_, _) => Found::Plain(steps),
        });
        Err(Ended)
    }

    fn wrong<V>(self, found: impl FnOnce(Vec<Step>) -> Found) -> Result<V, Ended> {
        let mut watched = self.watched.borrow_mut();
        watched.found = Some(found(watched.steps.clone()));
        Err(Ended)
    }

    fn step(self, step: Step) -> Probe<'a> {
        self.watched.borrow_mut().steps.push(step);
        Probe { rest: self.rest.get(1..).unwrap_or_default(), watched: self.watched }
    }

    fn list<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Ended> {
        let Some(segment) = self.rest.first() else { return self.end(Asked::List) };
        match segment.parse() {
            Ok(index) => visitor.visit_seq(Only { key: None, value: Some(self.step(Step::Index(index))) }),
            Err(_) => self.wrong(Found::NotIndexed),
        }
    }
}

/// Names `deserialize_*` methods that all end the probe in the same way.
macro_rules! ends {
    ($asked:expr; $($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Ended> {
            self.end($asked)
        })*
    };
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Ended;

    ends! { Asked::Number; deserialize_bool
    deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
    deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
    deserialize_f32 deserialize_f64 }

    ends! { Asked::Text; deserialize_char deserialize_str deserialize_string
    deserialize_bytes deserialize_byte_buf }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Ended> {
        self.end(Asked::Anything)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Ended> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Ended> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Ended> {
        self.list(visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Ended> {
        self.list(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Ended> {
        self.list(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Ended> {
        let Some(segment) = self.rest.first() else { return self.end(Asked::Section) };
        let value = self.step(Step::Key(segment.clone()));
        visitor.visit_map(Only { key: Some(segment), value: Some(value) })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Ended> {
        let Some(segment) = self.rest.first() else { return self.end(Asked::Section) };
        // A variable's name has neither hyphens nor lower case, so these are told apart by nothing.
        let known = fields.iter().find(|field| field.to_lowercase().replace('-', "_") == *segment);
        let Some(known) = known else { return self.wrong(|steps| Found::Unknown(steps, fields)) };
        let value = self.step(Step::Key((*known).to_owned()));
        visitor.visit_map(Only { key: Some(known), value: Some(value) })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        words: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Ended> {
        self.end(if self.rest.is_empty() { Asked::Word(words) } else { Asked::Anything })
    }

    forward_to_deserialize_any! { unit unit_struct identifier ignored_any }
}

/// A map or a list with the one element that the path goes through.
struct Only<'a> {
    key: Option<&'a str>,
    value: Option<Probe<'a>>,
}

impl<'de> MapAccess<'de> for Only<'_> {
    type Error = Ended;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Ended> {
        self.key.take().map(|key| seed.deserialize(StrDeserializer::new(key))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Ended> {
        self.value.take().map_or(Err(Ended), |value| seed.deserialize(value))
    }
}

impl<'de> SeqAccess<'de> for Only<'_> {
    type Error = Ended;

    fn next_element_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<Option<V::Value>, Ended> {
        self.value.take().map(|value| seed.deserialize(value)).transpose()
    }
}

/// The end of a probe; it carries nothing, what was seen is kept beside it.
#[derive(Debug)]
struct Ended;

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the probe has ended")
    }
}

impl std::error::Error for Ended {}

impl serde::de::Error for Ended {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}
