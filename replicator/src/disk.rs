//! A view's copy on disk: state and place in the feed in one file, so that they can never disagree.
//!
//! Promises: what is loaded is whole, verified and of the region asked for; a file that is not is passed over and said. A
//! disk that refuses costs nothing but the copy.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use rollcall_model::planted::{self, Bug};
use rollcall_model::{Clock, Heard, Instant, Position, Region, Snapshot, View};
use rollcall_proto::disk::{self, LogPlace, Newest, Saved};
use rollcall_runtime::files::{self, DirLock};
use rollcall_runtime::unsaved::Unsaved;
use tokio::task::{JoinError, JoinHandle};

use crate::feed_log::Topic;

/// A view changes every second; a crash costs the reading of these few seconds again.
const SAVE_EVERY: Duration = Duration::from_secs(5);
/// A large view is saved less often: writing takes at most a twentieth of the time.
const SAVE_SHARE: u32 = 20;

/// Where the copy of one region's view is; nowhere, if none is kept.
#[derive(Debug)]
pub struct Copy {
    file: Option<PathBuf>,
    /// Held as long as anybody may still write: two replicators on one directory would mix their copies.
    _lock: Option<Arc<DirLock>>,
    next: Instant,
    saved: Option<(Position, Option<u64>)>,
    /// What would have been saved the last time; only a planted bug has any use for it.
    before: Option<Snapshot>,
    /// The file that is being written, beside whoever follows the feed.
    writing: Option<JoinHandle<Written>>,
    /// Who is told of a copy that cannot be written.
    unsaved: Unsaved,
}

/// State and place of a copy that was written, or was not.
#[derive(Debug)]
struct Written {
    what: (Position, Option<u64>),
    took: Duration,
    result: std::io::Result<()>,
}

impl Copy {
    /// A copy that is not kept.
    #[must_use]
    pub fn nowhere() -> Self {
        Self {
            file: None,
            _lock: None,
            next: Instant::default(),
            saved: None,
            before: None,
            writing: None,
            unsaved: Unsaved::default(),
        }
    }

    /// A copy in this file, whose directory is locked; what cannot be written is told there.
    #[must_use]
    pub fn at(file: PathBuf, lock: Arc<DirLock>, unsaved: Unsaved) -> Self {
        Self { file: Some(file), _lock: Some(lock), unsaved, ..Self::nowhere() }
    }

    /// Loads the view with its place in the feed. The age counts the downtime ([`rollcall_model::Moment::ago`]).
    pub async fn load(&self, region: &Region, clock: &Clock) -> (View, Option<u64>) {
        let mut view = View::new(region.clone());
        let Some(file) = self.file.clone() else { return (view, None) };
        let wanted = region.clone();
        let read = tokio::task::spawn_blocking(move || newest_good(&file, &wanted)).await;
        let Ok(Some(saved)) = read else { return (view, None) };
        let heard = Heard { at: clock.now(), age: saved.saved_at.ago(&clock.moment()) };
        view.install(saved.snapshot, Some(heard), "disk", clock.wall());
        let feed = Topic::feed(region);
        let place = saved.log.filter(|log| log.topic == feed.name()).map(|log| log.next_offset);
        tracing::info!(%region, position = ?view.position(), ?place, "view loaded from disk");
        (view, place)
    }

    /// Begins to save if anything is new and it is time, and returns at once: whoever follows a feed must not stand still
    /// while a large view goes to disk.
    pub fn save_when_due(&mut self, view: &View, place: Option<u64>, clock: &Clock) {
        if self.writing.as_ref().is_some_and(JoinHandle::is_finished)
            && let Some(written) = self.writing.take().and_then(|writing| writing.now_or_never())
        {
            self.written(view.region(), written, clock.now());
        }
        if self.writing.is_none() && clock.now() >= self.next {
            self.begin(view, place, clock);
        }
    }

