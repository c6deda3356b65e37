//! One sweep of the keeper: leases, guard and the time in; what to remove and what to tell out.

use crate::deadlines::{Deadlines, Due, Mark};
use crate::guard::{ExpiryGuard, Turn};
use crate::planted::{self, Bug};
use crate::time::Instant;

/// What a sweep decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// To be removed now; marked as such, so that renewals wait for what becomes of it.
    pub remove: Vec<Due>,
    /// What readers are to be told of leases that are kept past their deadline, or are renewed again.
    pub marks: Vec<Mark>,
    /// Cohorts that began to hold, to settle, or let go.
    pub turns: Vec<Turn>,
}

/// Looks at all leases, lets the guard judge, and takes what may go, at most `most`; tells readers of at most
/// `most_marks` others.
///
/// What was proved dead or released by an operator goes also while its cohort is held, and spends nothing of what the
/// guard allows; everything else needs its leave (design 4, promise I07).
pub fn sweep(
    deadlines: &mut Deadlines,
    guard: &mut ExpiryGuard,
    now: Instant,
    most: usize,
    most_marks: usize,
) -> Plan {
    let overdue = deadlines.overdue(now);
    let turns = guard.judge(overdue.census.clone(), now);
    let remove = deadlines.take(&overdue, most, |lease| {
        lease.verdict().is_some()
            || guard.allow(lease.zone.as_ref(), lease.length(), now)
            || planted::is(Bug::DeleteWhileHeld)
    });
    let marks = deadlines.marks(&overdue, now, most_marks);
    Plan { remove, marks, turns }
}
