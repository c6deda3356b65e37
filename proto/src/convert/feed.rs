//! Changes, deltas, bookmarks, snapshot heads and the records of the log.

use std::sync::Arc;
use std::time::Duration;

use rollcall_model::{
    Bookmark, Change, Delta, Epoch, InstanceId, Region, Removal, RemovalReason, Revision, Snapshot,
    SnapshotHead, StateDigest, Timestamp, limits,
};

use crate::convert::{position, position_from, registration, registration_from};
use crate::{Unreadable, v1};

/// A record of the feed, read.
#[derive(Clone, Debug, PartialEq)]
pub enum FeedItem {
    /// Changes.
    Delta(Arc<Delta>),
    /// Nothing new up to here.
    Bookmark(Bookmark),
}

/// Reads a region's name.
///
/// # Errors
/// Outside the grammar.
pub fn region_from(text: &str, field: &'static str) -> Result<Region, Unreadable> {
    Region::parse(text).map_err(|finding| Unreadable::new(field, finding.detail))
}

fn digest_from(bytes: &[u8], field: &'static str) -> Result<StateDigest, Unreadable> {
    StateDigest::from_bytes(bytes).ok_or_else(|| Unreadable::new(field, "a digest has 16 bytes"))
}

/// To the wire.
#[must_use]
pub fn change(change: &Change) -> v1::Change {
    let change = match change {
        Change::Put(put) => v1::change::Change::Put(registration(put)),
        Change::Remove(gone) => v1::change::Change::Remove(removal(gone)),
    };
    v1::Change { change: Some(change) }
}

/// From the wire.
///
/// # Errors
/// A kind of change that this version does not know, or an unreadable part.
pub fn change_from(wire: v1::Change) -> Result<Change, Unreadable> {
    match wire.change.ok_or_else(|| Unreadable::missing("change"))? {
        v1::change::Change::Put(put) => Ok(Change::Put(Arc::new(registration_from(put)?))),
        v1::change::Change::Remove(gone) => Ok(Change::Remove(Arc::new(removal_from(gone)?))),
    }
}

/// To the wire.
#[must_use]
pub fn removal(removal: &Removal) -> v1::Removal {
    v1::Removal {
        id: removal.id.as_str().to_owned(),
        epoch: removal.epoch.get(),
        reason: reason(removal.reason).into(),
        actor: removal.actor.to_string(),
        term: removal.term,
        at_ms: removal.at.0,
        revision: removal.revision.0,
    }
}

/// From the wire.
///
/// # Errors
/// An id outside the grammar or a reason that is unknown.
pub fn removal_from(wire: v1::Removal) -> Result<Removal, Unreadable> {
    Ok(Removal {
        reason: reason_from(wire.reason()).ok_or_else(|| Unreadable::missing("removal.reason"))?,
        id: InstanceId::parse(&wire.id).map_err(|finding| Unreadable::new("removal.id", finding.detail))?,
        epoch: Epoch::from_wire(wire.epoch)
            .ok_or_else(|| Unreadable::new("removal.epoch", "it has more than 52 bits"))?,
        actor: wire.actor.into(),
        term: wire.term,
        at: Timestamp(wire.at_ms),
        revision: Revision(wire.revision),
    })
}

/// To the wire.
#[must_use]
pub const fn reason(reason: RemovalReason) -> v1::RemovalReason {
    match reason {
        RemovalReason::Deregistered => v1::RemovalReason::Deregistered,
        RemovalReason::Expired => v1::RemovalReason::Expired,
        RemovalReason::Evicted => v1::RemovalReason::Evicted,
        RemovalReason::Replaced => v1::RemovalReason::Replaced,
    }
}

/// From the wire; unspecified is none.
#[must_use]
pub const fn reason_from(wire: v1::RemovalReason) -> Option<RemovalReason> {
    match wire {
        v1::RemovalReason::Unspecified => None,
        v1::RemovalReason::Deregistered => Some(RemovalReason::Deregistered),
        v1::RemovalReason::Expired => Some(RemovalReason::Expired),
        v1::RemovalReason::Evicted => Some(RemovalReason::Evicted),
        v1::RemovalReason::Replaced => Some(RemovalReason::Replaced),
    }
}

/// To the wire.
#[must_use]
pub fn delta(delta: &Delta) -> v1::Delta {
    v1::Delta {
        region: delta.region.as_str().to_owned(),
        from: Some(position(&delta.from)),
        to: Some(position(&delta.to)),
        changes: delta.changes.iter().map(change).collect(),
    }
}

