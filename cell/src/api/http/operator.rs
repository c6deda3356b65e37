//! Operators: the guard, its release, evict and mute.
//!
//! Promises: what an operator asks is done or refused as a whole, id by id told; times are shown by the wall clock and
//! decided by the monotonic one. Never here: who may do so; there is no auth yet, and everybody is `anonymous`.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use rollcall_model::body::{Members, parse_json};
use rollcall_model::{Code, InstanceId, Invalid};
use serde::Serialize;
use serde_json::Value;

use crate::api::http::parameters::Parameters;
use crate::api::http::report::names;
use crate::api::http::{Answer, Shared, body, json, report};
use crate::operator::{self, CohortFacts, OPERATOR};
use crate::refusal::Refusal;

#[derive(Serialize)]
struct Guard<'a> {
    state: &'static str,
    cohorts: Vec<CohortJson>,
    held: Vec<&'a str>,
}

#[derive(Serialize)]
struct CohortJson {
    cohort: String,
    registered: u64,
    suspects: u64,
    limit: u64,
    since: Option<String>,
    settling_until: Option<String>,
}

pub(super) async fn guard(State(api): State<Shared>, parameters: Parameters) -> Answer {
    parameters.close()?;
    let status = api.registrar.guard().await?;
    let shown = Guard {
        state: if status.is_calm() { "calm" } else { "holding" },
        cohorts: status.cohorts.iter().map(cohort_json).collect(),
        held: status.held.iter().map(InstanceId::as_str).collect(),
    };
    json::read(&api.unread, &shown)
}

fn cohort_json(facts: &CohortFacts) -> CohortJson {
    CohortJson {
        cohort: facts.cohort.to_string(),
        registered: facts.registered,
        suspects: facts.suspects,
        limit: facts.limit,
        since: facts.since.map(json::time),
        settling_until: facts.settling_until.map(json::time),
    }
}

#[derive(Serialize)]
struct Released {
    released: Vec<String>,
    refused: Vec<NotReleased>,
}

#[derive(Serialize)]
struct NotReleased {
    id: String,
    why: String,
}

pub(super) async fn release(State(api): State<Shared>, parameters: Parameters, request: Request) -> Answer {
    parameters.close()?;
    let ids = released_ids(&body::read(request, &[body::JSON]).await?)?;
    let outcome = api.registrar.release(&ids, OPERATOR).await?;
    let refused = outcome.refused.into_iter().map(|(id, why)| NotReleased { id, why }).collect();
    json::answer(StatusCode::OK, &Released { released: outcome.released, refused })
}

#[derive(Serialize)]
struct Evicted<'a> {
    id: &'a str,
    region: &'a str,
    reason: &'a str,
    actor: String,
}

pub(super) async fn evict(State(api): State<Shared>, parameters: Parameters, request: Request) -> Answer {
    parameters.close()?;
    let (id, reason) = eviction(&body::read(request, &[body::JSON]).await?)?;
    api.registrar.evict(&id, &reason, OPERATOR).await?;
    let region = api.regions.own().as_str();
    let shown = Evicted { id: id.as_str(), region, reason: &reason, actor: operator::actor(OPERATOR) };
    json::answer(StatusCode::OK, &shown)
}

#[derive(Serialize)]
struct Muted<'a> {
    id: &'a str,
    region: &'a str,
    seconds: u64,
    muted_until: String,
}

pub(super) async fn mute(State(api): State<Shared>, parameters: Parameters, request: Request) -> Answer {
    parameters.close()?;
    let (id, seconds) = muting(&body::read(request, &[body::JSON]).await?)?;
    let until = api.registrar.mute(&id, Duration::from_secs(seconds), OPERATOR).await?;
    let region = api.regions.own().as_str();
    let shown = Muted { id: id.as_str(), region, seconds, muted_until: json::time(until) };
    json::answer(StatusCode::OK, &shown)
}

/// Reads the body of a release. One malformed id refuses it whole.
fn released_ids(body: &[u8]) -> Result<Vec<String>, Refusal> {
    let value = parse_json(body).map_err(Refusal::invalid)?;
    let mut found = Vec::new();
    let mut ids = Vec::new();
    if let Some(mut members) = Members::open(&value, "", &mut found) {
        ids = members.texts("ids");
        members.close();
        if value.get("ids").is_none_or(Value::is_null) {
            found.push(Invalid::new(Code::InvalidBody, "/ids", "it is required"));
        }
        let count = value.get("ids").and_then(Value::as_array).map_or(0, Vec::len);
        if let Err(detail) = operator::check_releases(count) {
            found.push(Invalid::new(Code::InvalidBody, "/ids", detail));
        }
    }
    for (at, id) in ids.iter().enumerate() {
        let pointer = format!("/ids/{at}");
        if !names(&found, &pointer) {
            found.extend(parse_id(id, &pointer).err());
        }
    }
    report::done(ids, found)
}

/// Reads the body of an eviction.
fn eviction(body: &[u8]) -> Result<(InstanceId, String), Refusal> {
    let value = parse_json(body).map_err(Refusal::invalid)?;
    let mut found = Vec::new();
    let (mut id, mut reason) = (None, String::new());
    if let Some(mut members) = Members::open(&value, "", &mut found) {
        id = Some(members.required_text("id"));
        reason = members.required_text("reason");
        members.close();
        if let Some(detail) = operator::check_reason(&reason).err().filter(|_| !names(&found, "/reason")) {
            found.push(Invalid::new(Code::InvalidBody, "/reason", detail));
        }
    }
    about(id, reason, found)
}

