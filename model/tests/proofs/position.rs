//! Positions and epochs: what is compared, and that an epoch never falls (I03).

use std::cmp::Ordering;

use proptest::prelude::*;
use rollcall_model::testing::Origin;
use rollcall_model::{Change, Epoch, Incarnation, Position, Relation, Revision};

use crate::cases;

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn i03_an_epoch_rises_with_the_revision_and_with_the_incarnation(
        a in (0..4_096_u16, 0..1_u64 << 40), b in (0..4_096_u16, 0..1_u64 << 40),
    ) {
        let [one, other] = [a, b].map(|(ordinal, revision)| Epoch::new(ordinal, Revision(revision)));
        prop_assert_eq!(one.cmp(&other), a.cmp(&b));
        prop_assert_eq!((one.ordinal(), one.revision()), (a.0, Revision(a.1)));
        prop_assert_eq!(Epoch::from_wire(one.get()), Some(one));
        prop_assert!(one.get() < 1 << 52, "it fits a double");
    }

    #[test]
    fn i03_no_two_registrations_of_one_instance_share_an_epoch_and_later_ones_are_higher(
        seed: u64, steps in 1..30_usize,
    ) {
        let mut origin = Origin::new(seed);
        let mut newest = std::collections::BTreeMap::<_, Epoch>::new();
        for _ in 0..4 {
            let start = origin.head();
            (0..steps).for_each(|_| origin.step());
            for change in &origin.delta(&start, &origin.head()).changes {
                let Change::Put(put) = change else { continue };
                let known = newest.insert(put.declared.id.clone(), put.epoch);
                // An update keeps the epoch, a registration raises it: across removal, re-registration and restore.
                let keeps = put.epoch.revision() != put.revision;
                let rises = known.is_none_or(|known| known < put.epoch);
                prop_assert!(keeps || rises, "{:?} after {:?}", put.epoch, known);
            }
            origin.begin_incarnation();
        }
    }

    #[test]
    fn positions_of_two_incarnations_are_never_compared_by_revision(
        a in (1..5_u16, 0..3_usize, any::<u64>()), b in (1..5_u16, 0..3_usize, any::<u64>()),
    ) {
        let of = |(ordinal, id, revision): (u16, usize, u64)| {
            Position::new(Incarnation::new(ordinal, ["a", "b", "0-c"][id]).unwrap(), Revision(revision))
        };
        let (one, other) = (of(a), of(b));
        let expected = match a.0.cmp(&b.0) {
            Ordering::Less => Relation::OlderHistory,
            Ordering::Greater => Relation::NewerHistory,
            Ordering::Equal if a.1 != b.1 => Relation::Conflict,
            Ordering::Equal => Relation::Same(a.2.cmp(&b.2)),
        };
        prop_assert_eq!(one.relation(&other), expected);
        prop_assert_eq!(Position::parse(&one.to_string()), Ok(one));
    }

    #[test]
    fn any_text_is_a_position_or_is_refused(text in "[0-9a-z:+. -]{0,16}") {
        if let Ok(position) = Position::parse(&text) {
            // One position has one text, save leading zeros of the revision.
            let again = Position::parse(&position.to_string());
            prop_assert_eq!(again, Ok(position));
        }
    }
}

#[test]
fn i03_an_epoch_that_would_wrap_is_never_made() {
    for (ordinal, revision) in [(1, 1 << 40), (4_096, 1), (u16::MAX, u64::MAX)] {
        let made = std::panic::catch_unwind(|| Epoch::new(ordinal, Revision(revision)));
        assert!(made.is_err(), "ordinal {ordinal}, revision {revision}");
    }
    for number in [1_u64 << 52, u64::MAX] {
        assert_eq!(Epoch::from_wire(number), None);
    }
}
