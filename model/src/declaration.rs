//! What a registrant declares: first as it came (`Declaration`), then checked (`Declared`).
//!
//! Every door (HTTP, gRPC, command line) makes a `Declaration`; there is one validator.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::capability::{Capability, CapabilityName, Details};
use crate::card::{Card, CardFacts};
use crate::code::{Code, Invalid};
use crate::endpoint::{Endpoint, Endpoints};
use crate::holders::Holder;
use crate::lifecycle::{Kind, Lifecycle, Scope};
use crate::limits;
use crate::name::{InstanceId, Zone};
use crate::profile::Profile;

/// The version of an agent whose card names none (acceptance MOD-19): callers that ask for one still find it.
const CARD_VERSION: &str = "1.0.0";

/// An endpoint as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawEndpoint {
    /// URL.
    pub url: String,
    /// What is spoken there.
    pub protocol: Option<String>,
}

/// A capability as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the members of `Capability`, unchecked")]
pub struct RawCapability {
    pub name: String,
    pub description: Option<String>,
    pub input_types: Vec<String>,
    pub output_types: Vec<String>,
    pub input_summary: Option<String>,
    pub output_summary: Option<String>,
    pub schema_url: Option<String>,
    pub tags: Vec<String>,
    pub internal: bool,
}

/// A registration's body as it came, of the right types and nothing more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the members of the body, unchecked; `Declared` documents them")]
pub struct Declaration {
    pub id: String,
    pub kind: Option<String>,
    pub scope: Option<String>,
    pub holder: Option<String>,
    pub endpoints: Vec<RawEndpoint>,
    pub capabilities: Vec<RawCapability>,
    pub version: Option<String>,
    pub zone: Option<String>,
    pub weight: Option<u64>,
    pub max_concurrency: Option<u64>,
    pub max_queue: Option<u64>,
    pub metadata: BTreeMap<String, String>,
    pub lease_seconds: Option<u64>,
    pub lifecycle: Option<String>,
    pub card: Option<String>,
}

/// What the owner of a registration declares, checked. Read as what it shares with its agent's other instances, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Which process of which agent.
    pub id: InstanceId,
    /// Where it is called, first preferred; never empty.
    pub endpoints: Endpoints,
    /// Failure domain.
    pub zone: Option<Zone>,
    /// Everything else.
    pub profile: Arc<Profile>,
}

impl Deref for Declared {
    type Target = Profile;

    fn deref(&self) -> &Profile {
        &self.profile
    }
}

impl DerefMut for Declared {
    fn deref_mut(&mut self) -> &mut Profile {
        Arc::make_mut(&mut self.profile)
    }
}

/// The instance of a shared entry whose registrants name none.
const SHARED_INSTANCE: &str = "service";

/// Collects findings; each check goes on so that the caller sees all of them at once.
struct Findings(Vec<Invalid>);

impl Findings {
    fn body(&mut self, pointer: impl Into<String>, detail: &str) {
        self.0.push(Invalid::new(Code::InvalidBody, pointer, detail));
    }

    fn take<T>(&mut self, result: Result<T, Invalid>, pointer: Option<String>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(mut finding) => {
                if let Some(pointer) = pointer {
                    finding.pointer = pointer;
                }
                self.0.push(finding);
                None
            }
        }
    }

    fn text(&mut self, text: Option<&String>, chars: usize, pointer: &str) {
        if text.is_some_and(|t| t.chars().count() > chars) {
            self.body(pointer, &format!("it is longer than {chars} characters"));
        }
    }

    fn words(&mut self, words: &[String], pointer: &str) {
        if words.len() > limits::TAGS_MAX {
            self.body(pointer, "there are more than 32 of them");
        }
        for (at, word) in words.iter().enumerate() {
            if word.is_empty() || word.chars().count() > limits::TAG_CHARS_MAX {
                self.body(format!("{pointer}/{at}"), "it is 1-64 characters");
            }
        }
    }

    fn number(&mut self, number: Option<u64>, most: u32, pointer: &str) -> Option<u32> {
        let number = number?;
        match u32::try_from(number) {
            Ok(small) if small <= most => Some(small),
            Ok(_) | Err(_) => {
                self.body(pointer, &format!("it is at most {most}"));
                None
            }
        }
    }
}

impl Declared {
    /// Checks a declaration. When the id has two parts, `fresh` makes the instance.
    ///
    /// # Errors
    /// Every finding with its pointer; nothing is repaired or cut.
    pub fn check(raw: Declaration, fresh: impl FnOnce() -> String) -> Result<Self, Vec<Invalid>> {
        Self::check_held(raw, fresh).map(|(declared, _)| declared)
    }

