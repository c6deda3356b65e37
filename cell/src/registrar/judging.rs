//! What only the keeper can answer: here, if this process keeps the leases, and else at the process that does.
//!
//! Promises: each question goes at most one process further, because [`Registrar::answer`], which other processes ask,
//! never asks another. Never here: an answer that the keeper did not give.

use std::sync::Arc;
use std::time::Duration;

use rollcall_model::{Code, Epoch, Holder, InstanceId, Renewal, Timestamp, View, limits};
use rollcall_proto::v1::ask_request::question::About;
use rollcall_proto::v1::ask_request::{self, Hold, Mute, Release};
use rollcall_proto::v1::ask_response::NoOffice;
use rollcall_proto::v1::ask_response::answer::Answer;
use tokio::sync::watch;

use super::{HolderFacts, LeaseFacts, Registrar, wall_after};
use crate::forward::{Unheard, words};
use crate::keeper::Renewed;
use crate::operator::{GuardFacts, Released, check_mute, check_releases};
use crate::refusal::Refusal;

/// Between two questions to another process about what its keeper is to learn first: a round trip and a little.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

impl Registrar {
    /// Renews one lease, wherever it is kept.
    pub(super) async fn judge(
        &self,
        id: &InstanceId,
        holder: &Holder,
        epoch: Epoch,
    ) -> Result<Renewal, Refusal> {
        match self.keeper.renew(id, holder, epoch) {
            Renewed::Judged(renewal) => Ok(renewal),
            Renewed::NoOffice => {
                words::read_renewal(self.ask(About::Renew(words::hold(id, epoch, holder))).await?)
            }
        }
    }

