//! One watcher's place in a view: what to send it next.
//!
//! There is no queue per watcher. The view's bounded history is the buffer of all of them: who falls behind it is told
//! to resync, and nobody else notices (promise I26).
//!
//! A watcher may come with a position that this holder has not reached: it followed a fresher one before. It must not be
//! led back (I17), so it is sent nothing older while the holder catches up, which nearly always takes less than a second
//! and then costs it only the deltas. After that second it is told that it must resync, so that it knows why nothing
//! comes; the snapshot follows as soon as it is no older than what was asked for. Only after ten seconds does it get the
//! snapshot there is: a position that never was would otherwise be waited for for ever, and a watcher that judges by
//! positions, as ours do, keeps its newer state. A position of an older history, of another one under the same ordinal,
//! or further ahead of a current holder than a store can write meanwhile, is never reached: there the resync and its
//! snapshot come at once.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::change::{Bookmark, Change, Delta};
use crate::freshness::Freshness;
use crate::history::Step;
use crate::limits;
use crate::name::{InstanceId, Region};
use crate::position::{Position, Relation};
use crate::profile::{Metadata, Profile};
use crate::query::Query;
use crate::registration::Registration;
use crate::snapshot::SnapshotHead;
use crate::state::State;
use crate::time::Instant;
use crate::view::View;

/// What travels on a watch, from any holder to the next.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A snapshot follows.
    SnapshotBegin(SnapshotHead),
    /// Some of its records; never over a megabyte.
    Page(Vec<Arc<Registration>>),
    /// The snapshot is complete.
    SnapshotEnd(Region, Position),
    /// Changes.
    Delta(Arc<Delta>),
    /// Nothing new up to here.
    Bookmark(Bookmark),
    /// What was sent before no longer counts; a snapshot follows.
    Resync(Region, &'static str),
}

#[derive(Clone, Debug)]
enum Place {
    /// Nothing sent; continue from here if it can be.
    Start(Option<Position>),
    /// Waiting for the holder to reach the watcher's position.
    Ahead { asked: Position, came: Instant, told: bool },
    /// Told to resync; a snapshot follows.
    Due,
    /// In the middle of a snapshot; the state is frozen until its end.
    Paging { head: SnapshotHead, state: Box<State>, after: Option<InstanceId> },
    /// Following deltas.
    Following(Position),
}

/// A watcher's place, and its filter.
#[derive(Clone, Debug)]
pub struct Cursor {
    query: Query,
    place: Place,
    marked: Option<Position>,
}

/// The reason of a resync after a position that nobody can have given.
const UNKNOWN: &str = "unknown_position";
/// The reason of a resync whose snapshot waits until the holder has caught up.
const BEHIND: &str = "behind";

/// Steps of the history that one delta may span, so that a far-behind watcher does not hold its task for long.
const STEPS_AT_ONCE: usize = 256;
/// Record bytes of such a delta, about; one step alone may have more. A quarter of what any message may have.
const STEPS_BYTES: usize = 256 * 1024;

/// Whether a position is further ahead of a holder that knows its head than a store can have written since.
fn never_was(view: &View, own: &Position, asked: &Position, now: Instant) -> bool {
    let ahead = asked.revision.0.saturating_sub(own.revision.0);
    view.freshness(now) == Freshness::Current && ahead > limits::REVISIONS_MISSED_MOST
}

impl Cursor {
    /// A watcher that has nothing, or everything up to `since`.
    #[must_use]
    pub fn new(query: Query, since: Option<Position>) -> Self {
        Self { query, place: Place::Start(since), marked: None }
    }

    /// What to send now; empty means: wait until the view changes. Call again until it is empty.
    ///
    /// A view that was never loaded gives nothing: the watch opens and waits.
    pub fn advance(&mut self, view: &View, now: Instant) -> Vec<Event> {
        match &mut self.place {
            Place::Start(since) => {
                let since = since.take();
                self.start(view, since, now)
            }
            Place::Ahead { asked, came, told } => {
                let (asked, came, told) = (asked.clone(), *came, *told);
                self.ahead(view, asked, came, told, now)
            }
            Place::Due => self.begin_snapshot(view),
            Place::Paging { head, state, after } => {
                let page = page(state, after.as_ref(), &self.query);
                *after = page.last.clone();
                let mut events = Vec::new();
                if !page.records.is_empty() {
                    events.push(Event::Page(page.records));
                }
                if page.is_last {
                    let position = head.position.clone();
                    events.push(Event::SnapshotEnd(head.region.clone(), position.clone()));
                    self.place = Place::Following(position);
                }
                events
            }
            Place::Following(position) => {
                let position = position.clone();
                self.follow(view, position, now)
            }
        }
    }

