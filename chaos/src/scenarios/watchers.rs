//! Watchers that come and go.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rollcall_tests::stage::{REGION, Shape};

use super::{Scenario, scenario, stage};
use crate::check::Verdict;
use crate::crowd::Size;
use crate::game::Game;
use crate::origin::Origin;
use crate::tap::Tap;
use crate::watchers::{Address, Book, Face, Watch, happened};

/// Watchers, half of them over each face.
const WATCHERS: usize = 16;
/// Reconnects of all of them together.
const RECONNECTS: usize = 1_000;
/// Of the short form, which every change is tried with.
const FEW: usize = 160;
/// Longest time that a process of the cell that is there needs to be reached again.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn all() -> Vec<Scenario> {
    let shape = || Shape { members: 1, ..stage() };
    let size = || Size { clients: 10, pace: Duration::from_millis(15), steady: 8, ..Size::default() };
    let shows =
        "watchers that reconnect all the time, to either process, miss no change and are told none twice";
    vec![
        Scenario {
            shape,
            size,
            ..scenario("watchers-reconnect", "RCV-02", shows, |game| Box::pin(reconnect(game, RECONNECTS)))
        },
        Scenario {
            shape,
            size,
            ..scenario("watchers-reconnect-short", "RCV-02", shows, |game| Box::pin(reconnect(game, FEW)))
        },
    ]
}

async fn reconnect(game: &mut Game, reconnects: usize) {
    let address = |(http, grpc): &(String, String)| Address { http: http.clone(), grpc: grpc.clone() };
    let cells: Arc<[Address]> = game.stage.listens().iter().map(address).collect();
    let tap = Tap::start(game.stage.etcd.addresses(), game.timeline);
    let done = Arc::new(AtomicUsize::new(0));
    let each = reconnects.div_ceil(WATCHERS);
    let mut watchers = Vec::new();
    for n in 0..WATCHERS {
        let face = if n % 2 == 0 { Face::Grpc } else { Face::Sse };
        let chance = StdRng::seed_from_u64(game.chance.random());
        let task = watcher(face, Arc::clone(&cells), each, Arc::clone(&done), chance);
        watchers.push((format!("watcher {n} over {face:?}"), tokio::spawn(task)));
    }
    // In the middle each process stops as in a rollout, and starts anew from its disk.
    for n in 0..game.stage.cells() {
        let so_far = reconnects * (n + 1) / (game.stage.cells() + 1);
        while done.load(Ordering::Relaxed) < so_far && !watchers.iter().all(|(_, task)| task.is_finished()) {
            game.flow(Duration::from_millis(20)).await;
        }
        game.stage.cell(n).signal("TERM");
        let ended = game.stage.cell(n).wait(Duration::from_secs(20));
        game.demand(ended.is_some(), format!("cell{n} did not stop"));
        game.stage.cell(n).start_again();
        game.stage.cell_ready(n).await;
        game.landed(format!("cell{n} started anew after {so_far} reconnects"));
    }
    let mut books = Vec::new();
    for (name, task) in watchers {
        match task.await {
            Ok(Ok(book)) => books.push((name, book)),
            Ok(Err(why)) => game.demand(false, format!("RCV-02: {name}: {why}")),
            Err(error) => game.demand(false, format!("{name}: {error}")),
        }
    }
    let (events, disagreements) = match tap.finish(PATIENCE).await {
        Ok(tapped) => tapped,
        Err(why) => return game.demand(false, format!("tap: {why}")),
    };
    game.demand(disagreements.is_empty(), format!("tap: {disagreements:?}"));
    let prefix = format!("rollcall/v1/{REGION}/");
    let history = happened(&prefix, &events);
    let origin = Origin::walk(&prefix, &[(0, events)]);
    let mut verdict = Verdict { ids: "I17 I19 RCV-02", ..Verdict::default() };
    for (name, book) in &books {
        book.judge(name, &origin, &history, &mut verdict);
        verdict.judge(book.snapshots == 1 && book.resyncs.is_empty(), || {
            format!("REP-02: {name} was sent {} snapshots, {:?}", book.snapshots, book.resyncs)
        });
    }
    game.verdicts.push(verdict);
    let told: usize = books.iter().map(|(_, book)| book.changes()).sum();
    let reconnects = done.load(Ordering::Relaxed);
    game.note(format!("{} watchers, {reconnects} reconnects, {told} changes told", books.len()));
    game.demand(told > reconnects, "quiet: fewer changes than reconnects");
}

/// Watches from where it came to, breaks off at any moment, and again; at last it stays until it is told something.
async fn watcher(
    face: Face,
    cells: Arc<[Address]>,
    reconnects: usize,
    done: Arc<AtomicUsize>,
    mut chance: StdRng,
) -> Result<Book, String> {
    let mut book = Book::default();
    let first = Duration::from_secs(5);
    for turn in 0..=reconnects {
        let mut watch = open(face, &cells, &book, &mut chance).await?;
        // The first one is given the time to be sent its snapshot; the others are cut wherever they are.
        let is_first = turn == 0;
        let most = if is_first { first } else { Duration::from_millis(chance.random_range(5..250)) };
        let until = tokio::time::Instant::now() + most;
        // Asked of the clock, too: of a watch that is behind there is always something next, whatever the time.
        while tokio::time::Instant::now() < until
            && let Ok(Ok(told)) = tokio::time::timeout_at(until, watch.next()).await
        {
            book.take(told);
            if is_first && book.began.is_some() {
                break;
            }
            // Now and then it reads nothing for a while, and what it is owed waits (B29).
            if chance.random_bool(0.05) {
                tokio::time::sleep(Duration::from_millis(chance.random_range(50..300))).await;
            }
        }
        book.look();
        done.fetch_add(usize::from(!is_first), Ordering::Relaxed);
    }
    Ok(book)
}

/// Connects to any process, or to another one when that is being started anew.
async fn open(face: Face, cells: &[Address], book: &Book, chance: &mut StdRng) -> Result<Watch, String> {
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        let cell = &cells[chance.random_range(0..cells.len())];
        match Watch::open(face, cell, book.position.as_ref()).await {
            Ok(watch) => return Ok(watch),
            Err(why) if tokio::time::Instant::now() > until => return Err(why),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}
