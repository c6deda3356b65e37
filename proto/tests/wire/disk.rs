//! A file that was cut, changed, mixed or made by somebody else is told from a good one, byte by byte (I24, F35).

use rollcall_model::testing::{Chance, Origin, position, region};
use rollcall_model::{Moment, Revision, Snapshot, State, Timestamp};
use rollcall_proto::disk::{self, LogPlace, Saved};

use crate::values::{beat, snapshot};

fn saved() -> Saved {
    Saved {
        snapshot: snapshot(),
        saved_at: Moment::of_wall(Timestamp(7)),
        log: Some(LogPlace { topic: "feed.eu.v1".into(), next_offset: 4 }),
        beat: Some((beat(), Revision(9))),
        history: Vec::new(),
    }
}

#[test]
fn i24_a_file_cut_at_any_byte_is_refused() {
    let good = disk::encode(&saved());
    assert!(disk::decode(&good).is_ok());
    for cut in 0..good.len() {
        let refused = disk::decode(&good[..cut]).expect_err("a cut file was read");
        assert_eq!(refused.field, "disk");
    }
}

#[test]
fn i24_a_file_with_any_bit_changed_is_refused() {
    let good = disk::encode(&saved());
    let mut damaged = good.clone();
    for bit in 0..good.len() * 8 {
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(disk::decode(&damaged).is_err(), "bit {bit} was changed and nobody saw it");
        damaged[bit / 8] = good[bit / 8];
    }
    assert_eq!(damaged, good);
}

#[test]
fn i24_a_file_with_something_behind_it_or_before_it_is_refused() {
    let good = disk::encode(&saved());
    assert!(disk::decode(&[good.as_slice(), &[0]].concat()).is_err());
    assert!(disk::decode(&[&[0], good.as_slice()].concat()).is_err());
    assert!(disk::decode(&[good.as_slice(), good.as_slice()].concat()).is_err());
    assert!(disk::decode(&[]).is_err());
    assert!(
        disk::decode(&vec![0; good.len()]).is_err(),
        "a file of zeros, as some file systems leave behind"
    );
}

#[test]
fn i24_two_good_files_mixed_at_any_byte_are_refused() {
    let one = disk::encode(&saved());
    let other = disk::encode(&Saved { saved_at: Moment::of_wall(Timestamp(8)), ..saved() });
    assert_eq!(one.len(), other.len());
    for cut in 1..one.len() {
        let mixed = [&one[..cut], &other[cut..]].concat();
        let accepted = disk::decode(&mixed).is_ok();
        assert!(!accepted || mixed == one || mixed == other, "a mixture was read");
    }
}

#[test]
fn i24_a_whole_frame_around_an_untrue_state_is_refused() {
    use prost::Message;
    let good = disk::encode(&saved());
    let message = rollcall_proto::v1::DiskState::decode(&good[36..]).unwrap();
    let framed = |message: &rollcall_proto::v1::DiskState| {
        let body = message.encode_to_vec();
        let mut bytes = good[..12].to_vec();
        bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&xxhash_rust::xxh3::xxh3_128(&body).to_le_bytes());
        bytes.extend_from_slice(&body);
        bytes
    };
    assert_eq!(framed(&message), good);
    let edits: &[fn(&mut rollcall_proto::v1::DiskState)] = &[
        |m| drop(m.records.pop()),
        |m| m.records.clear(),
        |m| m.records[0].revision += 1,
        |m| m.records[1] = m.records[0].clone(),
        |m| m.head = None,
        |m| m.head.as_mut().unwrap().count = 3,
        |m| m.head.as_mut().unwrap().digest = vec![0; 16].into(),
        |m| m.records[0].owned = None,
    ];
    for (nth, edit) in edits.iter().enumerate() {
        let mut edited = message.clone();
        edit(&mut edited);
        assert!(disk::decode(&framed(&edited)).is_err(), "edit {nth} was read");
    }
}

#[test]
fn i24_an_empty_state_is_a_state() {
    let empty = Snapshot::of(region(), position(1, 1), State::default());
    let saved = Saved {
        snapshot: empty,
        saved_at: Moment::of_wall(Timestamp(0)),
        log: None,
        beat: None,
        history: Vec::new(),
    };
    assert_eq!(disk::decode(&disk::encode(&saved)).unwrap().snapshot.head().count, 0);
}

#[test]
fn i24_no_bytes_make_a_panic() {
    let mut chance = Chance::new(24);
    let mut origin = Origin::new(24);
    (0..10).for_each(|_| origin.change());
    let good = disk::encode(&Saved { snapshot: origin.snapshot(&origin.head()), ..saved() });
    for _ in 0..3_000 {
        let mut bytes = good.clone();
        for _ in 0..=chance.below(6) {
            let at = chance.below(bytes.len());
            match chance.below(3) {
                0 => bytes[at] = chance.number().to_le_bytes()[0],
                1 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, 0),
            }
        }
        assert!(disk::decode(&bytes).is_err() || bytes == good);
    }
}
