//! When a registrant calls, and what for: a state machine without a clock, chance or I/O.
//!
//! Inputs are answers, the time and chance; outputs are "register", "renew" and "wait". Promises, whatever the answers:
//! it never stops calling, and it never calls in a hot loop: of three calls in a row, two are [`FLOOR`] apart. A
//! registration that is gone is made anew at once; every other failure waits for the next beat.

use std::time::Duration;

use rollcall_model::{Backoff, Epoch, Instant, jittered};

/// Shortest time between a failed call and the next one. Full jitter may draw zero, and a refused connection on
/// loopback answers in microseconds: without a floor that is a busy loop.
pub(crate) const FLOOR: Duration = Duration::from_millis(100);
/// Longest beat that is believed: that of the longest lease, three times over.
const BEAT_MAX: Duration = Duration::from_secs(300);
/// The beat of the default lease, until the registry has told another.
const BEAT_DEFAULT: Duration = Duration::from_secs(10);
/// First wait of registering is at most this (acceptance RCV-05).
const BACKOFF_FIRST: Duration = Duration::from_secs(1);
/// Later waits of registering are at most this: the fifth and last step of the sequence 1, 2, 4, 8, 16 s.
const BACKOFF_MOST: Duration = Duration::from_secs(16);
/// Longest wait that a refusal may ask for: beyond it an absent-minded proxy would cost the registration.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);
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
    /// Registered under this epoch; the registry wants a beat this often.
    Registered(Epoch, Duration),
    /// Renewed; the registry wants a beat this often.
    Renewed(Duration),
    /// There is no such registration.
    NotRegistered,
    /// A newer epoch holds the id, at this endpoint.
    Superseded(String),
    /// Anything else, with the wait that was asked for.
    Failed(Option<Duration>),
}

/// The state of keeping one registration alive. One call at a time is in flight: `step`, call, `answer`.
#[derive(Debug)]
pub(crate) struct Upkeep {
    endpoints: Vec<String>,
    is_shared: bool,
    held: Option<Epoch>,
    identity: Identity,
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
            identity: Identity::Same,
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

    /// What to do now. After a call, [`Upkeep::answer`] comes before the next step.
    pub(crate) fn step(&mut self, now: Instant) -> Step {
        if now < self.due {
            return Step::Wait(self.due.since(now));
        }
        self.sent = now;
        match self.held {
            Some(epoch) => Step::Renew(epoch),
            None => Step::Register(std::mem::replace(&mut self.identity, Identity::Same)),
        }
    }

    /// Takes the answer of the last call. `chance` is in [0, 1).
    pub(crate) fn answer(&mut self, answer: Answer, now: Instant, chance: f64) {
        match (self.held, answer) {
            (None, Answer::Registered(epoch, beat)) => {
                self.held = Some(epoch);
                self.beat = beat.clamp(FLOOR, BEAT_MAX);
                self.next_beat(None, now, chance);
            }
            (Some(_), Answer::Renewed(beat)) => {
                self.beat = beat.clamp(FLOOR, BEAT_MAX);
                // A renewal is the lasting success; a registration alone may be lost again (museum B77).
                self.backoff.reset();
                self.next_beat(None, now, chance);
            }
            (Some(_), Answer::NotRegistered) => self.register_at_once(Identity::Same, now),
            (Some(_), Answer::Superseded(endpoint)) => {
                // Its own endpoint: a predecessor's or its own late registration, so the id is still its own.
                let own = self.is_shared || self.endpoints.contains(&endpoint);
                self.register_at_once(if own { Identity::Same } else { Identity::New }, now);
            }
            (Some(_), Answer::Failed(retry_after)) => self.next_beat(retry_after, now, chance),
            (None, Answer::Failed(retry_after)) => self.back_off(retry_after, now, chance),
            // No registry answers so; taken for a failure.
            (Some(_), Answer::Registered(..)) => self.next_beat(None, now, chance),
            (None, Answer::Renewed(_) | Answer::NotRegistered | Answer::Superseded(_)) => {
                self.back_off(None, now, chance);
            }
        }
    }

    /// The owner has something to say: the next beat comes at once, but not into the face of a refusal.
    pub(crate) fn nudge(&mut self, now: Instant) {
        self.due = self.due.min(self.earliest.max(now));
    }

