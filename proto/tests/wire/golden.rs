//! Golden bytes of every message that another version, another region or another year may read.
//!
//! A golden is never edited: what it holds stands on somebody's disk. `ROLLCALL_REGENERATE=1 cargo test -p
//! rollcall-proto --test wire` writes those that are missing, and leaves those that differ to fail.

mod calls;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost::Message;
use rollcall_model::testing::{full_registration, id, incarnation, position, region, registration as least};
use rollcall_model::{
    Bookmark, Epoch, Event, Moment, Registration, RemovalReason, Replaced, Revision, Timestamp,
};
use rollcall_proto::convert::{self, FeedItem};
use rollcall_proto::disk::{self, LogPlace, Saved};
use rollcall_proto::store::{self, Gone, StoredRegistration};

use crate::values::{beat, bookmark, delta, snapshot};

/// One committed file: what its bytes are today, and a reader that says whether it understands committed ones.
struct Golden {
    name: &'static str,
    message: &'static str,
    bytes: Vec<u8>,
    reads: Reads,
}

type Reads = Box<dyn Fn(&[u8])>;

/// A state of which nobody has said yet how old it is.
fn unheard() -> Bookmark {
    Bookmark { age: None, ..bookmark() }
}

/// A message alone: it must read back equal.
fn wire<M: Message + Default + PartialEq + Debug + 'static>(
    name: &'static str,
    message: &'static str,
    value: M,
) -> Golden {
    read_as(name, message, value, |_| ())
}

/// A message that the model has a value for: that must read back equal, too.
fn read_as<M: Message + Default + PartialEq + Debug + 'static>(
    name: &'static str,
    message: &'static str,
    value: M,
    check: impl Fn(M) + 'static,
) -> Golden {
    let bytes = value.encode_to_vec();
    let reads = move |bytes: &[u8]| {
        let read = M::decode(bytes).unwrap();
        assert_eq!(read, value, "{name}");
        check(read);
    };
    Golden { name, message, bytes, reads: Box::new(reads) }
}

/// A value in the store.
fn stored(
    name: &'static str,
    message: &'static str,
    bytes: &[u8],
    check: impl Fn(&[u8]) + 'static,
) -> Golden {
    Golden { name, message, bytes: bytes.to_vec(), reads: Box::new(check) }
}

fn wire_registration(name: &'static str, value: Registration) -> Golden {
    read_as(name, "Registration", convert::registration(&value), move |read| {
        assert_eq!(convert::registration_from(read), Ok(value.clone()));
    })
}

fn watch(name: &'static str, value: Event) -> Golden {
    read_as(name, "WatchResponse", convert::event(&value), move |read| {
        assert_eq!(convert::event_from(read), Ok(value.clone()));
    })
}

fn feed(name: &'static str, value: FeedItem) -> Golden {
    read_as(name, "FeedRecord", convert::feed_record(&value), move |read| {
        assert_eq!(convert::feed_record_from(read), Ok(value.clone()));
    })
}

fn file(name: &'static str, saved: Saved) -> Golden {
    stored(name, "DiskState", &disk::encode(&saved), move |bytes| {
        let read = disk::decode(bytes).unwrap();
        assert_eq!(read.snapshot.head(), saved.snapshot.head());
        assert!(read.snapshot.state().iter().eq(saved.snapshot.state().iter()));
        assert_eq!((&read.saved_at, &read.log, &read.beat), (&saved.saved_at, &saved.log, &saved.beat));
    })
}

/// The records of the log, and what a watch sends.
fn feeds() -> Vec<Golden> {
    let delta = Arc::new(delta());
    let page = convert::snapshot_pages(&snapshot(), 77).remove(0);
    vec![
        wire_registration("registration_full", full_registration()),
        wire_registration("registration_least", least("a/b/c", 5, 7)),
        wire_registration(
            "registration_replacing",
            Registration { replaced: replaced(), ..full_registration() },
        ),
        read_as("delta", "Delta", convert::delta(&delta), {
            let delta = Arc::clone(&delta);
            move |read| assert_eq!(convert::delta_from(read).as_ref(), Ok(&*delta))
        }),
        read_as("bookmark_age_unknown", "Bookmark", convert::bookmark(&unheard()), |read| {
            assert_eq!(convert::bookmark_from(read), Ok(unheard()));
        }),
        read_as("bookmark", "Bookmark", convert::bookmark(&bookmark()), |read| {
            assert_eq!(convert::bookmark_from(read), Ok(bookmark()));
        }),
        wire("snapshot_page", "SnapshotPage", page),
        feed("feed_record_delta", FeedItem::Delta(Arc::clone(&delta))),
        feed("feed_record_bookmark", FeedItem::Bookmark(bookmark())),
        watch("watch_snapshot_begin", Event::SnapshotBegin(snapshot().head().clone())),
        watch("watch_page", Event::Page(snapshot().state().iter().cloned().collect())),
        watch("watch_snapshot_end", Event::SnapshotEnd(region(), position(2, 1_000_007))),
        watch("watch_delta", Event::Delta(delta)),
        watch("watch_bookmark", Event::Bookmark(bookmark())),
        watch("watch_resync", Event::Resync(region(), "history_passed")),
    ]
}

/// Registrations that another one of a shared entry replaced, of this history and of the one before.
fn replaced() -> Replaced {
    [Epoch::new(2, Revision(999_000)), Epoch::new(1, Revision(2_000_000))].into_iter().collect()
}

