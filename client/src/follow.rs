//! Follows one region's feed into a view: the task behind each part of a [`LocalSnapshot`](crate::LocalSnapshot).
//!
//! Promises: a broken watch goes on from the last position, over the next address; what does not fit the view is
//! answered by a fresh snapshot; until that is complete and verified the view stays as it is (promises I17, I22, I33).

mod pauses;

use std::sync::Arc;

use rollcall_model::{BreakerLimits, Clock, Elsewhere, Event, Follower, Instant, Next, View};
use tokio_util::sync::CancellationToken;

use crate::disk::Copies;
use crate::error::CallError;
use crate::local_snapshot::Failure;
use crate::transport::{SharedReader, Watches, Watching};

use pauses::{LASTING, Pauses};

/// How often a cell that says nothing is looked at.
const LOOK: std::time::Duration = std::time::Duration::from_secs(1);

/// One region being followed.
pub(crate) struct Following<P> {
    watches: Arc<Watches>,
    reader: SharedReader,
    view: View,
    /// None when nothing is kept on disk.
    copies: Option<Copies>,
    clock: Clock,
    /// Takes what there is to know.
    publish: P,
    /// Since when nothing was heard.
    failing_since: Option<Instant>,
    published: bool,
    /// The state was just installed and does not know its age; the bookmark behind it does.
    unheard: bool,
    /// The present watch has delivered something.
    delivered: bool,
    pauses: Pauses,
    elsewhere: Elsewhere,
}

/// What there is to know of a region.
pub(crate) enum News<'a> {
    /// A new state.
    State(&'a View),
    /// Why it is not followed now, or that it may be again.
    Failure(Option<Failure>),
}

