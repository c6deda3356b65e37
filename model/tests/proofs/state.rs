//! A state against brute force: its index and digest say what its records say (I12, I18), a selection is what the
//! query matches, and pages are disjoint, complete and in order, also while the state moves on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use rollcall_model::testing::{Chance, Origin, any_declared, any_owned, any_query, ids, registered};
use rollcall_model::{Declared, Epoch, InstanceId, Query, Registration, Revision, State, StateDigest, Zone};

use crate::cases;

fn any_registration(chance: &mut Chance, id: InstanceId) -> Arc<Registration> {
    let revision = Revision(chance.below(1_000) as u64);
    let owned = any_owned(chance);
    Arc::new(Registration {
        owned,
        ..registered(any_declared(chance, id), Epoch::new(1, Revision(chance.below(1_000) as u64)), revision)
    })
}

/// A state of random puts and takes, and the records it must hold.
fn any_state(seed: u64, steps: usize) -> (State, BTreeMap<InstanceId, Arc<Registration>>) {
    let (mut chance, all) = (Chance::new(seed), ids(18));
    let (mut state, mut records) = (State::default(), BTreeMap::new());
    // From any step on, or never: what was there before is found by its facets, too.
    let by_facets = chance.below(2 * steps + 1);
    for step in 0..steps {
        if step == by_facets {
            state.find_by_facets();
        }
        let id = chance.pick(&all).clone();
        if chance.one_in(3) {
            assert_eq!(state.take(&id), records.remove(&id));
        } else {
            let record = any_registration(&mut chance, id.clone());
            assert_eq!(state.put(Arc::clone(&record)), records.insert(id, record));
        }
    }
    (state, records)
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn i12_index_and_digest_say_what_the_records_say(seed: u64, steps in 0..60_usize) {
        let (state, records) = any_state(seed, steps);
        prop_assert_eq!(state.prove(), Ok(()));
        prop_assert!(state.iter().eq(records.values()));
        prop_assert_eq!(state.count(), records.len() as u64);
        for id in ids(18) {
            prop_assert_eq!(state.get(id.as_str()), records.get(&id));
        }
        // The digest depends on what is there and not on how it came to be there.
        let mut anew = State::default();
        records.values().rev().for_each(|record| drop(anew.put(Arc::clone(record))));
        prop_assert_eq!(anew.digest(), state.digest());
        let mut emptied = state.clone();
        records.keys().for_each(|id| drop(emptied.take(id)));
        prop_assert_eq!(emptied.digest(), StateDigest::EMPTY);
        for name in ["mail:send:v1", "text:sum_up:v1", "no:body:v1"] {
            let has = records.values().any(|r| r.declared.capabilities.iter().any(|c| c.name.as_str() == name));
            prop_assert_eq!(state.has_capability(name), has);
        }
    }

    #[test]
    fn i12_a_state_made_at_once_is_the_one_made_record_by_record(seed: u64, many in 0..90_usize) {
        let (mut chance, all) = (Chance::new(seed), ids(60));
        // Some ids come twice, and the last one counts.
        let records: Vec<_> = (0..many)
            .map(|_| {
                let id = chance.pick(&all).clone();
                any_registration(&mut chance, id)
            })
            .collect();
        let mut one_by_one = State::default();
        records.iter().for_each(|record| drop(one_by_one.put(Arc::clone(record))));
        let mut in_order: Vec<_> = one_by_one.iter().cloned().collect();
        for at_once in [State::of(records), State::of(std::mem::take(&mut in_order))] {
            prop_assert_eq!(at_once.prove(), Ok(()));
            prop_assert!(at_once.iter().eq(one_by_one.iter()));
            prop_assert_eq!((at_once.count(), at_once.digest()), (one_by_one.count(), one_by_one.digest()));
        }
    }

    #[test]
    fn what_an_agents_instances_have_in_common_is_held_once(seed: u64) {
        let (mut chance, all) = (Chance::new(seed), ids(2));
        let known = any_registration(&mut chance, all[0].clone());
        let mut state = State::default();
        state.put(Arc::clone(&known));
        // The same, said by another instance of the agent and read by itself.
        let id = InstanceId::parse(&format!("{}/another", all[0].agent())).unwrap();
        let mut same = (*known).clone();
        same.declared.id = id.clone();
        same.declared.profile = Arc::new((*known.declared.profile).clone());
        let id_of_another = InstanceId::parse("q/q/q").unwrap();
        let before = same.clone();
        state.share(&mut same);
        if let (Some(one), Some(held)) = (&mut same.declared.zone, &known.declared.zone) {
            // Also by one of another agent, where zones are indexed.
            state.find_by_facets();
            *one = Zone::parse(one.as_str()).unwrap();
            let mut other = Registration { declared: Declared { id: id_of_another, ..same.declared.clone() }, ..same.clone() };
            state.share(&mut other);
            prop_assert_eq!(other.declared.zone.unwrap().as_str().as_ptr(), held.as_str().as_ptr());
        }
        prop_assert!(Arc::ptr_eq(&same.declared.profile, &known.declared.profile));
        prop_assert_eq!(&same, &before);
        // One that says something else keeps its own.
        let mut other = before.clone();
        other.declared.weight += 1;
        let before = other.clone();
        state.share(&mut other);
        prop_assert!(!Arc::ptr_eq(&other.declared.profile, &known.declared.profile));
        prop_assert_eq!(&other, &before);
    }

    #[test]
    fn i18_two_states_with_one_digest_hold_the_same_records(seed: u64, steps in 1..30_usize) {
        let (state, records) = any_state(seed, steps);
        for record in records.values() {
            let mut other = state.clone();
            let changed = Registration { revision: Revision(record.revision.0 + 1), ..(**record).clone() };
            other.put(Arc::new(changed));
            prop_assert_ne!(other.digest(), state.digest());
            other.take(&record.declared.id);
            prop_assert_ne!(other.digest(), state.digest());
            other.put(Arc::clone(record));
            prop_assert_eq!(other.digest(), state.digest());
        }
    }

    #[test]
    fn a_clone_never_changes_under_its_reader(seed: u64, steps in 1..40_usize) {
        let mut origin = Origin::new(seed);
        let mut kept: Vec<(State, Vec<Arc<Registration>>)> = Vec::new();
        for _ in 0..steps {
            origin.step();
            let state = origin.state_at(&origin.head()).clone();
            let records = state.iter().cloned().collect();
            kept.push((state, records));
        }
        for (state, records) in &kept {
            prop_assert!(state.iter().eq(records.iter()));
            prop_assert_eq!(state.prove(), Ok(()));
        }
    }

    #[test]
    fn a_selection_is_what_the_query_matches_in_order_after_any_id(
        seed: u64, steps in 0..60_usize, queries in vec(any::<u64>(), 1..12),
    ) {
        let (state, records) = any_state(seed, steps);
        let mut afters: Vec<String> = ids(18).iter().map(|id| id.as_str().to_owned()).collect();
        // Also where no id is: before all, behind all, between, and at a bare prefix.
        afters.extend(["", "zz", "ops", "ops/", "ops/mail", "ops/mail/", "ops-x/mail/1a"].map(str::to_owned));
        for query in queries {
            let query = any_query(&mut Chance::new(query));
            for after in std::iter::once(None).chain(afters.iter().map(|text| Some(text.as_str()))) {
                let expected: Vec<_> = records
                    .values()
                    .filter(|r| query.matches(r) && after.is_none_or(|after| r.declared.id.as_str() > after))
                    .collect();
                let selected: Vec<_> = state.select(&query, after).collect();
                prop_assert_eq!(selected, expected, "{:?} after {:?}", query, after);
            }
        }
        for after in &afters {
            let expected: Vec<_> =
                records.values().filter(|r| r.declared.id.as_str() > after.as_str()).collect();
            prop_assert_eq!(state.iter_after(Some(after)).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn pages_list_once_what_is_there_throughout_while_the_state_moves_on(
        seed: u64, query: u64, size in 1..6_usize,
    ) {
        let query = any_query(&mut Chance::new(query));
        let mut origin = Origin::new(seed);
        (0..15).for_each(|_| origin.step());
        let fits = |origin: &Origin| -> BTreeSet<InstanceId> {
            let head = origin.head();
            let state = origin.state_at(&head);
            state.iter().filter(|r| query.matches(r)).map(|r| r.declared.id.clone()).collect()
        };
        let mut throughout = fits(&origin);
        let (mut listed, mut after) = (Vec::<InstanceId>::new(), None::<String>);
        loop {
            let head = origin.head();
            let page: Vec<_> = origin
                .state_at(&head)
                .select(&query, after.as_deref())
                .take(size)
                .map(|r| r.declared.id.clone())
                .collect();
            let Some(last) = page.last() else { break };
            after = Some(last.as_str().to_owned());
            listed.extend(page);
            origin.step();
            let now = fits(&origin);
            throughout.retain(|id| now.contains(id));
        }
        prop_assert!(listed.is_sorted_by(|a, b| a < b), "in order and once: {:?}", listed);
        for id in &throughout {
            prop_assert!(listed.contains(id), "{} was there throughout", id);
        }
    }
}

#[test]
fn nothing_asked_selects_everything() {
    let (state, records) = any_state(4, 50);
    let everything = Query::default();
    assert!(everything.is_everything());
    assert!(state.select(&everything, None).eq(records.values()));
}
