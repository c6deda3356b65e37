//! The tasks of a process: named, owned, and ended together.
//!
//! Promises: every task ends when the group is cancelled or is named as a straggler; a task that panics or fails is
//! logged at error and cancels the whole group, because half a process is worse than none: a supervisor starts it anew.
//! A task is never detached and a panic is never swallowed.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// How long an aborted task may take to be dropped before `drain` gives up on it. Dropping is synchronous work, so a
/// task that needs longer is stuck outside of any await and would not end by waiting.
const ABORT_GRACE: Duration = Duration::from_secs(1);

/// A group of tasks that is cancelled as one; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    group: Arc<Group>,
}

#[derive(Debug, Default)]
struct Group {
    cancelled: CancellationToken,
    running: Mutex<Running>,
    emptied: Notify,
    failed: OnceLock<&'static str>,
}

#[derive(Debug, Default)]
struct Running {
    next: u64,
    tasks: BTreeMap<u64, (&'static str, Option<AbortHandle>)>,
}

impl Tasks {
    /// An empty group.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a task of this group, inside the caller's span. Its end is no event; its panic ends the group.
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let place = Place::take(&self.group, name);
        let id = place.id;
        let mut task: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(task);
        let watched = async move {
            let end = poll_fn(|context| {
                // The future is dropped right after a panic and never polled again, so nobody sees it half-changed.
                match catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(context))) {
                    Ok(polled) => polled.map(Ok),
                    Err(panic) => std::task::Poll::Ready(Err(panic)),
                }
            })
            .await;
            drop(task);
            if let Err(panic) = end {
                place.group.fail(place.name, &format_args!("panicked: {}", message(&*panic)));
            }
            drop(place);
        };
        let handle = tokio::spawn(watched.in_current_span());
        self.group.running().tasks.entry(id).and_modify(|(_, abort)| *abort = Some(handle.abort_handle()));
    }

    /// Starts a task that may fail: an error, like a panic, is logged and ends the group.
    pub fn spawn_fallible<E: Display>(
        &self,
        name: &'static str,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        let group = Arc::clone(&self.group);
        self.spawn(name, async move {
            if let Err(error) = task.await {
                group.fail(name, &error);
            }
        });
    }

    /// The token that every task of the group watches; cancelled by `drain`, by a failed task or by its holder.
    #[must_use]
    pub fn cancelled(&self) -> CancellationToken {
        self.group.cancelled.clone()
    }

    /// The first task that panicked or failed.
    #[must_use]
    pub fn failed(&self) -> Option<&'static str> {
        self.group.failed.get().copied()
    }

    /// Names of the tasks that have not ended, in the order they were started.
    #[must_use]
    pub fn running(&self) -> Vec<&'static str> {
        self.group.running().tasks.values().map(|(name, _)| *name).collect()
    }

    /// Cancels the group and waits for its tasks; those that have not ended by the deadline are aborted and named.
    pub async fn drain(&self, deadline: Duration) -> Vec<&'static str> {
        self.group.cancelled.cancel();
        if tokio::time::timeout(deadline, self.group.emptied()).await.is_ok() {
            return Vec::new();
        }
        let stragglers: Vec<_> = self.group.running().tasks.values().cloned().collect();
        for (name, abort) in &stragglers {
            tracing::warn!(task = name, ?deadline, "task did not end in time, aborting it");
            if let Some(abort) = abort {
                abort.abort();
            }
        }
        // What an aborted task held (files, sockets) is let go before the caller goes on to close what it shares.
        let _ = tokio::time::timeout(ABORT_GRACE, self.group.emptied()).await;
        stragglers.into_iter().map(|(name, _)| name).collect()
    }
}

impl Group {
    fn running(&self) -> MutexGuard<'_, Running> {
        // A map of names stays whole whoever panicked.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, name: &'static str, reason: &dyn Display) {
        tracing::error!(task = name, %reason, "task failed, ending the process");
        let _ = self.failed.set(name);
        self.cancelled.cancel();
    }

    async fn emptied(&self) {
        loop {
            let emptied = self.emptied.notified();
            tokio::pin!(emptied);
            // Registered before the look, so that a task that ends in between is not missed.
            emptied.as_mut().enable();
            if self.running().tasks.is_empty() {
                return;
            }
            emptied.await;
        }
    }
}

/// A task's place in the group; given back when the task ends in whatever way, abortion included.
struct Place {
    id: u64,
    name: &'static str,
    group: Arc<Group>,
}

