//! The words between two processes of one cell, and what they mean here. Pure.

use std::time::Duration;

use rollcall_model::guard::Cohort;
use rollcall_model::{Code, Epoch, Holder, InstanceId, LeaseState, Renewal, Timestamp, Zone};
use rollcall_proto::v1;
use rollcall_proto::v1::ask_request::Hold;
use rollcall_proto::v1::ask_response::answer::Answer;
use rollcall_proto::v1::ask_response::{Guard, Lease, Renewed, Wait, guard, lease, released};
use rollcall_proto::v1::session_response;

use super::Unheard;
use crate::operator::{CohortFacts, GuardFacts, Released};
use crate::refusal::{Current, Refusal};
use crate::registrar::{HolderFacts, LeaseFacts};

/// What a question is about.
pub(crate) fn hold(id: &InstanceId, epoch: Epoch, holder: &Holder) -> Hold {
    Hold { id: id.as_str().to_owned(), epoch: epoch.get(), holder: holder.as_str().to_owned() }
}

/// The same as the keeper reads it.
pub(crate) fn read_hold(wire: &Hold) -> Result<(InstanceId, Epoch, Holder), Refusal> {
    let id = read_id(&wire.id)?;
    let epoch = Epoch::from_wire(wire.epoch)
        .ok_or_else(|| Refusal::new(Code::InvalidEpoch, "an epoch has at most 52 bits"))?;
    let holder = Holder::parse(&wire.holder).map_err(|finding| Refusal::invalid(vec![finding]))?;
    Ok((id, epoch, holder))
}

/// An id as the keeper reads it.
pub(crate) fn read_id(text: &str) -> Result<InstanceId, Refusal> {
    InstanceId::parse(text).map_err(|finding| Refusal::invalid(vec![finding]))
}

/// A bound of a question that is an operator's as well; what is wrong otherwise.
pub(crate) fn in_bounds(checked: Result<(), &'static str>, place: &str) -> Result<(), Refusal> {
    checked.map_err(|detail| Refusal::new(Code::InvalidBody, format!("{place}: {detail}")))
}

/// The refusal of a question that nobody answered.
pub(crate) fn unheard(unheard: Unheard) -> Refusal {
    let unavailable = |detail| Refusal::new(Code::StoreUnavailable, detail);
    match unheard {
        Unheard::NotJudged => {
            unavailable("no keeper judges leases here at the moment; the lease is as it was")
        }
        Unheard::Unknown => unavailable("the keeper does not answer at the moment; ask again"),
        Unheard::Busy => Refusal::new(Code::Overloaded, "too many renewals wait for the keeper"),
    }
}

/// An answer that this version does not expect to its question.
fn strange() -> Refusal {
    Refusal::new(Code::Internal, "the keeper's process answers in another version's words")
}

fn seconds(length: Duration) -> u32 {
    u32::try_from(length.as_secs()).unwrap_or(u32::MAX)
}

/// A refusal; its wait is without jitter.
pub(crate) fn refusal(refusal: &Refusal) -> Answer {
    Answer::Refusal(session_response::Refusal {
        code: refusal.code.as_str().to_owned(),
        detail: refusal.detail.clone(),
        retry_after_ms: refusal.retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        current: refusal
            .current
            .as_ref()
            .map(|current| v1::Current { epoch: current.epoch.get(), endpoint: current.endpoint.clone() }),
    })
}

fn read_refusal(wire: session_response::Refusal) -> Refusal {
    let Some(code) = Code::parse(&wire.code) else { return strange() };
    let current = wire.current.and_then(|current| {
        Some(Current { epoch: Epoch::from_wire(current.epoch)?, endpoint: current.endpoint })
    });
    let retry_after = wire.retry_after_ms.map(Duration::from_millis);
    Refusal { current, retry_after, ..Refusal::new(code, wire.detail) }
}

/// What became of a renewal; `superseded` is the refusal with the winner in it.
pub(crate) fn renewal(renewal: &Renewal, superseded: impl FnOnce() -> Refusal, id: &InstanceId) -> Answer {
    match renewal {
        Renewal::Renewed(length) => {
            Answer::Renewed(Renewed { lease_seconds: seconds(*length), superseded: false })
        }
        Renewal::KeptAlive(length) => {
            Answer::Renewed(Renewed { lease_seconds: seconds(*length), superseded: true })
        }
        Renewal::Superseded => refusal(&superseded()),
        Renewal::NotRegistered => refusal(&Refusal::not_registered(id.as_str())),
        Renewal::Wait => Answer::Wait(Wait {}),
    }
}

/// A renewal's answer as the asker reads it: what the keeper refuses is refused in its words.
pub(crate) fn read_renewal(answer: Answer) -> Result<Renewal, Refusal> {
    match answer {
        Answer::Renewed(Renewed { lease_seconds, superseded }) => {
            let length = Duration::from_secs(u64::from(lease_seconds));
            Ok(if superseded { Renewal::KeptAlive(length) } else { Renewal::Renewed(length) })
        }
        Answer::Wait(_) => Ok(Renewal::Wait),
        other => Err(read_no(other)),
    }
}

