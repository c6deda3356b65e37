//! Plays a scenario inside the sealed world: starts everything, takes the steps, and gives what was written down.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rollcall_tests::slow_link::{SlowLink, Way};
use tokio::task::JoinSet;

use super::layout::{Binaries, Kind, Layout, Program};
use super::network::Network;
use super::programs::Programs;
use super::record::{Fault, Record, Told as ToldOf};
use super::scenario::{Act, Scenario};
use super::watching::{self, Watched};
use super::words::Told;
use super::zones::Zones;
use super::{progress, promises};
use crate::check::{self, Rules};
use crate::digests::Digests;
use crate::origin::Origin;
use crate::readers::Readers;
use crate::tap::Tap;
use crate::timeline::Timeline;
use crate::topic_tap::{TopicTap, Topics};

/// Between two looks at what is due.
const PACE: Duration = Duration::from_millis(100);
/// Between two lines about how it is going.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// How long a store may take to say where its history ends.
const MARKED_WITHIN: Duration = Duration::from_secs(180);
/// How long views may take to be loaded, and calls to be answered, before the first step.
const STANDS_WITHIN: Duration = Duration::from_secs(240);
/// How long after the traffic every view may take to be its origin's head (I32), on a machine that has much else to do.
const CONVERGED_WITHIN: Duration = Duration::from_secs(120);
/// Between two looks at how late the run itself is.
const PULSE: Duration = Duration::from_millis(50);

/// A way that is slow now.
struct Slow {
    /// Of the fault in the record.
    place: usize,
    /// What the way had carried when it began.
    carried: u64,
    /// Of its packets.
    loss_percent: u8,
    /// Packets that were lost on it before.
    lost: u64,
}

/// The players of a run.
struct Game<'a> {
    scenario: &'a Scenario,
    layout: Layout,
    network: Network,
    zones: Zones,
    record: Arc<Mutex<Record>>,
    timeline: Timeline,
    /// Faults that have begun and are not over, by their place in the record.
    open: Vec<usize>,
    programs: Programs,
    /// Readers of the topics, by region; none where there is one region.
    topic_taps: BTreeMap<String, TopicTap>,
    /// The long ways, by the region that they lead from.
    ways: BTreeMap<String, SlowLink>,
    /// Those that are slow.
    slow: BTreeMap<String, Slow>,
    _watching: JoinSet<()>,
}

/// Plays it; what happens is told to `say` as it happens.
///
/// # Errors
/// It could not be set up or played to its end. A broken promise is no error.
pub async fn play(
    scenario: &Scenario,
    seed: u64,
    folder: &Path,
    binaries: &Binaries,
    say: fn(&str),
) -> Result<Record, String> {
    let layout = Layout::of(scenario, folder, binaries);
    let network = Network::make(&layout)?;
    let mut ways = BTreeMap::new();
    for way in &layout.ways {
        let open = SlowLink::open(&way.from, &way.to, Way::NONE).await;
        ways.insert(way.region.clone(), open.map_err(|error| format!("{}: {error}", way.from))?);
    }
    let programs = Programs::start(&layout, folder, |line| say(&line)).await?;
    let timeline = Timeline::begin();
    let record: Arc<Mutex<Record>> = Arc::default();
    let mut taps = BTreeMap::new();
    let mut readers = BTreeMap::new();
    let mut topic_taps = BTreeMap::new();
    for region in scenario.regions() {
        let urls = |kind| layout.of_kind(kind, region).map(|program| program.url.clone()).collect::<Vec<_>>();
        taps.insert(region.to_owned(), Tap::start(urls(Kind::Store), timeline));
        readers.insert(region.to_owned(), Readers::start(&urls(Kind::Cell), timeline));
        if let Some(broker) = layout.broker_of(region) {
            topic_taps.insert(region.to_owned(), TopicTap::start(&broker.url, region, timeline));
        }
    }
    let holds = |program: &&Program| matches!(program.kind, Kind::Cell | Kind::Replicator);
    let watched = layout.programs.iter().filter(holds);
    let watched = watched.map(|program| Watched {
        name: program.name.clone(),
        is_cell: program.kind == Kind::Cell,
        zone: program.zone.clone(),
        region: program.region.clone(),
        url: program.url.clone(),
    });
    let mut watching = watching::start(watched.collect(), &record, timeline);
    watching.spawn(pulse(Arc::clone(&record)));
    let zones = Zones::start(scenario, &layout, seed, folder, &record, timeline).await?;
    say(&format!("{} agents are registered", scenario.instances()));
    let mut game = Game {
        scenario,
        layout,
        network,
        zones,
        record,
        timeline,
        open: Vec::new(),
        programs,
        topic_taps,
        ways,
        slow: BTreeMap::new(),
        _watching: watching,
    };
    game.zones.tell(Told::Begin).await?;
    game.stands(say).await?;
    game.steps(say).await?;
    game.zones.finish().await?;
    let ended = timeline.now();
    let mut told = Vec::new();
    for (region, tap) in taps {
        let looks = match readers.remove(&region) {
            Some(readers) => readers.stop().await,
            None => Vec::new(),
        };
        let (events, disagreements) = tap.finish(MARKED_WITHIN).await?;
        let prefix = format!("rollcall/v1/{region}/");
        let digests = Digests::of(&prefix, &events);
        let origin = Origin::walk(&prefix, &[(0, events)]);
        game.converges(&region, &digests).await;
        let topics = game.topics(&region).await?;
        told.push((region, origin, digests, looks, disagreements, topics));
    }
    let crossings = game.network.crossings()?;
    let mut record = std::mem::take(&mut *game.record.lock().unwrap());
    record.ended = ended;
    record.crossings = (scenario.regions().len() > 1).then_some(crossings);
    let usual = Rules::default();
    let rules = Rules {
        fraction: scenario.guard.fraction,
        floor: scenario.guard.floor,
        tap_delay: usual.tap_delay + record.late,
        ..usual
    };
    for (region, origin, digests, looks, disagreements, topics) in told {
        let mut verdicts = promises::always(scenario, &record, &region, &origin, &digests, &looks, &rules);
        if let Some(topics) = topics {
            verdicts.push(check::own_history(&region, &topics, &origin, &digests));
            verdicts.push(check::whole_chain(&topics, &origin, &digests));
        }
        record.mishaps.extend(disagreements);
        record.regions.push(ToldOf { region, origin, verdicts });
    }
    Ok(record)
}

