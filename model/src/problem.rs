//! A refusal as people and programs read it over HTTP: `application/problem+json` (RFC 9457).
//!
//! Promises: the same members with the same words wherever it is said, because all of them come from the table of codes.
//! Never here: the header that says when to come back; that is chance's, and the edge's.

use serde::Serialize;

use crate::code::{Code, Invalid};
use crate::position::Epoch;

/// The media type.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// The body of a refusal.
#[derive(Debug, Serialize)]
pub struct Problem<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    code: &'static str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<Place<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<Winner<'a>>,
}

#[derive(Debug, Serialize)]
struct Place<'a> {
    pointer: &'a str,
    detail: &'a str,
}

/// Who holds an instance, for the loser of an epoch.
#[derive(Debug, Serialize)]
pub struct Winner<'a> {
    epoch: String,
    endpoint: &'a str,
}

impl<'a> Winner<'a> {
    /// The holder with this epoch, at the URL of its first endpoint.
    #[must_use]
    pub fn new(epoch: Epoch, endpoint: &'a str) -> Self {
        Self { epoch: epoch.to_string(), endpoint }
    }
}

impl<'a> Problem<'a> {
    /// A refusal with its sentence.
    #[must_use]
    pub fn new(code: Code, detail: &'a str) -> Self {
        Self {
            r#type: format!("urn:rollcall:error:{}", code.as_str()),
            title: code.title(),
            status: code.status(),
            code: code.as_str(),
            detail,
            errors: Vec::new(),
            current: None,
        }
    }

    /// With what is wrong in the input, place by place.
    #[must_use]
    pub fn with_findings(mut self, findings: &'a [Invalid]) -> Self {
        let place = |found: &'a Invalid| Place { pointer: &found.pointer, detail: &found.detail };
        self.errors = findings.iter().map(place).collect();
        self
    }

    /// With who holds the instance.
    #[must_use]
    pub fn with_winner(mut self, winner: Option<Winner<'a>>) -> Self {
        self.current = winner;
        self
    }

    /// Its text.
    #[must_use]
    pub fn json(&self) -> Vec<u8> {
        // Texts and numbers always have a JSON form; without a body the status still says it.
        serde_json::to_vec(self).unwrap_or_default()
    }
}
