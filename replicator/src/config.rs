//! The replicator's configuration file. Unknown keys are errors; `http.md`'s smallest file is a whole one.

mod access;

use std::path::PathBuf;
use std::time::Duration;

use rollcall_model::Region;
use rollcall_runtime::config::{Auth, Unusable};
use rollcall_runtime::listen::{self, Callers};
use serde::{Deserialize, Serialize};

use crate::publisher::plan::Schedule;

pub use access::{Access, Brokers};

/// Minutes between two snapshots, when nothing else is said: what a follower that starts has to read is that much of the
/// feed at most.
pub const SNAPSHOT_MINUTES: u64 = 5;
/// Bytes of deltas between two snapshots: about what a snapshot of a hundred thousand agents has itself.
pub const SNAPSHOT_BYTES: u64 = 64 * 1024 * 1024;

/// A replicator's configuration.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicatorConfig {
    /// The region that this replicator belongs to.
    pub region: String,
    /// Where the copies of the views are.
    pub data_dir: PathBuf,
    /// Addresses to listen on.
    pub listen: Listen,
    /// The own cell; needed to publish.
    #[serde(default)]
    pub cell: Option<CellConfig>,
    /// How Kafka lets this process in, wherever `[publish]` or `[[follow]]` say nothing of their own.
    #[serde(default)]
    pub kafka: Access,
    /// Where the own feed goes; left out, nothing is published.
    #[serde(default)]
    pub publish: Option<PublishConfig>,
    /// The regions that are followed. Taking one out drops its view; nothing else does (I38).
    #[serde(default)]
    pub follow: Vec<FollowConfig>,
    /// Who may call.
    #[serde(default)]
    pub auth: Option<Auth>,
}

/// Addresses to listen on.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// The views over gRPC.
    pub grpc: String,
    /// Health, metrics and the list of regions.
    pub http: String,
}

/// The own cell.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CellConfig {
    /// gRPC URLs of its processes, tried in turn.
    pub endpoints: Vec<String>,
}

/// Where the own feed goes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PublishConfig {
    /// Which log.
    pub kind: LogKind,
    /// Kafka's brokers, `host:port` by commas.
    #[serde(default)]
    pub brokers: String,
    /// A snapshot at the latest this many minutes after the one before; 1 to 1,440, default 5.
    #[serde(default = "snapshot_minutes")]
    pub snapshot_minutes: u64,
    /// Or after so many bytes of deltas; 1 MiB at least, default 64 MiB.
    #[serde(default = "snapshot_bytes")]
    pub snapshot_bytes: u64,
    /// How these brokers let this process in, in place of the whole of `[kafka]`.
    #[serde(default)]
    pub kafka: Option<Access>,
}

const fn snapshot_minutes() -> u64 {
    SNAPSHOT_MINUTES
}

const fn snapshot_bytes() -> u64 {
    SNAPSHOT_BYTES
}

/// A region that is followed.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FollowConfig {
    /// Its name.
    pub region: String,
    /// Which log.
    pub kind: LogKind,
    /// Kafka's brokers of that region, `host:port` by commas.
    #[serde(default)]
    pub brokers: String,
    /// How these brokers let this process in, in place of the whole of `[kafka]`.
    #[serde(default)]
    pub kafka: Option<Access>,
}

/// Which log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogKind {
    /// Kafka 2.4 or newer.
    Kafka,
    /// The process's own memory: only where several regions share a process, as in `rollcall dev`.
    Memory,
}

impl PublishConfig {
    /// When snapshots are written.
    #[must_use]
    pub fn schedule(&self) -> Schedule {
        Schedule { every: Duration::from_secs(60 * self.snapshot_minutes), every_bytes: self.snapshot_bytes }
    }
}

impl ReplicatorConfig {
    /// The brokers of one list, spoken to as its own section says, or else `[kafka]`.
    pub(crate) fn brokers(&self, list: &str, own: Option<&Access>) -> Brokers {
        Brokers { list: list.to_owned(), access: own.unwrap_or(&self.kafka).clone() }
    }

