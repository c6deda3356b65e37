//! What is sent is no longer than what was reckoned: pages are cut by a record's weight, and no message is over a
//! mebibyte (museum B43).

use std::collections::BTreeMap;
use std::sync::Arc;

use prost::Message;
use rollcall_model::declaration::RawCapability;
use rollcall_model::testing::{
    Chance, any_declared, any_owned, full_registration, id, ids, position, region,
};
use rollcall_model::testing::{declared, registered, registration};
use rollcall_model::{
    Declaration, Declared, Epoch, Event, Load, Owned, Registration, Revision, Snapshot, State, limits,
};
use rollcall_proto::convert;

const MEBIBYTE: usize = 1024 * 1024;

fn bytes(record: &Registration) -> usize {
    convert::registration(record).encoded_len()
}

/// Registrations that the door lets in and that have as many tiny parts as it lets in.
fn crumbs() -> Vec<Registration> {
    let words = || (0..limits::TAGS_MAX).map(|_| "x".to_owned()).collect::<Vec<_>>();
    let capability = |nth| RawCapability {
        name: format!("a:b:v{nth}"),
        input_types: words(),
        output_types: words(),
        tags: words(),
        internal: true,
        ..RawCapability::default()
    };
    let skill = |nth| format!("{{\"id\":\"{nth}\",\"tags\":{:?}}}", words());
    let skills: Vec<_> = (0..limits::SKILLS_MAX).map(skill).collect();
    let entries =
        |many: usize| (0..many).map(|nth| (format!("{nth}"), "y".to_owned())).collect::<BTreeMap<_, _>>();
    let raw = Declaration {
        id: "a/b/c".into(),
        card: Some(format!("{{\"name\":\"t\",\"url\":\"http://h/\",\"skills\":[{}]}}", skills.join(","))),
        ..Declaration::default()
    };
    let check = |raw: Declaration| Declared::check(raw, String::new).unwrap();
    let capabilities: Vec<_> = (0..limits::CAPABILITIES_MAX).map(capability).collect();
    let endpoints = (1..=limits::ENDPOINTS_MAX)
        .map(|port| rollcall_model::declaration::RawEndpoint {
            url: format!("http://h:{port}/"),
            protocol: Some("h".into()),
        })
        .collect();
    let full = check(Declaration { capabilities, endpoints, metadata: entries(64), ..raw.clone() });
    let versions = Declaration {
        version: Some(format!("1.0.0-{}", "a".repeat(58))),
        zone: Some("z".repeat(64)),
        weight: Some(1_000_000),
        max_concurrency: Some(u64::from(u32::MAX)),
        max_queue: Some(u64::from(u32::MAX)),
        lease_seconds: Some(300),
        ..raw
    };
    [full, check(versions)]
        .into_iter()
        .map(|declared| {
            let epoch = Epoch::from_wire((1 << 52) - 1).unwrap();
            let mut one = registered(declared, epoch, Revision(u64::MAX));
            one.registered_at = rollcall_model::Timestamp(i64::MIN);
            one.owned = Owned {
                metadata: entries(64).into(),
                load: Load { queue_depth: u32::MAX, in_flight: u32::MAX, error_rate: 0.1 }.into(),
                overdue: true,
                strained: true,
                ..one.owned
            };
            one.replaced = std::iter::repeat_n(epoch, limits::REPLACED_MAX).collect();
            one
        })
        .collect()
}

#[test]
fn a_record_on_the_wire_is_never_longer_than_its_weight() {
    let mut records = crumbs();
    records.push(full_registration());
    records.push(registration("a/b/c", 1, 1));
    for seed in 0..300 {
        let mut chance = Chance::new(seed);
        let declared = any_declared(&mut chance, id("ops/mail/1"));
        let owned = any_owned(&mut chance);
        records.push(Registration { owned, ..registered(declared, Epoch::new(1, Revision(1)), Revision(1)) });
    }
    for (nth, record) in records.iter().enumerate() {
        // Five more: the tag and the length that a page puts before it.
        let (long, weight) = (bytes(record) + 5, record.weight_bytes());
        assert!(long <= weight, "record {nth} has {long} bytes and weighs {weight}");
        assert!(weight <= limits::SNAPSHOT_PAGE_BYTES_MAX, "record {nth} fits a page alone");
    }
}

#[test]
fn b43_no_page_is_over_a_mebibyte_on_any_wire() {
    let crumbs = crumbs();
    for kind in 0..3 {
        let mut state = State::default();
        for id in ids(1_100) {
            let record = match kind {
                0 => registered(declared(id.as_str()), Epoch::new(1, Revision(1)), Revision(1)),
                kind => {
                    let crumb = crumbs[kind - 1].clone();
                    Registration { declared: Declared { id, ..crumb.declared }, ..crumb }
                }
            };
            state.put(Arc::new(record));
            if state.count() == 40 && kind > 0 {
                break;
            }
        }
        let snapshot = Snapshot::of(region(), position(1, 1), state);
        let pages = convert::snapshot_pages(&snapshot, 0);
        assert!(pages.len() > 1, "the fixture needs more than a page");
        for page in pages {
            assert!(page.encoded_len() <= MEBIBYTE, "{} bytes in a page of the log", page.encoded_len());
            let records = page.records.into_iter().map(|r| Arc::new(convert::registration_from(r).unwrap()));
            let event = convert::event(&Event::Page(records.collect()));
            assert!(event.encoded_len() <= MEBIBYTE, "{} bytes in a page of a watch", event.encoded_len());
        }
    }
}
