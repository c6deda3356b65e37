//! Admission under any order of calls (I14, ADM-01…04): never more than the bucket holds, and the known first.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use rollcall_model::admission::{GENERATION_MAX, PROTECTED};
use rollcall_model::{AddressShare, Admission, AdmissionLimits, Instant, NotAdmitted, Rate};

use crate::cases;

fn address(n: u32) -> Option<IpAddr> {
    Some(IpAddr::V4(Ipv4Addr::from_bits(n)))
}

fn at_ms(ms: u64) -> Instant {
    Instant(Duration::from_millis(ms))
}

const fn limits(per_second: u32, burst: u32, share: AddressShare) -> AdmissionLimits {
    let known = Rate { per_second: 200, burst: 400 };
    AdmissionLimits { new: Rate { per_second, burst }, known, share }
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Pass(u64),
    Register(u32),
    Renew(u32),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        2 => (0..400_u64).prop_map(Act::Pass),
        5 => (0..4_u32).prop_map(Act::Register),
        3 => (1..120_u32).prop_map(Act::Renew),
    ];
    vec(act, 1..400)
}

/// What happened, and when.
#[derive(Default)]
struct Seen {
    admitted: Vec<(Instant, u32)>,
    refused_renewals: Vec<Instant>,
}

fn run(limits: AdmissionLimits, acts: &[Act]) -> Seen {
    let mut now = at_ms(1_000);
    let mut admission = Admission::new(limits, now);
    let mut seen = Seen::default();
    for act in acts {
        match *act {
            Act::Pass(ms) => now = now.plus(Duration::from_millis(ms)),
            Act::Register(n) => match admission.register(address(n), now) {
                Ok(()) => seen.admitted.push((now, n)),
                Err(refused) => {
                    let told = |admission: &Admission, at| admission.clone().register(address(n), at);
                    proves_its_wait(&admission, refused, now, told);
                }
            },
            Act::Renew(many) => {
                if let Err(refused) = admission.renew(many, now) {
                    seen.refused_renewals.push(now);
                    let told = |admission: &Admission, at| admission.clone().renew(many, at);
                    proves_its_wait(&admission, refused, now, told);
                }
            }
        }
    }
    seen
}

/// The wait that is told is neither too short nor too long.
fn proves_its_wait(
    admission: &Admission,
    refused: NotAdmitted,
    now: Instant,
    told: impl Fn(&Admission, Instant) -> Result<(), NotAdmitted>,
) {
    let wait = refused.wait();
    assert!(wait > Duration::ZERO);
    assert_eq!(told(admission, now.plus(wait)), Ok(()), "{refused:?}");
    let early = wait - Duration::from_nanos(1);
    assert!(told(admission, now.plus(early)).is_err(), "{refused:?} is longer than needed");
}

