//! Many at once.

use std::net::IpAddr;
use std::time::Duration;

use rollcall_tests::stage::Shape;

use super::{Scenario, scenario, stage};
use crate::caller::Caller;
use crate::check::Verdict;
use crate::crowd::Size;
use crate::fleet::Fleet;
use crate::game::Game;
use crate::history::{Act, Op, Outcome};

/// Processes of registrants, and how many each has.
const FLEETS: usize = 4;
const EACH: usize = 500;
/// Everybody is heard again this long after the cell is back (F36).
const HEARD_WITHIN: Duration = Duration::from_secs(120);
/// New registrations a second that one process of the cell takes here: so few that a slow and busy machine can ask ten
/// times as many of both beside all else that runs on it.
const ADMITTED: u32 = 5;
/// New registrations a second, and at once, that one process takes where one address may have a tenth of both.
const SHARED: (u32, u32) = (300, 1_000);
/// Addresses that behave, and how long they do so beside one that does not.
const OTHERS: u8 = 10;
const BESIDE: Duration = Duration::from_secs(20);
/// Those that flood it; together they ask far more than ten times for what both take.
const FLOODERS: u32 = 24;

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario {
            size: || Size { steady: 20, lease: Duration::from_secs(30), ..Size::default() },
            ..scenario(
                "cells-killed",
                "F36",
                "all processes of the cell killed under 2,000 registrants: all renew again, with their old epochs",
                |game| Box::pin(cells_killed(game)),
            )
        },
        Scenario {
            shape: || Shape {
                settings: format!(
                    "[guard]\nprobe = false\n\n[admission]\nregistrations_per_second = {ADMITTED}\nburst = 200\naddress_share = \"whole\"\n"
                ),
                ..stage()
            },
            size: || Size { steady: 100, ..Size::default() },
            ..scenario(
                "registration-flood",
                "F37",
                "ten times more new ones than are taken: each is refused with a wait, and renewals are in time",
                |game| Box::pin(flood(game)),
            )
        },
        Scenario {
            shape: || Shape {
                settings: format!(
                    "[guard]\nprobe = false\n\n[admission]\nregistrations_per_second = {}\nburst = {}\n",
                    SHARED.0, SHARED.1
                ),
                ..stage()
            },
            ..scenario(
                "retry-after-ignored",
                "F38",
                "one address that floods and never waits is refused, and no other address notices",
                |game| Box::pin(ignored(game)),
            )
        },
    ]
}

async fn cells_killed(game: &mut Game) {
    let folder = game.stage.folder().to_owned();
    let urls = game.stage.urls();
    let lease = game.size.lease;
    let fleets: Vec<Fleet> =
        (0..FLEETS).map(|n| Fleet::start(&format!("fleet{n}"), &folder, EACH, lease, &urls)).collect();
    let total = (FLEETS * EACH) as u64;
    let sum = |fleets: &[Fleet], name: &str| -> u64 {
        fleets.iter().filter_map(|fleet| fleet.status()?[name].as_u64()).sum()
    };
    let all_renewed = |fleets: &[Fleet], least: u64| {
        fleets.iter().all(|fleet| {
            fleet
                .status()
                .is_some_and(|status| status["fewest_renewals"].as_u64().is_some_and(|few| few >= least))
        })
    };
    let began = game.timeline.now();
    while (sum(&fleets, "registered") < total || !all_renewed(&fleets, 1))
        && game.timeline.now() - began < HEARD_WITHIN
    {
        game.flow(Duration::from_millis(500)).await;
    }
    let registered = sum(&fleets, "registered");
    game.demand(registered == total, format!("quiet: {registered} of {total} registrants were registered"));
    let before = sum(&fleets, "registrations");
    game.note(format!("{registered} registrants of the SDK are registered and have renewed"));
    for n in 0..game.stage.cells() {
        game.stage.cell(n).kill();
    }
    game.landed("killed all processes of the cell");
    let most = fleets.iter().filter_map(|fleet| fleet.status()?["most_renewals"].as_u64()).max().unwrap_or(0);
    game.flow(Duration::from_secs(3)).await;
    for n in 0..game.stage.cells() {
        game.stage.cell(n).start_again();
    }
    let began = game.timeline.now();
    while !all_renewed(&fleets, most + 1) && game.timeline.now() - began < HEARD_WITHIN {
        game.flow(Duration::from_millis(500)).await;
    }
    let took = game.timeline.now() - began;
    game.note(format!("every registrant had renewed again {:.0} s after the restart", took.as_secs_f64()));
    game.demand(took < HEARD_WITHIN, format!("F36: not everybody was heard within {HEARD_WITHIN:?}"));
    let after = sum(&fleets, "registrations");
    game.note(format!(
        "registrations before {before}, after {after}; failed calls {}",
        sum(&fleets, "failures")
    ));
    game.demand(after == before, format!("F36: {} registered anew", after - before));
    game.fleets = fleets;
}

