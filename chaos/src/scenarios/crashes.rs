//! A process that dies at each place of a write's way: before the store has it, after the store has it and before
//! anybody is told, with the store's member, and with the answer on its way to the client.
//!
//! The places are met from outside, without a line of the product made for it: ways that hold packets back say where a
//! write is, and the tap says whether the store has it. Promises that a point at which the write was not where it
//! should be does not count as landed.

use std::time::Duration;

use rollcall_tests::proxy::Proxy;
use rollcall_tests::stage::Shape;

use super::{Scenario, scenario, stage};
use crate::caller::Caller;
use crate::crowd::Size;
use crate::game::Game;
use crate::history::{Act, Outcome};
use crate::mortals::MORTAL;
use crate::tap::{Event, What};

/// Holds a write long enough for it to be on its way: the cell decides and sends within milliseconds.
const SENT: Duration = Duration::from_millis(400);
/// What the store has is seen by the tap within this.
const STORED: Duration = Duration::from_secs(3);
/// Long enough to outlive a run.
const LEASE: Duration = Duration::from_secs(120);

/// A place on a write's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    /// Sent by the cell and lost on the way to the store; the cell's process dies.
    BeforeTheStore,
    /// The same, and what was sent arrives after another process has written the instance anew.
    Late,
    /// The store has it and its answer is lost; the cell's process dies.
    AfterTheStore,
    /// The store has it and its answer is lost; the leading member of etcd dies.
    WithTheStore,
    /// The leader has it and cannot commit it; it dies, and the others go on.
    BeforeTheCommit,
    /// The cell has answered and its answer is lost; the cell's process dies.
    AfterTheAnswer,
}

/// What is written.
const ACTS: [&str; 4] = ["register", "register anew", "update", "deregister"];

pub(super) fn all() -> Vec<Scenario> {
    let apart = |scenario: Scenario| Scenario {
        shape: || Shape { ways: true, ..stage() },
        size: || Size { pace: Duration::from_millis(100), ..Size::default() },
        ..scenario
    };
    vec![
        apart(scenario(
            "cell-crash-points",
            "F12",
            "a process of the cell that dies at each place of a write's way tells nothing untrue and half-does nothing",
            |game| {
                Box::pin(async move {
                    for point in
                        [Point::BeforeTheStore, Point::Late, Point::AfterTheStore, Point::AfterTheAnswer]
                    {
                        play(game, point).await;
                    }
                })
            },
        )),
        apart(scenario("etcd-crash-points", "F12", "the same with etcd's leader in its place", |game| {
            Box::pin(async move {
                for point in [Point::WithTheStore, Point::BeforeTheCommit] {
                    play(game, point).await;
                }
            })
        })),
        apart(scenario(
            "keeper-crash-points",
            "F12",
            "a keeper that dies between a removal and the store's word for it removes once, with its reason",
            |game| Box::pin(keeper(game)),
        )),
    ]
}

async fn play(game: &mut Game, point: Point) {
    for (n, what) in ACTS.into_iter().enumerate() {
        let cell = n % game.stage.cells();
        let id = format!("chaos/crash/{point:?}-{n}").to_lowercase();
        let other = Caller::new(30_000, &game.stage.urls(), game.history.clone());
        let at = cell + 1;
        let before = match what {
            "register" => None,
            _ => registered(game, &other, at, &id).await,
        };
        let act = match (what, before) {
            ("update", Some(epoch)) => Act::Update(epoch, Caller::word()),
            ("deregister", Some(epoch)) => Act::Deregister(epoch),
            _ => Act::Register { tag: Caller::word(), lease: LEASE },
        };
        let stored = stored(&id, &act);
        let outcome = meet(game, point, cell, &id, act, &stored).await;
        game.note(format!("{point:?}: {what} of {id} was answered {outcome:?}"));
        let told = outcome.as_ref().is_some_and(|outcome| !matches!(outcome, Outcome::Unknown(_)));
        game.demand(!told, format!("I15: at {point:?} the client was told {outcome:?} of {id}"));
        // Whatever became of it, the instance is its next owner's.
        let next = registered(game, &other, at, &id).await;
        game.demand(
            next.is_some() && next > before,
            format!("I03: after {point:?} {id} got epoch {next:?} and had {before:?}"),
        );
    }
}

async fn registered(game: &mut Game, caller: &Caller, cell: usize, id: &str) -> Option<u64> {
    let began = game.timeline.now();
    while game.timeline.now() - began < Duration::from_secs(20) {
        let act = Act::Register { tag: Caller::word(), lease: LEASE };
        if let Outcome::Registered(epoch) = caller.ask(cell, id, act).await {
            return Some(epoch);
        }
        game.flow(Duration::from_millis(100)).await;
    }
    game.demand(false, format!("healing: {id} could not be registered"));
    None
}

/// Whether an event is this write.
fn stored(id: &str, act: &Act) -> impl Fn(&Event) -> bool + Clone + use<> {
    let (reg, own) = (format!("/reg/{id}"), format!("/own/{id}"));
    let act = act.clone();
    let holds = |value: &[u8], word: &str| value.windows(word.len()).any(|part| part == word.as_bytes());
    move |event: &Event| match (&act, &event.what) {
        (Act::Register { tag, .. }, What::Put { value, .. }) => {
            event.key.ends_with(&reg) && holds(value, tag)
        }
        (Act::Update(_, word), What::Put { value, .. }) => event.key.ends_with(&own) && holds(value, word),
        (Act::Deregister(_), What::Removed) => event.key.ends_with(&reg),
        _ => false,
    }
}