/// In every window no more than a full bucket and what came back in it.
fn holds(admitted: &[Instant], rate: Rate) {
    for (from, start) in admitted.iter().enumerate() {
        for (to, end) in admitted.iter().enumerate().skip(from) {
            let back = end.since(*start).as_nanos() * u128::from(rate.per_second) / 1_000_000_000;
            let most = u128::from(rate.burst) + back;
            assert!((to - from + 1) as u128 <= most, "{} within {:?}", to - from + 1, end.since(*start));
        }
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn adm_03_no_window_holds_more_than_a_bucket_and_its_refill(
        per_second in 1..60_u32, burst in 1..90_u32, acts in acts()
    ) {
        let seen = run(limits(per_second, burst, AddressShare::Tenth), &acts);
        let all: Vec<_> = seen.admitted.iter().map(|(at, _)| *at).collect();
        holds(&all, Rate { per_second, burst });
        for n in 0..4 {
            let own: Vec<_> = seen.admitted.iter().filter(|(_, of)| *of == n).map(|(at, _)| *at).collect();
            holds(&own, Rate { per_second: per_second.div_ceil(10), burst: burst.div_ceil(10) });
        }
    }

    #[test]
    fn i14_no_renewal_is_refused_within_a_second_of_an_admitted_registration(
        per_second in 1..500_u32, burst in 1..500_u32, acts in acts()
    ) {
        let seen = run(limits(per_second, burst, AddressShare::Whole), &acts);
        for refused in &seen.refused_renewals {
            for (admitted, _) in &seen.admitted {
                let apart = refused.since(*admitted).max(admitted.since(*refused));
                prop_assert!(apart >= PROTECTED, "refused at {refused:?}, admitted at {admitted:?}");
            }
        }
    }
}

#[test]
fn adm_02_the_known_keep_their_lane_while_new_ones_storm() {
    let mut admission = Admission::new(limits(10, 20, AddressShare::Whole), at_ms(0));
    let mut admitted = 0;
    for ms in 0..10_000 {
        for _ in 0..5 {
            admitted += u32::from(admission.register(address(1), at_ms(ms)).is_ok());
        }
        if ms % 10 == 0 {
            assert_eq!(admission.renew(1, at_ms(ms)), Ok(()), "at {ms} ms");
        }
    }
    assert_eq!(admitted, 20 + 99, "the burst, and what came back");
}

#[test]
fn i14_new_ones_wait_while_the_known_need_more_than_half_of_their_lane() {
    let mut admission = Admission::new(limits(10, 20, AddressShare::Whole), at_ms(0));
    assert_eq!(admission.renew(201, at_ms(0)), Ok(()));
    let wait = Duration::from_millis(5);
    assert_eq!(admission.register(address(1), at_ms(0)), Err(NotAdmitted::KnownFirst { wait }));
    assert_eq!(admission.register(address(1), at_ms(5)), Ok(()));
    // For a second now every renewal passes, whatever the lane holds; then it is empty and says so.
    for _ in 0..10 {
        assert_eq!(admission.renew(400, at_ms(1_004)), Ok(()));
    }
    let wait = Duration::from_secs(2) - Duration::from_millis(1);
    assert_eq!(admission.renew(400, at_ms(1_005)), Err(NotAdmitted::KnownFirst { wait }));
    assert_eq!(admission.register(address(1), at_ms(2_004)).unwrap_err().wait(), Duration::from_millis(1));
    assert_eq!(admission.register(address(1), at_ms(2_005)), Ok(()), "a second after the last refusal");
}

#[test]
fn one_address_leaves_nine_tenths_to_the_others_unless_told_otherwise() {
    let admitted = |share, addresses: u32| {
        let mut admission = Admission::new(limits(100, 500, share), at_ms(0));
        (0..1_000_u32).filter(|n| admission.register(address(n % addresses), at_ms(0)).is_ok()).count()
    };
    assert_eq!(admitted(AddressShare::Tenth, 1), 50);
    assert_eq!(admitted(AddressShare::Tenth, 2), 100);
    assert_eq!(admitted(AddressShare::Tenth, 20), 500);
    assert_eq!(admitted(AddressShare::Whole, 1), 500);
}

#[test]
fn a_caller_without_address_is_counted_with_all_and_has_no_share() {
    let mut admission = Admission::new(limits(100, 500, AddressShare::Tenth), at_ms(0));
    assert_eq!((0..1_000).filter(|_| admission.register(None, at_ms(0)).is_ok()).count(), 500);
    assert_eq!(admission.addresses(), 0);
}

#[test]
fn a_batch_larger_than_the_lane_is_taken_when_the_lane_is_full() {
    let mut admission = Admission::new(limits(10, 20, AddressShare::Whole), at_ms(0));
    assert_eq!(admission.renew(1_000, at_ms(0)), Ok(()));
    assert_eq!(admission.renew(1_000, at_ms(0)).unwrap_err().wait(), Duration::from_secs(2));
    assert_eq!(admission.renew(1_000, at_ms(3_000)), Ok(()));
}

#[test]
fn addresses_are_remembered_until_so_many_others_came_and_no_more() {
    let many = u32::try_from(GENERATION_MAX).unwrap();
    let limits = limits(1, 10 * many, AddressShare::Tenth);
    let mut admission =
        Admission::new(AdmissionLimits { new: Rate { per_second: 10, ..limits.new }, ..limits }, at_ms(0));
    let own = address(u32::MAX);
    // The first tenth belongs to one address; what is left is spread over more addresses than are remembered.
    assert_eq!((0..=many).filter(|_| admission.register(own, at_ms(0)).is_ok()).count(), GENERATION_MAX);
    for n in 0..many {
        assert_eq!(admission.register(address(n), at_ms(0)), Ok(()));
    }
    assert!(admission.register(own, at_ms(0)).is_err(), "still remembered after a generation of others");
    for n in many..4 * many {
        assert_eq!(admission.register(address(n), at_ms(0)), Ok(()));
        assert!(admission.addresses() <= 2 * GENERATION_MAX);
    }
    assert_eq!(admission.register(own, at_ms(0)), Ok(()), "forgotten in the end");
}

#[test]
fn the_default_lets_a_fleet_of_thousands_in_at_once() {
    let mut admission = Admission::new(AdmissionLimits::default(), at_ms(0));
    assert!((0..5_000).all(|n| admission.register(address(n % 50), at_ms(0)).is_ok()));
    assert!(matches!(admission.register(address(60), at_ms(0)), Err(NotAdmitted::TooMany { .. })));
}