async fn flood(game: &mut Game) {
    let began = game.timeline.now();
    let urls = game.stage.urls();
    let flooders: Vec<_> = (0..FLOODERS)
        .map(|n| {
            let caller = Caller::new(10_000 + n, &urls, game.history.clone());
            tokio::spawn(async move {
                for turn in 0_usize.. {
                    let id = format!("chaos/flood/{n}-{turn}");
                    let act = Act::Register { tag: Caller::word(), lease: Duration::from_secs(300) };
                    caller.ask(turn, &id, act).await;
                }
            })
        })
        .collect();
    game.landed(format!("{FLOODERS} clients register new instances without a pause"));
    game.flow(Duration::from_secs(20)).await;
    flooders.iter().for_each(tokio::task::JoinHandle::abort);
    let until = game.timeline.now();
    game.note("the flood is over");
    let ops: Vec<Op> =
        game.history.ops().into_iter().filter(|op| op.invoked >= began && op.invoked < until).collect();
    let new: Vec<&Op> =
        ops.iter().filter(|op| op.id.starts_with("chaos/flood/") && op.returned.is_some()).collect();
    let taken = new.iter().filter(|op| op.is_acknowledged()).count();
    let seconds = (until - began).as_secs_f64();
    game.note(format!("{} new ones asked in {seconds:.0} s, {taken} were taken", new.len()));
    let offered = f64::from(ADMITTED) * seconds * 2.0 * 10.0;
    #[allow(clippy::cast_precision_loss, reason = "thousands")]
    let asked = new.len() as f64;
    game.demand(
        asked > offered,
        format!("quiet: only {asked} new ones asked, not the {offered:.0} of ten times"),
    );
    let mut verdict = Verdict { ids: "I14", ..Verdict::default() };
    let mut refusals: Vec<Duration> = Vec::new();
    for op in &new {
        match &op.outcome {
            Outcome::Registered(_) => {}
            Outcome::Refused { status: 429 | 503, retry_after: Some(1..) } => {
                refusals.extend(op.returned.map(|returned| returned - op.invoked));
            }
            other => verdict.judge(false, || format!("I14: a new one was answered {other:?}")),
        }
    }
    verdict.checked = new.len();
    refusals.sort_unstable();
    let at = |share: usize| {
        refusals.get(refusals.len().saturating_sub(1) * share / 1_000).copied().unwrap_or_default()
    };
    game.note(format!("refusals took {:?} in the middle, {:?} at the 99.9th", at(500), at(999)));
    let renewals: Vec<&Op> = ops
        .iter()
        .filter(|op| {
            op.id.starts_with("chaos/steady/") && matches!(op.act, Act::Renew(_)) && op.returned.is_some()
        })
        .collect();
    let missed: u32 = game.crowd.steady().values().map(|owner| owner.missed).sum();
    let slow = renewals.iter().filter(|op| {
        op.is_acknowledged()
            && op.returned.is_some_and(|returned| returned - op.invoked > Duration::from_secs(1))
    });
    let slow = slow.count();
    let beats = renewals.iter().filter(|op| op.is_acknowledged()).count();
    game.note(format!(
        "{beats} renewals in time, {slow} of them after more than a second, {missed} beats missed"
    ));
    verdict.judge((missed as usize) * 1_000 <= beats, || {
        format!("I14: {missed} of {beats} beats were not acknowledged by any process")
    });
    game.verdicts.push(verdict);
}

async fn ignored(game: &mut Game) {
    let urls = game.stage.urls();
    let address = |n: u8| IpAddr::from([127, 0, 77, n]);
    let flooders: Vec<_> = (0..FLOODERS)
        .map(|n| {
            let caller = Caller::from_address(10_000 + n, &urls, game.history.clone(), address(1));
            tokio::spawn(async move {
                for turn in 0_usize.. {
                    let act = Act::Register { tag: Caller::word(), lease: Duration::from_secs(300) };
                    caller.ask(turn, &format!("chaos/flood/{n}-{turn}"), act).await;
                }
            })
        })
        .collect();
    game.landed(format!("{FLOODERS} clients of one address register new instances and never wait"));
    // Once what it may have at once is used up.
    game.flow(Duration::from_secs(5)).await;
    let began = game.timeline.now();
    let others: Vec<_> = (0..OTHERS)
        .map(|n| {
            let caller =
                Caller::from_address(11_000 + u32::from(n), &urls, game.history.clone(), address(10 + n));
            tokio::spawn(async move {
                for turn in 0_usize.. {
                    let act = Act::Register { tag: Caller::word(), lease: Duration::from_secs(300) };
                    caller.ask(turn, &format!("chaos/other/{n}-{turn}"), act).await;
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
            })
        })
        .collect();
    game.flow(BESIDE).await;
    flooders.iter().chain(&others).for_each(tokio::task::JoinHandle::abort);
    let ops = game.history.ops();
    let answered = |prefix: &str| -> Vec<&Op> {
        let of = |op: &&Op| op.id.starts_with(prefix) && op.returned.is_some() && op.invoked >= began;
        ops.iter().filter(of).collect()
    };
    let (flood, good) = (answered("chaos/flood/"), answered("chaos/other/"));
    let refused = flood.iter().filter(|op| matches!(op.outcome, Outcome::Refused { .. })).count();
    game.note(format!(
        "{refused} of {} of the one address were refused; the others asked {} times",
        flood.len(),
        good.len()
    ));
    game.demand(
        refused * 2 > flood.len() && good.len() > usize::from(OTHERS) * 10,
        format!("quiet: {refused} of {} refused, {} others", flood.len(), good.len()),
    );
    let mut verdict = Verdict { ids: "F38", ..Verdict::default() };
    for op in good {
        verdict.judge(op.is_acknowledged(), || format!("F38: {} was answered {:?}", op.id, op.outcome));
    }
    for op in flood {
        let is_clear = op.is_acknowledged()
            || matches!(op.outcome, Outcome::Refused { status: 429 | 503, retry_after: Some(1..) });
        verdict.judge(is_clear, || format!("I14: {} was answered {:?}", op.id, op.outcome));
    }
    game.verdicts.push(verdict);
}
