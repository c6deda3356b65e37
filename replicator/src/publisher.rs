//! Publishes the own cell's feed to the log: deltas and bookmarks as they come, a snapshot now and then.
//!
//! Promises: the chain goes on where the log's tail ends (I33), also across restarts; only the own region is published (I35);
//! while the log is away the cell's stream is not read, so nothing piles up here, and afterwards what was missed comes
//! from the cell's history or in a snapshot (F26). It never makes a cell wait, and never keeps a cursor of its own: the log's
//! tail is the cursor, which also tells what became of appends without an answer. Where somebody else publishes the region,
//! it stands by and takes over when the feed falls behind the cell.

mod pages;
pub mod plan;
pub mod standby;
mod status;
mod waiting;

use std::convert::Infallible;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use rollcall_model::{Backoff, Clock, Event, Follower, Instant, Next, Position, Region, View};
use rollcall_proto::convert::FeedItem;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::chance;
use crate::feed_log::{Appender, Appending, Drift, FeedLog, LogError, Topic, newest, record};
use crate::metrics::Figures;
use crate::source::{Events, Source, SourceError};
use plan::{Offer, Owed, Plan, Schedule};
use standby::Rival;

pub use status::{Doing, Status, Unanswered};

/// First and longest wait between two tries, full jitter: views are to be current ten seconds after the log is back.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// A session that lived this long ends the row of failures.
const LASTING: Duration = Duration::from_secs(10);
/// How often time alone is looked at: schedules are in minutes, a stall in seconds.
const TICK: Duration = Duration::from_millis(250);
/// How often the snapshot topic is looked for: nothing else notices for minutes when somebody removes it.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The task that publishes one region.
pub struct Publisher<L> {
    region: Region,
    log: L,
    source: Source,
    schedule: Schedule,
    clock: Clock,
    figures: Figures,
    status: watch::Sender<Status>,
    view: View,
    /// The next session leaves out what the feed lacks and begins at the own state; the reason why.
    jump: Option<&'static str>,
    owed: Owed,
    /// Behind the last record that the log has acknowledged.
    known: Option<u64>,
    /// The log has taken records of this publisher, and it has left the feed to nobody since: it goes on at once.
    is_publishing: bool,
}

/// A view to write snapshots from. Who follows the region follows the log.
fn unfollowed(region: &Region) -> View {
    View::new(region.clone()).without_history()
}

/// Why a session ended; the next one begins after a wait.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("the cell's feed does not continue: {0}")]
    Restart(&'static str),
    #[error("another publishes this region too")]
    Left,
}

type Writing = Pin<Box<dyn Future<Output = Result<u64, LogError>> + Send>>;
type Looking = Pin<Box<dyn Future<Output = Result<Range<u64>, LogError>> + Send>>;

impl<L: FeedLog> Publisher<L> {
    /// A publisher, and where its status shows.
    pub fn new(
        region: Region,
        log: L,
        source: Source,
        schedule: Schedule,
        clock: Clock,
        figures: Figures,
    ) -> (Self, watch::Receiver<Status>) {
        let (status, shown) = watch::channel(Status::default());
        let view = unfollowed(&region);
        let owed = Owed { due: None, snapshot_at: clock.now() };
        let (jump, known) = (None, None);
        let is_publishing = false;
        let publisher = Self {
            region,
            log,
            source,
            schedule,
            clock,
            figures,
            status,
            view,
            jump,
            owed,
            known,
            is_publishing,
        };
        (publisher, shown)
    }

