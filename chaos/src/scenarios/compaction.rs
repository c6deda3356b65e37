//! The store's history is let go close behind its head, while everything changes.

use std::time::Duration;

use rollcall_tests::http::Http;
use rollcall_tests::stage::Shape;

use super::{Scenario, scenario, stage};
use crate::crowd::Size;
use crate::game::Game;

/// Between two compactions.
const EVERY: Duration = Duration::from_millis(100);
/// How long they go on in the scenario that is only about them.
const CHURN: Duration = Duration::from_secs(45);
/// How long a process is cut off from the store: what it has missed is compacted by then, and it is not current.
const CUT: Duration = Duration::from_secs(6);

pub(super) fn all() -> Vec<Scenario> {
    // A state that lost a change would be found within two seconds, by the product and by the readers.
    let churning = |scenario: Scenario| Scenario {
        shape: || {
            let stage = stage();
            let settings = format!("audit_seconds = 2\n\n{}", stage.settings);
            Shape { ways: true, settings, ..stage }
        },
        size: || Size { clients: 10, pace: Duration::from_millis(40), ..Size::default() },
        ..scenario
    };
    vec![
        churning(scenario(
            "compaction-past-replica",
            "F05",
            "a process whose place in the history was compacted reloads, and calls nothing current meanwhile",
            |game| Box::pin(past(game)),
        )),
        churning(scenario(
            "compaction-churn",
            "F06",
            "a compaction every 100 ms under churn: no copy ever lacks or keeps what it should not",
            |game| Box::pin(churn(game)),
        )),
    ]
}

/// Compacts for so long, always up to where every member's tap has seen everything; how often.
async fn compact(game: &Game, time: Duration) -> usize {
    let began = game.timeline.now();
    let (mut times, mut last) = (0, 0);
    let mut client =
        etcd_client::Client::connect(game.stage.etcd.addresses(), None).await.expect("etcd is there");
    while game.timeline.now() - began < time {
        let head = game.tapped_everywhere();
        if head > last && client.compact(i64::try_from(head).unwrap_or(i64::MAX), None).await.is_ok() {
            (times, last) = (times + 1, head);
        }
        game.flow(EVERY).await;
    }
    times
}

async fn churn(game: &mut Game) {
    let before = reloads(game).await;
    let times = compact(game, CHURN).await;
    game.landed(format!("compacted {times} times within {CHURN:?}"));
    game.demand(times > 100, format!("quiet: {times} compactions alone"));
    let after = reloads(game).await;
    game.note(format!("states replaced by a snapshot: {before:?} before, {after:?} after"));
}

async fn past(game: &mut Game) {
    for cell in 0..game.stage.cells() {
        let before = reloads(game).await;
        let cut = game.timeline.now();
        game.stage.ways(cell).iter().for_each(|way| {
            way.cut(true, true);
            way.break_off();
        });
        let times = compact(game, CUT).await;
        let claims = game
            .readers
            .last(cell)
            .is_some_and(|look| look.current && look.at > cut + Duration::from_secs(5));
        game.demand(!claims, format!("I20: cell{cell} is cut off from its store and calls itself current"));
        game.stage.ways(cell).iter().for_each(|way| {
            way.break_off();
            way.cut(false, false);
        });
        game.landed(format!("cell{cell} was cut off from the store during {times} compactions"));
        let (began, within) = (game.timeline.now(), Duration::from_secs(30));
        while !game.readers.last(cell).is_some_and(|look| look.current && look.at > began) {
            if game.timeline.now() - began > within {
                game.demand(
                    false,
                    format!("F05: cell{cell} is not current {within:?} after it reached the store"),
                );
                break;
            }
            game.flow(Duration::from_millis(50)).await;
        }
        let took = (game.timeline.now() - began).as_secs_f64();
        let after = reloads(game).await;
        game.note(format!("cell{cell} is current after {took:.1} s; reloads {before:?}, then {after:?}"));
        game.demand(after[cell] > before[cell], format!("quiet: cell{cell} went on without a reload"));
        game.flow(game.size.lease).await;
    }
}

/// How often each process replaced its state by a snapshot, by its own metric.
async fn reloads(game: &Game) -> Vec<u64> {
    let mut all = Vec::new();
    for url in game.stage.urls() {
        let text = match Http::new(url).send("GET", "/metrics", &[], None).await {
            Ok(answer) => String::from_utf8_lossy(&answer.bytes).into_owned(),
            Err(_) => String::new(),
        };
        let line = text.lines().find(|line| line.starts_with("rollcall_cell_view_resyncs"));
        let value = line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).unwrap_or_default();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small count")]
        all.push(value as u64);
    }
    all
}
