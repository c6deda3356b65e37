//! One thing that was looked at.

use serde::Serialize;
use serde_json::Value;

use crate::http::Failure;

/// How it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// As it should be.
    Ok,
    /// It works, and somebody should look.
    Warn,
    /// It does not work.
    Fail,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    /// What was looked at.
    pub(super) name: String,
    pub(super) verdict: Verdict,
    /// What was seen.
    pub(super) detail: String,
    /// What to do, unless all is well.
    pub(super) next: Option<String>,
}

impl Verdict {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

impl Check {
    pub(super) fn ok(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { name: name.into(), verdict: Verdict::Ok, detail: detail.into(), next: None }
    }

    pub(super) fn warn(name: impl Into<String>, detail: impl Into<String>, next: impl Into<String>) -> Self {
        Self { name: name.into(), verdict: Verdict::Warn, detail: detail.into(), next: Some(next.into()) }
    }

    pub(super) fn fail(name: impl Into<String>, detail: impl Into<String>, next: impl Into<String>) -> Self {
        Self { name: name.into(), verdict: Verdict::Fail, detail: detail.into(), next: Some(next.into()) }
    }
}

/// What a refusal says, without its code and advice.
pub(super) fn said(failure: &Failure) -> String {
    let problem: Value =
        failure.body.as_deref().and_then(|body| serde_json::from_str(body).ok()).unwrap_or_default();
    match problem.get("detail").and_then(Value::as_str) {
        Some(detail) => detail.to_owned(),
        // The advice behind it is for other verbs.
        None => failure.words.split([';', '\n']).next().unwrap_or_default().to_owned(),
    }
}

/// What readiness says of a part that the process does not need to be ready: its name, and how it is.
pub(super) fn part_of(line: &str) -> Option<(String, String)> {
    let (name, said) = line.split_once(" (not needed to be ready): ")?;
    Some((name.to_owned(), said.to_owned()))
}

/// The copies on disk that cannot be written, of these parts: the process works without them until it is started anew.
pub(super) fn copies(whose: &str, parts: Vec<(String, String)>) -> Vec<Check> {
    let unwritten = parts.into_iter().filter(|(name, _)| name.starts_with("copy of "));
    let check = |(name, said): (String, String)| {
        let (lack, next) = said.rsplit_once(": ").unwrap_or((&said, "see its log"));
        Check::warn(format!("{whose}{name}"), lack, next)
    };
    unwritten.map(check).collect()
}

/// Whether this program and a process are of one build, as far as both know theirs.
pub(super) fn build(name: &str, version: &Value) -> Check {
    let text = |member: &str| version.get(member).and_then(Value::as_str).unwrap_or("unknown");
    let (number, commit) = (text("version"), text("commit"));
    let own = (env!("CARGO_PKG_VERSION"), crate::COMMIT);
    let is_known = |commit: &str| !commit.starts_with("unknown");
    if number != own.0 {
        let detail = format!("it runs {number}, this program is {}", own.0);
        return Check::warn(name, detail, "use the same version of both");
    }
    if commit != own.1 && is_known(commit) && is_known(own.1) {
        let detail = format!("it runs {number} of commit {commit}, this program is of {}", own.1);
        return Check::warn(name, detail, "where that is not meant, build and start both from one commit");
    }
    Check::ok(name, format!("{number} ({commit})"))
}
