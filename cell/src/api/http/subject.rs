//! Which registration a call is about: the id in the path, and the epoch in `If-Match`.

use axum::extract::{FromRequestParts, Path};
use axum::http::HeaderMap;
use axum::http::header::IF_MATCH;
use axum::http::request::Parts;
use rollcall_model::{Code, Epoch, InstanceId, Invalid, Query};

use crate::refusal::Refusal;

/// The id that a path names.
pub(super) struct Subject(pub(super) InstanceId);

/// The agent that a path names.
pub(super) struct AgentOf(pub(super) Query);

impl<S: Send + Sync> FromRequestParts<S> for Subject {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let Path((namespace, name, instance)) =
            Path::<(String, String, String)>::from_request_parts(parts, state)
                .await
                .map_err(|error| bad_id(error.body_text()))?;
        let id = InstanceId::parse(&format!("{namespace}/{name}/{instance}"))
            .map_err(|finding| bad_id(finding.detail))?;
        Ok(Self(id))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for AgentOf {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let Path((namespace, name)) = Path::<(String, String)>::from_request_parts(parts, state)
            .await
            .map_err(|error| bad_id(error.body_text()))?;
        let mut query = Query::default();
        for (part, value) in [("namespace", namespace), ("name", name)] {
            query.set(part, &value).map_err(|finding| bad_id(finding.detail))?;
        }
        Ok(Self(query))
    }
}

fn bad_id(detail: String) -> Refusal {
    Refusal::invalid(vec![Invalid::new(Code::InvalidId, "", detail)])
}

/// The epoch that the caller holds.
///
/// # Errors
/// No `If-Match`, or one that is not exactly one epoch in quotes. One of 52 bits may have been issued; whether it was is
/// for the registrar to say.
pub(super) fn epoch(headers: &HeaderMap) -> Result<Epoch, Refusal> {
    let mut values = headers.get_all(IF_MATCH).iter();
    let Some(first) = values.next() else {
        let detail = "If-Match with the epoch in quotes is required, as in If-Match: \"1099511627785\"";
        return Err(Refusal::new(Code::EpochRequired, detail));
    };
    let quoted = first.to_str().ok().filter(|_| values.next().is_none());
    let text = quoted.map(str::trim).and_then(|text| text.strip_prefix('"')?.strip_suffix('"'));
    text.and_then(epoch_from).ok_or_else(|| {
        let detail =
            "If-Match holds exactly one epoch in quotes, as it was answered: a number of at most 52 bits";
        Refusal::invalid(vec![Invalid::new(Code::InvalidEpoch, "", detail)])
    })
}

/// Reads an epoch's text; a number that no epoch can be is none.
pub(super) fn epoch_from(text: &str) -> Option<Epoch> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number || (text.len() > 1 && text.starts_with('0')) {
        return None;
    }
    Epoch::from_wire(text.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str]) -> Result<u64, Code> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IF_MATCH, value.parse().unwrap());
        }
        epoch(&headers).map(Epoch::get).map_err(|refusal| refusal.code)
    }

    #[test]
    fn one_epoch_in_quotes_is_the_only_form() {
        assert_eq!(of(&["\"1099511627785\""]), Ok(1_099_511_627_785));
        assert_eq!(of(&[]), Err(Code::EpochRequired));
        for value in [
            "",
            "7",
            "*",
            "W/\"7\"",
            "\"7",
            "7\"",
            "\"\"",
            "\"7\", \"8\"",
            "\"x\"",
            "\"-7\"",
            "\"+7\"",
            "\"07\"",
            "\" 7\"",
            "\"7.0\"",
            "\"\"7\"\"",
            "\"0x7\"",
            "\"123456789012345678901\"",
        ] {
            assert_eq!(of(&[value]), Err(Code::InvalidEpoch), "{value}");
        }
        assert_eq!(of(&["\"7\"", "\"7\""]), Err(Code::InvalidEpoch));
    }

    #[test]
    fn a_number_over_52_bits_is_no_epoch() {
        assert_eq!(of(&["\"4503599627370495\""]), Ok((1 << 52) - 1));
        for number in ["4503599627370496", "18446744073709551615", "18446744073709551616"] {
            assert_eq!(of(&[&format!("\"{number}\"")]), Err(Code::InvalidEpoch), "{number}");
        }
    }
}
