//! Golden bytes of every message that another version, another region or another year may read.
//!
//! A golden is never edited: what it holds stands on somebody's disk. `ROLLCALL_REGENERATE=1 cargo test -p
//! rollcall-proto --test wire` writes those that are missing, and leaves those that differ to fail.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost::Message;
use rollcall_model::testing::{full_registration, id, incarnation, position, region, registration as least};
use rollcall_model::{
    Bookmark, Epoch, Event, Moment, Registration, RemovalReason, Replaced, Revision, Timestamp,
};
use rollcall_proto::convert::{self, FeedItem};
use rollcall_proto::disk::{self, LogPlace, Saved};
use rollcall_proto::store::{self, Gone, StoredRegistration};
use rollcall_proto::v1;

use crate::values::{beat, bookmark, declaration, delta, expired, query, snapshot};

/// One committed file: what its bytes are today, and a reader that says whether it understands committed ones.
struct Golden {
    name: &'static str,
    message: &'static str,
    bytes: Vec<u8>,
    reads: Reads,
}

type Reads = Box<dyn Fn(&[u8])>;

/// A state of which nobody has said yet how old it is.
fn unheard() -> Bookmark {
    Bookmark { age: None, ..bookmark() }
}

/// A message alone: it must read back equal.
fn wire<M: Message + Default + PartialEq + Debug + 'static>(
    name: &'static str,
    message: &'static str,
    value: M,
) -> Golden {
    read_as(name, message, value, |_| ())
}

/// A message that the model has a value for: that must read back equal, too.
fn read_as<M: Message + Default + PartialEq + Debug + 'static>(
    name: &'static str,
    message: &'static str,
    value: M,
    check: impl Fn(M) + 'static,
) -> Golden {
    let bytes = value.encode_to_vec();
    let reads = move |bytes: &[u8]| {
        let read = M::decode(bytes).unwrap();
        assert_eq!(read, value, "{name}");
        check(read);
    };
    Golden { name, message, bytes, reads: Box::new(reads) }
}

/// A value in the store.
fn stored(
    name: &'static str,
    message: &'static str,
    bytes: &[u8],
    check: impl Fn(&[u8]) + 'static,
) -> Golden {
    Golden { name, message, bytes: bytes.to_vec(), reads: Box::new(check) }
}

fn wire_registration(name: &'static str, value: Registration) -> Golden {
    read_as(name, "Registration", convert::registration(&value), move |read| {
        assert_eq!(convert::registration_from(read), Ok(value.clone()));
    })
}

fn watch(name: &'static str, value: Event) -> Golden {
    read_as(name, "WatchResponse", convert::event(&value), move |read| {
        assert_eq!(convert::event_from(read), Ok(value.clone()));
    })
}

fn feed(name: &'static str, value: FeedItem) -> Golden {
    read_as(name, "FeedRecord", convert::feed_record(&value), move |read| {
        assert_eq!(convert::feed_record_from(read), Ok(value.clone()));
    })
}

fn file(name: &'static str, saved: Saved) -> Golden {
    stored(name, "DiskState", &disk::encode(&saved), move |bytes| {
        let read = disk::decode(bytes).unwrap();
        assert_eq!(read.snapshot.head(), saved.snapshot.head());
        assert!(read.snapshot.state().iter().eq(saved.snapshot.state().iter()));
        assert_eq!((&read.saved_at, &read.log, &read.beat), (&saved.saved_at, &saved.log, &saved.beat));
    })
}

/// The records of the log, and what a watch sends.
fn feeds() -> Vec<Golden> {
    let delta = Arc::new(delta());
    let page = convert::snapshot_pages(&snapshot(), 77).remove(0);
    vec![
        wire_registration("registration_full", full_registration()),
        wire_registration("registration_least", least("a/b/c", 5, 7)),
        wire_registration(
            "registration_replacing",
            Registration { replaced: replaced(), ..full_registration() },
        ),
        read_as("delta", "Delta", convert::delta(&delta), {
            let delta = Arc::clone(&delta);
            move |read| assert_eq!(convert::delta_from(read).as_ref(), Ok(&*delta))
        }),
        read_as("bookmark_age_unknown", "Bookmark", convert::bookmark(&unheard()), |read| {
            assert_eq!(convert::bookmark_from(read), Ok(unheard()));
        }),
        read_as("bookmark", "Bookmark", convert::bookmark(&bookmark()), |read| {
            assert_eq!(convert::bookmark_from(read), Ok(bookmark()));
        }),
        wire("snapshot_page", "SnapshotPage", page),
        feed("feed_record_delta", FeedItem::Delta(Arc::clone(&delta))),
        feed("feed_record_bookmark", FeedItem::Bookmark(bookmark())),
        watch("watch_snapshot_begin", Event::SnapshotBegin(snapshot().head().clone())),
        watch("watch_page", Event::Page(snapshot().state().iter().cloned().collect())),
        watch("watch_snapshot_end", Event::SnapshotEnd(region(), position(2, 1_000_007))),
        watch("watch_delta", Event::Delta(delta)),
        watch("watch_bookmark", Event::Bookmark(bookmark())),
        watch("watch_resync", Event::Resync(region(), "history_passed")),
    ]
}

/// Registrations that another one of a shared entry replaced, of this history and of the one before.
fn replaced() -> Replaced {
    [Epoch::new(2, Revision(999_000)), Epoch::new(1, Revision(2_000_000))].into_iter().collect()
}

