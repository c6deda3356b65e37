//! Whatever the model can say reads back equal from its bytes (I46).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use rollcall_model::history::Step;
use rollcall_model::testing::{Chance, Origin, any_declared, any_owned, any_query, id, region, registered};
use rollcall_model::{
    Bookmark, Declaration, Epoch, Event, History, Moment, Query, Registration, Revision, SnapshotBuilder,
    Timestamp, Uptime, View,
};
use rollcall_proto::convert::{self, FeedItem};
use rollcall_proto::disk::{self, LogPlace, Saved};
use rollcall_proto::store::{self, StoredRegistration};
use rollcall_proto::{Reader, v1};

use crate::values::{beat, declaration};

/// Through bytes, as another process would read it.
fn sent<M: Message + Default>(message: &M) -> M {
    M::decode(message.encode_to_vec().as_slice()).unwrap()
}

fn seeds() -> std::ops::Range<u64> {
    0..300
}

#[test]
fn i46_a_registration_reads_back_equal_and_with_its_hash() {
    let mut reader = Reader::default();
    for seed in seeds() {
        let mut chance = Chance::new(seed);
        let declared = any_declared(&mut chance, id("ops/mail/1"));
        let epoch = Epoch::from_wire(chance.number() >> 12).unwrap();
        let registration = Registration {
            owned: any_owned(&mut chance),
            registered_at: Timestamp(i64::from_le_bytes(chance.number().to_le_bytes())),
            replaced: (0..chance.below(4))
                .map(|_| Epoch::from_wire(chance.number() >> 12).unwrap())
                .collect(),
            ..registered(declared, epoch, Revision(chance.number()))
        };
        let wire = convert::registration(&registration);
        let read = convert::registration_from(sent(&wire)).unwrap();
        assert_eq!(read, registration, "seed {seed}");
        let read = reader.registration(&wire.encode_to_vec()).unwrap();
        assert_eq!(read, registration, "seed {seed}");
        assert_eq!(read.hash128(), registration.hash128(), "seed {seed}");
        let stored = StoredRegistration {
            declared: registration.declared.clone(),
            ordinal: epoch.ordinal(),
            registered_at: registration.registered_at,
            replaced: registration.replaced.clone(),
        };
        assert_eq!(
            store::decode_registration(&store::encode_registration(
                &stored.declared,
                stored.ordinal,
                stored.registered_at,
                &stored.replaced
            )),
            Ok(stored)
        );
        let owned = registration.owned;
        assert_eq!(store::decode_owned(&store::encode_owned(&owned)), Ok(owned));
    }
}

#[test]
fn i46_a_history_reads_back_equal_from_the_log_and_from_a_watch() {
    let mut reader = Reader::default();
    for seed in seeds().step_by(5) {
        let mut origin = Origin::new(seed);
        let start = origin.head();
        (0..20).for_each(|_| origin.step());
        let head = origin.head();
        let deltas = origin.cut(&start, &mut Chance::new(seed));
        let bookmark = origin.bookmark(&head, Duration::from_millis(seed));
        let stamped = Bookmark { stamp: Some(Duration::from_millis(seed)), ..bookmark.clone() };
        let snapshot = origin.snapshot(&head);
        let mut events = vec![
            Event::SnapshotBegin(snapshot.head().clone()),
            Event::Page(snapshot.state().iter().cloned().collect()),
            Event::SnapshotEnd(origin.region().clone(), head),
            Event::Resync(origin.region().clone(), "new_incarnation"),
            Event::Bookmark(bookmark.clone()),
            Event::Bookmark(stamped),
        ];
        events.extend(deltas.iter().cloned().map(Event::Delta));
        for event in events {
            let wire = convert::event(&event);
            assert_eq!(reader.event(&wire.encode_to_vec()).as_ref(), Ok(&event), "seed {seed}");
            assert_eq!(convert::event_from(sent(&wire)), Ok(event), "seed {seed}");
        }
        let mut items = vec![FeedItem::Bookmark(bookmark)];
        items.extend(deltas.into_iter().map(FeedItem::Delta));
        for item in items {
            assert_eq!(
                convert::feed_record_from(sent(&convert::feed_record(&item))),
                Ok(item),
                "seed {seed}"
            );
        }
    }
}

