//! The promises about what stands in a region's topics, against what the tap of its store saw. What came after that
//! tap's end is not judged.

use std::collections::BTreeMap;

use super::Verdict;
use crate::digests::Digests;
use crate::origin::Origin;
use crate::topic_tap::{Raw, Topics};
use crate::wire::{self, At, Said};

/// I35: a topic holds its own region's history and nothing else, and one record for each step of it.
#[must_use]
pub fn own_history(region: &str, topics: &Topics, origin: &Origin, digests: &Digests) -> Verdict {
    let mut verdict = Verdict::of("I35 F32");
    let mut steps: BTreeMap<(u32, At, At), Vec<u8>> = BTreeMap::new();
    for raw in &topics.feed {
        let said = wire::feed(&raw.body);
        verdict.judge(said.is_some(), || format!("F32: {}: feed record cannot be read", place(raw)));
        let Some(said) = said else { continue };
        let named = match &said {
            Said::Delta { region, .. } | Said::Bookmark { region, .. } | Said::Page { region, .. } => region,
        };
        let header = raw.headers.iter().find(|(name, _)| name == "region").map(|(_, value)| value.as_str());
        verdict.judge(named == region && header == Some(region), || {
            format!("I35: {}: a record of {named:?}, header {header:?}, in {region}'s feed", place(raw))
        });
        let Said::Delta { from, to, changes, .. } = said else { continue };
        if to > digests.end() {
            continue;
        }
        for change in changes {
            let standing = origin.standing(&change.id, change.epoch);
            let is_so = standing.is_some_and(|standing| {
                let gone = standing.until.as_ref().map(|(until, _)| until.revision);
                if change.is_put {
                    standing.from.revision <= change.revision
                        && gone.is_none_or(|gone| change.revision < gone)
                } else {
                    gone == Some(change.revision)
                }
            });
            verdict.judge(is_so, || {
                format!("I35: {}: {change:?} is not in the origin's history: {standing:?}", place(raw))
            });
        }
        let known = steps.entry((raw.life, from, to)).or_insert_with(|| raw.body.clone());
        verdict.judge(*known == raw.body, || {
            format!("I35: {}: two different records from {from:?} to {to:?}", place(raw))
        });
    }
    verdict
}

/// I30, I33: the feed has no hole, and folded from its beginning it is the origin at every bookmark; every complete
/// snapshot is the origin at its position.
#[must_use]
pub fn whole_chain(topics: &Topics, origin: &Origin, digests: &Digests) -> Verdict {
    let mut verdict = Verdict::of("I30 I33 I34");
    let mut fold: Option<(u32, At, BTreeMap<String, u64>)> = None;
    for raw in &topics.feed {
        let Some(said) = wire::feed(&raw.body) else { continue };
        let (from, to) = match &said {
            Said::Delta { from, to, .. } | Said::Bookmark { from, to, .. } => (*from, *to),
            Said::Page { .. } => continue,
        };
        if to > digests.end() {
            continue;
        }
        // Another history begins with a snapshot, and so does a topic.
        let (life, mut reached, mut state) = match fold.take() {
            Some((life, reached, state)) if life == raw.life && reached.0 == from.0 => (life, reached, state),
            Some(_) | None => (raw.life, from, origin.at(from.0, from.1)),
        };
        verdict.judge(from <= reached, || {
            format!(
                "I33: {}: a hole: it goes on from {from:?}, the records before reach {reached:?}",
                place(raw)
            )
        });
        if let Said::Delta { changes, .. } = &said {
            for change in changes.iter().filter(|change| change.revision > reached.1) {
                if change.is_put {
                    state.insert(change.id.clone(), change.epoch);
                } else {
                    state.remove(&change.id);
                }
            }
        }
        if let Said::Bookmark { count, digest, .. } = &said
            && to >= reached
        {
            let stood = digests.at(to.0, to.1);
            verdict.judge(stood == Some((*count, digest)), || {
                format!(
                    "I30: {}: it says {count} with {digest} at {to:?}; the origin had {stood:?}",
                    place(raw)
                )
            });
            let known = origin.at(to.0, to.1);
            verdict.judge(known == state, || {
                format!("I30: {}: folded to {to:?} the feed differs: {}", place(raw), differ(&known, &state))
            });
        }
        reached = reached.max(to);
        fold = Some((life, reached, state));
    }
    snapshots(&mut verdict, topics, origin, digests);
    verdict
}

