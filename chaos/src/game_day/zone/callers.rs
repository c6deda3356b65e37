//! The zone's callers: each resolves by the SDK and calls what it found, all the time.
//!
//! A caller tells the SDK what became of each call, which leaves out for a while what failed again and again, and whole
//! zones that fail while others answer; of the rest it takes any that is not overdue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rollcall_client::{Called, Candidate, Registry, RegistryOptions};
use rollcall_model::{Query, Region};

use super::agents::only;
use super::{SECOND, Voice};
use crate::game_day::record::{Empty, FLEET, Failed, Sight, Tick};
use crate::game_day::words::{Orders, Said};
use crate::timeline::Timeline;

/// How long an agent may take to answer: it does nothing else, but the machine may.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why a call failed.
enum Why {
    /// In time nobody said anything.
    NoAnswer,
    /// The way there is closed, or closed while it was asked.
    NoWay(String),
    /// Somebody answered who is another, or in trouble.
    Wrong(String),
}

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
    /// Starts them; each has a copy of the registry of its own, and loads it at its own time.
    pub(super) fn start(orders: &Orders, timeline: Timeline, voice: &Voice) -> Result<Self, String> {
        let region = |name: &String| Region::parse(name).map_err(|why| why.to_string());
        let failover = orders.failover.iter().map(region).collect::<Result<Vec<_>, _>>()?;
        let mut callers = Self { counts: Arc::default(), stopped: Arc::default(), tasks: Vec::new() };
        for n in 0..orders.callers {
            let options = RegistryOptions::new(orders.cells.iter().cloned(), region(&orders.region)?)
                .with_failover(failover.iter().cloned());
            let http = reqwest::Client::builder().timeout(PATIENCE).build();
            let hands = Hands {
                name: format!("caller-{}{}", orders.zone, n + 1),
                zone: orders.zone.clone(),
                stopped: Arc::clone(&callers.stopped),
                timeline,
                voice: voice.clone(),
            };
            let (names, every) = (names(orders), orders.call_every);
            let (http, counts) = (http.map_err(|error| error.to_string())?, Arc::clone(&callers.counts));
            let chance = StdRng::seed_from_u64(orders.seed.wrapping_mul(1_000).wrapping_add(u64::from(n)));
            callers.tasks.push(tokio::spawn(async move {
                match Registry::connect(options).await {
                    Ok(registry) => {
                        let caller = Caller { registry, names, every, http, counts, hands };
                        tokio::join!(
                            watch(caller.registry.clone(), caller.hands.clone()),
                            caller.run(chance)
                        );
                    }
                    Err(why) => eprintln!("{} does not begin: {why}", hands.name),
                }
            }));
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

/// What callers ask for: every name of agents that there is, in any region.
fn names(orders: &Orders) -> Vec<String> {
    let everywhere = (1..orders.names).map(|n| format!("agent-{n}"));
    let regions = std::iter::once(&orders.region).chain(&orders.failover);
    everywhere.chain(regions.map(|region| only(region))).collect()
}

/// What a caller and its watcher share.
#[derive(Clone)]
struct Hands {
    name: String,
    zone: String,
    stopped: Arc<AtomicBool>,
    timeline: Timeline,
    voice: Voice,
}

struct Caller {
    registry: Registry,
    names: Vec<String>,
    every: Duration,
    http: reqwest::Client,
    counts: Arc<Counts>,
    hands: Hands,
}

impl Caller {
    async fn run(self, mut chance: StdRng) {
        while !self.hands.stopped.load(Ordering::Relaxed) {
            self.call(&mut chance).await;
            tokio::time::sleep(self.every.mul_f64(chance.random_range(0.5..1.5))).await;
        }
    }

    async fn call(&self, chance: &mut StdRng) {
        let name = self.names[chance.random_range(0..self.names.len())].clone();
        let namespace = FLEET.trim_end_matches('/').to_owned();
        let query = Query { namespace: Some(namespace), name: Some(name.clone()), ..Query::default() };
        let found = self.registry.resolve(&query);
        self.counts.resolves.fetch_add(1, Ordering::Relaxed);
        let Some(candidate) = choose(&found.candidates, chance) else {
            self.counts.empty.fetch_add(1, Ordering::Relaxed);
            let (caller, zone, at) =
                (self.hands.name.clone(), self.hands.zone.clone(), self.hands.timeline.now());
            let outcome = found.outcome.as_str().to_owned();
            self.hands.voice.say(Said::Empty(Empty { caller, zone, name, at, outcome }));
            return;
        };
        let declared = &candidate.registration.declared;
        let target = declared.id.to_string();
        let target_zone = declared.zone.as_ref().map(ToString::to_string).unwrap_or_default();
        let Some(url) = declared.endpoints.first().map(|endpoint| endpoint.url().to_owned()) else { return };
        let sent = self.hands.timeline.now();
        let outcome = ask(&self.http, &url, &target).await;
        self.counts.calls.fetch_add(1, Ordering::Relaxed);
        let called = match &outcome {
            Ok(()) => Called::Succeeded,
            Err(Why::NoAnswer) => Called::TimedOut,
            Err(Why::NoWay(_) | Why::Wrong(_)) => Called::Failed,
        };
        self.registry.report(&candidate.region, &candidate.registration, called);
        if let Err(why) = outcome {
            let at = self.hands.timeline.now();
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
            let (caller, zone) = (self.hands.name.clone(), self.hands.zone.clone());
            let (why, answered) = match why {
                Why::NoAnswer => ("no answer".to_owned(), false),
                Why::NoWay(why) => (why, false),
                Why::Wrong(why) => (why, true),
            };
            let failed = Failed { caller, zone, target, target_zone, sent, at, answered, why };
            self.hands.voice.say(Said::Failed(failed));
        }
    }
}

/// The one that is to be tried again; or else any of those that are not overdue; or else any at all.
fn choose<'a>(candidates: &'a [Candidate], chance: &mut StdRng) -> Option<&'a Candidate> {
    let in_time: Vec<_> =
        candidates.iter().filter(|candidate| !candidate.registration.owned.overdue).collect();
    if let Some(probe) = in_time.iter().copied().find(|candidate| candidate.is_probe) {
        return Some(probe);
    }
    let any: Vec<_> = candidates.iter().collect();
    let from = if in_time.is_empty() { any } else { in_time };
    let place = (!from.is_empty()).then(|| chance.random_range(0..from.len()))?;
    Some(from[place])
}

