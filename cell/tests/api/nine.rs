//! I19: etcd's nine checks over every stream of a region that changes, on two processes, one of which reads anew.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use rollcall_cell::store::Store as _;
use rollcall_cell::store::embedded::Embedded;
use rollcall_model::Revision;
use tokio::sync::watch;

use super::cell::{Cell, DEADLINE, eventually};
use super::churn::Churn;
use super::hearing::{Hearing, Over};
use super::judge::judge;
use super::moody::{Mood, Moody};
use super::tap::Tap;
use super::told::{Change, Filter, History, Reload, Stream, Told};

const SEED: u64 = 19;
/// Rounds of changes before the second process is cut off, without it, while it comes back, and after that.
const ROUNDS: [usize; 4] = [50, 5, 15, 80];
/// Messages after which a restless watcher leaves, at most.
const MESSAGES: usize = 40;
/// Times that one goes back into the past.
const RETURNS: usize = 12;

/// How a watcher behaves.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// Stays with one process.
    Steady(usize),
    /// Leaves after some messages and goes on at either process from its last position.
    Restless,
    /// The same at the first process alone, from any older position.
    Forging,
    /// Takes one message for each round of changes.
    Slow,
}

struct Watcher {
    filter: Filter,
    over: Over,
    way: Way,
}

/// How far the changes have come: rounds, and the last position when it is over.
#[derive(Clone, Copy, Default)]
struct Progress {
    rounds: usize,
    end: Option<u64>,
}

