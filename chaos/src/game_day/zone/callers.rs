//! The zone's callers: each resolves by the SDK and calls what it found, all the time.
//!
//! A caller avoids for a while what did not answer it, as any good client does, and prefers what is not overdue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rollcall_client::{Candidate, Registry, RegistryOptions};
use rollcall_model::{Query, Region};

use super::{SECOND, Voice};
use crate::game_day::record::{FLEET, Failed, Sight, Tick};
use crate::game_day::words::{Orders, Said};
use crate::timeline::Timeline;

/// How long an agent may take to answer: it does nothing else.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a caller avoids what did not answer.
const AVOIDED: Duration = Duration::from_secs(30);

/// What the callers of a zone did in this second.
#[derive(Debug, Default)]
struct Counts {
    resolves: AtomicU64,
    empty: AtomicU64,
    calls: AtomicU64,
    failed: AtomicU64,
}

pub(super) struct Callers {
    counts: Arc<Counts>,
    stopped: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Callers {
    /// Starts them; each has a copy of the registry of its own.
    pub(super) async fn start(orders: &Orders, timeline: Timeline, voice: &Voice) -> Result<Self, String> {
        let region = |name: &String| Region::parse(name).map_err(|why| why.to_string());
        let failover = orders.failover.iter().map(region).collect::<Result<Vec<_>, _>>()?;
        let mut callers = Self { counts: Arc::default(), stopped: Arc::default(), tasks: Vec::new() };
        for n in 0..orders.callers {
            let options = RegistryOptions::new(orders.cells.iter().cloned(), region(&orders.region)?)
                .with_failover(failover.iter().cloned());
            let registry = Registry::connect(options).await.map_err(|error| error.to_string())?;
            let http = reqwest::Client::builder().timeout(PATIENCE).build();
            let caller = Caller {
                name: format!("caller-{}{}", orders.zone, n + 1),
                zone: orders.zone.clone(),
                names: orders.names.max(1),
                every: orders.call_every,
                registry,
                http: http.map_err(|error| error.to_string())?,
                avoided: BTreeMap::new(),
                counts: Arc::clone(&callers.counts),
                stopped: Arc::clone(&callers.stopped),
                timeline,
                voice: voice.clone(),
            };
            let chance = StdRng::seed_from_u64(orders.seed.wrapping_mul(1_000).wrapping_add(u64::from(n)));
            let watcher = Watcher {
                name: caller.name.clone(),
                zone: caller.zone.clone(),
                registry: caller.registry.clone(),
                stopped: Arc::clone(&caller.stopped),
                timeline,
                voice: voice.clone(),
            };
            callers.tasks.push(tokio::spawn(watcher.run()));
            callers.tasks.push(tokio::spawn(caller.run(chance)));
        }
        Ok(callers)
    }

    /// Puts what was done since the last time into this second.
    pub(super) fn tick(&self, tick: &mut Tick) {
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        tick.resolves = take(&self.counts.resolves);
        tick.resolves_empty = take(&self.counts.empty);
        tick.calls = take(&self.counts.calls);
        tick.calls_failed = take(&self.counts.failed);
    }

    /// Ends them; calls in flight are waited for.
    pub(super) async fn stop(self) {
        self.stopped.store(true, Ordering::Relaxed);
        for task in self.tasks {
            let _ = task.await;
        }
    }
}

struct Caller {
    name: String,
    zone: String,
    names: u32,
    every: Duration,
    registry: Registry,
    http: reqwest::Client,
    avoided: BTreeMap<String, Duration>,
    counts: Arc<Counts>,
    stopped: Arc<AtomicBool>,
    timeline: Timeline,
    voice: Voice,
}

impl Caller {
    async fn run(mut self, mut chance: StdRng) {
        while !self.stopped.load(Ordering::Relaxed) {
            self.call(&mut chance).await;
            tokio::time::sleep(self.every.mul_f64(chance.random_range(0.5..1.5))).await;
        }
    }

