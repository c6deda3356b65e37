//! Every check is seen to fail: a violation is planted into a history that holds, and exactly its promise breaks.

use std::time::Duration;

use rollcall_model::declaration::RawEndpoint;
use rollcall_model::{Declaration, Declared, InstanceId, Owned, RemovalReason, Replaced, Timestamp};
use rollcall_proto::store::{self, Gone, StoredRegistration};

use super::*;
use crate::calm::Sight;
use crate::history::{Act, Op, Outcome};
use crate::tap::{Event, What};

pub(super) const PREFIX: &str = "p/";
const LEASE: u64 = 5;
/// Ordinal 1 in an epoch.
pub(super) const ONE: u64 = 1 << 40;

fn declared(id: &str, key: &str, value: &str) -> Declared {
    let declaration = Declaration {
        id: id.into(),
        endpoints: vec![RawEndpoint { url: "http://h:1/".into(), protocol: None }],
        zone: Some("a".into()),
        lease_seconds: Some(LEASE),
        metadata: [(key.to_owned(), value.to_owned())].into(),
        ..Declaration::default()
    };
    Declared::check(declaration, || "x".into()).unwrap()
}

/// A history that is written revision by revision, one a second.
pub(super) struct Plant {
    pub(super) events: Vec<Event>,
    revision: u64,
    ops: Vec<Op>,
}

impl Plant {
    /// With a keeper in office since revision 1, that has beaten.
    pub(super) fn new() -> Self {
        let mut plant = Self { events: Vec::new(), revision: 0, ops: Vec::new() };
        plant.at(1).put("keeper/a", Vec::new(), 1);
        plant.beat(2, 1);
        plant
    }

    pub(super) fn at(&mut self, revision: u64) -> &mut Self {
        self.revision = revision;
        self
    }

    fn event(&mut self, key: &str, what: What) {
        let at = Duration::from_secs(self.revision);
        let (key, revision) = (format!("{PREFIX}{key}"), self.revision);
        self.events.push(Event { revision, key, what, at });
    }

    pub(super) fn put(&mut self, key: &str, value: Vec<u8>, lease: i64) {
        let create_revision = self.revision;
        self.event(key, What::Put { value, create_revision, lease });
    }

    fn beat(&mut self, revision: u64, term: u64) {
        let beat = store::Beat { term, count: 0, nonce: "n".into() };
        self.at(revision).put("beat", store::encode_beat(&beat).to_vec(), 0);
    }

    pub(super) fn registered(&mut self, revision: u64, id: &str, tag: &str) {
        let declared = declared(id, "tag", tag);
        let stored = StoredRegistration {
            declared,
            ordinal: 1,
            registered_at: Timestamp(0),
            replaced: Replaced::default(),
        };
        self.at(revision).put(
            &format!("reg/{id}"),
            store::encode_registration(&stored.declared, stored.ordinal, stored.registered_at, &[]).to_vec(),
            0,
        );
    }

    fn said(&mut self, revision: u64, id: &str, word: &str) {
        let owned = Owned::of(&declared(id, "said", word));
        self.at(revision).put(&format!("own/{id}"), store::encode_owned(&owned).to_vec(), 0);
    }

    pub(super) fn removed(&mut self, revision: u64, ids: &[&str], reason: RemovalReason, term: Option<u64>) {
        let actor = if term.is_some() { "keeper" } else { "owner" };
        let gone: Vec<Gone> = ids
            .iter()
            .map(|id| Gone { id: InstanceId::parse(id).unwrap(), reason, actor: actor.into(), term })
            .collect();
        self.at(revision).put("removal", store::encode_removal(&gone, Timestamp(0)).to_vec(), 0);
        for id in ids {
            self.event(&format!("reg/{id}"), What::Removed);
        }
    }

    /// A call that was sent a tenth before this second and answered a tenth after it.
    fn op(&mut self, second: u64, id: &str, act: Act, outcome: Outcome) {
        let at = Duration::from_secs(second);
        let tenth = Duration::from_millis(100);
        self.ops.push(Op {
            client: 0,
            cell: 0,
            id: id.into(),
            act,
            invoked: at.saturating_sub(tenth),
            returned: Some(at + tenth),
            outcome,
        });
    }

