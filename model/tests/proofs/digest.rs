//! The digest is a contract between versions: other processes compute it from the same records and must agree.

use rollcall_model::testing::{full_registration, registration};
use rollcall_model::{
    Endpoint, Kind, LastLoad, Lifecycle, Load, Registration, Revision, Scope, Skill, StateDigest, Timestamp,
    Zone,
};

#[test]
fn i18_the_hash_of_a_record_is_what_every_version_says() {
    assert_eq!(format!("{:032x}", full_registration().hash128()), FULL);
    assert_eq!(format!("{:032x}", registration("a/b/c", 5, 7).hash128()), LEAST);
}

const FULL: &str = "0bf87f40c66ae58ecc868b583f063dae";
const LEAST: &str = "fc32268a5224b9cb18b34002168b99c7";

/// The layout, written down once more by hand: numbers are eight bytes little-endian, a text goes in behind its length,
/// a list behind its count, and a text that is left out is a length that no text has.
#[test]
fn i18_the_hash_is_xxh3_over_the_members_in_this_order() {
    let mut bytes = Vec::new();
    let number = |bytes: &mut Vec<u8>, number: u64| bytes.extend_from_slice(&number.to_le_bytes());
    let text = |bytes: &mut Vec<u8>, text: &str| {
        number(bytes, text.len() as u64);
        bytes.extend_from_slice(text.as_bytes());
    };
    text(&mut bytes, "a/b/c");
    for value in [(1 << 40) + 5, 7, 1_700_000_000_000] {
        bytes.extend_from_slice(&u64::to_le_bytes(value)); // epoch, revision, registered at
    }
    text(&mut bytes, "agent");
    text(&mut bytes, "instance");
    bytes.extend_from_slice(&1_u64.to_le_bytes()); // endpoints
    text(&mut bytes, "http://10.0.0.1:8080/");
    text(&mut bytes, "http");
    // No capabilities, no skills; no version, no zone; weight, no bound on calls, no queue, no metadata, the lease.
    for value in [0, 0, u64::MAX, u64::MAX, 100, 0, 0, 0, 30] {
        bytes.extend_from_slice(&u64::to_le_bytes(value));
    }
    text(&mut bytes, "healthy");
    bytes.extend_from_slice(&u64::MAX.to_le_bytes()); // no card
    text(&mut bytes, "healthy");
    bytes.extend_from_slice(&0_u64.to_le_bytes()); // the owner's metadata; no load
    let hash = xxhash_rust::xxh3::xxh3_128(&bytes);
    assert_eq!(hash, registration("a/b/c", 5, 7).hash128());
}

#[test]
fn i18_the_digest_of_a_state_is_the_sum_of_its_records() {
    let (full, least) = (full_registration().hash128(), registration("a/b/c", 5, 7).hash128());
    let both = StateDigest::EMPTY.with(full).with(least);
    assert_eq!(both.to_string(), format!("{:032x}", full.wrapping_add(least)));
    assert_eq!(both, StateDigest::EMPTY.with(least).with(full));
    assert_eq!(both.without(full), StateDigest::EMPTY.with(least));
    assert_eq!(StateDigest::EMPTY.to_string(), "0".repeat(32));
    let bytes = both.to_bytes();
    assert_eq!(StateDigest::from_bytes(&bytes), Some(both));
    assert_eq!(bytes.to_vec(), full.wrapping_add(least).to_be_bytes());
    for wrong in [&bytes[..15], &[bytes.as_slice(), &[0]].concat(), &[]] {
        assert_eq!(StateDigest::from_bytes(wrong), None, "{} bytes", wrong.len());
    }
}

