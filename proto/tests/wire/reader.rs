//! What many registrations have in common is held once, and only as long as somebody holds it.

use std::sync::Arc;

use prost::Message as _;
use rollcall_model::testing::{Chance, declared, registered};
use rollcall_model::{Change, Delta, Epoch, Event, Position, Registration, Revision};
use rollcall_proto::{Reader, convert};

use crate::writer::records;

const EPOCH: u64 = 7;

fn instance(id: &str, weight: u32) -> Registration {
    let mut declared = declared(id);
    declared.weight = weight;
    declared.metadata.insert("team".into(), "ops".into());
    registered(declared, Epoch::new(1, Revision(EPOCH)), Revision(EPOCH))
}

fn page(reader: &mut Reader, records: &[Registration]) -> Vec<Arc<Registration>> {
    let page = Event::Page(records.iter().cloned().map(Arc::new).collect());
    match reader.event(&convert::event(&page).encode_to_vec()) {
        Ok(Event::Page(records)) => records,
        other => panic!("{other:?}"),
    }
}

fn is_one(one: &Registration, other: &Registration) -> bool {
    Arc::ptr_eq(&one.declared.profile, &other.declared.profile)
}

#[test]
fn instances_that_declare_the_same_hold_it_once_and_others_do_not() {
    let mut reader = Reader::default();
    let read = page(&mut reader, &[instance("a/b/1", 1), instance("a/b/2", 1), instance("a/b/3", 2)]);
    assert!(is_one(&read[0], &read[1]));
    assert!(!is_one(&read[0], &read[2]));
    assert_eq!((read[1].declared.weight, read[2].declared.weight), (1, 2));
    // The metadata is one and the same for all three, and for what their owners say now.
    let maps = read.iter().flat_map(|one| [&*one.declared.metadata, &*one.owned.metadata]);
    assert!(maps.into_iter().all(|map| std::ptr::eq(map, &*read[0].declared.metadata)));
}

#[test]
fn what_changes_shares_with_what_was_there_before() {
    let mut reader = Reader::default();
    let read = page(&mut reader, &[instance("a/b/1", 1)]);
    let mut changed = instance("a/b/1", 1);
    changed.revision = Revision(EPOCH + 1);
    let incarnation = rollcall_model::testing::incarnation(1);
    let position = |revision| Position::new(incarnation.clone(), Revision(revision));
    let delta = Event::Delta(Arc::new(Delta {
        region: rollcall_model::testing::region(),
        from: position(EPOCH),
        to: position(EPOCH + 1),
        changes: vec![Change::Put(Arc::new(changed.clone()))],
    }));
    let Ok(Event::Delta(delta)) = reader.event(&convert::event(&delta).encode_to_vec()) else { panic!() };
    let Change::Put(put) = &delta.changes[0] else { panic!() };
    assert_eq!(**put, changed);
    assert!(is_one(put, &read[0]));
}

#[test]
fn a_profile_goes_with_its_last_registration() {
    let mut reader = Reader::default();
    let read = page(&mut reader, &[instance("a/b/1", 1), instance("a/b/2", 1)]);
    let profile = Arc::downgrade(&read[0].declared.profile);
    drop(read);
    assert_eq!(profile.strong_count(), 0);
}

#[test]
fn what_is_read_does_not_hang_on_what_was_read_before() {
    let mut reader = Reader::default();
    for seed in 0..200 {
        let records = records(seed);
        let mut bytes = convert::event(&Event::Page(records.clone())).encode_to_vec();
        assert_eq!(reader.event(&bytes).unwrap(), Event::Page(records), "seed {seed}");
        // One that breaks off anywhere leaves nothing behind that another one could be taken for.
        let mut chance = Chance::new(seed);
        for _ in 0..8 {
            let at = chance.below(bytes.len());
            bytes[at] ^= 1 << chance.below(8);
            assert_eq!(reader.event(&bytes), Reader::default().event(&bytes), "seed {seed}, byte {at}");
        }
    }
}

#[test]
fn one_of_another_layout_is_not_what_the_next_one_is_taken_for() {
    let mut reader = Reader::default();
    let bytes = |one: &Registration| convert::registration(one).encode_to_vec();
    let (light, heavy) = (instance("a/b/1", 1), instance("a/b/2", 2));
    // Held, so that it could be lent again.
    let held = reader.registration(&bytes(&light)).unwrap();
    // A member that only a later version knows, behind all that this one does.
    let mut wire = convert::registration(&heavy);
    let mut declared = wire.declared.take().unwrap().encode_to_vec();
    declared.extend([0x80, 0x01, 0x01]);
    let mut later = vec![0x0a];
    prost::encoding::encode_varint(declared.len() as u64, &mut later);
    later.extend(declared);
    later.extend(wire.encode_to_vec());
    assert_eq!(reader.registration(&later).unwrap(), heavy);
    assert_eq!(reader.registration(&bytes(&heavy)).unwrap(), heavy);
    assert_eq!(held, light);
}
