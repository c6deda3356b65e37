//! The own region's state, kept up with the store.
//!
//! Loads by pages pinned to one revision, then follows. Whenever the connection breaks it proves that the store still
//! holds the same history before it goes on (a restored backup must not pass for it), and while it reloads it does
//! not claim to be current: the view keeps its last state and only its age grows (I20). A watch is not trusted blindly
//! either: how old it is tells `head`, whether it is true `audit`.

mod audit;
mod head;
mod last_beat;
mod reading;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rollcall_model::{
    Backoff, Bookmark, Clock, Delta, Heard, Incarnation, Outcome, Position, Region, Revision, Snapshot,
    State, View,
};
use rollcall_proto::store::Beat;
use rollcall_runtime::unsaved::Unsaved;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::disk;
use crate::founding::{self, Founding};
use crate::keeper::{Candidates, KeeperHandle};
use crate::random;
use crate::store::keys;
use crate::store::silence::Silence;
use crate::store::{Effect, Follow, Happened, Store, StoreError};
use crate::translate::translate;
use audit::{Audits, Verdict};
use head::Questions;
use last_beat::LastBeat;
use reading::Pace;

/// How often the state is written to disk, at most: a crash costs that much history, never the state.
const SAVE_EVERY: Duration = Duration::from_secs(10);

/// Longest wait before following the store again: readers' age and the keeper's office wait for it once the store is
/// back.
const FOLLOW_AGAIN: Duration = Duration::from_secs(1);

/// Why the state is read, where it is the first one.
const STARTED: &str = "started";

/// The task.
pub struct Replica<S> {
    store: Arc<S>,
    view: View,
    beat: Option<(Beat, Revision)>,
    last_beat: LastBeat,
    published: watch::Sender<Arc<View>>,
    founding: watch::Sender<Option<Arc<Founding>>>,
    keeper: KeeperHandle,
    candidates: Candidates,
    clock: Clock,
    file: Option<PathBuf>,
    unsaved: Unsaved,
    silence: Silence,
    audits: Audits,
    /// Why the state has to be read anew, until it was: an outage on the way there must not have it forgotten.
    reload: Option<&'static str>,
    /// The store does not answer, and that was said.
    is_away: bool,
    foreign: u64,
}

/// Why following ended.
enum Ended {
    /// The connection broke; prove the lineage and go on.
    Broken(StoreError),
    /// The store declared another history.
    Refounded,
    /// The history between is gone, or the state is not to be trusted.
    Reload(&'static str),
}

impl<S: Store> Replica<S> {
    /// A replica that begins with the disk copy, if there is one.
    pub async fn open(
        store: Arc<S>,
        region: Region,
        published: watch::Sender<Arc<View>>,
        founding: watch::Sender<Option<Arc<Founding>>>,
        keeper: KeeperHandle,
        clock: Clock,
        file: Option<PathBuf>,
    ) -> Self {
        let mut view = View::new(region).with_facets();
        let mut beat = None;
        if let Some(saved) = disk::load(file.clone(), view.region()).await {
            beat.clone_from(&saved.beat);
            disk::install(&mut view, saved, &clock);
            published.send_replace(Arc::new(view.clone()));
        }
        let last_beat = LastBeat::open(file.as_ref(), view.region()).await;
        let candidates = Candidates::default();
        let audits = Audits::new(None);
        let reload = view.position().is_none().then_some(STARTED);
        Self {
            store,
            view,
            beat,
            last_beat,
            published,
            founding,
            keeper,
            candidates,
            clock,
            file,
            unsaved: Unsaved::default(),
            silence: Silence::default(),
            audits,
            reload,
            is_away: false,
            foreign: 0,
        }
    }

    /// The same with comparisons about so often; without this there are none.
    #[must_use]
    pub fn audited(self, every: Option<Duration>) -> Self {
        Self { audits: Audits::new(every), ..self }
    }

    /// The same that tells here of a copy that cannot be written, and of a store that holds what is not ours.
    #[must_use]
    pub fn telling(self, unsaved: Unsaved, silence: Silence) -> Self {
        Self { unsaved, silence, ..self }
    }

