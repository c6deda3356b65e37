//! Builders, and an origin with a random history, for the tests of every crate.
//!
//! Promises: the same seed gives the same values on every machine, so a failing test is repeated by its seed. Whatever
//! an [`Origin`] hands out is true of the history that it made up, and it knows the true state at each of its
//! revisions.
//!
//! Never in a shipped binary: only the feature `testing` has it, and here alone a bad fixture may panic.

mod chance;
mod origin;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use chance::Chance;
pub use origin::Origin;

use crate::capability::{Capability, CapabilityName, Details, Skill};
use crate::card::Card;
use crate::change::{Removal, RemovalReason};
use crate::declaration::Declared;
use crate::endpoint::Endpoint;
use crate::lifecycle::{Kind, Lifecycle, Load, Scope};
use crate::name::{InstanceId, Region, Zone};
use crate::position::{Epoch, Incarnation, Position, Revision};
use crate::profile::{Metadata, Profile};
use crate::query::Query;
use crate::registration::{Owned, Registration, Replaced};
use crate::time::Timestamp;

/// The region that fixtures live in: `eu`.
///
/// # Panics
/// Never.
#[must_use]
pub fn region() -> Region {
    Region::parse("eu").expect("a region")
}

/// An id.
///
/// # Panics
/// When the text is no id.
#[must_use]
pub fn id(text: &str) -> InstanceId {
    InstanceId::parse(text).expect("an id")
}

/// The incarnation with this ordinal; the same ordinal gives the same incarnation.
///
/// # Panics
/// When the ordinal is 0 or over 4,095.
#[must_use]
pub fn incarnation(ordinal: u16) -> Incarnation {
    Incarnation::new(ordinal, &format!("0{ordinal}")).expect("an ordinal of 1-4095")
}

/// A position in the incarnation with this ordinal.
///
/// # Panics
/// When the ordinal is 0 or over 4,095.
#[must_use]
pub fn position(ordinal: u16, revision: u64) -> Position {
    Position::new(incarnation(ordinal), Revision(revision))
}

/// The least that a registrant can declare: one endpoint, everything else by default.
///
/// # Panics
/// When the text is no id.
#[must_use]
pub fn declared(id: &str) -> Declared {
    Declared {
        id: self::id(id),
        endpoints: Endpoint::parse("http://10.0.0.1:8080/", Some("http")).expect("an endpoint").into(),
        zone: None,
        profile: Arc::new(Profile {
            kind: Kind::Agent,
            scope: Scope::Instance,
            capabilities: Vec::new(),
            skills: Vec::new(),
            version: None,
            weight: 100,
            max_concurrency: None,
            max_queue: 0,
            metadata: Metadata::default(),
            lease_seconds: 30,
            lifecycle: Lifecycle::Healthy,
            card: None,
        }),
    }
}

/// The least registration, of the first incarnation: written at revision `epoch`, last changed at `revision`.
///
/// # Panics
/// When the text is no id or the epoch does not fit 40 bits.
#[must_use]
pub fn registration(id: &str, epoch: u64, revision: u64) -> Registration {
    registered(declared(id), Epoch::new(1, Revision(epoch)), Revision(revision))
}

/// A registration of what was declared, as fresh as can be.
#[must_use]
pub fn registered(declared: Declared, epoch: Epoch, revision: Revision) -> Registration {
    let owned = Owned::of(&declared);
    let registered_at = Timestamp(1_700_000_000_000);
    Registration { declared, epoch, registered_at, revision, owned, replaced: Replaced::default() }
}

