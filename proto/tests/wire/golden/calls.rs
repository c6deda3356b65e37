//! What writers, readers, the processes of a cell and operators ask, and what they are answered.

use std::collections::BTreeMap;

use rollcall_model::testing::{full_registration, position};
use rollcall_proto::{convert, v1};

use super::{Golden, read_as, wire};
use crate::values::{declaration, expired, query, snapshot};

/// All of them.
pub(super) fn goldens() -> Vec<Golden> {
    [writers(), sessions(), keepers(), operators(), readers()].into_iter().flatten().collect()
}

/// What writers send and are answered.
fn writers() -> Vec<Golden> {
    use v1::renew_response::result::Outcome;
    use v1::renew_response::{NotRegistered, Refused, Renewed};
    let item = |id: &str, load, lifecycle: v1::Lifecycle| v1::renew_request::Item {
        id: id.into(),
        epoch: 42,
        load,
        lifecycle: lifecycle.into(),
        holder: None,
    };
    let load = v1::Load { queue_depth: 2, in_flight: 7, error_rate: 0.125 };
    let result = |id: &str, outcome| v1::renew_response::Result { id: id.into(), outcome: Some(outcome) };
    let renewed = Renewed {
        lease_seconds: 30,
        heartbeat_seconds: 10.5,
        lease_expires_at_ms: 1_796_000_030_000,
        superseded: false,
    };
    let current = v1::Current { epoch: 43, endpoint: "http://10.0.0.2:8080/".into() };
    vec![
        read_as("register_request", "RegisterRequest", convert::register_request(&declaration()), |read| {
            assert_eq!(convert::declaration_from_request(read), declaration());
        }),
        wire(
            "register_response",
            "RegisterResponse",
            v1::RegisterResponse {
                id: "ops/email_agent/a1b2c3".into(),
                region: "eu".into(),
                epoch: 42,
                lease_seconds: 30,
                heartbeat_seconds: 10.5,
                lease_expires_at_ms: 1_796_000_030_000,
                position: Some(convert::position(&position(2, 42))),
                holder: None,
            },
        ),
        wire(
            "renew_request",
            "RenewRequest",
            v1::RenewRequest {
                items: vec![
                    item("a/b/c", None, v1::Lifecycle::Unspecified),
                    item("a/b/d", Some(load), v1::Lifecycle::Draining),
                ],
            },
        ),
        wire(
            "renew_response",
            "RenewResponse",
            v1::RenewResponse {
                results: vec![
                    result("a/b/c", Outcome::Renewed(renewed)),
                    result("a/b/d", Outcome::Superseded(current)),
                    result("a/b/e", Outcome::NotRegistered(NotRegistered {})),
                    result(
                        "a/b/f",
                        Outcome::Refused(Refused { code: "overloaded".into(), retry_after_ms: 1_500 }),
                    ),
                ],
            },
        ),
        wire(
            "update_request",
            "UpdateRequest",
            v1::UpdateRequest {
                id: "a/b/c".into(),
                epoch: 42,
                lifecycle: v1::Lifecycle::Degraded.into(),
                metadata_set: BTreeMap::from([("k".into(), "v".into())]),
                metadata_remove: vec!["old".into()],
            },
        ),
        wire(
            "update_response",
            "UpdateResponse",
            v1::UpdateResponse { registration: Some(convert::registration(&full_registration())) },
        ),
        wire(
            "deregister_request",
            "DeregisterRequest",
            v1::DeregisterRequest { id: "a/b/c".into(), epoch: 42, holder: None },
        ),
    ]
}

