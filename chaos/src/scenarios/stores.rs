//! Faults of the store as a whole: another history, no space.

use std::time::Duration;

use rand::Rng;
use rollcall_tests::etcd;
use rollcall_tests::stage::Shape;

use super::{Scenario, scenario, stage};
use crate::game::Game;
use crate::history::{Act, Op, Outcome};
use crate::tap::OURS;

pub(super) fn all() -> Vec<Scenario> {
    vec![
        scenario(
            "etcd-restored",
            "F04",
            "a restored backup is a new incarnation, and no epoch falls",
            |game| Box::pin(restored(game, false)),
        ),
        scenario(
            "etcd-restored-unseen",
            "F04b",
            "the same while the cell is frozen and the new history outgrows the old one",
            |game| Box::pin(restored(game, true)),
        ),
        Scenario {
            shape: small,
            ..scenario(
                "etcd-full",
                "F08",
                "without space new ones are refused and renewals go on; it heals without a restart",
                |game| Box::pin(full(game, false)),
            )
        },
        Scenario {
            shape: small,
            ..scenario(
                "etcd-full-keeper-killed",
                "F08b",
                "the same, and the keeper's process dies meanwhile: another keeps the leases, without space",
                |game| Box::pin(full(game, true)),
            )
        },
    ]
}

fn small() -> Shape {
    Shape { etcd_flags: vec!["--quota-backend-bytes", "16777216"], ..stage() }
}

async fn restored(game: &mut Game, unseen: bool) {
    let file = game.stage.folder().join("backup");
    let from = game.chance.random_range(0..3);
    game.stage.etcd.save(from, &file);
    let backup = etcd::backup_revision(&file);
    game.note(format!("saved a backup of etcd{from} at revision {backup}"));
    game.flow(Duration::from_secs(3)).await;
    let head = game.tapped();
    game.demand(head > backup + 5, "quiet: nothing was written after the backup");
    if unseen {
        (0..game.stage.cells()).for_each(|n| game.stage.cell(n).pause());
        game.note("froze the cell");
    }
    game.new_life(backup, |stage| stage.etcd.restore(&file));
    game.landed(format!("restored the backup; the history had reached revision {head}"));
    game.stage.etcd.usable().await;
    if unseen {
        let mut revision = backup;
        while revision < head + 50 {
            game.stage.etcd.ctl(0, &["put", &format!("{OURS}outgrow"), "x"]).expect("etcd takes a write");
            revision = game.stage.etcd.revision(0);
        }
        (0..game.stage.cells()).for_each(|n| game.stage.cell(n).resume());
        game.note(format!("the cell goes on; the new history is at revision {revision}"));
    }
    let took = game.writes_again(Duration::from_secs(30)).await;
    game.note(format!("a write was acknowledged after {:.1} s", took.as_secs_f64()));
    game.renews_again(Duration::from_secs(30)).await;
    game.flow(game.size.lease * 2).await;
    for n in 0..game.stage.cells() {
        let ordinal = game.readers.last(n).map(|look| look.position.0);
        game.demand(
            ordinal.is_some_and(|ordinal| ordinal > 1),
            format!("I03: cell{n} shows incarnation {ordinal:?}"),
        );
    }
}

async fn full(game: &mut Game, is_keeper_killed: bool) {
    // As long as one argument of a program may be.
    let value = "x".repeat(120 * 1024);
    let mut filled = false;
    for _ in 0..400 {
        if let Err(why) = game.stage.etcd.ctl(0, &["put", &format!("{OURS}fill"), &value]) {
            filled = why.contains("space exceeded");
            if filled {
                break;
            }
        }
    }
    game.demand(filled, "quiet: the store did not fill up");
    let began = game.timeline.now();
    game.landed("the store is full");
    game.flow(game.size.lease * 2).await;
    if is_keeper_killed {
        let Some(first) = game.stage.keeper() else { return game.demand(false, "F08: nobody keeps") };
        game.stage.cell(first).kill();
        game.landed(format!("killed the keeper, cell{first}"));
        let took = game.renews_again(Duration::from_secs(15)).await;
        game.note(format!("renewals again after {:.1} s, without space", took.as_secs_f64()));
        game.stage.cell(first).start_again();
        game.stage.cell_ready(first).await;
        game.flow(game.size.lease * 3).await;
        let next = game.stage.keeper();
        game.demand(next.is_some_and(|next| next != first), format!("F08: {next:?} keeps the leases"));
    }
    let until = game.timeline.now();
    let during = |op: &&Op| op.invoked > began + Duration::from_secs(2) && op.invoked < until;
    let ops = game.history.ops();
    let written =
        ops.iter().filter(during).filter(|op| matches!(op.act, Act::Register { .. })).collect::<Vec<_>>();
    let clear = written.iter().filter(|op| {
        matches!(op.outcome, Outcome::Refused { status: 503, retry_after: Some(seconds) } if seconds > 0)
    });
    let clear = clear.count();
    game.note(format!("{clear} of {} registrations were refused with a wait", written.len()));
    // Who dies with its callers' questions answers none of them.
    let unanswered =
        written.iter().filter(|op| is_keeper_killed && matches!(op.outcome, Outcome::Unknown(_)));
    let unanswered = unanswered.count();
    game.demand(
        clear > 10 * unanswered && clear + unanswered == written.len(),
        "F08: not every registration was refused clearly",
    );
    let renewed =
        ops.iter().filter(during).filter(|op| matches!(op.act, Act::Renew(_)) && op.is_acknowledged());
    let renewed = renewed.count();
    game.note(format!("{renewed} renewals were acknowledged meanwhile"));
    game.demand(renewed > game.size.steady * 2, "F08: renewals did not go on");
    let head = game.stage.etcd.revision(0).to_string();
    game.stage.etcd.ctl(0, &["compact", "--physical", &head]).expect("etcd compacts");
    for n in 0..3 {
        game.stage.etcd.ctl(n, &["--command-timeout", "30s", "defrag"]).expect("etcd defragments");
    }
    game.stage.etcd.ctl(0, &["alarm", "disarm"]).expect("the alarm is disarmed");
    game.note("compacted, defragmented and disarmed");
    let took = game.writes_again(Duration::from_secs(20)).await;
    game.note(format!("a write was acknowledged after {:.1} s", took.as_secs_f64()));
    game.flow(game.size.lease * 2).await;
}