/// A registration that has every member set, to values that never change: goldens are made of it.
///
/// # Panics
/// Never.
#[must_use]
pub fn full_registration() -> Registration {
    let text = |text: &str| Some(text.to_owned());
    let profile = Profile {
        capabilities: vec![Capability::new(
            CapabilityName::parse("mail:send:v1").expect("a capability"),
            true,
            Details {
                description: text("sends «mail»"),
                input_types: vec!["json".into(), "text".into()],
                output_types: vec!["json".into()],
                input_summary: text("who, what"),
                output_summary: text("the id"),
                schema_url: text("https://agents.example/schema.json"),
                tags: vec!["fast".into(), "日本".into()],
            },
        )],
        skills: vec![Skill { id: "sum".into(), name: "Sum up".into(), tags: vec!["text".into()] }],
        version: text("2.3.1"),
        weight: 50,
        max_concurrency: Some(8),
        max_queue: 3,
        metadata: BTreeMap::from([("queue".into(), "high".into()), ("team".into(), "ops".into())]).into(),
        lease_seconds: 45,
        lifecycle: Lifecycle::Starting,
        card: Some(Card::parse("{ \"name\": \"mail\",\n \"version\":\"2.3.1\" }").expect("a card").0),
        kind: Kind::Tool,
        scope: Scope::Service,
    };
    let declared = Declared {
        endpoints: vec![
            Endpoint::parse("https://agents.example:8443/a2a?x=1", Some("JSONRPC")).expect("an endpoint"),
            Endpoint::parse("kafka://orders.in", None).expect("an endpoint"),
        ]
        .into(),
        zone: Some(Zone::parse("eu-1/a").expect("a zone")),
        profile: Arc::new(profile),
        ..declared("ops/email_agent/a1b2c3")
    };
    Registration {
        declared,
        epoch: Epoch::new(2, Revision(1_000_000)),
        registered_at: Timestamp(1_796_000_000_123),
        revision: Revision(1_000_007),
        owned: Owned {
            lifecycle: Lifecycle::Degraded,
            metadata: BTreeMap::from([("queue".into(), "low".into())]).into(),
            load: Load { queue_depth: 2, in_flight: 7, error_rate: 0.125 }.into(),
            strained: false,
            overdue: false,
        },
        replaced: Replaced::default(),
    }
}

/// The removal of a registration of the first incarnation by its owner.
///
/// # Panics
/// When the text is no id or the epoch does not fit 40 bits.
#[must_use]
pub fn removal(id: &str, epoch: u64, revision: u64) -> Removal {
    Removal {
        id: self::id(id),
        epoch: Epoch::new(1, Revision(epoch)),
        reason: RemovalReason::Deregistered,
        actor: "owner".into(),
        term: None,
        at: Timestamp(1_700_000_000_000),
        revision: Revision(revision),
    }
}

/// Ids that stand in each other's way in order: `ops` is a prefix of other namespaces, `mail` of other names, and both
/// `-` and `.` sort before the slash.
#[must_use]
pub fn ids(many: usize) -> Vec<InstanceId> {
    let agents = ["ops/mail", "ops/mail-2", "ops-x/mail", "ops.x/mail", "ops/mai", "z/draw"];
    (0..many).map(|n| id(&format!("{}/{}", agents[n % agents.len()], n / agents.len()))).collect()
}

const CAPABILITIES: [&str; 4] = ["mail:send:v1", "mail:send:v2", "text:sum_up:v1", "image:draw:v1"];
const TAGS: [&str; 3] = ["fast", "gpu", "日本"];
const SKILLS: [(&str, &str); 3] = [("sum", "Sum up"), ("draw", "Draw"), ("Sum up", "sum")];
const VERSIONS: [&str; 4] = ["1.0.0", "1.2.3", "2.0.0-rc.1", "not semver"];

fn tags(chance: &mut Chance) -> Vec<String> {
    TAGS.into_iter().filter(|_| chance.one_in(3)).map(str::to_owned).collect()
}

fn metadata(chance: &mut Chance) -> Metadata {
    let mut metadata = BTreeMap::new();
    for key in ["queue", "a/b~c", "ключ"] {
        if chance.one_in(3) {
            metadata.insert(key.to_owned(), chance.below(3).to_string());
        }
    }
    metadata.into()
}

