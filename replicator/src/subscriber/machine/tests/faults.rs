//! What logs are known to have done to others, one at a time.

use super::*;

/// F30: a log that is compacted forgets removals, and whoever is behind keeps the removed for ever.
#[test]
fn f30_a_log_that_forgot_a_removal_leaves_nobody_behind() {
    let (mut world, mut machine, mut origin) = followed();
    world.append(&FeedItem::Delta(origin.put("a/b/4")));
    let forgotten = world.log.len();
    world.append(&FeedItem::Delta(origin.remove("a/b/2")));
    world.append(&FeedItem::Delta(origin.put("a/b/5")));
    world.log.remove(forgotten);
    while world.resyncs.is_empty() {
        assert!(world.step(&mut machine));
    }
    assert!(origin.was_once(machine.shown()), "nothing behind the hole was taken");
    world.write_snapshot(&origin);
    world.run(&mut machine, &origin);
    assert!(is_at(&machine, &origin) && machine.shown().state().unwrap().get("a/b/2").is_none());
    assert_eq!(world.resyncs, ["gap"]);
}

/// F31, B65: a record that was sent again overtook later ones, although one alone was in flight.
#[test]
fn f31_b65_records_that_overtook_each_other_and_came_twice_end_at_the_head() {
    let (mut world, mut machine, mut origin) = followed();
    let first = world.log.len();
    for id in ["a/b/4", "a/b/5", "a/b/6"] {
        world.append(&FeedItem::Delta(origin.put(id)));
    }
    world.log.swap(first, first + 1);
    let again = world.log[first..].to_vec();
    world.log.extend(again);
    world.append(&FeedItem::Delta(origin.remove("a/b/4")));
    world.write_snapshot(&origin);
    world.run(&mut machine, &origin);
    assert!(is_at(&machine, &origin));
    assert_eq!(world.resyncs, ["gap"], "one for what came out of its place, none for what came twice");
}

/// B61: a source that was away for half an hour was never read again, because its task had given up.
#[test]
fn b61_a_log_that_was_away_for_half_an_hour_is_read_within_seconds_of_its_return() {
    let (mut world, mut machine, mut origin) = followed();
    let back = world.now.plus(Duration::from_secs(30 * 60));
    while world.now < back {
        match machine.order(world.now) {
            Order::Wait(wait) => world.now = world.now.plus(wait),
            Order::Read(_) | Order::Find(_) => {
                machine.broke(&LogError::Away("all brokers are down".into()), world.now, 1.0);
            }
        }
    }
    world.append(&FeedItem::Delta(origin.put("a/b/4")));
    world.run(&mut machine, &origin);
    assert!(is_at(&machine, &origin));
    assert!(world.now.since(back) <= Duration::from_secs(2), "{:?} after its return", world.now.since(back));
    assert!(world.resyncs.is_empty(), "it goes on where it was: {:?}", world.resyncs);
}
