//! What truly happened in a region, and what a watcher was told of it: the two sides that are compared.
//!
//! Both are plain values of their own, so that nothing that is judged here is also what judges.

use std::collections::BTreeMap;

use rollcall_model::Epoch;

/// A registration, as far as watchers are judged by it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Record {
    pub(super) id: String,
    pub(super) epoch: u64,
    pub(super) revision: u64,
    pub(super) lifecycle: String,
    pub(super) capabilities: Vec<String>,
    pub(super) tags: Vec<String>,
    pub(super) metadata: BTreeMap<String, String>,
}

/// What a watcher asked for; all that is set must match.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    pub(super) name: Option<&'static str>,
    pub(super) capability: Option<&'static str>,
    pub(super) tag: Option<&'static str>,
    pub(super) lifecycle: Option<&'static str>,
}

/// One put or removal.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    Put(Record),
    Remove(Gone),
}

/// A removal. Over SSE it does not say its revision.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Gone {
    pub(super) id: String,
    pub(super) epoch: u64,
    pub(super) reason: String,
    pub(super) actor: String,
    pub(super) revision: Option<u64>,
}

/// A change that happened, and what stood there before.
#[derive(Clone, Debug)]
pub(super) struct Fact {
    pub(super) revision: u64,
    pub(super) change: Change,
    pub(super) before: Option<Record>,
}

/// How many registrations the region has, and their digest.
pub(super) type Figures = (u64, String);

/// A time in which a cell read its state anew: what it had before `from` it may no longer have had at `until`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reload {
    pub(super) from: u64,
    pub(super) until: u64,
}

/// Everything that happened in one incarnation.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    pub(super) facts: Vec<Fact>,
    /// After each revision that changed anything.
    pub(super) figures: BTreeMap<u64, Figures>,
    pub(super) reloads: Vec<Reload>,
}

/// What a watcher was told. Positions are revisions of the one incarnation.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Told {
    Begin(u64, Figures),
    Page(Vec<Record>),
    End(u64),
    Delta { from: u64, to: u64, changes: Vec<Change> },
    Bookmark(u64, Figures),
    Resync(String),
}

/// One connection, from its opening to its end.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) filter: Filter,
    pub(super) since: Option<u64>,
    pub(super) told: Vec<Told>,
}

impl History {
    /// The changes of revisions in (`from`, `to`].
    pub(super) fn span(&self, from: u64, to: u64) -> &[Fact] {
        let after = |revision: u64| self.facts.partition_point(|fact| fact.revision <= revision);
        &self.facts[after(from)..after(to).max(after(from))]
    }

    /// Those of them that a watcher with this filter is to be told.
    pub(super) fn facts_between<'a>(
        &'a self,
        from: u64,
        to: u64,
        filter: &'a Filter,
    ) -> impl Iterator<Item = &'a Fact> {
        self.span(from, to).iter().filter(|fact| fact.is_for(filter))
    }

    /// What stood after a revision, by id.
    pub(super) fn state(&self, at: u64) -> BTreeMap<&str, &Record> {
        let mut state = BTreeMap::new();
        for fact in self.span(0, at) {
            match &fact.change {
                Change::Put(record) => state.insert(record.id.as_str(), record),
                Change::Remove(gone) => state.remove(gone.id.as_str()),
            };
        }
        state
    }

    pub(super) fn figures_at(&self, at: u64) -> Figures {
        let last = self.figures.range(..=at).next_back();
        last.map_or_else(|| (0, "0".repeat(32)), |(_, figures)| figures.clone())
    }

    pub(super) fn fact(&self, id: &str, revision: u64) -> Option<&Fact> {
        self.span(revision.saturating_sub(1), revision).iter().find(|fact| fact.change.id() == id)
    }
}

impl Fact {
    /// Why it went, if it went.
    pub(super) fn reason(&self) -> Option<&str> {
        if let Change::Remove(gone) = &self.change { Some(&gone.reason) } else { None }
    }

    /// Whether a watcher with this filter is told: it fits, or what it replaces did.
    pub(super) fn is_for(&self, filter: &Filter) -> bool {
        let fits_now = matches!(&self.change, Change::Put(record) if filter.fits(record));
        fits_now || self.before.as_ref().is_some_and(|before| filter.fits(before))
    }
}

impl Filter {
    pub(super) fn fits(&self, record: &Record) -> bool {
        let has = |all: &[String], one: &str| all.iter().any(|each| each == one);
        self.name.is_none_or(|name| record.id.split('/').nth(1) == Some(name))
            && self.capability.is_none_or(|capability| has(&record.capabilities, capability))
            && self.tag.is_none_or(|tag| has(&record.tags, tag))
            && self.lifecycle.is_none_or(|lifecycle| record.lifecycle == lifecycle)
    }
}

impl Record {
    /// Whether it says that it was registered at its own revision.
    pub(super) fn is_new(&self) -> bool {
        Epoch::from_wire(self.epoch).is_some_and(|epoch| epoch.revision().0 == self.revision)
    }
}

impl Change {
    pub(super) fn id(&self) -> &str {
        match self {
            Self::Put(record) => &record.id,
            Self::Remove(gone) => &gone.id,
        }
    }
}

impl Told {
    pub(super) fn records(&self) -> &[Record] {
        if let Self::Page(records) = self { records } else { &[] }
    }

    /// Up to where it completes what is known: what a watcher resumes from.
    pub(super) fn position(&self) -> Option<u64> {
        match self {
            Self::End(at) | Self::Bookmark(at, _) | Self::Delta { to: at, .. } => Some(*at),
            Self::Begin(..) | Self::Page(_) | Self::Resync(_) => None,
        }
    }
}
