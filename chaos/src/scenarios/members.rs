//! Faults of etcd's members.

use std::time::Duration;

use rand::Rng;
use rollcall_tests::process::Process;

use super::{Scenario, scenario};
use crate::game::Game;
use crate::history::Act;

/// Writes are back this long after a member fell: two elections, and the longest call that was in flight.
const ELECTED: Duration = Duration::from_secs(10);

pub(super) fn all() -> Vec<Scenario> {
    vec![
        scenario(
            "etcd-leader-killed",
            "F01",
            "writes come back after an election, nothing expires for it",
            |game| Box::pin(leader_killed(game)),
        ),
        scenario(
            "etcd-follower-killed",
            "F02",
            "a follower that falls and comes back is not noticed",
            |game| Box::pin(follower_killed(game)),
        ),
        scenario(
            "etcd-quorum-lost",
            "F03",
            "without a quorum for two leases nothing goes, then or just after, and old epochs renew",
            |game| Box::pin(quorum_lost(game)),
        ),
        scenario(
            "etcd-leader-paused",
            "F09",
            "a leader that wakes after its successor's election serves nothing stale",
            |game| Box::pin(leader_paused(game)),
        ),
        scenario(
            "etcd-defrag",
            "F07",
            "each member defragmented in turn under load costs time and nothing else",
            |game| Box::pin(defragmented(game)),
        ),
        scenario(
            "etcd-members-replaced",
            "F11",
            "every member taken out and put in again with an empty disk, one after another: nobody notices",
            |game| Box::pin(replaced(game)),
        ),
        scenario(
            "etcd-slow-disk",
            "F10",
            "a leader whose disk is slow holds writes up; renewals go on in time",
            |game| Box::pin(slow_disk(game)),
        ),
    ]
}

async fn defragmented(game: &mut Game) {
    for n in 0..game.stage.etcd.len() {
        let began = game.timeline.now();
        let done = game.stage.etcd.ctl(n, &["--command-timeout", "30s", "defrag"]);
        game.demand(done.is_ok(), format!("F07: etcd{n} was not defragmented: {done:?}"));
        let took = (game.timeline.now() - began).as_secs_f64();
        game.landed(format!("etcd{n} was defragmented within {took:.1} s"));
        let took = game.writes_again(ELECTED).await;
        game.note(format!("a write was acknowledged after {:.1} s", took.as_secs_f64()));
        game.flow(Duration::from_secs(2)).await;
    }
}

fn leader(game: &Game) -> usize {
    game.stage.etcd.leader().expect("etcd has a leader")
}

async fn leader_killed(game: &mut Game) {
    for _ in 0..2 {
        let leader = leader(game);
        game.stage.etcd.member(leader).kill();
        game.landed(format!("killed the leader, etcd{leader}"));
        let took = game.writes_again(ELECTED).await;
        game.note(format!("a write was acknowledged after {:.1} s", took.as_secs_f64()));
        game.flow(Duration::from_secs(3)).await;
        game.stage.etcd.member(leader).start_again();
        game.stage.etcd.usable().await;
        game.note(format!("etcd{leader} is back"));
        game.flow(Duration::from_secs(2)).await;
    }
}

async fn follower_killed(game: &mut Game) {
    let leader = leader(game);
    for n in (0..game.stage.etcd.len()).filter(|n| *n != leader) {
        game.stage.etcd.member(n).kill();
        game.landed(format!("killed a follower, etcd{n}"));
        let took = game.writes_again(ELECTED).await;
        game.note(format!("a write was acknowledged after {:.1} s", took.as_secs_f64()));
        game.flow(Duration::from_secs(4)).await;
        game.stage.etcd.member(n).start_again();
        game.stage.etcd.usable().await;
        game.note(format!("etcd{n} is back"));
        game.flow(Duration::from_secs(2)).await;
    }
}

async fn quorum_lost(game: &mut Game) {
    let stays = game.chance.random_range(0..3);
    for n in (0..3).filter(|n| *n != stays) {
        game.stage.etcd.member(n).kill();
    }
    game.landed(format!("killed all members but etcd{stays}"));
    let lost = game.timeline.now();
    game.flow(game.size.lease * 2 + Duration::from_secs(1)).await;
    for n in 0..game.stage.cells() {
        let claims =
            game.readers.last(n).is_some_and(|look| look.current && look.at > lost + Duration::from_secs(6));
        game.demand(!claims, format!("I20: cell{n} says that it is current without a quorum"));
    }
    for n in (0..3).filter(|n| *n != stays) {
        game.stage.etcd.member(n).start_again();
    }
    game.stage.etcd.usable().await;
    game.note("the quorum is back");
    let took = game.renews_again(Duration::from_secs(30)).await;
    game.note(format!("a renewal was acknowledged after {:.1} s", took.as_secs_f64()));
    game.flow(game.size.lease * 2).await;
}

