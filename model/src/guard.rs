//! The expiry guard: how many lapsed registrations may go now, and why not more.
//!
//! It is judged on suspects, not on the lapses of one sweep: when a third of a fleet is cut off, its leases lapse one by
//! one over a beat, no single sweep sees much, and a guard that looks at sweeps deletes every healthy instance. While
//! a cohort holds, nothing of it goes without evidence; when its suspects fall below the limit it settles for one more
//! suspect period, because the last ones of a healing zone are lapsed and alive.

mod account;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::name::Zone;
use crate::time::Instant;

use account::Account;

/// What is counted together: a failed network takes a zone or the region.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cohort {
    /// All registrations.
    Region,
    /// Those that declared this zone.
    Zone(Zone),
}

/// One cohort as a sweep finds it. What is proved dead or released by an operator counts in neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Leases.
    pub registered: u64,
    /// Those overdue, the lapsed ones among them.
    pub suspects: u64,
    /// The longest suspect period among the suspects: how long a living one may take to be heard.
    pub period: Duration,
}

/// Where the guard draws the line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GuardLimits {
    /// So many may always be suspect: in a fleet of three one dead instance must go by itself.
    pub floor: u64,
    /// The share that may be suspect: normal churn stays well under it, a lost zone is over it.
    pub fraction: f64,
}

impl Default for GuardLimits {
    fn default() -> Self {
        Self { floor: 1, fraction: 0.15 }
    }
}

impl GuardLimits {
    /// How many may be suspect among so many.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    pub fn limit(&self, registered: u64) -> u64 {
        // Fleets are far below 2^53, so the product is exact enough to be floored.
        self.floor.max((registered as f64 * self.fraction).floor() as u64)
    }
}

/// What a cohort is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Lapsed ones go.
    Calm,
    /// Too many are suspect: nothing goes.
    Holding {
        /// Since when.
        since: Instant,
    },
    /// Few enough are suspect again; what was held waits until every living one has had its beat.
    Settling {
        /// Since when it held.
        since: Instant,
        /// Until when nothing goes.
        until: Instant,
    },
}

/// A cohort's state changed: for the alert, the metric and the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Which cohort.
    pub cohort: Cohort,
    /// What it is doing now.
    pub phase: Phase,
    /// What was counted.
    pub census: Census,
    /// Where the line is.
    pub limit: u64,
}

/// One cohort for an operator to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CohortStatus {
    /// Which.
    pub cohort: Cohort,
    /// What it is doing.
    pub phase: Phase,
    /// What is counted now.
    pub census: Census,
    /// Where the line is.
    pub limit: u64,
}

#[derive(Clone, Debug)]
struct Watched {
    phase: Phase,
    account: Account,
}

/// The guard of one keeper.
#[derive(Clone, Debug, Default)]
pub struct ExpiryGuard {
    limits: GuardLimits,
    cohorts: BTreeMap<Cohort, Watched>,
}

impl ExpiryGuard {
    /// A calm guard.
    #[must_use]
    pub fn new(limits: GuardLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Takes a sweep's census of every cohort; gives the cohorts that changed what they do.
    pub fn judge(&mut self, census: BTreeMap<Cohort, Census>, now: Instant) -> Vec<Turn> {
        // A cohort that nobody is in any more has nothing to hold.
        self.cohorts.retain(|cohort, _| census.contains_key(cohort));
        let mut turns = Vec::new();
        for (cohort, census) in census {
            let limit = self.limits.limit(census.registered);
            let before = self.cohorts.get(&cohort).map_or(Phase::Calm, |watched| watched.phase);
            let phase = next_phase(before, census.suspects > limit, census.period, now);
            if std::mem::discriminant(&phase) != std::mem::discriminant(&before) {
                turns.push(Turn { cohort: cohort.clone(), phase, census, limit });
            }
            let mut account = self.cohorts.remove(&cohort).map(|watched| watched.account).unwrap_or_default();
            account.found(census.registered, now);
            self.cohorts.insert(cohort, Watched { phase, account });
        }
        turns
    }

    /// Whether a lapsed registration of this zone may go without evidence now; if so it is counted.
    ///
    /// Bounded twice (I07): no cohort may hold or settle, and within any window of one lease no more than the limit of
    /// what each cohort had when the window began goes.
    pub fn allow(&mut self, zone: Option<&Zone>, window: Duration, now: Instant) -> bool {
        let own = zone.cloned().map(Cohort::Zone);
        let cohorts = || std::iter::once(&Cohort::Region).chain(&own);
        for cohort in cohorts() {
            let Some(watched) = self.cohorts.get(cohort) else { return false };
            let gone = watched.account.gone(window, now);
            let limit = self.limits.limit(watched.account.registered(window, now));
            if watched.phase != Phase::Calm || gone >= limit {
                return false;
            }
        }
        for cohort in cohorts() {
            if let Some(watched) = self.cohorts.get_mut(cohort) {
                watched.account.goes(now);
            }
        }
        true
    }

    /// Whether anything is held.
    #[must_use]
    pub fn is_holding(&self) -> bool {
        self.cohorts.values().any(|watched| watched.phase != Phase::Calm)
    }

    /// Whether this zone's registrations are held now.
    #[must_use]
    pub fn holds(&self, zone: Option<&Zone>) -> bool {
        let held =
            |cohort: &Cohort| self.cohorts.get(cohort).is_some_and(|watched| watched.phase != Phase::Calm);
        held(&Cohort::Region) || zone.is_some_and(|zone| held(&Cohort::Zone(zone.clone())))
    }

    /// Every cohort of a census taken now, with what the last sweep decided of it. One that no sweep has seen is calm.
    ///
    /// The counts are never the last sweep's: while the store does not answer there is none for a while, and whoever
    /// looks then must not be shown as silent who is back.
    pub fn status(&self, census: BTreeMap<Cohort, Census>) -> impl Iterator<Item = CohortStatus> + use<'_> {
        census.into_iter().map(|(cohort, census)| CohortStatus {
            phase: self.cohorts.get(&cohort).map_or(Phase::Calm, |watched| watched.phase),
            limit: self.limits.limit(census.registered),
            census,
            cohort,
        })
    }
}

fn next_phase(before: Phase, over: bool, period: Duration, now: Instant) -> Phase {
    match before {
        Phase::Calm if over => Phase::Holding { since: now },
        Phase::Calm => Phase::Calm,
        Phase::Holding { since } if over => Phase::Holding { since },
        Phase::Holding { since } => Phase::Settling { since, until: now.plus(period) },
        Phase::Settling { since, .. } if over => Phase::Holding { since },
        Phase::Settling { until, .. } if now >= until => Phase::Calm,
        Phase::Settling { since, until } => Phase::Settling { since, until },
    }
}

impl fmt::Display for Cohort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Region => f.write_str("region"),
            Self::Zone(zone) => write!(f, "zone:{zone}"),
        }
    }
}