/// Reads the body of a mute.
fn muting(body: &[u8]) -> Result<(InstanceId, u64), Refusal> {
    let value = parse_json(body).map_err(Refusal::invalid)?;
    let mut found = Vec::new();
    let (mut id, mut seconds) = (None, 0);
    if let Some(mut members) = Members::open(&value, "", &mut found) {
        id = Some(members.required_text("id"));
        let given = members.number("seconds");
        members.close();
        seconds = given.unwrap_or_default();
        if given.is_none() && !names(&found, "/seconds") {
            found.push(Invalid::new(Code::InvalidBody, "/seconds", "it is required"));
        }
        if let Err(detail) = operator::check_mute(seconds) {
            found.push(Invalid::new(Code::InvalidBody, "/seconds", detail));
        }
    }
    about(id, seconds, found)
}

/// The instance that a body names, with what else it says.
fn about<T>(id: Option<String>, said: T, mut found: Vec<Invalid>) -> Result<(InstanceId, T), Refusal> {
    let here = "/id";
    let parsed = id.filter(|_| !names(&found, here)).map(|id| parse_id(&id, here));
    match parsed {
        Some(Ok(id)) => report::done((id, said), found),
        Some(Err(finding)) => {
            found.insert(0, finding);
            Err(Refusal::invalid(found))
        }
        None => Err(Refusal::invalid(found)),
    }
}

fn parse_id(text: &str, here: &str) -> Result<InstanceId, Invalid> {
    InstanceId::parse(text).map_err(|finding| Invalid::new(Code::InvalidId, here, finding.detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn faults<T: std::fmt::Debug>(read: Result<T, Refusal>) -> Vec<(Code, String)> {
        read.unwrap_err().findings.into_iter().map(|finding| (finding.code, finding.pointer)).collect()
    }

    #[test]
    fn every_fault_of_an_operators_body_has_its_place() {
        assert_eq!(released_ids(br#"{"ids":["a/b/c"]}"#).unwrap(), ["a/b/c"]);
        for (body, code, pointer) in [
            ("", Code::InvalidJson, ""),
            ("[]", Code::InvalidBody, ""),
            ("{}", Code::InvalidBody, "/ids"),
            (r#"{"ids":null}"#, Code::InvalidBody, "/ids"),
            (r#"{"ids":"a/b/c"}"#, Code::InvalidBody, "/ids"),
            (r#"{"ids":[7]}"#, Code::InvalidBody, "/ids/0"),
            (r#"{"ids":["a/b/c","a/b"]}"#, Code::InvalidId, "/ids/1"),
            (r#"{"ids":[],"all":true}"#, Code::UnknownMember, "/all"),
        ] {
            assert_eq!(faults(released_ids(body.as_bytes())), [(code, pointer.to_owned())], "{body}");
        }
        let many = json!({"ids": vec!["a/b/c"; 1_001]}).to_string();
        assert_eq!(faults(released_ids(many.as_bytes())), [(Code::InvalidBody, "/ids".to_owned())]);
    }

    #[test]
    fn every_fault_of_an_eviction_has_its_place() {
        let (id, reason) = eviction(br#"{"id":"a/b/c","reason":"a drill"}"#).unwrap();
        assert_eq!((id.as_str(), reason.as_str()), ("a/b/c", "a drill"));
        for (body, code, pointer) in [
            (r#"{"id":"a/b/c"}"#, Code::InvalidBody, "/reason"),
            (r#"{"id":"a/b/c","reason":" "}"#, Code::InvalidBody, "/reason"),
            (r#"{"id":"a/b/c","reason":7}"#, Code::InvalidBody, "/reason"),
            (r#"{"reason":"x"}"#, Code::InvalidBody, "/id"),
            (r#"{"id":"a/b","reason":"x"}"#, Code::InvalidId, "/id"),
            (r#"{"id":"a/b/c","reason":"x","epoch":"7"}"#, Code::UnknownMember, "/epoch"),
        ] {
            assert_eq!(faults(eviction(body.as_bytes())), [(code, pointer.to_owned())], "{body}");
        }
        let long = json!({"id": "a/b/c", "reason": "x".repeat(1_025)}).to_string();
        assert_eq!(faults(eviction(long.as_bytes())), [(Code::InvalidBody, "/reason".to_owned())]);
    }

    #[test]
    fn every_fault_of_a_mute_has_its_place() {
        assert_eq!(muting(br#"{"id":"a/b/c","seconds":0}"#).unwrap().1, 0);
        for (body, code, pointer) in [
            (r#"{"id":"a/b/c"}"#, Code::InvalidBody, "/seconds"),
            (r#"{"id":"a/b/c","seconds":"7"}"#, Code::InvalidBody, "/seconds"),
            (r#"{"id":"a/b/c","seconds":-1}"#, Code::InvalidBody, "/seconds"),
            (r#"{"id":"a/b/c","seconds":1.5}"#, Code::InvalidBody, "/seconds"),
            (r#"{"id":"a/b/c","seconds":86401}"#, Code::InvalidBody, "/seconds"),
            (r#"{"seconds":1}"#, Code::InvalidBody, "/id"),
            (r#"{"id":"A/b/c","seconds":1}"#, Code::InvalidId, "/id"),
            (r#"{"id":"a/b/c","seconds":1,"x":1}"#, Code::UnknownMember, "/x"),
        ] {
            assert_eq!(faults(muting(body.as_bytes())), [(code, pointer.to_owned())], "{body}");
        }
    }
}
