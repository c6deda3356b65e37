//! The subscriber of one region as a plain state machine: records and answers in, orders out, time and chance told.
//!
//! Promises: the shown view is always a state of its origin (I30); within one incarnation it never goes back, and another
//! incarnation comes only whole and verified (I31); a record that does not fit is counted and answered by a resync, never
//! skipped in silence (I37); whatever comes, it goes on, and never without waiting longer each time. A resync builds
//! aside; until it is done the shown view stays and only grows old (I22).
//!
//! Never here: reading, waiting, clocks.

use std::sync::Arc;
use std::time::Duration;

use rollcall_model::planted::{self, Bug};
use rollcall_model::{
    Backoff, Delta, Heard, Instant, Outcome, Position, Region, Relation, Revision, Snapshot, State,
    Timestamp, View,
};
use rollcall_proto::convert::FeedItem;

use super::age::Way;
use crate::feed_log::newest::{Found, Wanted};
use crate::feed_log::{LogError, Record, record};

/// First and longest wait before a resync, and between looks for a snapshot. Promise I32 gives half a minute to heal.
const RESYNC_WAIT: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// Longest wait between looks for the first state of all: a region that begins to publish is seen within it.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The same before the log is read again after an error of its own.
const READ_WAIT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Followed for this long without trouble, the row of failures is over.
const LASTING: Duration = Duration::from_secs(30);
/// Looks for a snapshot that reaches a gap before any other is tried; doubles with each failure in a row, because a try
/// reads a whole snapshot.
const PATIENCE: (u32, u32) = (2, 64);

/// What the edge does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Look for a snapshot and tell what was found.
    Find(Wanted),
    /// Give the feed's records from this offset on.
    Read(u64),
    /// Nothing before this time has passed.
    Wait(Duration),
}