    fn start(&mut self, view: &View, since: Option<Position>, now: Instant) -> Vec<Event> {
        let (Some(own), Some(history)) = (view.position(), view.history()) else {
            self.place = Place::Start(since);
            return Vec::new();
        };
        let Some(since) = since else { return self.begin_snapshot(view) };
        match since.relation(own) {
            Relation::OlderHistory | Relation::Conflict => self.resync(view, "new_incarnation"),
            Relation::Same(Ordering::Greater) if never_was(view, own, &since, now) => {
                self.resync(view, UNKNOWN)
            }
            // Another holder served it, and this one will catch up (museum B27, B41).
            Relation::NewerHistory | Relation::Same(Ordering::Greater) => {
                self.place = Place::Ahead { asked: since, came: now, told: false };
                Vec::new()
            }
            Relation::Same(_) if since.revision < history.base().revision => {
                self.resync(view, "history_passed")
            }
            // A bookmark comes at once, so that the watcher need not wait a second to know its age.
            Relation::Same(_) => self.follow(view, since, now),
        }
    }

    fn ahead(&mut self, view: &View, asked: Position, came: Instant, told: bool, now: Instant) -> Vec<Event> {
        let is_behind = view.position().is_none_or(|own| {
            matches!(asked.relation(own), Relation::NewerHistory | Relation::Same(Ordering::Greater))
        });
        let waited = now.since(came);
        if !is_behind && !told {
            return self.start(view, Some(asked), now);
        }
        if !is_behind || waited >= limits::AHEAD_WATCH_MOST {
            return if told { self.begin_snapshot(view) } else { self.resync(view, BEHIND) };
        }
        let mut events = Vec::new();
        if !told && waited >= limits::AHEAD_WAIT {
            events.push(Event::Resync(view.region().clone(), BEHIND));
        }
        self.place = Place::Ahead { asked, came, told: told || !events.is_empty() };
        events
    }

    /// When [`Self::advance`] has something to say even if the view does not change.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        match &self.place {
            Place::Ahead { came, told: false, .. } => Some(came.plus(limits::AHEAD_WAIT)),
            Place::Ahead { came, told: true, .. } => Some(came.plus(limits::AHEAD_WATCH_MOST)),
            Place::Start(_) | Place::Due | Place::Paging { .. } | Place::Following(_) => None,
        }
    }

    /// Whether the next step begins a snapshot, or goes on with one: that is what costs a holder memory and time, and
    /// what may have to wait for others.
    #[must_use]
    pub fn takes_snapshot(&self, view: &View) -> bool {
        match &self.place {
            Place::Start(None) => view.state().is_some(),
            Place::Due | Place::Paging { .. } => true,
            Place::Start(Some(_)) | Place::Ahead { .. } | Place::Following(_) => false,
        }
    }

    /// Whether it has what it began with, and takes changes as they come.
    #[must_use]
    pub const fn is_following(&self) -> bool {
        matches!(self.place, Place::Following(_))
    }

    /// Up to where it has the changes that it follows.
    #[must_use]
    pub const fn following(&self) -> Option<&Position> {
        match &self.place {
            Place::Following(position) => Some(position),
            Place::Start(_) | Place::Ahead { .. } | Place::Due | Place::Paging { .. } => None,
        }
    }

    /// Takes a delta that another cursor with the same query was given, if it is just what comes next here; false and as it
    /// was, if it is not.
    pub fn takes(&mut self, delta: &Delta) -> bool {
        let Place::Following(position) = &mut self.place else { return false };
        let is_next = *position == delta.from;
        if is_next {
            position.clone_from(&delta.to);
        }
        is_next
    }

    fn resync(&mut self, view: &View, reason: &'static str) -> Vec<Event> {
        self.place = Place::Due;
        vec![Event::Resync(view.region().clone(), reason)]
    }

    fn begin_snapshot(&mut self, view: &View) -> Vec<Event> {
        let Some((head, state)) = view.snapshot().map(crate::snapshot::Snapshot::into_parts) else {
            return Vec::new();
        };
        self.place = Place::Paging { head: head.clone(), state: Box::new(state), after: None };
        self.marked = None;
        vec![Event::SnapshotBegin(head)]
    }

    fn follow(&mut self, view: &View, position: Position, now: Instant) -> Vec<Event> {
        let is_past = |own: &Position| {
            matches!(own.relation(&position), Relation::OlderHistory | Relation::Same(Ordering::Less))
        };
        if view.position().is_some_and(is_past) {
            // It began with a fresher view than it is shown now; it is never led back (I17).
            self.place = Place::Following(position);
            return Vec::new();
        }
        let Some(steps) = view.history().and_then(|history| history.since(&position)) else {
            let same = view.position().is_some_and(|own| own.incarnation == position.incarnation);
            return self.resync(view, if same { "history_passed" } else { "new_incarnation" });
        };
        let mut span = Span::default();
        for step in steps.take(STEPS_AT_ONCE) {
            if !span.takes(step, &self.query, &position) {
                break;
            }
        }
        let mut events = Vec::new();
        let mut at = position;
        let moved = span.last.is_some();
        if let Some(last) = &span.last {
            at = last.to.clone();
            events.extend(span.delta().map(Event::Delta));
        } else if let Some(bookmark) = view.bookmark(now)
            && self.marked.as_ref() != Some(&bookmark.position)
        {
            at = bookmark.position.clone();
            self.marked = Some(at.clone());
            events.push(Event::Bookmark(bookmark));
        }
        self.place = Place::Following(at);
        if events.is_empty() && moved {
            // All of it was filtered away: go on at once, there may be more.
            return self.advance(view, now);
        }
        events
    }
}

