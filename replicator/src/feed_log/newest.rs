//! Finds the newest complete snapshot of a region, and the end of its feed, by reading the topics back from their ends.
//!
//! Promises: what is found is complete and verified by count and digest (I18), and its feed offset is in the feed; a torn or
//! foreign page costs only the snapshot it belongs to. Never reads more than it must: a page's head tells whether its
//! snapshot is wanted.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use rollcall_model::{Position, Region, Registration, Relation, Snapshot, SnapshotBuilder, SnapshotHead};

use crate::feed_log::record::{self, SnapshotPage};
use crate::feed_log::{FeedLog, LogError, Record, Topic, read};

/// Snapshots looked at from the end: the newest, one torn by a crash before it, and two of a second publisher.
const SNAPSHOTS_MAX: usize = 4;
/// Steps back: one for each snapshot, and some for records that cannot be read.
const STEPS_MAX: usize = 32;
/// Records of the feed looked at for its last readable one.
const TAIL_RECORDS: u64 = 16;
/// Most of them, however long ago the publisher last knew the end: what a full window of it can leave behind, twice.
const TAIL_RECORDS_MAX: u64 = 2_048;

/// What a snapshot must be to be of use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Of this history or a newer one, and at least at this revision of it.
    pub at_least: Option<Position>,
    /// Of this history or a newer one; also of one that conflicts with it.
    pub not_before: Option<Position>,
}

/// A complete, verified snapshot.
#[derive(Clone, Debug)]
pub struct Found {
    /// The state.
    pub snapshot: Snapshot,
    /// The first feed record that is not in it.
    pub feed_offset: u64,
}

/// What a look at the snapshot topic gave.
#[derive(Clone, Debug, Default)]
pub struct Looked {
    /// The newest that is wanted.
    pub found: Option<Found>,
    /// Records that were refused: unreadable, or another region's.
    pub refused: u64,
}

/// The end of a feed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// Up to where its last readable record reaches.
    pub position: Option<Position>,
    /// The offsets that are there.
    pub offsets: Range<u64>,
    /// The last of the records read for it that does not follow from those before it.
    pub torn_at: Option<u64>,
}

impl Wanted {
    /// Whether a snapshot at this position is of use.
    #[must_use]
    pub fn fits(&self, position: &Position) -> bool {
        let new_enough = self.at_least.as_ref().is_none_or(|least| match position.relation(least) {
            Relation::Same(order) => order.is_ge(),
            Relation::NewerHistory => true,
            Relation::OlderHistory | Relation::Conflict => false,
        });
        let not_past = self.not_before.as_ref().is_none_or(|shown| match position.relation(shown) {
            Relation::Same(_) | Relation::NewerHistory | Relation::Conflict => true,
            Relation::OlderHistory => false,
        });
        new_enough && not_past
    }
}

/// A snapshot whose pages are being collected.
struct Group {
    head: SnapshotHead,
    pages: u32,
    feed_offset: u64,
    parts: BTreeMap<u32, Vec<Arc<Registration>>>,
}

impl Group {
    fn is_of(&self, page: &SnapshotPage) -> bool {
        self.head == page.head && self.pages == page.pages && self.feed_offset == page.feed_offset
    }

    fn is_whole(&self) -> bool {
        self.parts.len() == self.pages as usize
    }

    fn build(self) -> Option<Found> {
        let mut builder = SnapshotBuilder::begin(self.head);
        for records in self.parts.into_values() {
            builder.add(records);
        }
        Some(Found { snapshot: builder.finish().ok()?, feed_offset: self.feed_offset })
    }
}