    fn register(&mut self, second: u64, id: &str, tag: &str, outcome: Outcome) {
        self.op(second, id, Act::Register { tag: tag.into(), lease: Duration::from_secs(LEASE) }, outcome);
    }

    /// The ids under which something is broken.
    fn broken(&self) -> Vec<String> {
        let mut events = self.events.clone();
        events.sort_by(|a, b| (a.revision, &a.key).cmp(&(b.revision, &b.key)));
        let origin = Origin::walk(PREFIX, &[(0, events)]);
        let rules = Rules { tap_delay: Duration::ZERO, ..Rules::default() };
        let mut ids: Vec<String> = all(&origin, &self.ops, &rules)
            .iter()
            .flat_map(|verdict| &verdict.broken)
            .map(|words| words.split(':').next().unwrap_or_default().to_owned())
            .collect();
        ids.sort();
        ids.dedup();
        ids
    }
}

/// One registration that was renewed, spoke, and expired in time; another that was taken back.
fn sound() -> Plant {
    let mut plant = Plant::new();
    plant.registered(10, "a/b/1", "t1");
    plant.register(10, "a/b/1", "t1", Outcome::Registered(ONE | 10));
    plant.op(11, "a/b/1", Act::Renew(ONE | 10), Outcome::Done);
    plant.said(12, "a/b/1", "w1");
    plant.op(12, "a/b/1", Act::Update(ONE | 10, "w1".into()), Outcome::Done);
    plant.registered(13, "a/b/2", "t2");
    plant.register(13, "a/b/2", "t2", Outcome::Registered(ONE | 13));
    plant.removed(14, &["a/b/2"], RemovalReason::Deregistered, None);
    plant.op(14, "a/b/2", Act::Deregister(ONE | 13), Outcome::Done);
    plant.op(15, "a/b/2", Act::Renew(ONE | 13), Outcome::NotRegistered);
    plant.removed(30, &["a/b/1"], RemovalReason::Expired, Some(1));
    plant.event("own/a/b/1", What::Removed);
    plant
}

#[test]
fn a_sound_history_breaks_nothing_and_every_check_looked_at_something() {
    let plant = sound();
    assert_eq!(plant.broken(), Vec::<String>::new());
    let mut events = plant.events.clone();
    events.sort_by(|a, b| (a.revision, &a.key).cmp(&(b.revision, &b.key)));
    let origin = Origin::walk(PREFIX, &[(0, events)]);
    for verdict in all(&origin, &plant.ops, &Rules::default()) {
        assert!(verdict.checked > 0, "{} looked at nothing", verdict.ids);
    }
}

#[test]
fn i01_an_acknowledged_registration_that_is_not_in_the_history_is_seen() {
    let mut plant = sound();
    plant.register(20, "a/b/3", "t3", Outcome::Registered(ONE | 20));
    assert_eq!(plant.broken(), ["I01"]);
}

#[test]
fn i01_a_deregistration_that_nobody_asked_for_is_seen() {
    let mut plant = sound();
    plant.registered(20, "a/b/3", "t3");
    plant.register(20, "a/b/3", "t3", Outcome::Registered(ONE | 20));
    plant.removed(22, &["a/b/3"], RemovalReason::Deregistered, None);
    assert!(plant.broken().contains(&"I01".to_owned()), "{:?}", plant.broken());
}

#[test]
fn i02_i04_a_renewal_of_an_epoch_after_a_newer_one_was_acknowledged_is_seen() {
    let mut plant = sound();
    plant.registered(20, "a/b/3", "t3");
    plant.register(20, "a/b/3", "t3", Outcome::Registered(ONE | 20));
    plant.registered(22, "a/b/3", "t4");
    plant.register(22, "a/b/3", "t4", Outcome::Registered(ONE | 22));
    plant.op(24, "a/b/3", Act::Renew(ONE | 20), Outcome::Done);
    assert_eq!(plant.broken(), ["I04"]);
}

#[test]
fn i04_an_epoch_that_holds_and_is_refused_is_seen() {
    let mut plant = sound();
    plant.registered(20, "a/b/3", "t3");
    plant.register(20, "a/b/3", "t3", Outcome::Registered(ONE | 20));
    plant.op(22, "a/b/3", Act::Deregister(ONE | 20), Outcome::NotRegistered);
    assert_eq!(plant.broken(), ["I04"]);
}

