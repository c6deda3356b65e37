//! What owners say in a body beside a registration: load and lifecycle, a patch, a batch of renewals.

use rollcall_model::body::{Members, parse_json};
use rollcall_model::{Code, Epoch, Holder, InstanceId, Invalid, Lifecycle, Load, limits};
use serde_json::Value;

use crate::api::http::subject;
use crate::refusal::Refusal;
use crate::registrar::{Report, Update};

/// One renewal of a batch.
#[derive(Debug, PartialEq)]
pub(super) struct Item {
    pub id: InstanceId,
    pub epoch: Epoch,
    pub report: Report,
}

/// Reads the body of a renewal; an empty one says nothing.
pub(super) fn renewal(body: &[u8]) -> Result<Report, Refusal> {
    if body.is_empty() {
        return Ok(Report::default());
    }
    let value = parse_json(body).map_err(Refusal::invalid)?;
    let mut found = Vec::new();
    let mut said = Report::default();
    if let Some(mut members) = Members::open(&value, "", &mut found) {
        let load = members.value("load");
        let lifecycle = members.text("lifecycle");
        members.close();
        said = report(load, lifecycle.as_deref(), "", &mut found);
    }
    done(said, found)
}

/// Reads a batch. One malformed item refuses it whole.
pub(super) fn renewals(body: &[u8]) -> Result<Vec<Item>, Refusal> {
    let value = parse_json(body).map_err(Refusal::invalid)?;
    let mut found = Vec::new();
    let mut items = Vec::new();
    if let Some(mut members) = Members::open(&value, "", &mut found) {
        let list = members.list("renewals");
        members.close();
        if value.get("renewals").is_none_or(Value::is_null) {
            found.push(Invalid::new(Code::InvalidBody, "/renewals", "it is required"));
        }
        if list.len() > limits::RENEWALS_MAX {
            found.push(Invalid::new(Code::InvalidBody, "/renewals", "there are more than 1,000 of them"));
        } else {
            for (at, value) in list.iter().enumerate() {
                items.extend(item(value, &format!("/renewals/{at}"), &mut found));
            }
        }
    }
    done(items, found)
}

fn item(value: &Value, here: &str, found: &mut Vec<Invalid>) -> Option<Item> {
    let mut members = Members::open(value, here, found)?;
    let id = members.required_text("id");
    let epoch = members.required_text("epoch");
    let holder = members.text("holder");
    let load = members.value("load");
    let lifecycle = members.text("lifecycle");
    members.close();
    let parsed = InstanceId::parse(&id);
    let at = format!("{here}/id");
    if let Err(finding) = &parsed
        && !names(found, &at)
    {
        found.push(Invalid::new(Code::InvalidId, at, &finding.detail));
    }
    let known = subject::epoch_from(&epoch);
    let at = format!("{here}/epoch");
    if known.is_none() && !names(found, &at) {
        found.push(Invalid::new(Code::InvalidEpoch, at, "it is an epoch as it was answered"));
    }
    let holder = match holder.as_deref().map(Holder::parse) {
        None => Holder::default(),
        Some(Ok(holder)) => holder,
        Some(Err(finding)) => {
            found.push(Invalid::new(finding.code, format!("{here}/holder"), finding.detail));
            return None;
        }
    };
    let report = report(load, lifecycle.as_deref(), here, found);
    Some(Item { id: parsed.ok()?, epoch: known?, report: Report { holder, ..report } })
}

/// Reads the body of a patch.
pub(super) fn patch(body: &[u8]) -> Result<Update, Refusal> {
    let value = parse_json(body).map_err(Refusal::invalid)?;
    let mut found = Vec::new();
    let mut update = Update::default();
    // Read from the value itself, because null means something in a merge patch and nothing to `Members`.
    let metadata = value.get("metadata").cloned();
    if let Some(mut members) = Members::open(&value, "", &mut found) {
        let _ = members.value("metadata");
        let lifecycle = members.text("lifecycle");
        members.close();
        update.lifecycle = word(lifecycle.as_deref(), "", &mut found);
        match &metadata {
            None if lifecycle.is_none() && found.is_empty() => {
                found.push(Invalid::new(Code::InvalidBody, "", "lifecycle or metadata is required"));
            }
            None => {}
            Some(Value::Object(object)) => {
                for (key, value) in object {
                    update.metadata.extend(patched(key, value, &mut found).map(|value| (key.clone(), value)));
                }
            }
            Some(_) => {
                found.push(Invalid::new(Code::InvalidBody, "/metadata", "it is an object of texts and nulls"))
            }
        }
    }
    done(update, found)
}

