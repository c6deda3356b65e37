//! What an instance declares that the other instances of its agent mostly declare as well.
//!
//! It is held once for all that say the same, because a process that holds a million instances holds a hundred thousand
//! agents. Promises: a change to one holder's copy is not seen by another. Never here: who shares what; whoever reads
//! registrations decides it.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::capability::{Capability, Skill};
use crate::card::Card;
use crate::lifecycle::{Kind, Lifecycle, Scope};

/// All that is declared but the instance's own: its id, its endpoints and its zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Agent or tool.
    pub kind: Kind,
    /// One process or a whole deployment.
    pub scope: Scope,
    /// What it can do, by grammar.
    pub capabilities: Vec<Capability>,
    /// What it can do, in its card's words.
    pub skills: Vec<Skill>,
    /// The agent's version; semver unless it comes from a card.
    pub version: Option<String>,
    /// Share of traffic it wants, 100 is normal.
    pub weight: u32,
    /// Most calls at a time; none means no limit.
    pub max_concurrency: Option<u32>,
    /// Most waiting calls.
    pub max_queue: u32,
    /// Free words for routing.
    pub metadata: Metadata,
    /// Lease in seconds, 5–300.
    pub lease_seconds: u16,
    /// `healthy`, or `starting`.
    pub lifecycle: Lifecycle,
    /// Its A2A card.
    pub card: Option<Card>,
}

/// Bytes that frame a part on a wire: the field's number and the length, three bytes of it at most.
pub(crate) const FRAME: usize = 4;

impl Profile {
    /// Its share of [`weight_bytes`](crate::Registration::weight_bytes).
    pub(crate) fn weight_bytes(&self) -> usize {
        let text = |text: &str| text.len() + FRAME;
        let maybe = |text: &Option<String>| text.as_ref().map_or(0, |text| text.len() + FRAME);
        let texts = |list: &[String]| list.iter().map(|text| text.len() + FRAME).sum::<usize>();
        let capability = |c: &Capability| {
            let free = [&c.description, &c.input_summary, &c.output_summary, &c.schema_url];
            text(c.name.as_str())
                + free.into_iter().map(maybe).sum::<usize>()
                + [&c.tags, &c.input_types, &c.output_types]
                    .into_iter()
                    .map(|list| texts(list))
                    .sum::<usize>()
                + 2 * FRAME
        };
        maybe(&self.version)
            + self.capabilities.iter().map(capability).sum::<usize>()
            + self.skills.iter().map(|s| text(&s.id) + text(&s.name) + texts(&s.tags) + FRAME).sum::<usize>()
            + self.metadata.weight_bytes()
            + self.card.as_ref().map_or(0, |card| text(card.json()) + text(card.digest()) + FRAME)
    }
}

/// Free words for routing, read as the map that they are; copied only by whoever changes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata(Arc<BTreeMap<String, String>>);

impl Metadata {
    /// Its share of [`weight_bytes`](crate::Registration::weight_bytes).
    pub(crate) fn weight_bytes(&self) -> usize {
        self.iter().map(|(key, value)| key.len() + value.len() + 3 * FRAME).sum()
    }

    /// The map, to keep.
    #[must_use]
    pub fn to_map(&self) -> BTreeMap<String, String> {
        BTreeMap::clone(&self.0)
    }
}

impl From<BTreeMap<String, String>> for Metadata {
    fn from(map: BTreeMap<String, String>) -> Self {
        Self(Arc::new(map))
    }
}

impl From<Arc<BTreeMap<String, String>>> for Metadata {
    fn from(map: Arc<BTreeMap<String, String>>) -> Self {
        Self(map)
    }
}

impl Deref for Metadata {
    type Target = BTreeMap<String, String>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Metadata {
    fn deref_mut(&mut self) -> &mut Self::Target {
        Arc::make_mut(&mut self.0)
    }
}
