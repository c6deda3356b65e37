//! The tap's events as what they say about registrations: who stood from which revision to which, and why no longer.
//!
//! Only the format of the values is the product's; what follows from them is worked out here again.

use std::collections::BTreeMap;
use std::time::Duration;

use rollcall_model::RemovalReason;
use rollcall_proto::store;

use crate::tap::{Event, OURS, What};

/// Bits of an epoch that hold the revision; the incarnation's ordinal stands above them.
const REVISION_BITS: u32 = 40;

/// A moment of the store's history; ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Which history: rises when the store is restored from a backup.
    pub life: u32,
    /// The revision in it.
    pub revision: u64,
    /// When the tap saw it.
    pub at: Duration,
}

/// One registration, as the store held it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The instance.
    pub id: String,
    /// Ordinal and revision.
    pub epoch: u64,
    /// Since when.
    pub from: Moment,
    /// What its writer put into its metadata under `tag`.
    pub tag: String,
    /// How long one renewal lasts.
    pub lease: Duration,
    /// Its failure domain.
    pub zone: String,
    /// Until when and why; none while it stands.
    pub until: Option<(Moment, Ending)>,
    /// What its owner said since, in order.
    pub said: Vec<String>,
}

/// Why a registration stood no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A newer one was written over it.
    Replaced,
    /// Removed, with what the store says about why.
    Removed {
        /// The reason.
        reason: RemovalReason,
        /// Who did it.
        actor: String,
        /// The keeper's term, if it was one.
        term: Option<u64>,
    },
    /// Removed without a word: nothing at that revision explains it.
    Unexplained,
    /// The store was restored from a backup that does not have it.
    Restored,
}

/// A keeper's beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// When.
    pub moment: Moment,
    /// Of this term.
    pub term: u64,
}

/// What the history says, worked out.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// Every registration that ever stood, in order of writing.
    pub standings: Vec<Standing>,
    /// Every beat.
    pub beats: Vec<Beat>,
    /// Keepers' offices: term (the revision of the key's creation), from, until.
    pub offices: Vec<(u64, Moment, Option<Moment>)>,
    /// Incarnations' ordinals as they were founded.
    pub ordinals: Vec<(Moment, u16)>,
    /// What is wrong with the history itself, as sentences that begin with an id (I13 and foreign values).
    pub faults: Vec<String>,
    /// Revisions that were walked.
    pub revisions: usize,
    current: BTreeMap<String, usize>,
    said: BTreeMap<String, u64>,
    office_keys: BTreeMap<String, usize>,
}

impl Origin {
    /// Walks histories, one after another; each but the first goes on from a backup that was taken at the revision
    /// beside it.
    #[must_use]
    pub fn walk(prefix: &str, lives: &[(u64, Vec<Event>)]) -> Self {
        let mut origin = Self::default();
        for (life, (backup, events)) in (0_u32..).zip(lives) {
            if life > 0 {
                let first = events.iter().find(|event| event.revision > *backup);
                let at = first.map_or(Duration::ZERO, |event| event.at);
                origin.restore(Moment { life, revision: *backup, at }, events, prefix);
            }
            let mut new = events.iter().filter(|event| life == 0 || event.revision > *backup).peekable();
            while let Some(first) = new.peek() {
                let moment = Moment { life, revision: first.revision, at: first.at };
                let mut revision = Vec::new();
                while let Some(event) = new.next_if(|event| event.revision == moment.revision) {
                    revision.push(event);
                }
                origin.step(prefix, moment, &revision);
            }
        }
        origin
    }

    /// What stood at the backup goes on standing; the rest is gone with its history.
    fn restore(&mut self, moment: Moment, events: &[Event], prefix: &str) {
        let old: Vec<Event> =
            events.iter().filter(|event| event.revision <= moment.revision).cloned().collect();
        let backup = Self::walk(prefix, &[(0, old)]);
        let stood: BTreeMap<&String, u64> =
            backup.current.iter().map(|(id, at)| (id, backup.standings[*at].epoch)).collect();
        let gone: Vec<String> = self
            .current
            .iter()
            .filter(|(id, at)| stood.get(id) != Some(&self.standings[**at].epoch))
            .map(|(id, _)| id.clone())
            .collect();
        for id in gone {
            self.end(&id, moment, Ending::Restored);
        }
        for (id, at) in &backup.current {
            if !self.current.contains_key(id) {
                let mut standing = backup.standings[*at].clone();
                standing.from = moment;
                self.current.insert(id.clone(), self.standings.len());
                self.standings.push(standing);
            }
        }
        self.said = backup.said;
        for (_, _, until) in &mut self.offices {
            until.get_or_insert(moment);
        }
        self.office_keys.clear();
        for (key, at) in backup.office_keys {
            self.office_keys.insert(key, self.offices.len());
            self.offices.push(backup.offices[at]);
        }
    }

    fn end(&mut self, id: &str, moment: Moment, ending: Ending) {
        if let Some(at) = self.current.remove(id) {
            self.standings[at].until = Some((moment, ending));
        }
    }

    /// The registration of an instance with this epoch.
    #[must_use]
    pub fn standing(&self, id: &str, epoch: u64) -> Option<&Standing> {
        self.standings.iter().find(|standing| standing.epoch == epoch && standing.id == id)
    }

    /// What stands at the end: id and epoch.
    pub fn stands(&self) -> impl Iterator<Item = (&str, u64)> {
        self.current.iter().map(|(id, at)| (id.as_str(), self.standings[*at].epoch))
    }

