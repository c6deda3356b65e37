//! How the answers look: one shape per noun.
//!
//! Promises: 64-bit numbers that name something are texts, times are RFC 3339 in UTC, and a member without a value is
//! there as `null`.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use rollcall_model::{
    Capability, Code, Endpoint, Epoch, Incarnation, Instant, Position, Region, Registration, Removal,
    Revision, Skill, StateDigest, Timestamp, View,
};
use serde::{Serialize, Serializer};

use crate::api::Api;
use crate::api::http::Answer;
use crate::api::unread::Unread;
use crate::refusal::Refusal;

/// Room for an answer to begin with: one of a few agents fits, and need not grow again and again.
const ROOM: usize = 4 * 1024;

/// An answer with a JSON body.
pub(super) fn answer(status: StatusCode, body: &impl Serialize) -> Answer {
    let mut bytes = Vec::with_capacity(ROOM);
    write(&mut bytes, body)?;
    Ok(written(status, bytes.into()))
}

/// An answer to a reader, which waits in memory until it is taken: refused when too much of that does already. Not for
/// what was done already when it is answered.
pub(super) fn read(unread: &Unread, body: &impl Serialize) -> Answer {
    let mut bytes = Vec::with_capacity(ROOM);
    write(&mut bytes, body)?;
    Ok(written(StatusCode::OK, unread.weigh(bytes.into())?.into()))
}

/// Writes a value behind what is written already.
pub(super) fn write(to: &mut Vec<u8>, value: &impl Serialize) -> Result<(), Refusal> {
    serde_json::to_writer(to, value)
        .map_err(|error| Refusal::new(Code::Internal, format!("the answer has no JSON form: {error}")))
}

/// An answer whose JSON body is written already.
pub(super) fn written(status: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Where a hint stands that goes with an answer. The bodies have no place for it: their members are fixed.
const HINT: HeaderName = HeaderName::from_static("rollcall-hint");

/// The same answer with what is said beside it.
pub(super) fn hinted(mut response: Response, hint: Option<String>) -> Response {
    // A hint is one line of ASCII, which every header may have.
    if let Some(hint) = hint.and_then(|hint| HeaderValue::try_from(hint).ok()) {
        response.headers_mut().insert(HINT, hint);
    }
    response
}

/// A time for people.
pub(super) fn time(at: Timestamp) -> String {
    format!("{:.3}", shown(at))
}

/// A clock outside of the years that have a text form is shown at their edge; nothing is decided on it.
fn shown(at: Timestamp) -> jiff::Timestamp {
    let edge = if at.0 < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
    jiff::Timestamp::from_millisecond(at.0).unwrap_or(edge)
}

/// Seconds, whole ones without a fraction; never more than there are.
pub(super) fn seconds(length: Duration) -> serde_json::Number {
    let ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    if ms.is_multiple_of(1_000) {
        return (ms / 1_000).into();
    }
    let fraction = Duration::from_millis(ms).as_secs_f64();
    serde_json::Number::from_f64(fraction).unwrap_or_else(|| (ms / 1_000).into())
}

/// Milliseconds.
pub(super) fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

/// A position.
#[derive(Serialize)]
pub(super) struct PositionJson<'a> {
    #[serde(serialize_with = "text")]
    incarnation: &'a Incarnation,
    #[serde(serialize_with = "text")]
    revision: Revision,
}

impl<'a> From<&'a Position> for PositionJson<'a> {
    fn from(position: &'a Position) -> Self {
        Self { incarnation: &position.incarnation, revision: position.revision }
    }
}

