//! The last beat that was seen, on disk with every beat.
//!
//! The copy of the state is written seldom, because it is large; a restored backup that is newer than it, or that meets a
//! cell without one, would pass for the history that went on, and give out epochs a second time (I03). This is the same
//! file without the state: small enough for every beat, so that what a killed process does not remember is a second.
//! Never here: what to do about another history.

use std::path::PathBuf;

use rollcall_model::{Clock, Incarnation, Position, Region, Revision, Snapshot, State};
use rollcall_proto::disk::{self, Saved};
use rollcall_proto::store::{Beat, encode_beat};
use rollcall_runtime::files;
use tokio::task::JoinHandle;

use crate::founding::Founding;
use crate::store::{Store, StoreError, keys};

/// Remembers beats in a file.
pub(super) struct LastBeat {
    file: Option<PathBuf>,
    /// What the process before this one had seen, until the store was held against it.
    before: Option<(Incarnation, Beat, Revision)>,
    writing: Option<JoinHandle<()>>,
}

impl LastBeat {
    /// Beside the copy of the state, which is in this file; nowhere without one.
    pub(super) async fn open(state: Option<&PathBuf>, region: &Region) -> Self {
        let file = state.map(|state| state.with_extension("beat"));
        let saved = crate::disk::load(file.clone(), region).await;
        let before = saved.and_then(|saved| {
            let (beat, at) = saved.beat?;
            Some((saved.snapshot.head().position.incarnation.clone(), beat, at))
        });
        Self { file, before, writing: None }
    }

    /// The highest ordinal of an incarnation that is remembered.
    pub(super) fn ordinal(&self) -> u16 {
        self.before.as_ref().map_or(0, |(incarnation, ..)| incarnation.ordinal())
    }

    /// Whether the store, founded so and with this head, goes on from what the process before this one saw. Once it was
    /// proved it is not asked again: from then on there is memory.
    ///
    /// # Errors
    /// The store cannot be reached.
    pub(super) async fn is_continued<S: Store>(
        &mut self,
        store: &S,
        founding: &Founding,
        head: Revision,
    ) -> Result<bool, StoreError> {
        let Some((incarnation, beat, at)) = &self.before else { return Ok(true) };
        if founding.incarnation != *incarnation {
            return Ok(founding.incarnation.ordinal() > incarnation.ordinal());
        }
        if head < *at {
            return Ok(false);
        }
        let is_same = match store.get(keys::BEAT, Some(*at)).await {
            Ok((entry, _)) => {
                entry.is_some_and(|entry| entry.mod_revision == *at && entry.value == encode_beat(beat))
            }
            Err(StoreError::Ahead(_)) => false,
            // What was seen is compacted away. Then only the order tells: beats only ever come later.
            Err(StoreError::Compacted(_)) => {
                let (now, _) = store.get(keys::BEAT, None).await?;
                now.is_some_and(|entry| entry.mod_revision >= *at)
            }
            Err(error) => return Err(error),
        };
        Ok(is_same)
    }

    /// What the process before this one saw is done with: the store goes on from it, or was founded anew after it.
    pub(super) fn is_settled(&mut self) {
        self.before = None;
    }

    /// Writes this beat, unless the one before is still being written: whoever follows a history must not wait for it.
    pub(super) fn saw(&mut self, region: &Region, at: Position, beat: &(Beat, Revision), clock: &Clock) {
        let Some(file) = self.file.clone() else { return };
        if self.writing.as_ref().is_some_and(|writing| !writing.is_finished()) {
            return;
        }
        let snapshot = Snapshot::of(region.clone(), at, State::default());
        let (beat, saved_at) = (Some(beat.clone()), clock.moment());
        let saved = Saved { snapshot, saved_at, log: None, beat, history: Vec::new() };
        self.writing = Some(tokio::task::spawn_blocking(move || {
            // The copy of the state beside it fails as well, and is told of.
            if let Err(error) = files::replace(&file, &disk::encode(&saved)) {
                tracing::debug!(%error, "last beat not written to disk");
            }
        }));
    }
}
