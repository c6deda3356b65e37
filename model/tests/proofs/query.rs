//! Queries: every parameter is read or refused, and each member asked narrows the answer.

use proptest::prelude::*;
use rollcall_model::testing::{Chance, any_declared, any_query, id, registered};
use rollcall_model::{Code, Epoch, Query, Region, Revision};

use crate::cases;

#[test]
fn a_known_parameter_is_taken_and_an_unknown_one_is_left_to_the_caller() {
    for (name, value) in [
        ("namespace", "ops"),
        ("name", "email_agent"),
        ("capability", "email:send:v1"),
        ("skill", "any text at all"),
        ("tag", "日本"),
        ("kind", "tool"),
        ("version", ">=1.2, <2"),
        ("zone", "a/b"),
        ("lifecycle", "unknown"),
        ("metadata.a.b/c", ""),
    ] {
        let mut query = Query::default();
        assert_eq!(query.set(name, value), Ok(true), "{name}={value}");
        assert!(!query.is_everything(), "{name} asks something");
    }
    for name in ["limit", "page_token", "region", "", "metadata", "metadata.", "Namespace", "tags"] {
        let mut query = Query::default();
        assert_eq!(query.set(name, "x"), Ok(false), "{name}");
        assert!(query.is_everything());
    }
}

#[test]
fn a_bad_value_is_refused_by_the_name_of_its_parameter() {
    for (name, value, code) in [
        ("namespace", "Ops", Code::InvalidParameter),
        ("namespace", "", Code::InvalidParameter),
        ("name", "a/b", Code::InvalidParameter),
        ("name", "a..b", Code::InvalidParameter),
        ("capability", "email.send", Code::InvalidCapability),
        ("capability", "", Code::InvalidCapability),
        ("skill", "", Code::InvalidParameter),
        ("tag", "", Code::InvalidParameter),
        ("kind", "Agent", Code::InvalidParameter),
        ("version", "two", Code::InvalidParameter),
        ("zone", "a b", Code::InvalidParameter),
        ("lifecycle", "dead", Code::InvalidParameter),
    ] {
        let finding = Query::default().set(name, value).unwrap_err();
        assert_eq!((finding.code, finding.pointer.as_str()), (code, name), "{name}={value}");
    }
}

#[test]
fn what_may_stand_once_is_refused_twice_and_what_may_repeat_is_not() {
    for (name, value) in [
        ("namespace", "a"),
        ("name", "a"),
        ("skill", "a"),
        ("kind", "agent"),
        ("version", "*"),
        ("zone", "a"),
        ("lifecycle", "healthy"),
        ("metadata.x", "1"),
    ] {
        let mut query = Query::default();
        assert_eq!(query.set(name, value), Ok(true));
        assert_eq!(query.set(name, value).unwrap_err().pointer, name);
    }
    for (name, value) in [("capability", "a:b:v1"), ("tag", "x")] {
        let mut query = Query::default();
        assert_eq!((query.set(name, value), query.set(name, value)), (Ok(true), Ok(true)));
    }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn any_text_is_read_or_refused_and_never_panics(name in ".{0,12}", value in "\\PC{0,12}") {
        for name in [name.as_str(), "namespace", "capability", "version", "zone", "skill", "metadata.k"] {
            let mut query = Query::default();
            if let Err(finding) = query.set(name, &value) {
                prop_assert_eq!(finding.pointer, name);
            }
        }
    }

    #[test]
    fn each_thing_asked_narrows_the_answer(seed: u64) {
        let mut chance = Chance::new(seed);
        let declared = any_declared(&mut chance, id("ops/mail/1"));
        let registration = registered(declared, Epoch::new(1, Revision(1)), Revision(1));
        let query = any_query(&mut chance);
        prop_assert!(Query::default().matches(&registration));
        if query.matches(&registration) {
            // Whatever matches all of it matches each part of it.
            let parts = [
                Query { namespace: None, ..query.clone() },
                Query { name: None, ..query.clone() },
                Query { capabilities: Vec::new(), ..query.clone() },
                Query { skill: None, ..query.clone() },
                Query { tags: Vec::new(), ..query.clone() },
                Query { kind: None, ..query.clone() },
                Query { version: None, ..query.clone() },
                Query { zone: None, ..query.clone() },
                Query { lifecycle: None, ..query.clone() },
                Query { metadata: std::collections::BTreeMap::new(), ..query.clone() },
            ];
            prop_assert!(parts.iter().all(|part| part.matches(&registration)));
        }
    }
}

#[test]
fn a_pre_release_matches_only_who_asks_for_it_and_what_is_not_semver_matches_no_version() {
    let with = |version: Option<&str>| {
        let mut declared = rollcall_model::testing::declared("a/b/c");
        declared.version = version.map(str::to_owned);
        registered(declared, Epoch::new(1, Revision(1)), Revision(1))
    };
    let asking = |requirement: &str| {
        let mut query = Query::default();
        query.set("version", requirement).unwrap();
        query
    };
    assert!(asking("^1.2").matches(&with(Some("1.9.0"))));
    assert!(!asking("^1.2").matches(&with(Some("2.0.0"))));
    assert!(!asking("*").matches(&with(Some("2.0.0-rc.1"))));
    assert!(asking(">=2.0.0-rc.0").matches(&with(Some("2.0.0-rc.1"))));
    assert!(!asking("*").matches(&with(Some("seven"))));
    assert!(!asking("*").matches(&with(None)));
}

#[test]
fn questions_that_differ_in_anything_differ_in_their_fingerprint_and_the_same_ones_do_not() {
    let (eu, us) = (Region::parse("eu").unwrap(), Region::parse("us").unwrap());
    let asking = |text: &str| {
        let mut query = Query::default();
        for (name, value) in text.split('&').filter_map(|pair| pair.split_once('=')) {
            query.set(name, value).unwrap();
        }
        query.internal = text.ends_with("&internal");
        query
    };
    let different = [
        "",
        "&internal",
        "namespace=a",
        "name=a",
        "namespace=a&name=a",
        "namespace=a&name=a&internal",
        "capability=a:b:v1",
        "capability=a:b:v2",
        "capability=a:b:v1&capability=a:b:v2",
        "skill=a",
        "tag=a",
        "tag=ab",
        "tag=a&tag=b",
        "kind=agent",
        "kind=tool",
        "version=^1",
        "version=^2",
        "zone=a",
        "lifecycle=healthy",
        "lifecycle=degraded",
        "metadata.a=b",
        "metadata.ab=",
        "metadata.a=b&metadata.c=d",
        "metadata.c=b",
    ];
    let regions = [vec![], vec![&eu], vec![&us], vec![&eu, &us]];
    let mut seen = std::collections::BTreeMap::new();
    for text in different {
        for about in &regions {
            let other = seen.insert(asking(text).fingerprint(about.iter().copied()), (text, about));
            assert_eq!(other, None, "{text} about {about:?}");
        }
    }
    let same =
        |one: &str, two: &str| assert_eq!(asking(one).fingerprint([&eu]), asking(two).fingerprint([&eu]));
    same("tag=a&tag=b", "tag=b&tag=a&tag=b");
    same("capability=a:b:v1&capability=a:b:v2", "capability=a:b:v2&capability=a:b:v1");
    same("metadata.a=b&zone=a&metadata.c=d", "metadata.c=d&metadata.a=b&zone=a");
    // Cells of one region may be of two versions for as long as a rollout takes: a change here breaks walks off.
    assert_eq!(asking("namespace=a&tag=b").fingerprint([&eu]), 7_462_279_477_926_224_091);
}
