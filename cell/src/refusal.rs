//! Why a use case was refused, in the caller's terms: one type for HTTP, gRPC and logs.

use std::time::Duration;

use rollcall_model::{Code, Epoch, Invalid, Registration};

use crate::store::StoreError;
use crate::store::silence::Ailing;

/// Who holds the instance now, for the loser of an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Current {
    /// Its epoch.
    pub epoch: Epoch,
    /// Its first endpoint's URL.
    pub endpoint: String,
}

/// A refusal: what, why, and when to try again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The stable code.
    pub code: Code,
    /// A sentence for people.
    pub detail: String,
    /// What is wrong with the input, place by place.
    pub findings: Vec<Invalid>,
    /// With `superseded`.
    pub current: Option<Current>,
    /// When the same call may succeed; the edge adds jitter.
    pub retry_after: Option<Duration>,
}

/// How long a caller waits before it tries a store again that is away: an election of etcd takes about that.
const STORE_RETRY: Duration = Duration::from_secs(2);

impl Refusal {
    /// A plain refusal.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        let retry_after = code.is_retryable().then_some(Duration::from_secs(1));
        Self { code, detail: detail.into(), findings: Vec::new(), current: None, retry_after }
    }

    /// Bad input. The first finding's code is the answer's.
    #[must_use]
    pub fn invalid(findings: Vec<Invalid>) -> Self {
        let first = findings.first();
        let code = first.map_or(Code::InvalidBody, |finding| finding.code);
        let detail = match findings.as_slice() {
            [one] if one.pointer.is_empty() => one.detail.clone(),
            [one] => one.to_string(),
            more => format!("{} things are wrong; see errors", more.len()),
        };
        Self { findings, ..Self::new(code, detail) }
    }

    /// This epoch does not hold the instance: another one does.
    #[must_use]
    pub fn superseded(current: &Registration, epoch: Epoch) -> Self {
        let endpoint = current.declared.endpoints.first().map(|e| e.url().to_owned()).unwrap_or_default();
        let detail = if epoch > current.epoch {
            format!("epoch {epoch} was never issued for this instance: {} holds it", current.epoch)
        } else {
            "a newer registration holds this instance".to_owned()
        };
        Self {
            current: Some(Current { epoch: current.epoch, endpoint }),
            ..Self::new(Code::Superseded, detail)
        }
    }

    /// There is no such registration.
    #[must_use]
    pub fn not_registered(id: &str) -> Self {
        Self::new(Code::NotRegistered, format!("{id} is not registered"))
    }

    /// The store is not used: what was found out about it, and what to do.
    #[must_use]
    pub fn ailing(ailing: &Ailing) -> Self {
        Self {
            retry_after: Some(STORE_RETRY),
            ..Self::new(
                Code::StoreUnavailable,
                format!("nothing was written: {}; {}", ailing.why, ailing.remedy),
            )
        }
    }

    /// What the store said. [`StoreError::Unknown`] stays unknown: never "failed", never "done" (I15).
    #[must_use]
    pub fn store(error: &StoreError) -> Self {
        match error {
            StoreError::Unknown(_) => Self::new(Code::OutcomeUnknown, error.to_string()),
            StoreError::Full(bound) => Self {
                retry_after: Some(STORE_RETRY),
                ..Self::new(
                    Code::StoreUnavailable,
                    format!("nothing was written: {error}; {}", bound.remedy()),
                )
            },
            StoreError::Unavailable(_) | StoreError::Late(_) | StoreError::Foreign(..) => Self {
                retry_after: Some(STORE_RETRY),
                ..Self::new(Code::StoreUnavailable, format!("nothing was written: {error}"))
            },
            StoreError::Compacted(_) | StoreError::Ahead(_) | StoreError::Refused(_) => {
                Self::new(Code::Internal, format!("nothing was written: {error}"))
            }
        }
    }
}
