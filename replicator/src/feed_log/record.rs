//! Records of the two topics to bytes and back, with their headers.
//!
//! A record is read whole or refused, and refused when its region, in header or body, is not the topic's (fault F32).

use prost::Message;
use rollcall_model::{Position, Region, Registration, SnapshotHead};
use rollcall_proto::convert::{self, FeedItem};
use rollcall_proto::v1;
use std::sync::Arc;

use crate::feed_log::{Outgoing, Record};

/// Twice what is ever written: anything larger was not written by us, and decoding it would cost its size again.
const BODY_BYTES_READ_MAX: usize = 2 * super::BODY_BYTES_MAX;

/// Why a record is not taken. Nothing of it was used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRecord {
    /// Not ours, of another version, or torn.
    #[error("the record cannot be read: {0}")]
    Unreadable(String),
    /// It says that it is another region's.
    #[error("the record is of region {0:?}")]
    WrongRegion(String),
}

/// One page of a snapshot, read.
#[derive(Clone, Debug)]
pub struct SnapshotPage {
    /// What the whole snapshot claims.
    pub head: SnapshotHead,
    /// Which page, from 0.
    pub page: u32,
    /// Of how many.
    pub pages: u32,
    /// The first feed record that is not in the snapshot.
    pub feed_offset: u64,
    /// Its part of the state.
    pub records: Vec<Arc<Registration>>,
}

impl BadRecord {
    /// A word for logs, metrics and `last_resync`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "unreadable",
            Self::WrongRegion(_) => "wrong_region",
        }
    }
}

/// The record of a delta or a bookmark.
#[must_use]
pub fn outgoing(item: &FeedItem) -> Outgoing {
    let (region, from, to) = ends(item);
    let headers =
        vec![("region", region.as_str().to_owned()), ("from", from.to_string()), ("to", to.to_string())];
    Outgoing { headers, body: convert::feed_record(item).encode_to_vec().into() }
}

/// The record of a snapshot's page.
#[must_use]
pub fn outgoing_page(head: &SnapshotHead, page: &v1::SnapshotPage) -> Outgoing {
    let headers = vec![
        ("region", head.region.as_str().to_owned()),
        ("at", head.position.to_string()),
        ("page", page.page.to_string()),
        ("pages", page.pages.to_string()),
    ];
    Outgoing { headers, body: page.encode_to_vec().into() }
}

/// Region, start and end of a feed item.
#[must_use]
pub fn ends(item: &FeedItem) -> (&Region, &Position, &Position) {
    match item {
        FeedItem::Delta(delta) => (&delta.region, &delta.from, &delta.to),
        FeedItem::Bookmark(bookmark) => (&bookmark.region, &bookmark.from, &bookmark.position),
    }
}

/// Reads a record of `region`'s feed.
///
/// # Errors
/// Unreadable, or another region's.
pub fn read_item(region: &Region, record: &Record) -> Result<FeedItem, BadRecord> {
    let wire: v1::FeedRecord = decode(record)?;
    let item = convert::feed_record_from(wire).map_err(|error| BadRecord::Unreadable(error.to_string()))?;
    let (origin, from, to) = ends(&item);
    check_region(region, origin, record)?;
    check_header(record, "from", &from.to_string())?;
    check_header(record, "to", &to.to_string())?;
    Ok(item)
}

/// Reads a record of `region`'s snapshots.
///
/// # Errors
/// Unreadable, or another region's.
pub fn read_page(region: &Region, record: &Record) -> Result<SnapshotPage, BadRecord> {
    let unreadable = |error: rollcall_proto::Unreadable| BadRecord::Unreadable(error.to_string());
    let wire: v1::SnapshotPage = decode(record)?;
    let head = convert::head_from(wire.head).map_err(unreadable)?;
    check_region(region, &head.region, record)?;
    check_header(record, "at", &head.position.to_string())?;
    check_header(record, "page", &wire.page.to_string())?;
    check_header(record, "pages", &wire.pages.to_string())?;
    if wire.page >= wire.pages {
        return Err(BadRecord::Unreadable(format!("page {} of {}", wire.page, wire.pages)));
    }
    let records = wire.records.into_iter().map(|record| convert::registration_from(record).map(Arc::new));
    Ok(SnapshotPage {
        head,
        page: wire.page,
        pages: wire.pages,
        feed_offset: wire.feed_offset,
        records: records.collect::<Result<_, _>>().map_err(unreadable)?,
    })
}

