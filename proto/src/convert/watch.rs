//! Events of a watch.

use std::sync::Arc;

use rollcall_model::Event;

use crate::convert::feed::region_from;
use crate::convert::{bookmark, bookmark_from, delta, delta_from, head, head_from, position, position_from};
use crate::convert::{registration, registration_from};
use crate::v1::watch_response::{Event as Wire, Page, Resync, SnapshotEnd};
use crate::{Unreadable, v1};

/// To the wire.
#[must_use]
pub fn event(event: &Event) -> v1::WatchResponse {
    let event = match event {
        Event::SnapshotBegin(begin) => Wire::SnapshotBegin(head(begin)),
        Event::Page(records) => {
            Wire::Page(Page { records: records.iter().map(|r| registration(r)).collect() })
        }
        Event::SnapshotEnd(region, at) => Wire::SnapshotEnd(SnapshotEnd {
            region: region.as_str().to_owned(),
            position: Some(position(at)),
        }),
        Event::Delta(changes) => Wire::Delta(delta(changes)),
        Event::Bookmark(mark) => Wire::Bookmark(bookmark(mark)),
        Event::Resync(region, reason) => {
            Wire::Resync(Resync { region: region.as_str().to_owned(), reason: (*reason).to_owned() })
        }
    };
    v1::WatchResponse { event: Some(event) }
}

/// From the wire.
///
/// # Errors
/// A kind of event that this version does not know, or an unreadable part.
pub fn event_from(wire: v1::WatchResponse) -> Result<Event, Unreadable> {
    match wire.event.ok_or_else(|| Unreadable::missing("event"))? {
        Wire::SnapshotBegin(begin) => Ok(Event::SnapshotBegin(head_from(Some(begin))?)),
        Wire::Page(page) => {
            let records = page.records.into_iter().map(|record| registration_from(record).map(Arc::new));
            Ok(Event::Page(records.collect::<Result<_, _>>()?))
        }
        Wire::SnapshotEnd(end) => Ok(Event::SnapshotEnd(
            region_from(&end.region, "snapshot_end.region")?,
            position_from(end.position, "snapshot_end.position")?,
        )),
        Wire::Delta(changes) => Ok(Event::Delta(Arc::new(delta_from(changes)?))),
        Wire::Bookmark(mark) => Ok(Event::Bookmark(bookmark_from(mark)?)),
        Wire::Resync(resync) => {
            // The words are a closed set on our side; another version's word is still a reason.
            let reason = match resync.reason.as_str() {
                "new_incarnation" => "new_incarnation",
                "history_passed" => "history_passed",
                _ => "origin",
            };
            Ok(Event::Resync(region_from(&resync.region, "resync.region")?, reason))
        }
    }
}
