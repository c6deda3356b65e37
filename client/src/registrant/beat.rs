//! When a registrant calls, and what for: a state machine without a clock, chance or I/O.
//!
//! Inputs are answers, the time and chance; outputs are "register", "renew" and "wait". Promises, whatever the answers:
//! it never stops calling, and it never calls in a hot loop: of three calls in a row, two are [`FLOOR`] apart. A
//! registration that is gone is made anew at once; every other failure waits for the next beat. So is one whose lease
//! is far from what was registered: what is renewed then is another's leftover.

use std::time::Duration;

use rollcall_model::{Backoff, Epoch, Instant, jittered};

use crate::transport::LeaseTimes;

/// Shortest time between a failed call and the next one. Full jitter may draw zero, and a refused connection on
/// loopback answers in microseconds: without a floor that is a busy loop.
pub(crate) const FLOOR: Duration = Duration::from_millis(100);
/// Longest beat that is believed: that of the longest lease, three times over.
const BEAT_MAX: Duration = Duration::from_secs(300);
/// The beat of the default lease, until the registry has told another.
const BEAT_DEFAULT: Duration = Duration::from_secs(10);
/// Shortest beat that an owner may wish for (acceptance LEA-15): more often it is load without news.
const WISH_FLOOR: Duration = Duration::from_secs(2);
/// First wait of registering is at most this (acceptance RCV-05).
const BACKOFF_FIRST: Duration = Duration::from_secs(1);
/// Later waits of registering are at most this: the fifth and last step of the sequence 1, 2, 4, 8, 16 s.
const BACKOFF_MOST: Duration = Duration::from_secs(16);
/// Longest wait that a refusal may ask for: beyond it an absent-minded proxy would cost the registration.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);
/// A lease so many times longer or shorter than the registered one is far from it (acceptance LEA-13). Two: a lease cut
/// to less than half its length is lost with one beat, and no rounding comes near it.
const FAR: u32 = 2;
/// Longest wait for an answer (acceptance LEA-04).
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(3);
/// Shortest time that an answer gets: less would cut off a cell that is merely busy.
const ANSWER_MIN: Duration = Duration::from_secs(1);

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Send the whole declaration.
    Register(Identity),
    /// Renew the lease of this epoch.
    Renew(Epoch),
    /// Nothing for this long.
    Wait(Duration),
}

/// Under which id to register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// The one it has.
    Same,
    /// A fresh instance: another process holds the old one.
    New,
}

/// What came back from the call that the last step asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// Registered under this epoch, with this lease.
    Registered(Epoch, LeaseTimes),
    /// Renewed, with this lease.
    Renewed(LeaseTimes),
    /// There is no such registration.
    NotRegistered,
    /// A newer epoch holds the id, at this endpoint.
    Superseded(String),
    /// Anything else, with the wait that was asked for.
    Failed(Option<Duration>),
}

/// What renewals should say of the lease. Lengths and no instants: the clocks of two machines may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// Anything: nothing was said yet, or it was doubted and is registered anew. The next renewal is believed.
    Any,
    /// This length.
    Length(Duration),
    /// This length, and a renewal said another: it is registered anew. What it holds is kept until that has succeeded.
    Doubted(Duration),
}

/// The state of keeping one registration alive. One call at a time is in flight: `step`, call, `answer`.
#[derive(Debug)]
pub(crate) struct Upkeep {
    endpoints: Vec<String>,
    is_shared: bool,
    held: Option<Epoch>,
    expected: Expected,
    identity: Identity,
    /// The owner's own beat, if it is more often than the registry asks for.
    wish: Option<Duration>,
    beat: Duration,
    backoff: Backoff,
    sent: Instant,
    due: Instant,
    /// A nudge does not move the next call before this.
    earliest: Instant,
}

impl Upkeep {
    /// Begins unregistered, with the first call due now. `endpoints` are the registrant's own.
    pub(crate) fn new(endpoints: Vec<String>, now: Instant) -> Self {
        Self {
            endpoints,
            is_shared: false,
            held: None,
            expected: Expected::Any,
            identity: Identity::Same,
            wish: None,
            beat: BEAT_DEFAULT,
            backoff: Backoff::new(BACKOFF_FIRST, BACKOFF_MOST),
            sent: now,
            due: now,
            earliest: now,
        }
    }

    /// Of an entry that several processes share: another's endpoint is no reason to take another id.
    pub(crate) const fn sharing(mut self) -> Self {
        self.is_shared = true;
        self
    }

    /// The epoch it holds, as far as it knows.
    pub(crate) const fn held(&self) -> Option<Epoch> {
        self.held
    }

    /// How long an answer is waited for: on a short lease less than a beat, so that one lost packet costs one beat.
    pub(crate) fn patience(&self) -> Duration {
        self.beat.clamp(ANSWER_MIN, ANSWER_MAX)
    }

    /// With a beat of the owner's own: never below two seconds, and never less often than the registry asks for, because
    /// the registry takes a longer silence for a sign.
    pub(crate) const fn wishing(mut self, beat: Option<Duration>) -> Self {
        self.wish = beat;
        self
    }