    /// The same, with who holds the entry: `default` unless the declaration names it, and nobody where the entry is one
    /// process's own. Who holds it is no part of what is declared: all holders of an entry declare the same.
    ///
    /// # Errors
    /// As [`Declared::check`].
    pub fn check_held(
        raw: Declaration,
        fresh: impl FnOnce() -> String,
    ) -> Result<(Self, Option<Holder>), Vec<Invalid>> {
        let mut found = Findings(Vec::new());
        let is_shared = raw.scope.as_deref() == Some(Scope::Service.as_str());
        // Processes that share an entry must come to the same id without asking each other (acceptance MOD-16).
        let instance = || if is_shared { SHARED_INSTANCE.to_owned() } else { fresh() };
        let whole =
            if raw.id.matches('/').count() == 1 { format!("{}/{}", raw.id, instance()) } else { raw.id };
        let id = found.take(InstanceId::parse(&whole), None);
        let (card, facts) = match raw.card.as_deref().map(Card::parse) {
            None => (None, CardFacts::default()),
            Some(Ok((card, facts))) => (Some(card), facts),
            Some(Err(findings)) => {
                found.0.extend(findings);
                (None, CardFacts::default())
            }
        };
        let kind = word(&mut found, raw.kind, Kind::parse, Kind::Agent, "/kind", "agent or tool");
        let scope =
            word(&mut found, raw.scope, Scope::parse, Scope::Instance, "/scope", "instance or service");
        let holder = match raw.holder {
            Some(_) if scope == Scope::Instance => {
                found.body("/holder", "only an entry of scope service has holders");
                None
            }
            Some(name) => found.take(Holder::parse(&name), None),
            None => (scope == Scope::Service).then(Holder::default),
        };
        let lifecycle = word(
            &mut found,
            raw.lifecycle,
            Lifecycle::parse,
            Lifecycle::Healthy,
            "/lifecycle",
            "starting or healthy",
        );
        if !matches!(lifecycle, Lifecycle::Starting | Lifecycle::Healthy) {
            found.body("/lifecycle", "a registration begins as starting or healthy");
        }
        let endpoints = endpoints(&mut found, raw.endpoints, facts.endpoints, raw.card.is_some());
        let capabilities = capabilities(&mut found, raw.capabilities);
        let of_card = || facts.version.or_else(|| card.is_some().then(|| CARD_VERSION.to_owned()));
        let version = raw.version.or_else(of_card);
        if let Some(text) = version.as_ref().filter(|_| card.is_none() || !raw_card_version(&card, &version))
        {
            if text.chars().count() > limits::SHORT_TEXT_CHARS_MAX {
                found.body("/version", "it is longer than 64 characters");
            } else if semver::Version::parse(text).is_err() {
                found.body("/version", "a version is semver, as in 2.3.1");
            }
        }
        let zone = raw.zone.and_then(|zone| found.take(Zone::parse(&zone), None));
        metadata(&mut found, &raw.metadata, "/metadata");
        let lease = raw.lease_seconds.unwrap_or(limits::LEASE_SECONDS_DEFAULT);
        if !(limits::LEASE_SECONDS_MIN..=limits::LEASE_SECONDS_MAX).contains(&lease) {
            found.body("/lease_seconds", "a lease is 5-300 seconds");
        }
        let weight = found.number(raw.weight, 1_000_000, "/weight").unwrap_or(100);
        let max_concurrency = found.number(raw.max_concurrency, u32::MAX, "/max_concurrency");
        let max_queue = found.number(raw.max_queue, u32::MAX, "/max_queue").unwrap_or(0);
        match id {
            Some(id) if found.0.is_empty() => {
                let profile = Profile {
                    kind,
                    scope,
                    capabilities,
                    skills: facts.skills,
                    version,
                    weight,
                    max_concurrency,
                    max_queue,
                    metadata: raw.metadata.into(),
                    lease_seconds: u16::try_from(lease).unwrap_or(u16::MAX),
                    lifecycle,
                    card,
                };
                let endpoints = endpoints.into();
                Ok((Self { id, endpoints, zone, profile: Arc::new(profile) }, holder))
            }
            Some(_) | None => Err(found.0),
        }
    }
}

