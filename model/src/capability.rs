//! Capabilities `domain:action:vN` and the skills of an A2A card.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::code::{Code, Invalid};
use crate::limits;
use crate::word::Word;

/// A checked capability name: `^[a-z][a-z0-9_]*:[a-z][a-z0-9_]*:v[0-9]+$` (acceptance MOD-08).
///
/// It knows what it is found by: a query is made once and asked many times.
#[derive(Clone)]
pub struct CapabilityName {
    text: Arc<str>,
    word: Word,
}

impl CapabilityName {
    /// Checks the text at the door.
    ///
    /// # Errors
    /// Refuses everything outside the grammar, also a name longer than 128 characters.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let word = |w: &str| {
            w.starts_with(|c: char| c.is_ascii_lowercase())
                && w.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        };
        let mut parts = text.split(':');
        if let (Some(domain), Some(action), Some(version), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
            && let Some(number) = version.strip_prefix('v')
            && word(domain)
            && word(action)
            && !number.is_empty()
            && number.bytes().all(|b| b.is_ascii_digit())
            && text.len() <= limits::ID_CHARS_MAX
        {
            return Ok(Self { text: text.into(), word: Word::of(text) });
        }
        Err(Invalid::new(
            Code::InvalidCapability,
            "/capabilities",
            format!(
                "{text:?} is no capability: domain:action:vN, as in email:send:v1; plain words are tags or skills"
            ),
        ))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) const fn word(&self) -> Word {
        self.word
    }
}

/// What an agent can do. Read as its details, too: most have none, and then nothing is held for them.
#[derive(Clone, Debug)]
pub struct Capability {
    /// The searchable name.
    pub name: CapabilityName,
    /// Hidden from the catalogue that AI callers read.
    pub internal: bool,
    details: Option<Box<Details>>,
}

/// What a caller may want to know of a capability before it asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// Free text, at most 1,024 characters.
    pub description: Option<String>,
    /// Types it takes.
    pub input_types: Vec<String>,
    /// Types it gives.
    pub output_types: Vec<String>,
    /// Hint about the input, for people and models.
    pub input_summary: Option<String>,
    /// Hint about the output.
    pub output_summary: Option<String>,
    /// Where its schema is.
    pub schema_url: Option<String>,
    /// Plain words it is found by.
    pub tags: Vec<String>,
}

/// Of a capability of which nothing but its name is said.
static NO_DETAILS: Details = Details {
    description: None,
    input_types: Vec::new(),
    output_types: Vec::new(),
    input_summary: None,
    output_summary: None,
    schema_url: None,
    tags: Vec::new(),
};

impl Capability {
    /// A capability with what is said of it.
    #[must_use]
    pub fn new(name: CapabilityName, internal: bool, details: Details) -> Self {
        let details = (details != NO_DETAILS).then(|| Box::new(details));
        Self { name, internal, details }
    }
}

impl Deref for Capability {
    type Target = Details;

    fn deref(&self) -> &Details {
        self.details.as_deref().unwrap_or(&NO_DETAILS)
    }
}

impl DerefMut for Capability {
    fn deref_mut(&mut self) -> &mut Details {
        self.details.get_or_insert_default()
    }
}

impl PartialEq for Capability {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.internal == other.internal && **self == **other
    }
}
impl Eq for Capability {}

/// A skill as an A2A card names it; plain words belong here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skill {
    /// The skill's id in its card.
    pub id: String,
    /// Its human name.
    pub name: String,
    /// Its tags.
    pub tags: Vec<String>,
}

impl fmt::Display for CapabilityName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
impl fmt::Debug for CapabilityName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
impl std::borrow::Borrow<str> for CapabilityName {
    fn borrow(&self) -> &str {
        &self.text
    }
}
// By the text alone, as what is borrowed from it is compared.
impl PartialEq for CapabilityName {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}
impl Eq for CapabilityName {}
impl PartialOrd for CapabilityName {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for CapabilityName {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.text.cmp(&other.text)
    }
}
impl std::hash::Hash for CapabilityName {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_three_part_grammar_gets_in() {
        for text in ["email:send:v1", "a:b:v0", "template:render_html:v22"] {
            assert_eq!(CapabilityName::parse(text).unwrap().as_str(), text);
        }
        for text in [
            "email/send",
            "email.send",
            "email_send",
            "email:send",
            "email:send:1",
            "email:send:v",
            "Email:send:v1",
            "1email:send:v1",
            "email:send:v1:x",
            "email:send:v1 ",
            "",
            "::",
            "email::v1",
            "é:send:v1",
        ] {
            assert!(CapabilityName::parse(text).is_err(), "{text:?} was accepted");
        }
    }
}