async fn leader_paused(game: &mut Game) {
    for seconds in [6, 15] {
        let leader = leader(game);
        game.stage.etcd.member(leader).pause();
        game.landed(format!("paused the leader, etcd{leader}, for {seconds} s"));
        let took = game.writes_again(ELECTED).await;
        game.note(format!("a write was acknowledged after {:.1} s", took.as_secs_f64()));
        game.flow(Duration::from_secs(seconds).saturating_sub(took)).await;
        game.stage.etcd.member(leader).resume();
        game.note("it goes on");
        game.stage.etcd.usable().await;
        game.flow(Duration::from_secs(3)).await;
    }
}

async fn replaced(game: &mut Game) {
    for n in 0..game.stage.etcd.len() {
        let led = game.stage.etcd.leader() == Some(n);
        let mut out = game.stage.etcd.take_out(n);
        let began = game.timeline.now();
        // etcd changes its members only while all of them have been connected for five seconds.
        while out.is_err() && game.timeline.now() - began < CONNECTED {
            game.flow(Duration::from_millis(500)).await;
            out = game.stage.etcd.take_out(n);
        }
        game.demand(out.is_ok(), format!("quiet: etcd{n} was not taken out: {out:?}"));
        game.landed(format!("took etcd{n} out for good; it led: {led}"));
        let took = game.writes_again(ELECTED).await;
        game.note(format!("a write was acknowledged after {:.1} s", took.as_secs_f64()));
        game.flow(Duration::from_secs(5)).await;
        let added = game.stage.etcd.put_in(n);
        game.demand(added.is_ok(), format!("quiet: etcd{n} was not put in: {added:?}"));
        game.stage.etcd.usable().await;
        game.note(format!("another etcd{n} has caught up"));
        game.writes_again(ELECTED).await;
        game.flow(Duration::from_secs(5)).await;
    }
}

/// etcd's members have been connected for long enough by then to change one.
const CONNECTED: Duration = Duration::from_secs(20);

/// So much longer takes each time the leader makes something durable: a disk that is worn or shared.
const DISK_US: u64 = 250_000;
/// How long the disk is slow.
const SLOW: Duration = Duration::from_secs(25);

async fn slow_disk(game: &mut Game) {
    let leader = leader(game);
    let Some(pid) = game.stage.etcd.member(leader).pid() else { return };
    let folder = game.stage.folder().to_owned();
    let before = middle_of_writes(game, Duration::ZERO);
    let inject = format!("inject=fdatasync:delay_exit={DISK_US}");
    let arguments = ["-f", "-qq", "-p", &pid.to_string(), "-e", "trace=fdatasync", "-e", &inject];
    let arguments = arguments.map(str::to_owned).to_vec();
    let missed = |game: &Game| game.crowd.steady().values().map(|owner| owner.missed).sum::<u32>();
    let missed_before = missed(game);
    let mut slow = Process::start("slow-disk", &folder, "strace".into(), arguments, &[]);
    let began = game.timeline.now();
    game.flow(SLOW).await;
    let during = middle_of_writes(game, began);
    if slow.is_running() && during > before * 3 {
        game.landed(format!("etcd{leader} wrote slowly: a write took {during:?} and {before:?} before"));
    } else {
        game.demand(false, format!("quiet: a write took {during:?} and {before:?} before (it wants strace)"));
    }
    let missed = missed(game) - missed_before;
    let beats = game.history.acknowledged(|op| {
        op.invoked > began && matches!(op.act, Act::Renew(_)) && op.id.starts_with("chaos/steady/")
    });
    game.note(format!("{beats} beats of steady owners were acknowledged meanwhile, {missed} were not"));
    game.demand(
        beats > game.size.steady * 5 && (missed as usize) * 100 <= beats,
        format!("F10: {missed} beats were missed beside {beats}"),
    );
    // Tracing ends with its process, and the disk is as before.
    slow.signal("INT");
    slow.wait(Duration::from_secs(5));
    game.note("the disk is as before");
    game.writes_again(ELECTED).await;
    game.flow(game.size.lease).await;
}

/// How long the acknowledged writes since then took, in the middle.
fn middle_of_writes(game: &Game, since: Duration) -> Duration {
    let ops = game.history.ops();
    let writes = ops.iter().filter(|op| op.invoked >= since && op.is_acknowledged());
    let writes = writes.filter(|op| !matches!(op.act, Act::Renew(_)));
    let mut took: Vec<Duration> = writes.filter_map(|op| Some(op.returned? - op.invoked)).collect();
    took.sort_unstable();
    took.get(took.len() / 2).copied().unwrap_or_default()
}
