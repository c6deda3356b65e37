//! Names and settings of topics. The settings are data, in `infra/kafka/topics.toml`, built into the program.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rollcall_model::Region;
use serde::Deserialize;

/// The file, as it was when this was compiled.
pub const SETTINGS: &str = include_str!("../../../infra/kafka/topics.toml");

/// One topic by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic(Arc<str>);

/// What a topic is created with.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopicSettings {
    /// The name, with `<region>` for the region's.
    pub name: String,
    /// How many partitions; a feed has one.
    pub partitions: i32,
    /// How many copies; -1 is the cluster's default.
    pub replication_factor: i32,
    /// The log's own settings.
    pub config: BTreeMap<String, String>,
}

/// The settings of a region's two topics.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Deltas and bookmarks.
    pub feed: TopicSettings,
    /// Complete states in pages.
    pub snapshot: TopicSettings,
}

impl Topic {
    /// Where a region's deltas and bookmarks stand.
    #[must_use]
    pub fn feed(region: &Region) -> Self {
        Self(format!("feed.{region}.v1").into())
    }

    /// Where a region's snapshots stand.
    #[must_use]
    pub fn snapshot(region: &Region) -> Self {
        Self(format!("snapshot.{region}.v1").into())
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl Settings {
    /// Reads the built-in file.
    ///
    /// # Errors
    /// When the file that was built in is not what this expects; a test keeps that from happening.
    pub fn built_in() -> Result<Self, String> {
        toml::from_str(SETTINGS).map_err(|error| error.to_string())
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed_log::BODY_BYTES_MAX;

    #[test]
    fn the_built_in_settings_can_carry_a_feed() {
        let region = Region::parse("eu-west").unwrap();
        let settings = Settings::built_in().unwrap();
        let topics = [(&settings.feed, Topic::feed(&region)), (&settings.snapshot, Topic::snapshot(&region))];
        for (topic, name) in topics {
            assert_eq!(topic.name.replace("<region>", region.as_str()), name.name());
            assert_eq!(topic.partitions, 1, "{name}: order is kept inside a partition only");
            assert_eq!(topic.config["cleanup.policy"], "delete", "{name}: compaction loses removals (F30)");
            let most: usize = topic.config["max.message.bytes"].parse().unwrap();
            assert!(most >= BODY_BYTES_MAX + 32 * 1024, "{name}: no room for headers");
        }
    }
}
