//! The flags of a registration, and the JSON body they make.
//!
//! Promises: a card goes into the body as its file has it, byte for byte, because its owner may have signed it. What is
//! not said is not sent: defaults are the cell's. Values are sent as they were given and the cell judges them.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::value::RawValue;

use super::parse_pair;

/// Largest file that is read: twice what a cell takes, so that the cell's own sentence about its limit is the usual one.
const FILE_BYTES_MAX: u64 = 2 * rollcall_model::limits::BODY_BYTES_MAX as u64;

/// What a registrant declares.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
#[group(multiple = true)]
pub(crate) struct RegistrationArgs {
    /// namespace/name/instance, or namespace/name for an instance that is made up
    #[arg(long, required_unless_present = "file")]
    pub(crate) id: Option<String>,
    /// Where it is called; more than one: preferred first
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint: Vec<String>,
    /// What it can do, domain:action:vN; more than one
    #[arg(long, value_name = "CAPABILITY")]
    pub(crate) capability: Vec<String>,
    /// agent or tool
    #[arg(long)]
    pub(crate) kind: Option<String>,
    /// The agent's version, semver
    #[arg(long)]
    pub(crate) version: Option<String>,
    /// Failure domain
    #[arg(long)]
    pub(crate) zone: Option<String>,
    /// instance, or service for an entry that all replicas of a deployment share
    #[arg(long)]
    pub(crate) scope: Option<String>,
    /// Who holds the entry of scope service: its process id or a uuid
    #[arg(long, value_name = "NAME")]
    pub(crate) holder: Option<String>,
    /// A metadata entry, key=value; more than one
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    pub(crate) metadata: Vec<(String, String)>,
    /// How long it stays after its last renewal, 5-300
    #[arg(long, value_name = "SECONDS")]
    pub(crate) lease: Option<u64>,
    /// Its A2A card, kept byte for byte
    #[arg(long, value_name = "FILE")]
    pub(crate) card: Option<PathBuf>,
    /// The whole body as JSON instead of flags; - reads stdin
    #[arg(short, long, value_name = "FILE", conflicts_with_all = [
        "id", "endpoint", "capability", "kind", "version", "zone", "scope", "holder", "metadata", "lease", "card",
    ])]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Serialize)]
struct Body {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    endpoints: Vec<Endpoint>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    capabilities: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    card: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct Endpoint {
    url: String,
}

impl RegistrationArgs {
    /// The JSON body; reads the files that are named.
    ///
    /// # Errors
    /// A sentence about a file that cannot be used.
    pub(crate) fn body(self) -> Result<String, String> {
        if let Some(file) = &self.file {
            return read(file);
        }
        let card = self.card.as_deref().map(read_card).transpose()?;
        let body = Body {
            id: self.id.unwrap_or_default(),
            kind: self.kind,
            scope: self.scope,
            holder: self.holder,
            endpoints: self.endpoint.into_iter().map(|url| Endpoint { url }).collect(),
            capabilities: self.capability,
            version: self.version,
            zone: self.zone,
            metadata: self.metadata.into_iter().collect(),
            lease_seconds: self.lease,
            card,
        };
        serde_json::to_string(&body).map_err(|error| format!("the body cannot be written as JSON: {error}"))
    }
}

/// Reads a card. It must be one JSON value, or it would spill into the body around it.
fn read_card(path: &Path) -> Result<Box<RawValue>, String> {
    let text = read(path)?;
    serde_json::from_str(&text)
        .map_err(|error| format!("the card in {} is not JSON: {error}", path.display()))
}

fn read(path: &Path) -> Result<String, String> {
    let name = if path == Path::new("-") { "stdin".to_owned() } else { path.display().to_string() };
    let unreadable = |error: std::io::Error| format!("{name} cannot be read: {error}");
    let mut text = String::new();
    let mut take = |from: &mut dyn Read| from.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
    if path == Path::new("-") {
        take(&mut std::io::stdin().lock()).map_err(unreadable)?;
    } else {
        take(&mut std::fs::File::open(path).map_err(unreadable)?).map_err(unreadable)?;
    }
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("{name} is over {} KiB, more than any cell takes", FILE_BYTES_MAX / 1_024));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_is_not_sent() {
        let args = RegistrationArgs { id: Some("a/b/c".into()), ..RegistrationArgs::default() };
        assert_eq!(args.body().unwrap(), r#"{"id":"a/b/c"}"#);
    }

    #[test]
    fn flags_make_the_body_and_the_card_stays_byte_for_byte() {
        let folder = tempfile::tempdir().unwrap();
        let card = folder.path().join("card.json");
        let text = "{ \"name\" : \"t\\u0041\",\n\t\"x\":1.50 }";
        std::fs::write(&card, format!("{text}\n")).unwrap();
        let args = RegistrationArgs {
            id: Some("a/b".into()),
            endpoint: vec!["http://h:1/".into(), "grpc://h:2".into()],
            capability: vec!["email:send:v1".into()],
            kind: Some("tool".into()),
            version: Some("1.2.3".into()),
            zone: Some("a".into()),
            scope: Some("service".into()),
            holder: Some("pod-1".into()),
            metadata: vec![("k".into(), "a=b".into())],
            lease: Some(10),
            card: Some(card),
            file: None,
        };
        let expected = [
            r#"{"id":"a/b","kind":"tool","scope":"service","holder":"pod-1","endpoints":[{"url":"http://h:1/"},{"url":"grpc://h:2"}],"#,
            r#""capabilities":["email:send:v1"],"version":"1.2.3","zone":"a","metadata":{"k":"a=b"},"lease_seconds":10,"#,
            &format!("\"card\":{text}}}"),
        ];
        assert_eq!(args.body().unwrap(), expected.concat());
    }

    #[test]
    fn a_card_that_is_no_json_is_told_with_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let card = folder.path().join("card.json");
        std::fs::write(&card, r#"1, "zone": "b""#).unwrap();
        let args = RegistrationArgs {
            id: Some("a/b/c".into()),
            card: Some(card.clone()),
            ..RegistrationArgs::default()
        };
        let said = args.body().unwrap_err();
        assert!(said.starts_with(&format!("the card in {} is not JSON: ", card.display())), "{said}");
    }

    #[test]
    fn a_file_is_the_body_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("body.json");
        std::fs::write(&file, "{ not even JSON").unwrap();
        let args = RegistrationArgs { file: Some(file), ..RegistrationArgs::default() };
        assert_eq!(args.body().unwrap(), "{ not even JSON");
        let gone = RegistrationArgs { file: Some(folder.path().join("gone")), ..RegistrationArgs::default() };
        assert!(gone.body().unwrap_err().contains("gone cannot be read: "));
    }
}
