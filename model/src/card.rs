//! The A2A agent card: kept byte for byte, read only for what Rollcall indexes.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::capability::Skill;
use crate::code::{Code, Invalid};
use crate::endpoint::Endpoint;
use crate::limits;

/// An A2A card of version 0.3 or 1.0, untouched.
#[derive(Clone, PartialEq, Eq)]
pub struct Card {
    json: Arc<str>,
    digest: Arc<str>,
}

/// What a card says that Rollcall needs: the defaults of a registration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CardFacts {
    /// Its interfaces, preferred one first.
    pub endpoints: Vec<Endpoint>,
    /// The agent's version, as written.
    pub version: Option<String>,
    /// Its skills.
    pub skills: Vec<Skill>,
    /// The newest protocol version it names, such as `0.3.0` or `1.0`.
    pub protocol_version: Option<String>,
}

impl Card {
    /// Takes a card's JSON text.
    ///
    /// # Errors
    /// Every finding with a pointer under `/card`: not a JSON object, over 128 KiB, no name, bad skills or interfaces.
    pub fn parse(json: &str) -> Result<(Self, CardFacts), Vec<Invalid>> {
        let one = |code, pointer: &str, detail: &str| vec![Invalid::new(code, pointer, detail)];
        if json.len() > limits::CARD_BYTES_MAX {
            return Err(one(Code::TooLarge, "/card", "a card is at most 128 KiB"));
        }
        let value: Value = serde_json::from_str(json)
            .map_err(|error| one(Code::InvalidCard, "/card", &format!("the card is not JSON: {error}")))?;
        let facts = facts(&value)?;
        // RFC 8785, so that two spellings of one card have one digest and a card can be compared with its signature.
        let canonical = serde_json_canonicalizer::to_vec(&value).map_err(|error| {
            one(Code::InvalidCard, "/card", &format!("the card has no canonical form: {error}"))
        })?;
        let digest: String = Sha256::digest(&canonical).iter().fold(String::new(), |mut hex, byte| {
            use fmt::Write as _;
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        Ok((Self { json: json.into(), digest: digest.into() }, facts))
    }

    /// Takes a card that a holder of the state already checked, with its digest.
    #[must_use]
    pub fn from_parts(json: &str, digest: &str) -> Self {
        Self { json: json.into(), digest: digest.into() }
    }

    /// The JSON text exactly as registered.
    #[must_use]
    pub fn json(&self) -> &str {
        &self.json
    }

    /// SHA-256 of the canonical form, in hex (acceptance MOD-04).
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The protocol versions this card speaks, as written in it; empty when it names none.
    #[must_use]
    pub fn protocol_versions(&self) -> Vec<String> {
        let Ok(value) = serde_json::from_str::<Value>(&self.json) else { return Vec::new() };
        let own = value.get("protocolVersion").and_then(Value::as_str).map(str::to_owned);
        let of_interfaces = array(&value, "supportedInterfaces").iter().filter_map(|interface| {
            interface.get("protocolVersion").and_then(Value::as_str).map(str::to_owned)
        });
        own.into_iter().chain(of_interfaces).collect()
    }
}

fn array<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn facts(value: &Value) -> Result<CardFacts, Vec<Invalid>> {
    let mut found = Vec::new();
    if !value.is_object() {
        return Err(vec![Invalid::new(Code::InvalidCard, "/card", "a card is a JSON object")]);
    }
    if value.get("name").and_then(Value::as_str).is_none_or(str::is_empty) {
        found.push(Invalid::new(Code::InvalidCard, "/card/name", "a card has a name"));
    }
    let version = match value.get("version") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) if text.chars().count() <= limits::SHORT_TEXT_CHARS_MAX => {
            Some(text.clone()).filter(|text| !text.is_empty())
        }
        Some(_) => {
            found.push(Invalid::new(
                Code::InvalidCard,
                "/card/version",
                "a version is text of at most 64 characters",
            ));
            None
        }
    };
    let endpoints = endpoints(value, &mut found);
    let skills = skills(value, &mut found);
    let protocol_version = array(value, "supportedInterfaces")
        .iter()
        .filter_map(|interface| interface.get("protocolVersion").and_then(Value::as_str))
        .chain(value.get("protocolVersion").and_then(Value::as_str))
        .max()
        .map(str::to_owned);
    if found.is_empty() { Ok(CardFacts { endpoints, version, skills, protocol_version }) } else { Err(found) }
}

