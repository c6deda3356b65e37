//! Canary: a small share of answers begins with the version on trial, all others with any other version.
//!
//! The draw is made once for an answer, so that the share is that of answers, however many instances either side has.
//! Those of the other side come behind: better another version than nobody. An instance without a version, or with one
//! that is none, is not on trial.

use semver::{Version, VersionReq};

use crate::name::Zone;
use crate::resolve::Candidate;

pub(super) fn order(
    candidates: &mut [Candidate<'_>],
    version: &VersionReq,
    share: f64,
    zone: Option<&Zone>,
    chance: &mut dyn FnMut() -> f64,
) {
    let is_trial = chance() < share;
    super::by(candidates, zone, chance, |candidate| {
        let declared = candidate.registration.declared.version.as_deref();
        let is_new =
            declared.and_then(|text| Version::parse(text).ok()).is_some_and(|own| version.matches(&own));
        is_new != is_trial
    });
}
