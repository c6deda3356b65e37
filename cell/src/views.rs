//! Views of other regions, followed from this region's replicator over the wire.
//!
//! A dead replicator, a dead Kafka or a dead region leaves the last copy in place, with its age (I36). Never here: a
//! write to any store (I35).

mod sources;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rollcall_model::{Backoff, Clock, Elsewhere, Event, Follower, Instant, Next, Region, View};
use rollcall_proto::asking::Asking;
use rollcall_proto::convert;
use rollcall_proto::v1::WatchRequest;
use rollcall_proto::v1::discovery_client::DiscoveryClient;
use rollcall_runtime::unsaved::Unsaved;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};

use crate::{disk, random};

pub use sources::Sources;

/// Views change less often than they are read; a crash costs a catch-up by delta.
const SAVE_EVERY: Duration = Duration::from_secs(10);
/// Largest message taken: one revision is never split, and a group commit can hold sixty cards.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Tries in a row that fail before people are told, once: a replicator that starts with its cell, or starts anew, is
/// there by then.
const TOLD_AFTER: u32 = 4;
/// How often a source that says nothing is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// A stream that says nothing for this long is dead: bookmarks come every second.
const SILENCE: Duration = Duration::from_secs(10);

/// The task that keeps one remote region's view.
pub struct RemoteView {
    view: View,
    /// The replicators that serve it; the first is the one that is followed, and after a failure the last.
    sources: VecDeque<Endpoint>,
    published: watch::Sender<Arc<View>>,
    clock: Clock,
    file: Option<PathBuf>,
    unsaved: Unsaved,
    /// What became of asking the sources.
    asked: Sources,
    elsewhere: Elsewhere,
}

impl RemoteView {
    /// Begins with the disk copy, if there is one.
    pub async fn open(
        region: Region,
        sources: Vec<Endpoint>,
        published: watch::Sender<Arc<View>>,
        clock: Clock,
        file: Option<PathBuf>,
    ) -> Self {
        let mut view = View::new(region).with_facets();
        if let Some(saved) = disk::load(file.clone(), view.region()).await {
            disk::install(&mut view, saved, &clock);
            published.send_replace(Arc::new(view.clone()));
        }
        let (unsaved, asked, elsewhere) = Default::default();
        Self { view, sources: sources.into(), published, clock, file, unsaved, asked, elsewhere }
    }

    /// The same that tells here of a copy that cannot be written, and of sources that fail.
    #[must_use]
    pub fn telling(self, unsaved: Unsaved, asked: Sources) -> Self {
        Self { unsaved, asked, ..self }
    }

