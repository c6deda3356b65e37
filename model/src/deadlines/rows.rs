//! The leases in memory, each at a place that it keeps.
//!
//! Promises: whoever comes never waits for a million others to be moved, because they stand in rows of their own.
//! Never here: which place is whose.

use crate::lease::Lease;

/// Leases of one row: some ninety kilobytes.
const ROW: usize = 1_024;

/// All places, vacant ones among them.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows(Vec<Vec<Option<Lease>>>);

impl Rows {
    pub(super) fn len(&self) -> usize {
        self.0.last().map_or(0, |last| (self.0.len() - 1) * ROW + last.len())
    }

    pub(super) fn get(&self, place: u32) -> Option<&Lease> {
        self.0.get(place as usize / ROW)?.get(place as usize % ROW)?.as_ref()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Lease> {
        self.0.iter().flatten().flatten()
    }

    fn slot(&mut self, place: u32) -> Option<&mut Option<Lease>> {
        self.0.get_mut(place as usize / ROW)?.get_mut(place as usize % ROW)
    }

    pub(super) fn get_mut(&mut self, place: u32) -> Option<&mut Lease> {
        self.slot(place)?.as_mut()
    }

    /// Leaves the place vacant.
    pub(super) fn take(&mut self, place: u32) -> Option<Lease> {
        self.slot(place)?.take()
    }

    /// Fills a vacant place.
    pub(super) fn put(&mut self, place: u32, lease: Lease) {
        if let Some(slot) = self.slot(place) {
            *slot = Some(lease);
        }
    }

    /// Adds a place with its lease.
    pub(super) fn push(&mut self, lease: Lease) -> u32 {
        // A region has far fewer than 2^32 registrations; one more would not fit its memory.
        let place = u32::try_from(self.len()).unwrap_or(u32::MAX);
        match self.0.last_mut().filter(|last| last.len() < ROW) {
            Some(last) => last.push(Some(lease)),
            None => {
                // The first row grows with a small region; the others are full sooner or later.
                let mut row = Vec::with_capacity(if self.0.is_empty() { 4 } else { ROW });
                row.push(Some(lease));
                self.0.push(row);
            }
        }
        place
    }
}