    /// Runs until cancelled; saves the state at the end.
    pub async fn run(mut self, cancel: CancellationToken) {
        let mut backoff = Backoff::new(Duration::from_millis(200), FOLLOW_AGAIN);
        let mut saver = disk::Saver::new(self.file.clone(), SAVE_EVERY, self.unsaved.clone());
        'run: loop {
            let ended = tokio::select! {
                () = cancel.cancelled() => break,
                ended = self.connected(&mut saver, &mut backoff) => ended,
            };
            match ended {
                Ended::Broken(error) => {
                    if !self.is_away {
                        saver.hurry();
                    }
                    self.say_away(&error);
                    let again = tokio::time::Instant::now() + backoff.next(random::chance());
                    loop {
                        tokio::select! {
                            () = cancel.cancelled() => break 'run,
                            () = tokio::time::sleep_until(again) => break,
                            // A kill in the outage must not cost what was taken in before it.
                            () = saver.due() => saver.save(&self.view, self.beat.as_ref(), &self.clock),
                        }
                    }
                }
                Ended::Refounded => self.is_doubted("new_incarnation"),
                Ended::Reload(reason) => self.is_doubted(reason),
            }
        }
        saver.save_last(&self.view, self.beat.as_ref(), &self.clock).await;
    }

    /// The state is read anew before anything else of the store is believed, and nobody is told meanwhile that it is
    /// current (I20).
    fn is_doubted(&mut self, reason: &'static str) {
        self.reload = Some(reason);
        self.view.doubt(self.clock.now());
        self.publish();
    }

    /// Says that the store is away, once for each outage; its later tries are steps of one and the same.
    fn say_away(&mut self, error: &StoreError) {
        let region = self.view.region();
        if let StoreError::Foreign(key, _) = error {
            let remedy = format!(
                "remove the key rollcall/v1/{region}/{key} from the store (`etcdctl del`), and a new history is founded \
                 over the registrations that are there, with nothing to restart"
            );
            if !self.is_away {
                tracing::error!(%region, %error, "the store cannot be used: {remedy}");
            }
            self.silence.is_foreign(error, remedy);
            self.is_away = true;
            return;
        }
        match self.view.position() {
            _ if self.is_away => tracing::debug!(%region, %error, "the store is still away"),
            Some(at) => tracing::warn!(%region, %error, %at, "store away; serving the last state"),
            None => tracing::warn!(%region, %error, "store away; there is no state to serve yet"),
        }
        self.is_away = true;
    }

    async fn connected(&mut self, saver: &mut disk::Saver, backoff: &mut Backoff) -> Ended {
        match self.try_connected(saver, backoff).await {
            Ok(ended) => ended,
            Err(StoreError::Compacted(_)) => Ended::Reload("history_passed"),
            Err(error) => Ended::Broken(error),
        }
    }

    async fn try_connected(
        &mut self,
        saver: &mut disk::Saver,
        backoff: &mut Backoff,
    ) -> Result<Ended, StoreError> {
        let (shown, asked) = (self.shown(), self.clock.now());
        let (founding, head) = founding::read_or_found(&*self.store, self.known(), random::id).await?;
        self.silence.is_ours();
        if !self.last_beat.is_continued(&*self.store, &founding, head).await? {
            return self
                .found_over(&founding, "it does not go on from the last beat before this process")
                .await;
        }
        self.last_beat.is_settled();
        let same = self.view.position().is_some_and(|p| p.incarnation == founding.incarnation);
        if same && !self.same_lineage(head).await? {
            return self.found_over(&founding, "it is another one than before").await;
        }
        if !same && shown >= founding.incarnation.ordinal() {
            // An older history came back (a backup), or a stranger's with the same ordinal (F52).
            return self.found_over(&founding, "it does not come after ours").await;
        }
        let reason = if same { self.reload } else { Some(self.reload.unwrap_or("new_incarnation")) };
        let from = match (reason, self.view.position()) {
            (None, Some(position)) => position.revision,
            (reason, _) => self.load(&founding.incarnation, reason.unwrap_or(STARTED)).await?,
        };
        self.read_office(from).await?;
        let mut follow = self.store.follow(Revision(from.0 + 1)).await?;
        let mut questions = Questions::after(&self.store, &self.clock, asked, head);
        self.founding.send_replace(Some(Arc::new(founding.clone())));
        loop {
            let happened = tokio::select! {
                happened = follow.next() => happened?,
                never = questions.go_on() => match never {},
                () = saver.due() => {
                    saver.save(&self.view, self.beat.as_ref(), &self.clock);
                    continue;
                }
                audited = self.audits.next() => {
                    let Some(verdict) = audited else {
                        self.audits.begin(&self.store, &self.view);
                        continue;
                    };
                    match self.judged(&founding.incarnation, verdict) {
                        Some(ended) => return Ok(ended),
                        None => continue,
                    }
                }
            };
            backoff.reset();
            if std::mem::take(&mut self.is_away) {
                tracing::info!(region = %self.view.region(), "the store is followed again");
            }
            if let Some(ended) = self.take_in(&founding.incarnation, &happened, &mut questions) {
                return Ok(ended);
            }
        }
    }

