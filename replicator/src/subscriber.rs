//! Follows one region's feed into its view: the edge around the state machine in `machine`.
//!
//! Promises: whatever the log does, the shown view stays, the task goes on, and other regions' subscribers notice nothing.
//! It reads one topic pair, writes one file, and decides nothing.

pub mod age;
pub mod machine;

use std::sync::Arc;
use std::time::Duration;

use rollcall_model::{Clock, Region, View};
use rollcall_runtime::ready;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::chance;
use crate::disk::Copy;
use crate::feed_log::newest::{self, Wanted};
use crate::feed_log::{FeedLog, Follow, LogError, Topic};
use crate::metrics::Figures;
use machine::{Machine, Order, Step};

/// A feed that says nothing for this long is followed anew: bookmarks come every second, and a topic that was removed, or
/// made again, is silent.
const SILENCE: Duration = Duration::from_secs(10);

/// The task that follows one region.
pub struct Subscriber<L: FeedLog> {
    log: L,
    clock: Clock,
    figures: Figures,
    machine: Machine,
    published: watch::Sender<Arc<View>>,
    copy: Copy,
    ready: Option<ready::Handle>,
    /// The feed as it is being read, and the offset of its next record.
    reading: Option<(u64, L::Follow)>,
    /// The log did not answer, and that was said.
    is_away: bool,
}

impl<L: FeedLog> Subscriber<L> {
    /// Begins with the copy on disk, if there is one; also gives the view as it changes.
    pub async fn open(
        region: Region,
        log: L,
        copy: Copy,
        clock: Clock,
        figures: Figures,
        ready: ready::Handle,
    ) -> (Self, watch::Receiver<Arc<View>>) {
        let (view, place) = copy.load(&region, &clock).await;
        let machine = Machine::new(view, place, clock.now());
        let (published, shown) = watch::channel(Arc::new(machine.shown().clone()));
        let ready = Some(ready);
        let mut subscriber =
            Self { log, clock, figures, machine, published, copy, ready, reading: None, is_away: false };
        if subscriber.machine.shown().position().is_some() {
            subscriber.caught_up();
        }
        (subscriber, shown)
    }

    /// Follows until cancelled; saves the view at the end.
    pub async fn run(mut self, cancel: CancellationToken) {
        loop {
            tokio::select! {
                () = cancel.cancelled() => break,
                () = Box::pin(self.go_on()) => {}
            }
            self.copy.save_when_due(self.machine.shown(), self.machine.place(), &self.clock);
        }
        self.copy.save(self.machine.shown(), self.machine.place(), &self.clock).await;
    }

    /// Carries out one order. Cancelling it loses nothing.
    async fn go_on(&mut self) {
        let step = match self.machine.order(self.clock.now()) {
            Order::Wait(wait) => {
                tokio::time::sleep(wait).await;
                return;
            }
            Order::Find(wanted) => self.find(&wanted).await,
            Order::Read(offset) => self.read(offset).await,
        };
        let region = self.machine.shown().region();
        match step {
            Step::Nothing => {}
            Step::Applied => {
                self.figures.applied(region);
                self.publish();
            }
            Step::Refused(reason) => {
                tracing::debug!(%region, reason, place = ?self.machine.place(), "record refused");
                self.figures.refused(region, 1);
            }
            Step::Resync(reason) => {
                tracing::warn!(%region, reason, place = ?self.machine.place(), "view resyncs");
                self.figures.resync(region, reason);
                if matches!(reason, "unreadable" | "wrong_region") {
                    self.figures.refused(region, 1);
                }
                self.reading = None;
            }
            Step::Installed(reason) => {
                let position = self.machine.shown().position();
                tracing::info!(%region, reason, ?position, "view taken from a snapshot");
                self.publish();
                self.caught_up();
            }
        }
    }

    async fn find(&mut self, wanted: &Wanted) -> Step {
        let region = self.machine.shown().region().clone();
        let looked = newest::newest_snapshot(&self.log, &region, wanted).await;
        let (now, wall) = (self.clock.now(), self.clock.wall());
        match looked {
            Ok(looked) => {
                self.answered();
                self.figures.refused(&region, looked.refused);
                if looked.found.is_none() {
                    tracing::debug!(%region, ?wanted, "no snapshot of use");
                    // The log was asked and has nothing: that is all there is to wait for.
                    self.caught_up();
                }
                self.machine.found(looked.found, now, wall, chance::draw())
            }
            Err(LogError::NoTopic(topic)) => {
                tracing::debug!(%region, topic, "region has not published");
                self.answered();
                self.caught_up();
                self.machine.found(None, now, wall, chance::draw())
            }
            Err(error) => {
                self.unanswered(&error);
                self.machine.broke(&error, now, chance::draw())
            }
        }
    }

    async fn read(&mut self, offset: u64) -> Step {
        let region = self.machine.shown().region().clone();
        let mut follow = match self.reading.take().filter(|(next, _)| *next == offset) {
            Some((_, follow)) => follow,
            None => match self.log.follow(&Topic::feed(&region), offset).await {
                Ok(follow) => follow,
                Err(error) => {
                    self.unanswered(&error);
                    return self.machine.broke(&error, self.clock.now(), chance::draw());
                }
            },
        };
        match tokio::time::timeout(SILENCE, follow.next()).await {
            Ok(Ok(record)) => {
                self.answered();
                self.reading = Some((record.offset + 1, follow));
                self.machine.record(&record, self.clock.now(), self.clock.wall(), chance::draw())
            }
            Ok(Err(error)) => {
                self.unanswered(&error);
                self.machine.broke(&error, self.clock.now(), chance::draw())
            }
            // Followed anew, which asks where the topic begins and ends.
            Err(_) => Step::Nothing,
        }
    }

    /// Says that the log is away, once for each outage; the machine decides what to do about it.
    fn unanswered(&mut self, error: &LogError) {
        let (region, log) = (self.machine.shown().region(), self.log.address());
        if matches!(error, LogError::Away(_) | LogError::Refused(_)) && !self.is_away {
            self.is_away = true;
            tracing::warn!(%region, log, %error, "the region's feed cannot be read; its view stays as it is, and ages");
        } else {
            tracing::debug!(%region, log, %error, "the region's feed breaks off");
        }
    }

    fn answered(&mut self) {
        if std::mem::take(&mut self.is_away) {
            tracing::info!(region = %self.machine.shown().region(), log = self.log.address(), "the region's feed is read again");
        }
    }

    fn publish(&self) {
        self.published.send_replace(Arc::new(self.machine.shown().clone()));
    }

    fn caught_up(&mut self) {
        if let Some(ready) = self.ready.take() {
            ready.done();
        }
    }
}
