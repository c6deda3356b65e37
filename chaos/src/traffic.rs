//! Owners at work: they register, renew and deregister all the time, and write down what was acknowledged.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rollcall_tests::agents::agent;
use rollcall_tests::http::{Answer, Http};

use crate::ledger::{Known, Ledger};

/// Owners of one region.
pub struct Traffic {
    /// The checker's account.
    pub ledger: Arc<Mutex<Ledger>>,
    writing: Arc<AtomicBool>,
    stopped: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

/// Between two acts of one owner.
const PACE: Duration = Duration::from_millis(100);

impl Traffic {
    /// Starts `owners` owners of one instance each.
    #[must_use]
    pub fn start(cell: &Http, owners: usize, seed: u64) -> Self {
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        let writing = Arc::new(AtomicBool::new(true));
        let stopped = Arc::new(AtomicBool::new(false));
        let tasks = (0..owners)
            .map(|owner| {
                let (cell, ledger) = (cell.clone(), Arc::clone(&ledger));
                let (writing, stopped) = (Arc::clone(&writing), Arc::clone(&stopped));
                let mut chance = StdRng::seed_from_u64(seed.wrapping_mul(1_000).wrapping_add(owner as u64));
                tokio::spawn(async move {
                    let id = format!("chaos/owner/{owner}");
                    while !stopped.load(Ordering::Relaxed) {
                        act(&cell, &id, &ledger, writing.load(Ordering::Relaxed), chance.random()).await;
                        tokio::time::sleep(PACE).await;
                    }
                })
            })
            .collect();
        Self { ledger, writing, stopped, tasks }
    }

    /// Stops or goes on with registering and deregistering; renewals go on.
    pub fn write(&self, on: bool) {
        self.writing.store(on, Ordering::Relaxed);
    }

    /// Ends all owners.
    pub async fn stop(self) -> Arc<Mutex<Ledger>> {
        self.stopped.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.expect("an owner does not panic");
        }
        self.ledger
    }
}

async fn act(cell: &Http, id: &str, ledger: &Mutex<Ledger>, write: bool, chance: f64) {
    let known = ledger.lock().unwrap().get(id);
    match known {
        Known::Present(epoch) if write && chance < 0.15 => {
            let answer = cell.deregister(id, &epoch.to_string()).await;
            let mut ledger = ledger.lock().unwrap();
            match status(&answer) {
                Some(204) => ledger.deregistered(id),
                Some(404) => ledger.denied(id, "not registered"),
                Some(412) => ledger.denied(id, "superseded"),
                Some(503 | 429) => ledger.refused += 1,
                Some(_) | None => ledger.lost_sight(id),
            }
        }
        Known::Present(epoch) if !write || chance < 0.7 => {
            let answer = cell.renew(id, &epoch.to_string()).await;
            let mut ledger = ledger.lock().unwrap();
            match status(&answer) {
                Some(404) => ledger.denied(id, "not registered"),
                Some(412) => ledger.denied(id, "superseded"),
                Some(200) => {}
                Some(_) | None => ledger.refused += 1,
            }
        }
        Known::Present(_) | Known::Absent | Known::Unknown if write => {
            let body = agent(id, "chaos:act:v1").to_string();
            let answer = cell.send("POST", "/v1/registrations", &[], Some(&body)).await;
            let mut ledger = ledger.lock().unwrap();
            match status(&answer) {
                Some(201) => {
                    let epoch = answer.unwrap().json()["epoch"].as_str().unwrap().parse().unwrap();
                    ledger.registered(id, epoch);
                }
                Some(503 | 429 | 409) => ledger.refused += 1,
                Some(_) | None => ledger.lost_sight(id),
            }
        }
        Known::Present(_) | Known::Absent | Known::Unknown => {}
    }
}

fn status(answer: &Result<Answer, String>) -> Option<u16> {
    answer.as_ref().ok().map(|answer| answer.status)
}
