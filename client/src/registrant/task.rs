//! The edge of a registrant: makes the calls that [`Upkeep`] asks for, and hears its owner.
//!
//! One call at a time is in flight. It ends when its handle is dropped, or closed and done. Never here: when to call.

use std::time::Duration;

use rollcall_model::{Declaration, Declared, Epoch, InstanceId, Instant, Lifecycle, Scope};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior};

use crate::error::CallError;
use crate::registrant::beat::{ANSWER_MAX, Answer, FLOOR, Identity, Step, Upkeep};
use crate::registrant::summary::{self, Tally};
use crate::registrant::{Closed, RegistrantState, Status, Told};
use crate::transport::{Gone, Renewal, Wire};

/// One registration in upkeep.
pub(super) struct Keeping {
    wire: Wire,
    declaration: Declaration,
    declared_lifecycle: Lifecycle,
    id: InstanceId,
    /// Other processes hold the same entry: this one never speaks of its end for all of them.
    is_shared: bool,
    upkeep: Upkeep,
    told: watch::Receiver<Told>,
    status: watch::Sender<Status>,
    started: std::time::Instant,
    tally: Tally,
}

/// How long a registration whose handle was dropped is taken back (acceptance HLT-04, HLT-05): nobody waits for it, and
/// its process may be about to end.
const DROPPED_BUDGET: Duration = Duration::from_secs(2);

/// Why a loop of calls was left.
enum Left {
    /// The budget is over.
    Over,
    /// The owner wants to close within its budget, or dropped the handle.
    Closing(tokio::time::Instant),
}

impl Keeping {
    pub(super) fn new(
        wire: Wire,
        declaration: Declaration,
        declared: &Declared,
        told: watch::Receiver<Told>,
        status: watch::Sender<Status>,
    ) -> Self {
        let endpoints = declared.endpoints.iter().map(|endpoint| endpoint.url().to_owned()).collect();
        let is_shared = declared.scope == Scope::Service;
        let upkeep = Upkeep::new(endpoints, Instant::default());
        Self {
            wire,
            declaration,
            declared_lifecycle: declared.lifecycle,
            id: declared.id.clone(),
            is_shared,
            upkeep: if is_shared { upkeep.sharing() } else { upkeep },
            told,
            status,
            started: std::time::Instant::now(),
            tally: Tally::default(),
        }
    }

    /// With a beat of the owner's own.
    pub(super) fn wishing(mut self, beat: Option<Duration>) -> Self {
        self.upkeep = self.upkeep.wishing(beat);
        self
    }

    /// Runs until the owner lets go.
    pub(super) async fn run(mut self) {
        let deadline = match self.keep().await {
            Left::Over => {
                tracing::debug!(id = %self.id, "registrant stopped");
                self.closed(Closed::LeftToLapse);
                return;
            }
            Left::Closing(deadline) => deadline,
        };
        let closed = match tokio::time::timeout_at(deadline, self.leave()).await {
            Ok(closed) => closed,
            Err(_) => Closed::LeftToLapse,
        };
        tracing::info!(id = %self.id, outcome = ?closed, "registrant closed");
        self.closed(closed);
    }

    fn now(&self) -> Instant {
        Instant(self.started.elapsed())
    }