    /// What stood at a revision of the incarnation with this ordinal: id and epoch.
    #[must_use]
    pub fn at(&self, ordinal: u16, revision: u64) -> BTreeMap<String, u64> {
        // The history in which that incarnation goes on, judged by when it was founded.
        let founded = self.ordinals.iter().rfind(|(_, founded)| *founded == ordinal);
        let life = founded.map_or(0, |(moment, _)| moment.life);
        let place = (life, revision);
        let stood = |standing: &&Standing| {
            (standing.from.life, standing.from.revision) <= place
                && standing.until.as_ref().is_none_or(|(until, _)| (until.life, until.revision) > place)
        };
        self.standings.iter().filter(stood).map(|standing| (standing.id.clone(), standing.epoch)).collect()
    }

    fn step(&mut self, prefix: &str, moment: Moment, events: &[&Event]) {
        self.revisions += 1;
        let here = format!("revision {}.{}", moment.life, moment.revision);
        let mut gone = Vec::new();
        for event in events {
            if let (Some("removal"), What::Put { value, .. }) = (event.key.strip_prefix(prefix), &event.what)
            {
                match store::decode_removal(value) {
                    Ok((listed, _)) => gone = listed,
                    Err(error) => self.faults.push(format!("I13: {here}: removal: {error}")),
                }
            }
        }
        let mut touched = Vec::new();
        for event in events {
            let Some(key) = event.key.strip_prefix(prefix) else {
                if !event.key.starts_with(OURS) {
                    self.faults.push(format!("I35: {here}: a key outside of the region: {}", event.key));
                }
                continue;
            };
            if let What::Put { lease, .. } = event.what
                && lease != 0
                && !key.starts_with("keeper/")
            {
                self.faults.push(format!("B81: {here}: {key} hangs on a lease of the store"));
            }
            if let Some(id) = key.strip_prefix("reg/") {
                touched.push(id.to_owned());
                match &event.what {
                    What::Put { value, .. } => self.registered(id, moment, value),
                    What::Removed => {
                        let told = gone.iter().find(|gone| gone.id.as_str() == id);
                        let ending = told.map_or(Ending::Unexplained, |gone| Ending::Removed {
                            reason: gone.reason,
                            actor: gone.actor.to_string(),
                            term: gone.term,
                        });
                        if told.is_none() {
                            self.faults.push(format!("I13: {here}: {id} was removed without a reason"));
                        }
                        self.end(id, moment, ending);
                    }
                }
            } else if let Some(id) = key.strip_prefix("own/") {
                touched.push(id.to_owned());
                match &event.what {
                    What::Put { value, .. } => self.said(id, moment, value, &here),
                    What::Removed => drop(self.said.remove(id)),
                }
            } else if key == "beat" {
                if let What::Put { value, .. } = &event.what
                    && let Ok(beat) = store::decode_beat(value)
                {
                    self.beats.push(Beat { moment, term: beat.term });
                }
            } else if key.starts_with("keeper/") {
                self.office(moment, event);
            } else if key == "meta/incarnation"
                && let What::Put { value, .. } = &event.what
                && let Ok(incarnation) = store::decode_incarnation(value)
            {
                self.ordinals.push((moment, incarnation.ordinal()));
            }
        }
        for id in touched {
            if self.said.contains_key(&id) && !self.current.contains_key(&id) {
                self.faults.push(format!("I13: {here}: {id} has an owner's word and no record"));
                self.said.remove(&id);
            }
        }
    }

    fn registered(&mut self, id: &str, moment: Moment, value: &[u8]) {
        let stored = match store::decode_registration(value) {
            Ok(stored) => stored,
            Err(error) => {
                self.faults.push(format!("I13: revision {}: {id}: {error}", moment.revision));
                return;
            }
        };
        if stored.declared.id.as_str() != id {
            self.faults.push(format!("B85: {id} holds the record of {}", stored.declared.id));
        }
        // The word's key sorts before the record's, so its removal at this revision was seen already.
        if self.said.remove(id).is_some() {
            let words = "was registered anew and kept the word of its predecessor";
            self.faults.push(format!("I13: revision {}.{}: {id} {words}", moment.life, moment.revision));
        }
        self.end(id, moment, Ending::Replaced);
        self.current.insert(id.to_owned(), self.standings.len());
        self.standings.push(Standing {
            id: id.to_owned(),
            epoch: (u64::from(stored.ordinal) << REVISION_BITS) | moment.revision,
            from: moment,
            tag: stored.declared.metadata.get("tag").cloned().unwrap_or_default(),
            lease: Duration::from_secs(u64::from(stored.declared.lease_seconds)),
            zone: stored.declared.zone.as_ref().map(ToString::to_string).unwrap_or_default(),
            until: None,
            said: Vec::new(),
        });
    }

    fn said(&mut self, id: &str, moment: Moment, value: &[u8], here: &str) {
        self.said.insert(id.to_owned(), moment.revision);
        match store::decode_owned(value) {
            Ok(owned) => {
                if let Some(at) = self.current.get(id)
                    && let Some(word) = owned.metadata.get("said")
                {
                    self.standings[*at].said.push(word.clone());
                }
            }
            Err(error) => self.faults.push(format!("I13: {here}: own/{id}: {error}")),
        }
    }

    fn office(&mut self, moment: Moment, event: &Event) {
        match &event.what {
            What::Put { create_revision, .. } if *create_revision == moment.revision => {
                self.offices.push((*create_revision, moment, None));
                self.office_keys.insert(event.key.clone(), self.offices.len() - 1);
            }
            What::Put { .. } => {}
            What::Removed => {
                if let Some(at) = self.office_keys.remove(&event.key) {
                    self.offices[at].2 = Some(moment);
                }
            }
        }
    }
}
