//! Section `[health]`: when reported load degrades an instance, and how often it is written.

use std::time::Duration;

use rollcall_model::LoadLimits;
use serde::{Deserialize, Serialize};

use super::Faults;

/// When reported load degrades a healthy instance, and how often it is written. The reasons of the defaults stand with
/// [`LoadLimits`].
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct HealthConfig {
    /// Waiting pieces of work that degrade it, 1 or more; 100.
    pub degraded_queue_depth: u32,
    /// At so many or fewer it recovers; below the former; 50.
    pub recovered_queue_depth: u32,
    /// Share of failures that degrades it, above 0, at most 1; 0.3.
    pub degraded_error_rate: f64,
    /// At such a share or less it recovers; below the former; 0.1.
    pub recovered_error_rate: f64,
    /// Seconds between two writes of one instance's load in the long run, 1-3600; 30.
    pub load_write_seconds: u32,
    /// Writes of one instance's load at once, 1-100; 4.
    pub load_write_burst: u32,
}

impl Default for HealthConfig {
    fn default() -> Self {
        let limits = LoadLimits::default();
        Self {
            degraded_queue_depth: limits.degraded_queue,
            recovered_queue_depth: limits.recovered_queue,
            degraded_error_rate: limits.degraded_errors,
            recovered_error_rate: limits.recovered_errors,
            load_write_seconds: u32::try_from(limits.write_every.as_secs()).unwrap_or(u32::MAX),
            load_write_burst: limits.write_burst,
        }
    }
}

impl HealthConfig {
    /// What the model takes.
    #[must_use]
    pub fn limits(&self) -> LoadLimits {
        LoadLimits {
            degraded_queue: self.degraded_queue_depth,
            recovered_queue: self.recovered_queue_depth,
            degraded_errors: self.degraded_error_rate,
            recovered_errors: self.recovered_error_rate,
            write_every: Duration::from_secs(u64::from(self.load_write_seconds)),
            write_burst: self.load_write_burst,
        }
    }

    /// Checks what the types cannot say.
    pub(super) fn check(&self, found: &mut Faults) {
        found.unless(
            "health.recovered_queue_depth",
            self.recovered_queue_depth < self.degraded_queue_depth,
            "it is below degraded_queue_depth, or the lifecycle would swing with the queue",
        );
        // Ranges, so that a number that is none is refused too.
        found.unless(
            "health.degraded_error_rate",
            0.0 < self.degraded_error_rate && self.degraded_error_rate <= 1.0,
            "it is a share above 0, at most 1, as in 0.3",
        );
        found.unless(
            "health.recovered_error_rate",
            0.0 <= self.recovered_error_rate
                && (self.recovered_error_rate < self.degraded_error_rate
                    || self.degraded_error_rate.is_nan()),
            "it is a share below degraded_error_rate, as in 0.1",
        );
        found.unless(
            "health.load_write_seconds",
            (1..=3_600).contains(&self.load_write_seconds),
            "it is 1-3600",
        );
        found.unless("health.load_write_burst", (1..=100).contains(&self.load_write_burst), "it is 1-100");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str) -> Vec<String> {
        let config: HealthConfig = toml::from_str(text).unwrap();
        let mut found = Faults::default();
        config.check(&mut found);
        found.0.into_iter().map(|unusable| unusable.key).collect()
    }

    #[test]
    fn the_defaults_are_the_models_and_pass() {
        assert_eq!(HealthConfig::default().limits(), LoadLimits::default());
        assert!(checked("").is_empty());
        assert!(checked("degraded_queue_depth = 10\nrecovered_queue_depth = 0").is_empty());
    }

    #[test]
    fn what_would_swing_or_never_write_is_refused_with_its_key() {
        for (text, key) in [
            ("degraded_queue_depth = 50", "health.recovered_queue_depth"),
            ("degraded_error_rate = 0.0", "health.degraded_error_rate"),
            ("degraded_error_rate = 1.1", "health.degraded_error_rate"),
            ("degraded_error_rate = nan", "health.degraded_error_rate"),
            ("degraded_error_rate = 0.1", "health.recovered_error_rate"),
            ("recovered_error_rate = -0.1", "health.recovered_error_rate"),
            ("load_write_seconds = 0", "health.load_write_seconds"),
            ("load_write_burst = 0", "health.load_write_burst"),
        ] {
            assert_eq!(checked(text).first().map(String::as_str), Some(key), "{text}");
        }
    }
}