/// What became of an input, for logs and figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A view moved on.
    Applied,
    /// It was known already, or is part of a failure that was answered before.
    Nothing,
    /// The record was refused; a resync for it, or for its neighbours, was begun before.
    Refused(&'static str),
    /// A resync began: the record did not fit, was refused, or cannot be had.
    Resync(&'static str),
    /// The shown view was replaced by a verified snapshot.
    Installed(&'static str),
}

#[derive(Clone, Debug)]
enum Doing {
    /// A snapshot is needed.
    Finding { reason: &'static str, at_least: Option<Position>, looks: u32 },
    /// A snapshot older than the shown view is brought up to it, aside.
    Building { reason: &'static str, fresh: Box<View>, next: u64 },
    /// The shown view follows the feed.
    Following { next: u64, since: Instant },
}

/// One region's subscriber.
#[derive(Clone, Debug)]
pub struct Machine {
    region: Region,
    shown: View,
    /// The first feed record that is not in the shown view.
    place: Option<u64>,
    doing: Doing,
    /// Nothing is done before this.
    hold_until: Instant,
    /// Up to here failures were answered by a resync. Met again, such a record is passed over: it changes nothing, and the
    /// chain of those behind it proves whether anything is missing.
    answered: Option<u64>,
    way: Way,
    patience: u32,
    resync_wait: Backoff,
    read_wait: Backoff,
}

impl Machine {
    /// A subscriber that has a view from disk with its place in the feed, or nothing.
    #[must_use]
    pub fn new(shown: View, place: Option<u64>, now: Instant) -> Self {
        let doing = match place {
            Some(next) if shown.position().is_some() => Doing::Following { next, since: now },
            Some(_) | None => Doing::Finding { reason: "started", at_least: None, looks: 0 },
        };
        Self {
            region: shown.region().clone(),
            shown,
            place,
            doing,
            hold_until: Instant::default(),
            answered: None,
            way: Way::default(),
            patience: PATIENCE.0,
            resync_wait: Backoff::new(RESYNC_WAIT.0, RESYNC_WAIT.1),
            read_wait: Backoff::new(READ_WAIT.0, READ_WAIT.1),
        }
    }

    /// The view that readers get.
    #[must_use]
    pub const fn shown(&self) -> &View {
        &self.shown
    }

    /// The first feed record that is not in the shown view.
    #[must_use]
    pub const fn place(&self) -> Option<u64> {
        self.place
    }

    /// What the edge does next.
    #[must_use]
    pub fn order(&self, now: Instant) -> Order {
        if now < self.hold_until {
            return Order::Wait(self.hold_until.since(now));
        }
        match &self.doing {
            Doing::Finding { at_least, .. } => {
                Order::Find(Wanted { at_least: at_least.clone(), not_before: self.shown.position().cloned() })
            }
            Doing::Building { next, .. } | Doing::Following { next, .. } => Order::Read(*next),
        }
    }

    /// Takes a record of the feed.
    pub fn record(&mut self, record: &Record, now: Instant, wall: Timestamp, chance: f64) -> Step {
        self.read_wait.reset();
        let (view, next, is_shown) = match &mut self.doing {
            Doing::Following { next, .. } => (&mut self.shown, next, true),
            Doing::Building { fresh, next, .. } => (fresh.as_mut(), next, false),
            Doing::Finding { .. } => return Step::Nothing,
        };
        if record.offset < *next {
            return Step::Nothing;
        }
        *next = record.offset + 1;
        let known = view.position().cloned();
        let (outcome, from, to) = match record::read_item(&self.region, record) {
            Err(bad) => return self.refused(record.offset, bad.as_str(), is_shown, now, chance),
            Ok(FeedItem::Delta(delta)) => {
                let delta = planted_in(delta, record.offset);
                (view.apply(&delta), delta.from.clone(), delta.to.clone())
            }
            Ok(FeedItem::Bookmark(mut bookmark)) => {
                bookmark.age = self.way.age(bookmark.age, record.lain_at_most, now);
                (view.mark(&bookmark, now), bookmark.from.clone(), bookmark.position)
            }
        };
        let step = match outcome {
            Outcome::Applied => Step::Applied,
            Outcome::Duplicate => Step::Nothing,
            Outcome::Gap => self.failed(record.offset, "gap", Some(from), now, chance),
            Outcome::Superseded => {
                let is_conflict = known.is_some_and(|known| to.relation(&known) == Relation::Conflict);
                let reason = if is_conflict { "conflict" } else { "new_incarnation" };
                let history = Position::new(to.incarnation, Revision(0));
                self.failed(record.offset, reason, Some(history), now, chance)
            }
            // The state is wrong: it goes no further, whoever answered for this record before.
            Outcome::Diverged => self.resync("digest", Some(to), now, chance),
        };
        match step {
            Step::Resync(_) | Step::Installed(_) | Step::Refused(_) => step,
            Step::Applied | Step::Nothing if is_shown => {
                self.place = Some(record.offset + 1);
                step
            }
            Step::Applied | Step::Nothing => self.swap_if_caught_up(step, now, wall),
        }
    }

    /// Takes what a look for a snapshot gave.
    pub fn found(&mut self, found: Option<Found>, now: Instant, wall: Timestamp, chance: f64) -> Step {
        let Doing::Finding { reason, at_least, looks } = &mut self.doing else { return Step::Nothing };
        let reason = *reason;
        let built = found.and_then(|found| {
            let mut fresh = Box::new(View::new(self.region.clone()));
            let installed = fresh.install(found.snapshot, None, reason, wall);
            (installed == Outcome::Applied).then_some((fresh, found.feed_offset))
        });
        let relation = match &built {
            Some((fresh, _)) => relation(fresh, &self.shown),
            None => None,
        };
        match (built, relation) {
            (Some((fresh, next)), Some(Relation::Same(std::cmp::Ordering::Less))) => {
                self.doing = Doing::Building { reason, fresh, next };
                Step::Nothing
            }
            (Some((fresh, next)), relation) if relation != Some(Relation::OlderHistory) => {
                self.swap(&fresh, next, reason, now, wall)
            }
            (Some(_) | None, _) => {
                *looks = looks.saturating_sub(1);
                if *looks == 0 {
                    *at_least = None;
                }
                let wait = self.resync_wait.next(chance);
                let has_none = self.shown.position().is_none();
                self.hold_until = now.plus(if has_none { wait.min(FIRST_WAIT) } else { wait });
                Step::Nothing
            }
        }
    }

    /// Takes an error of the log.
    pub fn broke(&mut self, error: &LogError, now: Instant, chance: f64) -> Step {
        match (error, &self.doing) {
            (LogError::OutOfRange(_), Doing::Following { .. } | Doing::Building { .. }) => {
                // Another topic may have come in its place: its offsets say nothing about the old ones.
                self.answered = None;
                self.resync("out_of_range", None, now, chance)
            }
            (_, _) => {
                self.hold_until = now.plus(self.read_wait.next(chance));
                if planted::is(Bug::WipeOnEmpty)
                    && let Some(position) = self.shown.position().cloned()
                {
                    let nothing = Snapshot::of(self.region.clone(), position, State::default());
                    let _ = self.shown.install(nothing, None, "planted", Timestamp::default());
                    return Step::Installed("planted");
                }
                Step::Nothing
            }
        }
    }

    /// Answers a record that is not taken. It has changed nothing, so a state that is being built aside goes on without it,
    /// and a row of such records is answered once: the chain of those behind them proves whether anything is missing.
    fn refused(
        &mut self,
        offset: u64,
        reason: &'static str,
        is_shown: bool,
        now: Instant,
        chance: f64,
    ) -> Step {
        let is_next = self.answered.is_some_and(|answered| offset <= answered + 1);
        if !is_shown || is_next {
            let is_new = self.answered.is_none_or(|answered| offset > answered);
            self.answered = self.answered.max(Some(offset));
            if is_shown {
                self.place = Some(offset + 1);
            }
            return if is_new { Step::Refused(reason) } else { Step::Nothing };
        }
        self.failed(offset, reason, None, now, chance)
    }

    /// Answers a record that does not fit by a resync, unless that was done before.
    fn failed(
        &mut self,
        offset: u64,
        reason: &'static str,
        at_least: Option<Position>,
        now: Instant,
        chance: f64,
    ) -> Step {
        if self.answered.is_some_and(|answered| offset <= answered) {
            return Step::Nothing;
        }
        self.answered = Some(offset);
        self.resync(reason, at_least, now, chance)
    }

    fn resync(
        &mut self,
        reason: &'static str,
        at_least: Option<Position>,
        now: Instant,
        chance: f64,
    ) -> Step {
        if let Doing::Following { since, .. } = &self.doing
            && now.since(*since) >= LASTING
        {
            self.resync_wait.reset();
            self.patience = PATIENCE.0;
        }
        self.doing = Doing::Finding { reason, at_least, looks: self.patience };
        self.patience = (self.patience * 2).min(PATIENCE.1);
        self.hold_until = now.plus(self.resync_wait.next(chance));
        Step::Resync(reason)
    }

    fn swap_if_caught_up(&mut self, step: Step, now: Instant, wall: Timestamp) -> Step {
        let Doing::Building { reason, fresh, next } = &self.doing else { return step };
        if relation(fresh, &self.shown) == Some(Relation::Same(std::cmp::Ordering::Less)) {
            return step;
        }
        let (fresh, next, reason) = (fresh.clone(), *next, *reason);
        self.swap(&fresh, next, reason, now, wall)
    }

    /// Shows a state that was built aside. The view refuses one that goes back, which is the last word on I31.
    fn swap(&mut self, fresh: &View, next: u64, reason: &'static str, now: Instant, wall: Timestamp) -> Step {
        let Some(snapshot) = fresh.snapshot() else { return Step::Nothing };
        // Within one history a later state is at least as young as the one before it.
        let shown = match relation(fresh, &self.shown) {
            Some(Relation::Same(_)) => self.shown.heard_age(now),
            Some(Relation::OlderHistory | Relation::NewerHistory | Relation::Conflict) | None => None,
        };
        let age = fresh.heard_age(now).into_iter().chain(shown).min();
        let heard = age.map(|age| Heard { at: now, age });
        let installed = self.shown.install(snapshot, heard, reason, wall);
        debug_assert_eq!(installed, Outcome::Applied, "I31: a state that goes back was about to be shown");
        self.place = Some(next);
        self.doing = Doing::Following { next, since: now };
        Step::Installed(reason)
    }
}

/// The delta, unless a bug is planted that skips it now and then.
fn planted_in(delta: Arc<Delta>, offset: u64) -> Arc<Delta> {
    let is_planted = planted::is(Bug::SkipADelta) || planted::is(Bug::IgnoreTheDigest);
    // Not the first ones: everything is to stand before it falls.
    if is_planted && offset >= 200 && offset.is_multiple_of(20) {
        Arc::new(Delta { changes: Vec::new(), ..(*delta).clone() })
    } else {
        delta
    }
}

/// How one view's state stands to another's; `None` where one of them has none.
fn relation(fresh: &View, shown: &View) -> Option<Relation> {
    Some(fresh.position()?.relation(shown.position()?))
}

#[cfg(test)]
mod tests;
