//! Refusals on gRPC: the stable code in a trailer, from the same table as HTTP's.

use std::time::Duration;

use rollcall_model::Code;
use tonic::{Code as Grpc, Status};

/// Trailer with the stable code.
pub const CODE_TRAILER: &str = "rollcall-code";
/// Trailer with the wait before another try.
pub const RETRY_TRAILER: &str = "retry-after-ms";
/// Trailer with the current epoch, on `superseded`.
pub const EPOCH_TRAILER: &str = "rollcall-current-epoch";
/// Trailer with the current holder's first endpoint, on `superseded`.
pub const ENDPOINT_TRAILER: &str = "rollcall-current-endpoint";

/// The one table from our code to gRPC's.
#[must_use]
pub const fn grpc_code(code: Code) -> Grpc {
    match code {
        Code::InvalidJson
        | Code::InvalidBody
        | Code::UnknownMember
        | Code::InvalidId
        | Code::InvalidCapability
        | Code::InvalidEndpoint
        | Code::InvalidCard
        | Code::InvalidParameter
        | Code::UnknownParameter
        | Code::InvalidEpoch
        | Code::TooLarge
        | Code::UnsupportedMediaType
        | Code::EpochRequired => Grpc::InvalidArgument,
        Code::NotFound | Code::NotRegistered => Grpc::NotFound,
        Code::MethodNotAllowed => Grpc::Unimplemented,
        Code::Conflict => Grpc::Aborted,
        Code::Superseded => Grpc::FailedPrecondition,
        Code::RateLimited => Grpc::ResourceExhausted,
        Code::Overloaded | Code::StoreUnavailable | Code::ViewNotLoaded | Code::Draining => Grpc::Unavailable,
        Code::OutcomeUnknown => Grpc::Unknown,
        Code::Internal => Grpc::Internal,
    }
}

/// A refusal with its code, and when to try again.
#[must_use]
pub fn status(code: Code, detail: &str, retry_after: Option<Duration>) -> Status {
    let mut status = Status::new(grpc_code(code), detail);
    if let Ok(value) = code.as_str().parse() {
        status.metadata_mut().insert(CODE_TRAILER, value);
    }
    if let Some(wait) = retry_after
        && let Ok(value) = wait.as_millis().to_string().parse()
    {
        status.metadata_mut().insert(RETRY_TRAILER, value);
    }
    status
}

/// The code of a refusal that came over the wire; `None` when it is not one of ours (a broken connection, say).
#[must_use]
pub fn code_of(status: &Status) -> Option<Code> {
    status.metadata().get(CODE_TRAILER).and_then(|value| value.to_str().ok()).and_then(Code::parse)
}

/// How long the refusal asks to wait.
#[must_use]
pub fn retry_after_of(status: &Status) -> Option<Duration> {
    let text = status.metadata().get(RETRY_TRAILER)?.to_str().ok()?;
    text.parse().ok().map(Duration::from_millis)
}
