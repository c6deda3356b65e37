//! Traffic on one region: a restless few that change all the time, and steady owners that only want to stay.
//!
//! Restless instances belong to nobody: several clients register, renew, change and take back the same ones at the same
//! time, with epochs that are current or old. A steady owner registers once and renews every third of its lease, at
//! another process of the cell when one refuses, as any good client does; if it is ever told that it is gone, it
//! registers anew, and that is counted. Mortals are registered and never heard of again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::caller::Caller;
use crate::history::{Act, History, Outcome};
use crate::mortals::Mortals;
use crate::timeline::Timeline;

/// How large a crowd is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Instances that change all the time.
    pub restless: usize,
    /// Clients that change them.
    pub clients: u32,
    /// Between two calls of one of these clients.
    pub pace: Duration,
    /// Owners of one instance each, which stays.
    pub steady: usize,
    /// Everybody's lease.
    pub lease: Duration,
}

impl Default for Size {
    fn default() -> Self {
        let (pace, lease) = (Duration::from_millis(60), Duration::from_secs(5));
        Self { restless: 16, clients: 6, pace, steady: 40, lease }
    }
}

/// What became of a steady owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steady {
    /// The epoch it holds.
    pub epoch: Option<u64>,
    /// Registrations that were acknowledged.
    pub registrations: u32,
    /// Beats that nobody acknowledged, after every process was asked.
    pub missed: u32,
    /// When it was told that it is gone or superseded.
    pub losses: Vec<(Duration, String)>,
}

/// Running traffic.
pub struct Crowd {
    steady: Arc<Mutex<BTreeMap<String, Steady>>>,
    changing: Arc<AtomicBool>,
    stopped: Arc<AtomicBool>,
    mortals: Mortals,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Crowd {
    /// Starts it. Restless clients ask the first route's processes; steady owner `n` those of route `n` modulo their
    /// number.
    #[must_use]
    pub fn start(
        size: &Size,
        routes: &[Vec<String>],
        history: &History,
        timeline: Timeline,
        seed: u64,
    ) -> Self {
        let steady: Arc<Mutex<BTreeMap<String, Steady>>> = Arc::default();
        let changing = Arc::new(AtomicBool::new(true));
        let stopped = Arc::new(AtomicBool::new(false));
        let pool: Pool = Arc::default();
        let chance =
            |client: u32| StdRng::seed_from_u64(seed.wrapping_mul(10_000).wrapping_add(u64::from(client)));
        let mut tasks = Vec::new();
        for client in 0..size.clients {
            let restless = Restless {
                caller: Caller::new(client, &routes[0], history.clone()),
                pool: Arc::clone(&pool),
                size: *size,
                changing: Arc::clone(&changing),
                stopped: Arc::clone(&stopped),
            };
            tasks.push(tokio::spawn(restless.run(chance(client))));
        }
        let patience = (size.lease / 3).clamp(Duration::from_secs(1), Duration::from_secs(3));
        for n in 0..size.steady {
            let client = size.clients + u32::try_from(n).expect("few owners");
            let owner = Owner {
                // As the SDK: an answer that takes longer than a beat is not waited for.
                caller: Caller::patient(client, &routes[n % routes.len()], history.clone(), patience),
                id: format!("chaos/steady/{n}"),
                lease: size.lease,
                book: Arc::clone(&steady),
                stopped: Arc::clone(&stopped),
                timeline,
            };
            tasks.push(tokio::spawn(owner.run(chance(client))));
        }
        let last = size.clients + u32::try_from(size.steady).expect("few owners");
        let caller = Caller::new(last, &routes[0], history.clone());
        // Of the restless, one in two stands at any time.
        let mortals = Mortals::start(caller, &routes[0], size.lease, size.steady + size.restless / 2);
        Self { steady, changing, stopped, mortals, tasks }
    }

    /// Lets the restless only renew, or change again.
    pub fn change(&self, on: bool) {
        self.changing.store(on, Ordering::Relaxed);
    }

    /// How the steady owners fare.
    #[must_use]
    pub fn steady(&self) -> BTreeMap<String, Steady> {
        self.steady.lock().unwrap().clone()
    }

    /// Whether every steady owner is registered.
    #[must_use]
    pub fn all_stand(&self, count: usize) -> bool {
        let steady = self.steady.lock().unwrap();
        steady.len() == count && steady.values().all(|owner| owner.epoch.is_some())
    }

    /// Ends it; calls in flight are waited for.
    pub async fn stop(self) -> BTreeMap<String, Steady> {
        self.stopped.store(true, Ordering::Relaxed);
        self.mortals.stop().await;
        for task in self.tasks {
            task.await.expect("a client does not panic");
        }
        std::mem::take(&mut *self.steady.lock().unwrap())
    }
}

/// The last epochs that anybody was given, of each restless instance.
type Pool = Arc<Mutex<BTreeMap<String, Vec<u64>>>>;

struct Restless {
    caller: Caller,
    pool: Pool,
    size: Size,
    changing: Arc<AtomicBool>,
    stopped: Arc<AtomicBool>,
}

impl Restless {
    async fn run(self, mut chance: StdRng) {
        while !self.stopped.load(Ordering::Relaxed) && self.size.restless > 0 {
            // Half of all calls go to four instances, so that they meet.
            let among = if chance.random_bool(0.5) { self.size.restless.min(4) } else { self.size.restless };
            let id = format!("chaos/restless/{}", chance.random_range(0..among));
            let known = self.pool.lock().unwrap().get(&id).cloned().unwrap_or_default();
            let cell = chance.random_range(0..self.caller.cells());
            let act = self.choose(&known, &mut chance);
            let outcome = self.caller.ask(cell, &id, act).await;
            self.learn(id, &outcome);
            tokio::time::sleep(self.size.pace.mul_f64(chance.random_range(0.5..1.5))).await;
        }
    }

