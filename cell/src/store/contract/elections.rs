//! What the keeper's election promises.

use super::{done, put, text, value, within};
use crate::store::{Committed, Group, Store, Tenure, keys, limits};

async fn campaign<S: Store>(store: &S, candidate: &str) -> Tenure {
    within("the office is won", store.campaign(candidate)).await.unwrap()
}

fn fenced(tenure: &Tenure, key: &str) -> Group {
    Group { fence: vec![tenure.fence.clone()], also: vec![put(key, "1")], ..Group::default() }
}

/// Then it wins, with a higher term.
pub async fn a_second_candidate_waits_until_the_first_resigns<S: Store>(store: &S) {
    let first = campaign(store, "10.0.0.1:1").await;
    let mut second = Box::pin(campaign(store, "10.0.0.2:1"));
    for n in 0..20 {
        tokio::select! {
            biased;
            _ = &mut second => panic!("two hold the office"),
            (..) = done(store, fenced(&first, &format!("k{n}"))) => {}
        }
    }
    assert!(!first.lost.is_cancelled());
    let ((), second) = tokio::join!(store.resign(&first), second);
    assert!(first.lost.is_cancelled());
    assert!(second.term > first.term, "{} {}", second.term, first.term);
    assert!(!second.lost.is_cancelled());
    done(store, fenced(&second, "mine")).await;
}

/// Also without a word, as when its task ends by a panic.
pub async fn a_dropped_tenure_gives_the_office_up<S: Store>(store: &S) {
    let first = campaign(store, "10.0.0.1:1").await;
    let (lost, term) = (first.lost.clone(), first.term);
    let clone = first.clone();
    drop(first);
    assert!(!lost.is_cancelled(), "a clone still holds it");
    drop(clone);
    assert!(lost.is_cancelled());
    let second = campaign(store, "10.0.0.2:1").await;
    assert!(second.term > term);
}

/// Whoever reads the region's keys learns where the keeper is, also while others stand for the office.
pub async fn the_oldest_candidates_key_tells_who_is_in_office_and_its_term<S: Store>(store: &S) {
    let in_office = async || {
        let page = store.list(keys::OFFICE, None, None, limits::PAGE_ENTRIES).await.unwrap();
        let oldest = page.entries.iter().min_by_key(|entry| entry.mod_revision);
        oldest.map(|entry| (entry.mod_revision.0, text(entry)))
    };
    let first = campaign(store, "http://10.0.0.1:1").await;
    let mut second = Box::pin(campaign(store, "http://10.0.0.2:1"));
    for n in 0..20 {
        tokio::select! {
            biased;
            _ = &mut second => panic!("two hold the office"),
            (..) = done(store, fenced(&first, &format!("k{n}"))) => {}
        }
    }
    assert_eq!(in_office().await, Some((first.term, "http://10.0.0.1:1".into())));
    let ((), second) = tokio::join!(store.resign(&first), second);
    assert_eq!(in_office().await, Some((second.term, "http://10.0.0.2:1".into())));
    store.resign(&second).await;
    assert_eq!(in_office().await, None);
}

/// Nothing of it is written, neither before the next keeper nor after (promise I10).
pub async fn a_write_with_a_lost_tenure_is_fenced<S: Store>(store: &S) {
    let first = campaign(store, "10.0.0.1:1").await;
    done(store, fenced(&first, "held")).await;
    store.resign(&first).await;
    let late = within("a commit is answered", store.commit(fenced(&first, "late"))).await;
    assert_eq!(late, Ok(Committed::Fenced));
    let second = campaign(store, "10.0.0.1:1").await;
    let late = within("a commit is answered", store.commit(fenced(&first, "late"))).await;
    assert_eq!(late, Ok(Committed::Fenced));
    done(store, fenced(&second, "held too")).await;
    assert_eq!(value(store, "late").await, None);
    assert_eq!(value(store, "held").await.as_deref(), Some("1"));
}
