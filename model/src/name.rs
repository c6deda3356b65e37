//! Validated names: regions, zones and ids. Inside the house a name is valid by its type.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use crate::code::{Code, Invalid};
use crate::limits;

/// Says what is wrong with one part of an id, if anything.
fn part_fault(part: &[u8]) -> Option<&'static str> {
    let edge = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let (Some(&first), Some(&last)) = (part.first(), part.last()) else {
        return Some("a part is empty");
    };
    if part.len() > limits::NAME_PART_CHARS_MAX {
        return Some("a part is longer than 64 characters");
    }
    if !edge(first) || !edge(last) {
        return Some("a part must begin and end with a-z or 0-9");
    }
    if !part.iter().all(|&b| edge(b) || matches!(b, b'_' | b'-' | b'.')) {
        return Some("only a-z, 0-9, '_', '-' and '.' are allowed inside a part");
    }
    // Hardly any part has a dot, and looking for one costs less than looking for two.
    if part.contains(&b'.') && part.windows(2).any(|two| two == b"..") {
        return Some("two dots may not stand together");
    }
    None
}

/// Where a cell runs; the origin of its registrations. Its own identity, like a part of an id.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Region(Arc<str>);

/// What `region=` and `failover=` take beside names.
const WORDS: [&str; 4] = ["own", "all", "true", "false"];

impl Region {
    /// Checks the text against the grammar of one id part.
    ///
    /// # Errors
    /// Says what is wrong; nothing is repaired.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        match part_fault(text.as_bytes()) {
            None => Ok(Self(text.into())),
            Some(why) => {
                Err(Invalid::new(Code::InvalidParameter, "region", format!("{text:?} is no region: {why}")))
            }
        }
    }

    /// A name that a region may be given: none of the words that stand for regions, or for their lack, in a question.
    ///
    /// # Errors
    /// As [`Self::parse`]; or it is such a word.
    pub fn given(text: &str) -> Result<Self, Invalid> {
        if WORDS.contains(&text) {
            let why = format!("{text:?} cannot name a region: in a question it says which regions are meant");
            return Err(Invalid::new(Code::InvalidParameter, "region", why));
        }
        Self::parse(text)
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Failure domain inside a region; 1–64 visible ASCII characters.
///
/// A region has few and a process holds each in a million instances: hence one word of memory, and not two.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Zone(Arc<Box<str>>);

impl Zone {
    /// Checks the text.
    ///
    /// # Errors
    /// Says what is wrong; nothing is repaired.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let fits = !text.is_empty()
            && text.len() <= limits::SHORT_TEXT_CHARS_MAX
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'/'));
        if fits {
            return Ok(Self(Arc::new(text.into())));
        }
        Err(Invalid::new(
            Code::InvalidBody,
            "/zone",
            "a zone is 1-64 characters of a-z, A-Z, 0-9, '_', '-', '.' and '/'",
        ))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The whole id of one running process of an agent: `namespace/name/instance`.
///
/// Ordered by its text, so that all instances of an agent and all agents of a namespace stand together. Where its parts
/// end is looked for when somebody asks: a process holds a million ids, and they are compared whole nearly always.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId(Arc<str>);

impl InstanceId {
    /// Checks a whole id of three parts.
    ///
    /// # Errors
    /// Says which rule of the grammar is broken; nothing is repaired (acceptance MOD-12).
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let bad = |why: &str| {
            Invalid::new(Code::InvalidId, "/id", format!("an id is namespace/name/instance: {why}"))
        };
        if text.len() > limits::ID_CHARS_MAX {
            return Err(bad("it is longer than 128 characters"));
        }
        let mut parts = text.as_bytes().split(|byte| *byte == b'/');
        let (Some(namespace), Some(name), Some(instance), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(bad("it must have exactly three parts"));
        };
        for part in [namespace, name, instance] {
            if let Some(why) = part_fault(part) {
                return Err(bad(why));
            }
        }
        Ok(Self(text.into()))
    }

    /// The whole id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The namespace: who owns the agent.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.0.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The name: what callers ask for.
    #[must_use]
    pub fn name(&self) -> &str {
        self.agent().split_once('/').map_or("", |(_, name)| name)
    }

    /// The instance: which process of it.
    #[must_use]
    pub fn instance(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(_, instance)| instance)
    }

    /// Namespace and name together, as `namespace/name`.
    #[must_use]
    pub fn agent(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(agent, _)| agent)
    }

    /// Whether both are instances of one agent.
    pub(crate) fn has_agent_of(&self, other: &Self) -> bool {
        // An id has two slashes: what begins like the other one up to its second has its second there.
        let agent = other.agent();
        self.0.strip_prefix(agent).is_some_and(|rest| rest.starts_with('/'))
    }
}

/// Whether the text is one part of an id: what a namespace, a name or an instance must be alone.
#[must_use]
pub fn is_part(text: &str) -> bool {
    part_fault(text.as_bytes()).is_none()
}

impl Borrow<str> for InstanceId {
    fn borrow(&self) -> &str {
        &self.0
    }
}
impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_gives_its_parts() {
        let id = InstanceId::parse("ops/email_agent/a1b2c3").unwrap();
        assert_eq!(
            (id.namespace(), id.name(), id.instance(), id.agent()),
            ("ops", "email_agent", "a1b2c3", "ops/email_agent")
        );
    }

    #[test]
    fn hostile_ids_are_refused() {
        let long = "a".repeat(65);
        let all = format!("{0}/{0}/{0}", "a".repeat(60));
        for text in [
            "",
            "/",
            "a/b",
            "a/b/c/d",
            "a//c",
            "A/b/c",
            "a/b/../c",
            "../b/c",
            "a/b/c..d",
            "a/b/.c",
            "a/b/c.",
            "a/b/c%2f",
            "a/b/c\n",
            "a/b/c\u{2028}",
            "a/b/é",
            "a/b/{{x}}",
            " a/b/c",
            "a/b/c ",
            "a/b/c\0",
            &all,
            &format!("{long}/b/c"),
        ] {
            assert!(InstanceId::parse(text).is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn instances_of_one_agent_stand_together_in_order() {
        let mut ids: Vec<_> =
            ["a/b-c/x", "a/b/z", "a/b/a", "a/b.c/x"].iter().map(|t| InstanceId::parse(t).unwrap()).collect();
        ids.sort();
        let first = ids.iter().position(|id| id.agent() == "a/b").unwrap();
        assert_eq!(ids[first + 1].agent(), "a/b");
        for (one, other) in ids.iter().flat_map(|one| ids.iter().map(move |other| (one, other))) {
            assert_eq!(one.has_agent_of(other), one.agent() == other.agent(), "{one} {other}");
        }
    }
}
