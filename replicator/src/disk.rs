//! A view's copy on disk: state and place in the feed in one file, so that they can never disagree.
//!
//! Promises: what is loaded is whole, verified and of the region asked for; a file that is not is passed over and said. A
//! disk that refuses costs nothing but the copy.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rollcall_model::planted::{self, Bug};
use rollcall_model::{Clock, Heard, Instant, Region, Snapshot, View};
use rollcall_proto::disk::{self, LogPlace, Saved};
use rollcall_runtime::files::{self, DirLock};

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
    saved: Option<(rollcall_model::Position, Option<u64>)>,
    /// What would have been saved the last time; only a planted bug has any use for it.
    before: Option<Snapshot>,
}

impl Copy {
    /// A copy that is not kept.
    #[must_use]
    pub fn nowhere() -> Self {
        Self { file: None, _lock: None, next: Instant::default(), saved: None, before: None }
    }

    /// A copy in this file, whose directory is locked.
    #[must_use]
    pub fn at(file: PathBuf, lock: Arc<DirLock>) -> Self {
        Self { file: Some(file), _lock: Some(lock), ..Self::nowhere() }
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

    /// Saves if anything is new and it is time.
    pub async fn save_when_due(&mut self, view: &View, place: Option<u64>, clock: &Clock) {
        if clock.now() >= self.next {
            self.save(view, place, clock).await;
        }
    }

    /// Saves if anything is new.
    pub async fn save(&mut self, view: &View, place: Option<u64>, clock: &Clock) {
        let (Some(file), Some(snapshot)) = (self.file.clone(), view.snapshot()) else { return };
        let snapshot = match planted::is(Bug::OffsetBeforeView) {
            true => self.before.replace(snapshot.clone()).unwrap_or(snapshot),
            false => snapshot,
        };
        let what = (snapshot.head().position.clone(), place);
        if self.saved.as_ref() == Some(&what) {
            return;
        }
        let began = clock.now();
        // The file is as old as the state in it, so that loading it counts both.
        let age = view.age(began).unwrap_or_default();
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
        let written = tokio::task::spawn_blocking(move || files::replace(&file, &disk::encode(&saved))).await;
        let failed = match written {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        match failed {
            None => self.saved = Some(what),
            Some(error) => {
                tracing::error!(region = %view.region(), %error, "view not saved; the copy before it stays");
            }
        }
        let now = clock.now();
        self.next = now.plus(SAVE_EVERY.max(now.since(began) * SAVE_SHARE));
    }
}

fn newest_good(file: &std::path::Path, region: &Region) -> Option<Saved> {
    for (path, bytes) in files::read_generations(file) {
        let read = bytes.map_err(|error| error.to_string());
        match read.and_then(|bytes| disk::decode(&bytes).map_err(|error| error.to_string())) {
            Ok(saved) if saved.snapshot.head().region == *region => return Some(saved),
            Ok(saved) => {
                let found = &saved.snapshot.head().region;
                tracing::warn!(path = %path.display(), %region, %found, "copy on disk is of another region");
            }
            Err(error) => tracing::warn!(path = %path.display(), %error, "copy on disk cannot be used"),
        }
    }
    None
}