/// From the wire.
///
/// # Errors
/// An unreadable part, or a delta that does not go forward within one incarnation, change by change.
pub fn delta_from(wire: v1::Delta) -> Result<Delta, Unreadable> {
    let delta = Delta {
        region: region_from(&wire.region, "delta.region")?,
        from: position_from(wire.from, "delta.from")?,
        to: position_from(wire.to, "delta.to")?,
        changes: wire.changes.into_iter().map(change_from).collect::<Result<_, _>>()?,
    };
    if delta.from.incarnation != delta.to.incarnation || delta.from.revision >= delta.to.revision {
        return Err(Unreadable::new("delta.to", "it does not come after delta.from"));
    }
    let inside = |change: &Change| {
        let revision = change.revision();
        revision > delta.from.revision && revision <= delta.to.revision
    };
    if !delta.changes.iter().all(inside) {
        return Err(Unreadable::new("delta.changes", "a change lies outside of the delta"));
    }
    // Of one instance the last change counts, so another order is another state.
    if !delta.changes.is_sorted_by_key(Change::revision) {
        return Err(Unreadable::new("delta.changes", "the changes are not in order of revision"));
    }
    Ok(delta)
}

/// To the wire.
#[must_use]
pub fn bookmark(bookmark: &Bookmark) -> v1::Bookmark {
    v1::Bookmark {
        region: bookmark.region.as_str().to_owned(),
        from: Some(position(&bookmark.from)),
        position: Some(position(&bookmark.position)),
        count: bookmark.count,
        digest: bookmark.digest.to_bytes().to_vec().into(),
        age_ms: u64::try_from(bookmark.age.unwrap_or(limits::UNHEARD_AGE).as_millis()).unwrap_or(u64::MAX),
        age_unknown: bookmark.age.is_none(),
        stamp_ms: bookmark.stamp.map(|stamp| u64::try_from(stamp.as_millis()).unwrap_or(u64::MAX)),
    }
}

/// From the wire.
///
/// # Errors
/// An unreadable part, or a bookmark that speaks of a change after it.
pub fn bookmark_from(wire: v1::Bookmark) -> Result<Bookmark, Unreadable> {
    let bookmark = Bookmark {
        region: region_from(&wire.region, "bookmark.region")?,
        from: position_from(wire.from, "bookmark.from")?,
        position: position_from(wire.position, "bookmark.position")?,
        count: wire.count,
        digest: digest_from(&wire.digest, "bookmark.digest")?,
        age: (!wire.age_unknown).then(|| Duration::from_millis(wire.age_ms)),
        stamp: wire.stamp_ms.map(Duration::from_millis),
    };
    if bookmark.from.incarnation != bookmark.position.incarnation
        || bookmark.from.revision > bookmark.position.revision
    {
        return Err(Unreadable::new("bookmark.from", "it comes after bookmark.position"));
    }
    Ok(bookmark)
}

/// To the wire.
#[must_use]
pub fn head(head: &SnapshotHead) -> v1::SnapshotHead {
    v1::SnapshotHead {
        region: head.region.as_str().to_owned(),
        position: Some(position(&head.position)),
        count: head.count,
        digest: head.digest.to_bytes().to_vec().into(),
    }
}

/// From the wire.
///
/// # Errors
/// An unreadable part.
pub fn head_from(wire: Option<v1::SnapshotHead>) -> Result<SnapshotHead, Unreadable> {
    let wire = wire.ok_or_else(|| Unreadable::missing("snapshot.head"))?;
    Ok(SnapshotHead {
        region: region_from(&wire.region, "snapshot.region")?,
        position: position_from(wire.position, "snapshot.position")?,
        count: wire.count,
        digest: digest_from(&wire.digest, "snapshot.digest")?,
    })
}

/// To the log.
#[must_use]
pub fn feed_record(item: &FeedItem) -> v1::FeedRecord {
    let record = match item {
        FeedItem::Delta(changes) => v1::feed_record::Record::Delta(delta(changes)),
        FeedItem::Bookmark(mark) => v1::feed_record::Record::Bookmark(bookmark(mark)),
    };
    v1::FeedRecord { record: Some(record) }
}

/// From the log.
///
/// # Errors
/// A kind of record that this version does not know, or an unreadable part.
pub fn feed_record_from(wire: v1::FeedRecord) -> Result<FeedItem, Unreadable> {
    match wire.record.ok_or_else(|| Unreadable::missing("record"))? {
        v1::feed_record::Record::Delta(delta) => Ok(FeedItem::Delta(Arc::new(delta_from(delta)?))),
        v1::feed_record::Record::Bookmark(mark) => Ok(FeedItem::Bookmark(bookmark_from(mark)?)),
    }
}

/// Cuts a snapshot into the pages of the log; at least one, also for an empty region.
#[must_use]
pub fn snapshot_pages(snapshot: &Snapshot, feed_offset: u64) -> Vec<v1::SnapshotPage> {
    let everything = rollcall_model::Query::default();
    let mut cut = Vec::new();
    let mut after = None;
    loop {
        let page = rollcall_model::watch::page(snapshot.state(), after.as_ref(), &everything);
        cut.push(page.records);
        after = page.last;
        if page.is_last {
            break;
        }
    }
    let pages = u32::try_from(cut.len()).unwrap_or(u32::MAX);
    (0..pages)
        .zip(cut)
        .map(|(page, records)| v1::SnapshotPage {
            head: Some(head(snapshot.head())),
            page,
            pages,
            feed_offset,
            records: records.iter().map(|record| registration(record)).collect(),
        })
        .collect()
}
