//! The one validator: each limit lets in what is at it and refuses what is over it, with its place (I47).

use std::collections::BTreeMap;

use rollcall_model::declaration::{RawCapability, RawEndpoint, check_metadata};
use rollcall_model::{Code, Declaration, Declared, limits};

fn least() -> Declaration {
    Declaration {
        id: "a/b/c".into(),
        endpoints: vec![RawEndpoint { url: "http://h:1/".into(), protocol: None }],
        ..Declaration::default()
    }
}

fn check(raw: Declaration) -> Result<Declared, Vec<(Code, String)>> {
    Declared::check(raw, || "fresh".into())
        .map_err(|found| found.into_iter().map(|finding| (finding.code, finding.pointer)).collect())
}

/// A declaration of which something has this size.
type Sized = fn(&mut Declaration, usize);

type Edit = fn(&mut Declaration);

fn capability(raw: &mut Declaration, edit: impl FnOnce(&mut RawCapability)) {
    let mut capability = RawCapability { name: "a:b:v1".into(), ..RawCapability::default() };
    edit(&mut capability);
    raw.capabilities = vec![capability];
}

fn words(many: usize) -> Vec<String> {
    (0..many).map(|nth| format!("w{nth}")).collect()
}

/// So many characters of more than one byte: limits count characters.
fn chars(many: usize) -> String {
    "é".repeat(many)
}

#[test]
fn i47_each_limit_lets_in_what_is_at_it_and_refuses_what_is_over_it() {
    let table: &[(&str, usize, Sized)] = &[
        ("/id", 64, |raw, n| raw.id = format!("{}/b/c", "a".repeat(n))),
        ("/id", 128, |raw, n| raw.id = format!("{0}/{0}/{1}", "a".repeat(42), "a".repeat(n - 86))),
        ("/endpoints", 16, |raw, n| {
            raw.endpoints =
                (0..n).map(|p| RawEndpoint { url: format!("http://h:{}/", p + 1), protocol: None }).collect();
        }),
        ("/endpoints/0/url", 2_048, |raw, n| {
            raw.endpoints[0].url = format!("http://h/{}", "a".repeat(n - 9))
        }),
        ("/endpoints/0/url", 64, |raw, n| raw.endpoints[0].protocol = Some(chars(n))),
        ("/endpoints/0/url", 249, |raw, n| raw.endpoints[0].url = format!("kafka://{}", "t".repeat(n))),
        ("/capabilities", 256, |raw, n| {
            let named = |nth| RawCapability { name: format!("a:b:v{nth}"), ..RawCapability::default() };
            raw.capabilities = (0..n).map(named).collect();
        }),
        ("/capabilities/0", 128, |raw, n| {
            capability(raw, |c| c.name = format!("a:{}:v1", "b".repeat(n - 5)))
        }),
        ("/capabilities/0/description", 1_024, |raw, n| capability(raw, |c| c.description = Some(chars(n)))),
        ("/capabilities/0/input_summary", 1_024, |raw, n| {
            capability(raw, |c| c.input_summary = Some(chars(n)))
        }),
        ("/capabilities/0/output_summary", 1_024, |raw, n| {
            capability(raw, |c| c.output_summary = Some(chars(n)));
        }),
        ("/capabilities/0/schema_url", 2_048, |raw, n| capability(raw, |c| c.schema_url = Some(chars(n)))),
        ("/capabilities/0/tags", 32, |raw, n| capability(raw, |c| c.tags = words(n))),
        ("/capabilities/0/tags/0", 64, |raw, n| capability(raw, |c| c.tags = vec![chars(n)])),
        ("/capabilities/0/input_types", 32, |raw, n| capability(raw, |c| c.input_types = words(n))),
        ("/capabilities/0/input_types/0", 64, |raw, n| capability(raw, |c| c.input_types = vec![chars(n)])),
        ("/capabilities/0/output_types", 32, |raw, n| capability(raw, |c| c.output_types = words(n))),
        ("/capabilities/0/output_types/0", 64, |raw, n| capability(raw, |c| c.output_types = vec![chars(n)])),
        ("/version", 64, |raw, n| raw.version = Some(format!("1.0.0-{}", "a".repeat(n - 6)))),
        ("/zone", 64, |raw, n| raw.zone = Some("z".repeat(n))),
        ("/weight", 1_000_000, |raw, n| raw.weight = Some(n as u64)),
        ("/max_concurrency", u32::MAX as usize, |raw, n| raw.max_concurrency = Some(n as u64)),
        ("/max_queue", u32::MAX as usize, |raw, n| raw.max_queue = Some(n as u64)),
        ("/lease_seconds", 300, |raw, n| raw.lease_seconds = Some(n as u64)),
        ("/metadata", 64, |raw, n| raw.metadata = words(n).into_iter().map(|w| (w, String::new())).collect()),
        ("/metadata/k", 1_024, |raw, n| raw.metadata = BTreeMap::from([("k".into(), chars(n))])),
        ("/card", 128 * 1024, |raw, n| raw.card = Some(format!("{{\"name\":\"{}\"}}", "x".repeat(n - 11)))),
        ("/card/version", 64, |raw, n| {
            raw.card = Some(format!("{{\"name\":\"t\",\"version\":\"{}\"}}", chars(n)));
        }),
        ("/card/skills", 256, |raw, n| {
            let skills: Vec<_> = (0..n).map(|nth| format!("{{\"id\":\"s{nth}\"}}")).collect();
            raw.card = Some(format!("{{\"name\":\"t\",\"skills\":[{}]}}", skills.join(",")));
        }),
        ("/card/skills/0/id", 256, |raw, n| {
            raw.card = Some(format!("{{\"name\":\"t\",\"skills\":[{{\"id\":\"{}\"}}]}}", "s".repeat(n)));
        }),
        ("/card/skills/0/tags", 32, |raw, n| {
            let tags = format!("{:?}", words(n));
            raw.card = Some(format!("{{\"name\":\"t\",\"skills\":[{{\"id\":\"s\",\"tags\":{tags}}}]}}"));
        }),
        ("/card/supportedInterfaces/16/url", 16, |raw, n| {
            let urls: Vec<_> = (0..n).map(|p| format!("{{\"url\":\"http://h:{}/\"}}", p + 1)).collect();
            raw.card = Some(format!("{{\"name\":\"t\",\"supportedInterfaces\":[{}]}}", urls.join(",")));
            raw.endpoints.clear();
        }),
    ];
    for (pointer, most, size) in table {
        let (mut at, mut over) = (least(), least());
        size(&mut at, *most);
        size(&mut over, *most + 1);
        assert!(check(at.clone()).is_ok(), "{pointer}: {most} is refused: {:?}", check(at));
        let found = check(over).expect_err(&format!("{pointer}: {} is let in", most + 1));
        assert!(found.iter().any(|(_, at)| at == pointer), "{pointer}: {found:?}");
    }
}

