//! Readiness: the process is ready when every part that asked to be waited for has caught up.
//!
//! Promises: ready means caught up, not started. A part that ends without saying so keeps the process unready, and its
//! name is in the list. Once done, a part stays done: what it serves stays served. It never asks another process.

use tokio::sync::watch;

type Waiting = Vec<(u64, &'static str)>;

/// The list of what the process still waits for; clones share it.
#[derive(Clone, Debug)]
pub struct Ready {
    waiting: watch::Sender<(u64, Waiting)>,
}

/// One part's place in the list, held until it has caught up.
#[derive(Debug)]
#[must_use = "the process never becomes ready unless `done` is called"]
pub struct Handle {
    id: u64,
    ready: Ready,
}

impl Ready {
    /// A list with nothing on it: ready at once, so parts are added before anybody asks.
    #[must_use]
    pub fn new() -> Self {
        Self { waiting: watch::Sender::new((0, Vec::new())) }
    }

    /// Adds a part that must catch up first. The same name may stand for several parts.
    pub fn expect(&self, name: &'static str) -> Handle {
        let mut id = 0;
        self.waiting.send_modify(|(next, waiting)| {
            id = *next;
            *next += 1;
            waiting.push((id, name));
        });
        Handle { id, ready: self.clone() }
    }

    /// The parts that have not caught up, in the order they were added.
    #[must_use]
    pub fn waiting(&self) -> Vec<&'static str> {
        self.waiting.borrow().1.iter().map(|(_, name)| *name).collect()
    }

    /// Whether every part has caught up.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.waiting.borrow().1.is_empty()
    }

    /// Waits until every part has caught up.
    pub async fn wait(&self) {
        // It errs only when the sender is gone, and `self` holds it.
        let _ = self.waiting.subscribe().wait_for(|(_, waiting)| waiting.is_empty()).await;
    }
}

impl Default for Ready {
    fn default() -> Self {
        Self::new()
    }
}

impl Handle {
    /// Says that this part has caught up.
    pub fn done(self) {
        self.ready.waiting.send_modify(|(_, waiting)| waiting.retain(|(id, _)| *id != self.id));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn nothing_expected_is_ready() {
        assert!(Ready::new().is_ready());
    }

    #[test]
    fn ready_when_the_last_part_is_done_and_not_before() {
        let ready = Ready::new();
        let first = ready.expect("first");
        let second = ready.expect("second");
        assert_eq!(ready.waiting(), ["first", "second"]);
        first.done();
        assert_eq!(ready.waiting(), ["second"]);
        assert!(!ready.is_ready());
        second.done();
        assert!(ready.is_ready());
    }

    #[test]
    fn a_part_that_ends_without_done_keeps_the_process_unready() {
        let ready = Ready::new();
        drop(ready.expect("lost"));
        assert_eq!(ready.waiting(), ["lost"]);
    }

    #[test]
    fn two_parts_of_one_name_are_counted_apart() {
        let ready = Ready::new();
        let one = ready.expect("copy");
        let other = ready.expect("copy");
        one.done();
        assert_eq!(ready.waiting(), ["copy"]);
        other.done();
        assert!(ready.is_ready());
    }

    #[tokio::test]
    async fn wait_returns_once_the_last_part_is_done() {
        let ready = Ready::new();
        let part = ready.expect("part");
        let waiter = tokio::spawn({
            let ready = ready.clone();
            async move {
                ready.wait().await;
                ready.is_ready()
            }
        });
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished());
        part.done();
        let woken = tokio::time::timeout(Duration::from_secs(10), waiter).await.expect("woken in time");
        assert!(woken.expect("the waiter did not panic"));
    }
}
