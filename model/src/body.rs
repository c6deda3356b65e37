//! The JSON body of a registration, read member by member, so that every fault has its pointer.

use std::collections::BTreeMap;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::code::{Code, Invalid};
use crate::declaration::{Declaration, Declared, RawCapability, RawEndpoint};
use crate::holders::Holder;

/// A JSON object being read: unknown members are refused, wrong types are collected.
pub struct Members<'v, 'f> {
    pointer: String,
    members: BTreeMap<String, &'v Value>,
    found: &'f mut Vec<Invalid>,
}

impl<'v, 'f> Members<'v, 'f> {
    /// Opens an object; anything else is a finding.
    pub fn open(value: &'v Value, pointer: &str, found: &'f mut Vec<Invalid>) -> Option<Self> {
        let Some(object) = value.as_object() else {
            found.push(Invalid::new(Code::InvalidBody, pointer, "it is an object"));
            return None;
        };
        let members = object.iter().map(|(k, v)| (k.clone(), v)).collect();
        Some(Self { pointer: pointer.to_owned(), members, found })
    }

    fn wrong(&mut self, name: &str, detail: &str) {
        self.found.push(Invalid::new(Code::InvalidBody, format!("{}/{name}", self.pointer), detail));
    }

    /// Takes a member as it is; `null` counts as left out.
    pub fn value(&mut self, name: &str) -> Option<&'v Value> {
        self.members.remove(name).filter(|value| !value.is_null())
    }

    /// Takes a text.
    pub fn text(&mut self, name: &str) -> Option<String> {
        let value = self.value(name)?;
        let text = value.as_str().map(str::to_owned);
        if text.is_none() {
            self.wrong(name, "it must be text");
        }
        text
    }

    /// Takes a text that must be there.
    pub fn required_text(&mut self, name: &str) -> String {
        if self.members.get(name).is_none_or(|value| value.is_null()) {
            self.members.remove(name);
            self.wrong(name, "it is required");
            return String::new();
        }
        self.text(name).unwrap_or_default()
    }

    /// Takes a whole number that is not negative.
    pub fn number(&mut self, name: &str) -> Option<u64> {
        let value = self.value(name)?;
        let number = value.as_u64();
        if number.is_none() {
            self.wrong(name, "it is a whole number from 0");
        }
        number
    }

    /// Takes any number.
    pub fn decimal(&mut self, name: &str) -> Option<f64> {
        let value = self.value(name)?;
        let number = value.as_f64();
        if number.is_none() {
            self.wrong(name, "it is a number");
        }
        number
    }

    /// Takes true or false.
    pub fn flag(&mut self, name: &str) -> Option<bool> {
        let value = self.value(name)?;
        let flag = value.as_bool();
        if flag.is_none() {
            self.wrong(name, "it is true or false");
        }
        flag
    }

    /// Takes a list.
    pub fn list(&mut self, name: &str) -> &'v [Value] {
        match self.value(name).map(Value::as_array) {
            None => &[],
            Some(Some(list)) => list,
            Some(None) => {
                self.wrong(name, "it is a list");
                &[]
            }
        }
    }

    /// Takes a list of texts; what is none is an empty one there, so that the others keep their places.
    pub fn texts(&mut self, name: &str) -> Vec<String> {
        let mut texts = Vec::new();
        for (at, value) in self.list(name).iter().enumerate() {
            match value.as_str() {
                Some(text) => texts.push(text.to_owned()),
                None => {
                    self.wrong(&format!("{name}/{at}"), "it must be text");
                    texts.push(String::new());
                }
            }
        }
        texts
    }

    /// Takes an object whose values are texts.
    pub fn text_map(&mut self, name: &str) -> BTreeMap<String, String> {
        let mut map = BTreeMap::new();
        match self.value(name).map(Value::as_object) {
            None => {}
            Some(None) => self.wrong(name, "it is an object of texts"),
            Some(Some(object)) => {
                for (key, value) in object {
                    let escaped = key.replace('~', "~0").replace('/', "~1");
                    match value.as_str() {
                        Some(text) => drop(map.insert(key.clone(), text.to_owned())),
                        None => self.wrong(&format!("{name}/{escaped}"), "it must be text"),
                    }
                }
            }
        }
        map
    }

    /// Refuses what nobody took.
    pub fn close(self) {
        for name in self.members.keys() {
            let escaped = name.replace('~', "~0").replace('/', "~1");
            self.found.push(Invalid::new(
                Code::UnknownMember,
                format!("{}/{escaped}", self.pointer),
                format!("{name:?} is no member here"),
            ));
        }
    }
}

