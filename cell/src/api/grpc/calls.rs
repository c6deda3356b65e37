//! A writer's calls, from the wire's words to the use cases and back; the same whether they come alone or on a stream.

use std::collections::BTreeMap;
use std::net::IpAddr;

use futures_util::future::join_all;
use rollcall_model::{Code, Declared, Epoch, Holder, InstanceId, Load, limits};
use rollcall_proto::convert;
use rollcall_proto::convert::registration::{lifecycle_from, load_from};
use rollcall_proto::renewals::{Answer, Renewals, Results};
use rollcall_proto::v1::renew_response::{NotRegistered, Refused, Renewed, Result as Item, result::Outcome};
use rollcall_proto::v1::{self, DeregisterRequest, DeregisterResponse, RegisterRequest, RegisterResponse};
use rollcall_proto::v1::{RenewRequest, RenewResponse, UpdateRequest, UpdateResponse};

use crate::api::Api;
use crate::api::grpc::{invalid, known, retry_after};
use crate::random;
use crate::refusal::Refusal;
use crate::registrar::{LeaseTimes, Report, Update};

pub(super) async fn register(
    api: &Api,
    wire: RegisterRequest,
    address: Option<IpAddr>,
) -> Result<RegisterResponse, Refusal> {
    let (declared, holder) = declared(wire)?;
    api.admission.register(api.standing(&declared.id), address)?;
    let registered = api.registrar.register_as(declared, &holder.clone().unwrap_or_default()).await?;
    Ok(RegisterResponse {
        id: registered.registration.declared.id.as_str().to_owned(),
        region: api.regions.own().as_str().to_owned(),
        epoch: registered.registration.epoch.get(),
        lease_seconds: whole_seconds(registered.lease),
        heartbeat_seconds: registered.lease.heartbeat.as_secs_f64(),
        lease_expires_at_ms: registered.lease.expires_at.0,
        position: Some(convert::position(&registered.position)),
        holder: holder.map(|holder| holder.as_str().to_owned()),
    })
}

pub(super) async fn renew(api: &Api, wire: RenewRequest) -> Result<RenewResponse, Refusal> {
    let items = items(wire)?;
    api.admission.renew(items.len())?;
    renew_each(api, items).await
}

/// Renews what says nothing beside, if it can be done without a wait and nothing is in its way. `None`: the renewals are
/// admitted, and [`renew_admitted`] says what became of each.
pub(super) fn renew_at_once(api: &Api, renewals: &Renewals) -> Result<Option<Answer>, Refusal> {
    api.admission.renew(renewals.len())?;
    let mut results = Results::to(renewals);
    // What is no epoch is none of anybody's.
    let holds = renewals.iter().map(|(id, epoch)| (id, Epoch::from_wire(epoch).unwrap_or_default()));
    let is_renewed = |id: &str, times| results.renewed(id, &renewed(times));
    let all = api.registrar.renew_at_once(holds, is_renewed);
    Ok(all.then(|| Answer::Renewed { call: renewals.call(), results }))
}

pub(super) async fn renew_admitted(api: &Api, wire: RenewRequest) -> Result<RenewResponse, Refusal> {
    renew_each(api, items(wire)?).await
}

async fn renew_each(api: &Api, items: Vec<(InstanceId, Epoch, Report)>) -> Result<RenewResponse, Refusal> {
    // All at once, a thousand at most: an item may wait for the replica, and the others need not wait for it.
    let renewals = items.iter().map(|(id, epoch, report)| api.registrar.renew(id, *epoch, report.clone()));
    let outcomes = join_all(renewals).await;
    let results = items.iter().zip(outcomes).map(|((id, ..), outcome)| Item {
        id: id.as_str().to_owned(),
        outcome: Some(
            outcome.map_or_else(|refusal| judged(&refusal), |times| Outcome::Renewed(renewed(times))),
        ),
    });
    Ok(RenewResponse { results: results.collect() })
}

pub(super) async fn update(api: &Api, wire: UpdateRequest) -> Result<UpdateResponse, Refusal> {
    let (id, epoch, update) = changes(wire)?;
    let updated = api.registrar.update(&id, epoch, update).await?;
    Ok(UpdateResponse { registration: Some(convert::registration(&updated)) })
}

pub(super) async fn deregister(api: &Api, wire: DeregisterRequest) -> Result<DeregisterResponse, Refusal> {
    let (id, epoch) = subject(&wire.id, wire.epoch, "")?;
    let holder = holder(wire.holder, "")?;
    api.registrar.let_go(&id, epoch, &holder).await?;
    Ok(DeregisterResponse {})
}