/// Says once a second what a caller resolves from.
async fn watch(registry: Registry, hands: Hands) {
    while !hands.stopped.load(Ordering::Relaxed) {
        let asked = hands.timeline.now();
        let ages: BTreeMap<_, _> =
            registry.regions().into_iter().map(|status| (status.region, status.age)).collect();
        for view in registry.snapshot().views() {
            let position = view.position().map(|p| (p.incarnation.ordinal(), p.revision.0));
            let age = ages.get(view.region()).copied().flatten().unwrap_or_default();
            hands.voice.say(Said::Sight(Sight {
                holder: hands.name.clone(),
                cell: false,
                zone: hands.zone.clone(),
                region: view.region().to_string(),
                asked,
                at: hands.timeline.now(),
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

async fn ask(http: &reqwest::Client, url: &str, target: &str) -> Result<(), Why> {
    let answer = http.get(url).send().await.map_err(|error| short(&error))?;
    let status = answer.status();
    let body = answer.text().await.map_err(|error| short(&error))?;
    match status.is_success() && body == target {
        true => Ok(()),
        false => Err(Why::Wrong(format!("{status} by {body}"))),
    }
}

fn short(error: &reqwest::Error) -> Why {
    match error {
        error if error.is_timeout() => Why::NoAnswer,
        error if error.is_connect() => Why::NoWay("no connection".to_owned()),
        error => Why::NoWay(error.to_string()),
    }
}