impl Game<'_> {
    /// Waits until everything is as it should be before anything is done to it.
    async fn stands(&self, say: fn(&str)) -> Result<(), String> {
        let began = self.timeline.now();
        loop {
            let amiss = progress::amiss(&self.record.lock().unwrap(), self.scenario, began);
            match amiss {
                None => {
                    let early = progress::early(&self.record.lock().unwrap());
                    self.note(format!("everything stands{early}"), say);
                    return Ok(());
                }
                Some(why) if self.timeline.now() > began + STANDS_WITHIN => {
                    return Err(format!("before any fault: {why} after {STANDS_WITHIN:?}"));
                }
                Some(_) => tokio::time::sleep(PACE).await,
            }
        }
    }

    /// Waits, for so long as convergence may take, until every cell holds what stands in the region's store.
    async fn converges(&self, region: &str, digests: &Digests) {
        let began = self.timeline.now();
        let cells = self.scenario.zones.iter().filter(|zone| zone.cell).count();
        while self.timeline.now() < began + CONVERGED_WITHIN {
            let held = {
                let record = self.record.lock().unwrap();
                let mut last: BTreeMap<&str, bool> = BTreeMap::new();
                for sight in record.sights.iter().filter(|sight| sight.cell && sight.region == region) {
                    last.insert(&sight.holder, sight.at > began && digests.is_reached(sight));
                }
                last.len() == cells && last.values().all(|held| *held)
            };
            if held {
                return;
            }
            tokio::time::sleep(PACE).await;
        }
    }

    /// What stood in a region's topics; nothing where it has none.
    async fn topics(&mut self, region: &str) -> Result<Option<Topics>, String> {
        let Some(tap) = self.topic_taps.remove(region) else { return Ok(None) };
        let read = tokio::task::spawn_blocking(move || tap.finish(MARKED_WITHIN)).await;
        read.map_err(|error| error.to_string())?.map(Some)
    }

    /// Takes every step at its time, then waits until everything is as before, and a little longer.
    async fn steps(&mut self, say: fn(&str)) -> Result<(), String> {
        let began = self.timeline.now();
        self.record.lock().unwrap().began = began;
        let mut next_line = began + LINE_EVERY;
        let moments = self.scenario.moments();
        let mut steps = moments.iter().peekable();
        let mut last_step = began;
        loop {
            let now = self.timeline.now();
            if let Some((_, act)) = steps.next_if(|(at, _)| began + Duration::from_secs(*at) <= now) {
                self.take(act, say).await?;
                last_step = self.timeline.now();
                self.record.lock().unwrap().last_step = last_step;
                continue;
            }
            self.land()?;
            if now >= next_line {
                next_line += LINE_EVERY;
                say(&self.stamped(&progress::line(&self.record.lock().unwrap(), self.scenario)));
            }
            if steps.peek().is_none() {
                let recovered = self.record.lock().unwrap().recovered;
                let amiss = progress::amiss(&self.record.lock().unwrap(), self.scenario, last_step);
                match (recovered, amiss) {
                    (None, None) => {
                        self.record.lock().unwrap().recovered = Some(now);
                        // Nothing takes the death of agents back; it is over when nobody meets them any more.
                        self.ends(now, |fault| fault.zones.is_empty() && fault.programs.is_empty());
                        self.note("everything is as before".to_owned(), say);
                    }
                    (None, Some(why))
                        if now > last_step + Duration::from_secs(self.scenario.recovery_within_s) =>
                    {
                        self.note(format!("not as before: {why}"), say);
                        return Ok(());
                    }
                    (Some(at), _) if now > at + Duration::from_secs(self.scenario.calm_s) => return Ok(()),
                    (Some(_), _) | (None, Some(_)) => {}
                }
            }
            tokio::time::sleep(PACE).await;
        }
    }

    async fn take(&mut self, act: &Act, say: fn(&str)) -> Result<(), String> {
        match act {
            Act::Cut { zones } => {
                self.network.cut(&self.layout.cut(zones))?;
                self.begins(format!("zone {} is cut off", zones.join(", ")), zones, &[], false, say);
            }
            Act::Part { zones, from } => {
                self.network.cut(&self.layout.between(zones, from))?;
                let words =
                    format!("zones {} and {} cannot reach each other", zones.join(", "), from.join(", "));
                self.begins(words, &[zones.as_slice(), from].concat(), &[], false, say);
            }
            Act::Heal => {
                self.land()?;
                let now = self.timeline.now();
                let dropped = self.network.heal()?;
                self.ends(now, |fault| !fault.zones.is_empty());
                self.note(format!("healed; {dropped} packets had been dropped"), say);
            }
            Act::Kill { programs } => {
                let gone = self.programs.kill(programs);
                self.begins(format!("{} is killed", programs.join(", ")), &[], programs, gone, say);
            }
            Act::Freeze { programs } => {
                let frozen = self.programs.freeze(programs);
                self.begins(format!("{} is frozen", programs.join(", ")), &[], programs, frozen, say);
            }
            Act::Start { programs } => {
                let now = self.timeline.now();
                let runs = self.programs.start_again(programs);
                self.ends(now, |fault| fault.programs.iter().any(|name| programs.contains(name)));
                let words = if runs { "is started again" } else { "does not start again" };
                self.note(format!("{} {words}", programs.join(", ")), say);
            }
            Act::Thaw { programs } => {
                let now = self.timeline.now();
                self.programs.thaw(programs);
                self.ends(now, |fault| fault.programs.iter().any(|name| programs.contains(name)));
                self.note(format!("{} goes on", programs.join(", ")), say);
            }
            Act::KillAgents { zones } => {
                let at = self.timeline.now();
                self.record.lock().unwrap().died.extend(zones.iter().map(|zone| (zone.clone(), at)));
                let gone = self.zones.kill(zones).await;
                self.begins(
                    format!("all agents of zone {} are killed", zones.join(", ")),
                    &[],
                    &[],
                    gone,
                    say,
                );
            }
            Act::RemoveTopics { region } => {
                let broker = self.layout.broker_of(region).ok_or("there is no broker")?;
                super::topics::remove(&broker.url, region).await?;
                if let Some(tap) = self.topic_taps.get(region) {
                    tap.removed();
                }
                self.begins(format!("the topics of {region} are removed"), &[], &[], true, say);
                // Nothing takes it back: what follows is the replicators' affair.
                self.ends(self.timeline.now(), |fault| fault.zones.is_empty() && fault.programs.is_empty());
            }
            Act::Slow { region, delay_ms, bytes_per_second, loss_percent } => {
                self.quicken(region)?;
                let way = self.ways.get(region).ok_or("there is no such way")?;
                let (carried, lost) = (way.carried(), self.network.lost(self.port_of(region)?)?);
                way.set(Way { delay: Duration::from_millis(*delay_ms), bytes_per_second: *bytes_per_second });
                let rate = bytes_per_second.map(|rate| format!(", carries {rate} B/s")).unwrap_or_default();
                let loss = match loss_percent {
                    0 => String::new(),
                    percent => format!(", loses {percent} % of the packets"),
                };
                let what = format!("the way from {region} takes {delay_ms} ms{rate}{loss}");
                let place = self.record.lock().unwrap().faults.len();
                self.begins(what, &[], &[], false, say);
                self.slow.insert(region.clone(), Slow { place, carried, loss_percent: *loss_percent, lost });
                self.lose()?;
            }
            Act::Quicken { region } => {
                let loss = match self.quicken(region)? {
                    0 => String::new(),
                    lost => format!("; {lost} packets were lost on it"),
                };
                self.note(format!("the way from {region} is short again{loss}"), say);
            }
            // The scenario's moments have it as cuts and heals.
            Act::Flap { .. } => {}
        }
        Ok(())
    }

    fn begins(&mut self, what: String, zones: &[String], programs: &[String], landed: bool, say: fn(&str)) {
        let at = self.timeline.now();
        let (zones, programs) = (zones.to_vec(), programs.to_vec());
        let fault = Fault { what: what.clone(), zones, programs, at, until: None, landed };
        {
            let mut record = self.record.lock().unwrap();
            self.open.push(record.faults.len());
            record.faults.push(fault);
        }
        self.note(what, say);
    }

    /// Taking these faults back begins now.
    fn ends(&mut self, now: Duration, of: impl Fn(&Fault) -> bool) {
        let mut record = self.record.lock().unwrap();
        self.open.retain(|place| {
            let fault = &mut record.faults[*place];
            let ends = of(fault);
            if ends {
                fault.until = Some(now);
            }
            !ends
        });
    }

    /// Ends the fault of a slow way, if there is one; gives how many packets were lost on it.
    fn quicken(&mut self, region: &str) -> Result<u64, String> {
        if let Some(way) = self.ways.get(region) {
            way.set(Way::NONE);
        }
        let Some(slow) = self.slow.remove(region) else { return Ok(0) };
        self.open.retain(|open| *open != slow.place);
        self.record.lock().unwrap().faults[slow.place].until = Some(self.timeline.now());
        self.lose()?;
        Ok(self.network.lost(self.port_of(region)?)? - slow.lost)
    }

    /// Lets each way that is slow now lose what it is to lose.
    fn lose(&self) -> Result<(), String> {
        let lossy = self.slow.iter().filter(|(_, slow)| slow.loss_percent > 0);
        let percents = lossy.map(|(region, slow)| Ok((self.port_of(region)?, slow.loss_percent)));
        self.network.lose(&percents.collect::<Result<_, String>>()?)
    }

    /// Where the long way from a region's broker is entered.
    fn port_of(&self, region: &str) -> Result<u16, String> {
        let way = self.layout.ways.iter().find(|way| way.region == region);
        way.map(|way| way.port).ok_or_else(|| format!("there is no long way from {region}"))
    }

    /// A cut has landed when packets were dropped for it, a slow way when something came over it, and was lost on it if
    /// anything was to be.
    fn land(&self) -> Result<(), String> {
        let waits = |place: &usize| {
            let fault = &self.record.lock().unwrap().faults[*place];
            !fault.landed && !fault.zones.is_empty()
        };
        for (region, slow) in &self.slow {
            let has_lost = slow.loss_percent == 0 || self.network.lost(self.port_of(region)?)? > slow.lost;
            if has_lost && self.ways[region].carried() > slow.carried {
                self.record.lock().unwrap().faults[slow.place].landed = true;
            }
        }
        let waiting: Vec<usize> = self.open.iter().copied().filter(waits).collect();
        if !waiting.is_empty() && self.network.dropped()? > 0 {
            for place in waiting {
                self.record.lock().unwrap().faults[place].landed = true;
            }
        }
        Ok(())
    }

    fn note(&self, what: String, say: fn(&str)) {
        say(&self.stamped(&what));
        self.record.lock().unwrap().diary.push((self.timeline.now(), what));
    }

    fn stamped(&self, what: &str) -> String {
        format!("{:6.1} s  {what}", self.timeline.now().as_secs_f64())
    }
}

/// Notes how late the run was woken at worst: what it saw may have happened so much earlier.
async fn pulse(record: Arc<Mutex<Record>>) {
    loop {
        let began = tokio::time::Instant::now();
        tokio::time::sleep(PULSE).await;
        let late = began.elapsed().saturating_sub(PULSE);
        let mut record = record.lock().unwrap();
        record.late = record.late.max(late);
    }
}