fn snapshots(verdict: &mut Verdict, topics: &Topics, origin: &Origin, digests: &Digests) {
    let mut collected: BTreeMap<String, u64> = BTreeMap::new();
    let mut next = 0;
    for raw in &topics.snapshots {
        let said = wire::page(&raw.body);
        verdict.judge(said.is_some(), || format!("I37: {}: snapshot page cannot be read", place(raw)));
        let Some(Said::Page { at, count, digest, page, pages, records, .. }) = said else { continue };
        if page == 0 {
            collected.clear();
        } else if page != next {
            // One that was not written to its end, as by a publisher that was killed.
            continue;
        }
        next = page + 1;
        collected.extend(records);
        if next == pages && at <= digests.end() {
            let stood = digests.at(at.0, at.1);
            verdict.judge(stood == Some((count, &digest)), || {
                format!(
                    "I18: {}: a snapshot of {count} with {digest} at {at:?}; the origin had {stood:?}",
                    place(raw)
                )
            });
            let known = origin.at(at.0, at.1);
            verdict.judge(known == collected, || {
                format!("I18: {}: a snapshot at {at:?} differs: {}", place(raw), differ(&known, &collected))
            });
        }
    }
}

fn place(raw: &Raw) -> String {
    format!("offset {}.{} at {:.1} s", raw.life, raw.offset, raw.at.as_secs_f64())
}

