//! The zone's writers: each registers an instance of its own, changes it and takes it back, again and again.
//!
//! Every write is in the history, so that the checker knows what was acknowledged. An instance whose last answer never
//! came is left to lapse: it is dead.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::Voice;
use crate::caller::Caller;
use crate::game_day::words::{Orders, Said};
use crate::history::{Act, History, Outcome};
use crate::timeline::Timeline;

/// How long a writer waits for an answer before it asks another process of the cell: longer than a loaded machine
/// stalls, and short enough to end a few times in a cut.
const PATIENCE: Duration = Duration::from_secs(5);
/// Numbers of clients from one zone's to the next one's: a history holds those of all zones.
const CLIENTS: u64 = 1_000;

pub(super) struct Writers {
    history: History,
    told: BTreeSet<usize>,
    stopped: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Writers {
    pub(super) fn start(orders: &Orders, timeline: Timeline) -> Self {
        let history = History::new(timeline);
        let stopped: Arc<AtomicBool> = Arc::default();
        let tasks = (0..orders.writers).map(|n| {
            let number = orders.seed % CLIENTS * CLIENTS + u64::from(n);
            let client = u32::try_from(number).unwrap_or(n);
            let caller =
                Caller::patient(client, &orders.cells, history.clone(), PATIENCE).in_zone(&orders.zone);
            let writer = Writer {
                caller,
                name: format!("writer/{}-{}", orders.zone, n + 1),
                lease: orders.lease,
                every: orders.write_every,
                stale_words: orders.stale_words,
                stopped: Arc::clone(&stopped),
                chance: StdRng::seed_from_u64(number),
            };
            tokio::spawn(writer.run())
        });
        Self { tasks: tasks.collect(), told: BTreeSet::new(), history, stopped }
    }

    /// Says what was answered since the last time.
    pub(super) fn tell(&mut self, voice: &Voice) {
        for (place, op) in self.history.ops().into_iter().enumerate() {
            if op.returned.is_some() && self.told.insert(place) {
                voice.say(Said::Wrote(op));
            }
        }
    }

    /// Ends them and says the rest; calls in flight are waited for.
    pub(super) async fn stop(mut self, voice: &Voice) {
        self.stopped.store(true, Ordering::Relaxed);
        for task in std::mem::take(&mut self.tasks) {
            let _ = task.await;
        }
        self.tell(voice);
    }
}

struct Writer {
    caller: Caller,
    name: String,
    lease: Duration,
    every: Duration,
    stale_words: bool,
    stopped: Arc<AtomicBool>,
    chance: StdRng,
}

impl Writer {
    async fn run(mut self) {
        let mut cell = 0;
        for life in 0_u64.. {
            if self.stopped.load(Ordering::Relaxed) {
                return;
            }
            let id = format!("{}/{life}", self.name);
            let register = Act::Register { tag: self.word(&id, "tag"), lease: self.lease };
            let Outcome::Registered(mut epoch) = self.write(cell, &id, register).await else {
                cell += 1;
                continue;
            };
            if self.stale_words {
                let again = Act::Register { tag: self.word(&id, "tag-again"), lease: self.lease };
                if let Outcome::Registered(newer) = self.write(cell, &id, again).await {
                    let stale = Act::Update(std::mem::replace(&mut epoch, newer), self.word(&id, "late"));
                    self.write(cell, &id, stale).await;
                }
            }
            for act in [Act::Update(epoch, self.word(&id, "said")), Act::Deregister(epoch)] {
                if self.write(cell, &id, act).await != Outcome::Done {
                    cell += 1;
                }
            }
        }
    }

    /// A word that nobody else says: [`Caller::word`] is unique in one process only.
    fn word(&self, id: &str, what: &str) -> String {
        format!("{id}-{what}")
    }

    async fn write(&mut self, cell: usize, id: &str, act: Act) -> Outcome {
        let outcome = self.caller.ask(cell, id, act).await;
        tokio::time::sleep(self.every.mul_f64(self.chance.random_range(0.5..1.5))).await;
        outcome
    }
}
