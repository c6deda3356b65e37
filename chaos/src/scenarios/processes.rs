//! Faults of the cell's processes.

use std::time::Duration;

use rand::Rng;

use super::{Scenario, scenario};
use crate::crowd::Size;
use crate::game::Game;

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

async fn keeper_paused(game: &mut Game) {
    for _ in 0..2 {
        let Some(first) = game.stage.keeper() else {
            game.demand(false, "F13: nobody keeps");
            return;
        };
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
        game.flow(game.size.lease + Duration::from_secs(2)).await;
        game.stage.cell(first).resume();
        game.note(format!("cell{first} goes on"));
        game.flow(game.size.lease + Duration::from_secs(2)).await;
    }
}
