//! The body of a registration under any bytes: never a panic, and every finding points to a place in it (F41).

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use rollcall_model::body::read_registration;
use rollcall_model::{Code, Declared, Invalid};
use serde_json::{Map, Value};

use crate::cases;

/// Members that the body knows, and some that it does not.
fn member() -> impl Strategy<Value = String> {
    let known = [
        "id",
        "kind",
        "scope",
        "holder",
        "endpoints",
        "capabilities",
        "version",
        "zone",
        "weight",
        "max_concurrency",
        "max_queue",
        "metadata",
        "lease_seconds",
        "lifecycle",
        "card",
        "url",
        "protocol",
        "name",
        "description",
        "input_types",
        "output_types",
        "input_summary",
        "schema_url",
        "tags",
        "internal",
        "skills",
        "supportedInterfaces",
        "additionalInterfaces",
        "protocolVersion",
    ];
    prop_oneof![
        12 => prop::sample::select(known.to_vec()).prop_map(str::to_owned),
        1 => "[a-z~/\"é]{0,4}",
    ]
}

fn text() -> impl Strategy<Value = String> {
    let telling = [
        "a/b/c",
        "a/b",
        "ops/mail/1",
        "http://h:1/",
        "http://0.0.0.0/",
        "kafka://t",
        "mail:send:v1",
        "agent",
        "healthy",
        "instance",
        "service",
        "1.2.3",
        "",
    ];
    prop_oneof![3 => prop::sample::select(telling.to_vec()).prop_map(str::to_owned), 1 => "\\PC{0,6}"]
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (0..400_u64).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            btree_map(member(), inner, 0..7).prop_map(|map| Value::Object(Map::from_iter(map))),
        ]
    })
}

/// The place a pointer names is in the body, or would be: a member that is missing has its object.
fn is_place(pointer: &str, body: &Value) -> bool {
    let (Some(slash), true) = (pointer.rfind('/'), pointer.starts_with('/')) else {
        return pointer.is_empty();
    };
    let escapes = pointer.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    let parent = body.pointer(&pointer[..slash]);
    escapes && (body.pointer(pointer).is_some() || parent.is_some_and(Value::is_object))
}

fn read(bytes: &[u8]) -> Result<Declared, Vec<Invalid>> {
    read_registration(bytes, || "fresh".into()).map(|(declared, _)| declared)
}

/// A body that is let in, with everything in it.
fn good() -> Value {
    serde_json::json!({
        "id": "a/b/c", "kind": "tool", "scope": "instance", "version": "1.0.0", "zone": "a", "weight": 5,
        "max_concurrency": 1, "max_queue": 2, "lease_seconds": 30, "lifecycle": "starting",
        "endpoints": [{"url": "http://h:1/", "protocol": "http"}, {"url": "kafka://t"}],
        "capabilities": ["a:b:v1", {
            "name": "a:b:v2", "description": "d", "input_types": ["x"], "output_types": ["y"],
            "input_summary": "i", "output_summary": "o", "schema_url": "s", "tags": ["t"], "internal": true
        }],
        "metadata": {"k": "v", "a/b~c": "w"},
        "card": {
            "name": "t", "version": "2", "url": "http://h:2/", "preferredTransport": "JSONRPC",
            "supportedInterfaces": [{"url": "h:3", "protocolBinding": "GRPC"}],
            "additionalInterfaces": [{"url": "http://h:4/", "transport": "HTTP+JSON"}],
            "skills": [{"id": "s", "name": "S", "tags": ["t"]}]
        }
    })
}

/// The pointers of all places in a value, the root left out.
fn places(value: &Value, here: &str, all: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(k, v)| (k.replace('~', "~0").replace('/', "~1"), v)).collect(),
        Value::Array(list) => list.iter().enumerate().map(|(at, v)| (at.to_string(), v)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    for (name, child) in children {
        let place = format!("{here}/{name}");
        places(child, &place, all);
        all.push(place);
    }
}