    /// Runs until cancelled; saves the view at the end.
    pub async fn run(mut self, cancel: CancellationToken) {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
        let mut saver = disk::Saver::new(self.file.clone(), SAVE_EVERY, self.unsaved.clone());
        let mut restarted = None;
        let mut failed = 0;
        'run: loop {
            let position = self.view.position().cloned();
            let ended = tokio::select! {
                () = cancel.cancelled() => break,
                ended = self.follow(restarted, &mut saver, &mut backoff) => ended,
            };
            match ended {
                Ok(reason) => {
                    tracing::warn!(region = %self.view.region(), reason, "view resyncs");
                    restarted = Some(reason);
                    failed = 0;
                }
                Err(error) => {
                    saver.hurry();
                    failed = if self.view.position() == position.as_ref() { failed + 1 } else { 1 };
                    self.tell(&error, failed);
                    self.sources.rotate_left(1.min(self.sources.len()));
                    restarted = None;
                }
            }
            let again = tokio::time::Instant::now() + backoff.next(random::chance());
            loop {
                tokio::select! {
                    () = cancel.cancelled() => break 'run,
                    () = tokio::time::sleep_until(again) => break,
                    // A kill while the replicator is away must not cost what it said last.
                    () = saver.due() => saver.save(&self.view, None, &self.clock),
                }
            }
        }
        saver.save_last(&self.view, None, &self.clock).await;
    }

    fn tell(&self, error: &tonic::Status, failed: u32) {
        let source = self.sources.front().map(url).unwrap_or_default();
        let (region, why) = (self.view.region(), error.message());
        self.asked.fails(region, source.clone(), why);
        if failed == TOLD_AFTER {
            tracing::warn!(%region, source, why, "replicator of a view cannot be reached, trying on");
        } else {
            tracing::debug!(%region, source, why, "replicator of a view is away");
        }
    }

    /// Follows one stream to its end. `Ok` is the reason to begin from nothing; the view stays as it was.
    async fn follow(
        &mut self,
        restarted: Option<&'static str>,
        saver: &mut disk::Saver,
        backoff: &mut Backoff,
    ) -> Result<&'static str, tonic::Status> {
        let source =
            self.sources.front().ok_or_else(|| tonic::Status::unavailable("no replicator is named"))?;
        let channel: Channel =
            source.connect().await.map_err(|error| tonic::Status::unavailable(innermost(&error)))?;
        let mut client = DiscoveryClient::new(channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let since = if restarted.is_some() { None } else { self.view.position().map(convert::position) };
        let request = WatchRequest { region: self.view.region().as_str().to_owned(), query: None, since };
        let asked = self.clock.now();
        let answer = client.watch(request).await?;
        let mut asking = Asking::beside(channel, answer.metadata(), asked, &self.clock, random::chance());
        let mut stream = answer.into_inner();
        self.asked.answers(self.view.region(), url(source));
        let mut follower = Follower::new(restarted);
        let mut looks = tokio::time::interval(LOOK);
        let mut heard = self.clock.now();
        self.elsewhere.opened(self.view.age(heard), heard, random::chance());
        loop {
            let message = tokio::select! {
                biased;
                message = stream.message() => message?,
                () = saver.due() => {
                    saver.save(&self.view, None, &self.clock);
                    continue;
                }
                _ = looks.tick() => {
                    self.look(heard)?;
                    continue;
                }
            };
            let message = message.ok_or_else(|| tonic::Status::unavailable("the stream ended"))?;
            let mut event = match convert::event_from(message) {
                Ok(event) => event,
                Err(error) => {
                    tracing::error!(region = %self.view.region(), %error, "event not readable");
                    return Ok("unreadable");
                }
            };
            let now = self.clock.now();
            heard = now;
            if !matches!(event, Event::Bookmark(_) | Event::Resync(..)) {
                self.elsewhere.delivers(now);
            }
            asking.count(&mut event, now, random::chance());
            match follower.accept(&mut self.view, event, now, self.clock.wall()) {
                Next::Publish => {
                    backoff.reset();
                    self.published.send_replace(Arc::new(self.view.clone()));
                }
                Next::Nothing => {}
                Next::Restart(reason) => return Ok(reason),
                Next::Older => return Err(tonic::Status::unavailable(OLDER)),
            }
        }
    }

    /// Whether to follow this source on, which was last heard then.
    fn look(&mut self, heard: Instant) -> Result<(), tonic::Status> {
        let now = self.clock.now();
        let age = self.view.age(now);
        // A view that the replicator has not loaded either is silent and alive.
        if age.is_some() && now.since(heard) >= SILENCE {
            return Err(tonic::Status::unavailable("the stream fell silent"));
        }
        if !self.elsewhere.leaves(age, now) {
            return Ok(());
        }
        let state = if age.is_none() { "has no state of the region" } else { "knows nothing newer" };
        Err(tonic::Status::unavailable(format!("it answers, and {state}")))
    }
}

/// What is wrong with a source whose history is over.
const OLDER: &str = "it tells an older history of the region than is known here";

fn url(source: &Endpoint) -> String {
    source.uri().to_string().trim_end_matches('/').to_owned()
}

/// Those above it only repeat that something failed.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut at = error;
    while let Some(below) = at.source() {
        at = below;
    }
    at.to_string()
}
