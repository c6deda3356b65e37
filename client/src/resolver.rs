//! What a query found, to keep: the model's answer, with everything in it owned.

use std::sync::Arc;
use std::time::Duration;

use rollcall_model::resolve::{self, Outcome};
use rollcall_model::{Region, Registration};

/// What a query found.
#[derive(Clone, Debug)]
pub struct Resolution {
    /// Whether there are candidates, and if not, what that means.
    pub outcome: Outcome,
    /// Instances that fit, all of one region: healthy ones first, then degraded, then unknown, and after
    /// all of them those that are overdue; within these by id.
    pub candidates: Vec<Candidate>,
}

/// An instance that fits.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its region.
    pub region: Region,
    /// How old the statement is that it exists. Honest also when the registry has been away for hours.
    pub age: Duration,
    /// The instance.
    pub registration: Arc<Registration>,
    /// It was avoided, and this answer alone has it again: a call to it, [reported](crate::Registry::report), tells
    /// whether it is well.
    pub is_probe: bool,
}

impl From<resolve::Candidate<'_>> for Candidate {
    fn from(found: resolve::Candidate<'_>) -> Self {
        Self {
            region: found.region.clone(),
            age: found.age,
            registration: Arc::clone(found.registration),
            is_probe: found.is_probe,
        }
    }
}