fn declared(wire: RegisterRequest) -> Result<(Declared, Option<Holder>), Refusal> {
    known::<v1::Kind>(wire.kind, "/kind")?;
    known::<v1::Scope>(wire.scope, "/scope")?;
    known::<v1::Lifecycle>(wire.lifecycle, "/lifecycle")?;
    let declaration = convert::declaration_from_request(wire);
    Declared::check_held(declaration, random::id).map_err(Refusal::invalid)
}

fn holder(name: Option<String>, here: &str) -> Result<Holder, Refusal> {
    let holder = name.as_deref().map_or_else(|| Ok(Holder::default()), Holder::parse);
    holder.map_err(|finding| invalid(finding.code, &format!("{here}/holder"), finding.detail))
}

fn subject(id: &str, epoch: u64, here: &str) -> Result<(InstanceId, Epoch), Refusal> {
    let id = InstanceId::parse(id)
        .map_err(|finding| invalid(Code::InvalidId, &format!("{here}/id"), finding.detail))?;
    // Left out it is zero, which no registration ever has.
    if epoch == 0 {
        let detail = "the epoch that the registration was answered with is required";
        return Err(invalid(Code::EpochRequired, &format!("{here}/epoch"), detail));
    }
    let epoch = Epoch::from_wire(epoch).ok_or_else(|| {
        invalid(Code::InvalidEpoch, &format!("{here}/epoch"), "an epoch has at most 52 bits")
    })?;
    Ok((id, epoch))
}

fn items(wire: RenewRequest) -> Result<Vec<(InstanceId, Epoch, Report)>, Refusal> {
    if wire.items.len() > limits::RENEWALS_MAX {
        return Err(invalid(Code::InvalidBody, "/items", "there are more than 1,000 of them"));
    }
    let mut items = Vec::with_capacity(wire.items.len());
    for (at, item) in wire.items.into_iter().enumerate() {
        let here = format!("/items/{at}");
        let (id, epoch) = subject(&item.id, item.epoch, &here)?;
        known::<v1::Lifecycle>(item.lifecycle, &format!("{here}/lifecycle"))?;
        let report = Report {
            lifecycle: lifecycle_from(item.lifecycle()),
            load: load(item.load, &here)?,
            holder: holder(item.holder, &here)?,
        };
        items.push((id, epoch, report));
    }
    Ok(items)
}

fn load(wire: Option<v1::Load>, here: &str) -> Result<Option<Load>, Refusal> {
    let load = wire.map(load_from);
    match load {
        Some(load) if !(0.0..=1.0).contains(&load.error_rate) => {
            Err(invalid(Code::InvalidBody, &format!("{here}/load/error_rate"), "it is from 0 to 1"))
        }
        Some(_) | None => Ok(load),
    }
}

fn changes(wire: UpdateRequest) -> Result<(InstanceId, Epoch, Update), Refusal> {
    let (id, epoch) = subject(&wire.id, wire.epoch, "")?;
    known::<v1::Lifecycle>(wire.lifecycle, "/lifecycle")?;
    let lifecycle = lifecycle_from(wire.lifecycle());
    let mut metadata: BTreeMap<String, Option<String>> =
        wire.metadata_set.into_iter().map(|(key, value)| (key, Some(value))).collect();
    for key in wire.metadata_remove {
        if metadata.insert(key, None).is_some_and(|set| set.is_some()) {
            return Err(invalid(Code::InvalidBody, "/metadata_remove", "a key is set and removed at once"));
        }
    }
    if lifecycle.is_none() && metadata.is_empty() {
        return Err(invalid(Code::InvalidBody, "", "lifecycle or metadata is required"));
    }
    Ok((id, epoch, Update { lifecycle, load: None, metadata }))
}

fn renewed(times: LeaseTimes) -> Renewed {
    Renewed {
        lease_seconds: whole_seconds(times),
        heartbeat_seconds: times.heartbeat.as_secs_f64(),
        lease_expires_at_ms: times.expires_at.0,
        superseded: times.superseded,
    }
}

/// A renewal that was refused: lost, unknown, or not judged now.
fn judged(refusal: &Refusal) -> Outcome {
    if refusal.code == Code::NotRegistered {
        return Outcome::NotRegistered(NotRegistered {});
    }
    if refusal.code == Code::Superseded
        && let Some(current) = &refusal.current
    {
        return Outcome::Superseded(v1::Current {
            epoch: current.epoch.get(),
            endpoint: current.endpoint.clone(),
        });
    }
    let wait = retry_after(refusal).unwrap_or_default();
    Outcome::Refused(Refused {
        code: refusal.code.as_str().to_owned(),
        retry_after_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
    })
}

fn whole_seconds(times: LeaseTimes) -> u32 {
    u32::try_from(times.length.as_secs()).unwrap_or(u32::MAX)
}