/// Whether the version is the card's own: a card may write any text, a body only semver.
fn raw_card_version(card: &Option<Card>, version: &Option<String>) -> bool {
    let own = card.as_ref().and_then(|card| serde_json::from_str::<serde_json::Value>(card.json()).ok());
    own.and_then(|v| v.get("version").and_then(serde_json::Value::as_str).map(str::to_owned)) == *version
}

fn word<T>(
    found: &mut Findings,
    text: Option<String>,
    parse: impl Fn(&str) -> Option<T>,
    default: T,
    pointer: &str,
    known: &str,
) -> T {
    match text {
        None => default,
        Some(text) => parse(&text).unwrap_or_else(|| {
            found.body(pointer, &format!("it is {known}"));
            default
        }),
    }
}

fn endpoints(
    found: &mut Findings,
    raw: Vec<RawEndpoint>,
    of_card: Vec<Endpoint>,
    has_card: bool,
) -> Vec<Endpoint> {
    if raw.len() > limits::ENDPOINTS_MAX {
        found.body("/endpoints", "there are more than 16 of them");
    }
    if raw.is_empty() {
        if of_card.is_empty() {
            let detail = if has_card {
                "neither the body nor the card names an endpoint"
            } else {
                "at least one endpoint, or a card that names some"
            };
            found.body("/endpoints", detail);
        }
        return of_card;
    }
    let mut endpoints = Vec::new();
    for (at, raw) in raw.into_iter().enumerate() {
        let pointer = format!("/endpoints/{at}/url");
        let parsed = Endpoint::at(&raw.url, raw.protocol.as_deref(), pointer, Code::InvalidEndpoint);
        endpoints.extend(found.take(parsed, None));
    }
    endpoints
}

fn capabilities(found: &mut Findings, raw: Vec<RawCapability>) -> Vec<Capability> {
    if raw.len() > limits::CAPABILITIES_MAX {
        found.body("/capabilities", "there are more than 256 of them");
    }
    let mut seen = BTreeSet::new();
    let mut capabilities = Vec::new();
    for (at, raw) in raw.into_iter().enumerate() {
        let here = format!("/capabilities/{at}");
        found.text(raw.description.as_ref(), limits::DESCRIPTION_CHARS_MAX, &format!("{here}/description"));
        found.text(
            raw.input_summary.as_ref(),
            limits::DESCRIPTION_CHARS_MAX,
            &format!("{here}/input_summary"),
        );
        found.text(
            raw.output_summary.as_ref(),
            limits::DESCRIPTION_CHARS_MAX,
            &format!("{here}/output_summary"),
        );
        found.text(raw.schema_url.as_ref(), limits::URL_CHARS_MAX, &format!("{here}/schema_url"));
        found.words(&raw.tags, &format!("{here}/tags"));
        found.words(&raw.input_types, &format!("{here}/input_types"));
        found.words(&raw.output_types, &format!("{here}/output_types"));
        let Some(name) = found.take(CapabilityName::parse(&raw.name), Some(here.clone())) else { continue };
        if !seen.insert(name.clone()) {
            found.body(here, "the capability stands here twice");
            continue;
        }
        let details = Details {
            description: raw.description,
            input_types: raw.input_types,
            output_types: raw.output_types,
            input_summary: raw.input_summary,
            output_summary: raw.output_summary,
            schema_url: raw.schema_url,
            tags: raw.tags,
        };
        capabilities.push(Capability::new(name, raw.internal, details));
    }
    capabilities
}

fn metadata(found: &mut Findings, metadata: &BTreeMap<String, String>, pointer: &str) {
    if metadata.len() > limits::METADATA_ENTRIES_MAX {
        found.body(pointer, "there are more than 64 entries");
    }
    for (key, value) in metadata {
        let escaped = key.replace('~', "~0").replace('/', "~1");
        if key.is_empty() || key.chars().count() > limits::METADATA_KEY_CHARS_MAX {
            found.body(format!("{pointer}/{escaped}"), "a key is 1-64 characters");
        }
        if value.chars().count() > limits::METADATA_VALUE_CHARS_MAX {
            found.body(format!("{pointer}/{escaped}"), "a value is at most 1,024 characters");
        }
    }
}

/// Checks metadata after an owner's patch.
///
/// # Errors
/// Every finding with a pointer under `/metadata`.
pub fn check_metadata(merged: &BTreeMap<String, String>) -> Result<(), Vec<Invalid>> {
    let mut found = Findings(Vec::new());
    metadata(&mut found, merged, "/metadata");
    if found.0.is_empty() { Ok(()) } else { Err(found.0) }
}
