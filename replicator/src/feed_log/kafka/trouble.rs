//! What a producer's client says of its connections while its records wait: the only word there is before they are given
//! up, since they are sent again and again in silence.

use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::client::ClientContext;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;

/// The last of it; clones share it.
#[derive(Clone, Default)]
pub(super) struct Trouble(Arc<Mutex<Option<String>>>);

impl Trouble {
    /// What was said last, if anything was since the last record that was taken.
    pub(super) fn last(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A record was taken: what was said before is over.
    pub(super) fn is_over(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl ClientContext for Trouble {
    fn error(&self, error: KafkaError, reason: &str) {
        // One broker of several may be gone without harm: whoever waits for a record decides what it means.
        tracing::debug!(%error, reason, "trouble of the log's producer");
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // That all are down is the sum of what was said of each, and says less.
        let is_sum = error.rdkafka_error_code() == Some(RDKafkaErrorCode::AllBrokersDown);
        if !is_sum || last.is_none() {
            *last = Some(reason.to_owned());
        }
    }
}
