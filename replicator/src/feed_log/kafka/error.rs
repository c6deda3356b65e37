//! Kafka's errors by what the caller does next.

use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode as Code;

use crate::feed_log::{LogError, Topic};

/// Sorts an error of the client.
pub(super) fn sorted(error: &KafkaError, topic: &Topic) -> LogError {
    match error.rdkafka_error_code() {
        Some(Code::UnknownTopicOrPartition | Code::UnknownPartition | Code::UnknownTopic) => {
            LogError::NoTopic(topic.to_string())
        }
        Some(Code::MessageSizeTooLarge | Code::InvalidMessageSize) => LogError::TooLarge,
        Some(code) if is_lasting(code) => LogError::Refused(format!("{topic}: {code}")),
        Some(_) | None => LogError::Away(format!("{topic}: {error}")),
    }
}

/// The same for what is not about one topic: making a client, asking for all of them.
pub(super) fn of_client(error: &KafkaError) -> LogError {
    match error {
        KafkaError::ClientConfig(..) => LogError::Refused(error.to_string()),
        _ => LogError::Away(error.to_string()),
    }
}

/// Whether trying again does not help: somebody must change settings or rights.
pub(super) const fn is_lasting(code: Code) -> bool {
    matches!(
        code,
        Code::TopicAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::InvalidConfig
            | Code::InvalidTopic
            | Code::InvalidPartitions
            | Code::InvalidReplicationFactor
            | Code::PolicyViolation
            | Code::UnsupportedVersion
    )
}

/// Whether a follower may go on polling: the client reconnects by itself.
pub(super) fn is_passing(error: &KafkaError) -> bool {
    matches!(
        error,
        KafkaError::MessageConsumption(
            Code::AllBrokersDown
                | Code::BrokerTransportFailure
                | Code::BrokerDestroy
                | Code::Resolve
                | Code::OperationTimedOut
                | Code::RequestTimedOut
                | Code::NotLeaderForPartition
                | Code::LeaderNotAvailable
                | Code::UnknownTopicOrPartition
                | Code::NetworkException
        ) | KafkaError::PartitionEOF(_)
    )
}
