//! Resolving a capability to its first candidate, out of 100,000 and 1,000,000 instances, beside a bare hash look-up
//! plus index over the same registrations; they take turns. Goals: ≤ 2 × the bare one, ≤ 60 and 110 ns, and two
//! threads ≥ 1.8 × one. Twice each: 1,000 capabilities that many have, and one capability for every ten instances, where
//! nearly every look-up misses the processor's caches.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use crate::fleet::fleet;
use crate::{load, machine, spread};
use rollcall_client::Registry;
use rollcall_model::{CapabilityName, Heard, Lifecycle, Position, Query, Reach, Region, Registration, View};
use rollcall_model::{Incarnation, Revision, Snapshot, State, Timestamp};

/// Many and short, so that some of them are not interrupted by whatever else runs on the machine.
const ROUNDS: usize = 101;
const LOOKUPS: usize = 20_000;
/// Rounds of the two threads, and how long each is: long enough that both run at once.
const PAIRS: usize = 9;
const SHARED_LOOKUPS: usize = 400_000;

/// The bare thing: a hash map of the standard library to places in a list.
struct Bare {
    places: HashMap<String, Vec<u32>>,
    registrations: Vec<Arc<Registration>>,
}

impl Bare {
    fn first(&self, query: &Query) -> Option<&Arc<Registration>> {
        let place = self.places.get(query.capabilities[0].as_str())?.first()?;
        let found = &self.registrations[*place as usize];
        (found.owned.lifecycle == Lifecycle::Healthy).then_some(found)
    }
}

fn registry(registrations: &[Arc<Registration>]) -> Registry {
    let region = Region::parse("us-east").expect("a region");
    let mut state = State::default();
    for registration in registrations {
        state.put(Arc::clone(registration));
    }
    let position = Position::new(Incarnation::new(1, "bench").expect("an incarnation"), Revision(1));
    let mut view = View::new(region.clone());
    let heard = Heard { at: rollcall_model::Instant::default(), age: Duration::ZERO };
    view.install(Snapshot::of(region, position, state), Some(heard), "started", Timestamp(0));
    Registry::offline(vec![view])
}

fn bare(registrations: &[Arc<Registration>]) -> Bare {
    let mut places: HashMap<String, Vec<u32>> = HashMap::new();
    for (place, registration) in registrations.iter().enumerate() {
        for capability in &registration.declared.capabilities {
            let place = u32::try_from(place).expect("a place");
            places.entry(capability.name.as_str().to_owned()).or_default().push(place);
        }
    }
    Bare { places, registrations: registrations.to_vec() }
}

/// Nanoseconds of one look-up, over all queries in an order without a pattern.
fn time(queries: &[Query], lookups: usize, mut look: impl FnMut(&Query) -> bool) -> f64 {
    let mut at = 0_usize;
    let started = Instant::now();
    for _ in 0..lookups {
        // A full cycle of the queries by a step that has no factor in common with their number.
        at = (at + 7_919) % queries.len();
        assert!(look(&queries[at]), "nobody found");
    }
    started.elapsed().as_secs_f64() * 1e9 / lookups as f64
}

fn resolve(registry: &Registry, reach: &Reach, query: &Query) -> bool {
    let reading = registry.read();
    black_box(reading.first(query, reach))
        .is_some_and(|candidate| candidate.registration.owned.lifecycle == Lifecycle::Healthy)
}

/// Look-ups a second of two threads together, to those of one.
fn scaling(queries: &[Query], look: impl Fn(&Query) -> bool + Sync) -> f64 {
    rate(queries, 2, &look) / rate(queries, 1, &look)
}

/// Look-ups a second of so many threads together.
fn rate(queries: &[Query], threads: usize, look: &(impl Fn(&Query) -> bool + Sync)) -> f64 {
    let barrier = Barrier::new(threads);
    let took: Vec<f64> = std::thread::scope(|scope| {
        let work = || {
            barrier.wait();
            time(queries, SHARED_LOOKUPS, look)
        };
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        handles.into_iter().map(|handle| handle.join().expect("a thread")).collect()
    });
    took.into_iter().map(|ns| 1e9 / ns).sum()
}

fn figures(many: usize, words: usize, goal: f64) {
    let registrations = fleet(many, words);
    let (bare, registry, reach) = (bare(&registrations), registry(&registrations), Reach::default());
    let query = |word: usize| Query {
        capabilities: vec![CapabilityName::parse(&format!("bench:word_{word}:v1")).expect("a capability")],
        ..Query::default()
    };
    let queries: Vec<Query> = (0..words).map(query).collect();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let (mut scale, mut scale_of_bare) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let a = time(&queries, LOOKUPS, |query| black_box(bare.first(query)).is_some());
        let b = time(&queries, LOOKUPS, |query| resolve(&registry, &reach, query));
        if round > 0 {
            theirs.push(a);
            ours.push(b);
        }
    }
    for _ in 0..PAIRS {
        scale.push(scaling(&queries, |query| resolve(&registry, &reach, query)));
        scale_of_bare.push(scaling(&queries, |query| black_box(bare.first(query)).is_some()));
    }
    let ratio: Vec<f64> = ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect();
    println!("{many} instances, {words} capabilities; load {}", load());
    println!("  resolve, ns              {}  (goal {goal:.0})", spread(&ours, 1));
    println!("  bare look-up, ns         {}", spread(&theirs, 1));
    println!("  resolve to bare          {}  (goal 2.0)", spread(&ratio, 2));
    println!("  two threads to one       {}  (goal 1.8)", spread(&scale, 2));
    println!("  the same, bare look-up   {}", spread(&scale_of_bare, 2));
}

pub(super) fn run() {
    println!("resolve by capability to the first candidate, min / median / max of {ROUNDS} rounds");
    println!("{}", machine());
    for (many, goal) in [(100_000, 60.0), (1_000_000, 110.0)] {
        figures(many, 1_000, goal);
        figures(many, many / 10, goal);
    }
}