/// What readers send and are answered.
fn readers() -> Vec<Golden> {
    let agent =
        || v1::Agent { region: "eu".into(), registration: Some(convert::registration(&full_registration())) };
    let status = v1::RegionStatus {
        region: "eu".into(),
        role: "own".into(),
        state: "current".into(),
        age_ms: Some(0),
        position: Some(convert::position(&position(2, 42))),
        count: Some(2),
        digest: Some(snapshot().head().digest.to_bytes().to_vec().into()),
        last_resync_at_ms: Some(1_796_000_000_000),
        last_resync_reason: Some("history_passed".into()),
    };
    let asked = || Some(convert::query(&query()));
    vec![
        read_as("query", "Query", convert::query(&query()), |read| {
            assert_eq!(convert::query_from(Some(read)), Ok(query()));
        }),
        wire(
            "watch_request",
            "WatchRequest",
            v1::WatchRequest {
                region: "us".into(),
                query: asked(),
                since: Some(convert::position(&position(2, 42))),
            },
        ),
        wire(
            "list_request",
            "ListRequest",
            v1::ListRequest { region: "all".into(), query: asked(), limit: 100, page_token: "t".into() },
        ),
        wire(
            "list_response",
            "ListResponse",
            v1::ListResponse {
                agents: vec![agent()],
                regions: vec![status.clone()],
                next_page_token: Some("t".into()),
                hint: None,
            },
        ),
        wire(
            "list_response_empty",
            "ListResponse",
            v1::ListResponse {
                agents: Vec::new(),
                regions: Vec::new(),
                next_page_token: None,
                hint: Some("h".into()),
            },
        ),
        wire("get_request", "GetRequest", v1::GetRequest { id: "a/b/c".into(), region: "us".into() }),
        wire("get_response", "GetResponse", v1::GetResponse { agent: Some(agent()) }),
        wire("regions_response", "RegionsResponse", v1::RegionsResponse { regions: vec![status] }),
        wire("removals_request", "RemovalsRequest", v1::RemovalsRequest { limit: 10, id: "a/b/c".into() }),
        wire(
            "removals_response",
            "RemovalsResponse",
            v1::RemovalsResponse {
                removals: vec![v1::RemovalItem {
                    region: "eu".into(),
                    removal: Some(convert::removal(&expired())),
                    position: Some(convert::position(&position(2, 1_000_009))),
                }],
            },
        ),
    ]
}

fn sessions() -> Vec<Golden> {
    use v1::session_request::Request;
    use v1::session_response::{Refusal, Response};
    let refusal = Refusal {
        code: "superseded".into(),
        detail: "a newer registration holds this instance".into(),
        retry_after_ms: Some(1_500),
        current: Some(v1::Current { epoch: 43, endpoint: "http://10.0.0.2:8080/".into() }),
    };
    let removal = v1::DeregisterRequest { id: "a/b/c".into(), epoch: 42, holder: None };
    let ask = |request| v1::SessionRequest { call: 7, request: Some(request) };
    let answer = |response| v1::SessionResponse { call: 7, response: Some(response) };
    vec![
        wire(
            "session_register",
            "SessionRequest",
            ask(Request::Register(convert::register_request(&declaration()))),
        ),
        wire("session_renew", "SessionRequest", ask(Request::Renew(v1::RenewRequest::default()))),
        wire("session_update", "SessionRequest", ask(Request::Update(v1::UpdateRequest::default()))),
        wire("session_deregister", "SessionRequest", ask(Request::Deregister(removal))),
        wire(
            "session_registered",
            "SessionResponse",
            answer(Response::Register(v1::RegisterResponse::default())),
        ),
        wire("session_renewed", "SessionResponse", answer(Response::Renew(v1::RenewResponse::default()))),
        wire("session_updated", "SessionResponse", answer(Response::Update(v1::UpdateResponse::default()))),
        wire(
            "session_deregistered",
            "SessionResponse",
            answer(Response::Deregister(v1::DeregisterResponse {})),
        ),
        wire("session_refused", "SessionResponse", answer(Response::Refusal(refusal))),
    ]
}

