//! Faults of etcd's members.

use std::time::Duration;

use rand::Rng;

use super::{Scenario, scenario};
use crate::game::Game;

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
