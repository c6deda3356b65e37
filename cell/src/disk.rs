//! A view's copy on disk: what a cell serves while its store or replicator is away.

use std::path::PathBuf;
use std::time::Duration;

use rollcall_model::{Clock, Heard, History, Position, Region, Revision, View, limits};
use rollcall_proto::disk::{self, Newest, Saved};
use rollcall_proto::store::Beat;
use rollcall_runtime::files;
use rollcall_runtime::unsaved::Unsaved;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Reads the generation that is newest by what is in it, whole and of this region; a damaged one is reported and passed
/// over.
pub async fn load(file: Option<PathBuf>, region: &Region) -> Option<Saved> {
    let file = file?;
    let region = region.clone();
    let read = tokio::task::spawn_blocking(move || {
        let Newest { found, unusable } = disk::newest(&region, files::read_generations(&file));
        for (path, why) in unusable {
            tracing::warn!(path = %path.display(), %region, why, "disk copy cannot be used");
        }
        let (path, saved) = found?;
        files::name_newest(&file, &path);
        Some(saved)
    });
    read.await.ok().flatten()
}

/// Puts a disk copy into an empty view. Its age counts the downtime ([`rollcall_model::Moment::ago`]).
/// Those who followed the process before this one, and were a little behind it, go on by deltas.
///
/// A copy is never called current, however young it is: its process may have shown more before it died, and this one
/// has not heard its origin yet (I17, I20).
pub fn install(view: &mut View, saved: Saved, clock: &Clock) {
    let age = saved.saved_at.ago(&clock.moment()).max(limits::CURRENT_AGE);
    let heard = Heard { at: clock.now(), age };
    view.install(saved.snapshot, Some(heard), "disk", clock.wall());
    let steps = saved.history.len();
    if steps > 0 && !view.recall(saved.history) {
        tracing::warn!(region = %view.region(), steps, "the history beside the disk copy does not lead to it; not used");
    }
}

/// Writes a view to disk now and then, beside whoever follows it. A failure is reported and the old copy stays.
pub struct Saver {
    file: Option<PathBuf>,
    every: Duration,
    /// Not before.
    next: Instant,
    /// From when on the writer's share of the time lets it write again.
    rested: Instant,
    saved: Option<Position>,
    writing: Option<JoinHandle<Written>>,
    unsaved: Unsaved,
}

struct Written {
    region: Region,
    position: Position,
    took: Duration,
    result: std::io::Result<()>,
}

/// Of the time, a writer takes one part in so many at most: the copy of a million registrations takes seconds of a
/// core, and a cell has other things to do.
const SHARE: u32 = 20;

impl Saver {
    /// Saves to this file, at most this often; nowhere without a file.
    #[must_use]
    pub fn new(file: Option<PathBuf>, every: Duration, unsaved: Unsaved) -> Self {
        let now = Instant::now();
        Self { file, every, next: now + every, rested: now, saved: None, writing: None, unsaved }
    }

    /// Does not wait for the next time: who is followed went away, and what it said last may soon be nowhere else.
    pub fn hurry(&mut self) {
        self.next = self.next.min(self.rested);
    }

    /// Resolves when it is time to save and nothing is being written. Dropped, it loses nothing.
    pub async fn due(&mut self) {
        self.written().await;
        tokio::time::sleep_until(self.next).await;
    }

    /// Begins to save if anything is new, and returns at once: whoever follows a history must not stand still for it.
    pub fn save(&mut self, view: &View, beat: Option<&(Beat, Revision)>, clock: &Clock) {
        self.next = Instant::now() + self.every;
        let (Some(file), Some(snapshot)) = (self.file.clone(), view.snapshot()) else { return };
        let position = snapshot.head().position.clone();
        if self.saved.as_ref() == Some(&position) || self.writing.is_some() {
            return;
        }
        // The copy is as old as the state is now, not as the file.
        let age = view.age(clock.now()).unwrap_or_default();
        let saved_at = clock.moment().before(age);
        let (region, history) =
            (view.region().clone(), view.history().map(History::tail).unwrap_or_default());
        let saved = Saved { snapshot, saved_at, log: None, beat: beat.cloned(), history };
        self.writing = Some(tokio::task::spawn_blocking(move || {
            let began = Instant::now();
            let result = files::replace(&file, &disk::encode(&saved));
            Written { region, position, took: began.elapsed(), result }
        }));
    }

    /// Saves for the last time, and waits for it.
    pub async fn save_last(mut self, view: &View, beat: Option<&(Beat, Revision)>, clock: &Clock) {
        self.written().await;
        self.save(view, beat, clock);
        self.written().await;
    }