fn watchers() -> Vec<Watcher> {
    let all = Filter::default;
    let name = || Filter { name: Some("mail"), ..all() };
    let capability = || Filter { capability: Some("mail:send:v1"), ..all() };
    let tag = || Filter { tag: Some("fast"), ..all() };
    let healthy = || Filter { lifecycle: Some("healthy"), ..all() };
    let both = || Filter { lifecycle: Some("draining"), ..capability() };
    let of = |filter, over, way| Watcher { filter, over, way };
    vec![
        of(all(), Over::Sse, Way::Steady(0)),
        of(all(), Over::Grpc, Way::Steady(1)),
        of(healthy(), Over::Sse, Way::Steady(1)),
        of(all(), Over::Sse, Way::Restless),
        of(name(), Over::Sse, Way::Restless),
        of(capability(), Over::Grpc, Way::Restless),
        of(both(), Over::Grpc, Way::Restless),
        of(tag(), Over::Sse, Way::Forging),
        of(healthy(), Over::Grpc, Way::Forging),
        of(all(), Over::Grpc, Way::Slow),
        of(name(), Over::Sse, Way::Slow),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i19_etcds_nine_checks_hold_over_every_stream_of_a_region_that_changes() {
    let store = Embedded::memory().unwrap();
    let tap = Tap::on(&store).await;
    let first = Cell::of_one_address(store.clone()).await;
    first.keeps().await;
    let moody = Moody::over(store.clone(), Mood::Well);
    let second = Cell::of_one_address(moody.clone()).await;
    let incarnation = eventually("both processes ready", async || {
        let ready = second.get("/readyz").await.status == 200;
        let regions = first.get("/v1/regions").await.json();
        ready.then(|| regions["regions"][0]["position"]["incarnation"].as_str().unwrap().to_owned())
    })
    .await;
    let cells = Arc::new([first, second]);
    let (progress, seen) = watch::channel(Progress::default());
    let watched: Vec<_> = (watchers().into_iter().zip(SEED + 1..))
        .map(|(watcher, seed)| {
            let (cells, incarnation, seen) = (Arc::clone(&cells), incarnation.clone(), seen.clone());
            tokio::spawn(async move { watcher.watch(&cells, &incarnation, seen, seed).await })
        })
        .collect();

    let mut churn = Churn::new(SEED);
    let mut rounds = async |count: usize| {
        for _ in 0..count {
            churn.round(&cells[0]).await;
            progress.send_modify(|progress| progress.rounds += 1);
        }
    };
    rounds(ROUNDS[0]).await;
    let asked = moody.asked();
    moody.becomes(Mood::Severed);
    eventually("the second process notices", async || (moody.asked() > asked + 2).then_some(())).await;
    rounds(ROUNDS[1]).await;
    let from = position(&cells[0]).await;
    tap.upto(from).await;
    store.compact(Revision(from)).await.unwrap();
    moody.becomes(Mood::Well);
    let reloaded = eventually("the second process has read its state anew", async || {
        let regions = cells[1].get("/v1/regions").await.json();
        let is_anew = regions["regions"][0]["last_resync"]["reason"] == "history_passed";
        is_anew.then(|| number(&regions["regions"][0]["position"]["revision"]))
    });
    let ((), until) = tokio::join!(rounds(ROUNDS[2]), reloaded);
    rounds(ROUNDS[3]).await;
    let end = position(&cells[0]).await;
    progress.send_modify(|progress| progress.end = Some(end));

    let streams =
        tokio::time::timeout(DEADLINE, join_all(watched)).await.expect("every watcher reached the end");
    let streams: Vec<_> = streams.into_iter().map(Result::unwrap).collect();
    let positions = streams.iter().flatten().flat_map(|stream| stream.told.iter().filter_map(Told::position));
    let mut history = tap.upto(positions.max().unwrap()).await;
    history.reloads.push(Reload { from, until });
    for (watcher, streams) in streams.iter().enumerate() {
        for (connection, stream) in streams.iter().enumerate() {
            let broken = judge(&history, stream);
            let whose = (watcher, connection, &stream.filter, stream.since);
            assert!(broken.is_empty(), "seed {SEED}: {whose:?} breaks {broken:#?}");
        }
    }
    put_to_the_test(&history, &streams);
}

/// Everything that the nine checks are about came about, so that they could have been broken.
fn put_to_the_test(history: &History, streams: &[Vec<Stream>]) {
    let all = || streams.iter().flatten();
    let told = || all().flat_map(|stream| stream.told.iter().map(move |told| (stream, told)));
    let deltas = || {
        told().filter_map(|(stream, told)| match told {
            Told::Delta { changes, .. } => Some((stream, changes)),
            _ => None,
        })
    };
    let facts = &history.facts;
    let is_shared = facts.windows(2).any(|pair| pair[0].revision == pair[1].revision);
    let reasons: BTreeSet<_> = facts.iter().filter_map(|fact| fact.reason()).collect();
    let is_spanning = |changes: &Vec<Change>| {
        let revisions = changes.iter().filter_map(|change| match change {
            Change::Put(record) => Some(record.revision),
            Change::Remove(_) => None,
        });
        revisions.collect::<BTreeSet<_>>().len() > 1
    };
    let is_last = |filter: &Filter, change: &Change| matches!(change, Change::Put(put) if !filter.fits(put));
    let resumed = all().filter(|stream| stream.since.is_some() && !stream.told.is_empty()).count();
    let came_about = [
        ("two thousand changes", facts.len() >= 2_000),
        ("changes that share a revision", is_shared),
        ("removals by owners and operators", reasons == BTreeSet::from(["deregistered", "evicted"])),
        ("a delta of several revisions", deltas().any(|(_, changes)| is_spanning(changes))),
        ("one that fits no longer", deltas().any(|(s, all)| all.iter().any(|one| is_last(&s.filter, one)))),
        ("fifty that resumed", resumed >= 50),
        ("bookmarks", told().any(|(_, told)| matches!(told, Told::Bookmark(..)))),
        ("a resync", told().any(|(_, told)| *told == Told::Resync("history_passed".into()))),
    ];
    for (what, came) in came_about {
        assert!(came, "seed {SEED}: {what} did not come about");
    }
}

impl Watcher {
    /// Watches until it has everything up to the end; gives each of its connections.
    async fn watch(
        &self,
        cells: &[Cell; 2],
        incarnation: &str,
        mut progress: watch::Receiver<Progress>,
        seed: u64,
    ) -> Vec<Stream> {
        let mut chance = StdRng::seed_from_u64(seed);
        let (mut streams, mut known, mut begun) = (Vec::new(), None, None);
        let mut returns = 0;
        loop {
            let (mut at, mut patience) = (0, usize::MAX);
            match self.way {
                Way::Steady(one) => at = one,
                Way::Slow => {}
                Way::Restless => {
                    at = chance.random_range(0..2);
                    patience = chance.random_range(1..=MESSAGES);
                }
                Way::Forging if returns == RETURNS => {}
                Way::Forging => {
                    patience = chance.random_range(1..=MESSAGES);
                    if let (Some(begun), Some(last)) = (begun, known) {
                        known = Some(chance.random_range(begun..=last));
                        returns += 1;
                    }
                }
            }
            let mut stream = Stream { filter: self.filter.clone(), since: known, told: Vec::new() };
            let mut hearing = Hearing::open(&cells[at], self.over, &self.filter, incarnation, known).await;
            while stream.told.len() < patience {
                if self.way == Way::Slow {
                    let rounds = progress.borrow_and_update().rounds;
                    progress.wait_for(|now| now.end.is_some() || now.rounds > rounds).await.unwrap();
                }
                let Some(told) = hearing.next().await else { break };
                known = told.position().or(known);
                begun = begun.or(known);
                stream.told.push(told);
                let end = progress.borrow().end;
                if end.is_some_and(|end| known.is_some_and(|known| known >= end)) {
                    streams.push(stream);
                    return streams;
                }
            }
            streams.push(stream);
        }
    }
}

async fn position(cell: &Cell) -> u64 {
    number(&cell.get("/v1/regions").await.json()["regions"][0]["position"]["revision"])
}

fn number(value: &serde_json::Value) -> u64 {
    value.as_str().unwrap().parse().unwrap()
}
