//! Zone: the caller's own zone first.

use crate::name::Zone;
use crate::resolve::Candidate;

pub(super) fn order(candidates: &mut [Candidate<'_>], zone: Option<&Zone>, chance: &mut dyn FnMut() -> f64) {
    super::by(candidates, zone, chance, |_| ());
}

/// Whether an instance is known not to stand in the caller's zone. To a caller without one all are near.
pub(super) fn is_elsewhere(candidate: &Candidate<'_>, zone: Option<&Zone>) -> bool {
    zone.is_some() && candidate.registration.declared.zone.as_ref() != zone
}
