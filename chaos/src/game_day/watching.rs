//! The observer: asks every process that holds regions how it stands, all the time, past every cut.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rollcall_tests::http::Http;
use serde_json::Value;
use tokio::task::JoinSet;

use super::record::{GuardSight, Record, Sight};
use crate::timeline::Timeline;

/// Between two questions to one process.
const PACE: Duration = Duration::from_millis(500);
/// How long an answer may take; one that stopped answering is no reason to wait.
const PATIENCE: Duration = Duration::from_secs(2);
/// The metric that an alert hangs on.
const METRIC: &str = "rollcall_cell_guard_holding";

/// A process of a cell or a replicator, to be asked.
#[derive(Clone, Debug)]
pub struct Watched {
    /// Its name.
    pub name: String,
    /// Whether it is a cell's; a replicator has views of other regions, and no guard.
    pub is_cell: bool,
    /// Its zone.
    pub zone: String,
    /// Its region.
    pub region: String,
    /// Its HTTP URL.
    pub url: String,
}

/// Starts asking; ends with the set that is given back.
#[must_use]
pub fn start(cells: Vec<Watched>, record: &Arc<Mutex<Record>>, timeline: Timeline) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for cell in cells {
        let record = Arc::clone(record);
        tasks.spawn(async move {
            let http = Http::patient(cell.url.clone(), PATIENCE);
            loop {
                let asked = timeline.now();
                let guard = async {
                    if cell.is_cell { http.get("/v1/guard").await } else { Err("it has none".to_owned()) }
                };
                // Each with its own moment: who cannot reach the keeper is long about the guard.
                let (regions, guard) =
                    tokio::join!(async { (http.get("/v1/regions").await, timeline.now()) }, guard);
                let at = timeline.now();
                let (answer, answered) = regions;
                let sights = answer.map(|answer| sights(&cell, &answer, asked, answered)).unwrap_or_default();
                let guard = match guard {
                    Ok(answer) => Some(guard_sight(&cell, &answer, is_alerted(&http).await, at)),
                    // Only the keeper's answer counts, and who cannot reach it says so.
                    Err(_) => None,
                };
                {
                    let mut record = record.lock().unwrap();
                    record.sights.extend(sights);
                    record.guards.extend(guard);
                }
                tokio::time::sleep(PACE).await;
            }
        });
    }
    tasks
}

async fn is_alerted(http: &Http) -> bool {
    let Ok(answer) = http.send("GET", "/metrics", &[], None).await else { return false };
    let text = String::from_utf8_lossy(&answer.bytes).into_owned();
    text.lines().any(|line| line.starts_with(METRIC) && !line.ends_with(" 0"))
}

fn sights(cell: &Watched, answer: &Value, asked: Duration, at: Duration) -> Vec<Sight> {
    let regions = answer["regions"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let sight = |region: &Value| {
        let position = &region["position"];
        let ordinal = position["incarnation"].as_str().and_then(|text| text.split('-').next()?.parse().ok());
        let revision = position["revision"].as_str().and_then(|text| text.parse().ok());
        Sight {
            holder: cell.name.clone(),
            cell: cell.is_cell,
            zone: cell.zone.clone(),
            region: text(&region["region"]),
            asked,
            at,
            position: ordinal.zip(revision),
            count: region["count"].as_u64().unwrap_or(0),
            digest: text(&region["digest"]),
            age_ms: region["age_ms"].as_u64().unwrap_or(0),
            resync: text(&region["last_resync"]["at"]),
        }
    };
    regions.map(sight).collect()
}

fn guard_sight(cell: &Watched, answer: &Value, alerted: bool, at: Duration) -> GuardSight {
    let cohorts = || answer["cohorts"].as_array().into_iter().flatten();
    let holding = cohorts().filter(|cohort| !cohort["since"].is_null());
    let holding = holding.filter_map(|cohort| cohort["cohort"].as_str()).map(str::to_owned).collect();
    let region = cohorts().find(|cohort| cohort["cohort"] == "region");
    let suspects = region.and_then(|cohort| cohort["suspects"].as_u64()).unwrap_or(0);
    GuardSight { region: cell.region.clone(), at, holding, suspects, alerted }
}