/// How a watch ended.
enum End {
    /// Go on from the last position.
    Broken(Option<CallError>),
    /// The same, at another address: this cell answers, and has nothing for us.
    Useless(String),
    /// Go on from nothing, for this reason.
    Restart(&'static str),
}

impl<P: FnMut(News<'_>) + Send> Following<P> {
    /// Goes on from a view, which may have been loaded from disk.
    pub(crate) fn new(
        watches: Arc<Watches>,
        view: View,
        copies: Option<Copies>,
        breaker: Option<BreakerLimits>,
        clock: Clock,
        publish: P,
    ) -> Self {
        let published = view.state().is_some();
        Self {
            watches,
            reader: SharedReader::default(),
            view,
            copies,
            clock,
            publish,
            failing_since: None,
            published,
            unheard: false,
            delivered: false,
            pauses: Pauses::new(breaker),
            elsewhere: Elsewhere::default(),
        }
    }

    /// Follows until it is stopped.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.follow() => {}
        }
    }

    async fn follow(&mut self) {
        let mut restarted = None;
        let mut quiet = false;
        loop {
            let opened = self.clock.now();
            let end = self.watch_once(restarted).await;
            let now = self.clock.now();
            let lasted = now.since(opened);
            quiet &= lasted < LASTING;
            let told = match end {
                End::Broken(error) => {
                    restarted = None;
                    if let Some(copies) = &mut self.copies
                        && !self.unheard
                    {
                        copies.hurry(&self.view, &self.clock);
                    }
                    let error =
                        error.map_or_else(|| "the cell ended it".to_owned(), |error| error.to_string());
                    let region = self.view.region();
                    if quiet {
                        tracing::debug!(%region, error, "watch broke");
                    } else {
                        tracing::warn!(%region, error, "watch broke");
                    }
                    error
                }
                End::Useless(why) => {
                    restarted = None;
                    let region = self.view.region();
                    tracing::warn!(%region, why, "watch is opened anew");
                    why
                }
                End::Restart(reason) => {
                    restarted = Some(reason);
                    let region = self.view.region();
                    tracing::warn!(%region, reason, "view does not fit its feed, resyncing");
                    format!("the state does not fit its feed ({reason}), a new one is fetched")
                }
            };
            self.fails(told.into(), now);
            // Once in a row is enough: the age tells the rest.
            quiet = true;
            let pause = self.pauses.after(lasted, self.delivered, now, rand::random());
            tokio::time::sleep(pause).await;
        }
    }

    async fn watch_once(&mut self, restarted: Option<&'static str>) -> End {
        self.delivered = false;
        let since = if restarted.is_some() { None } else { self.view.position() };
        let mut watching =
            match self.watches.watch(self.view.region(), since, &self.reader, &self.clock).await {
                Ok(watching) => watching,
                Err(error) => return End::Broken(Some(error)),
            };
        let end = self.take_events(&mut watching, restarted).await;
        self.watches.broke(&watching);
        end
    }

    async fn take_events(&mut self, watching: &mut Watching, restarted: Option<&'static str>) -> End {
        let mut follower = Follower::new(restarted);
        let mut looks = tokio::time::interval(LOOK);
        let now = self.clock.now();
        self.elsewhere.opened(self.view.age(now), now, rand::random());
        loop {
            let event = tokio::select! {
                biased;
                event = watching.next() => event,
                _ = looks.tick() => {
                    let now = self.clock.now();
                    if self.elsewhere.leaves(self.view.age(now), now) {
                        return End::Useless(self.nothing_newer(watching.url(), now));
                    }
                    continue;
                }
            };
            let mut event = match event {
                Ok(Some(event)) => event,
                Ok(None) => return End::Broken(None),
                Err(CallError::Unreadable(why)) => {
                    tracing::warn!(region = %self.view.region(), why, "event cannot be read");
                    return End::Restart("unreadable");
                }
                Err(error) => return End::Broken(Some(error)),
            };
            self.delivered = true;
            let now = self.clock.now();
            watching.count(&mut event, now);
            if !matches!(event, Event::Bookmark(_) | Event::Resync(..)) {
                self.elsewhere.delivers(now);
            }
            match self.take(&mut follower, event, now) {
                Next::Publish => self.is_heard(),
                Next::Nothing => {}
                Next::Restart(reason) => return End::Restart(reason),
                Next::Older => return End::Useless(self.older(watching.url())),
            }
        }
    }

    /// A try failed. As long as none of those after it hears anything, they are one failure.
    fn fails(&mut self, why: Arc<str>, now: Instant) {
        let since = *self.failing_since.get_or_insert(now);
        (self.publish)(News::Failure(Some(Failure { why, since })));
    }

    /// The state is heard of: what was told counts no longer.
    fn is_heard(&mut self) {
        if self.failing_since.take().is_some() {
            (self.publish)(News::Failure(None));
        }
    }

    fn nothing_newer(&self, url: &str, now: Instant) -> String {
        match self.view.age(now) {
            None => format!("the cell at {url} answers, and has no state of this region"),
            Some(age) => {
                format!("the cell at {url} answers, and knows nothing newer than of {} s ago", age.as_secs())
            }
        }
    }

    fn older(&self, url: &str) -> String {
        let known = self.view.position().map_or_else(String::new, |known| known.incarnation.to_string());
        format!(
            "the cell at {url} tells an older history of this region than is known here, which is {known}; if the region was \
             founded anew without its data, remove this program's copies of it and start the program again"
        )
    }

    fn take(&mut self, follower: &mut Follower, event: Event, now: Instant) -> Next {
        match event {
            Event::SnapshotEnd(..) => self.unheard = true,
            Event::Bookmark(_) => self.unheard = false,
            Event::SnapshotBegin(_) | Event::Page(_) | Event::Delta(_) | Event::Resync(..) => {}
        }
        let before = self.view.position().map(|position| position.incarnation.clone());
        let next = follower.accept(&mut self.view, event, now, self.clock.wall());
        let position = self.view.position().map(|position| &position.incarnation);
        if let (Some(before), Some(position)) = (&before, position)
            && before != position
        {
            // A backup came back, or another registry of this name answers: whose agents these are is the reader's to judge.
            tracing::warn!(region = %self.view.region(), %before, now = %position, "the state is of another history now");
        }
        // What is published already is not replaced by a state that does not know its age: readers would see it a day
        // old for a moment, and over their limit.
        let is_held = self.unheard && self.published;
        if next == Next::Publish && !is_held {
            self.published = true;
            (self.publish)(News::State(&self.view));
            if let Some(copies) = &mut self.copies
                && !self.unheard
            {
                copies.offer(&self.view, &self.clock);
            }
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use rollcall_model::{Incarnation, Position, Query, Region, Revision, Snapshot, State, Timestamp};

    use super::*;

    fn region() -> Region {
        Region::parse("us").unwrap()
    }

    /// What a cell sends of an empty region in its history of this ordinal: a snapshot, and then a bookmark.
    fn events(ordinal: u16) -> Vec<Event> {
        let position = Position::new(Incarnation::new(ordinal, "a").unwrap(), Revision(1));
        let mut view = View::new(region());
        view.install(Snapshot::of(region(), position, State::default()), None, "started", Timestamp(0));
        let mark = rollcall_model::Bookmark {
            age: Some(Duration::from_secs(1)),
            ..view.bookmark(Instant::default()).unwrap()
        };
        view.mark(&mark, Instant::default());
        let mut cursor = rollcall_model::Cursor::new(Query::default(), None);
        let mut events = Vec::new();
        loop {
            let more = cursor.advance(&view, Instant::default());
            if more.is_empty() {
                return events;
            }
            events.extend(more);
        }
    }

    #[test]
    fn no_reader_sees_a_resynced_state_before_its_age_is_known() {
        let published = Arc::new(Mutex::new(Vec::new()));
        let clock = Clock::new(|| Duration::ZERO, || 0);
        let watches = Arc::new(Watches::new(&["http://127.0.0.1:1".to_owned()]).unwrap());
        let publish = |news: News<'_>| {
            let News::State(view) = news else { return };
            let ordinal = view.position().map(|position| position.incarnation.ordinal());
            published.lock().unwrap().push((ordinal, view.age(Instant::default()).unwrap().as_secs()));
        };
        let mut following = Following::new(watches, View::new(region()), None, None, clock, publish);
        for ordinal in [1, 2] {
            let mut follower = Follower::new(None);
            for event in events(ordinal) {
                following.take(&mut follower, event, Instant::default());
            }
        }
        // The first load is published at once: a state of unknown age is more than none.
        assert_eq!(*published.lock().unwrap(), [(Some(1), 86_400), (Some(1), 1), (Some(2), 1)]);
    }
}