    /// Checks what the types cannot say.
    ///
    /// # Errors
    /// The first key that cannot work.
    pub fn check(&self) -> Result<(), Unusable> {
        self.faults().into_iter().next().map_or(Ok(()), Err)
    }

    /// Checks also what only a process of its own must not say.
    ///
    /// # Errors
    /// As [`Self::check`]; also the log in memory, which only a shared process has.
    pub fn check_alone(&self) -> Result<(), Unusable> {
        self.faults_alone().into_iter().next().map_or(Ok(()), Err)
    }

    /// Every key that cannot work, in the order of the file.
    #[must_use]
    pub fn faults(&self) -> Vec<Unusable> {
        let mut found = Vec::new();
        found.extend(region("region", &self.region));
        let callers = if self.auth.is_some() { Callers::Judged } else { Callers::OwnMachine };
        for (key, address) in [("listen.grpc", &self.listen.grpc), ("listen.http", &self.listen.http)] {
            found.extend(listen::check(address, callers).err().map(|why| Unusable::new(key, why)));
        }
        if self.publish.is_none() && self.follow.is_empty() {
            found.push(Unusable::new("publish", "nothing to do: say [publish], [[follow]] or both"));
        }
        found.extend(self.kafka.check("kafka").err());
        if let Some(publish) = &self.publish {
            self.check_publish(publish, &mut found);
        }
        let mut seen = vec![self.region.as_str()];
        for (at, follow) in self.follow.iter().enumerate() {
            let key = format!("follow[{at}].region");
            found.extend(region(&key, &follow.region));
            if seen.contains(&follow.region.as_str()) {
                let why = format!("{} is the own region or stands there twice", follow.region);
                found.push(Unusable::new(key, why));
            }
            seen.push(&follow.region);
            found.extend(brokers(&format!("follow[{at}].brokers"), follow.kind, &follow.brokers));
            if let Some(access) = &follow.kafka {
                found.extend(access.check(&format!("follow[{at}].kafka")).err());
            }
        }
        found
    }

    /// As [`Self::faults`]; also what only a process of its own must not say.
    #[must_use]
    pub fn faults_alone(&self) -> Vec<Unusable> {
        let publish = self.publish.iter().map(|publish| ("publish.kind".to_owned(), publish.kind));
        let follow = self.follow.iter().enumerate();
        let follow = follow.map(|(at, follow)| (format!("follow[{at}].kind"), follow.kind));
        let memory = publish.chain(follow).filter(|(_, kind)| *kind == LogKind::Memory);
        let alone = "a process of its own shares no memory: say kafka";
        let mut found = self.faults();
        if self.data_dir.as_os_str().is_empty() {
            found.push(Unusable::new("data_dir", "it must name a directory"));
        }
        found.extend(memory.map(|(key, _)| Unusable::new(key, alone)));
        found
    }

    fn check_publish(&self, publish: &PublishConfig, found: &mut Vec<Unusable>) {
        found.extend(brokers("publish.brokers", publish.kind, &publish.brokers));
        if let Some(access) = &publish.kafka {
            found.extend(access.check("publish.kafka").err());
        }
        if !(1..=1_440).contains(&publish.snapshot_minutes) {
            found.push(Unusable::new("publish.snapshot_minutes", "it must be from 1 to 1440"));
        }
        if publish.snapshot_bytes < 1024 * 1024 {
            found.push(Unusable::new("publish.snapshot_bytes", "it must be at least 1048576"));
        }
        let endpoints = self.cell.as_ref().map(|cell| cell.endpoints.as_slice()).unwrap_or_default();
        if endpoints.is_empty() {
            let why = "publishing needs the cell's gRPC URL, as in http://127.0.0.1:7401";
            found.push(Unusable::new("cell.endpoints", why));
        }
        for endpoint in endpoints {
            if !listen::is_http_url(endpoint) {
                let why = format!("{endpoint:?} is no http URL, as in http://127.0.0.1:7401");
                found.push(Unusable::new("cell.endpoints", why));
            }
        }
    }
}

fn region(key: &str, text: &str) -> Option<Unusable> {
    Region::given(text).err().map(|finding| Unusable::new(key, finding.detail))
}

