//! The other end of a watch: puts the events of one region's stream into a view.

use crate::position::{Position, Relation};
use crate::snapshot::SnapshotBuilder;
use crate::time::{Instant, Timestamp};
use crate::view::{Outcome, View};
use crate::watch::Event;

/// What the caller does after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The view changed: publish it.
    Publish,
    /// Nothing to do.
    Nothing,
    /// Open the stream again, from nothing; the view is as it was.
    Restart(&'static str),
    /// The source lives in an older history than the view, which nothing of it will change: ask another one. A process that
    /// is behind comes up by itself; a registry that was founded anew, with nothing left of the old one, never does.
    Older,
}

/// Collects a snapshot that is arriving; everything else goes straight to the view.
#[derive(Clone, Debug, Default)]
pub struct Follower {
    arriving: Option<SnapshotBuilder>,
    reason: Option<&'static str>,
    restarted: Option<&'static str>,
}

impl Follower {
    /// A follower at the start of a stream. `restarted` is the reason of the restart before, if one led here.
    #[must_use]
    pub const fn new(restarted: Option<&'static str>) -> Self {
        Self { arriving: None, reason: None, restarted }
    }

    /// Takes one event of the stream.
    ///
    /// A snapshot is installed only when it is complete and verified; a delta only when it continues; until then the
    /// view keeps what it has (promises I22, I33).
    pub fn accept(&mut self, view: &mut View, event: Event, now: Instant, wall: Timestamp) -> Next {
        match event {
            Event::Resync(_, reason) => {
                self.reason = Some(reason);
                self.arriving = None;
                Next::Nothing
            }
            Event::SnapshotBegin(head) => {
                self.arriving = Some(SnapshotBuilder::begin(head));
                Next::Nothing
            }
            Event::Page(records) => match &mut self.arriving {
                Some(builder) => {
                    builder.add(records);
                    Next::Nothing
                }
                None => Next::Restart("page_without_snapshot"),
            },
            Event::SnapshotEnd(_, _) => {
                let Some(builder) = self.arriving.take() else {
                    return Next::Restart("page_without_snapshot");
                };
                let reason = self.reason.take().or(self.restarted.take()).unwrap_or("started");
                match builder.finish() {
                    Ok(snapshot) => outcome(view.install(snapshot, None, reason, wall)),
                    Err(unverified) => Next::Restart(unverified.as_str()),
                }
            }
            Event::Delta(delta) => outcome(view.apply(&delta)),
            Event::Bookmark(bookmark) if is_older(&bookmark.position, view) => Next::Older,
            Event::Bookmark(bookmark) => outcome(view.mark(&bookmark, now)),
        }
    }
}

fn is_older(told: &Position, view: &View) -> bool {
    view.position().is_some_and(|known| told.relation(known) == Relation::OlderHistory)
}

fn outcome(outcome: Outcome) -> Next {
    match outcome {
        Outcome::Applied => Next::Publish,
        Outcome::Duplicate => Next::Nothing,
        Outcome::Gap => Next::Restart("gap"),
        Outcome::Superseded => Next::Restart("new_incarnation"),
        Outcome::Diverged => Next::Restart("digest"),
    }
}