/// An agent in an answer, written from its record without anything in between: lists are made of these.
#[derive(Serialize)]
pub(super) struct Agent<'a> {
    id: &'a str,
    region: &'a str,
    zone: Option<&'a str>,
    kind: &'static str,
    scope: &'static str,
    #[serde(serialize_with = "text")]
    epoch: Epoch,
    #[serde(serialize_with = "endpoints")]
    endpoints: &'a [Endpoint],
    #[serde(serialize_with = "capabilities")]
    capabilities: Capabilities<'a>,
    #[serde(serialize_with = "skills")]
    skills: &'a [Skill],
    version: Option<&'a str>,
    weight: u32,
    max_concurrency: Option<u32>,
    max_queue: u32,
    metadata: &'a BTreeMap<String, String>,
    lifecycle: &'static str,
    load: Option<LoadJson>,
    card_digest: Option<&'a str>,
    #[serde(serialize_with = "moment")]
    registered_at: Timestamp,
    #[serde(serialize_with = "text")]
    revision: Revision,
    overdue: bool,
}

/// The capabilities of one agent that one caller is shown.
struct Capabilities<'a> {
    all: &'a [Capability],
    internal: bool,
}

fn text<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

fn text_or_null<T: Display, S: Serializer>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => to.collect_str(value),
        None => to.serialize_none(),
    }
}

fn moment<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{:.3}", shown(*at)))
}

fn endpoints<S: Serializer>(all: &&[Endpoint], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(all.iter().map(endpoint))
}

fn capabilities<S: Serializer>(of: &Capabilities<'_>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(of.all.iter().filter(|capability| of.internal || !capability.internal).map(capability))
}

fn skills<S: Serializer>(all: &&[Skill], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(all.iter().map(skill))
}

#[derive(Serialize)]
struct EndpointJson<'a> {
    url: &'a str,
    protocol: Option<&'a str>,
}

#[derive(Serialize)]
struct CapabilityJson<'a> {
    name: &'a str,
    description: Option<&'a str>,
    input_types: &'a [String],
    output_types: &'a [String],
    input_summary: Option<&'a str>,
    output_summary: Option<&'a str>,
    schema_url: Option<&'a str>,
    tags: &'a [String],
    internal: bool,
}

#[derive(Serialize)]
struct SkillJson<'a> {
    id: &'a str,
    name: &'a str,
    tags: &'a [String],
}

#[derive(Serialize)]
struct LoadJson {
    queue_depth: u32,
    in_flight: u32,
    error_rate: f64,
}

/// How agents are shown to one caller.
pub(super) struct Shown<'a> {
    /// Where leases are known.
    pub api: &'a Api,
    /// Whether capabilities marked internal are shown.
    pub internal: bool,
}

impl Shown<'_> {
    /// An agent of a region.
    pub(super) fn agent<'a>(&self, region: &'a Region, registration: &'a Registration) -> Agent<'a> {
        agent(region, registration, self.internal, self.is_overdue(region, registration))
    }

    /// Past its deadline and still there. The own region's keeper knows at once; the others tell by their feeds.
    fn is_overdue(&self, region: &Region, registration: &Registration) -> bool {
        if region != self.api.regions.own() {
            return registration.owned.overdue;
        }
        let (overdue, _) =
            self.api.registrar.keeper.overdue(std::iter::once(registration), self.api.clock.now());
        overdue.contains(&true)
    }
}

/// An agent of a region as its record tells it, wherever the record came to. For whoever keeps what it was shown, or is
/// shown an order that follows from records: nothing would ever take back what only the keeper knew at that moment.
pub(super) fn told<'a>(region: &'a Region, registration: &'a Registration, internal: bool) -> Agent<'a> {
    agent(region, registration, internal, registration.owned.overdue)
}

