//! Sixty instances that come, change, are taken over and go, by a seed.

use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::seq::index::sample;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};

use super::cell::Cell;

/// Instances, of two agents.
const INSTANCES: usize = 60;
/// Changes that are sent at once: some of them share a revision.
const AT_ONCE: usize = 20;

/// The owners of all instances.
pub(super) struct Churn {
    chance: StdRng,
    epochs: Vec<Option<String>>,
    mark: u64,
}

/// What an owner does, or an operator for it.
enum Act {
    Register(Value),
    Update(Value),
    Deregister,
    Evict,
}

impl Churn {
    pub(super) fn new(seed: u64) -> Self {
        Self { chance: StdRng::seed_from_u64(seed), epochs: vec![None; INSTANCES], mark: 0 }
    }

    /// One change of each of some instances, all sent at once and all answered.
    pub(super) async fn round(&mut self, cell: &Cell) {
        let those = sample(&mut self.chance, INSTANCES, AT_ONCE).into_vec();
        let acts: Vec<_> = those.iter().map(|n| (*n, self.act(*n))).collect();
        let done = acts.into_iter().map(|(n, act)| carried_out(cell, id(n), self.epochs[n].clone(), act));
        let epochs = join_all(done).await;
        for (n, epoch) in those.into_iter().zip(epochs) {
            self.epochs[n] = epoch;
        }
    }

    fn act(&mut self, n: usize) -> Act {
        self.mark += 1;
        let lifecycle = ["healthy", "healthy", "draining", "degraded"][self.chance.random_range(0..4)];
        let metadata = json!({"mark": self.mark.to_string()});
        match self.chance.random_range(0..20) {
            0..9 if self.epochs[n].is_some() => {
                Act::Update(json!({"lifecycle": lifecycle, "metadata": metadata}))
            }
            9..13 if self.epochs[n].is_some() => Act::Deregister,
            13 if self.epochs[n].is_some() => Act::Evict,
            _ => {
                let capability =
                    ["mail:send:v1", "mail:read:v1", "report:write:v2"][self.chance.random_range(0..3)];
                let tags = [json!(["fast"]), json!([])][self.chance.random_range(0..2)].clone();
                Act::Register(json!({
                    "id": id(n), "endpoints": [{"url": "http://127.0.0.1:9/"}], "lease_seconds": 300,
                    "capabilities": [{"name": capability, "tags": tags}, "always:there:v1"],
                    "metadata": metadata,
                }))
            }
        }
    }
}

fn id(n: usize) -> String {
    format!("ops/{}/{n}", ["mail", "report"][n % 2])
}

/// Does it, and gives the epoch that stands then.
async fn carried_out(cell: &Cell, id: String, epoch: Option<String>, act: Act) -> Option<String> {
    let path = format!("/v1/registrations/{id}");
    let fence = epoch.clone().unwrap_or_default();
    match act {
        Act::Register(body) => Some(cell.register(&body).await),
        Act::Update(body) => {
            let answer = cell.fenced("PATCH", &path, &fence, &body).await;
            assert_eq!(answer.status, 200, "{}", answer.text);
            epoch
        }
        Act::Deregister => {
            let answer = cell.fenced("DELETE", &path, &fence, &Value::Null).await;
            assert!(answer.status < 300, "{}", answer.text);
            None
        }
        Act::Evict => {
            let answer = cell.post("/v1/admin/evict", &json!({"id": id, "reason": "drill"})).await;
            assert_eq!(answer.status, 200, "{}", answer.text);
            None
        }
    }
}
