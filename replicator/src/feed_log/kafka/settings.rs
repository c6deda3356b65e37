//! Settings of the clients, each that differs from Kafka's default with its reason.
//!
//! The defaults are made for throughput and patience; a feed wants to notice a dead broker in seconds.

use rdkafka::ClientConfig;

use crate::config::Brokers;

/// What every client has.
pub(super) fn client(brokers: &Brokers) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", &brokers.list)
        .set("client.id", "rollcall-replicator")
        // A frozen broker is given up after 3 s instead of 60 s: only then does the client turn to another.
        .set("socket.timeout.ms", "3000")
        .set("socket.connection.setup.timeout.ms", "3000")
        .set("socket.keepalive.enable", "true")
        // A restarted broker is found within a second instead of ten.
        .set("reconnect.backoff.ms", "100")
        .set("reconnect.backoff.max.ms", "1000")
        // A new leader is learnt of within a second instead of five minutes.
        .set("topic.metadata.refresh.interval.ms", "1000")
        // Only a publisher creates topics, with their settings; nobody's question may.
        .set("allow.auto.create.topics", "false");
    for (name, value) in brokers.access.properties() {
        config.set(name, value);
    }
    config
}

/// The producer of feeds and snapshots.
pub(super) fn producer(brokers: &Brokers) -> ClientConfig {
    let mut config = client(brokers);
    config
        // Retries neither double nor overtake.
        .set("enable.idempotence", "true")
        .set("acks", "all")
        // Two milliseconds gather a burst into one request and are not felt across regions.
        .set("linger.ms", "2")
        // A body of 1 MiB, its headers and the framing of the batch; the topics allow as much.
        .set("message.max.bytes", "1114112")
        // A record that is given up by itself lets those behind it pass, and leaves a hole. So none is: whoever has waited
        // long enough lets go of the producer, and with it of all that it holds.
        .set("message.timeout.ms", "0")
        // The same for a record that the broker refuses: none behind it passes.
        .set("enable.gapless.guarantee", "true")
        // The publisher bounds what it has under way; these bounds are only behind it.
        .set("queue.buffering.max.messages", "10000")
        .set("queue.buffering.max.kbytes", "65536");
    config
}

/// A consumer that is told where to read and never decides it.
pub(super) fn consumer(brokers: &Brokers) -> ClientConfig {
    let mut config = client(brokers);
    config
        // Needed by the client even when no group is joined.
        .set("group.id", "rollcall-replicator")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        // An offset that is gone is an error, never a jump to an end (museum B63).
        .set("auto.offset.reset", "error")
        // Read ahead by at most so much of one topic: the pages of a snapshot come one after the other.
        .set("queued.max.messages.kbytes", "8192")
        .set("fetch.message.max.bytes", "2097152");
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b63_no_setting_lets_the_client_skip_ahead_in_silence() {
        let brokers = Brokers::plain("127.0.0.1:1");
        let config = consumer(&brokers);
        assert_eq!(config.get("auto.offset.reset"), Some("error"));
        assert_eq!(config.get("enable.auto.commit"), Some("false"));
        assert!(config.get("group.id").is_some(), "assigning fails without a group id");
        assert_eq!(producer(&brokers).get("acks"), Some("all"));
    }
}