    fn learn(&self, id: String, outcome: &Outcome) {
        let (Outcome::Registered(epoch) | Outcome::Superseded(Some(epoch))) = outcome else { return };
        let mut pool = self.pool.lock().unwrap();
        let epochs = pool.entry(id).or_default();
        if !epochs.contains(epoch) {
            epochs.push(*epoch);
            epochs.sort_unstable();
        }
        if epochs.len() > 4 {
            epochs.remove(0);
        }
    }

    fn choose(&self, known: &[u64], chance: &mut StdRng) -> Act {
        let register = || Act::Register { tag: Caller::word(), lease: self.size.lease };
        let Some(newest) = known.last().copied() else { return register() };
        // One call in ten comes from a past that is over.
        let epoch = if chance.random_bool(0.1) { known[chance.random_range(0..known.len())] } else { newest };
        if !self.changing.load(Ordering::Relaxed) {
            return Act::Renew(epoch);
        }
        match chance.random_range(0..100) {
            0..50 => Act::Renew(epoch),
            50..70 => Act::Update(epoch, Caller::word()),
            70..87 => register(),
            _ => Act::Deregister(epoch),
        }
    }
}

struct Owner {
    caller: Caller,
    id: String,
    lease: Duration,
    book: Arc<Mutex<BTreeMap<String, Steady>>>,
    stopped: Arc<AtomicBool>,
    timeline: Timeline,
}

impl Owner {
    async fn run(self, mut chance: StdRng) {
        let mut own = Steady::default();
        let mut cell = chance.random_range(0..self.caller.cells());
        while !self.stopped.load(Ordering::Relaxed) {
            let sent = self.timeline.now();
            let wait = match own.epoch {
                None => match self.register(cell).await {
                    Outcome::Registered(epoch) => {
                        own.epoch = Some(epoch);
                        own.registrations += 1;
                        self.beat(&mut chance)
                    }
                    _ => {
                        cell += 1;
                        Duration::from_millis(chance.random_range(100..500))
                    }
                },
                Some(epoch) => match self.renew(&mut cell, epoch).await {
                    Renewed::Done => self.beat(&mut chance),
                    Renewed::Missed => {
                        own.missed += 1;
                        self.beat(&mut chance)
                    }
                    Renewed::Gone(answer) => {
                        own.losses.push((self.timeline.now(), format!("epoch {epoch}: {answer:?}")));
                        own.epoch = None;
                        Duration::ZERO
                    }
                },
            };
            self.book.lock().unwrap().insert(self.id.clone(), own.clone());
            // From sending to sending, so that a call that hangs does not stretch the beat.
            self.sleep(wait.saturating_sub(self.timeline.now() - sent)).await;
        }
    }

    fn beat(&self, chance: &mut StdRng) -> Duration {
        (self.lease / 3).mul_f64(chance.random_range(0.8..1.2))
    }

    /// Waits, but not longer than the run.
    async fn sleep(&self, wait: Duration) {
        let until = tokio::time::Instant::now() + wait;
        while !self.stopped.load(Ordering::Relaxed) && tokio::time::Instant::now() < until {
            tokio::time::sleep(wait.min(Duration::from_millis(100))).await;
        }
    }

    async fn register(&self, cell: usize) -> Outcome {
        let act = Act::Register { tag: Caller::word(), lease: self.lease };
        self.caller.ask(cell, &self.id, act).await
    }

    /// Renews at the process that answered last, or else at the next ones.
    async fn renew(&self, cell: &mut usize, epoch: u64) -> Renewed {
        for _ in 0..self.caller.cells() {
            match self.caller.ask(*cell, &self.id, Act::Renew(epoch)).await {
                Outcome::Done => return Renewed::Done,
                gone @ (Outcome::Superseded(_) | Outcome::NotRegistered) => return Renewed::Gone(gone),
                Outcome::Registered(_) | Outcome::Refused { .. } | Outcome::Unknown(_) => *cell += 1,
            }
        }
        Renewed::Missed
    }
}

enum Renewed {
    Done,
    Missed,
    Gone(Outcome),
}
