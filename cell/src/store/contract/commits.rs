//! What a commit promises.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures_util::future::join_all;
use rollcall_model::Revision;

use super::{commit, done, fresh, get, put, remove, value, within, write};
use crate::store::{Committed, Compare, Group, Op, Store, StoreError, Verdict, limits};

/// All effects of a group stand at the group's revision.
pub async fn a_group_shares_one_revision<S: Store>(store: &S) {
    let group = Group {
        fence: Vec::new(),
        also: vec![put("beside", "0")],
        writes: vec![
            write(vec![fresh("a")], vec![put("a", "1"), put("a2", "1")], "a"),
            write(vec![fresh("b")], vec![put("b", "1")], "b"),
        ],
    };
    let (revision, verdicts) = done(store, group).await;
    assert_eq!(verdicts, [Verdict::Won, Verdict::Won]);
    for key in ["beside", "a", "a2", "b"] {
        let entry = get(store, key).await.unwrap();
        assert_eq!((entry.mod_revision, entry.create_revision), (revision, revision), "{key}");
    }
}

/// The other writes of the group are won all the same.
pub async fn a_failed_compare_fails_only_its_own_write<S: Store>(store: &S) {
    let first = commit(store, vec![put("taken", "first")]).await;
    let group = Group {
        writes: vec![
            write(vec![fresh("free")], vec![put("free", "second")], "free"),
            write(vec![fresh("taken")], vec![put("taken", "second"), put("extra", "second")], "taken"),
            write(vec![Compare::ModRevision("taken".into(), first)], vec![put("other", "second")], "taken"),
        ],
        ..Group::default()
    };
    let (_, verdicts) = done(store, group).await;
    assert_eq!(verdicts[0], Verdict::Won);
    assert!(matches!(&verdicts[1], Verdict::Lost(Some(entry)) if entry.mod_revision == first));
    assert_eq!(verdicts[2], Verdict::Won);
    assert_eq!(value(store, "free").await.as_deref(), Some("second"));
    assert_eq!(value(store, "taken").await.as_deref(), Some("first"));
    assert_eq!(value(store, "extra").await, None);
    assert_eq!(value(store, "other").await.as_deref(), Some("second"));
}

/// An earlier write of the same group is not there yet for a later one's compare.
pub async fn compares_see_the_state_before_the_group<S: Store>(store: &S) {
    let group = Group {
        also: vec![put("also", "1")],
        writes: vec![
            write(vec![fresh("a")], vec![put("a", "1")], "a"),
            write(vec![fresh("a"), fresh("also")], vec![put("b", "1")], "a"),
        ],
        ..Group::default()
    };
    let (_, verdicts) = done(store, group).await;
    assert_eq!(verdicts, [Verdict::Won, Verdict::Won]);
}

/// It reads the key it was told to, also when there is none.
pub async fn a_lost_write_tells_what_it_lost_against<S: Store>(store: &S) {
    let first = commit(store, vec![put("a", "1"), put("detail", "why")]).await;
    let group = Group {
        writes: vec![
            write(vec![fresh("a")], vec![put("a", "2")], "detail"),
            write(vec![Compare::CreateRevision("b".into(), first)], vec![put("b", "2")], "b"),
        ],
        ..Group::default()
    };
    let (_, verdicts) = done(store, group).await;
    let Verdict::Lost(Some(entry)) = &verdicts[0] else { panic!("{verdicts:?}") };
    assert_eq!((entry.key.as_str(), &*entry.value, entry.mod_revision), ("detail", &b"why"[..], first));
    assert_eq!(verdicts[1], Verdict::Lost(None));
}

/// Nor are its other effects written.
pub async fn a_key_touched_twice_is_refused_and_nothing_is_written<S: Store>(store: &S) {
    let group = Group {
        also: vec![put("other", "1")],
        writes: vec![
            write(vec![fresh("a")], vec![put("a", "1")], "a"),
            write(vec![Compare::ModRevision("a".into(), Revision(7))], vec![put("a", "2")], "a"),
        ],
        ..Group::default()
    };
    let refused = within("a refusal", store.commit(group)).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    assert_eq!(value(store, "other").await, None);
    assert_eq!(value(store, "a").await, None);
}

/// Neither the writes nor what stands beside them.
pub async fn a_failed_fence_writes_nothing<S: Store>(store: &S) {
    let first = commit(store, vec![put("office", "mine")]).await;
    let second = commit(store, vec![put("office", "theirs")]).await;
    assert!(second > first);
    let group = Group {
        fence: vec![fresh("nothing"), Compare::ModRevision("office".into(), first)],
        also: vec![put("beside", "1")],
        writes: vec![write(vec![fresh("a")], vec![put("a", "1")], "a")],
    };
    assert_eq!(within("a commit is answered", store.commit(group)).await, Ok(Committed::Fenced));
    assert_eq!(value(store, "beside").await, None);
    assert_eq!(value(store, "a").await, None);
}

/// Under both kinds of compare.
pub async fn a_fence_that_holds_lets_everything_through<S: Store>(store: &S) {
    let created = commit(store, vec![put("office", "mine")]).await;
    let written = commit(store, vec![put("office", "still mine")]).await;
    let group = Group {
        fence: vec![
            Compare::CreateRevision("office".into(), created),
            Compare::ModRevision("office".into(), written),
        ],
        also: vec![put("beside", "1")],
        writes: vec![write(vec![fresh("a")], vec![put("a", "1")], "a")],
    };
    let (_, verdicts) = done(store, group).await;
    assert_eq!(verdicts, [Verdict::Won]);
    assert_eq!(value(store, "beside").await.as_deref(), Some("1"));
}

