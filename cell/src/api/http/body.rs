//! Request bodies: of the right kind, within their bound, whole.

use std::time::Duration;

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use futures_util::StreamExt as _;
use rollcall_model::{Code, Invalid, limits};

use crate::refusal::Refusal;

/// JSON.
pub(super) const JSON: &str = "application/json";
/// A JSON Merge Patch (RFC 7396).
pub(super) const MERGE_PATCH: &str = "application/merge-patch+json";

/// How long the rest of a body that is too large is read and thrown away. Many clients look for an answer only when
/// they have sent everything, and would take a closed connection for a failure of the network.
const DISCARD: Duration = Duration::from_secs(5);

/// Reads a body of one of these kinds. One without a kind may be empty; JSON's reader says what is missing then.
///
/// # Errors
/// Another kind, over 256 KiB, or cut off.
pub(super) async fn read(request: Request, kinds: &[&str]) -> Result<Vec<u8>, Refusal> {
    let kind = kind(request.headers());
    if kind.as_deref().is_some_and(|kind| !kinds.contains(&kind)) {
        return Err(foreign(kind.as_deref(), kinds));
    }
    read_if_any(request, kinds).await
}

/// The same where a body may be left out. The kind of nothing does not matter: some clients name one by habit.
///
/// # Errors
/// As [`read`].
pub(super) async fn read_if_any(request: Request, kinds: &[&str]) -> Result<Vec<u8>, Refusal> {
    let kind = kind(request.headers());
    let mut body = Vec::new();
    let mut parts = request.into_body().into_data_stream();
    while let Some(part) = parts.next().await {
        let part = part.map_err(|error| {
            Refusal::invalid(vec![Invalid::new(
                Code::InvalidBody,
                "",
                format!("the body broke off: {error}"),
            )])
        })?;
        if body.len() + part.len() > limits::BODY_BYTES_MAX {
            let rest = async { while let Some(Ok(_)) = parts.next().await {} };
            let _ = tokio::time::timeout(DISCARD, rest).await;
            return Err(Refusal::new(Code::TooLarge, "a body is at most 256 KiB"));
        }
        body.extend_from_slice(&part);
    }
    if !body.is_empty() && !kind.as_deref().is_some_and(|kind| kinds.contains(&kind)) {
        return Err(foreign(kind.as_deref(), kinds));
    }
    Ok(body)
}

fn foreign(kind: Option<&str>, kinds: &[&str]) -> Refusal {
    let named = kind.unwrap_or("nothing");
    Refusal::new(Code::UnsupportedMediaType, format!("content-type says {named}, not {}", kinds.join(" or ")))
}

fn kind(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(CONTENT_TYPE)?;
    let text = value.to_str().unwrap_or_default();
    Some(text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}
