//! Metrics: the only way to make an instrument, and their text for a Prometheus scrape.
//!
//! Promises: names follow `rollcall.<crate>.<noun>.<measure>`, so that dashboards can be written before the code. Each
//! `Metrics` owns its registry; two roles in one process never share or overwrite a figure. It never pushes anything
//! anywhere, and an attribute's values are the caller's to keep few.

use opentelemetry::metrics::{Meter, MeterProvider};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::{Registry, TextEncoder};

pub use opentelemetry::KeyValue;
pub use opentelemetry::metrics::{AsyncInstrument, Counter, Gauge, Histogram};

/// The media type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

/// What may not end a name: the exporter derives it from the unit and the kind, and would say it twice.
const ADDED_BY_EXPORTER: [&str; 10] = [
    "total",
    "seconds",
    "milliseconds",
    "microseconds",
    "nanoseconds",
    "ms",
    "bytes",
    "ratio",
    "percent",
    "count",
];

/// Bounds for durations in seconds: from a memory look-up (0.1 ms) to the longest wait for an answer (30 s), two or three
/// a decade, because most of what is measured is a round trip somewhere in between.
const SECONDS: [f64; 16] =
    [0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// Bounds for sizes in bytes: from a small record (256 B) to past the largest message (1 MiB), fourfold steps.
const BYTES: [f64; 8] = [256.0, 1_024.0, 4_096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0, 4_194_304.0];

/// Bounds for plain numbers, such as the entries of a batch: 1, 2, 5 in each decade up to ten thousand.
const NUMBERS: [f64; 13] =
    [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0, 10_000.0];

/// The instruments of one role and their registry; clones share both.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Registry,
    meter: Meter,
    // Instruments record only while their provider lives.
    _provider: SdkMeterProvider,
}

impl Metrics {
    /// A registry with nothing in it.
    #[must_use]
    pub fn new() -> Self {
        let registry = Registry::new();
        let exporter = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .scope_info_enabled(false)
            .without_target_info()
            .build();
        let provider = match exporter {
            Ok(exporter) => SdkMeterProvider::builder().with_reader(exporter).build(),
            Err(error) => {
                // Serving without figures beats not serving.
                tracing::error!(%error, "no metrics: the exporter could not be set up");
                SdkMeterProvider::builder().build()
            }
        };
        Self { registry, meter: provider.meter("rollcall"), _provider: provider }
    }

    /// Makes a counter: how often something happened. `unit` is empty, a braced noun (`{record}`) or `By`.
    #[must_use]
    pub fn counter(&self, name: &'static str, unit: &'static str, description: &'static str) -> Counter<u64> {
        check(name);
        self.meter.u64_counter(name).with_unit(unit).with_description(description).build()
    }

    /// Makes a gauge that is set when the value changes.
    #[must_use]
    pub fn gauge(&self, name: &'static str, unit: &'static str, description: &'static str) -> Gauge<f64> {
        check(name);
        self.meter.f64_gauge(name).with_unit(unit).with_description(description).build()
    }

    /// Makes a histogram; the unit (`s`, `By` or other) chooses its bounds.
    #[must_use]
    pub fn histogram(
        &self,
        name: &'static str,
        unit: &'static str,
        description: &'static str,
    ) -> Histogram<f64> {
        check(name);
        let bounds = match unit {
            "s" => SECONDS.to_vec(),
            "By" => BYTES.to_vec(),
            _ => NUMBERS.to_vec(),
        };
        let histogram = self.meter.f64_histogram(name).with_unit(unit).with_description(description);
        histogram.with_boundaries(bounds).build()
    }