/// Finds the newest complete snapshot that is wanted and whose feed offset can still be followed.
///
/// # Errors
/// As for reading; [`LogError::NoTopic`] where the region never published.
pub async fn newest_snapshot<L: FeedLog>(
    log: &L,
    region: &Region,
    wanted: &Wanted,
) -> Result<Looked, LogError> {
    let feed = log.ends(&Topic::feed(region)).await?;
    let topic = Topic::snapshot(region);
    let there = log.ends(&topic).await?;
    let mut end = there.end;
    let mut looked = Looked::default();
    let mut groups: Vec<Group> = Vec::new();
    for _ in 0..STEPS_MAX {
        if end <= there.start || groups.len() > SNAPSHOTS_MAX {
            break;
        }
        let Some(last) = read(log, &topic, end - 1..end).await?.pop() else { break };
        let Ok(page) = record::read_page(region, &last) else {
            looked.refused += 1;
            end -= 1;
            continue;
        };
        let first = last.offset.saturating_sub(u64::from(page.page)).max(there.start);
        let connects = feed.start <= page.feed_offset && page.feed_offset <= feed.end;
        if connects && wanted.fits(&page.head.position) {
            let records = read(log, &topic, first..last.offset + 1).await?;
            looked.refused += collect(region, &records, &mut groups);
            if let Some(at) = groups.iter().position(|group| group.is_of(&page) && group.is_whole())
                && let Some(found) = groups.swap_remove(at).build()
            {
                looked.found = Some(found);
                return Ok(looked);
            }
        }
        end = first;
    }
    Ok(looked)
}

/// Sorts pages to their snapshots; gives back how many records were none.
fn collect(region: &Region, records: &[Record], groups: &mut Vec<Group>) -> u64 {
    let mut refused = 0;
    for record in records {
        let Ok(page) = record::read_page(region, record) else {
            refused += 1;
            continue;
        };
        let at = groups.iter().position(|group| group.is_of(&page)).unwrap_or_else(|| {
            groups.push(Group {
                head: page.head.clone(),
                pages: page.pages,
                feed_offset: page.feed_offset,
                parts: BTreeMap::new(),
            });
            groups.len() - 1
        });
        groups[at].parts.insert(page.page, page.records);
    }
    refused
}

/// Reads the end of a region's feed, back to where the caller knew it to end, if it knew.
///
/// # Errors
/// As for reading.
pub async fn feed_tail<L: FeedLog>(log: &L, region: &Region, known: Option<u64>) -> Result<Tail, LogError> {
    let topic = Topic::feed(region);
    let offsets = log.ends(&topic).await?;
    let back = |records| offsets.end.saturating_sub(records);
    let from = known.map_or(back(TAIL_RECORDS), |known| {
        known.saturating_sub(1).clamp(back(TAIL_RECORDS_MAX), back(TAIL_RECORDS))
    });
    let records = read(log, &topic, from.max(offsets.start)..offsets.end).await?;
    let mut tail = Tail { position: None, offsets, torn_at: None };
    for record in &records {
        let Ok(item) = record::read_item(region, record) else { continue };
        let (_, from, to) = record::ends(&item);
        match tail.position.as_ref().map(|reached| (from.relation(reached), to.relation(reached))) {
            // A double of what stands before it.
            Some((_, Relation::Same(order))) if order.is_le() => continue,
            Some((Relation::Same(order), _)) if order.is_gt() => tail.torn_at = Some(record.offset),
            // It continues; or it is of another history, which begins with a snapshot.
            Some(_) | None => {}
        }
        tail.position = Some(to.clone());
    }
    Ok(tail)
}

/// The last record of the snapshot topic, if it ends a snapshot: its head and its feed offset.
///
/// # Errors
/// As for reading.
pub async fn snapshot_tail<L: FeedLog>(
    log: &L,
    region: &Region,
) -> Result<Option<(SnapshotHead, u64)>, LogError> {
    let topic = Topic::snapshot(region);
    let there = log.ends(&topic).await?;
    if there.is_empty() {
        return Ok(None);
    }
    let last = read(log, &topic, there.end - 1..there.end).await?.pop();
    let page = last.and_then(|last| record::read_page(region, &last).ok());
    Ok(page.filter(|page| page.page + 1 == page.pages).map(|page| (page.head, page.feed_offset)))
}
