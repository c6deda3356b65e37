//! The keeper's leases: what a second of a region with a million of them costs, and what one takes in memory. Pure, no
//! process beside it. Goals: a sweep ≤ 2 ms of processor time a second, no pause over 1 ms.

use std::sync::Arc;
use std::time::Duration;

use crate::{load, machine, resident_mib, spread};
use rollcall_model::sweep::sweep;
use rollcall_model::{
    Change, Deadlines, Declaration, Declared, Epoch, ExpiryGuard, GuardLimits, Holder, InstanceId, Instant,
    Owned, Registration, Replaced, Revision, State, Timestamp,
};

const LEASES: usize = 1_000_000;
/// Sweeps of a second each: twice the lease, so that every lease is renewed several times.
const SECONDS: u64 = 60;
/// Every ten seconds each lease is renewed.
const BEAT: usize = 10;

pub(super) fn run() {
    println!("one sweep a second over {LEASES} leases, all renewed every {BEAT} s, {SECONDS} s of them");
    println!("{}", machine());
    let before = resident_mib(std::process::id());
    let (mut deadlines, ids) = leases();
    let leases = resident_mib(std::process::id()) - before;
    let mut guard = ExpiryGuard::new(GuardLimits::default());
    let epoch = Epoch::new(1, Revision(1));
    let (mut sweeps, mut renewals) = (Vec::new(), Vec::new());
    for second in 1..=SECONDS {
        let now = Instant(Duration::from_secs(second));
        let due = ids.iter().skip(usize::try_from(second).unwrap() % BEAT).step_by(BEAT);
        let began = std::time::Instant::now();
        for id in due {
            let _ = deadlines.renew(id.as_str(), &Holder::default(), epoch, now, Timestamp(0));
        }
        renewals.push(began.elapsed().as_secs_f64() * 1e9 / (LEASES / BEAT) as f64);
        let began = std::time::Instant::now();
        let plan = sweep(&mut deadlines, &mut guard, now, 20_000, 600);
        sweeps.push(began.elapsed().as_secs_f64() * 1e3);
        assert!(plan.remove.is_empty(), "a living lease was removed");
    }
    println!("min / median / max, load {}", load());
    println!(
        "  one sweep, ms                  {}  (goals: 2 ms a second, no pause over 1 ms)",
        spread(&sweeps, 3)
    );
    println!("  one renewal, ns                {}", spread(&renewals, 0));
    println!(
        "  memory of a lease, bytes       {:.0}  (with its id's text, 64 of them)",
        leases * 1024.0 * 1024.0 / LEASES as f64
    );
}

/// A million leases in three zones; the records that they were made from are dropped, their ids stay.
fn leases() -> (Deadlines, Vec<InstanceId>) {
    let begun = Instant(Duration::ZERO);
    let mut deadlines = Deadlines::begin(&State::default(), 1, Revision(1), begun, Timestamp(0), 0);
    let mut ids = Vec::with_capacity(LEASES);
    for n in 0..LEASES {
        let declaration = Declaration {
            id: format!("bench/agent-{}/{n}", n % 1_000),
            zone: Some(["a", "b", "c"][n % 3].to_owned()),
            endpoints: vec![rollcall_model::declaration::RawEndpoint {
                url: "http://127.0.0.1:1/".into(),
                protocol: None,
            }],
            ..Declaration::default()
        };
        let declared = Declared::check(declaration, String::new).expect("a good declaration");
        ids.push(declared.id.clone());
        let registration = Registration {
            epoch: Epoch::new(1, Revision(1)),
            registered_at: Timestamp(0),
            revision: Revision(1),
            owned: Owned::of(&declared),
            replaced: Replaced::default(),
            declared,
        };
        deadlines.follow(&Change::Put(Arc::new(registration)), begun, Timestamp(0));
    }
    (deadlines, ids)
}
