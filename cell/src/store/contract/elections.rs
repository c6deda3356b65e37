//! What the keeper's election promises.

use super::{done, put, value, within};
use crate::store::{Committed, Group, Store, Tenure};

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