#[test]
fn i18_the_pages_of_the_log_make_the_snapshot_again() {
    for seed in seeds().step_by(60) {
        let mut origin = Origin::with_ids(seed, rollcall_model::testing::ids(1_200));
        // Also the empty region has a page, or nobody could tell it from a lost one.
        (0..seed * 5).for_each(|_| origin.change());
        let snapshot = origin.snapshot(&origin.head());
        let pages = convert::snapshot_pages(&snapshot, seed);
        assert!(!pages.is_empty());
        let mut builder = SnapshotBuilder::begin(convert::head_from(pages[0].head.clone()).unwrap());
        for (nth, page) in pages.iter().enumerate() {
            let page = sent(page);
            assert_eq!((page.page as usize, page.pages as usize), (nth, pages.len()));
            assert_eq!((page.feed_offset, &page.head), (seed, &pages[0].head));
            builder.add(page.records.into_iter().map(|r| Arc::new(convert::registration_from(r).unwrap())));
        }
        let read = builder.finish().unwrap();
        assert_eq!(read.head(), snapshot.head());
        assert!(read.state().iter().eq(snapshot.state().iter()));
    }
}

#[test]
fn i24_a_saved_state_reads_back_equal() {
    for seed in seeds().step_by(10) {
        let mut origin = Origin::new(seed);
        let mut view = View::new(region());
        view.install(origin.snapshot(&origin.head()), None, "test", Timestamp(0));
        for _ in 0..seed % 40 {
            let before = origin.head();
            origin.step();
            for delta in origin.cut(&before, &mut Chance::new(seed)) {
                view.apply(&delta);
            }
        }
        let mut chance = Chance::new(seed);
        let saved = Saved {
            snapshot: origin.snapshot(&origin.head()),
            saved_at: Moment {
                wall: Timestamp(-1),
                uptime: chance.one_in(2).then(|| Uptime { boot: "one".into(), ms: -2 }),
            },
            log: chance.one_in(2).then(|| LogPlace { topic: "t".into(), next_offset: chance.number() }),
            beat: chance.one_in(2).then(|| (beat(), Revision(chance.number()))),
            history: view.history().map(History::tail).unwrap_or_default(),
        };
        let read = disk::decode(&disk::encode(&saved)).unwrap();
        assert_eq!((read.saved_at, read.log, read.beat), (saved.saved_at, saved.log, saved.beat));
        assert_eq!(read.snapshot.head(), saved.snapshot.head());
        assert!(read.snapshot.state().iter().eq(saved.snapshot.state().iter()));
        let same = |one: &Step, other: &Step| one.delta == other.delta && one.before == other.before;
        assert_eq!(read.history.len(), saved.history.len());
        assert!(read.history.iter().zip(&saved.history).all(|(one, other)| same(one, other)));
    }
}

#[test]
fn a_query_reads_back_equal() {
    for seed in seeds() {
        let query = any_query(&mut Chance::new(seed));
        assert_eq!(convert::query_from(Some(sent(&convert::query(&query)))), Ok(query), "seed {seed}");
    }
    assert_eq!(convert::query_from(None), Ok(Query::default()), "no query asks for everything");
    for text in ["*", "^1", "~1.2", "=1.2.3", ">=1.0.0-rc.1, <2", "1.*"] {
        let mut query = Query::default();
        query.set("version", text).unwrap();
        assert_eq!(convert::query_from(Some(sent(&convert::query(&query)))), Ok(query), "{text}");
    }
}

#[test]
fn a_request_to_register_comes_to_the_validator_as_it_was_made() {
    let least = Declaration { id: "a/b".into(), ..Declaration::default() };
    let mut edited = Vec::new();
    for (kind, scope, lifecycle) in [
        (None, None, None),
        (Some("agent"), Some("instance"), Some("healthy")),
        (Some("tool"), Some("service"), None),
    ] {
        let mut one = declaration();
        (one.kind, one.scope) = (kind.map(str::to_owned), scope.map(str::to_owned));
        one.lifecycle = lifecycle.map(str::to_owned);
        (one.weight, one.max_queue, one.metadata) = (Some(u64::MAX), None, BTreeMap::new());
        edited.push(one);
    }
    for raw in [vec![least, declaration()], edited].concat() {
        assert_eq!(convert::declaration_from_request(sent(&convert::register_request(&raw))), raw);
    }
}

#[test]
fn f51_fields_that_this_version_does_not_know_do_no_harm() {
    // Field 100 of some newer version, as text.
    let newer = [0xa2, 0x06, 3, b'n', b'e', b'w'];
    let known = convert::delta(&crate::values::delta());
    let bytes = [known.encode_to_vec().as_slice(), &newer].concat();
    assert_eq!(v1::Delta::decode(bytes.as_slice()), Ok(known));
}