/// Removing what is not there, or losing, happens at no revision; the answer names the head.
pub async fn a_group_without_effect_takes_no_revision<S: Store>(store: &S) {
    use crate::store::Follow;
    let first = commit(store, vec![put("a", "1")]).await;
    let nothing = commit(store, vec![remove("absent")]).await;
    let lost = Group { writes: vec![write(vec![fresh("a")], vec![put("a", "2")], "a")], ..Group::default() };
    let (lost, _) = done(store, lost).await;
    let last = commit(store, vec![put("b", "1")]).await;
    assert!(first <= nothing && nothing <= lost && lost < last, "{first} {nothing} {lost} {last}");
    let mut follow = within("a follower", store.follow(first)).await.unwrap();
    let mut seen = Vec::new();
    while seen.last() != Some(&last) {
        let more = within("a revision is followed", follow.next()).await.unwrap();
        seen.extend(more.into_iter().map(|one| one.revision));
    }
    assert_eq!(seen, [first, last]);
}

/// A rewrite keeps the create revision, a removal ends it.
pub async fn create_and_mod_revision_tell_a_rewrite_from_a_rebirth<S: Store>(store: &S) {
    let born = commit(store, vec![put("a", "1")]).await;
    let rewritten = commit(store, vec![put("a", "2")]).await;
    let entry = get(store, "a").await.unwrap();
    assert_eq!((entry.create_revision, entry.mod_revision), (born, rewritten));

    commit(store, vec![remove("a")]).await;
    assert_eq!(get(store, "a").await, None);
    let reborn = commit(store, vec![put("a", "3")]).await;
    let entry = get(store, "a").await.unwrap();
    assert_eq!((entry.create_revision, entry.mod_revision), (reborn, reborn));

    let late = Group { fence: vec![Compare::CreateRevision("a".into(), born)], ..Group::default() };
    assert_eq!(within("a commit is answered", store.commit(late)).await, Ok(Committed::Fenced));
}

/// Neither alone nor beside others that won.
pub async fn a_second_effect_of_a_lost_write_does_not_happen_either<S: Store>(store: &S) {
    commit(store, vec![put("held", "1")]).await;
    let of =
        |key: &str| write(vec![fresh(key)], vec![put(key, "2"), put(&format!("{key}-beside"), "2")], key);
    let group = Group {
        also: vec![put("also", "2")],
        writes: vec![of("x"), of("held"), of("y")],
        ..Group::default()
    };
    let (revision, verdicts) = done(store, group).await;
    assert!(matches!(&verdicts[..], [Verdict::Won, Verdict::Lost(Some(_)), Verdict::Won]), "{verdicts:?}");
    for key in ["also", "x", "x-beside", "y", "y-beside"] {
        assert_eq!(get(store, key).await.unwrap().mod_revision, revision, "{key}");
    }
    assert_eq!(get(store, "held").await.unwrap().value, "1");
    assert_eq!(get(store, "held-beside").await, None);
}

/// As many as one group may have, each with a record and what goes with it.
pub async fn a_full_group_of_two_effects_each_is_committed<S: Store>(store: &S) {
    let of = |n: usize| {
        let (record, beside) = (format!("r{n}"), format!("s{n}"));
        write(vec![fresh(&record)], vec![put(&record, "1"), put(&beside, "1")], &record)
    };
    let also = vec![put("removal", "1"), put("beat", "1")];
    let writes = (0..limits::WRITES_MAX).map(of).collect();
    let (revision, verdicts) = done(store, Group { fence: vec![fresh("none")], also, writes }).await;
    assert_eq!(verdicts, vec![Verdict::Won; limits::WRITES_MAX]);
    let last = format!("s{}", limits::WRITES_MAX - 1);
    assert_eq!(get(store, &last).await.unwrap().mod_revision, revision);
}

/// An answer may be larger than any request.
pub async fn a_full_group_of_lost_writes_tells_large_values<S: Store>(store: &S) {
    let large = "x".repeat(200 * 1024);
    for keys in ["abcde", "fghij"] {
        commit(store, keys.chars().map(|key| put(&key.to_string(), &large)).collect()).await;
    }
    let of = |n: usize| {
        let key = char::from(b'a' + u8::try_from(n % 10).unwrap()).to_string();
        write(vec![fresh(&key)], vec![put(&format!("{key}{n}"), "1")], &key)
    };
    let (_, verdicts) =
        done(store, Group { writes: (0..limits::WRITES_MAX).map(of).collect(), ..Group::default() }).await;
    let size = |verdict: &Verdict| match verdict {
        Verdict::Lost(Some(entry)) => entry.value.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!(verdicts.iter().map(size).sum::<usize>(), limits::WRITES_MAX * large.len());
}

/// To the byte.
pub async fn a_group_of_the_greatest_size_is_committed<S: Store>(store: &S) {
    let value = Bytes::from(vec![7; limits::GROUP_BYTES_MAX - 1]);
    commit(store, vec![Op::Put("a".into(), value.clone())]).await;
    assert!(get(store, "a").await.unwrap().value == value);
}

/// None is lost and none shares another's.
pub async fn groups_at_once_get_a_revision_each<S: Store>(store: &S) {
    let revisions = join_all((0..32).map(|n| {
        let key = format!("k{n}");
        async move { commit(store, vec![put(&key, "1")]).await }
    }))
    .await;
    assert_eq!(revisions.iter().collect::<BTreeSet<_>>().len(), 32);
    for (n, revision) in revisions.iter().enumerate() {
        assert_eq!(get(store, &format!("k{n}")).await.unwrap().mod_revision, *revision);
    }
}