#[test]
fn i03_an_epoch_that_falls_or_is_given_twice_is_seen() {
    let mut plant = sound();
    plant.registered(20, "a/b/3", "t3");
    plant.register(20, "a/b/3", "t3", Outcome::Registered(ONE | 20));
    plant.register(21, "a/b/3", "t3", Outcome::Registered(ONE | 20));
    assert!(plant.broken().contains(&"I03".to_owned()), "{:?}", plant.broken());
}

#[test]
fn i05_an_expiry_within_a_lease_of_an_acknowledged_renewal_is_seen() {
    let mut plant = sound();
    plant.op(28, "a/b/1", Act::Renew(ONE | 10), Outcome::Done);
    assert_eq!(plant.broken(), ["I05"]);
}

/// A keeper that beats every second until then.
fn kept(until: u64) -> Plant {
    let mut plant = Plant::new();
    for second in 3..until {
        plant.beat(second, 1);
    }
    plant
}

fn the_dead(plant: &Plant, calm: &[Sight], until: u64) -> Vec<String> {
    let mut events = plant.events.clone();
    events.sort_by(|a, b| (a.revision, &a.key).cmp(&(b.revision, &b.key)));
    let origin = Origin::walk(PREFIX, &[(0, events)]);
    let rules = Rules { tap_delay: Duration::ZERO, ..Rules::default() };
    the_dead_go(&origin, &plant.ops, calm, Duration::from_secs(until), &rules).broken
}

#[test]
fn i06_a_dead_instance_that_stays_is_seen_and_a_renewed_one_may() {
    let mut plant = kept(80);
    plant.registered(10, "a/b/1", "t1");
    plant.register(10, "a/b/1", "t1", Outcome::Registered(ONE | 10));
    // Due at 10.1 + 5 + 6: a run that ends before says nothing.
    assert_eq!(the_dead(&plant, &[], 21), Vec::<String>::new());
    assert_eq!(the_dead(&plant, &[], 22).len(), 1);
    plant.op(14, "a/b/1", Act::Renew(ONE | 10), Outcome::Done);
    assert_eq!(the_dead(&plant, &[], 22), Vec::<String>::new());
    assert_eq!(the_dead(&plant, &[], 26).len(), 1);
    plant.removed(24, &["a/b/1"], RemovalReason::Expired, Some(1));
    assert_eq!(the_dead(&plant, &[], 80), Vec::<String>::new());
}

#[test]
fn i06_a_hold_and_a_new_keeper_excuse_the_dead_that_stay_and_no_longer_than_they_last() {
    let hold = |from: u64, until: u64| -> Vec<Sight> {
        let sight = |at: u64| Sight {
            asked: Duration::from_secs(at),
            at: Duration::from_secs(at),
            calm: Some(!(from..until).contains(&at)),
        };
        (0..80).map(sight).collect()
    };
    let mut plant = kept(80);
    plant.registered(10, "a/b/1", "t1");
    plant.register(10, "a/b/1", "t1", Outcome::Registered(ONE | 10));
    // Held up to 39.5, so due at 45.5.
    assert_eq!(the_dead(&plant, &hold(12, 40), 45), Vec::<String>::new());
    assert_eq!(the_dead(&plant, &hold(12, 40), 46).len(), 1);
    let mut plant = kept(12);
    plant.registered(10, "a/b/1", "t1");
    plant.register(10, "a/b/1", "t1", Outcome::Registered(ONE | 10));
    plant.at(29).put("keeper/b", Vec::new(), 1);
    for second in 30..80 {
        plant.beat(second, 29);
    }
    // A lease of grace from 30 on, then a sweep and five seconds.
    assert_eq!(the_dead(&plant, &[], 40), Vec::<String>::new());
    assert_eq!(the_dead(&plant, &[], 41).len(), 1);
}

#[test]
fn i07_more_expiries_in_a_lease_than_the_guard_allows_are_seen() {
    let mut plant = sound();
    let ids: Vec<String> = (0..9).map(|n| format!("a/c/{n}")).collect();
    for (revision, id) in (16..).zip(&ids) {
        plant.registered(revision, id, id);
    }
    plant.removed(40, &[&ids[0]], RemovalReason::Expired, Some(1));
    assert_eq!(plant.broken(), Vec::<String>::new());
    plant.removed(43, &[&ids[1]], RemovalReason::Expired, Some(1));
    assert_eq!(plant.broken(), ["I07"]);
}

