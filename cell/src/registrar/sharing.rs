//! Entries of scope `service`: several processes register one id, hold it together and let go one by one.
//!
//! Who holds an entry is in the keeper's memory alone. Promises: joining writes nothing; an entry is removed only by the
//! last one that lets it go, or by its lease.

use std::sync::Arc;

use rollcall_model::{
    Code, Declared, Epoch, Holder, InstanceId, LettingGo, Position, RemovalReason, Renewal, Scope, limits,
};
use rollcall_proto::store::Gone;

use super::{Registered, Registrar};
use crate::keeper::KeeperHandle;
use crate::refusal::Refusal;

impl Registrar {
    /// Joins an entry that stands there with the same data; `None` when there is none, and something is to be written.
    ///
    /// # Errors
    /// No keeper that could take in who joins: what it does not know, it does not keep alive.
    pub(super) async fn join(
        &self,
        declared: &Declared,
        holder: &Holder,
    ) -> Result<Option<Registered>, Refusal> {
        if declared.scope != Scope::Service {
            return Ok(None);
        }
        let mut view = self.view.clone();
        let started = self.clock.now();
        loop {
            let shown = view.borrow_and_update().clone();
            let current = shown.state().and_then(|state| state.get(declared.id.as_str()));
            let Some((current, position)) =
                current.filter(|current| current.declared == *declared).zip(shown.position())
            else {
                return Ok(None);
            };
            match self.judge(&declared.id, holder, current.epoch).await {
                Ok(Renewal::Renewed(length)) => {
                    return Ok(Some(Registered {
                        registration: Arc::clone(current),
                        position: Position::new(position.incarnation.clone(), current.epoch.revision()),
                        lease: self.times(length),
                        joined: true,
                    }));
                }
                Err(refusal) if !is_verdict(refusal.code) => return Err(refusal),
                // It is on its way out, or was just replaced: look again, and in the end write.
                Ok(_) | Err(_) if self.clock.now().since(started) >= limits::AHEAD_WAIT => {
                    return Ok(None);
                }
                Ok(_) | Err(_) => self.look_again(&mut view).await,
            }
        }
    }

    /// Lets a registration go on its owner's word: removes it, or, where it is shared, this holder alone unless it is
    /// the last. Final: no later heartbeat brings back what was removed (I11).
    ///
    /// # Errors
    /// Superseded, not registered, no keeper that answers for a shared entry, or the store's refusals.
    pub async fn let_go(&self, id: &InstanceId, epoch: Epoch, holder: &Holder) -> Result<(), Refusal> {
        // A cell that never reached its store knows of nobody: it must not say "not registered".
        self.founding()?;
        let current = self.caught_up(id, epoch).await?.ok_or_else(|| Refusal::not_registered(id.as_str()))?;
        if current.declared.scope == Scope::Service {
            return self.let_go_shared(id, epoch, holder).await;
        }
        if current.epoch != epoch {
            return Err(Refusal::superseded(&current, epoch));
        }
        self.remove(id, epoch, by_owner(id)).await
    }

    /// The same where the leases are kept here; `None` where they are not.
    pub(super) async fn let_go_here(
        &self,
        id: &InstanceId,
        epoch: Epoch,
        holder: &Holder,
    ) -> Option<Result<(), Refusal>> {
        let mut view = self.view.clone();
        let started = self.clock.now();
        loop {
            view.borrow_and_update();
            let last = self.clock.now().since(started) >= limits::AHEAD_WAIT;
            let refusal = match self.keeper.let_go(id, holder, epoch)? {
                LettingGo::Others => return Some(Ok(())),
                LettingGo::Last(current) => {
                    let mut leaving = Leaving { keeper: &self.keeper, id, epoch: current, is_gone: false };
                    let removed = self.remove(id, current, by_owner(id)).await;
                    leaving.is_gone = removed.is_ok();
                    return Some(removed);
                }
                LettingGo::NotRegistered => Refusal::not_registered(id.as_str()),
                LettingGo::Superseded => self.superseded(id, epoch),
                // It became one process's own meanwhile; a holder's epoch is an older one.
                LettingGo::NotShared => self.superseded(id, epoch),
                LettingGo::Wait if last => self.still_waiting(id, epoch).await,
                LettingGo::Wait => {
                    self.look_again(&mut view).await;
                    continue;
                }
            };
            return Some(Err(refusal));
        }
    }
}

/// An entry that the keeper holds back from renewals while the store removes it. Also a caller that hangs up, or a store
/// that does not answer, gives it back: the compare makes a second try harmless.
struct Leaving<'a> {
    keeper: &'a KeeperHandle,
    id: &'a InstanceId,
    epoch: Epoch,
    is_gone: bool,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if !self.is_gone {
            self.keeper.put_back(self.id, self.epoch);
        }
    }
}

/// Whether a refusal says what became of the registration, and not that nobody could say.
fn is_verdict(code: Code) -> bool {
    matches!(code, Code::Superseded | Code::NotRegistered)
}

fn by_owner(id: &InstanceId) -> Gone {
    Gone { id: id.clone(), reason: RemovalReason::Deregistered, actor: "owner".into(), term: None }
}
