//! A snapshot on its way into the log, page by page, beside the feed.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use rollcall_model::Snapshot;
use rollcall_proto::convert;

use crate::feed_log::{Appender, Appending, LogError, Topic, record};

/// Pages of a snapshot under way: 4 MiB, so that the feed beside it is not held up.
const PAGES_UNDER_WAY: usize = 4;
/// A page of at most 1 MiB that is not taken in this time is given up, with the session.
const PAGE_WITHIN: Duration = Duration::from_secs(30);

/// Appends the pages of a snapshot; gives back how many.
pub(super) async fn write(log: impl Appender, snapshot: Snapshot, feed_offset: u64) -> Result<u64, LogError> {
    let head = snapshot.head().clone();
    let topic = Topic::snapshot(&head.region);
    // A second of work for a hundred thousand agents.
    let cut = tokio::task::spawn_blocking(move || convert::snapshot_pages(&snapshot, feed_offset)).await;
    let mut under_way = FuturesOrdered::new();
    let mut pages = 0;
    for page in cut.map_err(|error| LogError::Away(error.to_string()))? {
        under_way.push_back(log.append(&topic, record::outgoing_page(&head, &page)));
        pages += 1;
        if under_way.len() >= PAGES_UNDER_WAY {
            take_page(&mut under_way).await?;
        }
    }
    while !under_way.is_empty() {
        take_page(&mut under_way).await?;
    }
    Ok(pages)
}

/// Waits until the oldest page under way stands in the log.
async fn take_page(under_way: &mut FuturesOrdered<Appending>) -> Result<(), LogError> {
    let taken = tokio::time::timeout(PAGE_WITHIN, under_way.next()).await;
    let taken = taken.map_err(|_| LogError::Away(format!("a page was not taken in {PAGE_WITHIN:?}")))?;
    taken.transpose().map(|_| ())
}