/// Steps of a history on their way to become one delta: what came while a watcher was busy costs it one message.
#[derive(Default)]
struct Span {
    first: Option<Arc<Delta>>,
    /// Where it begins, if that is within the first.
    from: Option<Position>,
    last: Option<Arc<Delta>>,
    steps: usize,
    bytes: usize,
    changes: Vec<Change>,
    /// Something was left out: the changes are not all that the steps hold.
    is_cut: bool,
}

impl Span {
    /// Adds the next step as a watcher with this query may see it; refuses it when there is enough. A put that no longer
    /// fits is still told if it did before, so that the watcher can drop it; a removal only of what it was shown.
    fn takes(&mut self, step: &Step, query: &Query, known: &Position) -> bool {
        if self.steps > 0 && self.bytes + step.bytes() > STEPS_BYTES {
            return false;
        }
        self.bytes += step.bytes();
        self.steps += 1;
        self.first.get_or_insert_with(|| Arc::clone(&step.delta));
        self.last = Some(Arc::clone(&step.delta));
        // Another holder's steps end elsewhere: of one that the watcher knows the beginning of, it is told the rest.
        let is_overlapping =
            step.delta.changes.first().is_some_and(|first| first.revision() <= known.revision);
        if is_overlapping {
            self.from = Some(known.clone());
            self.is_cut = true;
        }
        let all = query.is_everything();
        let fitted = |was: &Option<Arc<Registration>>| was.as_ref().is_some_and(|was| query.matches(was));
        for (change, was) in step.delta.changes.iter().zip(step.before.iter()) {
            if is_overlapping && change.revision() <= known.revision {
                continue;
            }
            let is_told = all
                || fitted(was)
                || match change {
                    Change::Put(now) => query.matches(now),
                    Change::Remove(_) => false,
                };
            if is_told {
                self.changes.push(change.clone());
            } else {
                self.is_cut = true;
            }
        }
        true
    }

    /// All of it, unless nothing is to be told.
    fn delta(self) -> Option<Arc<Delta>> {
        let (first, last) = (self.first?, self.last?);
        if self.changes.is_empty() {
            return None;
        }
        if self.steps == 1 && !self.is_cut {
            return Some(first);
        }
        let (region, from) = (first.region.clone(), self.from.unwrap_or_else(|| first.from.clone()));
        Some(Arc::new(Delta { region, from, to: last.to.clone(), changes: self.changes }))
    }
}

/// Some records of a state, bounded by number and bytes.
pub struct Page {
    /// The records.
    pub records: Vec<Arc<Registration>>,
    /// Where the next page begins.
    pub last: Option<InstanceId>,
    /// Whether there is no more.
    pub is_last: bool,
}

/// Cuts the next page of a snapshot.
#[must_use]
pub fn page(state: &State, after: Option<&InstanceId>, query: &Query) -> Page {
    let mut page = Page { records: Vec::new(), last: after.cloned(), is_last: true };
    let mut bytes = 0;
    // What an agent's instances share, who stand together, is weighed once.
    let mut weighed: Option<((&Profile, &Metadata), usize)> = None;
    for registration in state.select(query, after.map(InstanceId::as_str)) {
        let (profile, metadata) = (&*registration.declared.profile, &registration.owned.metadata);
        let is_same = |(other, words): (&Profile, &Metadata)| {
            std::ptr::eq(other, profile) && std::ptr::eq(&**words, &**metadata)
        };
        let known = weighed.filter(|(known, _)| is_same(*known));
        let weigh = || ((profile, metadata), profile.weight_bytes() + metadata.weight_bytes());
        let (_, weight) = *weighed.insert(known.unwrap_or_else(weigh));
        let more = registration.weight_beside(weight);
        let full = page.records.len() >= limits::SNAPSHOT_PAGE_RECORDS_MAX
            || (bytes + more > limits::SNAPSHOT_PAGE_BYTES_MAX && !page.records.is_empty());
        if full {
            page.is_last = false;
            break;
        }
        bytes += more;
        page.records.push(Arc::clone(registration));
    }
    if let Some(last) = page.records.last() {
        page.last = Some(last.declared.id.clone());
    }
    page
}
