//! Request bodies: of the right kind, within their bound, whole.

use axum::body::HttpBody as _;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use futures_util::StreamExt as _;
use rollcall_model::{Code, Invalid, limits};

use crate::refusal::Refusal;

/// JSON.
pub(super) const JSON: &str = "application/json";
/// A JSON Merge Patch (RFC 7396).
pub(super) const MERGE_PATCH: &str = "application/merge-patch+json";

/// Reads a body of one of these kinds. One without a kind may be empty; JSON's reader says what is missing then.
///
/// # Errors
/// Another kind, in a coding, over 256 KiB, or cut off.
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
    if !request.body().is_end_stream() {
        unpacked(request.headers())?;
    }
    let kind = kind(request.headers());
    let announced =
        request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: usize| length > limits::BODY_BYTES_MAX) {
        // Before a byte of it was read: who asked whether to send it at all (Expect) need not.
        return Err(too_large());
    }
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
            return Err(too_large());
        }
        body.extend_from_slice(&part);
    }
    if !body.is_empty() && !kind.as_deref().is_some_and(|kind| kinds.contains(&kind)) {
        return Err(foreign(kind.as_deref(), kinds));
    }
    Ok(body)
}

/// Refuses a body in a coding, which would be read as the nonsense that it looks like.
fn unpacked(headers: &HeaderMap) -> Result<(), Refusal> {
    let codings: Vec<_> = headers.get_all(CONTENT_ENCODING).iter().map(|coding| coding.to_str()).collect();
    let is_plain = |coding: &str| coding.is_empty() || coding.eq_ignore_ascii_case("identity");
    match codings.into_iter().find(|coding| !coding.as_ref().is_ok_and(|coding| is_plain(coding.trim()))) {
        None => Ok(()),
        Some(coding) => {
            let named = coding.unwrap_or("what is no text");
            let detail =
                format!("content-encoding says {named}: send the body as it is, it is at most 256 KiB");
            Err(Refusal::new(Code::UnsupportedMediaType, detail))
        }
    }
}

fn too_large() -> Refusal {
    Refusal::new(Code::TooLarge, "a body is at most 256 KiB")
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