    /// What to do now. After a call, [`Upkeep::answer`] comes before the next step.
    pub(crate) fn step(&mut self, now: Instant) -> Step {
        if now < self.due {
            return Step::Wait(self.due.since(now));
        }
        self.sent = now;
        match self.held {
            Some(epoch) if !self.is_doubted() => Step::Renew(epoch),
            Some(_) | None => Step::Register(std::mem::replace(&mut self.identity, Identity::Same)),
        }
    }

    /// Takes the answer of the last call. `chance` is in [0, 1).
    pub(crate) fn answer(&mut self, answer: Answer, now: Instant, chance: f64) {
        match (self.held, answer) {
            (None, Answer::Registered(epoch, lease)) => {
                self.expected = Expected::Length(lease.length);
                self.registered(epoch, lease.beat, now, chance);
            }
            (Some(_), Answer::Registered(epoch, lease)) if self.is_doubted() => {
                self.expected = Expected::Any;
                self.registered(epoch, lease.beat, now, chance);
            }
            // A doubted one was being registered; no registry answers that so.
            (Some(_), Answer::Renewed(_) | Answer::NotRegistered | Answer::Superseded(_))
                if self.is_doubted() =>
            {
                self.go_on(None, now, chance);
            }
            (Some(_), Answer::Renewed(lease)) => {
                self.beat = self.beat_of(lease.beat);
                // A renewal is the lasting success; a registration alone may be lost again (museum B77).
                self.backoff.reset();
                self.next_beat(None, now, chance);
                self.compare(lease.length, now);
            }
            (Some(_), Answer::NotRegistered) => self.register_at_once(Identity::Same, now),
            (Some(_), Answer::Superseded(endpoint)) => {
                // Its own endpoint: a predecessor's or its own late registration, so the id is still its own.
                let own = self.is_shared || self.endpoints.contains(&endpoint);
                self.register_at_once(if own { Identity::Same } else { Identity::New }, now);
            }
            (Some(_), Answer::Failed(retry_after)) => self.go_on(retry_after, now, chance),
            (None, Answer::Failed(retry_after)) => self.back_off(retry_after, now, chance),
            // No registry answers so; taken for a failure.
            (Some(_), Answer::Registered(..)) => self.go_on(None, now, chance),
            (None, Answer::Renewed(_) | Answer::NotRegistered | Answer::Superseded(_)) => {
                self.back_off(None, now, chance);
            }
        }
    }

    /// Whether the last renewal told of a lease that is not the one registered.
    pub(crate) const fn is_doubted(&self) -> bool {
        matches!(self.expected, Expected::Doubted(_))
    }

    /// The owner has something to say: the next beat comes at once, but not into the face of a refusal.
    pub(crate) fn nudge(&mut self, now: Instant) {
        self.due = self.due.min(self.earliest.max(now));
    }

    fn registered(&mut self, epoch: Epoch, beat: Duration, now: Instant, chance: f64) {
        self.held = Some(epoch);
        self.beat = self.beat_of(beat);
        self.next_beat(None, now, chance);
    }

    fn beat_of(&self, told: Duration) -> Duration {
        let told = told.clamp(FLOOR, BEAT_MAX);
        self.wish.map_or(told, |wish| wish.max(WISH_FLOOR).min(told))
    }

    /// Of a shared entry another holder may have declared another lease; it is not registered back and forth.
    fn compare(&mut self, told: Duration, now: Instant) {
        match self.expected {
            Expected::Any => self.expected = Expected::Length(told),
            Expected::Length(length) if !self.is_shared && is_far(told, length) => {
                self.expected = Expected::Doubted(length);
                self.due = now;
            }
            Expected::Length(_) | Expected::Doubted(_) => {}
        }
    }

    /// After a failure: with what it holds, also if it was doubted.
    fn go_on(&mut self, retry_after: Option<Duration>, now: Instant, chance: f64) {
        if let Expected::Doubted(length) = self.expected {
            self.expected = Expected::Length(length);
        }
        self.next_beat(retry_after, now, chance);
    }

    fn register_at_once(&mut self, identity: Identity, now: Instant) {
        self.held = None;
        self.expected = Expected::Any;
        self.identity = identity;
        self.due = now;
        self.earliest = now;
    }

    /// Beats are counted from sending to sending: a call that hung must not stretch the gap between two renewals.
    fn next_beat(&mut self, retry_after: Option<Duration>, now: Instant, chance: f64) {
        self.earliest = now.plus(retry_after.unwrap_or_default().clamp(FLOOR, RETRY_AFTER_MAX));
        self.due = self.sent.plus(jittered(self.beat, chance)).max(self.earliest);
    }

    fn back_off(&mut self, retry_after: Option<Duration>, now: Instant, chance: f64) {
        let asked = retry_after.unwrap_or_default().clamp(FLOOR, RETRY_AFTER_MAX);
        self.due = now.plus(self.backoff.next(chance).max(asked));
        self.earliest = self.due;
    }
}

fn is_far(told: Duration, expected: Duration) -> bool {
    told > expected.saturating_mul(FAR) || told.saturating_mul(FAR) < expected
}

#[cfg(test)]
mod tests;