/// What stands in the store and on disk.
fn kept() -> Vec<Golden> {
    let registration = StoredRegistration {
        declared: full_registration().declared,
        ordinal: 2,
        registered_at: Timestamp(1_796_000_000_123),
        replaced: Replaced::default(),
    };
    let replacing = StoredRegistration { replaced: replaced(), ..registration.clone() };
    let gone = vec![
        Gone { id: id("a/b/c"), reason: RemovalReason::Expired, actor: "keeper".into(), term: Some(9) },
        Gone { id: id("a/b/d"), reason: RemovalReason::Deregistered, actor: "owner".into(), term: None },
    ];
    let at = Timestamp(1_796_000_001_000);
    let saved = Saved {
        snapshot: snapshot(),
        saved_at: Moment::of_wall(at),
        log: None,
        beat: None,
        history: Vec::new(),
    };
    let log = Some(LogPlace { topic: "feed.eu.v1".into(), next_offset: 4_711 });
    vec![
        stored(
            "stored_registration",
            "StoredRegistration",
            &store::encode_registration(
                &registration.declared,
                registration.ordinal,
                registration.registered_at,
                &registration.replaced,
            ),
            move |bytes| assert_eq!(store::decode_registration(bytes).as_ref(), Ok(&registration)),
        ),
        stored(
            "stored_registration_replacing",
            "StoredRegistration",
            &store::encode_registration(&replacing.declared, 2, replacing.registered_at, &replacing.replaced),
            move |bytes| assert_eq!(store::decode_registration(bytes).as_ref(), Ok(&replacing)),
        ),
        stored("stored_owned", "StoredOwned", &store::encode_owned(&full_registration().owned), |bytes| {
            assert_eq!(store::decode_owned(bytes), Ok(full_registration().owned));
        }),
        stored("stored_removal", "StoredRemoval", &store::encode_removal(&gone, at), move |bytes| {
            assert_eq!(store::decode_removal(bytes), Ok((gone.clone(), at)));
        }),
        stored("stored_beat", "StoreBeat", &store::encode_beat(&beat()), |bytes| {
            assert_eq!(store::decode_beat(bytes), Ok(beat()));
        }),
        stored(
            "stored_incarnation",
            "StoredIncarnation",
            &store::encode_incarnation(&incarnation(2)),
            |bytes| {
                assert_eq!(store::decode_incarnation(bytes), Ok(incarnation(2)));
            },
        ),
        file("disk_state_subscriber", Saved { log, ..saved.clone() }),
        file("disk_state_cell", Saved { beat: Some((beat(), Revision(1_000_042))), ..saved }),
    ]
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

fn goldens() -> Vec<Golden> {
    [feeds(), kept(), writers(), sessions(), keepers(), operators(), readers()]
        .into_iter()
        .flatten()
        .collect()
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(format!("{name}.bin"))
}

#[test]
fn every_message_is_written_and_read_as_it_ever_was() {
    let mut differ = Vec::new();
    for golden in goldens() {
        let path = path(golden.name);
        if !path.exists() && std::env::var_os("ROLLCALL_REGENERATE").is_some() {
            std::fs::write(&path, &golden.bytes).unwrap();
        }
        match std::fs::read(&path) {
            // Old bytes first: that they can be read matters more than that they would be written again.
            Ok(then) => {
                (golden.reads)(&then);
                if then != golden.bytes {
                    differ.push(golden.name);
                }
            }
            Err(error) => panic!("golden/{}.bin: {error}; see this file's head", golden.name),
        }
    }
    assert!(
        differ.is_empty(),
        "{differ:?} are written otherwise than before: other versions hold those bytes"
    );
}

#[test]
fn every_golden_file_has_a_test_that_reads_it() {
    let known: BTreeSet<_> = goldens().iter().map(|golden| path(golden.name)).collect();
    assert_eq!(known.len(), goldens().len(), "two goldens of one name");
    for entry in std::fs::read_dir(path("x").parent().unwrap()).unwrap() {
        let found = entry.unwrap().path();
        assert!(known.contains(&found), "{} is read by no test", found.display());
    }
}

#[test]
fn every_message_of_the_contract_stands_in_a_golden() {
    use prost_types::{DescriptorProto, FileDescriptorSet};
    let set = FileDescriptorSet::decode(rollcall_proto::DESCRIPTORS).unwrap();
    let mut fields = BTreeMap::<String, Vec<String>>::new();
    let mut queue: Vec<(String, DescriptorProto)> = set
        .file
        .into_iter()
        .filter(|file| file.package() == "rollcall.v1")
        .flat_map(|file| file.message_type)
        .map(|message| (String::from(".rollcall.v1"), message))
        .collect();
    while let Some((scope, message)) = queue.pop() {
        let name = format!("{scope}.{}", message.name());
        let types = message.field.iter().map(|field| field.type_name().to_owned()).collect();
        queue.extend(message.nested_type.into_iter().map(|nested| (name.clone(), nested)));
        fields.insert(name, types);
    }
    let mut seen = BTreeSet::new();
    let mut open: Vec<String> =
        goldens().iter().map(|golden| format!(".rollcall.v1.{}", golden.message)).collect();
    while let Some(name) = open.pop() {
        if let Some(types) = fields.get(&name)
            && seen.insert(name)
        {
            open.extend(types.iter().cloned());
        }
    }
    // Three messages have no fields and therefore no bytes.
    let empty =
        ["RegionsRequest", "DeregisterResponse", "GuardRequest"].map(|name| format!(".rollcall.v1.{name}"));
    let missing: Vec<_> =
        fields.keys().filter(|name| !seen.contains(*name) && !empty.contains(name)).collect();
    assert!(missing.is_empty(), "no golden holds {missing:?}");
    assert!(empty.iter().all(|name| fields[name].is_empty()), "an empty message has got fields");
}
