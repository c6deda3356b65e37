//! Sticky: the same instance for the same key, wherever and whenever it is asked.
//!
//! Each instance draws a lot from the key and its own id (rendezvous hashing, by weight); the lowest has the key. So an
//! instance that goes moves its own keys alone, and one that comes takes its fair share of each other's and moves no key
//! between those that were there. An overdue instance has no key while another can take it.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::resolve::Candidate;

pub(super) fn order(candidates: &mut [Candidate<'_>], key: &str) {
    candidates.sort_by_cached_key(|one| (super::ranked(one), lot(one, key)));
    let holder = (0..candidates.len())
        .filter_map(|at| candidates.get(at).map(|one| ((one.registration.owned.overdue, lot(one, key)), at)))
        .min();
    if let Some(to_here) = holder.and_then(|(_, at)| candidates.get_mut(..=at)) {
        to_here.rotate_right(1);
    }
}

/// The lot, and the id for the case that two are equal.
fn lot<'c>(candidate: &Candidate<'c>, key: &str) -> (u64, &'c str) {
    let id = candidate.registration.declared.id.as_str();
    let number = xxh3_64_with_seed(id.as_bytes(), xxh3_64_with_seed(key.as_bytes(), 0));
    #[allow(clippy::cast_precision_loss, reason = "53 bits are what a double holds")]
    let chance = (number >> 11) as f64 / (1_u64 << 53) as f64;
    (super::lot(candidate, chance), id)
}
