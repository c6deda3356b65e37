//! The stable error codes and the one table from code to status.
//!
//! HTTP, gRPC and the command line all read this table, so an error means the same thing everywhere.

/// What went wrong, in the caller's terms. The text form is part of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    /// The body is not JSON.
    InvalidJson,
    /// A member is missing, of the wrong type or too long.
    InvalidBody,
    /// A member the contract does not know.
    UnknownMember,
    /// An id outside the grammar.
    InvalidId,
    /// A capability outside `domain:action:vN`.
    InvalidCapability,
    /// An endpoint nobody could dial.
    InvalidEndpoint,
    /// A card that is no A2A card.
    InvalidCard,
    /// A query parameter with a bad value.
    InvalidParameter,
    /// A query parameter the contract does not know.
    UnknownParameter,
    /// An `If-Match` that is not one epoch in quotes.
    InvalidEpoch,
    /// Nothing under that address.
    NotFound,
    /// The registration does not exist.
    NotRegistered,
    /// The path exists, the method does not.
    MethodNotAllowed,
    /// The write lost against another one again and again.
    Conflict,
    /// Another epoch holds this instance, nearly always a newer one.
    Superseded,
    /// The call needs `If-Match`.
    EpochRequired,
    /// Over a size limit.
    TooLarge,
    /// Not `application/json`.
    UnsupportedMediaType,
    /// Over the rate that one caller may use.
    RateLimited,
    /// The cell itself has too much to do.
    Overloaded,
    /// The store cannot be reached; nothing was written.
    StoreUnavailable,
    /// The view of that region was never loaded.
    ViewNotLoaded,
    /// The process is shutting down.
    Draining,
    /// The write may or may not have happened.
    OutcomeUnknown,
    /// A defect of ours.
    Internal,
}

impl Code {
    /// Every code, in the order of the contract's table.
    pub const ALL: [Self; 25] = [
        Self::InvalidJson,
        Self::InvalidBody,
        Self::UnknownMember,
        Self::InvalidId,
        Self::InvalidCapability,
        Self::InvalidEndpoint,
        Self::InvalidCard,
        Self::InvalidParameter,
        Self::UnknownParameter,
        Self::InvalidEpoch,
        Self::NotFound,
        Self::NotRegistered,
        Self::MethodNotAllowed,
        Self::Conflict,
        Self::Superseded,
        Self::EpochRequired,
        Self::TooLarge,
        Self::UnsupportedMediaType,
        Self::RateLimited,
        Self::Overloaded,
        Self::StoreUnavailable,
        Self::ViewNotLoaded,
        Self::Draining,
        Self::OutcomeUnknown,
        Self::Internal,
    ];

    /// The contract's text, HTTP status and title.
    #[must_use]
    pub const fn facts(self) -> (&'static str, u16, &'static str) {
        match self {
            Self::InvalidJson => ("invalid_json", 400, "the body is not JSON"),
            Self::InvalidBody => ("invalid_body", 400, "a member of the body is wrong"),
            Self::UnknownMember => ("unknown_member", 400, "a member of the body is unknown"),
            Self::InvalidId => ("invalid_id", 400, "the id is outside the grammar"),
            Self::InvalidCapability => ("invalid_capability", 400, "a capability is outside the grammar"),
            Self::InvalidEndpoint => ("invalid_endpoint", 400, "an endpoint cannot be used"),
            Self::InvalidCard => ("invalid_card", 400, "the card cannot be used"),
            Self::InvalidParameter => ("invalid_parameter", 400, "a query parameter has a bad value"),
            Self::UnknownParameter => ("unknown_parameter", 400, "a query parameter is unknown"),
            Self::InvalidEpoch => ("invalid_epoch", 400, "If-Match must hold one epoch in quotes"),
            Self::NotFound => ("not_found", 404, "there is nothing here"),
            Self::NotRegistered => ("not_registered", 404, "the instance is not registered"),
            Self::MethodNotAllowed => ("method_not_allowed", 405, "the method is not allowed here"),
            Self::Conflict => ("conflict", 409, "another write was faster"),
            Self::Superseded => ("superseded", 412, "another epoch holds this instance"),
            Self::EpochRequired => ("epoch_required", 428, "If-Match with the epoch is required"),
            Self::TooLarge => ("too_large", 413, "the request is too large"),
            Self::UnsupportedMediaType => {
                ("unsupported_media_type", 415, "the body must be application/json")
            }
            Self::RateLimited => ("rate_limited", 429, "too many requests"),
            Self::Overloaded => ("overloaded", 503, "the cell is overloaded"),
            Self::StoreUnavailable => ("store_unavailable", 503, "the store cannot be reached"),
            Self::ViewNotLoaded => ("view_not_loaded", 503, "the view of that region is not loaded"),
            Self::Draining => ("draining", 503, "the process is shutting down"),
            Self::OutcomeUnknown => ("outcome_unknown", 504, "the outcome of the write is unknown"),
            Self::Internal => ("internal", 500, "a defect in Rollcall"),
        }
    }

    /// The stable text of the code.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.facts().0
    }

    /// The HTTP status.
    #[must_use]
    pub const fn status(self) -> u16 {
        self.facts().1
    }

    /// The human title, the same for every occurrence.
    #[must_use]
    pub const fn title(self) -> &'static str {
        self.facts().2
    }

    /// The code with this text, if there is one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.as_str() == text)
    }

    /// Whether the same request may succeed later, so that the answer carries `Retry-After`.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        matches!(self.status(), 429 | 503)
    }
}

/// One thing that is wrong with an input: where and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The closest code.
    pub code: Code,
    /// JSON pointer (RFC 6901) into the body, or the parameter's name.
    pub pointer: String,
    /// What is wrong and what to do, as a sentence without full stop.
    pub detail: String,
}

impl Invalid {
    /// Makes a finding.
    pub fn new(code: Code, pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { code, pointer: pointer.into(), detail: detail.into() }
    }
}

impl std::fmt::Display for Invalid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.pointer, self.detail)
    }
}

impl std::error::Error for Invalid {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back_from_its_text() {
        for code in Code::ALL {
            assert_eq!(Code::parse(code.as_str()), Some(code));
        }
        assert_eq!(Code::parse("no_such_code"), None);
    }
}
