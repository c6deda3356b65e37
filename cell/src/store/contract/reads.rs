//! What a read promises.

use rollcall_model::Revision;

use super::{commit, put, remove, text, within};
use crate::store::{Entry, Store, StoreError};

/// Before it was written, after it was overwritten, after it was removed.
pub async fn a_get_at_an_old_revision_sees_what_was_then<S: Store>(store: &S) {
    let before = commit(store, vec![put("other", "0")]).await;
    let first = commit(store, vec![put("a", "1")]).await;
    let second = commit(store, vec![put("a", "2")]).await;
    let gone = commit(store, vec![remove("a")]).await;
    let expected = [(before, None), (first, Some("1")), (second, Some("2")), (gone, None)];
    for (at, expected) in expected {
        let (entry, head) = within("a get is answered", store.get("a", Some(at))).await.unwrap();
        assert_eq!(entry.as_ref().map(text).as_deref(), expected, "at {at}");
        assert!(head >= gone, "the head is told, whatever is read");
        assert!(entry.is_none_or(|entry| entry.create_revision == first && entry.mod_revision == at));
    }
    let (entry, head) = within("a get is answered", store.get("a", None)).await.unwrap();
    assert_eq!(entry, None);
    assert!(head >= gone);
}

/// By each way of reading: silence would be taken for "nothing new".
pub async fn a_revision_ahead_of_the_head_is_told<S: Store>(store: &S) {
    let head = commit(store, vec![put("a", "1")]).await;
    let ahead = Revision(head.0 + 1_000_000);
    let got = within("an answer", store.get("a", Some(ahead))).await;
    assert_eq!(got, Err(StoreError::Ahead(ahead)));
    let listed = within("an answer", store.list("", None, Some(ahead), 10)).await;
    assert_eq!(listed, Err(StoreError::Ahead(ahead)));
    let followed = within("an answer", store.follow(ahead)).await.map(drop);
    assert_eq!(followed, Err(StoreError::Ahead(ahead)));
}

/// It is before every history, and must not be taken for the head.
pub async fn revision_zero_is_refused<S: Store>(store: &S) {
    commit(store, vec![put("a", "1")]).await;
    let zero = Revision(0);
    assert!(matches!(store.get("a", Some(zero)).await, Err(StoreError::Refused(_))));
    assert!(matches!(store.list("", None, Some(zero), 10).await, Err(StoreError::Refused(_))));
    assert!(matches!(store.follow(zero).await.map(drop), Err(StoreError::Refused(_))));
}

/// Every entry of the pinned revision once, whatever is written, overwritten and removed between two pages.
pub async fn pinned_pages_are_exact_under_later_changes<S: Store>(store: &S) {
    let all: Vec<String> = (0..50).map(|n| format!("r/{n:03}")).collect();
    let at = commit(store, all.iter().map(|key| put(key, "old")).collect()).await;
    let mut seen: Vec<Entry> = Vec::new();
    let mut at_first = None;
    loop {
        let after = seen.last().map(|entry| entry.key.clone());
        let page = within("a page", store.list("r/", after.as_deref(), at_first, 7)).await.unwrap();
        assert!(page.entries.len() <= 7);
        assert!(!page.entries.is_empty() || !page.more);
        assert!(page.at >= at);
        assert_eq!(page.at, at_first.unwrap_or(page.at), "all pages are of one revision");
        at_first = Some(page.at);
        seen.extend(page.entries);
        if !page.more {
            break;
        }
        let done = seen.len();
        let mut changes = vec![remove(&all[done % 50]), put(&all[(done + 1) % 50], "new")];
        changes.push(put(&format!("r/{done:03}x"), "new"));
        commit(store, changes).await;
    }
    assert_eq!(seen.iter().map(|entry| entry.key.clone()).collect::<Vec<_>>(), all);
    assert!(seen.iter().all(|entry| text(entry) == "old" && entry.mod_revision == at));
}

/// Neither the neighbours of the prefix nor, with an empty one, less than everything.
pub async fn a_list_holds_its_prefix_and_nothing_else<S: Store>(store: &S) {
    let keys = ["r", "r.", "r/", "r//", "r/a", "r/ä", "r0", "s"];
    commit(store, keys.iter().map(|key| put(key, "1")).collect()).await;
    let list = async |prefix: &str, after: Option<&str>| {
        let page = within("a page", store.list(prefix, after, None, 100)).await.unwrap();
        assert!(!page.more);
        page.entries.into_iter().map(|entry| entry.key).collect::<Vec<_>>()
    };
    assert_eq!(list("r/", None).await, ["r/", "r//", "r/a", "r/ä"]);
    assert_eq!(list("r/", Some("r/")).await, ["r//", "r/a", "r/ä"]);
    assert_eq!(list("r/", Some("r/ä")).await, Vec::<String>::new());
    assert_eq!(list("none", None).await, Vec::<String>::new());
    assert_eq!(list("", None).await, keys);
}

/// All of them arrive; a page that would be too large is shorter instead.
pub async fn large_values_come_in_more_pages<S: Store>(store: &S) {
    let large = "x".repeat(900 * 1024);
    for n in 0..24 {
        commit(store, vec![put(&format!("r/{n:02}"), &large)]).await;
    }
    let mut keys: Vec<String> = Vec::new();
    loop {
        let after = keys.last().cloned();
        let page = within("a page", store.list("r/", after.as_deref(), None, 500)).await.unwrap();
        assert!(page.entries.iter().all(|entry| entry.value.len() == large.len()));
        keys.extend(page.entries.into_iter().map(|entry| entry.key));
        if !page.more {
            break;
        }
    }
    assert_eq!(keys, (0..24).map(|n| format!("r/{n:02}")).collect::<Vec<_>>());
}