impl Place {
    fn take(group: &Arc<Group>, name: &'static str) -> Self {
        let mut running = group.running();
        let id = running.next;
        running.next += 1;
        running.tasks.insert(id, (name, None));
        Self { id, name, group: Arc::clone(group) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut running = self.group.running();
        running.tasks.remove(&self.id);
        if running.tasks.is_empty() {
            self.group.emptied.notify_waiters();
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    if let Some(text) = panic.downcast_ref::<&str>() {
        text
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text
    } else {
        "without a message"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Long enough for a busy machine; a test that waits this long has failed.
    const PATIENCE: Duration = Duration::from_secs(10);

    async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
        tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what} did not come in time"))
    }

    #[tokio::test]
    async fn drain_cancels_and_waits_for_every_task() {
        let tasks = Tasks::new();
        let ended = Arc::new(Mutex::new(Vec::new()));
        for name in ["one", "two"] {
            let (cancelled, ended) = (tasks.cancelled(), Arc::clone(&ended));
            tasks.spawn(name, async move {
                cancelled.cancelled().await;
                tokio::task::yield_now().await;
                ended.lock().expect("whole").push(name);
            });
        }
        assert_eq!(tasks.running(), ["one", "two"]);
        assert_eq!(tasks.drain(PATIENCE).await, Vec::<&str>::new());
        assert_eq!(ended.lock().expect("whole").len(), 2);
        assert_eq!(tasks.failed(), None);
    }

    #[tokio::test]
    async fn a_task_that_ignores_the_cancel_is_named_and_aborted() {
        let tasks = Tasks::new();
        let held = Arc::new(());
        let (cancelled, holds) = (tasks.cancelled(), Arc::clone(&held));
        tasks.spawn("polite", async move { cancelled.cancelled().await });
        tasks.spawn("deaf", async move {
            let _holds = holds;
            std::future::pending().await
        });
        // On one thread the polite task has its turn before the timer, however short the deadline.
        assert_eq!(tasks.drain(Duration::from_millis(50)).await, ["deaf"]);
        assert_eq!(Arc::strong_count(&held), 1, "what the aborted task held is let go when drain returns");
        assert_eq!(tasks.running(), Vec::<&str>::new());
    }

    #[tokio::test]
    async fn a_panic_ends_the_group_and_names_the_task() {
        let tasks = Tasks::new();
        let cancelled = tasks.cancelled();
        tasks.spawn("neighbour", async move { cancelled.cancelled().await });
        tasks.spawn("careless", async { panic!("out of range") });
        in_time("the cancel", tasks.cancelled().cancelled()).await;
        assert_eq!(tasks.failed(), Some("careless"));
        assert_eq!(tasks.drain(PATIENCE).await, Vec::<&str>::new());
    }

    #[tokio::test]
    async fn an_error_ends_the_group_and_success_does_not() {
        let tasks = Tasks::new();
        tasks.spawn_fallible("fine", async { Ok::<(), String>(()) });
        in_time("the end of a task", tasks.group.emptied()).await;
        assert!(!tasks.cancelled().is_cancelled());
        tasks.spawn_fallible("failing", async { Err("no disk") });
        in_time("the cancel", tasks.cancelled().cancelled()).await;
        assert_eq!(tasks.failed(), Some("failing"));
    }

    #[tokio::test]
    async fn the_first_failure_is_the_one_that_counts() {
        let tasks = Tasks::new();
        tasks.spawn_fallible("first", async { Err("a") });
        in_time("the end of a task", tasks.group.emptied()).await;
        tasks.spawn_fallible("second", async { Err("b") });
        in_time("the end of a task", tasks.group.emptied()).await;
        assert_eq!(tasks.failed(), Some("first"));
    }

    #[tokio::test]
    async fn a_task_that_has_ended_is_forgotten() {
        let tasks = Tasks::new();
        for _ in 0..100 {
            tasks.spawn("short", async {});
        }
        in_time("the end of all", tasks.group.emptied()).await;
        assert_eq!(tasks.running(), Vec::<&str>::new());
    }

    #[tokio::test]
    async fn draining_nothing_returns_at_once() {
        assert_eq!(in_time("the drain", Tasks::new().drain(PATIENCE)).await, Vec::<&str>::new());
    }

    #[test]
    fn a_panic_message_is_read_from_both_its_forms() {
        for (panic, expected) in [
            (Box::new("text") as Box<dyn Any + Send>, "text"),
            (Box::new("owned".to_owned()), "owned"),
            (Box::new(5), "without a message"),
        ] {
            assert_eq!(message(&*panic), expected);
        }
    }
}
