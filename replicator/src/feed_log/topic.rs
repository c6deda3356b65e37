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
    /// How many copies, where the cluster has as many brokers.
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

/// A setting of a topic that is not as it would be created: somebody changed it, or made the topic otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// Whose.
    pub topic: Topic,
    /// Kafka's name of it; `replication.factor` for the copies.
    pub setting: String,
    /// What it is.
    pub found: String,
    /// What it would be.
    pub wanted: String,
}

/// The copies that must have a record before it counts as taken.
const MIN_IN_SYNC: &str = "min.insync.replicas";

impl TopicSettings {
    /// What of this a cluster of so many brokers can hold: no more copies than brokers; and one copy less than there are
    /// must be able to take a record, or the loss of a single broker ends the feed. One copy is enough where there is one.
    #[must_use]
    pub fn on(&self, brokers: usize) -> Self {
        let copies = self.replication_factor.min(i32::try_from(brokers).unwrap_or(i32::MAX)).max(1);
        let mut settings = Self { replication_factor: copies, ..self.clone() };
        if let Some(least) = settings.config.get_mut(MIN_IN_SYNC)
            && let Ok(wanted) = least.parse::<i32>()
        {
            *least = wanted.min(copies - 1).max(1).to_string();
        }
        settings
    }

    /// What of a topic's settings is otherwise, on a cluster of so many brokers. More copies than wanted are no fault.
    #[must_use]
    pub fn drift(
        &self,
        topic: &Topic,
        brokers: usize,
        copies: usize,
        found: &BTreeMap<String, String>,
    ) -> Vec<Drift> {
        let drift = |setting: &str, found: &str, wanted: &str| Drift {
            topic: topic.clone(),
            setting: setting.to_owned(),
            found: found.to_owned(),
            wanted: wanted.to_owned(),
        };
        let mut drifts = Vec::new();
        let wanted = self.on(brokers).replication_factor;
        if i32::try_from(copies).is_ok_and(|copies| copies < wanted) {
            drifts.push(drift("replication.factor", &copies.to_string(), &wanted.to_string()));
        }
        // Beside the copies that are there: it cannot ask for more than them.
        for (setting, wanted) in &self.on(copies).config {
            match found.get(setting) {
                Some(found) if found != wanted => drifts.push(drift(setting, found, wanted)),
                Some(_) | None => {}
            }
        }
        drifts
    }
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

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} is {}, not {}", self.topic, self.setting, self.found, self.wanted)
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

    #[test]
    fn a_small_cluster_gets_what_it_can_hold_and_never_waits_for_a_copy_that_cannot_be() {
        let feed = Settings::built_in().unwrap().feed;
        for (brokers, copies, least) in [(0, 1, "1"), (1, 1, "1"), (2, 2, "1"), (3, 3, "2"), (9, 3, "2")] {
            let settings = feed.on(brokers);
            assert_eq!(settings.replication_factor, copies, "{brokers} brokers");
            assert_eq!(settings.config[MIN_IN_SYNC], least, "{brokers} brokers");
        }
    }

    #[test]
    fn what_differs_is_named_and_what_suits_the_cluster_is_no_drift() {
        let (region, feed) = (Region::parse("eu-west").unwrap(), Settings::built_in().unwrap().feed);
        let topic = Topic::feed(&region);
        let mut found = feed.on(1).config;
        found.insert("flush.ms".into(), "9".into());
        assert_eq!(
            feed.drift(&topic, 1, 1, &found),
            [],
            "one broker, one copy; what is not ours is not judged"
        );
        assert_eq!(feed.drift(&topic, 2, 3, &feed.on(3).config), [], "one of three brokers is down");
        found.insert("retention.ms".into(), "1000".into());
        let words: Vec<String> = feed.drift(&topic, 3, 1, &found).iter().map(Drift::to_string).collect();
        assert_eq!(
            words,
            [
                "feed.eu-west.v1: replication.factor is 1, not 3",
                "feed.eu-west.v1: retention.ms is 1000, not 86400000"
            ]
        );
    }
}
