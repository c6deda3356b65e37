//! A view's copy on disk: what a cell serves while its store or replicator is away.

use std::path::PathBuf;
use std::time::Duration;

use rollcall_model::{Clock, Heard, Region, Revision, View};
use rollcall_proto::disk::{self, Saved};
use rollcall_proto::store::Beat;
use rollcall_runtime::files;

/// Reads the newest generation that is whole and of this region; a damaged one is reported and passed over.
pub async fn load(file: Option<PathBuf>, region: &Region) -> Option<Saved> {
    let file = file?;
    let region = region.clone();
    let read = tokio::task::spawn_blocking(move || {
        for (path, bytes) in files::read_generations(&file) {
            let bytes = match bytes {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "disk copy not read");
                    continue;
                }
            };
            match disk::decode(&bytes) {
                Ok(saved) if saved.snapshot.head().region == region => return Some(saved),
                Ok(saved) => {
                    tracing::warn!(path = %path.display(), found = %saved.snapshot.head().region, "disk copy is of another region");
                }
                Err(error) => tracing::warn!(path = %path.display(), %error, "disk copy cannot be used"),
            }
        }
        None
    });
    read.await.ok().flatten()
}

/// Puts a disk copy into an empty view. Its age counts the downtime by the wall clock, and never less than nothing.
pub fn install(view: &mut View, saved: Saved, clock: &Clock) {
    let down = clock.wall().0.saturating_sub(saved.saved_at.0).max(0).unsigned_abs();
    let heard = Heard { at: clock.now(), age: Duration::from_millis(down) };
    view.install(saved.snapshot, Some(heard), "disk", clock.wall());
}

/// Writes a view to disk now and then. A failure is reported and the old copy stays.
pub struct Saver {
    file: Option<PathBuf>,
    ticks: tokio::time::Interval,
    saved: Option<rollcall_model::Position>,
}

impl Saver {
    /// Saves to this file, at most this often; nowhere without a file.
    #[must_use]
    pub fn new(file: Option<PathBuf>, every: Duration) -> Self {
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + every, every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        Self { file, ticks, saved: None }
    }

    /// Resolves when it is time to save.
    pub async fn due(&mut self) {
        self.ticks.tick().await;
    }

    /// Saves if anything is new.
    pub async fn save_now(&mut self, view: &View, beat: Option<&(Beat, Revision)>, clock: &Clock) {
        let Some(file) = self.file.clone() else { return };
        let Some(snapshot) = view.snapshot() else { return };
        let position = snapshot.head().position.clone();
        if self.saved.as_ref() == Some(&position) {
            return;
        }
        // The copy is as old as the state is now, not as the file.
        let age = view.age(clock.now()).unwrap_or_default();
        let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        let saved_at = rollcall_model::Timestamp(clock.wall().0.saturating_sub(age));
        let saved = Saved { snapshot, saved_at, log: None, beat: beat.cloned() };
        let written = tokio::task::spawn_blocking(move || files::replace(&file, &disk::encode(&saved))).await;
        match written {
            Ok(Ok(())) => self.saved = Some(position),
            Ok(Err(error)) => tracing::error!(%error, "disk copy not written; the old one stays"),
            Err(error) => tracing::error!(%error, "disk copy not written; the old one stays"),
        }
    }
}