    /// Waits before the keeper is asked again about what it may learn soon.
    pub(super) async fn look_again(&self, view: &mut watch::Receiver<Arc<View>>) {
        if self.keeper.term().is_some() {
            let _ = tokio::time::timeout(Duration::from_millis(50), view.changed()).await;
        } else {
            // What is to happen happens there, and this process' replica does not tell.
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Names the holder that just wrote this registration of a shared entry. If nobody takes it in, the holder is known
    /// from its first renewal.
    pub(super) async fn wrote(&self, id: &InstanceId, holder: &Holder, epoch: Epoch) {
        if self.keeper.wrote(id, holder, epoch).is_some() {
            return;
        }
        let told = async {
            while let Ok(Answer::Wait(_)) = self.ask(About::Wrote(words::hold(id, epoch, holder))).await {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        let _ = tokio::time::timeout(limits::AHEAD_WAIT, told).await;
    }

    pub(super) async fn may_write_load(&self, id: &InstanceId, epoch: Epoch) -> bool {
        if let Some(may) = self.keeper.may_write_load(id, epoch, &self.load_limits) {
            return may;
        }
        let question = About::MayWriteLoad(words::hold(id, epoch, &Holder::default()));
        // What nobody allows now is said again with the next beat.
        self.ask(question).await.and_then(words::read_yes).unwrap_or(false)
    }

    /// What the keeper knows about a lease.
    ///
    /// # Errors
    /// Not registered, or no keeper that answers.
    pub async fn lease(&self, id: &InstanceId) -> Result<LeaseFacts, Refusal> {
        match self.lease_here(id) {
            Some(facts) => facts,
            None => words::read_lease(self.ask(About::Lease(id.as_str().to_owned())).await?),
        }
    }

    fn lease_here(&self, id: &InstanceId) -> Option<Result<LeaseFacts, Refusal>> {
        let Some(lease) = self.keeper.lease(id.as_str())? else {
            return Some(Err(Refusal::not_registered(id.as_str())));
        };
        let now = self.clock.now();
        let holders = lease.holders().map(|holders| {
            let facts = |(holder, hold): (&Holder, rollcall_model::Hold)| HolderFacts {
                holder: holder.clone(),
                epoch: hold.epoch,
                renewed_at: hold.heard.wall,
            };
            holders.living(lease.length(), now).map(facts).collect()
        });
        Some(Ok(LeaseFacts {
            epoch: lease.epoch,
            length: lease.length(),
            state: lease.state(now),
            missed: lease.missed(now),
            renewed_at: lease.renewed_wall,
            // Of its last renewal, whatever the question's moment: a lease that the guard holds has lapsed.
            expires_at: wall_after(lease.renewed_wall, lease.length()),
            holders,
        }))
    }

    /// Lets one holder of a shared entry go, wherever the leases are kept.
    pub(super) async fn let_go_shared(
        &self,
        id: &InstanceId,
        epoch: Epoch,
        holder: &Holder,
    ) -> Result<(), Refusal> {
        if let Some(outcome) = self.let_go_here(id, epoch, holder).await {
            return outcome;
        }
        // All of it is done there: a removal that was begun is ended by who began it.
        let question = About::LetGo(words::hold(id, epoch, holder));
        match self.forward.ask(question).await {
            Ok(answer) => words::read_yes(answer).map(|_| ()),
            Err(Unheard::Unknown) => Err(Refusal::new(
                Code::OutcomeUnknown,
                "the keeper did not say in time what became of it; ask again",
            )),
            Err(unheard) => Err(words::unheard(unheard)),
        }
    }

    /// What the guard is doing.
    ///
    /// # Errors
    /// No keeper that answers.
    pub async fn guard(&self) -> Result<GuardFacts, Refusal> {
        match self.guard_here() {
            Some(facts) => Ok(facts),
            None => words::read_guard(self.ask(About::Guard(ask_request::Guard {})).await?),
        }
    }

    /// Releases exactly the listed registrations from the guard, as far as they are overdue.
    ///
    /// # Errors
    /// No keeper that answers.
    pub async fn release(&self, ids: &[String], operator: &str) -> Result<Released, Refusal> {
        match self.release_here(ids, operator) {
            Some(released) => Ok(released),
            None => {
                let question = Release { ids: ids.to_vec(), operator: operator.to_owned() };
                words::read_released(self.ask(About::Release(question)).await?)
            }
        }
    }

    /// Ignores an instance's heartbeats for a while: a drill. Gives its end by the wall clock.
    ///
    /// # Errors
    /// Not registered, or no keeper that answers.
    pub async fn mute(&self, id: &InstanceId, time: Duration, operator: &str) -> Result<Timestamp, Refusal> {
        let is_known = match self.mute_here(id, time, operator) {
            Some(is_known) => is_known,
            None => {
                let question = Mute {
                    id: id.as_str().to_owned(),
                    seconds: time.as_secs(),
                    operator: operator.to_owned(),
                };
                words::read_yes(self.ask(About::Mute(question)).await?)?
            }
        };
        if is_known { Ok(self.wall_in(time)) } else { Err(Refusal::not_registered(id.as_str())) }
    }

    async fn ask(&self, question: About) -> Result<Answer, Refusal> {
        self.forward.ask(question).await.map_err(words::unheard)
    }

    /// Answers another process of the cell out of what is kept here, and asks nobody.
    pub(crate) async fn answer(&self, question: About) -> Answer {
        let answered = match question {
            About::Renew(hold) => self.answer_renewal(&hold),
            About::Wrote(hold) => self.answer_wrote(&hold),
            About::MayWriteLoad(hold) => words::read_hold(&hold).map(|(id, epoch, _)| {
                self.keeper.may_write_load(&id, epoch, &self.load_limits).map(Answer::Yes)
            }),
            About::LetGo(hold) => match words::read_hold(&hold) {
                Ok((id, epoch, holder)) => self
                    .let_go_here(&id, epoch, &holder)
                    .await
                    .map(|done| done.map(|()| Answer::Yes(true)))
                    .transpose(),
                Err(refusal) => Err(refusal),
            },
            About::Lease(id) => words::read_id(&id).and_then(|id| {
                self.lease_here(&id).map(|facts| facts.map(|facts| words::lease(&facts))).transpose()
            }),
            About::Guard(_) => Ok(self.guard_here().map(|facts| words::guard(&facts))),
            // As much as an operator may ask for: whatever asks here, it is no operator of ours that asks for more.
            About::Release(Release { ids, operator }) => words::in_bounds(check_releases(ids.len()), "ids")
                .map(|()| self.release_here(&ids, &operator).map(words::released)),
            About::Mute(Mute { id, seconds, operator }) => words::in_bounds(check_mute(seconds), "seconds")
                .and_then(|()| words::read_id(&id))
                .map(|id| self.mute_here(&id, Duration::from_secs(seconds), &operator).map(Answer::Yes)),
        };
        match answered {
            Ok(Some(answer)) => answer,
            Ok(None) => Answer::NoOffice(NoOffice {}),
            Err(refusal) => words::refusal(&refusal),
        }
    }

    fn answer_renewal(&self, hold: &Hold) -> Result<Option<Answer>, Refusal> {
        let (id, epoch, holder) = words::read_hold(hold)?;
        Ok(match self.keeper.renew(&id, &holder, epoch) {
            Renewed::Judged(renewal) => Some(words::renewal(&renewal, || self.superseded(&id, epoch), &id)),
            Renewed::NoOffice => None,
        })
    }

    fn answer_wrote(&self, hold: &Hold) -> Result<Option<Answer>, Refusal> {
        let (id, epoch, holder) = words::read_hold(hold)?;
        let renewal = self.keeper.wrote(&id, &holder, epoch);
        Ok(renewal.map(|renewal| words::renewal(&renewal, || self.superseded(&id, epoch), &id)))
    }
}