/// Brings a write to its point and lets the process die there; what its client was told, if it was.
async fn meet(
    game: &mut Game,
    point: Point,
    cell: usize,
    id: &str,
    act: Act,
    stored: &(impl Fn(&Event) -> bool + Clone),
) -> Option<Outcome> {
    // The client's own way, which holds back the cell's answer in one of the points.
    let way = Proxy::to(&game.stage.urls()[cell]).await;
    let caller = Caller::new(30_001, &[way.url()], game.history.clone());
    let leader = game.stage.etcd.leader();
    let hold = |game: &Game, requests, answers| {
        game.stage.ways(cell).iter().for_each(|way| way.cut(requests, answers));
    };
    match point {
        Point::BeforeTheStore | Point::Late => hold(game, true, false),
        Point::AfterTheStore | Point::WithTheStore => hold(game, false, true),
        Point::AfterTheAnswer => way.cut(false, true),
        Point::BeforeTheCommit => {
            followers(game, leader).for_each(|n| game.stage.etcd.member(n).pause());
        }
    }
    let asked = tokio::spawn({
        let id = id.to_owned();
        async move { caller.ask(0, &id, act).await }
    });
    let is_stored = match point {
        Point::BeforeTheStore | Point::Late | Point::BeforeTheCommit => {
            game.flow(SENT).await;
            game.sees(Duration::ZERO, stored).await
        }
        Point::AfterTheStore | Point::WithTheStore | Point::AfterTheAnswer => game.sees(STORED, stored).await,
    };
    let should = matches!(point, Point::AfterTheStore | Point::WithTheStore | Point::AfterTheAnswer);
    if point == Point::AfterTheAnswer {
        game.flow(SENT).await;
    }
    match (point, leader) {
        (Point::WithTheStore, Some(leader)) => game.stage.etcd.member(leader).kill(),
        (Point::BeforeTheCommit, Some(leader)) => {
            game.stage.etcd.member(leader).kill();
            followers(game, Some(leader)).for_each(|n| game.stage.etcd.member(n).resume());
        }
        (Point::WithTheStore | Point::BeforeTheCommit, None) => {
            game.demand(false, "quiet: etcd had no leader");
        }
        _ => game.stage.cell(cell).kill(),
    }
    let words = format!("{point:?}: the store has it: {is_stored}");
    if is_stored == should {
        game.landed(words)
    } else {
        game.demand(false, format!("quiet: {words}"))
    }
    if point == Point::Late {
        // Another owner comes first; then the dead one's packets arrive.
        let other = Caller::new(30_002, &game.stage.urls(), game.history.clone());
        registered(game, &other, cell + 1, id).await;
    } else {
        game.stage.ways(cell).iter().for_each(Proxy::break_off);
    }
    hold(game, false, false);
    if point == Point::Late {
        game.flow(SENT).await;
    }
    way.break_off();
    let outcome = asked.await.ok();
    if let Some(leader) = leader {
        game.stage.etcd.member(leader).start_again();
    }
    game.stage.cell(cell).start_again();
    game.stage.etcd.usable().await;
    game.stage.cell_ready(cell).await;
    outcome
}

fn followers(game: &Game, leader: Option<usize>) -> impl Iterator<Item = usize> + use<> {
    (0..game.stage.etcd.len()).filter(move |n| Some(*n) != leader)
}

/// Removals whose answer the keeper never hears.
const ROUNDS: usize = 4;
/// Beats after which the answers are held back, until the removal behind one of them is met.
const BEATS: usize = 20;
/// The removal behind a beat is sent at once, or there is none.
const BEHIND: Duration = Duration::from_millis(300);

async fn keeper(game: &mut Game) {
    for _ in 0..ROUNDS {
        let Some(keeper) = game.stage.keeper() else {
            game.demand(false, "F12: nobody keeps");
            return;
        };
        if meet_removal(game, keeper).await {
            game.stage.cell(keeper).kill();
            game.landed(format!("one was removed, and its keeper, cell{keeper}, died without a word of it"));
        }
        game.stage.ways(keeper).iter().for_each(Proxy::break_off);
        game.stage.ways(keeper).iter().for_each(|way| way.cut(false, false));
        let took = game.renews_again(Duration::from_secs(15)).await;
        game.note(format!("renewals again after {:.1} s", took.as_secs_f64()));
        game.stage.cell(keeper).start_again();
        game.stage.cell_ready(keeper).await;
        game.flow(game.size.lease).await;
    }
}

/// Holds back what the store answers its keeper behind a beat, until that was a removal; whether it was met.
async fn meet_removal(game: &Game, keeper: usize) -> bool {
    for _ in 0..BEATS {
        let since = game.timeline.now();
        let beat = |event: &Event| event.at > since && event.key.ends_with("/beat");
        if !game.sees(Duration::from_secs(3), beat).await {
            continue;
        }
        game.stage.ways(keeper).iter().for_each(|way| way.cut(false, true));
        let gone =
            |event: &Event| event.at > since && event.what == What::Removed && event.key.contains(MORTAL);
        if game.sees(BEHIND, gone).await {
            return true;
        }
        // What was held back is delivered now, and nothing is lost.
        game.stage.ways(keeper).iter().for_each(|way| way.cut(false, false));
    }
    false
}
