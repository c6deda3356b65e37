//! The runner's end of the zones' processes: starts them, tells them, and writes down what they say.

use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;

use super::layout::{Layout, Place};
use super::programs::within;
use super::record::Record;
use super::scenario::{Scenario, Zone};
use super::words::{Orders, Said, Told};
use super::zone;
use crate::timeline::Timeline;

/// How long a zone may take to have all its agents registered: thousands come in at what a cell admits.
const READY_WITHIN: Duration = Duration::from_secs(240);
/// How long calls in flight may take to end, on a machine that has much else to do.
const FINISHED_WITHIN: Duration = Duration::from_secs(120);

/// How far a zone's process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Starting,
    Ready,
    Finished,
    Ended,
}

#[derive(Debug)]
struct Running {
    zone: String,
    input: ChildStdin,
    stage: watch::Receiver<Stage>,
    child: Child,
}

/// The zones' processes; dropping them ends them.
#[derive(Debug)]
pub struct Zones(Vec<Running>);

impl Zones {
    /// Starts one for each zone with something in it, and waits until all agents are registered.
    ///
    /// # Errors
    /// Which one did not come up.
    pub async fn start(
        scenario: &Scenario,
        layout: &Layout,
        seed: u64,
        folder: &Path,
        record: &Arc<Mutex<Record>>,
        timeline: Timeline,
    ) -> Result<Self, String> {
        let mut zones = Self(Vec::new());
        for (n, (zone, place)) in (0..).zip(scenario.zones.iter().zip(&layout.places)) {
            if zone.instances + zone.callers + zone.writers == 0 {
                continue;
            }
            let orders = orders(scenario, layout, zone, place, seed.wrapping_add(n), timeline);
            zones.0.push(spawn(&orders, folder, record).await?);
        }
        zones.reach(Stage::Ready, READY_WITHIN).await?;
        Ok(zones)
    }

    /// Tells all of them.
    ///
    /// # Errors
    /// Which one has ended.
    pub async fn tell(&mut self, told: Told) -> Result<(), String> {
        let line = serde_json::to_string(&told).map_err(|error| error.to_string())? + "\n";
        for running in &mut self.0 {
            let written = running.input.write_all(line.as_bytes()).await;
            written.map_err(|error| format!("zone {}: {error}", running.zone))?;
        }
        Ok(())
    }

    /// Ends the processes of these zones by SIGKILL; whether there were as many.
    pub async fn kill(&mut self, zones: &[String]) -> bool {
        let mut gone = 0;
        for running in self.0.iter_mut().filter(|running| zones.contains(&running.zone)) {
            gone += usize::from(running.child.kill().await.is_ok());
        }
        self.0.retain(|running| !zones.contains(&running.zone));
        gone == zones.len()
    }

    /// Ends callers and writers, and waits until everything was said.
    ///
    /// # Errors
    /// Which one has ended, or did not finish.
    pub async fn finish(&mut self) -> Result<(), String> {
        self.tell(Told::Finish).await?;
        self.reach(Stage::Finished, FINISHED_WITHIN).await
    }

    async fn reach(&mut self, stage: Stage, within: Duration) -> Result<(), String> {
        let deadline = tokio::time::Instant::now() + within;
        for running in &mut self.0 {
            let zone = &running.zone;
            let reached = tokio::time::timeout_at(deadline, running.stage.wait_for(|at| *at >= stage)).await;
            match reached.map(|at| at.map(|at| *at)) {
                Ok(Ok(at)) if at != Stage::Ended => {}
                Ok(_) => return Err(format!("the process of zone {zone} has ended; its log tells why")),
                Err(_) => return Err(format!("zone {zone} is not {stage:?} after {within:?}")),
            }
        }
        Ok(())
    }
}

fn orders(
    scenario: &Scenario,
    layout: &Layout,
    zone: &Zone,
    place: &Place,
    seed: u64,
    timeline: Timeline,
) -> Orders {
    let others = scenario.regions().into_iter().filter(|region| *region != zone.region);
    Orders {
        now: timeline.now(),
        told: SystemTime::now(),
        zone: zone.name.clone(),
        region: zone.region.clone(),
        failover: others.map(str::to_owned).collect(),
        address: place.address,
        cells: layout.cells_from(place),
        instances: zone.instances,
        names: scenario.fleet.names,
        lease: Duration::from_secs(scenario.fleet.lease_s),
        callers: zone.callers,
        call_every: Duration::from_millis(scenario.traffic.call_every_ms),
        writers: zone.writers,
        write_every: Duration::from_millis(scenario.traffic.write_every_ms),
        stale_words: scenario.traffic.stale_words,
        seed,
    }
}

async fn spawn(orders: &Orders, folder: &Path, record: &Arc<Mutex<Record>>) -> Result<Running, String> {
    let zone = orders.zone.clone();
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let log = std::fs::File::create(folder.join(format!("zone-{zone}.log"))).map_err(|e| e.to_string())?;
    let mut child = Command::new("ip")
        .args(within(&zone, &own, &[zone::VERB.to_owned()]))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("zone {zone}: {error}"))?;
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(format!("zone {zone} has no input or output"));
    };
    let line = serde_json::to_string(orders).map_err(|error| error.to_string())? + "\n";
    input.write_all(line.as_bytes()).await.map_err(|error| format!("zone {zone}: {error}"))?;
    let (stage, stages) = watch::channel(Stage::Starting);
    let record = Arc::clone(record);
    let name = zone.clone();
    tokio::spawn(async move {
        let mut lines = BufReader::new(output).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            match serde_json::from_str(&line) {
                Ok(Said::Ready) => drop(stage.send_replace(Stage::Ready)),
                Ok(Said::Finished) => drop(stage.send_replace(Stage::Finished)),
                Ok(said) => write_down(&mut record.lock().unwrap(), said),
                Err(error) => record.lock().unwrap().mishaps.push(format!("zone {name}: {error}: {line}")),
            }
        }
        stage.send_replace(Stage::Ended);
    });
    Ok(Running { zone, input, stage: stages, child })
}

fn write_down(record: &mut Record, said: Said) {
    match said {
        Said::Granted(granted) => record.granted.push(granted),
        Said::Tick(tick) => record.ticks.push(tick),
        Said::Failed(failed) => record.failed.push(failed),
        Said::Empty(empty) => record.empty.push(empty),
        Said::Sight(sight) => record.sights.push(sight),
        Said::Wrote(op) => record.ops.push(op),
        Said::Ready | Said::Finished => {}
    }
}