/// What the processes of one cell ask the keeper's.
fn keepers() -> Vec<Golden> {
    use v1::ask_request::question::About;
    use v1::ask_request::{Guard, Hold, Mute, Question, Release};
    use v1::ask_response::answer::Answer as Said;
    use v1::ask_response::{self, Answer, lease};
    let hold = || Hold { id: "a/b/c".into(), epoch: 42, holder: "pod-1".into() };
    let questions = [
        About::Renew(hold()),
        About::MayWriteLoad(hold()),
        About::Wrote(hold()),
        About::LetGo(hold()),
        About::Lease("a/b/c".into()),
        About::Guard(Guard {}),
        About::Release(Release { ids: vec!["a/b/c".into()], operator: "anonymous".into() }),
        About::Mute(Mute { id: "a/b/c".into(), seconds: 60, operator: "anonymous".into() }),
    ];
    let refusal = v1::session_response::Refusal { code: "not_registered".into(), ..Default::default() };
    let lease = ask_response::Lease {
        epoch: 42,
        lease_seconds: 30,
        state: lease::State::Suspect.into(),
        missed: 2,
        renewed_at_ms: 1_796_000_000_000,
        expires_at_ms: 1_796_000_030_000,
        holders: Some(lease::Holders {
            holders: vec![lease::Holder {
                holder: "pod-1".into(),
                epoch: 42,
                heard_at_ms: 1_796_000_000_000,
            }],
        }),
    };
    let cohort = ask_response::guard::Cohort {
        zone: Some("a".into()),
        registered: 8,
        suspects: 4,
        limit: 1,
        since_at_ms: Some(1_796_000_000_000),
        until_at_ms: Some(1_796_000_018_000),
    };
    let refused = ask_response::released::Refused { id: "a/b/d".into(), why: "it is not registered".into() };
    let answers = [
        Said::NoOffice(ask_response::NoOffice {}),
        Said::Wait(ask_response::Wait {}),
        Said::Refusal(refusal),
        Said::Renewed(ask_response::Renewed { lease_seconds: 30, superseded: true }),
        Said::Yes(true),
        Said::Lease(lease),
        Said::Guard(ask_response::Guard { cohorts: vec![cohort], held: vec!["a/b/c".into()] }),
        Said::Released(ask_response::Released { released: vec!["a/b/c".into()], refused: vec![refused] }),
    ];
    let questions = questions.map(|about| Question { about: Some(about) }).into();
    let answers = answers.map(|answer| Answer { answer: Some(answer) }).into();
    vec![
        wire("ask_request", "AskRequest", v1::AskRequest { questions }),
        wire("ask_response", "AskResponse", v1::AskResponse { answers }),
    ]
}

/// What operators ask and are answered.
fn operators() -> Vec<Golden> {
    use v1::guard_response::{Cohort, State};
    use v1::release_response::Refused;
    let (id, region) = (|| "a/b/c".to_owned(), || "eu".to_owned());
    let cohort = Cohort {
        cohort: "zone:a".into(),
        registered: 8,
        suspects: 4,
        limit: 1,
        since_ms: Some(1_796_000_000_000),
        settling_until_ms: Some(1_796_000_018_000),
    };
    let guard = v1::GuardResponse { state: State::Holding.into(), cohorts: vec![cohort], held: vec![id()] };
    let refused = Refused { id: id(), why: "it is renewed in time".into() };
    let released = v1::ReleaseResponse { released: vec![id()], refused: vec![refused] };
    let reason = || "it answers nonsense".to_owned();
    let evicted =
        v1::EvictResponse { id: id(), region: region(), reason: reason(), actor: "operator:ann".into() };
    let muted =
        v1::MuteResponse { id: id(), region: region(), seconds: 60, muted_until_ms: 1_796_000_060_000 };
    vec![
        wire("guard_response", "GuardResponse", guard),
        wire("release_request", "ReleaseRequest", v1::ReleaseRequest { ids: vec![id()] }),
        wire("release_response", "ReleaseResponse", released),
        wire("evict_request", "EvictRequest", v1::EvictRequest { id: id(), reason: reason() }),
        wire("evict_response", "EvictResponse", evicted),
        wire("mute_request", "MuteRequest", v1::MuteRequest { id: id(), seconds: Some(60) }),
        wire("mute_response", "MuteResponse", muted),
    ]
}