#[test]
fn the_good_body_is_let_in() {
    assert_eq!(read(good().to_string().as_bytes()).map(|declared| declared.capabilities.len()), Ok(2));
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn i47_what_is_spoiled_in_a_good_body_is_found_at_its_place(
        which: prop::sample::Index, value in json(),
    ) {
        let mut body = good();
        let mut all = Vec::new();
        places(&body, "", &mut all);
        let place = which.get(&all).clone();
        *body.pointer_mut(&place).unwrap() = value;
        if let Err(found) = read(body.to_string().as_bytes()) {
            for finding in &found {
                prop_assert!(is_place(&finding.pointer, &body), "{:?} in {}", finding, body);
                // What an endpoint speaks is judged with its URL, a capability or a card as a whole.
                let around = place.rsplit_once('/').map_or("", |(parent, _)| parent);
                let near = finding.pointer.starts_with(if around.is_empty() { &place } else { around })
                    || place.starts_with(&finding.pointer);
                prop_assert!(near && !finding.pointer.is_empty(), "{:?} for {}", finding, place);
            }
        }
    }

}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn i47_any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..64), text in "[{}\\[\\]\",:0-9a-z\\\\]{0,40}") {
        for bytes in [bytes.as_slice(), text.as_bytes()] {
            if let Err(found) = read(bytes) {
                prop_assert!(!found.is_empty(), "a refusal says why");
            }
        }
    }

    #[test]
    fn i47_every_finding_points_to_a_place_in_the_body(members in btree_map(member(), json(), 0..8)) {
        let body = Value::Object(Map::from_iter(members));
        match read(body.to_string().as_bytes()) {
            Ok(declared) => prop_assert_eq!(body["id"].as_str().map(|id| declared.id.as_str().starts_with(id)), Some(true)),
            Err(found) => {
                prop_assert!(!found.is_empty());
                for finding in &found {
                    prop_assert!(is_place(&finding.pointer, &body), "{:?} in {}", finding, body);
                    prop_assert!(!finding.detail.is_empty() && finding.code.status() < 500);
                }
            }
        }
    }

    #[test]
    fn i47_any_json_that_is_no_object_is_one_finding_at_the_root(value in json()) {
        let value = if value.is_object() { Value::from(vec![value]) } else { value };
        let found = read(value.to_string().as_bytes()).unwrap_err();
        prop_assert_eq!(found.len(), 1);
        prop_assert_eq!((found[0].code, found[0].pointer.as_str()), (Code::InvalidBody, ""));
    }

    #[test]
    fn a_body_cut_anywhere_is_not_json(cut in 0..140_usize) {
        let body = br#"{"id":"a/b/c","endpoints":[{"url":"http://h:1/"}],"metadata":{"k":"\u00e9"},"card":{"name":"t","skills":[]},"weight":1}"#;
        prop_assume!(cut < body.len());
        let found = read(&body[..cut]).unwrap_err();
        prop_assert_eq!((found.len(), found[0].code), (1, Code::InvalidJson));
        prop_assert!(read(body).is_ok());
    }
}

#[test]
fn f41_hostile_bodies_are_refused_without_harm() {
    let deep = format!("{{\"id\":{}", "[".repeat(200_000));
    let deep_card = format!(
        "{{\"id\":\"a/b/c\",\"card\":{{\"name\":\"t\",\"x\":{}{}}}}}",
        "[".repeat(5_000),
        "]".repeat(5_000)
    );
    for (body, code) in [
        (deep.as_str(), Code::InvalidJson),
        (deep_card.as_str(), Code::InvalidJson),
        ("{\"weight\":NaN}", Code::InvalidJson),
        ("{\"weight\":1e999}", Code::InvalidJson),
        ("{\"id\":\"\\ud800\"}", Code::InvalidJson),
        ("{} {}", Code::InvalidJson),
        ("\u{feff}{}", Code::InvalidJson),
        ("null", Code::InvalidBody),
        ("{\"card\":{\"name\":\"t\"},\"card\":{\"name\":\"u\"},\"id\":\"a/b/c\"}", Code::InvalidJson),
    ] {
        let found = read(body.as_bytes()).unwrap_err();
        assert!(
            found.iter().any(|finding| finding.code == code),
            "{}: {found:?}",
            &body[..body.len().min(60)]
        );
    }
    assert!(read(b"{\"id\":\"a/\xff/c\"}").is_err());
}