    async fn keep(&mut self) -> Left {
        let mut summary =
            tokio::time::interval_at(tokio::time::Instant::now() + summary::EVERY, summary::EVERY);
        summary.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if let Some(left) = self.hear() {
                return left;
            }
            let now = self.now();
            let over = over(self.told.clone());
            match self.upkeep.step(now) {
                Step::Wait(wait) => self.wait(wait, &mut summary).await,
                Step::Register(identity) => {
                    if identity == Identity::New {
                        self.take_new_id();
                    }
                    tokio::select! {
                        () = self.register() => {}
                        () = over => return Left::Over,
                    }
                }
                Step::Renew(epoch) => {
                    tokio::select! {
                        () = self.renew(epoch) => {}
                        () = over => return Left::Over,
                    }
                }
            }
        }
    }

    /// What the owner wants, if it wants to end.
    fn hear(&mut self) -> Option<Left> {
        let close_by = self.told.borrow().close_by.map(Into::into);
        let dropped = || {
            let is_dropped = self.told.has_changed().is_err();
            is_dropped.then(|| tokio::time::Instant::now() + DROPPED_BUDGET)
        };
        close_by.or_else(dropped).map(Left::Closing)
    }

    async fn wait(&mut self, wait: Duration, summary: &mut Interval) {
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            changed = self.told.changed() => {
                // Dropped or told something: `hear` sees the one, a beat carries the other.
                if changed.is_ok() && self.upkeep.held().is_some() {
                    let now = self.now();
                    self.upkeep.nudge(now);
                }
            }
            _ = summary.tick() => self.sum_up(),
        }
    }

    async fn register(&mut self) {
        let told = self.told.borrow_and_update().lifecycle;
        // Holders of one entry declare the same, whatever each of them is at.
        let lifecycle = match told {
            Some(_) if self.is_shared => self.declared_lifecycle,
            told => lifecycle_to_declare(self.declared_lifecycle, told),
        };
        self.declaration.lifecycle = Some(lifecycle.as_str().to_owned());
        let answer = match self.wire.register(&self.declaration, ANSWER_MAX).await {
            Ok(registered) => {
                tracing::info!(id = %self.id, region = %registered.region, epoch = %registered.epoch, "registered");
                self.status.send_modify(|status| {
                    status.region = Some(registered.region);
                    status.epoch = Some(registered.epoch);
                    status.state = RegistrantState::Registered;
                    status.last_error = None;
                    status.registrations += 1;
                });
                self.tally.succeeded(self.now());
                Answer::Registered(registered.epoch, registered.lease)
            }
            Err(error) => self.failed(error, "registration failed"),
        };
        self.answer(answer);
        if told.is_some_and(|told| told != lifecycle) && self.upkeep.held().is_some() {
            let now = self.now();
            self.upkeep.nudge(now);
        }
    }

    async fn renew(&mut self, epoch: Epoch) {
        let Told { lifecycle, load, .. } = self.told.borrow_and_update().clone();
        let lifecycle = lifecycle.filter(|word| !self.is_shared || speaks_for_all(*word));
        let patience = self.upkeep.patience();
        let holder = self.declaration.holder.clone();
        let answer = match self.wire.renew(&self.id, holder, epoch, lifecycle, load, patience).await {
            Ok(Renewal::Renewed(lease)) => {
                self.status.send_modify(|status| {
                    status.last_error = None;
                    status.renewals += 1;
                });
                self.tally.succeeded(self.now());
                Answer::Renewed(lease)
            }
            Ok(Renewal::NotRegistered) => {
                tracing::warn!(id = %self.id, %epoch, "registration is gone, registering again");
                self.lost();
                Answer::NotRegistered
            }
            Ok(Renewal::Superseded(endpoint)) => {
                tracing::warn!(id = %self.id, %epoch, endpoint, "registration is superseded, registering again");
                self.lost();
                Answer::Superseded(endpoint)
            }
            Err(error) => self.failed(error, "renewal failed"),
        };
        self.answer(answer);
        if self.upkeep.is_doubted() {
            tracing::warn!(id = %self.id, %epoch, "lease is not as registered, registering again");
        }
    }

    fn answer(&mut self, answer: Answer) {
        let now = self.now();
        self.upkeep.answer(answer, now, rand::random());
    }

    fn lost(&self) {
        self.status.send_modify(|status| {
            status.epoch = None;
            status.state = RegistrantState::Registering;
        });
    }

    /// The first failure of a row is worth a warning; that the row goes on shows in the summary.
    fn failed(&self, error: CallError, what: &'static str) -> Answer {
        let retry_after = error.retry_after();
        if self.status.borrow().last_error.is_none() {
            tracing::warn!(id = %self.id, %error, "{what}");
        } else {
            tracing::debug!(id = %self.id, %error, "{what}");
        }
        self.status.send_modify(|status| {
            status.last_error = Some(error);
            status.failures += 1;
        });
        Answer::Failed(retry_after)
    }

    /// Another process holds the id: this one goes on as another instance of the same agent.
    fn take_new_id(&mut self) {
        let whole = uuid::Uuid::new_v4().to_string();
        // Beside a long name only a short instance has room.
        let parsed = [whole.as_str(), whole.split('-').next().unwrap_or_default()]
            .into_iter()
            .find_map(|instance| InstanceId::parse(&format!("{}/{instance}", self.id.agent())).ok());
        let Some(id) = parsed else { return };
        tracing::warn!(was = %self.id, %id, "another process holds the id, taking a new one");
        self.declaration.id = id.as_str().to_owned();
        self.status.send_modify(|status| status.id = id.clone());
        self.id = id;
    }

    fn sum_up(&mut self) {
        let status = self.status.borrow().clone();
        let now = self.now();
        let summary = self.tally.sum_up(&status, now);
        tracing::info!(
            id = %status.id,
            epoch = status.epoch.map(Epoch::get),
            state = ?status.state,
            successes = summary.successes,
            failures = summary.failures,
            success_percent = summary.success_percent,
            uptime_seconds = now.0.as_secs(),
            since_success_seconds = summary.since_success.map(|since| since.as_secs()),
            "registrant summary"
        );
    }

    /// Draining first, so that no caller picks it any more; then the end, as often as it takes.
    async fn leave(&mut self) -> Closed {
        let Some(epoch) = self.upkeep.held() else { return Closed::NotRegistered };
        self.status.send_modify(|status| status.state = RegistrantState::Draining);
        let load = self.told.borrow().load;
        let patience = self.upkeep.patience();
        let holder = self.declaration.holder.clone();
        if !self.is_shared {
            let draining = Some(Lifecycle::Draining);
            match self.wire.renew(&self.id, None, epoch, draining, load, patience).await {
                Ok(Renewal::Renewed(_)) => {}
                Ok(Renewal::NotRegistered | Renewal::Superseded(_)) => return Closed::Deregistered,
                Err(error) => tracing::debug!(id = %self.id, %error, "draining was not heard"),
            }
        }
        loop {
            match self.wire.deregister(&self.id, holder.clone(), epoch, patience).await {
                Ok(Gone::Now | Gone::Before) => return Closed::Deregistered,
                Err(error) => {
                    let wait = error.retry_after().unwrap_or_default().max(FLOOR);
                    tracing::debug!(id = %self.id, %error, "deregistering failed");
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }

    fn closed(&self, closed: Closed) {
        self.status.send_modify(|status| {
            status.epoch = None;
            status.state = RegistrantState::Closed(closed);
        });
    }
}

/// A registration begins as starting or healthy. What is neither must not be called before the next beat says more.
fn lifecycle_to_declare(declared: Lifecycle, told: Option<Lifecycle>) -> Lifecycle {
    match told {
        None => declared,
        Some(Lifecycle::Healthy) => Lifecycle::Healthy,
        Some(
            Lifecycle::Starting
            | Lifecycle::Degraded
            | Lifecycle::Draining
            | Lifecycle::Offline
            | Lifecycle::Unknown,
        ) => Lifecycle::Starting,
    }
}

/// Whether one process may say so of an entry that others hold too.
const fn speaks_for_all(word: Lifecycle) -> bool {
    match word {
        Lifecycle::Draining | Lifecycle::Offline => false,
        Lifecycle::Starting | Lifecycle::Healthy | Lifecycle::Degraded | Lifecycle::Unknown => true,
    }
}

/// Resolves when a call in flight is of no use any more: the budget of its close is over, or that of a dropped handle.
async fn over(mut told: watch::Receiver<Told>) {
    let close_by = match told.wait_for(|told| told.close_by.is_some()).await {
        Ok(told) => told.close_by.map(tokio::time::Instant::from),
        Err(_) => None,
    };
    let dropped = tokio::time::Instant::now() + DROPPED_BUDGET;
    tokio::time::sleep_until(close_by.unwrap_or(dropped)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_registered_anew_is_not_called_before_its_lifecycle_is_told() {
        for (told, declared) in [
            (None, Lifecycle::Healthy),
            (Some(Lifecycle::Healthy), Lifecycle::Healthy),
            (Some(Lifecycle::Draining), Lifecycle::Starting),
            (Some(Lifecycle::Offline), Lifecycle::Starting),
        ] {
            assert_eq!(lifecycle_to_declare(Lifecycle::Healthy, told), declared, "{told:?}");
        }
    }
}
