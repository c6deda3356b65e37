//! The use cases of an operator: see the guard, release what it holds, evict, mute.
//!
//! Each leaves an audit line, where it is done. Never here: who may do so; that is the face's to ask.

use std::sync::Arc;
use std::time::Duration;

use rollcall_model::guard::{Cohort, CohortStatus};
use rollcall_model::{Code, InstanceId, Instant, Phase, RemovalReason, Timestamp, limits};
use rollcall_proto::store::Gone;

use crate::keeper::NotReleased;
use crate::refusal::Refusal;
use crate::registrar::Registrar;

/// Whoever acts, until callers prove who they are.
pub(crate) const OPERATOR: &str = "anonymous";
/// Longest drill: one that was forgotten is over the next day.
const MUTE_SECONDS_MAX: u64 = 86_400;
/// Most ids of one release: as many as renewals in one batch, judged under the same lock.
const RELEASES_MAX: usize = limits::RENEWALS_MAX;

/// An operator's name as removals tell it.
pub(crate) fn actor(operator: &str) -> String {
    format!("operator:{operator}")
}

/// Checks how many ids a release lists; what is wrong otherwise.
pub(crate) fn check_releases(ids: usize) -> Result<(), &'static str> {
    if ids > RELEASES_MAX { Err("there are more than 1,000 of them") } else { Ok(()) }
}

/// Checks why somebody is evicted; what is wrong otherwise.
pub(crate) fn check_reason(reason: &str) -> Result<(), &'static str> {
    if reason.chars().count() > limits::DESCRIPTION_CHARS_MAX {
        return Err("it has more than 1,024 characters");
    }
    if reason.trim().is_empty() {
        return Err("it is empty: the audit line says why an instance was evicted");
    }
    Ok(())
}

/// Checks how long a drill lasts; what is wrong otherwise.
pub(crate) fn check_mute(seconds: u64) -> Result<(), &'static str> {
    if seconds > MUTE_SECONDS_MAX { Err("it is at most 86400, a day; 0 ends a mute") } else { Ok(()) }
}

/// What the guard is doing, by the wall clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardFacts {
    /// Every cohort as it is now, with what the last sweep decided of it.
    pub cohorts: Vec<CohortFacts>,
    /// Lapsed registrations that are kept because their cohort holds.
    pub held: Vec<InstanceId>,
}

impl GuardFacts {
    /// Whether nothing is held, and nothing that was held waits.
    pub(crate) fn is_calm(&self) -> bool {
        self.cohorts.iter().all(|cohort| cohort.since.is_none())
    }
}

/// One cohort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CohortFacts {
    /// Which.
    pub cohort: Cohort,
    /// Leases.
    pub registered: u64,
    /// Those overdue.
    pub suspects: u64,
    /// Where the line is.
    pub limit: u64,
    /// Since when it holds; none while it is calm.
    pub since: Option<Timestamp>,
    /// Until when nothing goes, once few enough are silent.
    pub settling_until: Option<Timestamp>,
}

impl CohortFacts {
    fn of(status: &CohortStatus, now: Instant, wall: Timestamp) -> Self {
        let (since, until) = match status.phase {
            Phase::Calm => (None, None),
            Phase::Holding { since } => (Some(since), None),
            Phase::Settling { since, until } => (Some(since), Some(until)),
        };
        Self {
            cohort: status.cohort.clone(),
            registered: status.census.registered,
            suspects: status.census.suspects,
            limit: status.limit,
            since: since.map(|at| wall_at(at, now, wall)),
            settling_until: until.map(|at| wall_at(at, now, wall)),
        }
    }
}

/// A monotonic instant for people, from what both clocks say now.
pub(crate) fn wall_at(at: Instant, now: Instant, wall: Timestamp) -> Timestamp {
    let ms = |length: Duration| i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
    Timestamp(wall.0.saturating_sub(ms(now.since(at))).saturating_add(ms(at.since(now))))
}