/// 1.0 lists `supportedInterfaces`; 0.3 has `url` with `preferredTransport` and then `additionalInterfaces`.
fn endpoints(value: &Value, found: &mut Vec<Invalid>) -> Vec<Endpoint> {
    let text = |v: &Value, key: &str| v.get(key).and_then(Value::as_str).map(str::to_owned);
    let mut named: Vec<(String, String, Option<String>)> = Vec::new();
    for (at, interface) in array(value, "supportedInterfaces").iter().enumerate() {
        if let Some(url) = text(interface, "url") {
            named.push((
                format!("/card/supportedInterfaces/{at}/url"),
                url,
                text(interface, "protocolBinding"),
            ));
        }
    }
    if let Some(url) = text(value, "url") {
        named.push(("/card/url".into(), url, text(value, "preferredTransport")));
    }
    for (at, interface) in array(value, "additionalInterfaces").iter().enumerate() {
        if let Some(url) = text(interface, "url") {
            named.push((format!("/card/additionalInterfaces/{at}/url"), url, text(interface, "transport")));
        }
    }
    let mut endpoints: Vec<Endpoint> = Vec::new();
    for (pointer, url, protocol) in named {
        // Bare host:port is what the gRPC binding of a card carries.
        let grpc = protocol.as_deref().is_some_and(|p| p.eq_ignore_ascii_case("grpc"));
        let url = if grpc && !url.contains("://") { format!("grpc://{url}") } else { url };
        match Endpoint::at(&url, protocol.as_deref(), pointer.clone(), Code::InvalidCard) {
            Ok(endpoint) if endpoints.contains(&endpoint) => {}
            // Leaving the rest out would be cutting what the caller gave (I47).
            Ok(_) if endpoints.len() == limits::ENDPOINTS_MAX => {
                found.push(Invalid::new(Code::InvalidCard, pointer, "a card has at most 16 interfaces"));
                break;
            }
            Ok(endpoint) => endpoints.push(endpoint),
            Err(finding) => found.push(finding),
        }
    }
    endpoints
}

fn skills(value: &Value, found: &mut Vec<Invalid>) -> Vec<Skill> {
    let listed = array(value, "skills");
    if listed.len() > limits::SKILLS_MAX {
        found.push(Invalid::new(Code::InvalidCard, "/card/skills", "a card has at most 256 skills"));
        return Vec::new();
    }
    let mut skills = Vec::new();
    for (at, skill) in listed.iter().enumerate() {
        if !skill.is_object() {
            let pointer = format!("/card/skills/{at}");
            found.push(Invalid::new(Code::InvalidCard, pointer, "a skill is an object"));
            continue;
        }
        let Some(id) = skill.get("id").and_then(Value::as_str).filter(|id| !id.is_empty() && id.len() <= 256)
        else {
            found.push(Invalid::new(
                Code::InvalidCard,
                format!("/card/skills/{at}/id"),
                "a skill has an id of 1-256 characters",
            ));
            continue;
        };
        let name = skill.get("name").and_then(Value::as_str).unwrap_or(id);
        let tags: Vec<String> =
            array(skill, "tags").iter().filter_map(Value::as_str).map(str::to_owned).collect();
        if tags.len() > limits::TAGS_MAX {
            found.push(Invalid::new(
                Code::InvalidCard,
                format!("/card/skills/{at}/tags"),
                "a skill has at most 32 tags",
            ));
        }
        skills.push(Skill { id: id.to_owned(), name: name.to_owned(), tags });
    }
    skills
}

impl fmt::Debug for Card {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Card({} bytes, {})", self.json.len(), self.digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_of_1_0_gives_interfaces_version_and_skills() {
        let json = r#"{"name":"t","version":"2.1.0","supportedInterfaces":[{"url":"http://h:1/","protocolBinding":"JSONRPC",
            "protocolVersion":"1.0"},{"url":"h:2","protocolBinding":"GRPC"}],"skills":[{"id":"s","name":"S","tags":["x"]}]}"#;
        let (card, facts) = Card::parse(json).unwrap();
        assert_eq!(card.json(), json);
        assert_eq!(facts.version.as_deref(), Some("2.1.0"));
        let urls: Vec<_> = facts.endpoints.iter().map(crate::Endpoint::url).collect();
        assert_eq!(urls, ["http://h:1/", "grpc://h:2"]);
        assert_eq!(facts.skills, [Skill { id: "s".into(), name: "S".into(), tags: vec!["x".into()] }]);
        assert_eq!(card.protocol_versions(), ["1.0"]);
    }

    #[test]
    fn a_card_of_0_3_gives_its_url_first() {
        let json = r#"{"name":"t","protocolVersion":"0.3.0","url":"http://h:1/","preferredTransport":"JSONRPC",
            "additionalInterfaces":[{"url":"http://h:1/","transport":"JSONRPC"},{"url":"http://h:2/","transport":"HTTP+JSON"}]}"#;
        let (_, facts) = Card::parse(json).unwrap();
        let urls: Vec<_> = facts.endpoints.iter().map(crate::Endpoint::url).collect();
        assert_eq!(urls, ["http://h:1/", "http://h:2/"]);
    }

    #[test]
    fn the_digest_ignores_spelling_and_the_text_does_not() {
        let (a, _) = Card::parse(r#"{"name":"t","version":"1"}"#).unwrap();
        let (b, _) = Card::parse(r#"{ "version":"1", "name":"t" }"#).unwrap();
        assert_eq!(a.digest(), b.digest());
        assert_ne!(a.json(), b.json());
        assert_eq!(a.digest().len(), 64);
    }

    #[test]
    fn what_is_no_card_is_refused_with_its_place() {
        for (json, pointer) in [
            ("[]", "/card"),
            ("{", "/card"),
            ("{}", "/card/name"),
            (r#"{"name":"t","version":3}"#, "/card/version"),
            (r#"{"name":"t","skills":[{"name":"x"}]}"#, "/card/skills/0/id"),
            (r#"{"name":"t","url":"http://0.0.0.0:1/"}"#, "/card/url"),
        ] {
            let found = Card::parse(json).unwrap_err();
            assert_eq!(found[0].pointer, pointer, "{json}");
        }
    }
}
