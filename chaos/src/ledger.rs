//! The checker's own account of what was acknowledged; never the product's word for it.

use std::collections::BTreeMap;

/// What is known of one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// Acknowledged with this epoch, and not taken back.
    Present(u64),
    /// Never registered, or acknowledged to be gone.
    Absent,
    /// A write was sent and no answer came: it may stand at any epoch from this one on, or not at all.
    Unknown,
}

/// One region's account.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    instances: BTreeMap<String, Known>,
    /// Highest epoch ever acknowledged for each instance (I03).
    highest: BTreeMap<String, u64>,
    /// Acknowledged writes.
    pub acknowledged: u64,
    /// Writes without an answer.
    pub unknown: u64,
    /// Requests that were refused or found nobody.
    pub refused: u64,
    /// Broken promises, each as a sentence that begins with its id.
    pub broken: Vec<String>,
}

impl Ledger {
    /// What is known of an instance.
    #[must_use]
    pub fn get(&self, id: &str) -> Known {
        self.instances.get(id).cloned().unwrap_or(Known::Absent)
    }

    /// A registration was acknowledged.
    pub fn registered(&mut self, id: &str, epoch: u64) {
        self.acknowledged += 1;
        if let Some(before) = self.highest.insert(id.to_owned(), epoch)
            && before >= epoch
        {
            self.broken.push(format!("I03: {id} got epoch {epoch} after {before}"));
        }
        self.instances.insert(id.to_owned(), Known::Present(epoch));
    }

    /// A removal was acknowledged.
    pub fn deregistered(&mut self, id: &str) {
        self.acknowledged += 1;
        self.instances.insert(id.to_owned(), Known::Absent);
    }

    /// A write was sent and no answer came.
    pub fn lost_sight(&mut self, id: &str) {
        self.unknown += 1;
        self.instances.insert(id.to_owned(), Known::Unknown);
    }

    /// The registry says that this epoch of the instance is not registered, or superseded.
    pub fn denied(&mut self, id: &str, said: &str) {
        if let Known::Present(epoch) = self.get(id) {
            self.broken.push(format!("I01: {id} was acknowledged at epoch {epoch} and is now {said}"));
        }
        self.instances.insert(id.to_owned(), Known::Unknown);
    }

    /// Compares with what stands in the store: id → epoch.
    pub fn compare(&mut self, stands: &BTreeMap<String, u64>) {
        for (id, known) in &self.instances {
            match (known, stands.get(id)) {
                (Known::Present(epoch), Some(found)) if epoch == found => {}
                (Known::Present(epoch), found) => {
                    self.broken.push(format!(
                        "I01: {id} was acknowledged at epoch {epoch}; the store has {found:?}"
                    ));
                }
                (Known::Absent, Some(found)) => {
                    self.broken.push(format!("I11: {id} was deregistered; the store has epoch {found}"));
                }
                (Known::Absent, None) | (Known::Unknown, _) => {}
            }
        }
    }

    /// How many are known to be present.
    #[must_use]
    pub fn present(&self) -> usize {
        self.instances.values().filter(|known| matches!(known, Known::Present(_))).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_registration_a_resurrected_one_and_a_repeated_epoch_are_seen() {
        let mut ledger = Ledger::default();
        ledger.registered("a/b/1", 5);
        ledger.registered("a/b/2", 6);
        ledger.deregistered("a/b/2");
        ledger.compare(&BTreeMap::from([("a/b/2".to_owned(), 6)]));
        assert_eq!(ledger.broken.len(), 2, "{:?}", ledger.broken);
        ledger.registered("a/b/1", 5);
        assert!(ledger.broken.last().unwrap().starts_with("I03"));
        ledger.denied("a/b/1", "not registered");
        assert!(ledger.broken.last().unwrap().starts_with("I01"));
    }

    #[test]
    fn an_unknown_write_may_have_happened_or_not() {
        let mut ledger = Ledger::default();
        ledger.registered("a/b/1", 5);
        ledger.lost_sight("a/b/1");
        ledger.denied("a/b/1", "superseded");
        ledger.compare(&BTreeMap::new());
        ledger.compare(&BTreeMap::from([("a/b/1".to_owned(), 9)]));
        assert_eq!(ledger.broken, Vec::<String>::new());
    }
}
