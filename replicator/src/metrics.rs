//! Every figure of this crate, made in one place.

use rollcall_model::{Clock, Region};
use rollcall_runtime::Metrics;
use rollcall_runtime::meter::{Counter, KeyValue};
use rollcall_runtime::unsaved::Unsaved;
use tokio::sync::watch;

use crate::publisher::{Doing, Status};
use crate::views::Views;

/// The counters; clones count together.
#[derive(Clone, Debug)]
pub struct Figures {
    published: Counter<u64>,
    applied: Counter<u64>,
    resyncs: Counter<u64>,
    refused: Counter<u64>,
}

impl Figures {
    /// Makes the counters.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        Self {
            published: metrics.counter(
                "rollcall.replicator.feed.published",
                "{record}",
                "Records of the own region that the log acknowledged, by kind.",
            ),
            applied: metrics.counter(
                "rollcall.replicator.feed.applied",
                "{record}",
                "Records of other regions that moved a view on, by region.",
            ),
            resyncs: metrics.counter(
                "rollcall.replicator.view.resyncs",
                "{resync}",
                "Resyncs begun, by region and reason.",
            ),
            refused: metrics.counter(
                "rollcall.replicator.feed.refused",
                "{record}",
                "Records that were read and not taken: unreadable, or of another region.",
            ),
        }
    }

    pub(crate) fn published(&self, kind: &'static str, records: u64) {
        self.published.add(records, &[KeyValue::new("kind", kind)]);
    }

    pub(crate) fn applied(&self, region: &Region) {
        self.applied.add(1, &[label(region)]);
    }

    pub(crate) fn resync(&self, region: &Region, reason: &'static str) {
        self.resyncs.add(1, &[label(region), KeyValue::new("reason", reason)]);
    }

    pub(crate) fn refused(&self, region: &Region, records: u64) {
        if records > 0 {
            self.refused.add(records, &[label(region)]);
        }
    }
}

/// Makes the gauges, which read what is there when they are asked.
pub(crate) fn observe(
    metrics: &Metrics,
    views: &Views,
    publisher: Option<watch::Receiver<Status>>,
    clock: &Clock,
) {
    let (seen, now) = (views.clone(), clock.clone());
    metrics.observable_gauge(
        "rollcall.replicator.view.age",
        "s",
        "Time since a view was last known to be its origin's head.",
        move |gauge| {
            for view in seen.all() {
                if let Some(age) = view.age(now.now()) {
                    gauge.observe(age.as_secs_f64(), &[label(view.region())]);
                }
            }
        },
    );
    let Some(publisher) = publisher else { return };
    let (now, began, drifting) = (clock.clone(), clock.now(), publisher.clone());
    let (publishing, seen_at) = (publisher.clone(), clock.clone());
    metrics.observable_gauge(
        "rollcall.replicator.publisher.active",
        "",
        "1 while this process publishes the own region, 0 while it stands by, or the log takes nothing.",
        move |gauge| {
            let is_active = publishing.borrow().doing(seen_at.now()) == Doing::Publishing;
            gauge.observe(f64::from(u8::from(is_active)), &[]);
        },
    );
    metrics.observable_gauge(
        "rollcall.replicator.topic.drift",
        "{setting}",
        "Settings of the own region's topics that are not as they would be created.",
        move |gauge| gauge.observe(drifting.borrow().drift.len() as f64, &[]),
    );
    metrics.observable_gauge(
        "rollcall.replicator.publisher.lag",
        "s",
        "Time since the log last acknowledged a record of the own region.",
        move |gauge| {
            let heard = publisher.borrow().heard_at.unwrap_or(began);
            gauge.observe(now.now().since(heard).as_secs_f64(), &[]);
        },
    );
}

/// Makes the gauge of copies on disk.
pub(crate) fn copies(metrics: &Metrics, unsaved: Unsaved) {
    metrics.observable_gauge(
        "rollcall.replicator.copy.unsaved",
        "",
        "1 while the region's copy on disk cannot be written.",
        move |gauge| {
            for (region, why) in unsaved.all() {
                gauge.observe(f64::from(u8::from(why.is_some())), &[KeyValue::new("region", region)]);
            }
        },
    );
}

fn label(region: &Region) -> KeyValue {
    KeyValue::new("region", region.as_str().to_owned())
}
