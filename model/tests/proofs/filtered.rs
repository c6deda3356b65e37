//! A filtered watch: what its receiver can put together from it is exactly what the query matches, at each position
//! that it is told (I19).

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use rollcall_model::testing::{Chance, any_query};
use rollcall_model::{Change, Event, InstanceId, Position, Query, Registration, State};

use crate::cases;
use crate::cursor::{Happening, World, happening};

/// What a receiver holds that knows only its query and the stream.
#[derive(Default)]
struct Receiver {
    held: BTreeMap<InstanceId, Arc<Registration>>,
    arriving: BTreeMap<InstanceId, Arc<Registration>>,
    position: Option<Position>,
}

impl Receiver {
    /// Takes one event; gives back the position that it now speaks of.
    fn accept(&mut self, query: &Query, event: Event) -> Option<Position> {
        match event {
            Event::Resync(..) => return None,
            Event::SnapshotBegin(_) => {
                self.arriving.clear();
                return None;
            }
            Event::Page(records) => {
                for record in records {
                    assert!(query.matches(&record), "a page holds only what fits");
                    self.arriving.insert(record.declared.id.clone(), record);
                }
                return None;
            }
            Event::SnapshotEnd(_, position) => {
                self.held = std::mem::take(&mut self.arriving);
                self.position = Some(position);
            }
            Event::Delta(delta) => {
                for change in &delta.changes {
                    match change {
                        Change::Put(now) if query.matches(now) => {
                            self.held.insert(now.declared.id.clone(), Arc::clone(now));
                        }
                        Change::Put(_) | Change::Remove(_) => drop(self.held.remove(change.id())),
                    }
                }
                self.position = Some(delta.to.clone());
            }
            Event::Bookmark(bookmark) => self.position = Some(bookmark.position),
        }
        self.position.clone()
    }

    fn assert_exact(&self, query: &Query, truth: &State, at: &Position) {
        let expected: Vec<_> = truth.iter().filter(|record| query.matches(record)).collect();
        let held: Vec<_> = self.held.values().collect();
        assert_eq!(held, expected, "I19: at {at} the watcher of {query:?} holds something else");
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn i19_a_filtered_watcher_holds_exactly_what_matches(
        seed: u64, query: u64, happenings in vec(happening(), 0..50),
    ) {
        let query = any_query(&mut Chance::new(query));
        let mut world = World::new(seed, query.clone());
        let mut receiver = Receiver::default();
        let accept = |receiver: &mut Receiver, world: &World, events: Vec<Event>| {
            for event in events {
                if let Some(at) = receiver.accept(&query, event) {
                    receiver.assert_exact(&query, world.origin.state_at(&at), &at);
                }
            }
        };
        for happening in &happenings {
            let at = receiver.position.clone();
            let events = world.happen(happening, at.as_ref());
            accept(&mut receiver, &world, events);
        }
        let events = world.settle();
        accept(&mut receiver, &world, events);
        prop_assert_eq!(receiver.position.as_ref(), Some(&world.origin.head()));
        receiver.assert_exact(&query, world.holder().state().unwrap(), &world.origin.head());
    }

    #[test]
    fn a_filtered_watcher_is_sent_nothing_about_what_it_was_never_shown(
        seed: u64, query: u64, many in 1..40_u8,
    ) {
        let query = any_query(&mut Chance::new(query));
        let mut world = World::new(seed, query.clone());
        let mut receiver = Receiver::default();
        for nth in 0..many {
            let mut events = world.happen(&Happening::Steps(1, false), None);
            events.extend(world.happen(&Happening::Advance(1 + nth % 3), None));
            for event in events {
                if let Event::Delta(delta) = &event
                    && !query.is_everything()
                {
                    let mut held = receiver.held.keys().cloned().collect::<std::collections::BTreeSet<_>>();
                    prop_assert!(!delta.changes.is_empty(), "an empty delta is kept back");
                    for change in &delta.changes {
                        match change {
                            Change::Put(now) if query.matches(now) => drop(held.insert(change.id().clone())),
                            Change::Put(_) | Change::Remove(_) => {
                                prop_assert!(held.remove(change.id()), "{} was never shown", change.id());
                            }
                        }
                    }
                }
                receiver.accept(&query, event);
            }
        }
    }
}