    fn register_at_once(&mut self, identity: Identity, now: Instant) {
        self.held = None;
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rollcall_model::Revision;

    use super::*;

    const OWN: &str = "http://own:1/";
    const BEAT: Duration = Duration::from_secs(10);

    fn at(ms: u64) -> Instant {
        Instant(Duration::from_millis(ms))
    }

    fn epoch(revision: u64) -> Epoch {
        Epoch::new(1, Revision(revision))
    }

    fn registered() -> Upkeep {
        let mut upkeep = Upkeep::new(vec![OWN.into()], at(0));
        assert_eq!(upkeep.step(at(0)), Step::Register(Identity::Same));
        upkeep.answer(Answer::Registered(epoch(1), BEAT), at(0), 0.5);
        upkeep
    }

    #[test]
    fn a_beat_comes_a_fifth_early_or_late_at_most() {
        for (chance, wait_ms) in [(0.0, 8_000), (0.5, 10_000), (1.0, 12_000)] {
            let mut upkeep = Upkeep::new(vec![OWN.into()], at(0));
            upkeep.step(at(0));
            upkeep.answer(Answer::Registered(epoch(1), BEAT), at(40), chance);
            assert_eq!(upkeep.step(at(40)), Step::Wait(Duration::from_millis(wait_ms - 40)));
            assert_eq!(upkeep.step(at(wait_ms)), Step::Renew(epoch(1)));
        }
    }

    #[test]
    fn each_answer_to_a_renewal_has_its_next_step() {
        let same = Step::Register(Identity::Same);
        let wait = |ms| Step::Wait(Duration::from_millis(ms));
        for (answer, next) in [
            (Answer::Renewed(BEAT), wait(9_000)),
            (Answer::Renewed(Duration::from_secs(5)), wait(4_000)),
            (Answer::NotRegistered, same),
            (Answer::Superseded(OWN.into()), same),
            (Answer::Superseded("http://other:1/".into()), Step::Register(Identity::New)),
            (Answer::Superseded(String::new()), Step::Register(Identity::New)),
            (Answer::Failed(None), wait(9_000)),
            (Answer::Failed(Some(Duration::from_secs(2))), wait(9_000)),
            (Answer::Failed(Some(Duration::from_secs(25))), wait(25_000)),
            (Answer::Failed(Some(Duration::from_secs(3_600))), wait(60_000)),
            (Answer::Registered(epoch(9), BEAT), wait(9_000)),
        ] {
            let mut upkeep = registered();
            assert_eq!(upkeep.step(at(10_000)), Step::Renew(epoch(1)));
            upkeep.answer(answer.clone(), at(11_000), 0.5);
            assert_eq!(upkeep.step(at(11_000)), next, "{answer:?}");
        }
    }

    #[test]
    fn registering_waits_longer_and_longer_up_to_sixteen_seconds() {
        let mut upkeep = Upkeep::new(Vec::new(), at(0));
        let mut now = at(0);
        let mut waits = Vec::new();
        for _ in 0..7 {
            assert_eq!(upkeep.step(now), Step::Register(Identity::Same));
            upkeep.answer(Answer::Failed(None), now, 1.0);
            let Step::Wait(wait) = upkeep.step(now) else { panic!("called at once") };
            waits.push(wait.as_secs());
            now = now.plus(wait);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 16, 16]);
    }

    #[test]
    fn a_refusal_of_a_registration_is_left_alone_as_long_as_it_asks() {
        let mut upkeep = Upkeep::new(Vec::new(), at(0));
        upkeep.step(at(0));
        upkeep.answer(Answer::Failed(Some(Duration::from_secs(7))), at(0), 0.0);
        upkeep.nudge(at(1));
        assert_eq!(upkeep.step(at(1)), Step::Wait(Duration::from_millis(6_999)));
    }

    #[test]
    fn registrations_that_never_last_keep_their_spread() {
        let mut upkeep = registered();
        let mut bounds = Vec::new();
        for round in 0_u64..4 {
            let now = at(20_000 * (round + 1));
            assert!(matches!(upkeep.step(now), Step::Renew(_)));
            upkeep.answer(Answer::NotRegistered, now, 0.5);
            upkeep.step(now);
            upkeep.answer(Answer::Failed(None), now, 1.0);
            let Step::Wait(wait) = upkeep.step(now) else { panic!("called at once") };
            bounds.push(wait.as_secs());
            upkeep.step(now.plus(wait));
            upkeep.answer(Answer::Registered(epoch(round + 2), Duration::from_secs(1)), now.plus(wait), 0.5);
        }
        assert_eq!(bounds, [1, 2, 4, 8]);
    }