    async fn written(&mut self) {
        let Some(writing) = &mut self.writing else { return };
        match writing.await {
            Ok(Written { region, position, took, result: Ok(()) }) => {
                self.unsaved.written(region.as_str());
                self.saved = Some(position);
                self.rested = Instant::now() + took * SHARE;
                self.next = self.next.max(self.rested);
            }
            Ok(Written { region, result: Err(error), .. }) => {
                self.unsaved.failed(region.as_str(), &error.to_string());
            }
            Err(error) => tracing::error!(%error, "disk copy not written; the old one stays"),
        }
        self.writing = None;
    }
}

#[cfg(test)]
mod tests {
    use rollcall_model::testing::{Chance, Origin, region};
    use rollcall_model::{Cursor, Event, Freshness, Instant, Query, Timestamp};

    use super::*;

    #[tokio::test]
    async fn rcv_02_who_was_a_little_behind_when_a_cell_stopped_goes_on_by_deltas_when_it_starts() {
        let clock = Clock::new(|| Duration::from_secs(100), || 1_700_000_000_000);
        let folder = tempfile::tempdir().unwrap();
        let file = Some(folder.path().join("us.state"));
        let mut origin = Origin::new(7);
        (0..30).for_each(|_| origin.step());
        let start = origin.head();
        let mut view = View::new(region());
        view.install(origin.snapshot(&start), None, "test", Timestamp(0));
        (0..5).for_each(|_| origin.change());
        for delta in origin.cut(&start, &mut Chance::new(7)) {
            view.apply(&delta);
        }
        Saver::new(file.clone(), Duration::from_secs(10), Unsaved::default())
            .save_last(&view, None, &clock)
            .await;

        let mut anew = View::new(region());
        install(&mut anew, load(file, &region()).await.unwrap(), &clock);
        assert_eq!(anew.position(), view.position());
        let told = |view: &View| {
            Cursor::new(Query::default(), Some(start.clone())).advance(view, Instant::default())
        };
        assert!(matches!(told(&anew).as_slice(), [Event::Delta(_)]), "a delta, and no snapshot");
        assert_eq!(told(&anew), told(&view));
    }

    #[tokio::test]
    async fn i17_i20_a_copy_that_was_saved_a_moment_ago_is_not_current_before_its_origin_is_heard() {
        let clock = Clock::new(|| Duration::from_secs(100), || 1_700_000_000_000);
        let folder = tempfile::tempdir().unwrap();
        let file = Some(folder.path().join("us.state"));
        let mut origin = Origin::new(9);
        (0..5).for_each(|_| origin.step());
        let mut view = View::new(region());
        let now = Heard { at: clock.now(), age: Duration::ZERO };
        view.install(origin.snapshot(&origin.head()), Some(now), "test", Timestamp(0));
        Saver::new(file.clone(), Duration::ZERO, Unsaved::default()).save_last(&view, None, &clock).await;
        let mut anew = View::new(region());
        install(&mut anew, load(file, &region()).await.unwrap(), &clock);
        assert_eq!(anew.freshness(clock.now()), Freshness::Behind);
        anew.mark(&origin.bookmark(&origin.head(), Duration::ZERO), clock.now());
        assert_eq!(anew.freshness(clock.now()), Freshness::Current);
    }

    #[tokio::test]
    async fn f34_a_copy_that_cannot_be_written_leaves_the_one_before_and_the_next_one_is_tried() {
        let clock = Clock::new(|| Duration::from_secs(100), || 1_700_000_000_000);
        let base = tempfile::tempdir().unwrap();
        let (folder, aside) = (base.path().join("data"), base.path().join("aside"));
        std::fs::create_dir(&folder).unwrap();
        let file = Some(folder.join("us.state"));
        let mut origin = Origin::new(8);
        (0..10).for_each(|_| origin.step());
        let mut saver = Saver::new(file.clone(), Duration::ZERO, Unsaved::default());
        let mut save = async |origin: &Origin| {
            let mut view = View::new(region());
            view.install(origin.snapshot(&origin.head()), None, "test", Timestamp(0));
            saver.due().await;
            saver.save(&view, None, &clock);
            saver.written().await;
            origin.head()
        };
        let held =
            async || load(file.clone(), &region()).await.map(|saved| saved.snapshot.head().position.clone());
        let first = save(&origin).await;
        assert_eq!(held().await.as_ref(), Some(&first));

        // Nothing can be written where the folder was.
        std::fs::rename(&folder, &aside).unwrap();
        std::fs::write(&folder, b"in the way").unwrap();
        origin.change();
        save(&origin).await;
        std::fs::remove_file(&folder).unwrap();
        std::fs::rename(&aside, &folder).unwrap();
        assert_eq!(held().await, Some(first), "the one before is whole");
        origin.change();
        let third = save(&origin).await;
        assert_eq!(held().await, Some(third));
    }
}
