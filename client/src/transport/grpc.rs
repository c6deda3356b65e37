//! What every use of gRPC here needs: addresses, and a status in the caller's terms.

use std::time::Duration;

use rollcall_proto::refusal;
use tonic::Status;
use tonic::transport::Endpoint;

use crate::error::{CallError, StartError};

/// Longest wait for a connection (acceptance LEA-04).
const CONNECT_MAX: Duration = Duration::from_secs(2);

pub(super) fn endpoint(url: &str) -> Result<Endpoint, StartError> {
    let bad = |why: String| StartError::Url { url: url.to_owned(), why };
    let endpoint = Endpoint::from_shared(url.to_owned()).map_err(|error| bad(chain(&error)))?;
    match endpoint.uri().scheme_str() {
        Some("http") => {}
        Some(other) => return Err(bad(format!("the scheme {other:?} is unknown: http is"))),
        None => return Err(bad("it has no scheme: http://host:port".into())),
    }
    Ok(endpoint.connect_timeout(CONNECT_MAX))
}

/// An address as its user wrote it.
pub(super) fn url(endpoint: &Endpoint) -> String {
    endpoint.uri().to_string().trim_end_matches('/').to_owned()
}

pub(super) fn call_error(url: &str, status: &Status) -> CallError {
    match refusal::code_of(status) {
        Some(code) => CallError::Refused {
            url: url.to_owned(),
            code,
            detail: status.message().to_owned(),
            retry_after: refusal::retry_after_of(status),
        },
        None => unreachable(url, chain(status)),
    }
}

pub(super) fn unreachable(url: &str, why: impl Into<String>) -> CallError {
    CallError::Unreachable { url: url.to_owned(), why: why.into() }
}

/// The innermost cause says most: "connection refused", where the outer ones say "transport error".
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