/// Reads JSON bytes.
///
/// # Errors
/// `invalid_json` with line and column; also for a member that stands twice, because whoever reads the other one of the
/// two would judge another body than we do.
pub fn parse_json(bytes: &[u8]) -> Result<Value, Vec<Invalid>> {
    serde_json::from_slice::<Unique>(bytes)
        .map(|unique| unique.0)
        .map_err(|error| vec![Invalid::new(Code::InvalidJson, "", format!("the body is not JSON: {error}"))])
}

/// A JSON value in which no object has a member twice.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Unique;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("any JSON value")
            }
            fn visit_bool<E>(self, value: bool) -> Result<Unique, E> {
                Ok(Unique(value.into()))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Unique, E> {
                Ok(Unique(value.into()))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Unique, E> {
                Ok(Unique(value.into()))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Unique, E> {
                Ok(Unique(value.into()))
            }
            fn visit_str<E>(self, value: &str) -> Result<Unique, E> {
                Ok(Unique(value.into()))
            }
            fn visit_unit<E>(self) -> Result<Unique, E> {
                Ok(Unique(Value::Null))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Unique, A::Error> {
                let mut list = Vec::new();
                while let Some(Unique(value)) = seq.next_element()? {
                    list.push(value);
                }
                Ok(Unique(Value::Array(list)))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Unique, A::Error> {
                let mut object = serde_json::Map::new();
                while let Some(name) = map.next_key::<String>()? {
                    let Unique(value) = map.next_value()?;
                    if object.contains_key(&name) {
                        return Err(serde::de::Error::custom(format!(
                            "the member {name:?} stands there twice"
                        )));
                    }
                    object.insert(name, value);
                }
                Ok(Unique(Value::Object(object)))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// Reads and checks a registration's body, and who holds the entry if it is shared. When the id has two parts, `fresh`
/// makes the instance.
///
/// # Errors
/// Every finding at once: those of type and of unknown members first, then those of content in what could be read.
pub fn read_registration(
    bytes: &[u8],
    fresh: impl FnOnce() -> String,
) -> Result<(Declared, Option<Holder>), Vec<Invalid>> {
    let (declaration, mut found) = as_far_as_it_goes(bytes)?;
    match Declared::check_held(declaration, fresh) {
        Ok(held) if found.is_empty() => Ok(held),
        Ok(_) => Err(found),
        Err(of_content) => {
            let typed = found.len();
            for finding in of_content {
                // What could not be read has its finding, and is judged no further.
                if !found.iter().take(typed).any(|unread| covers(unread, &finding)) {
                    found.push(finding);
                }
            }
            Err(found)
        }
    }
}

/// Whether a finding of content is about what a finding of type says could not be read.
fn covers(unread: &Invalid, finding: &Invalid) -> bool {
    let below = finding.pointer.strip_prefix(&unread.pointer);
    below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        // A capability without a name is found as a whole.
        || (finding.code == Code::InvalidCapability && unread.pointer == format!("{}/name", finding.pointer))
}

/// Reads a registration's body, of the right types and nothing more.
///
/// # Errors
/// Every finding: not JSON, unknown members, wrong types.
pub fn parse_registration(bytes: &[u8]) -> Result<Declaration, Vec<Invalid>> {
    let (declaration, found) = as_far_as_it_goes(bytes)?;
    if found.is_empty() { Ok(declaration) } else { Err(found) }
}

/// Reads a registration's body as far as it can be read. What has the wrong type is left out, or holds its place in a
/// list. The card's text is kept as it stands, byte for byte.
fn as_far_as_it_goes(bytes: &[u8]) -> Result<(Declaration, Vec<Invalid>), Vec<Invalid>> {
    #[derive(serde::Deserialize)]
    struct WithCard<'a> {
        #[serde(borrow, default)]
        card: Option<&'a RawValue>,
    }
    let value = parse_json(bytes)?;
    let mut found = Vec::new();
    let mut declaration = Declaration::default();
    if let Some(mut members) = Members::open(&value, "", &mut found) {
        declaration.id = members.required_text("id");
        declaration.kind = members.text("kind");
        declaration.scope = members.text("scope");
        declaration.holder = members.text("holder");
        declaration.version = members.text("version");
        declaration.zone = members.text("zone");
        declaration.weight = members.number("weight");
        declaration.max_concurrency = members.number("max_concurrency");
        declaration.max_queue = members.number("max_queue");
        declaration.lease_seconds = members.number("lease_seconds");
        declaration.lifecycle = members.text("lifecycle");
        declaration.metadata = members.text_map("metadata");
        let endpoints = members.list("endpoints");
        let capabilities = members.list("capabilities");
        let card = members.value("card").is_some();
        members.close();
        declaration.endpoints = read_endpoints(endpoints, &mut found);
        declaration.capabilities = read_capabilities(capabilities, &mut found);
        if card {
            let raw: Result<WithCard<'_>, _> = serde_json::from_slice(bytes);
            match raw {
                Ok(raw) => declaration.card = raw.card.map(|card| card.get().to_owned()),
                Err(error) => found.push(Invalid::new(Code::InvalidJson, "/card", error.to_string())),
            }
        }
    }
    Ok((declaration, found))
}

fn read_endpoints(list: &[Value], found: &mut Vec<Invalid>) -> Vec<RawEndpoint> {
    let mut endpoints = Vec::new();
    for (at, value) in list.iter().enumerate() {
        let mut endpoint = RawEndpoint::default();
        if let Some(mut members) = Members::open(value, &format!("/endpoints/{at}"), found) {
            endpoint = RawEndpoint { url: members.required_text("url"), protocol: members.text("protocol") };
            members.close();
        }
        endpoints.push(endpoint);
    }
    endpoints
}

fn read_capabilities(list: &[Value], found: &mut Vec<Invalid>) -> Vec<RawCapability> {
    let mut capabilities = Vec::new();
    for (at, value) in list.iter().enumerate() {
        if let Some(name) = value.as_str() {
            capabilities.push(RawCapability { name: name.to_owned(), ..RawCapability::default() });
            continue;
        }
        let mut capability = RawCapability::default();
        if let Some(mut members) = Members::open(value, &format!("/capabilities/{at}"), found) {
            capability = RawCapability {
                name: members.required_text("name"),
                description: members.text("description"),
                input_types: members.texts("input_types"),
                output_types: members.texts("output_types"),
                input_summary: members.text("input_summary"),
                output_summary: members.text("output_summary"),
                schema_url: members.text("schema_url"),
                tags: members.texts("tags"),
                internal: members.flag("internal").unwrap_or(false),
            };
            members.close();
        }
        capabilities.push(capability);
    }
    capabilities
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(body: &str) -> Vec<(Code, String)> {
        let checked = read_registration(body.as_bytes(), || "i".into());
        checked.unwrap_err().into_iter().map(|f| (f.code, f.pointer)).collect()
    }

    #[test]
    fn the_card_is_kept_byte_for_byte() {
        let card = "{ \"name\" : \"t\\u0041\",\n \"url\":\"http://h:1/\" }";
        let body = format!(r#"{{"id":"a/b/c", "card": {card} , "zone":"a"}}"#);
        let (declared, _) = read_registration(body.as_bytes(), String::new).unwrap();
        assert_eq!(declared.card.as_ref().unwrap().json(), card);
        assert_eq!(declared.endpoints[0].url(), "http://h:1/");
    }

    #[test]
    fn an_id_of_two_parts_gets_a_fresh_instance() {
        let body = r#"{"id":"a/b","endpoints":[{"url":"http://h:1/"}]}"#;
        let (declared, _) = read_registration(body.as_bytes(), || "fresh".into()).unwrap();
        assert_eq!(declared.id.as_str(), "a/b/fresh");
        assert_eq!((declared.lease_seconds, declared.weight), (30, 100));
    }

    #[test]
    fn every_fault_has_its_code_and_pointer() {
        let ok = r#""id":"a/b/c","endpoints":[{"url":"http://h:1/"}]"#;
        for (body, code, pointer) in [
            ("{".to_owned(), Code::InvalidJson, ""),
            (format!(r#"{{{ok},"zone":"a","zone":"b"}}"#), Code::InvalidJson, ""),
            (format!(r#"{{{ok},"metadata":{{"a":"1","a":"2"}}}}"#), Code::InvalidJson, ""),
            ("[]".to_owned(), Code::InvalidBody, ""),
            (r#"{"endpoints":[{"url":"http://h:1/"}]}"#.to_owned(), Code::InvalidBody, "/id"),
            (r#"{"id":"A/b/c","endpoints":[{"url":"http://h:1/"}]}"#.to_owned(), Code::InvalidId, "/id"),
            (r#"{"id":"a/b/c"}"#.to_owned(), Code::InvalidBody, "/endpoints"),
            (format!(r#"{{{ok},"epoch":3}}"#), Code::UnknownMember, "/epoch"),
            (
                format!(r#"{{{ok},"capabilities":["email.send"]}}"#),
                Code::InvalidCapability,
                "/capabilities/0",
            ),
            (
                format!(r#"{{{ok},"capabilities":[{{"name":"a:b:v1","x":1}}]}}"#),
                Code::UnknownMember,
                "/capabilities/0/x",
            ),
            (format!(r#"{{{ok},"capabilities":["a:b:v1","a:b:v1"]}}"#), Code::InvalidBody, "/capabilities/1"),
            (format!(r#"{{{ok},"metadata":{{"a/b":1}}}}"#), Code::InvalidBody, "/metadata/a~1b"),
            (format!(r#"{{{ok},"lease_seconds":4}}"#), Code::InvalidBody, "/lease_seconds"),
            (format!(r#"{{{ok},"lease_seconds":-4}}"#), Code::InvalidBody, "/lease_seconds"),
            (format!(r#"{{{ok},"version":"two"}}"#), Code::InvalidBody, "/version"),
            (format!(r#"{{{ok},"lifecycle":"offline"}}"#), Code::InvalidBody, "/lifecycle"),
            (format!(r#"{{{ok},"weight":1.5}}"#), Code::InvalidBody, "/weight"),
            (format!(r#"{{{ok},"card":{{}}}}"#), Code::InvalidCard, "/card/name"),
            (
                r#"{"id":"a/b/c","endpoints":[{"url":"http://0.0.0.0/"}]}"#.to_owned(),
                Code::InvalidEndpoint,
                "/endpoints/0/url",
            ),
        ] {
            assert!(findings(&body).contains(&(code, pointer.to_owned())), "{body}: {:?}", findings(&body));
        }
    }

    #[test]
    fn all_findings_come_at_once() {
        assert_eq!(findings(r#"{"id":"a/b/c","weight":"x","zone":1,"what":2}"#).len(), 4);
        let of = |body: &str| findings(body).into_iter().map(|(_, pointer)| pointer).collect::<Vec<_>>();
        // Wrong types, an unknown member and faults of content, each once and each at its place in its list.
        let body = r#"{"id":"A/b/c","weight":"x","kind":"robot","what":2,"lease_seconds":4,
            "endpoints":[7,{"url":"ftp://h/"},{"protocol":"http"}],
            "capabilities":["a.b",{"name":3},{"tags":["",5]},{"name":"a:b:v1","tags":[5,""]}],
            "metadata":{"k":1,"":"x"}}"#;
        let mut pointers = of(body);
        pointers.sort();
        let expected = [
            "/capabilities/0",
            "/capabilities/1/name",
            "/capabilities/2/name",
            "/capabilities/2/tags/0",
            "/capabilities/2/tags/1",
            "/capabilities/3/tags/0",
            "/capabilities/3/tags/1",
            "/endpoints/0",
            "/endpoints/1/url",
            "/endpoints/2/url",
            "/id",
            "/kind",
            "/lease_seconds",
            "/metadata/",
            "/metadata/k",
            "/weight",
            "/what",
        ];
        assert_eq!(pointers, expected);
        assert_eq!(of(r#"{"id":7,"endpoints":{}}"#), ["/id", "/endpoints"]);
        assert_eq!(of("[]"), [""]);
    }
}