/// An agent of a region, as it is shown to one caller.
pub(super) fn agent<'a>(
    region: &'a Region,
    registration: &'a Registration,
    internal: bool,
    overdue: bool,
) -> Agent<'a> {
    let declared = &registration.declared;
    Agent {
        id: declared.id.as_str(),
        region: region.as_str(),
        zone: declared.zone.as_ref().map(rollcall_model::Zone::as_str),
        kind: declared.kind.as_str(),
        scope: declared.scope.as_str(),
        epoch: registration.epoch,
        endpoints: &declared.endpoints,
        capabilities: Capabilities { all: &declared.capabilities, internal },
        skills: &declared.skills,
        version: declared.version.as_deref(),
        weight: declared.weight,
        max_concurrency: declared.max_concurrency,
        max_queue: declared.max_queue,
        metadata: &registration.owned.metadata,
        lifecycle: registration.owned.lifecycle.as_str(),
        load: registration.owned.load.get().map(|load| LoadJson {
            queue_depth: load.queue_depth,
            in_flight: load.in_flight,
            error_rate: load.error_rate,
        }),
        card_digest: declared.card.as_ref().map(rollcall_model::Card::digest),
        registered_at: registration.registered_at,
        revision: registration.revision,
        overdue,
    }
}

fn endpoint(endpoint: &Endpoint) -> EndpointJson<'_> {
    EndpointJson { url: endpoint.url(), protocol: endpoint.protocol() }
}

fn capability(capability: &Capability) -> CapabilityJson<'_> {
    CapabilityJson {
        name: capability.name.as_str(),
        description: capability.description.as_deref(),
        input_types: &capability.input_types,
        output_types: &capability.output_types,
        input_summary: capability.input_summary.as_deref(),
        output_summary: capability.output_summary.as_deref(),
        schema_url: capability.schema_url.as_deref(),
        tags: &capability.tags,
        internal: capability.internal,
    }
}

fn skill(skill: &Skill) -> SkillJson<'_> {
    SkillJson { id: &skill.id, name: &skill.name, tags: &skill.tags }
}

/// A region as this cell knows it.
#[derive(Serialize)]
pub(super) struct RegionJson<'a> {
    region: &'a str,
    role: &'static str,
    state: &'static str,
    age_ms: Option<u64>,
    position: Option<PositionJson<'a>>,
    count: Option<u64>,
    #[serde(serialize_with = "text_or_null")]
    digest: Option<StateDigest>,
    last_resync: Option<ResyncJson>,
}

#[derive(Serialize)]
struct ResyncJson {
    #[serde(serialize_with = "moment")]
    at: Timestamp,
    reason: &'static str,
}

/// Renders a view's standing in a cell of this region.
pub(super) fn region<'a>(own: &Region, view: &'a View, now: Instant) -> RegionJson<'a> {
    RegionJson {
        region: view.region().as_str(),
        role: if view.region() == own { "own" } else { "view" },
        state: view.freshness(now).as_str(),
        age_ms: view.age(now).map(millis),
        position: view.position().map(PositionJson::from),
        count: view.state().map(rollcall_model::State::count),
        digest: view.state().map(rollcall_model::State::digest),
        last_resync: view.last_resync().map(|resync| ResyncJson { at: resync.at, reason: resync.reason }),
    }
}

/// A removal in a list.
#[derive(Serialize)]
pub(super) struct RemovalJson<'a> {
    id: &'a str,
    region: &'a str,
    epoch: String,
    reason: &'static str,
    actor: &'a str,
    at: String,
    position: Option<PositionJson<'a>>,
}