/// What became of a release, id by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// Let go: removed by the next sweep.
    pub released: Vec<String>,
    /// Not let go, each with the reason.
    pub refused: Vec<(String, String)>,
}

impl Registrar {
    /// What the guard is doing; `None` when this process does not keep the leases now.
    pub(crate) fn guard_here(&self) -> Option<GuardFacts> {
        let status = self.keeper.guard()?;
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let cohorts = status.cohorts.iter().map(|status| CohortFacts::of(status, now, wall)).collect();
        Some(GuardFacts { cohorts, held: status.held })
    }

    /// Releases what is listed and overdue; `None` when this process does not keep the leases now.
    pub(crate) fn release_here(&self, ids: &[String], operator: &str) -> Option<Released> {
        let mut outcome = Released::default();
        for id in ids {
            match self.keeper.release(id, operator)? {
                Ok(()) => {
                    tracing::warn!(target: "audit", id, operator, "released from the guard");
                    outcome.released.push(id.clone());
                }
                Err(NotReleased::NotRegistered) => {
                    outcome.refused.push((id.clone(), "it is not registered".to_owned()));
                }
                Err(NotReleased::Live) => {
                    outcome.refused.push((id.clone(), "it is renewed in time".to_owned()));
                }
            }
        }
        Some(outcome)
    }

    /// Removes a registration on an operator's word. A registrant that still lives comes back with a higher epoch.
    ///
    /// # Errors
    /// Not registered, the store's refusals, or a cell that has no state yet: it cannot say who is registered.
    pub async fn evict(&self, id: &InstanceId, reason: &str, operator: &str) -> Result<(), Refusal> {
        let current = self.registered(id)?;
        let gone = Gone {
            id: id.clone(),
            reason: RemovalReason::Evicted,
            actor: actor(operator).into(),
            term: None,
        };
        self.remove(id, current.epoch, gone).await?;
        tracing::warn!(target: "audit", %id, operator, reason, "evicted");
        Ok(())
    }

    /// Mutes, if it is registered; `None` when this process does not keep the leases now.
    pub(crate) fn mute_here(&self, id: &InstanceId, time: Duration, operator: &str) -> Option<bool> {
        let is_known = self.keeper.mute(id.as_str(), time)?;
        if is_known {
            tracing::warn!(target: "audit", %id, operator, seconds = time.as_secs(), "muted");
        }
        Some(is_known)
    }

    fn registered(&self, id: &InstanceId) -> Result<Arc<rollcall_model::Registration>, Refusal> {
        if self.view.borrow().state().is_none() {
            let detail = "this cell has not loaded its region's state yet";
            return Err(Refusal::new(Code::StoreUnavailable, detail));
        }
        self.current(id).ok_or_else(|| Refusal::not_registered(id.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rollcall_model::Zone;
    use rollcall_model::guard::Census;

    #[test]
    fn instants_before_and_after_now_are_shown_by_the_wall_clock() {
        let at = |seconds| Instant(Duration::from_secs(seconds));
        let wall = |seconds: i64| Some(Timestamp(1_790_000_000_000 + seconds * 1_000));
        let status = |phase| CohortStatus {
            cohort: Cohort::Zone(Zone::parse("a").unwrap()),
            phase,
            census: Census { registered: 8, suspects: 4, period: Duration::from_secs(18) },
            limit: 1,
        };
        let shown = |phase| {
            let facts = CohortFacts::of(&status(phase), at(100), Timestamp(1_790_000_000_000));
            (facts.since, facts.settling_until)
        };
        let settling = Phase::Settling { since: at(90), until: at(118) };
        assert_eq!(shown(settling), (wall(-10), wall(18)));
        assert_eq!(shown(Phase::Holding { since: at(90) }), (wall(-10), None));
        assert_eq!(shown(Phase::Calm), (None, None));
    }
}
