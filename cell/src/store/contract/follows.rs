//! What following the history promises.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use bytes::Bytes;

use super::{brief, commit, done, follow_until, fresh, put, remove, within, write};
use crate::store::{Effect, Follow, Group, Op, Store};

/// From its start on, that included, with removals, and each revision's effects in the order of the group.
pub async fn a_follower_gets_every_revision_whole_and_in_order<S: Store>(store: &S) {
    commit(store, vec![put("before", "0")]).await;
    let first = commit(store, vec![put("b", "1"), put("a", "1")]).await;
    let group = Group {
        also: vec![put("removal", "why"), remove("b")],
        writes: vec![
            write(vec![fresh("a")], vec![put("a", "lost")], "a"),
            write(vec![fresh("d")], vec![put("d", "2"), put("c", "2")], "d"),
        ],
        ..Group::default()
    };
    let (second, _) = done(store, group).await;
    let third = commit(store, vec![put("a", "3")]).await;

    let mut follow = within("a follower", store.follow(first)).await.unwrap();
    let happened = follow_until(&mut follow, third).await;
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let expected = [
        (first.0, texts(&["b=1", "a=1"])),
        (second.0, texts(&["removal=why", "-b", "d=2", "c=2"])),
        (third.0, texts(&["a=3"])),
    ];
    assert_eq!(brief(&happened), expected);
    let Effect::Put(entry) = &happened[2].effects[0] else { panic!("{happened:?}") };
    assert_eq!((entry.create_revision, entry.mod_revision), (first, third));
}

/// One that starts at the head's successor hears of the next revision.
pub async fn a_follower_waits_for_what_has_not_happened<S: Store>(store: &S) {
    commit(store, vec![put("a", "1")]).await;
    let (_, head) = within("a get is answered", store.get("a", None)).await.unwrap();
    let from = rollcall_model::Revision(head.0 + 1);
    let mut follow = within("a follower", store.follow(from)).await.unwrap();
    let written = async { commit(store, vec![put("a", "2")]).await };
    let (happened, written) = tokio::join!(within("the next revision", follow.next()), written);
    assert_eq!(brief(&happened.unwrap()), [(written.0, vec!["a=2".to_owned()])]);
}

/// As every holder does after a break.
pub async fn a_follower_that_goes_on_after_the_last_revision_misses_nothing<S: Store>(store: &S) {
    let first = commit(store, vec![put("k", "0")]).await;
    let mut last = first;
    for n in 1..20 {
        last = commit(store, vec![put("k", &n.to_string())]).await;
    }
    let mut seen = Vec::new();
    let mut from = first;
    while from <= last {
        let mut follow = within("a follower", store.follow(from)).await.unwrap();
        let more = within("a revision is followed", follow.next()).await.unwrap();
        // Only one of them is taken, as if the follower had broken off there.
        let one = more.first().unwrap();
        seen.push(brief(std::slice::from_ref(one))[0].1[0].clone());
        from = rollcall_model::Revision(one.revision.0 + 1);
    }
    assert_eq!(seen, (0..20).map(|n| format!("k={n}")).collect::<Vec<_>>());
}

/// A follower waits beside other things, and the others often come first.
pub async fn a_dropped_wait_loses_nothing<S: Store>(store: &S) {
    let first = commit(store, vec![put("k", "0")]).await;
    let mut follow = within("a follower", store.follow(first)).await.unwrap();
    let mut last = first;
    let mut seen = Vec::new();
    for n in 1..50 {
        // Polled once and dropped, at whatever point it has come to.
        let polled = pin!(follow.next()).poll(&mut Context::from_waker(Waker::noop()));
        if let std::task::Poll::Ready(more) = polled {
            seen.extend(more.unwrap());
        }
        last = commit(store, vec![put("k", &n.to_string())]).await;
    }
    seen.extend(follow_until(&mut follow, last).await);
    let seen: Vec<String> = brief(&seen).into_iter().flat_map(|one| one.1).collect();
    assert_eq!(seen, (0..50).map(|n| format!("k={n}")).collect::<Vec<_>>());
}

/// More than a message holds, in revisions of which some are larger than others.
pub async fn twelve_megabytes_of_history_are_followed<S: Store>(store: &S) {
    let value = Bytes::from(vec![7; 17 * 1024]);
    let mut expected = Vec::new();
    for round in 0..14 {
        let of = |n: usize| {
            let key = format!("{round}/{n}");
            write(vec![fresh(&key)], vec![Op::Put(key.clone(), value.clone())], &key)
        };
        let writes = (0..60 - round).map(of).collect();
        let (revision, _) = done(store, Group { writes, ..Group::default() }).await;
        expected.push((revision, 60 - round));
        expected.push((commit(store, vec![put("small", "1")]).await, 1));
    }
    let mut follow = within("a follower", store.follow(expected[0].0)).await.unwrap();
    let happened = follow_until(&mut follow, expected.last().unwrap().0).await;
    let found: Vec<_> = happened.iter().map(|one| (one.revision, one.effects.len())).collect();
    assert_eq!(found, expected);
}