    /// Makes a gauge that is asked at each scrape. The callback must not wait: it runs on the scraping thread.
    ///
    /// It stays for the life of this `Metrics`, so it is made once; what it reads it holds weakly where that may go.
    pub fn observable_gauge(
        &self,
        name: &'static str,
        unit: &'static str,
        description: &'static str,
        callback: impl Fn(&dyn AsyncInstrument<f64>) + Send + Sync + 'static,
    ) {
        check(name);
        let gauge = self.meter.f64_observable_gauge(name).with_unit(unit).with_description(description);
        gauge.with_callback(callback).build();
    }

    /// Makes a counter that is asked at each scrape, for what is counted too often to be told one by one. What the
    /// callback gives never falls; of the callback itself holds what [`Metrics::observable_gauge`] says.
    pub fn observable_counter(
        &self,
        name: &'static str,
        unit: &'static str,
        description: &'static str,
        callback: impl Fn(&dyn AsyncInstrument<u64>) + Send + Sync + 'static,
    ) {
        check(name);
        let counter = self.meter.u64_observable_counter(name).with_unit(unit).with_description(description);
        counter.with_callback(callback).build();
    }

    /// All figures as Prometheus text, of the type [`CONTENT_TYPE`].
    #[must_use]
    pub fn render(&self) -> String {
        match TextEncoder::new().encode_to_string(&self.registry.gather()) {
            Ok(text) => text,
            Err(error) => {
                tracing::error!(%error, "metrics could not be written as text");
                String::new()
            }
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

fn check(name: &str) {
    if !is_name(name) {
        // In a redoor the instrument still works; a wrong name is no reason to fly blind.
        tracing::error!(metric = name, "metric name is not rollcall.<crate>.<noun>.<measure>");
    }
    debug_assert!(is_name(name), "metric name {name} is not rollcall.<crate>.<noun>.<measure>");
}

fn is_name(name: &str) -> bool {
    let parts: Vec<&str> = name.split('.').collect();
    let word = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_lowercase())
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let plain = |measure: &str| {
        !ADDED_BY_EXPORTER.iter().any(|added| {
            measure == *added || measure.strip_suffix(added).is_some_and(|rest| rest.ends_with('_'))
        })
    };
    match parts.as_slice() {
        ["rollcall", owner, noun, measure] => {
            [*owner, *noun, *measure].into_iter().all(word) && plain(measure)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn lines(metrics: &Metrics) -> Vec<String> {
        let text = metrics.render();
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    #[test]
    fn the_exporter_adds_unit_and_kind_to_the_name() {
        let metrics = Metrics::new();
        metrics.counter("rollcall.test.door.openings", "", "How often").add(2, &[]);
        metrics.counter("rollcall.test.door.traffic", "By", "How much").add(3, &[]);
        metrics.counter("rollcall.test.door.visitors", "{visitor}", "How many").add(4, &[]);
        metrics.gauge("rollcall.test.door.age", "s", "How old").record(1.5, &[]);
        let expected = [
            "rollcall_test_door_age_seconds 1.5",
            "rollcall_test_door_openings_total 2",
            "rollcall_test_door_traffic_bytes_total 3",
            "rollcall_test_door_visitors_total 4",
        ];
        assert_eq!(lines(&metrics), expected);
        assert!(metrics.render().contains("# HELP rollcall_test_door_age_seconds How old\n"));
        assert!(metrics.render().contains("# TYPE rollcall_test_door_age_seconds gauge\n"));
    }

    #[test]
    fn attributes_become_labels_and_sets_of_them_are_counted_apart() {
        let metrics = Metrics::new();
        let counter = metrics.counter("rollcall.test.door.openings", "", "How often");
        counter.add(1, &[KeyValue::new("outcome", "ok")]);
        counter.add(2, &[KeyValue::new("outcome", "refused")]);
        counter.add(3, &[KeyValue::new("outcome", "ok")]);
        assert_eq!(
            lines(&metrics),
            [
                r#"rollcall_test_door_openings_total{outcome="ok"} 4"#,
                r#"rollcall_test_door_openings_total{outcome="refused"} 2"#,
            ]
        );
    }

    #[test]
    fn a_histogram_of_seconds_has_bounds_fit_for_seconds() {
        let metrics = Metrics::new();
        let histogram = metrics.histogram("rollcall.test.door.duration", "s", "How long");
        histogram.record(0.003, &[]);
        histogram.record(60.0, &[]);
        let lines = lines(&metrics);
        let has = |line: &str| assert!(lines.iter().any(|l| l == line), "{line} is missing in {lines:#?}");
        has(r#"rollcall_test_door_duration_seconds_bucket{le="0.0025"} 0"#);
        has(r#"rollcall_test_door_duration_seconds_bucket{le="0.005"} 1"#);
        has(r#"rollcall_test_door_duration_seconds_bucket{le="30"} 1"#);
        has(r#"rollcall_test_door_duration_seconds_bucket{le="+Inf"} 2"#);
        has("rollcall_test_door_duration_seconds_count 2");
    }

    #[test]
    fn bounds_rise() {
        for bounds in [&SECONDS[..], &BYTES[..], &NUMBERS[..]] {
            assert!(bounds.windows(2).all(|pair| pair[0] < pair[1]), "{bounds:?}");
        }
    }

    #[test]
    fn an_observable_gauge_is_asked_at_each_scrape() {
        let metrics = Metrics::new();
        let value = Arc::new(AtomicU64::new(1));
        let asked = Arc::clone(&value);
        metrics.observable_gauge("rollcall.test.room.people", "", "How many", move |gauge| {
            #[expect(clippy::cast_precision_loss, reason = "two people fit")]
            gauge.observe(asked.load(Ordering::Relaxed) as f64, &[KeyValue::new("room", "hall")]);
        });
        assert_eq!(lines(&metrics), [r#"rollcall_test_room_people{room="hall"} 1"#]);
        value.store(2, Ordering::Relaxed);
        assert_eq!(lines(&metrics), [r#"rollcall_test_room_people{room="hall"} 2"#]);
    }

    #[test]
    fn an_observable_counter_is_asked_at_each_scrape() {
        let metrics = Metrics::new();
        let value = Arc::new(AtomicU64::new(1));
        let asked = Arc::clone(&value);
        metrics.observable_counter("rollcall.test.door.openings", "", "How often", move |counter| {
            counter.observe(asked.load(Ordering::Relaxed), &[KeyValue::new("door", "front")]);
        });
        assert_eq!(lines(&metrics), [r#"rollcall_test_door_openings_total{door="front"} 1"#]);
        value.store(7, Ordering::Relaxed);
        assert_eq!(lines(&metrics), [r#"rollcall_test_door_openings_total{door="front"} 7"#]);
    }

    #[test]
    fn two_registries_share_nothing_and_clones_share_all() {
        let (one, other) = (Metrics::new(), Metrics::new());
        let counter = one.counter("rollcall.test.door.openings", "", "How often");
        counter.add(1, &[]);
        one.clone().counter("rollcall.test.door.openings", "", "How often").add(1, &[]);
        assert_eq!(lines(&one), ["rollcall_test_door_openings_total 2"]);
        assert_eq!(lines(&other), Vec::<String>::new());
    }

    #[test]
    fn the_name_grammar_is_held() {
        for good in ["rollcall.test.door.openings", "rollcall.a.b_2.c_d", "rollcall.test.record.subtotal"] {
            assert!(is_name(good), "{good}");
        }
        for bad in [
            "",
            "rollcall",
            "rollcall.test.door",
            "rollcall.test.door.openings.more",
            "other.cell.door.openings",
            "rollcall.Test.door.openings",
            "rollcall.test..openings",
            "rollcall.test.door.2nd",
            "rollcall.test.door.open-ings",
            "rollcall.test.door.openings_total",
            "rollcall.test.door.total",
            "rollcall.test.door.age_seconds",
            "rollcall.test.door.size_bytes",
        ] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