#[test]
fn i47_the_lower_bounds_hold_too() {
    let table: &[(&str, Edit)] = &[
        ("/lease_seconds", |raw| raw.lease_seconds = Some(limits::LEASE_SECONDS_MIN - 1)),
        ("/lease_seconds", |raw| raw.lease_seconds = Some(0)),
        ("/endpoints", |raw| raw.endpoints.clear()),
        ("/endpoints/0/url", |raw| raw.endpoints[0].url.clear()),
        ("/endpoints/0/url", |raw| raw.endpoints[0].protocol = Some(String::new())),
        ("/capabilities/0/tags/0", |raw| capability(raw, |c| c.tags = vec![String::new()])),
        ("/metadata/", |raw| raw.metadata = BTreeMap::from([(String::new(), "x".into())])),
        ("/zone", |raw| raw.zone = Some(String::new())),
        ("/id", |raw| raw.id.clear()),
        ("/card/name", |raw| raw.card = Some("{\"name\":\"\"}".into())),
        ("/card/skills/0/id", |raw| raw.card = Some("{\"name\":\"t\",\"skills\":[{\"id\":\"\"}]}".into())),
    ];
    for (pointer, edit) in table {
        let mut raw = least();
        edit(&mut raw);
        let found = check(raw).expect_err(pointer);
        assert!(found.iter().any(|(_, at)| at == pointer), "{pointer}: {found:?}");
    }
}

#[test]
fn i47_metadata_keys_are_bounded_and_their_pointers_escaped() {
    let with = |key: String| BTreeMap::from([(key, "x".to_owned())]);
    assert_eq!(check_metadata(&with(chars(64))), Ok(()));
    let long = format!("{}/~", chars(63));
    let found = check_metadata(&with(long)).unwrap_err();
    assert_eq!(found[0].pointer, format!("/metadata/{}~1~0", chars(63)));
}

#[test]
fn nothing_is_cut_or_repaired_on_the_way_in() {
    let mut raw = least();
    capability(&mut raw, |c| {
        c.description = Some("  spaces stay  ".into());
        c.tags = vec!["Twice".into(), "Twice".into()];
    });
    raw.endpoints[0].url = "HTTP://H:80/%2f?q#f".into();
    raw.metadata = BTreeMap::from([(" k ".into(), " v ".into())]);
    let declared = check(raw.clone()).unwrap();
    assert_eq!(declared.endpoints[0].url(), raw.endpoints[0].url);
    assert_eq!(*declared.metadata, raw.metadata);
    assert_eq!(declared.capabilities[0].description, raw.capabilities[0].description);
    assert_eq!(declared.capabilities[0].tags, raw.capabilities[0].tags);
}

#[test]
fn a_card_gives_what_the_body_leaves_out_and_never_overrides_it() {
    let card = r#"{"name":"t","version":"any text","url":"http://card:1/","skills":[{"id":"s"}]}"#;
    let mut raw = Declaration { id: "a/b".into(), card: Some(card.into()), ..Declaration::default() };
    let declared = check(raw.clone()).unwrap();
    assert_eq!(declared.endpoints[0].url(), "http://card:1/");
    assert_eq!(declared.version.as_deref(), Some("any text"));
    assert_eq!((declared.id.as_str(), declared.skills[0].name.as_str()), ("a/b/fresh", "s"));
    raw.endpoints = least().endpoints;
    raw.version = Some("1.0.0".into());
    let declared = check(raw).unwrap();
    assert_eq!((declared.endpoints.len(), declared.endpoints[0].url()), (1, "http://h:1/"));
    assert_eq!(declared.version.as_deref(), Some("1.0.0"));
}
