//! Round robin: each in its turn, in order of id, so that of as many answers as there are instances each leads one.

use crate::resolve::Candidate;

pub(super) fn order(candidates: &mut [Candidate<'_>], turn: u64) {
    candidates.sort_by(|one, other| {
        let key = |candidate: &Candidate<'_>| super::ranked(candidate);
        key(one)
            .cmp(&key(other))
            .then_with(|| one.registration.declared.id.cmp(&other.registration.declared.id))
    });
    for equals in candidates.chunk_by_mut(|one, other| super::ranked(one) == super::ranked(other)) {
        // Never empty; the turn's rest is below the length.
        let many = equals.len() as u64;
        equals.rotate_left(usize::try_from(turn % many).unwrap_or_default());
    }
}