#[test]
fn i09_an_expiry_in_the_first_lease_of_a_new_keeper_is_seen() {
    let mut plant = sound();
    plant.registered(20, "a/b/3", "t3");
    plant.at(31).event("keeper/a", What::Removed);
    plant.at(32).put("keeper/b", Vec::new(), 1);
    plant.beat(33, 32);
    plant.removed(36, &["a/b/3"], RemovalReason::Expired, Some(32));
    assert!(plant.broken().contains(&"I09".to_owned()), "{:?}", plant.broken());
}

#[test]
fn i10_a_removal_or_a_beat_by_a_keeper_out_of_office_is_seen() {
    let mut plant = sound();
    plant.registered(20, "a/b/3", "t3");
    plant.at(31).event("keeper/a", What::Removed);
    plant.removed(45, &["a/b/3"], RemovalReason::Expired, Some(1));
    assert_eq!(plant.broken(), ["I10"]);
    let mut plant = sound();
    plant.beat(50, 7);
    assert_eq!(plant.broken(), ["I10"]);
}

#[test]
fn i11_a_registration_that_comes_back_after_it_was_taken_back_is_seen() {
    let mut plant = sound();
    plant.registered(20, "a/b/3", "t3");
    plant.op(22, "a/b/3", Act::Deregister(ONE | 20), Outcome::Done);
    let broken = plant.broken();
    assert!(broken.contains(&"I11".to_owned()) && broken.contains(&"I15".to_owned()), "{broken:?}");
}

#[test]
fn i13_a_removal_without_a_reason_and_a_word_without_a_record_are_seen() {
    let mut plant = sound();
    plant.registered(20, "a/b/3", "t3");
    plant.at(22).event("reg/a/b/3", What::Removed);
    assert_eq!(plant.broken(), ["I13"]);
    let mut plant = sound();
    plant.said(22, "a/b/9", "w9");
    assert_eq!(plant.broken(), ["I13"]);
    let mut plant = sound();
    plant.registered(20, "a/b/3", "t3");
    plant.said(21, "a/b/3", "w3");
    plant.registered(22, "a/b/3", "t4");
    assert_eq!(plant.broken(), ["I13"]);
}

#[test]
fn i15_a_refusal_of_what_was_written_is_seen() {
    let mut plant = sound();
    plant.registered(20, "a/b/3", "t3");
    plant.register(20, "a/b/3", "t3", Outcome::Refused { status: 503, retry_after: Some(1) });
    assert_eq!(plant.broken(), ["I15"]);
    let mut plant = sound();
    plant.op(12, "a/b/1", Act::Update(ONE | 10, "never".into()), Outcome::Done);
    assert_eq!(plant.broken(), ["I15"]);
}

#[test]
fn b81_a_record_that_hangs_on_a_lease_of_the_store_is_seen() {
    let mut plant = sound();
    plant.at(22).put("meta/other", Vec::new(), 77);
    assert_eq!(plant.broken(), ["B81"]);
}

#[test]
fn a_restored_backup_takes_back_what_came_after_it_and_nothing_else() {
    let mut plant = sound();
    plant.registered(20, "a/b/3", "t3");
    let mut first = plant.events.clone();
    first.sort_by(|a, b| (a.revision, &a.key).cmp(&(b.revision, &b.key)));
    let backup: Vec<Event> = first.iter().filter(|event| event.revision <= 13).cloned().collect();
    let origin = Origin::walk(
        PREFIX,
        &[
            (0, first),
            (13, {
                let mut second = backup;
                let mut later = Plant { events: Vec::new(), revision: 0, ops: Vec::new() };
                later.beat(60, 1);
                second.append(&mut later.events);
                second
            }),
        ],
    );
    let stands: Vec<&str> = origin.stands().map(|(id, _)| id).collect();
    assert_eq!(stands, ["a/b/1", "a/b/2"]);
    assert_eq!(
        origin.standing("a/b/3", ONE | 20).unwrap().until.as_ref().unwrap().1,
        crate::origin::Ending::Restored
    );
}
