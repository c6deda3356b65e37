//! Makes the bookmarks of a watch as old as they may be: their way is counted.
//!
//! The opening of the watch was a question, and bounds the way of all that follows; when that bound has got loose, one more
//! is asked over the same connection, at the next bookmark. What to conclude, and when to ask, is the model's
//! ([`Way`]). Never here: a wait. A process that bears no stamps is taken at its word.

use std::time::Duration;

use rollcall_model::{Clock, Event, Instant, Stamp, Way};
use tokio::task::JoinSet;
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;

use crate::stamp::stamp_of;
use crate::v1::RegionsRequest;
use crate::v1::discovery_client::DiscoveryClient;

/// An answer that takes longer is worth nothing.
const PATIENCE: Duration = Duration::from_secs(10);

/// An answer's stamp, when the question was asked and when the answer came.
type Answered = (Stamp, Instant, Instant);

/// The questions beside one watch. What is asked ends with it.
#[derive(Debug)]
pub struct Asking {
    channel: Channel,
    clock: Clock,
    way: Option<Way>,
    // One at most.
    asked: JoinSet<Option<Answered>>,
}

impl Asking {
    /// Beside the watch that was asked for over `channel` at `asked` and is answered now with these headers.
    #[must_use]
    pub fn beside(
        channel: Channel,
        headers: &MetadataMap,
        asked: Instant,
        clock: &Clock,
        chance: f64,
    ) -> Self {
        let way = stamp_of(headers).map(|stamp| Way::opened(stamp, asked, clock.now(), chance));
        Self { channel, clock: clock.clone(), way, asked: JoinSet::new() }
    }

    /// Counts the way of a bookmark that is taken now, and takes its stamp off, which means nothing further on.
    pub fn count(&mut self, event: &mut Event, now: Instant, chance: f64) {
        let Event::Bookmark(bookmark) = event else { return };
        let Some(stamp) = bookmark.stamp.take() else { return };
        let Some(way) = &mut self.way else { return };
        while let Some(answer) = self.asked.try_join_next() {
            if let Ok(Some((stamp, asked, came))) = answer {
                way.answered(stamp, asked, came, chance);
            }
        }
        let longest = way.at_most(stamp, now).unwrap_or_default();
        bookmark.age = bookmark.age.map(|age| age.saturating_add(longest));
        if self.asked.is_empty() && way.asks(now) {
            self.asked.spawn(ask(self.channel.clone(), self.clock.clone()));
        }
    }
}

async fn ask(channel: Channel, clock: Clock) -> Option<Answered> {
    let asked = clock.now();
    let mut client = DiscoveryClient::new(channel);
    let answer = tokio::time::timeout(PATIENCE, client.regions(RegionsRequest {})).await.ok()?.ok()?;
    Some((stamp_of(answer.metadata())?, asked, clock.now()))
}

#[cfg(test)]
mod tests {
    use rollcall_model::{Bookmark, Incarnation, Position, Region, Revision, StateDigest};
    use tonic::transport::Endpoint;

    use super::*;
    use crate::stamp::stamped;

    /// A watch whose opening took two milliseconds.
    fn beside(headers: &MetadataMap) -> Asking {
        let clock = Clock::new(|| Duration::from_millis(100_002), || 0);
        let channel = Endpoint::from_static("http://127.0.0.1:1").connect_lazy();
        Asking::beside(channel, headers, Instant(Duration::from_millis(100_000)), &clock, 0.5)
    }

    fn bookmark(age: Option<Duration>, stamp: Option<Duration>) -> Event {
        let position = Position::new(Incarnation::new(1, "a").expect("a name"), Revision(7));
        Event::Bookmark(Bookmark {
            region: Region::parse("us").expect("a name"),
            from: position.clone(),
            position,
            count: 0,
            digest: StateDigest::EMPTY,
            age,
            stamp,
        })
    }

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[tokio::test]
    async fn i21_the_way_of_a_bookmark_is_in_its_age_and_its_stamp_goes_no_further() {
        let teller = Clock::new(|| Duration::from_millis(500), || 0).with_teller(7);
        let mut asking = beside(stamped((), &teller).metadata());
        // Made a second after the opening was answered, and here four seconds after it was asked for.
        let mut event = bookmark(Some(ms(200)), Some(ms(1_500)));
        asking.count(&mut event, Instant(ms(104_000)), 0.5);
        let Event::Bookmark(counted) = event else { panic!("{event:?}") };
        assert_eq!(counted.stamp, None);
        assert_eq!(counted.age.expect("it is known").as_millis(), 200 + 3_000 + 1, "with the rounding");
        let mut event = bookmark(None, Some(ms(1_500)));
        asking.count(&mut event, Instant(ms(104_000)), 0.5);
        assert_eq!(event, bookmark(None, None), "an age that nobody knows is no better known for its way");
    }

    #[tokio::test]
    async fn a_process_that_bears_no_stamps_is_taken_at_its_word() {
        for stamp in [None, Some(ms(1_500))] {
            let mut asking = beside(&MetadataMap::new());
            let mut event = bookmark(Some(ms(200)), stamp);
            asking.count(&mut event, Instant(ms(104_000)), 0.5);
            assert_eq!(event, bookmark(Some(ms(200)), None));
            assert!(asking.asked.is_empty(), "nor is it asked");
        }
    }
}