/// Yes or no, or the keeper's refusal.
pub(crate) fn read_yes(answer: Answer) -> Result<bool, Refusal> {
    match answer {
        Answer::Yes(yes) => Ok(yes),
        other => Err(read_no(other)),
    }
}

fn read_no(answer: Answer) -> Refusal {
    match answer {
        Answer::Refusal(wire) => read_refusal(wire),
        _ => strange(),
    }
}

/// A lease's facts.
pub(crate) fn lease(facts: &LeaseFacts) -> Answer {
    let holders = facts.holders.as_ref().map(|holders| {
        let holder = |holder: &HolderFacts| lease::Holder {
            holder: holder.holder.as_str().to_owned(),
            epoch: holder.epoch.get(),
            heard_at_ms: holder.renewed_at.0,
        };
        lease::Holders { holders: holders.iter().map(holder).collect() }
    });
    let state = match facts.state {
        LeaseState::Live => lease::State::Live,
        LeaseState::Suspect => lease::State::Suspect,
        LeaseState::Lapsed => lease::State::Lapsed,
    };
    Answer::Lease(Lease {
        epoch: facts.epoch.get(),
        lease_seconds: seconds(facts.length),
        state: state.into(),
        missed: facts.missed,
        renewed_at_ms: facts.renewed_at.0,
        expires_at_ms: facts.expires_at.0,
        holders,
    })
}

/// The same as the asker reads them.
pub(crate) fn read_lease(answer: Answer) -> Result<LeaseFacts, Refusal> {
    let wire = match answer {
        Answer::Lease(wire) => wire,
        other => return Err(read_no(other)),
    };
    let state = match wire.state() {
        lease::State::Live => LeaseState::Live,
        lease::State::Suspect => LeaseState::Suspect,
        lease::State::Lapsed => LeaseState::Lapsed,
        lease::State::Unspecified => return Err(strange()),
    };
    let epoch = |number| Epoch::from_wire(number).ok_or_else(strange);
    let holder = |holder: lease::Holder| {
        Ok(HolderFacts {
            holder: Holder::parse(&holder.holder).map_err(|_| strange())?,
            epoch: epoch(holder.epoch)?,
            renewed_at: Timestamp(holder.heard_at_ms),
        })
    };
    let holders = wire.holders.map(|all| all.holders.into_iter().map(holder).collect::<Result<_, Refusal>>());
    Ok(LeaseFacts {
        epoch: epoch(wire.epoch)?,
        length: Duration::from_secs(u64::from(wire.lease_seconds)),
        state,
        missed: wire.missed,
        renewed_at: Timestamp(wire.renewed_at_ms),
        expires_at: Timestamp(wire.expires_at_ms),
        holders: holders.transpose()?,
    })
}

/// What the guard is doing.
pub(crate) fn guard(facts: &GuardFacts) -> Answer {
    let cohort = |facts: &CohortFacts| guard::Cohort {
        zone: match &facts.cohort {
            Cohort::Region => None,
            Cohort::Zone(zone) => Some(zone.as_str().to_owned()),
        },
        registered: facts.registered,
        suspects: facts.suspects,
        limit: facts.limit,
        since_at_ms: facts.since.map(|at| at.0),
        until_at_ms: facts.settling_until.map(|at| at.0),
    };
    Answer::Guard(Guard {
        cohorts: facts.cohorts.iter().map(cohort).collect(),
        held: facts.held.iter().map(|id| id.as_str().to_owned()).collect(),
    })
}

/// The same as the asker reads it.
pub(crate) fn read_guard(answer: Answer) -> Result<GuardFacts, Refusal> {
    let wire = match answer {
        Answer::Guard(wire) => wire,
        other => return Err(read_no(other)),
    };
    let cohort = |wire: guard::Cohort| {
        let zone = wire.zone.map(|zone| Zone::parse(&zone).map_err(|_| strange())).transpose()?;
        Ok(CohortFacts {
            cohort: zone.map_or(Cohort::Region, Cohort::Zone),
            registered: wire.registered,
            suspects: wire.suspects,
            limit: wire.limit,
            since: wire.since_at_ms.map(Timestamp),
            settling_until: wire.until_at_ms.map(Timestamp),
        })
    };
    let held = wire.held.iter().map(|id| read_id(id).map_err(|_| strange()));
    Ok(GuardFacts {
        cohorts: wire.cohorts.into_iter().map(cohort).collect::<Result<_, Refusal>>()?,
        held: held.collect::<Result<_, _>>()?,
    })
}

/// What became of a release.
pub(crate) fn released(outcome: Released) -> Answer {
    let refused = outcome.refused.into_iter().map(|(id, why)| released::Refused { id, why });
    Answer::Released(v1::ask_response::Released { released: outcome.released, refused: refused.collect() })
}

/// The same as the asker reads it.
pub(crate) fn read_released(answer: Answer) -> Result<Released, Refusal> {
    match answer {
        Answer::Released(wire) => Ok(Released {
            released: wire.released,
            refused: wire.refused.into_iter().map(|refused| (refused.id, refused.why)).collect(),
        }),
        other => Err(read_no(other)),
    }
}