fn brokers(key: &str, kind: LogKind, brokers: &str) -> Option<Unusable> {
    let is_address = |broker: &str| listen::is_host_and_port(broker.trim());
    match kind {
        LogKind::Memory if brokers.is_empty() => None,
        LogKind::Memory => Some(Unusable::new(key, "the log in memory has no brokers")),
        LogKind::Kafka if brokers.split(',').all(is_address) => None,
        LogKind::Kafka => {
            Some(Unusable::new(key, format!("{brokers:?} is no list of host:port, as in 127.0.0.1:9092")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALLEST: &str = r#"
region = "us-east"
data_dir = "/var/lib/rollcall-replicator"

[listen]
grpc = "127.0.0.1:7500"
http = "127.0.0.1:7501"

[cell]
endpoints = ["http://127.0.0.1:7401"]

[publish]
kind = "kafka"
brokers = "127.0.0.1:9092"

[[follow]]
region = "eu-west"
kind = "kafka"
brokers = "127.0.0.1:9092"
"#;

    fn refusal(change: impl Fn(&str) -> String) -> String {
        let config: ReplicatorConfig = toml::from_str(&change(SMALLEST)).expect("well-formed");
        config.check().expect_err("refused").key
    }

    #[test]
    fn the_smallest_file_is_a_whole_one() {
        let config: ReplicatorConfig = toml::from_str(SMALLEST).unwrap();
        config.check().unwrap();
        let schedule = config.publish.unwrap().schedule();
        assert_eq!(schedule, Schedule { every: Duration::from_secs(300), every_bytes: 64 * 1024 * 1024 });
    }

    #[test]
    fn an_unknown_key_is_refused() {
        let text = SMALLEST.replace("[publish]", "[publish]\nbroker = \"x\"");
        let error = toml::from_str::<ReplicatorConfig>(&text).expect_err("refused");
        assert!(error.message().contains("broker"), "{error}");
    }

    #[test]
    fn what_cannot_work_is_named_by_its_key() {
        assert_eq!(refusal(|text| text.replace("127.0.0.1:7500", "0.0.0.0:7500")), "listen.grpc");
        assert_eq!(refusal(|text| text.replace("127.0.0.1:7501", "registry:7501")), "listen.http");
        assert_eq!(refusal(|text| text.replace("us-east", "US")), "region");
        assert_eq!(refusal(|text| text.replace("eu-west", "us-east")), "follow[0].region");
        assert_eq!(refusal(|text| text.replacen("127.0.0.1:9092", "here", 1)), "publish.brokers");
        assert_eq!(refusal(|text| text.replace("http://127.0.0.1:7401", "127.0.0.1:7401")), "cell.endpoints");
        assert_eq!(
            refusal(|text| text.replace("[publish]", "[publish]\nsnapshot_minutes = 0")),
            "publish.snapshot_minutes"
        );
        assert_eq!(
            refusal(|text| format!("{text}[follow.kafka]\nsecurity_protocol = \"tls\"")),
            "follow[0].kafka.security_protocol"
        );
    }

    #[test]
    fn brokers_are_spoken_to_as_their_section_says_or_as_all() {
        let text = SMALLEST.replace("[publish]", "[kafka]\nsecurity_protocol = \"ssl\"\n\n[publish]")
            + "[follow.kafka]\nsecurity_protocol = \"plaintext\"";
        let config: ReplicatorConfig = toml::from_str(&text).unwrap();
        config.check().unwrap();
        let protocol = |own: Option<&Access>| config.brokers("h:1", own).access.security_protocol.unwrap();
        assert_eq!(protocol(config.publish.as_ref().unwrap().kafka.as_ref()), "ssl");
        assert_eq!(protocol(config.follow[0].kafka.as_ref()), "plaintext");
    }

    #[test]
    fn listening_elsewhere_needs_a_word_on_auth() {
        let text = SMALLEST.replace("127.0.0.1:7500", "0.0.0.0:7500") + "[auth]\nmode = \"none\"\n";
        toml::from_str::<ReplicatorConfig>(&text).unwrap().check().unwrap();
    }
}
