//! A refusal as `application/problem+json` (RFC 9457).

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use rollcall_model::Code;
use rollcall_model::problem::{MEDIA_TYPE, Problem, Winner};

use crate::random;
use crate::refusal::{Current, Refusal};

/// Who holds the instance, as it is told.
pub(super) fn winner(current: &Current) -> Winner<'_> {
    Winner::new(current.epoch, &current.endpoint)
}

/// A refusal of what never became a request, for whoever writes it to the connection.
pub(super) fn unread(code: Code, detail: &str) -> axum::http::Response<Vec<u8>> {
    let mut response = axum::http::Response::new(Problem::new(code, detail).json());
    *response.status_mut() = status(code);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    response
}

fn status(code: Code) -> StatusCode {
    StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let code = self.code;
        let problem = Problem::new(code, &self.detail)
            .with_findings(&self.findings)
            .with_winner(self.current.as_ref().map(winner));
        let mut response = Response::new(Body::from(problem.json()));
        *response.status_mut() = status(code);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        if code.is_retryable() {
            let wait = self.retry_after.unwrap_or(Duration::from_secs(1));
            headers.insert(RETRY_AFTER, HeaderValue::from(retry_seconds(wait, random::chance())));
        }
        response
    }
}

/// Whole seconds, never less than the wait and at least one, spread from the wait asked for up to three times that: those who were refused together
/// must not come back together.
fn retry_seconds(wait: Duration, chance: f64) -> u64 {
    let spread = wait.mul_f64(1.0 + 2.0 * chance);
    (spread.as_secs() + u64::from(spread.subsec_nanos() > 0)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rollcall_model::{Epoch, Invalid};
    use serde_json::{Value, json};

    async fn parts(refusal: Refusal) -> (StatusCode, Option<String>, Value) {
        let response = refusal.into_response();
        let retry = response.headers().get(RETRY_AFTER).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        let status = response.status();
        let bytes = axum::body::to_bytes(response.into_body(), 65_536).await.unwrap();
        (status, retry, serde_json::from_slice(&bytes).unwrap())
    }

    #[tokio::test]
    async fn bad_input_names_each_place() {
        let findings = vec![
            Invalid::new(Code::InvalidId, "/id", "it is empty"),
            Invalid::new(Code::InvalidBody, "/zone", "it is text"),
        ];
        let (status, retry, body) = parts(Refusal::invalid(findings)).await;
        assert_eq!((status.as_u16(), retry), (400, None));
        let expected = json!({
            "type": "urn:rollcall:error:invalid_id", "title": "the id is outside the grammar", "status": 400,
            "code": "invalid_id", "detail": "2 things are wrong; see errors",
            "errors": [{"pointer": "/id", "detail": "it is empty"}, {"pointer": "/zone", "detail": "it is text"}],
        });
        assert_eq!(body, expected);
    }

    #[tokio::test]
    async fn the_loser_of_an_epoch_is_told_the_winner() {
        let current = crate::refusal::Current {
            epoch: Epoch::new(1, rollcall_model::Revision(9)),
            endpoint: "http://h:1/".into(),
        };
        let refusal = Refusal { current: Some(current), ..Refusal::new(Code::Superseded, "a newer one") };
        let (status, _, body) = parts(refusal).await;
        assert_eq!(status.as_u16(), 412);
        assert_eq!(body["current"], json!({"epoch": "1099511627785", "endpoint": "http://h:1/"}));
        assert!(body.get("errors").is_none());
    }

    #[tokio::test]
    async fn every_refusal_under_load_says_when_to_come_back_and_no_other_does() {
        for code in Code::ALL {
            let (status, retry, body) = parts(Refusal::new(code, "x")).await;
            assert_eq!(status.as_u16(), code.status());
            assert_eq!(body["code"], code.as_str());
            let seconds = retry.map(|text| text.parse::<u64>().unwrap());
            assert_eq!(seconds.is_some(), matches!(code.status(), 429 | 503), "{code:?}");
            assert!(seconds.is_none_or(|seconds| (1..=3).contains(&seconds)));
        }
    }

    #[test]
    fn waits_are_whole_seconds_and_spread() {
        assert_eq!(retry_seconds(Duration::from_millis(1), 0.0), 1);
        assert_eq!(retry_seconds(Duration::from_secs(2), 0.0), 2);
        assert_eq!(retry_seconds(Duration::from_secs(2), 0.99), 6);
        assert_eq!(retry_seconds(Duration::from_millis(1_200), 0.0), 2);
    }
}
