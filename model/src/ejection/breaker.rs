//! One instance, or one zone, as one caller sees it: closed while calls succeed, open after enough bad ones, then one
//! probe at a time until a call succeeds.

use std::time::Duration;

use crate::backoff::jittered;
use crate::ejection::{Called, EjectionLimits};
use crate::resolve::Trust;
use crate::time::Instant;

/// What is remembered of one. Of whom nothing bad is known there is none.
#[derive(Clone, Debug)]
pub(super) struct Breaker {
    phase: Phase,
    /// How often it was opened since it was last forgiven.
    opened: u32,
    /// When it was last opened.
    since: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Called. The bad calls in a row, how many of the last ones timed out, and when the last one was.
    Closed { bad: u32, timed_out: u32, last: Instant },
    /// Not called before this.
    Open { until: Instant },
    /// One call tries it; nobody hears of that call after this.
    Probing { until: Instant },
}

const WELL: Phase = Phase::Closed { bad: 0, timed_out: 0, last: Instant(Duration::ZERO) };

/// What a report asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// Nothing; remember it as it is now.
    Remember,
    /// There is nothing left to remember.
    Forget,
    /// Eject it, if the bound lets it.
    Eject,
    /// It failed its probe: eject it for longer.
    EjectAgain,
    /// It is well again.
    Readmit,
}

impl Default for Breaker {
    fn default() -> Self {
        Self { phase: WELL, opened: 0, since: Instant(Duration::ZERO) }
    }
}

impl Breaker {
    /// Whether it was opened never, or so long ago that it says nothing any more, and is not open now.
    pub(super) fn is_blank(&self, now: Instant, limits: &EjectionLimits) -> bool {
        !self.is_ejected() && (self.opened == 0 || self.is_forgiven(now, limits))
    }

    /// Whether the last call was a bad one.
    pub(super) const fn is_bad(&self) -> bool {
        match self.phase {
            Phase::Closed { bad, .. } => bad > 0,
            Phase::Open { .. } | Phase::Probing { .. } => true,
        }
    }

    pub(super) fn trust(&self, now: Instant) -> Trust {
        match self.phase {
            Phase::Closed { .. } => Trust::Usable,
            Phase::Open { until } | Phase::Probing { until } if now < until => Trust::Ejected,
            Phase::Open { .. } | Phase::Probing { .. } => Trust::Probe,
        }
    }

    /// Whether it would be ejected if it were not for the bound, by a bad call a short while ago. Later it may be as well
    /// as others for what is known, so a call finds out.
    pub(super) fn is_spared(&self, now: Instant, limits: &EjectionLimits) -> bool {
        matches!(self.phase, Phase::Closed { bad, timed_out, last }
            if is_enough(bad, timed_out, limits) && now.since(last) < limits.first)
    }

    pub(super) const fn is_ejected(&self) -> bool {
        matches!(self.phase, Phase::Open { .. } | Phase::Probing { .. })
    }

    /// When it may be tried again, if it is ejected.
    pub(super) const fn until(&self) -> Option<Instant> {
        match self.phase {
            Phase::Closed { .. } => None,
            Phase::Open { until } | Phase::Probing { until } => Some(until),
        }
    }

    /// Whether this report would change anything.
    pub(super) fn is_news(&self, called: Called, now: Instant, limits: &EjectionLimits) -> bool {
        match self.phase {
            Phase::Closed { bad, .. } => {
                called != Called::Succeeded || bad > 0 || self.is_forgiven(now, limits)
            }
            // Calls that were under way when it was opened say nothing new.
            Phase::Open { until } => called == Called::Succeeded || now >= until,
            Phase::Probing { .. } => true,
        }
    }

    pub(super) fn report(&mut self, called: Called, now: Instant, limits: &EjectionLimits) -> Wish {
        if !self.is_news(called, now, limits) {
            return Wish::Remember;
        }
        match (self.phase, called) {
            (Phase::Closed { .. }, Called::Succeeded) => {
                self.phase = WELL;
                if self.opened == 0 || self.is_forgiven(now, limits) { Wish::Forget } else { Wish::Remember }
            }
            (Phase::Closed { bad, timed_out, .. }, Called::Failed | Called::TimedOut) => {
                let bad = bad.saturating_add(1);
                let timed_out = if called == Called::TimedOut { timed_out.saturating_add(1) } else { 0 };
                self.phase = Phase::Closed { bad, timed_out, last: now };
                if is_enough(bad, timed_out, limits) { Wish::Eject } else { Wish::Remember }
            }
            (Phase::Open { .. } | Phase::Probing { .. }, Called::Succeeded) => Wish::Readmit,
            (Phase::Open { .. } | Phase::Probing { .. }, Called::Failed | Called::TimedOut) => {
                Wish::EjectAgain
            }
        }
    }

    /// Ejects it for a while, longer each time; gives back for how long.
    pub(super) fn open(&mut self, now: Instant, chance: f64, limits: &EjectionLimits) -> Duration {
        if self.is_forgiven(now, limits) {
            self.opened = 0;
        }
        let wait = limits.first.saturating_mul(1_u32.checked_shl(self.opened).unwrap_or(u32::MAX));
        let wait = jittered(wait.min(limits.most), chance);
        self.opened = (self.opened + 1).min(31);
        self.since = now;
        self.phase = Phase::Open { until: now.plus(wait) };
        wait
    }

    /// Gives away the one probe.
    pub(super) fn probe(&mut self, now: Instant, wait: Duration) {
        self.phase = Phase::Probing { until: now.plus(wait) };
    }

    /// Called again, and remembered: if it fails again, it is ejected for longer.
    pub(super) const fn close(&mut self) {
        self.phase = WELL;
    }

    /// It did well for so long that its past says nothing any more.
    fn is_forgiven(&self, now: Instant, limits: &EjectionLimits) -> bool {
        self.opened > 0 && now.since(self.since) >= limits.most.saturating_mul(4)
    }
}

const fn is_enough(bad: u32, timed_out: u32, limits: &EjectionLimits) -> bool {
    bad >= limits.bad_calls || timed_out >= limits.timeouts
}