    /// The ordinal of the incarnation that readers are shown; 0 without one.
    fn shown(&self) -> u16 {
        self.view.position().map_or(0, |position| position.incarnation.ordinal())
    }

    /// The highest ordinal that this process, or the one before it, has heard of.
    fn known(&self) -> u16 {
        self.shown().max(self.last_beat.ordinal())
    }

    /// Declares a new incarnation over a history that must not be taken for what came before: epochs that were given out
    /// must not be given out again (I03).
    async fn found_over(&self, founding: &Founding, why: &'static str) -> Result<Ended, StoreError> {
        let (region, known) = (self.view.region(), self.known());
        tracing::error!(%region, found = %founding.incarnation, known, why, "the store's history cannot be gone on with; founding a new incarnation");
        let ordinal = founding.incarnation.ordinal().max(known) + 1;
        founding::found(&*self.store, founding.revision, ordinal, &random::id()).await?;
        Ok(Ended::Refounded)
    }

    /// The beat at the last applied position is what it was, and the head has not gone back.
    ///
    /// Before a reload that beat need not be readable (it may be compacted away), and nobody is served deltas across a
    /// reload. The beat at the head tells enough: within one history it is never older than one that was seen. After an
    /// outage, in which a backup may have been restored, it is asked for all the same as long as it can be read.
    async fn same_lineage(&self, head: Revision) -> Result<bool, StoreError> {
        let Some(position) = self.view.position() else { return Ok(true) };
        if head < position.revision {
            return Ok(false);
        }
        if self.reload.is_some() && !self.is_away {
            return self.is_no_older().await;
        }
        match self.store.get(keys::BEAT, Some(position.revision)).await {
            Ok((entry, _)) => {
                let found = entry.map(|entry| (entry.value, entry.mod_revision));
                let known =
                    self.beat.as_ref().map(|(beat, at)| (rollcall_proto::store::encode_beat(beat), *at));
                Ok(found == known)
            }
            Err(StoreError::Ahead(_)) => Ok(false),
            Err(StoreError::Compacted(_)) if self.reload.is_some() => self.is_no_older().await,
            Err(error) => Err(error),
        }
    }

    /// The beat at the head is the last one that was seen, or a later one.
    async fn is_no_older(&self) -> Result<bool, StoreError> {
        let (now, _) = self.store.get(keys::BEAT, None).await?;
        let last = now.map_or(Revision(0), |entry| entry.mod_revision);
        Ok(self.beat.as_ref().is_none_or(|(_, seen)| last >= *seen))
    }

    fn awaited(&self) -> Pace {
        Pace::Awaited(self.view.region().clone())
    }

    /// Reads everything at one revision and installs it.
    async fn load(
        &mut self,
        incarnation: &Incarnation,
        reason: &'static str,
    ) -> Result<Revision, StoreError> {
        // The state was the head when its first page was read: it is as old as the reading of it took.
        let asked = self.clock.now();
        let reading::Read { state, at, foreign } = reading::state(&*self.store, None, self.awaited()).await?;
        let (beat, _) = self.store.get(keys::BEAT, Some(at)).await?;
        for key in &foreign {
            self.count_foreign(key);
        }
        self.beat = beat.and_then(|entry| {
            rollcall_proto::store::decode_beat(&entry.value).ok().map(|beat| (beat, entry.mod_revision))
        });
        let position = Position::new(incarnation.clone(), at);
        let snapshot = Snapshot::of(self.view.region().clone(), position, state);
        let heard = Heard { at: asked, age: Duration::ZERO };
        let outcome = self.view.install(snapshot, Some(heard), reason, self.clock.wall());
        if outcome != Outcome::Applied {
            // A pinned read at the head of a proved history cannot be older than what was applied of it.
            return Err(StoreError::Unavailable(format!(
                "the state read at {at} is older than what is known"
            )));
        }
        self.reload = None;
        self.say_loaded(at, reason);
        self.keeper.reload(&self.view, || self.publish());
        Ok(at)
    }

    /// Says that the state was read, and why: after the start that is nothing that happens by itself.
    fn say_loaded(&self, at: Revision, reason: &'static str) {
        let (region, count) = (self.view.region(), self.view.state().map_or(0, State::count));
        if reason == STARTED {
            tracing::info!(%region, count, %at, reason, "replica loaded");
        } else {
            tracing::warn!(%region, count, %at, reason, "replica loaded");
        }
    }