/// What stands in the store and on disk.
fn kept() -> Vec<Golden> {
    let registration = StoredRegistration {
        declared: full_registration().declared,
        ordinal: 2,
        registered_at: Timestamp(1_796_000_000_123),
        replaced: Replaced::default(),
    };
    let replacing = StoredRegistration { replaced: replaced(), ..registration.clone() };
    let gone = vec![
        Gone { id: id("a/b/c"), reason: RemovalReason::Expired, actor: "keeper".into(), term: Some(9) },
        Gone { id: id("a/b/d"), reason: RemovalReason::Deregistered, actor: "owner".into(), term: None },
    ];
    let at = Timestamp(1_796_000_001_000);
    let saved = Saved {
        snapshot: snapshot(),
        saved_at: Moment::of_wall(at),
        log: None,
        beat: None,
        history: Vec::new(),
    };
    let log = Some(LogPlace { topic: "feed.eu.v1".into(), next_offset: 4_711 });
    vec![
        stored(
            "stored_registration",
            "StoredRegistration",
            &store::encode_registration(
                &registration.declared,
                registration.ordinal,
                registration.registered_at,
                &registration.replaced,
            ),
            move |bytes| assert_eq!(store::decode_registration(bytes).as_ref(), Ok(&registration)),
        ),
        stored(
            "stored_registration_replacing",
            "StoredRegistration",
            &store::encode_registration(&replacing.declared, 2, replacing.registered_at, &replacing.replaced),
            move |bytes| assert_eq!(store::decode_registration(bytes).as_ref(), Ok(&replacing)),
        ),
        stored("stored_owned", "StoredOwned", &store::encode_owned(&full_registration().owned), |bytes| {
            assert_eq!(store::decode_owned(bytes), Ok(full_registration().owned));
        }),
        stored("stored_removal", "StoredRemoval", &store::encode_removal(&gone, at), move |bytes| {
            assert_eq!(store::decode_removal(bytes), Ok((gone.clone(), at)));
        }),
        stored("stored_beat", "StoreBeat", &store::encode_beat(&beat()), |bytes| {
            assert_eq!(store::decode_beat(bytes), Ok(beat()));
        }),
        stored(
            "stored_incarnation",
            "StoredIncarnation",
            &store::encode_incarnation(&incarnation(2)),
            |bytes| {
                assert_eq!(store::decode_incarnation(bytes), Ok(incarnation(2)));
            },
        ),
        file("disk_state_subscriber", Saved { log, ..saved.clone() }),
        file("disk_state_cell", Saved { beat: Some((beat(), Revision(1_000_042))), ..saved }),
    ]
}

fn goldens() -> Vec<Golden> {
    [feeds(), kept(), calls::goldens()].into_iter().flatten().collect()
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(format!("{name}.bin"))
}

#[test]
fn every_message_is_written_and_read_as_it_ever_was() {
    let mut differ = Vec::new();
    for golden in goldens() {
        let path = path(golden.name);
        if !path.exists() && std::env::var_os("ROLLCALL_REGENERATE").is_some() {
            std::fs::write(&path, &golden.bytes).unwrap();
        }
        match std::fs::read(&path) {
            // Old bytes first: that they can be read matters more than that they would be written again.
            Ok(then) => {
                (golden.reads)(&then);
                if then != golden.bytes {
                    differ.push(golden.name);
                }
            }
            Err(error) => panic!("golden/{}.bin: {error}; see this file's head", golden.name),
        }
    }
    assert!(
        differ.is_empty(),
        "{differ:?} are written otherwise than before: other versions hold those bytes"
    );
}

#[test]
fn every_golden_file_has_a_test_that_reads_it() {
    let known: BTreeSet<_> = goldens().iter().map(|golden| path(golden.name)).collect();
    assert_eq!(known.len(), goldens().len(), "two goldens of one name");
    for entry in std::fs::read_dir(path("x").parent().unwrap()).unwrap() {
        let found = entry.unwrap().path();
        assert!(known.contains(&found), "{} is read by no test", found.display());
    }
}

#[test]
fn every_message_of_the_contract_stands_in_a_golden() {
    use prost_types::{DescriptorProto, FileDescriptorSet};
    let set = FileDescriptorSet::decode(rollcall_proto::DESCRIPTORS).unwrap();
    let mut fields = BTreeMap::<String, Vec<String>>::new();
    let mut queue: Vec<(String, DescriptorProto)> = set
        .file
        .into_iter()
        .filter(|file| file.package() == "rollcall.v1")
        .flat_map(|file| file.message_type)
        .map(|message| (String::from(".rollcall.v1"), message))
        .collect();
    while let Some((scope, message)) = queue.pop() {
        let name = format!("{scope}.{}", message.name());
        let types = message.field.iter().map(|field| field.type_name().to_owned()).collect();
        queue.extend(message.nested_type.into_iter().map(|nested| (name.clone(), nested)));
        fields.insert(name, types);
    }
    let mut seen = BTreeSet::new();
    let mut open: Vec<String> =
        goldens().iter().map(|golden| format!(".rollcall.v1.{}", golden.message)).collect();
    while let Some(name) = open.pop() {
        if let Some(types) = fields.get(&name)
            && seen.insert(name)
        {
            open.extend(types.iter().cloned());
        }
    }
    // Three messages have no fields and therefore no bytes.
    let empty =
        ["RegionsRequest", "DeregisterResponse", "GuardRequest"].map(|name| format!(".rollcall.v1.{name}"));
    let missing: Vec<_> =
        fields.keys().filter(|name| !seen.contains(*name) && !empty.contains(name)).collect();
    assert!(missing.is_empty(), "no golden holds {missing:?}");
    assert!(empty.iter().all(|name| fields[name].is_empty()), "an empty message has got fields");
}