    #[test]
    fn a_hanging_call_does_not_stretch_the_gap_between_beats() {
        let mut upkeep = registered();
        upkeep.step(at(10_000));
        upkeep.answer(Answer::Failed(None), at(13_000), 0.5);
        assert_eq!(upkeep.step(at(13_000)), Step::Wait(Duration::from_secs(7)));
    }

    #[test]
    fn what_the_owner_says_goes_out_at_once_but_not_twice_in_a_floor() {
        let mut upkeep = registered();
        upkeep.nudge(at(3_000));
        assert_eq!(upkeep.step(at(3_000)), Step::Renew(epoch(1)));
        upkeep.answer(Answer::Renewed(BEAT), at(3_010), 0.5);
        upkeep.nudge(at(3_010));
        assert_eq!(upkeep.step(at(3_010)), Step::Wait(FLOOR));
    }

    #[test]
    fn an_answer_gets_less_time_on_a_short_lease() {
        for (beat_ms, patience_ms) in [(10_000, 3_000), (1_667, 1_667), (200, 1_000)] {
            let mut upkeep = Upkeep::new(Vec::new(), at(0));
            upkeep.step(at(0));
            upkeep.answer(Answer::Registered(epoch(1), Duration::from_millis(beat_ms)), at(0), 0.5);
            assert_eq!(upkeep.patience(), Duration::from_millis(patience_ms));
        }
    }

    fn any_answer() -> impl Strategy<Value = Answer> {
        let wait = prop_oneof![Just(0_u64), 0..5_000_u64, Just(u64::MAX)].prop_map(Duration::from_millis);
        prop_oneof![
            ((1_u64..1_000), wait.clone())
                .prop_map(|(revision, beat)| Answer::Registered(epoch(revision), beat)),
            wait.clone().prop_map(Answer::Renewed),
            Just(Answer::NotRegistered),
            prop_oneof![Just(OWN.to_owned()), Just("http://other:1/".to_owned()), Just(String::new())]
                .prop_map(Answer::Superseded),
            proptest::option::of(wait).prop_map(Answer::Failed),
        ]
    }

    /// How long a call takes: mostly nothing, which is what makes loops hot.
    fn any_took() -> impl Strategy<Value = u64> {
        prop_oneof![4 => Just(0_u64), 1 => 0..4_000_u64]
    }

    proptest! {
        #[test]
        fn no_answers_make_a_hot_loop_or_a_stop(
            answers in proptest::collection::vec((any_answer(), any_took(), 0.0..1.0_f64, any::<bool>()), 1..200)
        ) {
            let mut upkeep = Upkeep::new(vec![OWN.into()], at(0));
            let mut now = at(0);
            let mut sent: Vec<Instant> = Vec::new();
            let mut failed_before = None;
            for (answer, took_ms, chance, nudged) in answers {
                if let Step::Wait(wait) = upkeep.step(now) {
                    // The longest beat with its jitter is the longest silence there is.
                    prop_assert!(wait <= BEAT_MAX.mul_f64(1.2), "it stopped for {wait:?}");
                    now = now.plus(wait);
                    prop_assert!(!matches!(upkeep.step(now), Step::Wait(_)), "it did not call when it was due");
                }
                if let Some(failed) = failed_before {
                    prop_assert!(now.since(failed) >= FLOOR, "it called {:?} after a failure", now.since(failed));
                }
                sent.push(now);
                now = now.plus(Duration::from_millis(took_ms));
                let failed = matches!(answer, Answer::Failed(_));
                upkeep.answer(answer, now, chance);
                failed_before = failed.then_some(now);
                if nudged {
                    upkeep.nudge(now);
                }
            }
            for three in sent.windows(3) {
                prop_assert!(three[2].since(three[0]) >= FLOOR, "three calls within {:?}", three[2].since(three[0]));
            }
        }
    }
}