    /// Reads who stands for the keeper's office, as of a revision.
    async fn read_office(&mut self, at: Revision) -> Result<(), StoreError> {
        let (entries, _) = reading::all(&*self.store, keys::OFFICE, Some(at), self.awaited()).await?;
        self.candidates = Candidates::default();
        for entry in entries {
            self.candidates.follow(&Effect::Put(entry));
        }
        self.keeper.tell(self.candidates.in_office());
        Ok(())
    }

    /// What is to be done about an audit. A state of another history than the one that is followed now was not judged.
    fn judged(&self, incarnation: &Incarnation, verdict: Verdict) -> Option<Ended> {
        let region = self.view.region();
        match verdict {
            Verdict::Same => tracing::debug!(%region, "the replica is what the store holds"),
            Verdict::Unread(error) => tracing::debug!(%region, %error, "the replica could not be compared"),
            Verdict::Differs(at, _, _) if at.incarnation != *incarnation => {}
            Verdict::Differs(at, stored, own) => {
                tracing::error!(
                    %region, %at, stored = stored.0, stored_digest = %stored.1, own = own.0, own_digest = %own.1,
                    "the replica is not what the store holds; reading it anew"
                );
                return Some(Ended::Reload("digest"));
            }
        }
        None
    }

    /// Applies whole revisions; publishes once.
    fn take_in(
        &mut self,
        incarnation: &Incarnation,
        happened: &[Happened],
        questions: &mut Questions<S>,
    ) -> Option<Ended> {
        let mut ended = None;
        let mut deltas = Vec::new();
        for revision in happened {
            let (Some(state), Some(changed)) = (self.view.state(), self.view.changed().cloned()) else {
                return Some(Ended::Reload(STARTED));
            };
            let meaning = translate(incarnation, state, revision, self.clock.wall());
            if meaning.refounded {
                ended = Some(Ended::Refounded);
                break;
            }
            for key in &meaning.foreign {
                self.count_foreign(key);
            }
            if !meaning.changes.is_empty() {
                let delta = Arc::new(Delta {
                    region: self.view.region().clone(),
                    from: changed,
                    to: Position::new(incarnation.clone(), revision.revision),
                    changes: meaning.changes,
                });
                match self.view.apply(&delta) {
                    Outcome::Applied => deltas.push(delta),
                    Outcome::Duplicate => {}
                    Outcome::Gap | Outcome::Superseded | Outcome::Diverged => {
                        ended = Some(Ended::Reload("gap"));
                        break;
                    }
                }
            }
            if let Some(beat) = meaning.beat {
                self.heard_beat(incarnation, beat);
            }
            for effect in &meaning.office {
                self.candidates.follow(effect);
            }
        }
        let upto = happened.last().filter(|_| ended.is_none()).map(|last| last.revision);
        if let Some(upto) = upto {
            let age = questions.age(upto);
            self.complete_until(incarnation, upto, age);
        }
        self.keeper.follow(&deltas, upto, || self.publish());
        self.keeper.tell(self.candidates.in_office());
        ended
    }

    /// The keeper's beat: up to its revision this state is complete. It moves the revision, so that those who follow are
    /// told every second how old it is.
    fn heard_beat(&mut self, incarnation: &Incarnation, beat: (Beat, Revision)) {
        let position = Position::new(incarnation.clone(), beat.1);
        self.last_beat.saw(self.view.region(), position.clone(), &beat, &self.clock);
        self.beat = Some(beat);
        self.mark(position, None);
    }

    /// The state is complete up to here, and as old as that; without an age it is no younger for it.
    fn complete_until(&mut self, incarnation: &Incarnation, revision: Revision, age: Option<Duration>) {
        self.mark(Position::new(incarnation.clone(), revision), age);
    }

    fn mark(&mut self, position: Position, age: Option<Duration>) {
        let (Some(state), Some(changed)) = (self.view.state(), self.view.changed()) else { return };
        let bookmark = Bookmark {
            region: self.view.region().clone(),
            from: changed.clone(),
            position,
            count: state.count(),
            digest: state.digest(),
            age,
            stamp: None,
        };
        self.view.mark(&bookmark, self.clock.now());
    }

    fn publish(&self) {
        self.published.send_replace(Arc::new(self.view.clone()));
    }

    fn count_foreign(&mut self, key: &str) {
        self.foreign += 1;
        tracing::warn!(key, count = self.foreign, "a key or value in the store is not ours; ignored");
    }
}