#[test]
fn i18_every_member_of_a_record_is_in_its_hash() {
    fn endpoint(url: &str, protocol: Option<&str>) -> Endpoint {
        Endpoint::of(url, protocol).unwrap()
    }
    let edits: &[fn(&mut Registration)] = &[
        |_| {},
        |r| r.replaced = [rollcall_model::Epoch::new(2, Revision(9))].into_iter().collect(),
        |r| r.replaced = [rollcall_model::Epoch::new(2, Revision(8))].into_iter().collect(),
        |r| r.declared.id = rollcall_model::testing::id("ops/email_agent/a1b2c4"),
        |r| r.epoch = rollcall_model::Epoch::new(2, Revision(1_000_001)),
        |r| r.epoch = rollcall_model::Epoch::new(3, Revision(1_000_000)),
        |r| r.revision = Revision(1_000_008),
        |r| r.registered_at = Timestamp(1_796_000_000_124),
        |r| r.declared.kind = Kind::Agent,
        |r| r.declared.scope = Scope::Instance,
        |r| r.declared.endpoints = r.declared.endpoints[..1].to_vec().into(),
        |r| r.declared.endpoints.swap(0, 1),
        |r| r.declared.endpoints[0] = endpoint(r.declared.endpoints[0].url(), None),
        |r| r.declared.endpoints[1] = endpoint(r.declared.endpoints[1].url(), Some("")),
        |r| r.declared.endpoints[1] = endpoint("kafka://orders.inx", None),
        |r| r.declared.capabilities.clear(),
        |r| r.declared.capabilities[0].description = None,
        |r| r.declared.capabilities[0].description = Some(String::new()),
        |r| r.declared.capabilities[0].input_summary = None,
        |r| r.declared.capabilities[0].output_summary = None,
        |r| r.declared.capabilities[0].schema_url = None,
        |r| r.declared.capabilities[0].internal = false,
        // The same texts, parted otherwise.
        |r| r.declared.capabilities[0].input_types = vec!["jsontext".into()],
        |r| r.declared.capabilities[0].input_types = vec!["jso".into(), "ntext".into()],
        |r| {
            let capability = &mut r.declared.capabilities[0];
            let moved = capability.input_types.pop().unwrap();
            capability.output_types.insert(0, moved);
        },
        |r| {
            let capability = &mut r.declared.capabilities[0];
            let details = &mut **capability;
            std::mem::swap(&mut details.input_summary, &mut details.output_summary);
        },
        |r| r.declared.capabilities[0].tags.reverse(),
        |r| r.declared.skills.clear(),
        |r| {
            r.declared.skills[0] =
                Skill { id: "sumS".into(), name: "um up".into(), tags: vec!["text".into()] }
        },
        |r| r.declared.skills[0].tags.clear(),
        |r| r.declared.version = None,
        |r| r.declared.version = Some("eu-1/a".into()),
        |r| r.declared.zone = None,
        |r| r.declared.zone = Some(Zone::parse("2.3.1").unwrap()),
        |r| r.owned.overdue = true,
        |r| r.owned.strained = true,
        |r| (r.owned.overdue, r.owned.load) = (true, LastLoad::NONE),
        |r| (r.owned.strained, r.owned.load) = (true, LastLoad::NONE),
        |r| (r.owned.strained, r.owned.overdue) = (true, true),
        |r| r.declared.weight = 51,
        |r| r.declared.max_concurrency = None,
        |r| r.declared.max_concurrency = Some(0),
        |r| r.declared.max_concurrency = Some(u32::MAX),
        |r| r.declared.max_queue = 0,
        |r| r.declared.metadata.clear(),
        |r| drop(r.declared.metadata.insert("queueh".into(), "igh".into())),
        |r| drop(r.declared.metadata.insert("queue".into(), "higher".into())),
        |r| r.declared.lease_seconds = 46,
        |r| r.declared.lifecycle = Lifecycle::Healthy,
        |r| r.declared.card = None,
        |r| {
            let other = "{ \"name\": \"mail\",  \"version\":\"2.3.1\" }";
            r.declared.card = Some(rollcall_model::Card::parse(other).unwrap().0);
        },
        |r| r.owned.lifecycle = Lifecycle::Starting,
        |r| r.owned.metadata.clear(),
        |r| std::mem::swap(&mut r.owned.metadata, &mut r.declared.metadata),
        |r| r.owned.load = LastLoad::NONE,
        |r| r.owned.load = Load::default().into(),
        |r| r.owned.load = Load { queue_depth: 7, in_flight: 2, error_rate: 0.125 }.into(),
        |r| r.owned.load = Load { queue_depth: 2, in_flight: 7, error_rate: 0.25 }.into(),
    ];
    let mut seen = std::collections::BTreeMap::new();
    for (nth, edit) in edits.iter().enumerate() {
        let mut edited = full_registration();
        edit(&mut edited);
        let twin = seen.insert(edited.hash128(), nth);
        assert_eq!(twin, None, "edits {twin:?} and {nth} have one hash");
    }
}
