//! A third of the owners cut off from the cell.

use std::time::Duration;

use rollcall_tests::http::Http;

use super::{Scenario, scenario};
use crate::crowd::Size;
use crate::game::{Game, Ways};

/// Three leases: every one of those that are cut off lapses.
const LEASES: u32 = 3;

pub(super) fn all() -> Vec<Scenario> {
    let apart = |scenario: Scenario| Scenario {
        size: || Size { steady: 120, ..Size::default() },
        ways: Ways::ThirdApart,
        ..scenario
    };
    vec![
        apart(scenario(
            "cut-both-ways",
            "F17",
            "a third of the owners cut off: the guard holds, nobody goes, old epochs renew",
            |game| Box::pin(cut(game, true, true)),
        )),
        apart(scenario(
            "cut-answers",
            "F18",
            "requests arrive and answers are lost: renewals count at every process, nobody goes",
            |game| Box::pin(cut(game, false, true)),
        )),
        apart(scenario("cut-requests", "F19", "requests are lost: as if cut off both ways", |game| {
            Box::pin(cut(game, true, false))
        })),
    ]
}

async fn cut(game: &mut Game, requests: bool, answers: bool) {
    game.proxies.iter().for_each(|proxy| proxy.cut(requests, answers));
    game.landed(format!("cut a third of the owners off: requests {requests}, answers {answers}"));
    game.flow(game.size.lease * LEASES).await;
    let state = guard(game).await;
    game.note(format!("the guard is {state}"));
    let expected = if requests { "holding" } else { "calm" };
    game.demand(state == expected, format!("I08: the guard is {state} and not {expected}"));
    game.proxies.iter().for_each(|proxy| proxy.cut(false, false));
    game.note("healed");
    let within = Duration::from_secs(30);
    let began = game.timeline.now();
    while guard(game).await != "calm" && game.timeline.now() - began < within {
        game.flow(Duration::from_millis(200)).await;
    }
    let took = game.timeline.now() - began;
    game.demand(took < within, format!("I08: the guard still holds {within:?} after the cut healed"));
    game.note(format!("the guard is calm {:.1} s later", took.as_secs_f64()));
    game.flow(game.size.lease * 2).await;
}

/// What the keeper says of its guard.
async fn guard(game: &Game) -> String {
    for url in game.stage.urls() {
        if let Ok(answer) = Http::new(url).get("/v1/guard").await {
            return answer["state"].as_str().unwrap_or("silent").to_owned();
        }
    }
    "silent".to_owned()
}
