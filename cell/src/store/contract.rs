//! What every store promises, as tests that each adapter runs.
//!
//! A fact is an async function over a [`Store`] and panics where it does not hold. Facts share a store with others
//! that run at the same time, under other prefixes of their own, so none of them counts on the next revision being
//! its own. Those of [`compaction`] forget history and need a store to themselves. [`store_contract!`] makes a test
//! of each, so that no adapter can leave one out.
//!
//! Never here: what only one adapter does, such as surviving a restart.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a promise that is not kept ends the test")]

pub mod commits;
pub mod compaction;
pub mod elections;
pub mod follows;
pub mod reads;

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use rollcall_model::Revision;

use super::{Committed, Compare, Effect, Entry, Follow, Group, Happened, Op, Store, Verdict, Write};

/// How long anything may take that a busy machine does at once; a lease that lapses is the longest of it.
const DEADLINE: Duration = Duration::from_secs(60);

/// Makes a test of each fact. `$shared` and `$alone` are async functions that give something with a field `store`;
/// with `$alone` no other fact runs on the same store.
#[macro_export]
macro_rules! store_contract {
    ($shared:path, $alone:path) => {
        $crate::store_contract!(@tests $shared, commits:
            a_group_shares_one_revision
            a_failed_compare_fails_only_its_own_write
            a_second_effect_of_a_lost_write_does_not_happen_either
            compares_see_the_state_before_the_group
            a_lost_write_tells_what_it_lost_against
            a_key_touched_twice_is_refused_and_nothing_is_written
            a_failed_fence_writes_nothing
            a_fence_that_holds_lets_everything_through
            a_group_without_effect_takes_no_revision
            create_and_mod_revision_tell_a_rewrite_from_a_rebirth
            a_full_group_of_two_effects_each_is_committed
            a_full_group_of_lost_writes_tells_large_values
            a_group_of_the_greatest_size_is_committed
            groups_at_once_get_a_revision_each
        );
        $crate::store_contract!(@tests $shared, reads:
            a_get_at_an_old_revision_sees_what_was_then
            a_revision_ahead_of_the_head_is_told
            revision_zero_is_refused
            pinned_pages_are_exact_under_later_changes
            a_list_holds_its_prefix_and_nothing_else
            large_values_come_in_more_pages
        );
        $crate::store_contract!(@tests $shared, follows:
            a_follower_gets_every_revision_whole_and_in_order
            a_follower_waits_for_what_has_not_happened
            a_follower_that_goes_on_after_the_last_revision_misses_nothing
            a_dropped_wait_loses_nothing
            twelve_megabytes_of_history_are_followed
        );
        $crate::store_contract!(@tests $shared, elections:
            a_second_candidate_waits_until_the_first_resigns
            a_dropped_tenure_gives_the_office_up
            a_write_with_a_lost_tenure_is_fenced
            the_oldest_candidates_key_tells_who_is_in_office_and_its_term
        );
        $crate::store_contract!(@tests $alone, compaction:
            history_before_a_compaction_is_gone
            the_compacted_revision_can_still_be_read_and_followed
            b25_a_removal_at_the_compacted_revision_is_still_followed
            compaction_keeps_the_present_state
            compaction_goes_forward_only_and_never_past_the_head
        );
    };
    (@tests $open:path, $room:ident: $($fact:ident)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $fact() {
                let opened = $open().await;
                $crate::store::contract::$room::$fact(&opened.store).await;
            }
        )+
    };
}

/// Waits for something that must happen, and names it if it does not.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, future).await {
        Ok(done) => done,
        Err(_) => panic!("not within {DEADLINE:?}: {what}"),
    }
}

/// An effect that writes.
pub fn put(key: &str, value: &str) -> Op {
    Op::Put(key.to_owned(), Bytes::copy_from_slice(value.as_bytes()))
}

fn remove(key: &str) -> Op {
    Op::Remove(key.to_owned())
}

fn fresh(key: &str) -> Compare {
    Compare::ModRevision(key.to_owned(), Revision(0))
}

fn write(compare: Vec<Compare>, then: Vec<Op>, otherwise_read: &str) -> Write {
    Write { compare, then, otherwise_read: otherwise_read.to_owned() }
}

/// Commits effects without condition, and gives their revision.
pub async fn commit<S: Store>(store: &S, also: Vec<Op>) -> Revision {
    done(store, Group { also, ..Group::default() }).await.0
}

/// Commits a group that no fence stops.
async fn done<S: Store>(store: &S, group: Group) -> (Revision, Vec<Verdict>) {
    match within("a commit is answered", store.commit(group)).await.unwrap() {
        Committed::Done { revision, verdicts } => (revision, verdicts),
        Committed::Fenced => panic!("fenced"),
    }
}

async fn get<S: Store>(store: &S, key: &str) -> Option<Entry> {
    within("a get is answered", store.get(key, None)).await.unwrap().0
}

async fn value<S: Store>(store: &S, key: &str) -> Option<String> {
    get(store, key).await.map(|entry| text(&entry))
}

fn text(entry: &Entry) -> String {
    String::from_utf8(entry.value.to_vec()).unwrap()
}

/// Follows until this revision has been delivered.
pub async fn follow_until<F: Follow>(follow: &mut F, until: Revision) -> Vec<Happened> {
    let mut all: Vec<Happened> = Vec::new();
    while all.last().is_none_or(|last| last.revision < until) {
        let more = within("a revision is followed", follow.next()).await.unwrap();
        assert!(!more.is_empty(), "next answers with one revision at least");
        all.extend(more);
    }
    all
}

/// What happened, short enough to compare: revision, then `key=value` or `-key`.
fn brief(happened: &[Happened]) -> Vec<(u64, Vec<String>)> {
    let of = |effect: &Effect| match effect {
        Effect::Put(entry) => format!("{}={}", entry.key, text(entry)),
        Effect::Removed(key) => format!("-{key}"),
    };
    happened.iter().map(|one| (one.revision.0, one.effects.iter().map(of).collect())).collect()
}
