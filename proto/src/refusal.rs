//! Refusals on gRPC: the stable code in a trailer, from the same table as HTTP's.

use std::time::Duration;

use bytes::Buf;
use http_body_util::BodyExt as _;
use rollcall_model::Code;
use tonic::codegen::Body;
use tonic::codegen::http::{HeaderMap, HeaderValue, Response};
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

/// Where a status stands in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// In its head: nothing came before it, so what is wrong is the request.
    AtOnce,
    /// After messages: what is wrong is the answer.
    InTrailers,
}

/// Gives a status that was not made by [`status`] its code, and with it the status of the table. gRPC's own machinery
/// makes such ones: for a method that there is not, a message that is too large, one that cannot be read.
pub fn complete(headers: &mut HeaderMap, told: Told) {
    let Some(number) = headers.get(Status::GRPC_STATUS) else { return };
    let number = Grpc::from_bytes(number.as_bytes());
    if number == Grpc::Ok || headers.contains_key(CODE_TRAILER) {
        return;
    }
    let code = meant(number, told);
    headers.insert(Status::GRPC_STATUS, HeaderValue::from(grpc_code(code) as i32));
    headers.insert(CODE_TRAILER, HeaderValue::from_static(code.as_str()));
    let is_silent = headers.get(Status::GRPC_MESSAGE).is_none_or(HeaderValue::is_empty);
    if is_silent && code == Code::MethodNotAllowed {
        let words =
            HeaderValue::from_static("there is no such method; server reflection lists those there are");
        headers.insert(Status::GRPC_MESSAGE, words);
    }
}

/// What gRPC's own machinery means by a status.
const fn meant(number: Grpc, told: Told) -> Code {
    match (number, told) {
        (Grpc::OutOfRange | Grpc::ResourceExhausted, Told::AtOnce) => Code::TooLarge,
        (Grpc::Unimplemented, Told::AtOnce) => Code::MethodNotAllowed,
        (Grpc::NotFound, _) => Code::NotFound,
        (Grpc::Unavailable, _) => Code::Overloaded,
        (Grpc::InvalidArgument, _) | (Grpc::Internal | Grpc::Unknown | Grpc::Cancelled, Told::AtOnce) => {
            Code::InvalidBody
        }
        _ => Code::Internal,
    }
}

/// The refusal of a message on a stream of requests that gRPC's own machinery could not read.
#[must_use]
pub fn unread(machinery: &Status) -> Status {
    status(meant(machinery.code(), Told::AtOnce), machinery.message(), None)
}

/// An answer whose status carries its code, wherever it stands.
pub fn completed<B>(mut answer: Response<B>) -> Response<impl Body<Data = B::Data, Error = B::Error>>
where
    B: Body,
    B::Data: Buf,
{
    complete(answer.headers_mut(), Told::AtOnce);
    answer.map(|body| {
        body.map_frame(|mut frame| {
            if let Some(trailers) = frame.trailers_mut() {
                complete(trailers, Told::InTrailers);
            }
            frame
        })
    })
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