/// A declaration with some of everything, from so few words that two of them often share one.
///
/// # Panics
/// Never.
#[must_use]
pub fn any_declared(chance: &mut Chance, id: InstanceId) -> Declared {
    let endpoints = ["http://10.0.0.1:8080/", "grpc://[::1]:80", "kafka://orders.in"];
    let capabilities = CAPABILITIES.into_iter().filter(|_| chance.one_in(3)).collect::<Vec<_>>();
    let mut some = |text: &str| chance.one_in(2).then(|| text.to_owned());
    let texts = [some("sends «mail»"), some(""), some("text"), some("http://10.0.0.1/schema")];
    let capabilities = capabilities.into_iter().map(|name| {
        let name = CapabilityName::parse(name).expect("a capability");
        let details = Details {
            description: texts[0].clone(),
            input_types: tags(chance),
            output_types: tags(chance),
            input_summary: texts[1].clone(),
            output_summary: texts[2].clone(),
            schema_url: texts[3].clone(),
            tags: tags(chance),
        };
        Capability::new(name, chance.one_in(4), details)
    });
    let capabilities = capabilities.collect();
    let zones = ["a", "b"].map(|text| Zone::parse(text).expect("a zone"));
    let skills = SKILLS.into_iter().filter(|_| chance.one_in(4)).collect::<Vec<_>>();
    let kind = *chance.pick(&[Kind::Agent, Kind::Tool]);
    let scope = *chance.pick(&[Scope::Instance, Scope::Service]);
    let endpoints = endpoints[..1 + chance.below(3)].iter();
    let endpoints = endpoints
        .map(|url| Endpoint::of(url, chance.one_in(2).then_some("http")).expect("an endpoint"))
        .collect();
    let zone = chance.one_in(2).then(|| chance.pick(&zones).clone());
    let profile = Profile {
        kind,
        scope,
        capabilities,
        skills: skills
            .into_iter()
            .map(|(id, name)| Skill { id: id.into(), name: name.into(), tags: tags(chance) })
            .collect(),
        version: chance.one_in(2).then(|| (*chance.pick(&VERSIONS)).to_owned()),
        weight: *chance.pick(&[0, 100, 1_000_000]),
        max_concurrency: chance.one_in(2).then(|| *chance.pick(&[0, 8, u32::MAX])),
        max_queue: *chance.pick(&[0, 3, u32::MAX]),
        metadata: metadata(chance),
        lease_seconds: *chance.pick(&[5, 30, 300]),
        lifecycle: *chance.pick(&[Lifecycle::Starting, Lifecycle::Healthy]),
        card: chance.one_in(3).then(|| {
            let text = format!("{{ \"name\": \"t{}\",\n \"skills\":[] }}", chance.below(3));
            Card::parse(&text).expect("a card").0
        }),
    };
    Declared { id, endpoints, zone, profile: Arc::new(profile) }
}

/// What an owner may say after it registered.
#[must_use]
pub fn any_owned(chance: &mut Chance) -> Owned {
    Owned {
        lifecycle: *chance.pick(&Lifecycle::ALL),
        metadata: metadata(chance),
        load: chance
            .one_in(2)
            .then(|| Load {
                queue_depth: *chance.pick(&[0, 1, u32::MAX]),
                in_flight: *chance.pick(&[0, 8]),
                error_rate: *chance.pick(&[0.0, 0.25, 1.0]),
            })
            .into(),
        strained: chance.one_in(4),
        overdue: chance.one_in(4),
    }
}

/// A question in the words of [`any_declared`]; often it asks for nothing much, sometimes for what nobody has.
///
/// # Panics
/// Never.
#[must_use]
pub fn any_query(chance: &mut Chance) -> Query {
    let mut query = Query::default();
    let asked = [
        ("namespace", "ops"),
        ("namespace", "ops-x"),
        ("namespace", "nobody"),
        ("name", "mail"),
        ("name", "mai"),
        ("capability", CAPABILITIES[0]),
        ("capability", CAPABILITIES[2]),
        ("capability", "no:body:v1"),
        ("skill", "sum"),
        ("skill", "Sum up"),
        ("tag", TAGS[0]),
        ("tag", TAGS[2]),
        ("kind", "tool"),
        ("version", "^1"),
        ("version", "*"),
        ("zone", "a"),
        ("lifecycle", "healthy"),
        ("lifecycle", "draining"),
        ("metadata.queue", "1"),
    ];
    for _ in 0..chance.below(4) {
        let (name, value) = *chance.pick(&asked);
        // A name that may stand there once only keeps its first value or takes the second; both are questions.
        let _ = query.set(name, value);
    }
    query
}
