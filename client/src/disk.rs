//! The last good copy of one region's state on disk: what a process resolves from that starts while the registry is
//! away (promises I22–I24).
//!
//! Promises: a copy is read only if it is whole and proves itself; otherwise the generation before it, otherwise none.
//! Processes that share a directory share the copies: one of them writes at a time, and all read. Its age counts the
//! time that nobody was there to tell it, by the wall clock. Never here: a wait of whoever follows or resolves; a file
//! that cannot be written is told and costs nothing else.

mod files;

use std::fs::File;
use std::future::Future as _;
use std::path::Path;
use std::time::Duration;

use rollcall_model::{Clock, Heard, Instant, Position, Region, View};
use rollcall_proto::disk::{self, Newest, Saved};
use tokio::task::JoinHandle;

use files::Generations;

/// Longest time that a change is in memory alone, while the disk keeps up: a copy that is half a minute old costs a
/// restarted process a delta of half a minute.
const SAVE_EVERY: Duration = Duration::from_secs(30);
/// Longest time without a copy while nothing changes: only its age gets better, and the hard limit is in hours.
const QUIET_EVERY: Duration = Duration::from_secs(600);
/// Of the time, at most one part in so many is spent on it: a million registrations take seconds of a core.
const SHARE: u32 = 20;

/// One region's copies, and when the next one is due.
#[derive(Debug)]
pub(crate) struct Copies {
    region: Region,
    /// Away while it writes.
    writer: Option<Writer>,
    writing: Option<JoinHandle<Writer>>,
    /// Not before.
    next: Instant,
    /// From when on the writer's share of the time lets it write again.
    rested: Instant,
    /// When the last copy was offered, and up to which change it is.
    saved: Option<(Instant, Position)>,
}

/// Who writes the files.
#[derive(Debug)]
struct Writer {
    files: Generations,
    lock: Option<File>,
    /// Whether the generation of the newest name was found or made good, and the newest.
    is_good: bool,
    took: Duration,
    /// Told once in a row.
    is_failing: bool,
}

impl Copies {
    pub(crate) fn new(directory: &Path, region: &Region) -> Self {
        let files = Generations::new(directory.to_path_buf(), format!("{region}.state"));
        let writer = Writer { files, lock: None, is_good: false, took: Duration::ZERO, is_failing: false };
        let next = Instant::default();
        Self { region: region.clone(), writer: Some(writer), writing: None, next, rested: next, saved: None }
    }

    /// Saves as soon as the writer may: the cell went away, and what it said last may soon be nowhere else.
    pub(crate) fn hurry(&mut self, view: &View, clock: &Clock) {
        self.next = self.next.min(self.rested);
        self.offer(view, clock);
    }

    /// Puts the newest good copy into a view that was never loaded; leaves it alone when there is none.
    pub(crate) async fn load(&mut self, view: &mut View, clock: &Clock) {
        let Some(mut writer) = self.writer.take() else { return };
        let region = self.region.clone();
        let read = tokio::task::spawn_blocking(move || {
            let saved = writer.read(&region);
            (writer, saved)
        });
        // A panic of the reader would leave no writer: then nothing is saved, and that is told by the panic.
        let Ok((writer, saved)) = read.await else { return };
        self.writer = Some(writer);
        if let Some(saved) = saved {
            install(view, saved, clock);
            tracing::info!(region = %self.region, position = ?view.position(), age = ?view.age(clock.now()), "state loaded from disk");
        }
    }

    /// Begins to save the state if a copy is due, and returns at once.
    pub(crate) fn offer(&mut self, view: &View, clock: &Clock) {
        let now = clock.now();
        self.collect(now);
        let (Some(snapshot), Some(changed), Some(age)) = (view.snapshot(), view.changed(), view.age(now))
        else {
            return;
        };
        let is_due = now >= self.next
            && self
                .saved
                .as_ref()
                .is_none_or(|(at, saved)| saved != changed || now.since(*at) >= QUIET_EVERY);
        if !is_due {
            return;
        }
        let Some(mut writer) = self.writer.take() else { return };
        // The copy is as old as the state is now, not as its file.
        let saved_at = clock.moment().before(age);
        let saved = Saved { snapshot, saved_at, log: None, beat: None, history: Vec::new() };
        self.next = now.plus(SAVE_EVERY);
        self.saved = Some((now, changed.clone()));
        let region = self.region.clone();
        self.writing = Some(tokio::task::spawn_blocking(move || {
            let began = std::time::Instant::now();
            writer.write(&region, &saved);
            writer.took = began.elapsed();
            writer
        }));
    }

    /// Takes the writer back when it is done.
    fn collect(&mut self, now: Instant) {
        if !self.writing.as_ref().is_some_and(JoinHandle::is_finished) {
            return;
        }
        // It is finished, so that this is its answer and no wait.
        let Some(mut writing) = self.writing.take() else { return };
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        if let std::task::Poll::Ready(Ok(writer)) = std::pin::Pin::new(&mut writing).poll(&mut context) {
            self.rested = now.plus(writer.took * SHARE);
            self.next = self.next.max(self.rested);
            self.writer = Some(writer);
        }
    }
}

impl Writer {
    /// The copy that is newest by what is in it, whole and of this region; each that is not is told of.
    fn read(&mut self, region: &Region) -> Option<Saved> {
        let Newest { found, unusable } = disk::newest(region, self.files.read());
        for (path, why) in unusable {
            tracing::warn!(path = %path.display(), %region, why, "copy on disk cannot be used");
        }
        let (path, saved) = found?;
        self.is_good = path == self.files.newest();
        Some(saved)
    }

    fn write(&mut self, region: &Region, saved: &Saved) {
        match self.try_write(saved) {
            Ok(()) => self.is_failing = false,
            Err(error) => {
                if !self.is_failing {
                    tracing::warn!(%region, %error, "state not saved to disk; the copy before it stays");
                }
                self.is_failing = true;
            }
        }
    }

    fn try_write(&mut self, saved: &Saved) -> std::io::Result<()> {
        if self.lock.is_none() {
            self.lock = self.files.lock()?;
            // What another process wrote meanwhile is good: it was its writer.
            let region = &saved.snapshot.head().region;
            let newest = disk::newest(region, self.files.read()).found;
            self.is_good = newest.is_some_and(|(path, _)| path == self.files.newest());
        }
        if self.lock.is_none() {
            return Ok(());
        }
        self.files.replace(&disk::encode(saved), self.is_good)?;
        self.is_good = true;
        Ok(())
    }
}

/// Puts a copy into an empty view, as old as [`rollcall_model::Moment::ago`] says.
fn install(view: &mut View, saved: Saved, clock: &Clock) {
    let heard = Heard { at: clock.now(), age: saved.saved_at.ago(&clock.moment()) };
    view.install(saved.snapshot, Some(heard), "disk", clock.wall());
}

#[cfg(test)]
mod tests;
