//! The cell's figures: read from what is there when somebody asks.

use rollcall_model::{Clock, Phase, View};
use rollcall_runtime::meter::{AsyncInstrument, KeyValue, Metrics};
use rollcall_runtime::unsaved::Unsaved;

use crate::keeper::KeeperHandle;
use crate::regions::{Regions, Which};

/// Registers all gauges of a cell. Attributes are closed sets: regions of the configuration, never an id.
pub fn register(metrics: &Metrics, regions: &Regions, keeper: &KeeperHandle, clock: &Clock) {
    let per_view = |read: fn(&View, &Clock) -> Option<f64>| {
        let (regions, clock) = (regions.clone(), clock.clone());
        move |gauge: &dyn AsyncInstrument<f64>| {
            for view in regions.now(&Which::All).unwrap_or_default() {
                if let Some(value) = read(&view, &clock) {
                    gauge.observe(value, &[KeyValue::new("region", view.region().as_str().to_owned())]);
                }
            }
        }
    };
    metrics.observable_gauge(
        "rollcall.cell.view.age",
        "s",
        "Time since the region's state was last known to be its head.",
        per_view(|view, clock| view.age(clock.now()).map(|age| age.as_secs_f64())),
    );
    metrics.observable_gauge(
        "rollcall.cell.view.registrations",
        "{registration}",
        "Registrations in the region's state.",
        per_view(|view, _| view.state().map(|state| count(state.count()))),
    );
    metrics.observable_gauge(
        "rollcall.cell.view.resyncs",
        "{resync}",
        "Times the region's state was replaced by a snapshot since the process started.",
        per_view(|view, _| Some(count(view.resyncs()))),
    );
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        metrics.observable_gauge(
            "rollcall.cell.runtime.tasks",
            "{task}",
            "Tasks of the process that have not ended; they go with the calls and watches that they serve.",
            move |gauge| {
                let tasks = u64::try_from(runtime.metrics().num_alive_tasks()).unwrap_or(u64::MAX);
                gauge.observe(count(tasks), &[]);
            },
        );
    }
    let handle = keeper.clone();
    metrics.observable_gauge(
        "rollcall.cell.lease.kept",
        "{lease}",
        "Leases that this process keeps; 0 when it is not the keeper.",
        move |gauge| gauge.observe(count(handle.leases()), &[]),
    );
    let handle = keeper.clone();
    metrics.observable_gauge(
        "rollcall.cell.guard.holding",
        "",
        "1 while the cohort's expiry is held or settles.",
        move |gauge| {
            for cohort in handle.guard().map(|guard| guard.cohorts).unwrap_or_default() {
                let holding = if cohort.phase == Phase::Calm { 0.0 } else { 1.0 };
                gauge.observe(holding, &[KeyValue::new("cohort", cohort.cohort.to_string())]);
            }
        },
    );
    let handle = keeper.clone();
    metrics.observable_gauge(
        "rollcall.cell.guard.suspects",
        "{registration}",
        "Overdue registrations of the cohort, as the last sweep counted them.",
        move |gauge| {
            for cohort in handle.guard().map(|guard| guard.cohorts).unwrap_or_default() {
                gauge.observe(
                    count(cohort.census.suspects),
                    &[KeyValue::new("cohort", cohort.cohort.to_string())],
                );
            }
        },
    );
    let handle = keeper.clone();
    metrics.observable_gauge(
        "rollcall.cell.keeper.office",
        "",
        "1 while this process is the region's keeper.",
        move |gauge| gauge.observe(if handle.term().is_some() { 1.0 } else { 0.0 }, &[]),
    );
}

/// Registers the gauge of copies on disk.
pub fn copies(metrics: &Metrics, unsaved: Unsaved) {
    metrics.observable_gauge(
        "rollcall.cell.copy.unsaved",
        "",
        "1 while the region's copy on disk cannot be written.",
        move |gauge| {
            for (region, why) in unsaved.all() {
                gauge.observe(f64::from(u8::from(why.is_some())), &[KeyValue::new("region", region)]);
            }
        },
    );
}

/// Gauges are floating point; counts below 2^53 are exact.
#[allow(clippy::cast_precision_loss)]
const fn count(number: u64) -> f64 {
    number as f64
}
