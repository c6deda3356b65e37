//! Every form that cannot be read whole is refused with the name of its field, and nothing of it is used (I37).

use prost::Message;
use rollcall_model::testing::{Chance, position};
use rollcall_model::{Code, Declared};
use rollcall_proto::{Reader, Unreadable, convert, store, v1};

use crate::values;

fn field<T: std::fmt::Debug>(result: Result<T, Unreadable>) -> &'static str {
    result.expect_err("it was read").field
}

/// Each edit makes a good message unreadable; the text is the field that is to blame.
type Spoiled<M> = (&'static str, fn(&mut M));

fn spoil<M: Clone, T: std::fmt::Debug>(
    good: &M,
    table: &[Spoiled<M>],
    read: impl Fn(M) -> Result<T, Unreadable>,
) {
    assert!(read(good.clone()).is_ok(), "the table starts from a good one");
    for (nth, (to_blame, edit)) in table.iter().enumerate() {
        let mut spoiled = good.clone();
        edit(&mut spoiled);
        assert_eq!(field(read(spoiled)), *to_blame, "row {nth}");
    }
}

#[test]
fn i37_an_unreadable_registration_is_refused() {
    let good = convert::registration(&rollcall_model::testing::full_registration());
    let table: &[Spoiled<v1::Registration>] = &[
        ("registration.declared", |r| r.declared = None),
        ("registration.owned", |r| r.owned = None),
        ("registration.epoch", |r| r.epoch = 1 << 52),
        ("owned.lifecycle", |r| r.owned.as_mut().unwrap().lifecycle = 0),
        ("owned.lifecycle", |r| r.owned.as_mut().unwrap().lifecycle = 7),
        ("declared.id", |r| r.declared.as_mut().unwrap().id = "a/b".into()),
        ("declared.id", |r| r.declared.as_mut().unwrap().id = "A/b/c".into()),
        ("declared.kind", |r| r.declared.as_mut().unwrap().kind = 0),
        ("declared.kind", |r| r.declared.as_mut().unwrap().kind = 3),
        ("declared.kind", |r| r.declared.as_mut().unwrap().kind = -1),
        ("declared.scope", |r| r.declared.as_mut().unwrap().scope = 0),
        ("declared.scope", |r| r.declared.as_mut().unwrap().scope = 99),
        ("declared.lifecycle", |r| r.declared.as_mut().unwrap().lifecycle = 0),
        ("declared.lifecycle", |r| r.declared.as_mut().unwrap().lifecycle = 7),
        ("declared.zone", |r| r.declared.as_mut().unwrap().zone = Some("a b".into())),
        ("declared.lease_seconds", |r| r.declared.as_mut().unwrap().lease_seconds = 1 << 16),
        ("capability.name", |r| r.declared.as_mut().unwrap().capabilities[0].name = "mail.send".into()),
    ];
    spoil(&good, table, convert::registration_from);
    // One reader for all: what it read of a good one does not make up for what is wrong with the next.
    let reader = std::cell::RefCell::new(Reader::default());
    spoil(&good, table, |wire| reader.borrow_mut().registration(&wire.encode_to_vec()));
}

#[test]
fn i37_an_unreadable_delta_is_refused() {
    spoil::<v1::Delta, _>(
        &convert::delta(&values::delta()),
        &[
            ("delta.region", |d| d.region = "EU".into()),
            ("delta.region", |d| d.region.clear()),
            ("delta.from", |d| d.from = None),
            ("delta.to", |d| d.to = None),
            ("delta.from", |d| d.from.as_mut().unwrap().incarnation = "0-x".into()),
            // Backwards, in place, and out of another incarnation.
            ("delta.to", |d| std::mem::swap(&mut d.from, &mut d.to)),
            ("delta.to", |d| d.from = d.to.clone()),
            ("delta.to", |d| d.from = Some(convert::position(&position(1, 1_000_006)))),
            // The first change is at 1,000,007, the last at 1,000,010.
            ("delta.changes", |d| d.from.as_mut().unwrap().revision = 1_000_007),
            ("delta.changes", |d| d.to.as_mut().unwrap().revision = 1_000_009),
            // The last one of an instance counts, so they stand in order.
            ("delta.changes", |d| d.changes.swap(0, 1)),
            ("change", |d| d.changes[0].change = None),
            ("registration.owned", |d| {
                let v1::change::Change::Put(put) = d.changes[0].change.as_mut().unwrap() else { panic!() };
                put.owned = None;
            }),
            ("removal.reason", |d| {
                let v1::change::Change::Remove(gone) = d.changes[2].change.as_mut().unwrap() else {
                    panic!()
                };
                gone.reason = 0;
            }),
            ("removal.reason", |d| {
                let v1::change::Change::Remove(gone) = d.changes[2].change.as_mut().unwrap() else {
                    panic!()
                };
                gone.reason = 5;
            }),
            ("removal.id", |d| {
                let v1::change::Change::Remove(gone) = d.changes[2].change.as_mut().unwrap() else {
                    panic!()
                };
                gone.id = "../x/y".into();
            }),
            ("removal.epoch", |d| {
                let v1::change::Change::Remove(gone) = d.changes[2].change.as_mut().unwrap() else {
                    panic!()
                };
                gone.epoch = u64::MAX;
            }),
        ],
        convert::delta_from,
    );
}

#[test]
fn i37_an_unreadable_bookmark_is_refused() {
    spoil::<v1::Bookmark, _>(
        &convert::bookmark(&values::bookmark()),
        &[
            ("bookmark.region", |b| b.region = "e u".into()),
            ("bookmark.from", |b| b.from = None),
            ("bookmark.position", |b| b.position = None),
            ("bookmark.position", |b| b.position.as_mut().unwrap().incarnation.clear()),
            ("bookmark.digest", |b| b.digest = b.digest.slice(..15)),
            ("bookmark.digest", |b| b.digest = [b.digest.as_ref(), &[0]].concat().into()),
            ("bookmark.digest", |b| b.digest = Vec::new().into()),
            // It cannot speak of a change that comes after it.
            ("bookmark.from", |b| b.from.as_mut().unwrap().revision = 1_000_043),
            ("bookmark.from", |b| b.from = Some(convert::position(&position(1, 1)))),
        ],
        convert::bookmark_from,
    );
}

#[test]
fn i37_an_unreadable_snapshot_head_is_refused() {
    spoil::<Option<v1::SnapshotHead>, _>(
        &Some(convert::head(values::snapshot().head())),
        &[
            ("snapshot.head", |h| *h = None),
            ("snapshot.region", |h| h.as_mut().unwrap().region = "-".into()),
            ("snapshot.position", |h| h.as_mut().unwrap().position = None),
            ("snapshot.digest", |h| h.as_mut().unwrap().digest = vec![0; 15].into()),
        ],
        convert::head_from,
    );
}

#[test]
fn i37_a_record_or_an_event_of_an_unknown_kind_is_refused() {
    // What a newer version sends in a field of its own is an absent member here.
    assert_eq!(field(convert::feed_record_from(v1::FeedRecord::default())), "record");
    assert_eq!(field(convert::event_from(v1::WatchResponse::default())), "event");
    let end = v1::watch_response::SnapshotEnd { region: "eu".into(), position: None };
    let end = v1::WatchResponse { event: Some(v1::watch_response::Event::SnapshotEnd(end)) };
    assert_eq!(field(convert::event_from(end)), "snapshot_end.position");
    let page = v1::watch_response::Page { records: vec![v1::Registration::default()] };
    let page = v1::WatchResponse { event: Some(v1::watch_response::Event::Page(page)) };
    assert_eq!(field(convert::event_from(page)), "registration.declared");
    let resync = v1::watch_response::Resync { region: "!".into(), reason: "new_incarnation".into() };
    let resync = v1::WatchResponse { event: Some(v1::watch_response::Event::Resync(resync)) };
    assert_eq!(field(convert::event_from(resync)), "resync.region");
}

#[test]
fn i37_a_value_in_the_store_that_is_not_ours_is_refused() {
    for garbage in [b"\xff\xff".as_slice(), b"{\"json\":1}"] {
        assert_eq!(field(store::decode_registration(garbage)), "stored_registration");
        assert_eq!(field(store::decode_owned(garbage)), "stored_owned");
        assert_eq!(field(store::decode_removal(garbage)), "stored_removal");
        assert_eq!(field(store::decode_beat(garbage)), "beat");
        assert_eq!(field(store::decode_incarnation(garbage)), "incarnation");
    }
    assert_eq!(field(store::decode_registration(b"")), "stored_registration.declared");
    assert_eq!(field(store::decode_owned(b"")), "stored_owned.owned");
    assert_eq!(field(store::decode_incarnation(b"")), "incarnation");
    let ordinal = v1::StoredIncarnation { ordinal: 1 << 16, id: "a".into() }.encode_to_vec();
    assert_eq!(field(store::decode_incarnation(&ordinal)), "incarnation.ordinal");
    let gone = |id: &str, reason| {
        let gone = v1::stored_removal::Gone { id: id.into(), reason, actor: "owner".into(), term: None };
        v1::StoredRemoval { gone: vec![gone], at_ms: 0 }.encode_to_vec()
    };
    assert_eq!(field(store::decode_removal(&gone("a/b/c", 0))), "stored_removal.reason");
    assert_eq!(field(store::decode_removal(&gone("a/b/c", 9))), "stored_removal.reason");
    assert_eq!(field(store::decode_removal(&gone("a/b", 1))), "stored_removal.id");
}

#[test]
fn a_word_of_a_newer_version_in_a_query_is_refused_and_does_not_widen_it() {
    for (name, wire) in [
        ("kind", v1::Query { kind: 9, ..v1::Query::default() }),
        ("lifecycle", v1::Query { lifecycle: 9, ..v1::Query::default() }),
        ("namespace", v1::Query { namespace: Some("A".into()), ..v1::Query::default() }),
        ("capability", v1::Query { capabilities: vec!["a.b".into()], ..v1::Query::default() }),
        ("tag", v1::Query { tags: vec![String::new()], ..v1::Query::default() }),
        ("version", v1::Query { version: Some("two".into()), ..v1::Query::default() }),
    ] {
        let finding = convert::query_from(Some(wire)).expect_err(name);
        assert_eq!(finding.pointer, name);
    }
}

#[test]
fn a_word_of_a_newer_version_in_a_registration_is_refused_at_the_door() {
    let table: &[Spoiled<v1::RegisterRequest>] =
        &[("/kind", |r| r.kind = 9), ("/scope", |r| r.scope = 9), ("/lifecycle", |r| r.lifecycle = 9)];
    for (pointer, edit) in table {
        let raw = rollcall_model::Declaration { scope: None, holder: None, ..values::declaration() };
        let mut wire = convert::register_request(&raw);
        assert!(Declared::check(convert::declaration_from_request(wire.clone()), || "i".into()).is_ok());
        edit(&mut wire);
        let found = Declared::check(convert::declaration_from_request(wire), || "i".into()).unwrap_err();
        assert_eq!((found.len(), found[0].code, found[0].pointer.as_str()), (1, Code::InvalidBody, *pointer));
    }
}

#[test]
fn i37_no_damage_to_a_record_of_the_log_makes_a_panic() {
    let good = convert::feed_record(&convert::FeedItem::Delta(values::delta().into())).encode_to_vec();
    let read = |bytes: &[u8]| v1::FeedRecord::decode(bytes).map(convert::feed_record_from);
    let mut damaged = good.clone();
    for bit in 0..good.len() * 8 {
        damaged[bit / 8] ^= 1 << (bit % 8);
        let _ = read(&damaged);
        damaged[bit / 8] = good[bit / 8];
    }
    for cut in 0..good.len() {
        assert!(!matches!(read(&good[..cut]), Ok(Ok(_))), "a record cut at byte {cut} was read");
    }
    let mut chance = Chance::new(5);
    for _ in 0..2_000 {
        let bytes: Vec<u8> = (0..chance.below(40)).map(|_| chance.number().to_le_bytes()[0]).collect();
        let _ = read(&bytes);
    }
}
