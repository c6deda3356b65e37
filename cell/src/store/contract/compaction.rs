//! What forgetting the history promises. These need a store to themselves.

use rollcall_model::Revision;

use super::{brief, commit, follow_until, get, put, remove, text, value, within};
use crate::store::{Follow, Store, StoreError};

fn is_compacted<T: std::fmt::Debug>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::Compacted(_)))
}

/// By each way of reading it.
pub async fn history_before_a_compaction_is_gone<S: Store>(store: &S) {
    let first = commit(store, vec![put("a", "1")]).await;
    commit(store, vec![put("a", "2")]).await;
    let third = commit(store, vec![put("a", "3")]).await;
    within("the compaction", store.compact(third)).await.unwrap();

    let got = within("an answer", store.get("a", Some(first))).await;
    assert!(is_compacted(&got), "{got:?}");
    let listed = within("an answer", store.list("a", None, Some(first), 10)).await;
    assert!(is_compacted(&listed), "{listed:?}");
    let followed = match within("an answer", store.follow(first)).await {
        Ok(mut follow) => within("the first item", follow.next()).await.map(drop),
        Err(error) => Err(error),
    };
    assert!(is_compacted(&followed), "{followed:?}");
}

/// It is the first of what is left.
pub async fn the_compacted_revision_can_still_be_read_and_followed<S: Store>(store: &S) {
    commit(store, vec![put("a", "1"), put("b", "1")]).await;
    let second = commit(store, vec![put("a", "2")]).await;
    let third = commit(store, vec![put("a", "3")]).await;
    within("the compaction", store.compact(second)).await.unwrap();

    let (entry, _) = within("a get is answered", store.get("a", Some(second))).await.unwrap();
    assert_eq!(entry.as_ref().map(text).as_deref(), Some("2"));
    let page = within("a page", store.list("", None, Some(second), 10)).await.unwrap();
    let found: Vec<_> = page.entries.iter().map(|entry| (entry.key.as_str(), text(entry))).collect();
    assert!(found.contains(&("a", "2".to_owned())) && found.contains(&("b", "1".to_owned())), "{found:?}");
    let mut follow = within("a follower", store.follow(second)).await.unwrap();
    let happened = brief(&follow_until(&mut follow, third).await);
    assert_eq!(happened, [(second.0, vec!["a=2".to_owned()]), (third.0, vec!["a=3".to_owned()])]);
}

/// A follower that starts there must not miss it (B25: a watch that was opened at the revision of a compaction under way
/// was never told of the removal).
pub async fn b25_a_removal_at_the_compacted_revision_is_still_followed<S: Store>(store: &S) {
    commit(store, vec![put("a", "1")]).await;
    let gone = commit(store, vec![remove("a")]).await;
    let last = commit(store, vec![put("b", "1")]).await;
    within("the compaction", store.compact(gone)).await.unwrap();
    let mut follow = within("a follower", store.follow(gone)).await.unwrap();
    let happened = brief(&follow_until(&mut follow, last).await);
    assert_eq!(happened, [(gone.0, vec!["-a".to_owned()]), (last.0, vec!["b=1".to_owned()])]);
}

/// Every key with its value and both revisions, also those that were written long ago.
pub async fn compaction_keeps_the_present_state<S: Store>(store: &S) {
    let old = commit(store, vec![put("old", "1"), put("gone", "1")]).await;
    for n in 0..1200 {
        commit(store, vec![put("beat", &n.to_string())]).await;
    }
    let last = commit(store, vec![remove("gone"), put("new", "1")]).await;
    let head = commit(store, vec![put("beat", "last")]).await;
    within("the compaction", store.compact(head)).await.unwrap();
    let entry = get(store, "old").await.unwrap();
    assert_eq!((entry.create_revision, entry.mod_revision, text(&entry)), (old, old, "1".to_owned()));
    assert_eq!(get(store, "new").await.unwrap().mod_revision, last);
    assert_eq!(value(store, "gone").await, None);
    assert_eq!(value(store, "beat").await.as_deref(), Some("last"));
    let later = commit(store, vec![put("beat", "later"), put("gone", "reborn")]).await;
    assert_eq!(get(store, "gone").await.unwrap().create_revision, later);
    within("the compaction", store.compact(later)).await.unwrap();
    assert_eq!(get(store, "old").await.unwrap().mod_revision, old);
    assert_eq!(value(store, "beat").await.as_deref(), Some("later"));
}

/// What is forgotten already is no error: two may ask for it.
pub async fn compaction_goes_forward_only_and_never_past_the_head<S: Store>(store: &S) {
    let first = commit(store, vec![put("a", "1")]).await;
    let second = commit(store, vec![put("a", "2")]).await;
    within("the compaction", store.compact(second)).await.unwrap();
    assert_eq!(within("an answer", store.compact(first)).await, Ok(()));
    assert_eq!(within("an answer", store.compact(second)).await, Ok(()));
    let ahead = Revision(second.0 + 1_000_000);
    assert_eq!(within("an answer", store.compact(ahead)).await, Err(StoreError::Ahead(ahead)));
    assert_eq!(value(store, "a").await.as_deref(), Some("2"));
}
