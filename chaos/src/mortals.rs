//! Instances that are registered and never heard of again: each must go in time (I06), and none a moment too soon
//! (I05). Without them a run whose owners all live would see no expiry at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rollcall_tests::http::Http;
use tokio::task::JoinHandle;

use crate::caller::Caller;
use crate::history::Act;

/// The first part of their ids.
pub const MORTAL: &str = "chaos/mortal/";
/// So many are registered in the time of one lease: enough to see.
const IN_A_LEASE: u32 = 3;
/// No more of them stand at once, in any crowd.
const AT_ONCE: usize = 4;
/// And no larger share of a crowd, in percent, which is the guard's: without a keeper, or in its grace, they would become
/// as many as it holds for, and then, silent and unreleased, make it hold for ever.
const SHARE: usize = 15;

/// Who cannot say at once how many stand is not asked to take another.
const PATIENCE: Duration = Duration::from_secs(1);

/// The one who registers them.
pub struct Mortals {
    stopped: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Mortals {
    /// Registers one after another with this lease, at each process of the cell in turn; few beside a crowd of so many.
    #[must_use]
    pub fn start(caller: Caller, urls: &[String], lease: Duration, crowd: usize) -> Self {
        let at_once = (crowd * SHARE / 100).clamp(1, AT_ONCE);
        let stopped = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&stopped);
        let cells: Vec<Http> = urls.iter().map(|url| Http::patient(url.clone(), PATIENCE)).collect();
        let task = tokio::spawn(async move {
            let mut every = tokio::time::interval(lease / IN_A_LEASE);
            every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            let (mut n, mut turn) = (0, 0);
            while !over.load(Ordering::Relaxed) {
                every.tick().await;
                turn += 1;
                if standing(&cells[turn % cells.len()]).await.is_none_or(|standing| standing >= at_once) {
                    continue;
                }
                let act = Act::Register { tag: Caller::word(), lease };
                // Whether it was acknowledged is no matter: what stands must go.
                caller.ask(turn, &format!("{MORTAL}{n}"), act).await;
                n += 1;
            }
        });
        Self { stopped, task }
    }

    /// Ends it; a call in flight is waited for.
    pub async fn stop(self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.task.await.expect("a client does not panic");
    }
}

/// How many of them a process shows.
async fn standing(http: &Http) -> Option<usize> {
    let answer = http.get("/v1/agents?namespace=chaos&name=mortal").await.ok()?;
    answer["agents"].as_array().map(Vec::len)
}