/// Renders a removal.
pub(super) fn removal<'a>(
    region: &'a Region,
    removal: &'a Removal,
    position: Option<&'a Position>,
) -> RemovalJson<'a> {
    RemovalJson {
        id: removal.id.as_str(),
        region: region.as_str(),
        epoch: removal.epoch.to_string(),
        reason: removal.reason.as_str(),
        actor: &removal.actor,
        at: time(removal.at),
        position: position.map(PositionJson::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rollcall_model::body::parse_registration;
    use rollcall_model::{Declared, Epoch, Load, Owned, Replaced, Revision};
    use serde_json::{Value, json};

    fn registration(body: &Value) -> Registration {
        let raw = parse_registration(body.to_string().as_bytes()).unwrap();
        let declared = Declared::check(raw, || "fresh".into()).unwrap();
        Registration {
            epoch: Epoch::new(1, Revision(9)),
            registered_at: Timestamp(1_790_000_000_123),
            revision: Revision(11),
            owned: Owned::of(&declared),
            replaced: Replaced::default(),
            declared,
        }
    }

    fn shown(registration: &Registration, internal: bool) -> Value {
        serde_json::to_value(agent(&Region::parse("us").unwrap(), registration, internal, false)).unwrap()
    }

    #[test]
    fn a_whole_agent_has_every_member() {
        let mut full = registration(&json!({
            "id": "ops/mail/1", "kind": "tool", "endpoints": [{"url": "http://h:1/", "protocol": "http"}],
            "capabilities": [{"name": "email:send:v1", "description": "sends", "input_types": ["json"], "tags": ["fast"]}],
            "version": "2.3.1", "zone": "a", "max_concurrency": 8, "metadata": {"k": "v"},
            "card": {"name": "t", "skills": [{"id": "s", "name": "S", "tags": ["x"]}]},
        }));
        full.owned.load = Load { queue_depth: 1, in_flight: 2, error_rate: 0.5 }.into();
        let digest = full.declared.card.as_ref().unwrap().digest().to_owned();
        let expected = json!({
            "id": "ops/mail/1", "region": "us", "zone": "a", "kind": "tool", "scope": "instance",
            "epoch": "1099511627785", "endpoints": [{"url": "http://h:1/", "protocol": "http"}],
            "capabilities": [{
                "name": "email:send:v1", "description": "sends", "input_types": ["json"], "output_types": [],
                "input_summary": null, "output_summary": null, "schema_url": null, "tags": ["fast"], "internal": false,
            }],
            "skills": [{"id": "s", "name": "S", "tags": ["x"]}], "version": "2.3.1", "weight": 100,
            "max_concurrency": 8, "max_queue": 0, "metadata": {"k": "v"}, "lifecycle": "healthy",
            "load": {"queue_depth": 1, "in_flight": 2, "error_rate": 0.5}, "card_digest": digest,
            "registered_at": "2026-09-21T14:13:20.123Z", "revision": "11", "overdue": false,
        });
        assert_eq!(shown(&full, false), expected);
    }

    #[test]
    fn what_has_no_value_is_there_as_null() {
        let bare = registration(&json!({"id": "a/b/c", "endpoints": [{"url": "http://h:1/"}]}));
        let agent = shown(&bare, false);
        for member in ["zone", "version", "max_concurrency", "load", "card_digest"] {
            assert_eq!(agent.get(member), Some(&Value::Null), "{member}");
        }
        assert_eq!(agent["endpoints"][0], json!({"url": "http://h:1/", "protocol": null}));
    }

    #[test]
    fn internal_capabilities_are_shown_only_to_who_asks() {
        let hidden = registration(&json!({"id": "a/b/c", "endpoints": [{"url": "http://h:1/"}],
            "capabilities": ["a:b:v1", {"name": "c:d:v1", "internal": true}]}));
        assert_eq!(shown(&hidden, false)["capabilities"].as_array().unwrap().len(), 1);
        assert_eq!(shown(&hidden, true)["capabilities"][1]["internal"], true);
    }

    #[test]
    fn times_are_in_utc_with_milliseconds_whatever_the_clock_says() {
        assert_eq!(time(Timestamp(0)), "1970-01-01T00:00:00.000Z");
        assert!(time(Timestamp(i64::MAX)).starts_with("9999-"));
        assert!(time(Timestamp(i64::MIN)).starts_with('-'));
    }

    #[test]
    fn heartbeats_are_whole_seconds_or_a_fraction_that_is_not_longer() {
        assert_eq!(seconds(Duration::from_secs(10)).to_string(), "10");
        assert_eq!(seconds(Duration::from_secs(5) / 3).to_string(), "1.666");
    }
}