fn patched(key: &str, value: &Value, found: &mut Vec<Invalid>) -> Option<Option<String>> {
    match value {
        Value::Null => Some(None),
        Value::String(text) => Some(Some(text.clone())),
        _ => {
            let escaped = key.replace('~', "~0").replace('/', "~1");
            found.push(Invalid::new(Code::InvalidBody, format!("/metadata/{escaped}"), "it is text or null"));
            None
        }
    }
}

/// Reads load and lifecycle.
fn report(load: Option<&Value>, lifecycle: Option<&str>, here: &str, found: &mut Vec<Invalid>) -> Report {
    let lifecycle = word(lifecycle, here, found);
    let Some(value) = load else { return Report { lifecycle, ..Report::default() } };
    let here = format!("{here}/load");
    let mut read = Load::default();
    let mut wrong = Vec::new();
    if let Some(mut members) = Members::open(value, &here, found) {
        let mut number = |name: &str| {
            let given = members.number(name).unwrap_or(0);
            u32::try_from(given).unwrap_or_else(|_| {
                let detail = format!("it is at most {}", u32::MAX);
                wrong.push(Invalid::new(Code::InvalidBody, format!("{here}/{name}"), detail));
                0
            })
        };
        read.queue_depth = number("queue_depth");
        read.in_flight = number("in_flight");
        read.error_rate = members.decimal("error_rate").unwrap_or(0.0);
        members.close();
    }
    if !(0.0..=1.0).contains(&read.error_rate) {
        wrong.push(Invalid::new(Code::InvalidBody, format!("{here}/error_rate"), "it is from 0 to 1"));
    }
    found.extend(wrong);
    Report { lifecycle, load: Some(read), ..Report::default() }
}

fn word(text: Option<&str>, here: &str, found: &mut Vec<Invalid>) -> Option<Lifecycle> {
    let text = text?;
    let lifecycle = Lifecycle::parse(text);
    if lifecycle.is_none() {
        let words: Vec<_> = Lifecycle::ALL.iter().map(|lifecycle| lifecycle.as_str()).collect();
        let detail = format!("{text:?} is none of {}", words.join(", "));
        found.push(Invalid::new(Code::InvalidBody, format!("{here}/lifecycle"), detail));
    }
    lifecycle
}

/// Whether something was found there already.
pub(super) fn names(found: &[Invalid], pointer: &str) -> bool {
    found.iter().any(|finding| finding.pointer == pointer)
}