    /// Begins as one that published before: whatever another does, until it has been seen for a while.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn at_once(mut self) -> Self {
        self.is_publishing = true;
        self
    }

    /// Publishes until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        let mut backoff = Backoff::new(RETRY.0, RETRY.1);
        loop {
            let began = self.clock.now();
            let ended = tokio::select! {
                () = cancel.cancelled() => return,
                Err(ended) = Box::pin(self.session()) => ended,
            };
            if self.clock.now().since(began) >= LASTING {
                backoff.reset();
            }
            if matches!(ended, Ended::Left) {
                tracing::info!(region = %self.region, "another publishes this region too: leaving it to that one");
                self.is_publishing = false;
                continue;
            }
            let was_waiting = self.status.borrow().waiting_for.is_some();
            let reason = match &ended {
                Ended::Log(error) => format!("{error} (log at {})", self.log.address()),
                Ended::Source(_) | Ended::Restart(_) | Ended::Left => ended.to_string(),
            };
            // Once for each outage; its later tries are steps of one and the same.
            if was_waiting {
                tracing::debug!(region = %self.region, reason, "publishing is still interrupted");
            } else {
                tracing::warn!(region = %self.region, reason, "publishing is interrupted");
            }
            self.status.send_modify(|status| status.waiting_for = Some(reason));
            match ended {
                Ended::Restart(reason) => {
                    // What was published no longer follows from what the cell has: only a snapshot ends the doubt of
                    // those who follow.
                    self.view = unfollowed(&self.region);
                    self.jump = Some(reason);
                }
                Ended::Source(SourceError::TooLarge) => {
                    // Only a snapshot brings it, and the chain cannot go through it.
                    self.view = unfollowed(&self.region);
                    self.jump = Some("too_large");
                }
                Ended::Log(_) | Ended::Source(_) | Ended::Left => {}
            }
            tokio::select! {
                () = cancel.cancelled() => return,
                () = tokio::time::sleep(backoff.next(chance::draw())) => {}
            }
        }
    }

    /// From the log's tail on until something breaks.
    async fn session(&mut self) -> Result<Infallible, Ended> {
        let mut own = self.load().await?;
        let drift = self.log.ensure(&self.region).await?;
        self.note(drift);
        let mut tail = newest::feed_tail(&self.log, &self.region, self.known).await?;
        if !self.is_publishing && tail.position.is_some() {
            self.stand_by(tail).await?;
            own = self.load().await?;
            tail = newest::feed_tail(&self.log, &self.region, self.known).await?;
        }
        let snapshot = newest::snapshot_tail(&self.log, &self.region).await?;
        let snapshot = snapshot.as_ref().map(|(head, offset)| (&head.position, *offset));
        let mut plan = Plan::begin(self.schedule, &tail, &own, snapshot, self.owed, self.clock.now());
        if let Some(reason) = self.jump {
            plan.jumped(&own, reason);
        }
        let since = plan.since(&own);
        let events = self.source.open(Some(&since)).await?;
        self.jump = None;
        self.known = Some(tail.offsets.end);
        tracing::info!(region = %self.region, tail = ?tail.position, offsets = ?tail.offsets, %since, "publishing");
        self.status.send_modify(|status| {
            status.waiting_for = None;
            status.unanswered = None;
            status.is_standing_by = false;
            status.heard_at = Some(self.clock.now());
        });
        let ended = self.forward(&mut plan, events).await;
        self.owed = plan.owed();
        ended
    }

    /// Says what the topics are otherwise than wanted, once. It works as they are, so nothing waits for it.
    fn note(&self, drift: Vec<Drift>) {
        if self.status.borrow().drift == drift {
            return;
        }
        for Drift { topic, setting, found, wanted } in &drift {
            tracing::warn!(region = %self.region, %topic, setting, found, wanted, "a topic is not as it would be created");
        }
        self.status.send_modify(|status| status.drift = drift);
    }

    /// The own state, read from the cell whole where there is none yet: snapshots are written from it.
    async fn load(&mut self) -> Result<Position, Ended> {
        if let Some(position) = self.view.position() {
            return Ok(position.clone());
        }
        let mut events = self.source.open(None).await?;
        let mut follower = Follower::new(None);
        loop {
            let event = events.next().await?;
            let next = follower.accept(&mut self.view, event, self.clock.now(), self.clock.wall());
            if let Next::Restart(reason) = next {
                return Err(Ended::Restart(reason));
            }
            if let Some(position) = self.view.position() {
                return Ok(position.clone());
            }
        }
    }

    async fn forward(&mut self, plan: &mut Plan, mut events: Events) -> Result<Infallible, Ended> {
        // Ends with the session, and with it what is under way: the next session trusts the tail alone.
        let appender = self.log.appender()?;
        let mut follower = Follower::new(None);
        let mut under_way: FuturesOrdered<Tagged> = FuturesOrdered::new();
        let mut writing: Option<Writing> = None;
        let mut looking: Option<Looking> = None;
        let mut looked_at = self.clock.now();
        let mut rival = Rival::default();
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let now = self.clock.now();
            if writing.is_none()
                && let Some(own) = self.view.position()
                && let Some(reason) = plan.snapshot_due(own, now)
                && let Some(snapshot) = self.view.snapshot()
            {
                let offset = plan.snapshot_begun(now);
                tracing::info!(region = %self.region, at = %snapshot.head().position, reason, "writing a snapshot");
                writing = Some(Box::pin(pages::write(appender.clone(), snapshot, offset)));
            }
            tokio::select! {
                Some((taken, to, kind)) = under_way.next() => {
                    let offset = taken?;
                    let now = self.clock.now();
                    if plan.acknowledged(offset, now) {
                        rival.seen(now, chance::draw());
                    }
                    self.is_publishing = true;
                    self.known = Some(offset + 1);
                    self.figures.published(kind, 1);
                    self.status.send_modify(|status| {
                        status.position = Some(to);
                        status.heard_at = Some(now);
                        status.unanswered = None;
                    });
                }
                event = events.next(), if plan.has_room() => {
                    if let Some(tagged) = self.take(event?, &mut follower, plan, &appender)? {
                        under_way.push_back(tagged);
                    }
                }
                Some(written) = maybe(&mut writing) => {
                    writing = None;
                    self.figures.published("snapshot_page", written?);
                    plan.snapshot_written();
                }
                Some(looked) = maybe(&mut looking) => {
                    looking = None;
                    match looked {
                        Ok(there) => plan.snapshots_end_at(there.end),
                        // The next session makes it again, and writes what belongs in it.
                        Err(error @ LogError::NoTopic(_)) => return Err(error.into()),
                        Err(error) => tracing::debug!(region = %self.region, %error, "no look at the snapshots"),
                    }
                }
                _ = ticks.tick() => {
                    let unanswered = plan.waits_since().map(|since| self.unanswered(since, &appender));
                    self.status.send_if_modified(|status| {
                        let is_news = status.unanswered != unanswered;
                        status.unanswered = unanswered;
                        is_news
                    });
                    if looking.is_none() && self.clock.now().since(looked_at) >= LOOK_EVERY {
                        looked_at = self.clock.now();
                        let (log, topic) = (self.log.clone(), Topic::snapshot(&self.region));
                        looking = Some(Box::pin(async move { log.ends(&topic).await }));
                    }
                    if rival.is_to_leave(self.clock.now()) {
                        return Err(Ended::Left);
                    }
                    if plan.is_stalled(self.clock.now()) {
                        return Err(LogError::Away("records have waited too long".into()).into());
                    }
                }
            }
        }
    }

    fn unanswered(&self, since: Instant, appender: &L::Appender) -> Unanswered {
        let (said, address) = (appender.trouble(), self.log.address());
        let trouble = said.unwrap_or_else(|| "it says nothing".to_owned());
        Unanswered { since, trouble: format!("{trouble} (log at {address})") }
    }

    /// Takes one event into the own state and, if the feed needs it, hands it to the log.
    fn take(
        &mut self,
        event: Event,
        follower: &mut Follower,
        plan: &mut Plan,
        appender: &L::Appender,
    ) -> Result<Option<Tagged>, Ended> {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let item = match &event {
            Event::Delta(delta) => Some(FeedItem::Delta(delta.clone())),
            Event::Bookmark(bookmark) => Some(FeedItem::Bookmark(bookmark.clone())),
            Event::SnapshotBegin(_) | Event::Page(_) | Event::SnapshotEnd(_, _) | Event::Resync(_, _) => None,
        };
        let resyncs = self.view.resyncs();
        let next = follower.accept(&mut self.view, event, now, wall);
        if let Next::Restart(reason) = next {
            return Err(Ended::Restart(reason));
        }
        if self.view.resyncs() > resyncs
            && let (Some(position), Some(resync)) = (self.view.position(), self.view.last_resync())
        {
            plan.jumped(position, resync.reason);
        }
        let item = match item {
            // As the cell said it, for the cell knows where its last change was; and only if the own state is what it
            // says. It is appended at once or never, so its age is still true.
            Some(FeedItem::Bookmark(bookmark)) if next == Next::Publish => FeedItem::Bookmark(bookmark),
            Some(FeedItem::Delta(delta)) => FeedItem::Delta(delta),
            Some(FeedItem::Bookmark(_)) | None => return Ok(None),
        };
        let kind = match &item {
            FeedItem::Delta(_) => "delta",
            FeedItem::Bookmark(_) => "bookmark",
        };
        let to = record::ends(&item).2.clone();
        let outgoing = record::outgoing(&item);
        match plan.offer(&item, outgoing.body.len(), now) {
            Offer::LeaveOut => Ok(None),
            Offer::TooLarge => {
                tracing::warn!(region = %self.region, to = %to, bytes = outgoing.body.len(), "delta goes out as a snapshot");
                Ok(None)
            }
            Offer::Append => Ok(Some(Tagged {
                appending: appender.append(&Topic::feed(&self.region), outgoing),
                to,
                kind,
            })),
        }
    }
}

/// An append with what it carries.
struct Tagged {
    appending: Appending,
    to: Position,
    kind: &'static str,
}

impl Future for Tagged {
    type Output = (Result<u64, LogError>, Position, &'static str);

    fn poll(mut self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> std::task::Poll<Self::Output> {
        let taken = std::task::ready!(self.appending.as_mut().poll(context));
        std::task::Poll::Ready((taken, self.to.clone(), self.kind))
    }
}

/// Waits for what is being done, if it is.
async fn maybe<T>(doing: &mut Option<Pin<Box<dyn Future<Output = T> + Send>>>) -> Option<T> {
    match doing {
        Some(doing) => Some(doing.await),
        None => None,
    }
}
