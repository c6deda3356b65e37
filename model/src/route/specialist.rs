//! Specialist: those that fit the caller's words best, and of these the ones that do the least else.
//!
//! A word fits a capability, a skill (by id or name) or a tag, exactly. Capabilities marked internal fit nothing and are
//! not counted.

use std::cmp::Reverse;

use crate::name::Zone;
use crate::resolve::Candidate;

pub(super) fn order(
    candidates: &mut [Candidate<'_>],
    prefer: &[String],
    zone: Option<&Zone>,
    chance: &mut dyn FnMut() -> f64,
) {
    super::by(candidates, zone, chance, |candidate| {
        let matches = prefer.iter().filter(|word| fits(candidate, word)).count();
        (Reverse(matches), others(candidate, prefer))
    });
}

fn fits(candidate: &Candidate<'_>, word: &str) -> bool {
    let declared = &candidate.registration.declared;
    let mut seen = declared.capabilities.iter().filter(|capability| !capability.internal);
    seen.any(|capability| capability.name.as_str() == word || capability.tags.iter().any(|tag| tag == word))
        || declared
            .skills
            .iter()
            .any(|skill| skill.id == word || skill.name == word || skill.tags.iter().any(|tag| tag == word))
}

/// How many capabilities it has that nobody asked for.
fn others(candidate: &Candidate<'_>, prefer: &[String]) -> usize {
    let capabilities = candidate.registration.declared.capabilities.iter();
    let seen = capabilities.filter(|capability| !capability.internal);
    seen.filter(|capability| prefer.iter().all(|word| word != capability.name.as_str())).count()
}
