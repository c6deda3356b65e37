//! What the programs' own judgement of their settings has in common.

use serde::{Deserialize, Serialize};

/// Who may call.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    /// `none`: everybody who can connect.
    pub mode: AuthMode,
}

/// How callers prove who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuthMode {
    /// They do not.
    None,
}

/// A configuration that is well-formed and cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {why}")]
pub struct Unusable {
    /// The key.
    pub key: String,
    /// What is wrong and what to do.
    pub why: String,
}

impl Unusable {
    /// Finds fault with a key.
    #[must_use]
    pub fn new(key: impl Into<String>, why: impl Into<String>) -> Self {
        Self { key: key.into(), why: why.into() }
    }
}
