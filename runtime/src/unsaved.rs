//! Which copies on disk could not be written, as the writers of a process find it.
//!
//! Promises one line at the beginning of a failure, one when its reason changes and one at its end, however often it is
//! tried meanwhile. Never here: a way out. The copy before stays, and the next time is another try.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the operator is told to do, in the log, in readiness and by doctor alike. It holds no colon, which is what ends the
/// reason before it.
pub const REMEDY: &str = "make room, or rights, or put away what stands there; it is tried again within seconds, and a \
                          restart before that begins with the older copy";

/// What is known; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Unsaved(Arc<Mutex<BTreeMap<String, Option<String>>>>);

impl Unsaved {
    /// What every copy that was ever tried lacked when it was tried last, by the name of what it is a copy of; nothing if
    /// it was written.
    #[must_use]
    pub fn all(&self) -> Vec<(String, Option<String>)> {
        self.known().iter().map(|(of, why)| (of.clone(), why.clone())).collect()
    }

    /// A line for each copy that could not be written, for readiness.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let lacks = self.all().into_iter().filter_map(|(of, why)| Some((of, why?)));
        lacks
            .map(|(of, why)| format!("copy of {of} (not needed to be ready): not written: {why}: {REMEDY}"))
            .collect()
    }

    /// It could not be written.
    pub fn failed(&self, of: &str, error: &str) {
        let before = self.known().insert(of.to_owned(), Some(error.to_owned())).flatten();
        if before.as_deref() != Some(error) {
            tracing::error!(copy = of, error, "disk copy not written, the old one stays: {REMEDY}");
        }
    }

    /// It was written.
    pub fn written(&self, of: &str) {
        if self.known().insert(of.to_owned(), None).flatten().is_some() {
            tracing::warn!(copy = of, "disk copy is written again");
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Option<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_written_is_told_until_it_is() {
        let unsaved = Unsaved::default();
        assert_eq!((unsaved.all(), unsaved.lines()), (vec![], vec![]));
        unsaved.written("us");
        unsaved.failed("eu", "/d/eu: Is a directory");
        let line = "copy of eu (not needed to be ready): not written: /d/eu: Is a directory: make room, ";
        assert!(unsaved.lines()[0].starts_with(line) && unsaved.lines().len() == 1, "{:?}", unsaved.lines());
        assert!(!REMEDY.contains(':'), "the last colon of a line ends the reason");
        unsaved.written("eu");
        assert_eq!(unsaved.lines(), Vec::<String>::new());
        assert_eq!(unsaved.all(), [("eu".into(), None), ("us".into(), None)], "a figure of both stays");
    }
}