fn decode<M: Message + Default>(record: &Record) -> Result<M, BadRecord> {
    if record.body.len() > BODY_BYTES_READ_MAX {
        return Err(BadRecord::Unreadable(format!("it has {} bytes", record.body.len())));
    }
    M::decode(record.body.clone()).map_err(|error| BadRecord::Unreadable(error.to_string()))
}

fn header<'a>(record: &'a Record, name: &str) -> Option<&'a str> {
    record.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

fn check_region(region: &Region, body: &Region, record: &Record) -> Result<(), BadRecord> {
    let named =
        header(record, "region").ok_or_else(|| BadRecord::Unreadable("it has no header region".into()))?;
    for said in [named, body.as_str()] {
        if said != region.as_str() {
            return Err(BadRecord::WrongRegion(said.to_owned()));
        }
    }
    Ok(())
}

/// Headers and body are written together; where they differ, somebody else wrote one of them.
fn check_header(record: &Record, name: &'static str, body: &str) -> Result<(), BadRecord> {
    match header(record, name) {
        Some(value) if value == body => Ok(()),
        other => Err(BadRecord::Unreadable(format!("header {name} is {other:?}, the body says {body}"))),
    }
}

#[cfg(test)]
mod tests {
    use rollcall_model::Instant;

    use super::*;
    use crate::testing::Origin;

    fn arrived(outgoing: &Outgoing) -> Record {
        let headers =
            outgoing.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        Record { offset: 0, headers, body: outgoing.body.clone(), lain_at_most: None }
    }

    fn region() -> Region {
        Region::parse("us-east").unwrap()
    }

    #[test]
    fn feed_records_carry_region_from_and_to() {
        let mut origin = Origin::new("us-east", "1-a");
        let delta = FeedItem::Delta(origin.put("a/b/1"));
        let bookmark = FeedItem::Bookmark(origin.beat(Instant::default()));
        for (item, from, to) in [(delta, "1-a:1", "1-a:2"), (bookmark, "1-a:2", "1-a:3")] {
            let outgoing = outgoing(&item);
            let expected = [("region", "us-east"), ("from", from), ("to", to)];
            assert_eq!(outgoing.headers, expected.map(|(name, value)| (name, value.to_owned())));
            assert_eq!(read_item(&region(), &arrived(&outgoing)), Ok(item));
        }
    }

    #[test]
    fn snapshot_records_carry_region_at_page_and_pages() {
        let mut origin = Origin::new("us-east", "1-a");
        origin.put("a/b/1");
        let snapshot = origin.view().snapshot().unwrap();
        let pages = convert::snapshot_pages(&snapshot, 7);
        let outgoing = outgoing_page(snapshot.head(), &pages[0]);
        let expected = [("region", "us-east"), ("at", "1-a:2"), ("page", "0"), ("pages", "1")];
        assert_eq!(outgoing.headers, expected.map(|(name, value)| (name, value.to_owned())));
        let page = read_page(&region(), &arrived(&outgoing)).unwrap();
        assert_eq!((page.head, page.feed_offset, page.records.len()), (snapshot.head().clone(), 7, 1));
    }

    #[test]
    fn f32_a_record_that_is_torn_forged_or_anothers_is_refused() {
        let mut origin = Origin::new("us-east", "1-a");
        let whole = arrived(&outgoing(&FeedItem::Delta(origin.put("a/b/1"))));
        for kept in 0..whole.body.len() {
            let torn = Record { body: whole.body.slice(..kept), ..whole.clone() };
            assert!(matches!(read_item(&region(), &torn), Err(BadRecord::Unreadable(_))), "cut at {kept}");
        }
        for (at, value) in [(0, "eu-west"), (1, "1-a:0"), (2, "1-a:9")] {
            let mut forged = whole.clone();
            forged.headers[at].1 = value.to_owned();
            assert!(read_item(&region(), &forged).is_err(), "header {at} says {value}");
        }
        let elsewhere = Region::parse("eu-west").unwrap();
        assert!(matches!(read_item(&elsewhere, &whole), Err(BadRecord::WrongRegion(_))));
        let huge = Record { body: vec![0; BODY_BYTES_READ_MAX + 1].into(), ..whole };
        assert!(matches!(read_item(&region(), &huge), Err(BadRecord::Unreadable(_))));
    }
}
