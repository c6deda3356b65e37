//! A refusal in words: what the cell said, where it is wrong, who holds the id now, and when to try again.

use std::fmt::Write as _;

use serde_json::Value;

use super::Failure;
use crate::exit::Exit;

/// What a refusal means, in words.
pub(super) fn refusal(status: u16, body: &str, retry_after: Option<&str>) -> Failure {
    let problem: Value = serde_json::from_str(body).unwrap_or_default();
    let text = |name: &str| problem.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let mut words = match text("code") {
        Some(code) => format!("refused ({status} {code})"),
        None => format!("refused ({status})"),
    };
    match text("detail").or_else(|| text("title")) {
        Some(detail) => write!(words, ": {detail}"),
        None => write!(words, "; the other side gave no reason, is it a cell?"),
    }
    .ok();
    let findings = problem.get("errors").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    // One finding alone is what the sentence above says already.
    for finding in findings.iter().filter(|_| findings.len() > 1) {
        let part = |name: &str| finding.get(name).and_then(Value::as_str).unwrap_or_default();
        // A finding about the whole body has no place to name.
        match part("pointer") {
            "" => write!(words, "\n  {}", part("detail")),
            pointer => write!(words, "\n  {pointer}: {}", part("detail")),
        }
        .ok();
    }
    if let Some(current) = problem.get("current").filter(|current| current.is_object()) {
        let part = |name: &str| current.get(name).and_then(Value::as_str).unwrap_or("unknown");
        write!(words, "\n  current epoch {} at {}", part("epoch"), part("endpoint")).ok();
    }
    if let Some(seconds) = retry_after {
        write!(words, "\n  try again in {seconds} s").ok();
    }
    let body = Some(body.to_owned()).filter(|body| !body.trim().is_empty());
    Failure { exit: Exit::of_status(status), body, words }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_tells_code_reason_places_current_holder_and_when_to_try_again() {
        let body = r#"{"status":412,"code":"superseded","title":"t","detail":"a newer registration holds this instance",
            "errors":[{"pointer":"/id","detail":"bad"},{"pointer":"","detail":"worse"}],"current":{"epoch":"7","endpoint":"http://h:1/"}}"#;
        let failure = refusal(412, body, Some("3"));
        assert_eq!(
            failure.words,
            "refused (412 superseded): a newer registration holds this instance\n  /id: bad\n  worse\n  \
             current epoch 7 at http://h:1/\n  try again in 3 s"
        );
        assert_eq!(failure.exit, Exit::Refused);
        assert_eq!(failure.body.as_deref(), Some(body));
    }

    #[test]
    fn a_refusal_without_a_problem_body_still_has_a_sentence() {
        let failure = refusal(502, "<html>", None);
        assert_eq!(failure.words, "refused (502); the other side gave no reason, is it a cell?");
        assert_eq!(failure.exit, Exit::Unavailable);
    }
}
