//! When `rollcall dev` can be used: not when its parts run, but when they have caught up with each other.
//!
//! Promises: whoever reads or writes after `ready` meets no region that is still on its way. It only looks, and changes
//! nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use rollcall_cell::regions::{Regions, Which};
use rollcall_model::{Freshness, Instant, Revision};

use super::region::Running;
use crate::roles::process_clock;

/// How often it is looked. Not every part wakes others when it gets on, and it is looked for a second, once.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Waits until every region takes registrations and renewals: its keeper is in office, and so its store was reached.
pub(crate) async fn all_serve(running: &[Running]) {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    while running.iter().any(|region| region.keeper.term().is_none()) {
        looks.tick().await;
    }
}

/// Waits until every region has seen all that happened until now in each of them, and is current.
///
/// That a view is loaded is not enough: it may be the copy on disk of an earlier run.
pub(crate) async fn all_caught_up(running: &[Running]) {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    let clock = process_clock();
    let mut heads = BTreeMap::new();
    loop {
        looks.tick().await;
        for region in running {
            if heads.contains_key(&region.name) {
                continue;
            }
            match region.head().await {
                Ok(head) => drop(heads.insert(region.name.clone(), head)),
                Err(error) => tracing::warn!(region = region.name, %error, "head of the store is not known"),
            }
        }
        let has_seen = |region: &Running| has_seen(&region.regions, &heads, clock.now());
        if heads.len() == running.len() && running.iter().all(has_seen) {
            return;
        }
    }
}

fn has_seen(regions: &Regions, heads: &BTreeMap<String, Revision>, now: Instant) -> bool {
    let Ok(views) = regions.now(&Which::All) else { return false };
    views.iter().all(|view| {
        let head = heads.get(view.region().as_str());
        let seen = view.state().is_some() && view.position().map(|position| &position.revision) >= head;
        seen && view.freshness(now) == Freshness::Current
    })
}
