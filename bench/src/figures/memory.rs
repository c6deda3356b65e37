//! What a cell holds in memory for each small registration beyond the bytes that its store holds of it: the state with
//! all its indexes, and the lease. Pure, no process beside it. Goal: ≤ 400 bytes.
//!
//! Each round is a process of its own, with the system's allocator. Two ways, because memory is not the same after them:
//! all read at once as a cell that starts does, and one after the other as they are registered.

use std::sync::Arc;
use std::time::Duration;

use crate::{load, machine, resident_mib, spread};
use rollcall_model::declaration::RawEndpoint;
use rollcall_model::{
    Change, Deadlines, Declaration, Declared, Epoch, Instant, Owned, Registration, Revision, Sharing, State,
    Timestamp,
};
use rollcall_proto::store::{decode_registration, encode_registration};

const MANY: usize = 1_000_000;
/// Instances of an agent.
const EACH: usize = 10;
const ROUNDS: usize = 3;
const GOAL: f64 = 400.0;

pub(super) fn run(words: &[String]) {
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["read"] => of_a_cell(read()),
        ["registered"] => of_a_cell(registered()),
        _ => all(),
    }
}

fn all() {
    println!(
        "memory of a cell for each of {MANY} small registrations, min / median / max of {ROUNDS} rounds"
    );
    println!("{}", machine());
    for (way, what) in [("read", "read at once"), ("registered", "one after the other")] {
        let (mut beyond, mut state, mut lease, mut stored) = (vec![], vec![], vec![], 0.0);
        for _ in 0..ROUNDS {
            let told = super::child("memory", &[way]);
            let told: Vec<f64> =
                told.split_whitespace().map(|word| word.parse().expect("a number")).collect();
            stored = told[0];
            state.push(told[1]);
            lease.push(told[2]);
            beyond.push(told[1] + told[2] - stored);
        }
        println!("{what}; a record of {stored:.0} bytes in the store; load {}", load());
        println!("  resident bytes beyond the record's  {}  (goal {GOAL:.0})", spread(&beyond, 0));
        println!("  the state with its indexes          {}", spread(&state, 0));
        println!("  the lease                           {}", spread(&lease, 0));
    }
}

/// What stands in the store, how it was put together, and how many bytes of it there are.
struct Held {
    state: State,
    stored: usize,
    /// Before anything of it was there, in MiB.
    resident: f64,
}

/// Tells stored bytes, resident bytes of the state and of the leases, each for one registration.
fn of_a_cell(held: Held) {
    let each = |mib: f64| mib * 1024.0 * 1024.0 / MANY as f64;
    let own = std::process::id();
    assert_eq!(held.state.count(), MANY as u64, "registrations");
    let state = resident_mib(own);
    let now = Instant(Duration::ZERO);
    let deadlines = Deadlines::begin(&held.state, 1, Revision(1), now, Timestamp(0), 7);
    let leases = resident_mib(own);
    println!("{} {} {}", held.stored as f64 / MANY as f64, each(state - held.resident), each(leases - state));
    drop(deadlines);
}

fn read() -> Held {
    let resident = resident_mib(std::process::id());
    let (mut sharing, mut stored) = (Sharing::default(), 0);
    let records = (0..MANY).map(|n| sharing.take(registration(n, &mut stored))).collect();
    let mut state = State::of(records);
    state.find_by_facets();
    Held { state, stored, resident }
}

/// In an order that is not that of the ids, as fleets start.
fn registered() -> Held {
    /// Has no factor in common with their number.
    const STEP: usize = 7_919;
    let resident = resident_mib(std::process::id());
    let (mut state, mut stored) = (State::default(), 0);
    state.find_by_facets();
    for n in 0..MANY {
        let mut one = registration(n * STEP % MANY, &mut stored);
        state.share(&mut one);
        state.apply(&Change::Put(Arc::new(one)));
    }
    Held { state, stored, resident }
}

/// One as it comes out of the store's bytes, which are counted.
fn registration(n: usize, stored: &mut usize) -> Registration {
    let declaration = Declaration {
        id: format!("bench/agent-{:05}/{n:07}", n / EACH),
        zone: Some(["a", "b", "c"][n % 3].to_owned()),
        endpoints: vec![RawEndpoint {
            url: format!("http://127.0.0.1:{}/", 1024 + n % 60_000),
            protocol: None,
        }],
        ..Declaration::default()
    };
    let declared = Declared::check(declaration, String::new).expect("a good declaration");
    let bytes = encode_registration(&declared, 1, Timestamp(1_796_000_000_000), &[]);
    *stored += bytes.len();
    let read = decode_registration(&bytes).expect("what was written");
    let revision = Revision(n as u64 + 1);
    Registration {
        epoch: Epoch::new(read.ordinal, revision),
        registered_at: read.registered_at,
        revision,
        owned: Owned::of(&read.declared),
        replaced: read.replaced,
        declared: read.declared,
    }
}