    /// Saves if anything is new, and waits for it.
    pub async fn save(&mut self, view: &View, place: Option<u64>, clock: &Clock) {
        self.settle(view.region(), clock).await;
        self.begin(view, place, clock);
        self.settle(view.region(), clock).await;
    }

    fn begin(&mut self, view: &View, place: Option<u64>, clock: &Clock) {
        let (Some(file), Some(snapshot)) = (self.file.clone(), view.snapshot()) else { return };
        let snapshot = match planted::is(Bug::OffsetBeforeView) {
            true => self.before.replace(snapshot.clone()).unwrap_or(snapshot),
            false => snapshot,
        };
        let what = (snapshot.head().position.clone(), place);
        let now = clock.now();
        self.next = now.plus(SAVE_EVERY);
        if self.saved.as_ref() == Some(&what) {
            return;
        }
        // The file is as old as the state in it, so that loading it counts both.
        let age = view.age(now).unwrap_or_default();
        let saved = Saved {
            log: place.map(|next_offset| LogPlace {
                topic: Topic::feed(view.region()).name().to_owned(),
                next_offset,
            }),
            snapshot,
            saved_at: clock.moment().before(age),
            beat: None,
            history: Vec::new(),
        };
        let clock = clock.clone();
        self.writing = Some(tokio::task::spawn_blocking(move || {
            let began = clock.now();
            let result = files::replace(&file, &disk::encode(&saved));
            Written { what, took: clock.now().since(began), result }
        }));
    }

    async fn settle(&mut self, region: &Region, clock: &Clock) {
        if let Some(writing) = &mut self.writing {
            let written = writing.await;
            self.writing = None;
            self.written(region, written, clock.now());
        }
    }

    fn written(&mut self, region: &Region, written: Result<Written, JoinError>, now: Instant) {
        let failed = match written {
            Ok(Written { what, took, result: Ok(()) }) => {
                self.unsaved.written(region.as_str());
                self.saved = Some(what);
                self.next = self.next.max(now.plus(took * SAVE_SHARE));
                return;
            }
            Ok(Written { result: Err(error), .. }) => error.to_string(),
            Err(error) => error.to_string(),
        };
        self.unsaved.failed(region.as_str(), &failed);
    }
}

fn newest_good(file: &std::path::Path, region: &Region) -> Option<Saved> {
    let Newest { found, unusable } = disk::newest(region, files::read_generations(file));
    for (path, why) in unusable {
        tracing::warn!(path = %path.display(), %region, why, "copy on disk cannot be used");
    }
    let (path, saved) = found?;
    files::name_newest(file, &path);
    Some(saved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Origin;

    /// A disk that does not answer keeps the threads that wait for it; here there is one, and it is kept.
    #[test]
    fn a_disk_that_does_not_answer_holds_up_nobody_who_follows() {
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        let (answers, disk) = std::sync::mpsc::channel::<()>();
        runtime.spawn_blocking(move || disk.recv());
        let clock = Clock::new(|| Duration::from_secs(100), || 1_700_000_000_000);
        let folder = tempfile::tempdir().unwrap();
        let lock = Arc::new(files::lock_dir(folder.path()).unwrap());
        let file = folder.path().join("view.us-east.state");
        let mut origin = Origin::new("us-east", "1-a");
        origin.put("ops/mail/1");
        let mut copy = Copy::at(file.clone(), lock, Unsaved::default());
        runtime.block_on(async {
            for place in 1..100 {
                copy.save_when_due(origin.view(), Some(place), &clock);
            }
            assert!(
                copy.writing.is_some() && !file.exists(),
                "it is being written, and everything else goes on"
            );
            answers.send(()).unwrap();
            copy.settle(origin.view().region(), &clock).await;
            assert!(!std::fs::read(&file).unwrap().is_empty());
            copy.save(origin.view(), Some(200), &clock).await;
            assert_eq!(
                copy.load(origin.view().region(), &clock).await.1,
                Some(200),
                "the last one is on disk"
            );
        });
    }
}