    async fn call(&mut self, chance: &mut StdRng) {
        let name = format!("agent-{}", chance.random_range(0..self.names));
        let namespace = FLEET.trim_end_matches('/').to_owned();
        let query = Query { namespace: Some(namespace), name: Some(name), ..Query::default() };
        let found = self.registry.resolve(&query);
        self.counts.resolves.fetch_add(1, Ordering::Relaxed);
        let Some(candidate) = self.choose(&found.candidates, chance) else {
            self.counts.empty.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let declared = &candidate.registration.declared;
        let target = declared.id.to_string();
        let target_zone = declared.zone.as_ref().map(ToString::to_string).unwrap_or_default();
        let Some(url) = declared.endpoints.first().map(|endpoint| endpoint.url.clone()) else { return };
        let sent = self.timeline.now();
        let outcome = ask(&self.http, &url, &target).await;
        self.counts.calls.fetch_add(1, Ordering::Relaxed);
        if let Err(why) = outcome {
            let at = self.timeline.now();
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
            self.avoided.insert(target.clone(), at + AVOIDED);
            let (caller, zone) = (self.name.clone(), self.zone.clone());
            self.voice.say(Said::Failed(Failed { caller, zone, target, target_zone, sent, at, why }));
        }
    }

    /// Any of the best: not avoided and not overdue; or else not avoided; or else any at all.
    fn choose<'a>(&mut self, candidates: &'a [Candidate], chance: &mut StdRng) -> Option<&'a Candidate> {
        let now = self.timeline.now();
        self.avoided.retain(|_, until| *until > now);
        let reached =
            |candidate: &&Candidate| !self.avoided.contains_key(candidate.registration.declared.id.as_str());
        let in_time = |candidate: &&Candidate| !candidate.registration.owned.overdue;
        let best: Vec<_> = candidates.iter().filter(reached).filter(in_time).collect();
        let good: Vec<_> = candidates.iter().filter(reached).collect();
        let any: Vec<_> = candidates.iter().collect();
        let from = [best, good, any].into_iter().find(|some| !some.is_empty())?;
        Some(from[chance.random_range(0..from.len())])
    }
}

/// Says once a second what a caller resolves from.
struct Watcher {
    name: String,
    zone: String,
    registry: Registry,
    stopped: Arc<AtomicBool>,
    timeline: Timeline,
    voice: Voice,
}

impl Watcher {
    async fn run(self) {
        while !self.stopped.load(Ordering::Relaxed) {
            let ages: BTreeMap<_, _> =
                self.registry.regions().into_iter().map(|status| (status.region, status.age)).collect();
            let at = self.timeline.now();
            for view in self.registry.snapshot().views() {
                let position = view.position().map(|p| (p.incarnation.ordinal(), p.revision.0));
                let age = ages.get(view.region()).copied().flatten().unwrap_or_default();
                self.voice.say(Said::Sight(Sight {
                    holder: self.name.clone(),
                    cell: false,
                    zone: self.zone.clone(),
                    region: view.region().to_string(),
                    at,
                    position,
                    count: view.state().map_or(0, rollcall_model::State::count),
                    digest: view.state().map(|state| state.digest().to_string()).unwrap_or_default(),
                    age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
                    resync: view.resyncs().to_string(),
                }));
            }
            tokio::time::sleep(SECOND).await;
        }
    }
}

async fn ask(http: &reqwest::Client, url: &str, target: &str) -> Result<(), String> {
    let answer = http.get(url).send().await.map_err(|error| short(&error))?;
    let status = answer.status();
    let body = answer.text().await.map_err(|error| short(&error))?;
    match status.is_success() && body == target {
        true => Ok(()),
        false => Err(format!("{status} by {body}")),
    }
}

fn short(error: &reqwest::Error) -> String {
    match error {
        error if error.is_timeout() => "no answer".to_owned(),
        error if error.is_connect() => "no connection".to_owned(),
        error => error.to_string(),
    }
}
