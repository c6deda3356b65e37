//! The use cases of an operator: see the guard, release what it holds, evict, mute.
//!
//! Each leaves an audit line. Never here: who may do so; that is the face's to ask.

use std::sync::Arc;
use std::time::Duration;

use rollcall_model::{Code, InstanceId, RemovalReason};
use rollcall_proto::store::Gone;

use crate::keeper::{GuardStatus, NotReleased};
use crate::refusal::Refusal;
use crate::registrar::Registrar;

/// What became of a release, id by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// Let go: removed by the next sweep.
    pub released: Vec<String>,
    /// Not let go, each with the reason.
    pub refused: Vec<(String, &'static str)>,
}

impl Registrar {
    /// What the guard is doing.
    ///
    /// # Errors
    /// This process does not keep the leases now.
    pub fn guard(&self) -> Result<GuardStatus, Refusal> {
        self.keeper.guard().ok_or_else(no_keeper)
    }

    /// Releases exactly the listed registrations from the guard, as far as they are overdue.
    ///
    /// # Errors
    /// This process does not keep the leases now.
    pub fn release(&self, ids: &[String], operator: &str) -> Result<Released, Refusal> {
        let mut outcome = Released::default();
        for id in ids {
            match self.keeper.release(id, operator).ok_or_else(no_keeper)? {
                Ok(()) => {
                    tracing::warn!(target: "audit", id, operator, "released from the guard");
                    outcome.released.push(id.clone());
                }
                Err(NotReleased::NotRegistered) => outcome.refused.push((id.clone(), "it is not registered")),
                Err(NotReleased::Live) => outcome.refused.push((id.clone(), "it is renewed in time")),
            }
        }
        Ok(outcome)
    }

    /// Removes a registration on an operator's word. A registrant that still lives comes back with a higher epoch.
    ///
    /// # Errors
    /// Not registered, or the store's refusals.
    pub async fn evict(&self, id: &InstanceId, reason: &str, operator: &str) -> Result<(), Refusal> {
        let current = self.registered(id)?;
        let gone = Gone {
            id: id.clone(),
            reason: RemovalReason::Evicted,
            actor: format!("operator:{operator}").into(),
            term: None,
        };
        self.remove(id, current.epoch, gone).await?;
        tracing::warn!(target: "audit", %id, operator, reason, "evicted");
        Ok(())
    }

    /// Ignores an instance's heartbeats for a while: a drill.
    ///
    /// # Errors
    /// Not registered, or this process does not keep the leases now.
    pub fn mute(&self, id: &InstanceId, time: Duration, operator: &str) -> Result<(), Refusal> {
        if !self.keeper.mute(id.as_str(), time).ok_or_else(no_keeper)? {
            return Err(Refusal::not_registered(id.as_str()));
        }
        tracing::warn!(target: "audit", %id, operator, seconds = time.as_secs(), "muted");
        Ok(())
    }

    fn registered(&self, id: &InstanceId) -> Result<Arc<rollcall_model::Registration>, Refusal> {
        self.current(id).ok_or_else(|| Refusal::not_registered(id.as_str()))
    }
}

fn no_keeper() -> Refusal {
    Refusal::new(Code::StoreUnavailable, "no keeper judges leases here at the moment")
}
