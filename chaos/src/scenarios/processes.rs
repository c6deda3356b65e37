//! Faults of the cell's processes.

use std::time::Duration;

use rand::Rng;

use super::{Scenario, scenario};
use crate::caller::Caller;
use crate::crowd::Size;
use crate::game::Game;
use crate::history::{Act, Outcome};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario {
            size: || Size { clients: 10, pace: Duration::from_millis(30), ..Size::default() },
            ..scenario(
                "cell-killed",
                "F12",
                "a process of the cell that is killed at any moment loses and half-does nothing",
                |game| Box::pin(cell_killed(game)),
            )
        },
        scenario(
            "keeper-killed",
            "F12",
            "a keeper whose process is killed is followed within moments, and costs no lease",
            |game| Box::pin(keeper_killed(game)),
        ),
        scenario(
            "keeper-paused",
            "F13",
            "a keeper that wakes after its successor's election removes nothing",
            |game| Box::pin(keeper_paused(game)),
        ),
    ]
}

async fn cell_killed(game: &mut Game) {
    for _ in 0..12 {
        let n = game.chance.random_range(0..game.stage.cells());
        let wait = Duration::from_millis(game.chance.random_range(200..2_500));
        game.flow(wait).await;
        game.stage.cell(n).kill();
        game.landed(format!("killed cell{n}"));
        let down = Duration::from_millis(game.chance.random_range(50..1_500));
        game.flow(down).await;
        game.stage.cell(n).start_again();
        game.stage.cell_ready(n).await;
    }
}

async fn keeper_killed(game: &mut Game) {
    for _ in 0..3 {
        let Some(first) = game.stage.keeper() else {
            game.demand(false, "F12: nobody keeps");
            return;
        };
        game.stage.cell(first).kill();
        game.landed(format!("killed the keeper, cell{first}"));
        let took = game.renews_again(Duration::from_secs(15)).await;
        game.note(format!("renewals again after {:.1} s", took.as_secs_f64()));
        game.stage.cell(first).start_again();
        game.stage.cell_ready(first).await;
        game.flow(Duration::from_secs(3)).await;
    }
}

async fn keeper_paused(game: &mut Game) {
    for _ in 0..2 {
        let Some(first) = game.stage.keeper() else {
            game.demand(false, "F13: nobody keeps");
            return;
        };
        let epochs = register(game, first).await;
        game.stage.cell(first).pause();
        game.landed(format!("paused the keeper, cell{first}"));
        let began = game.timeline.now();
        let within = Duration::from_secs(20);
        let next = loop {
            let keeper = game.stage.keeper().filter(|keeper| *keeper != first);
            if keeper.is_some() || game.timeline.now() - began > within {
                break keeper;
            }
            game.flow(Duration::from_millis(100)).await;
        };
        let took = (game.timeline.now() - began).as_secs_f64();
        game.demand(next.is_some(), format!("F13: nobody took over within {within:?}"));
        game.note(format!("{next:?} took over after {took:.1} s"));
        game.renews_again(Duration::from_secs(15)).await;
        let old = overtaken(game, &epochs, next.unwrap_or_default()).await;
        game.flow(game.size.lease).await;
        let queued = queue(game, first, old);
        game.flow(Duration::from_secs(1)).await;
        game.stage.cell(first).resume();
        game.note(format!("cell{first} goes on, with {} renewals of old epochs before it", queued.len()));
        let mut stale = 0;
        for outcome in queued {
            stale += usize::from(outcome.await.is_ok_and(|outcome| outcome == Outcome::Done));
        }
        game.demand(
            stale == 0,
            format!(
                "I02: {stale} renewals of epochs that were replaced {} s ago were acknowledged",
                game.size.lease.as_secs()
            ),
        );
        game.flow(game.size.lease + Duration::from_secs(2)).await;
    }
}

/// Instances that are registered before the keeper sleeps and registered anew while it does.
const OVERTAKEN: u32 = 24;

fn overtaken_id(n: u32) -> String {
    format!("chaos/overtaken/{n}")
}

fn caller(game: &Game) -> Caller {
    Caller::new(20_000, &game.stage.urls(), game.history.clone())
}

async fn register(game: &Game, cell: usize) -> Vec<(String, u64)> {
    let (caller, mut epochs) = (caller(game), Vec::new());
    for n in 0..OVERTAKEN {
        let act = Act::Register { tag: Caller::word(), lease: Duration::from_secs(60) };
        if let Outcome::Registered(epoch) = caller.ask(cell, &overtaken_id(n), act).await {
            epochs.push((overtaken_id(n), epoch));
        }
    }
    epochs
}

/// Registers them anew elsewhere and gives the epochs that are old by that.
async fn overtaken(game: &Game, epochs: &[(String, u64)], cell: usize) -> Vec<(String, u64)> {
    let new = register(game, cell).await;
    epochs.iter().filter(|(id, _)| new.iter().any(|(other, _)| other == id)).cloned().collect()
}

/// Renews the old epochs at a process that sleeps: the requests wait in its sockets.
fn queue(game: &Game, cell: usize, old: Vec<(String, u64)>) -> Vec<tokio::task::JoinHandle<Outcome>> {
    let renew = |(id, epoch): (String, u64)| {
        let caller = caller(game);
        tokio::spawn(async move { caller.ask(cell, &id, Act::Renew(epoch)).await })
    };
    old.into_iter().map(renew).collect()
}