/// What was read, unless something was found wrong.
pub(super) fn done<T>(read: T, found: Vec<Invalid>) -> Result<T, Refusal> {
    if found.is_empty() { Ok(read) } else { Err(Refusal::invalid(found)) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn faults<T: std::fmt::Debug>(read: Result<T, Refusal>) -> Vec<(Code, String)> {
        read.unwrap_err().findings.into_iter().map(|finding| (finding.code, finding.pointer)).collect()
    }

    #[test]
    fn an_empty_renewal_says_nothing_and_a_full_one_is_read() {
        assert_eq!(renewal(b"").unwrap(), Report::default());
        assert_eq!(renewal(b"{}").unwrap(), Report::default());
        let said = renewal(br#"{"load":{"queue_depth":3,"error_rate":0.5},"lifecycle":"degraded"}"#).unwrap();
        assert_eq!(said.lifecycle, Some(Lifecycle::Degraded));
        assert_eq!(said.load, Some(Load { queue_depth: 3, in_flight: 0, error_rate: 0.5 }));
    }

    #[test]
    fn every_fault_of_a_renewal_has_its_place() {
        for (body, code, pointer) in [
            ("{", Code::InvalidJson, ""),
            ("null", Code::InvalidBody, ""),
            (r#"{"epoch":"1"}"#, Code::UnknownMember, "/epoch"),
            (r#"{"lifecycle":"dead"}"#, Code::InvalidBody, "/lifecycle"),
            (r#"{"lifecycle":1}"#, Code::InvalidBody, "/lifecycle"),
            (r#"{"load":1}"#, Code::InvalidBody, "/load"),
            (r#"{"load":{"x":1}}"#, Code::UnknownMember, "/load/x"),
            (r#"{"load":{"in_flight":-1}}"#, Code::InvalidBody, "/load/in_flight"),
            (r#"{"load":{"in_flight":4294967296}}"#, Code::InvalidBody, "/load/in_flight"),
            (r#"{"load":{"error_rate":1.5}}"#, Code::InvalidBody, "/load/error_rate"),
        ] {
            assert_eq!(faults(renewal(body.as_bytes())), [(code, pointer.to_owned())], "{body}");
        }
    }

    #[test]
    fn one_malformed_item_refuses_the_batch() {
        let good = r#"{"id":"a/b/c","epoch":"7"}"#;
        assert_eq!(renewals(format!(r#"{{"renewals":[{good}]}}"#).as_bytes()).unwrap().len(), 1);
        assert_eq!(renewals(br#"{"renewals":[]}"#).unwrap(), []);
        let held = renewals(br#"{"renewals":[{"id":"a/b/c","epoch":"7","holder":"pod-1"}]}"#).unwrap();
        assert_eq!(held[0].report.holder.as_str(), "pod-1");
        for (item, code, pointer) in [
            (r#"{"epoch":"7"}"#, Code::InvalidBody, "/renewals/1/id"),
            (r#"{"id":"a/b/c"}"#, Code::InvalidBody, "/renewals/1/epoch"),
            (r#"{"id":"a/b/c","epoch":7}"#, Code::InvalidBody, "/renewals/1/epoch"),
            (r#"{"id":"a/b/c","epoch":"x"}"#, Code::InvalidEpoch, "/renewals/1/epoch"),
            (r#"{"id":"a/b","epoch":"7"}"#, Code::InvalidId, "/renewals/1/id"),
            (r#"{"id":"a/b/c","epoch":"7","x":1}"#, Code::UnknownMember, "/renewals/1/x"),
            (r#"{"id":"a/b/c","epoch":"7","holder":""}"#, Code::InvalidBody, "/renewals/1/holder"),
            (r#"{"id":"a/b/c","epoch":"7","lifecycle":"x"}"#, Code::InvalidBody, "/renewals/1/lifecycle"),
            ("7", Code::InvalidBody, "/renewals/1"),
        ] {
            let body = format!(r#"{{"renewals":[{good},{item}]}}"#);
            assert_eq!(faults(renewals(body.as_bytes())), [(code, pointer.to_owned())], "{body}");
        }
        let body = br#"{"renewals":[{"id":3,"epoch":"x","load":1},{"id":"A","x":1}]}"#;
        let pointers: Vec<_> = faults(renewals(body)).into_iter().map(|(_, pointer)| pointer).collect();
        let expected =
            ["0/id", "0/epoch", "0/load", "1/epoch", "1/x", "1/id"].map(|at| format!("/renewals/{at}"));
        assert_eq!(pointers, expected, "none hides another");
        assert_eq!(faults(renewals(b"{}")), [(Code::InvalidBody, "/renewals".to_owned())]);
        let many = format!(r#"{{"renewals":[{}]}}"#, vec![good; 1_001].join(","));
        assert_eq!(faults(renewals(many.as_bytes())), [(Code::InvalidBody, "/renewals".to_owned())]);
    }

    #[test]
    fn a_patch_sets_and_removes() {
        let update = patch(br#"{"metadata":{"a":"1","b":null},"lifecycle":"draining"}"#).unwrap();
        assert_eq!(update.lifecycle, Some(Lifecycle::Draining));
        assert_eq!(update.metadata, BTreeMap::from([("a".into(), Some("1".into())), ("b".into(), None)]));
    }

    #[test]
    fn every_fault_of_a_patch_has_its_place() {
        for (body, code, pointer) in [
            ("", Code::InvalidJson, ""),
            ("[]", Code::InvalidBody, ""),
            ("{}", Code::InvalidBody, ""),
            (r#"{"metadata":null}"#, Code::InvalidBody, "/metadata"),
            (r#"{"metadata":{"a/b":1}}"#, Code::InvalidBody, "/metadata/a~1b"),
            (r#"{"lifecycle":"full"}"#, Code::InvalidBody, "/lifecycle"),
            (r#"{"zone":"a"}"#, Code::UnknownMember, "/zone"),
        ] {
            assert_eq!(faults(patch(body.as_bytes())), [(code, pointer.to_owned())], "{body}");
        }
    }
}