fn differ(known: &BTreeMap<String, u64>, said: &BTreeMap<String, u64>) -> String {
    let missing: Vec<_> = known.iter().filter(|(id, epoch)| said.get(*id) != Some(epoch)).take(3).collect();
    let extra: Vec<_> = said.iter().filter(|(id, _)| !known.contains_key(*id)).take(3).collect();
    format!("of {} it lacks {missing:?}, of {} it has too many {extra:?}", known.len(), said.len())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prost::Message as _;
    use rollcall_model::{Incarnation, RemovalReason};
    use rollcall_proto::{store, v1};

    use super::super::planted::{ONE, PREFIX, Plant};
    use super::*;

    fn position(revision: u64) -> Option<v1::Position> {
        Some(v1::Position { incarnation: "1-a".into(), revision })
    }

    fn put(id: &str, revision: u64) -> v1::Change {
        let declared = v1::Declared { id: id.into(), ..v1::Declared::default() };
        let registration = v1::Registration {
            declared: Some(declared),
            epoch: ONE | revision,
            revision,
            ..v1::Registration::default()
        };
        v1::Change { change: Some(v1::change::Change::Put(registration)) }
    }

    fn removal(id: &str, registered: u64, revision: u64) -> v1::Change {
        let removal =
            v1::Removal { id: id.into(), epoch: ONE | registered, revision, ..v1::Removal::default() };
        v1::Change { change: Some(v1::change::Change::Remove(removal)) }
    }

    fn delta(from: u64, to: u64, changes: Vec<v1::Change>) -> v1::FeedRecord {
        let delta = v1::Delta { region: "us".into(), from: position(from), to: position(to), changes };
        v1::FeedRecord { record: Some(v1::feed_record::Record::Delta(delta)) }
    }

    /// A region with two registrations of which one goes again; and what its feed says of it.
    struct Feed {
        origin: Origin,
        digests: Digests,
        records: Vec<v1::FeedRecord>,
    }

    impl Feed {
        fn sound() -> Self {
            let mut plant = Plant::new();
            let incarnation = Incarnation::parse("1-a").unwrap();
            plant.at(3).put("meta/incarnation", store::encode_incarnation(&incarnation).to_vec(), 0);
            plant.registered(10, "a/b/1", "t1");
            plant.registered(11, "a/b/2", "t2");
            plant.removed(12, &["a/b/1"], RemovalReason::Deregistered, None);
            let digests = Digests::of(PREFIX, &plant.events);
            let origin = Origin::walk(PREFIX, &[(0, plant.events)]);
            let mut feed = Self { origin, digests, records: Vec::new() };
            feed.records = vec![
                delta(3, 10, vec![put("a/b/1", 10)]),
                delta(10, 11, vec![put("a/b/2", 11)]),
                feed.bookmark(11),
                delta(11, 12, vec![removal("a/b/1", 10, 12)]),
                feed.bookmark(12),
            ];
            feed
        }

        fn bookmark(&self, at: u64) -> v1::FeedRecord {
            let (count, digest) = self.digests.at(1, at).unwrap();
            let digest: Vec<u8> = (0..digest.len() / 2)
                .map(|n| u8::from_str_radix(&digest[2 * n..2 * n + 2], 16).unwrap())
                .collect();
            let bookmark = v1::Bookmark {
                region: "us".into(),
                from: position(at),
                position: position(at),
                count,
                digest: digest.into(),
                age_ms: 0,
                age_unknown: false,
                stamp_ms: None,
            };
            v1::FeedRecord { record: Some(v1::feed_record::Record::Bookmark(bookmark)) }
        }

        fn broken(&self) -> Vec<String> {
            let raw = |(offset, record): (u64, &v1::FeedRecord)| Raw {
                life: 0,
                offset,
                at: Duration::ZERO,
                headers: vec![("region".into(), "us".into())],
                body: record.encode_to_vec(),
            };
            let topics = Topics { feed: (0..).zip(&self.records).map(raw).collect(), snapshots: Vec::new() };
            let verdicts = [
                own_history("us", &topics, &self.origin, &self.digests),
                whole_chain(&topics, &self.origin, &self.digests),
            ];
            assert!(verdicts.iter().all(|verdict| verdict.checked > 0), "they looked at something");
            let broken = verdicts.iter().flat_map(|verdict| &verdict.broken);
            let mut ids: Vec<String> =
                broken.map(|words| words.split(':').next().unwrap_or_default().to_owned()).collect();
            ids.sort();
            ids.dedup();
            ids
        }
    }

    #[test]
    fn a_sound_feed_breaks_nothing_nor_do_doubles_and_other_cuts_of_it() {
        let mut feed = Feed::sound();
        assert_eq!(feed.broken(), [""; 0]);
        feed.records.insert(4, feed.records[1].clone());
        feed.records.insert(2, delta(3, 11, vec![put("a/b/1", 10), put("a/b/2", 11)]));
        assert_eq!(feed.broken(), [""; 0], "two publishers at once are harmless");
        feed.records.push(delta(12, 13, vec![put("a/b/3", 13)]));
        assert_eq!(feed.broken(), [""; 0], "the tap of the store had ended");
    }

    #[test]
    fn what_is_planted_into_a_feed_is_found() {
        let planted = |plant: fn(&mut Feed)| {
            let mut feed = Feed::sound();
            plant(&mut feed);
            feed.broken()
        };
        assert_eq!(planted(|feed| drop(feed.records.remove(1))), ["I30", "I33"], "a delta is skipped");
        assert_eq!(
            planted(|feed| feed.records[3] = delta(11, 12, Vec::new())),
            ["I30"],
            "a removal is left out"
        );
        assert_eq!(
            planted(|feed| feed.records[1] = delta(10, 11, vec![put("a/b/2", 11), put("a/b/9", 11)])),
            ["I30", "I35"],
            "a registration that never was"
        );
        assert_eq!(
            planted(|feed| {
                let bookmark = feed.bookmark(12);
                feed.records[2] = bookmark;
            }),
            ["I30", "I33"],
            "a bookmark ahead of what it says"
        );
        assert_eq!(
            planted(|feed| {
                let Some(v1::feed_record::Record::Delta(delta)) = &mut feed.records[1].record else { return };
                delta.region = "eu".into();
            }),
            ["I35"],
            "another region's record"
        );
        assert_eq!(
            planted(|feed| {
                feed.records.insert(2, delta(10, 11, vec![put("a/b/2", 11), put("a/b/2", 11)]));
            }),
            ["I35"],
            "one step said in two ways"
        );
    }
}
