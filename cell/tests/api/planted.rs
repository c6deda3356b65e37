//! The judge of watches is judged: it finds each planted fault, and none in what is as it should be.

use std::collections::BTreeMap;

use rollcall_model::{Epoch, Revision};

use super::judge::{Check, judge};
use super::told::{Change, Fact, Figures, Filter, Gone, History, Record, Reload, Stream, Told};

fn epoch(revision: u64) -> u64 {
    Epoch::new(1, Revision(revision)).get()
}

fn put(id: &str, registered: u64, revision: u64, lifecycle: &str) -> Change {
    let metadata = BTreeMap::from([("mark".to_owned(), revision.to_string())]);
    let (id, lifecycle) = (id.to_owned(), lifecycle.to_owned());
    Change::Put(Record { id, epoch: epoch(registered), revision, lifecycle, metadata, ..Record::default() })
}

fn remove(id: &str, registered: u64) -> Change {
    let (id, epoch) = (id.to_owned(), epoch(registered));
    Change::Remove(Gone { id, epoch, reason: "expired".into(), actor: "keeper".into(), revision: None })
}

/// A registration, one after it with the next, an update, a removal beside an update, a registration anew, one that
/// takes over, removals together, and another registration.
fn history() -> History {
    let happened = [
        (10, vec![put("ops/mail/1", 10, 10, "healthy")]),
        (11, vec![put("ops/post/2", 11, 11, "healthy"), put("ops/mail/3", 11, 11, "healthy")]),
        (13, vec![put("ops/mail/1", 10, 13, "draining")]),
        (14, vec![remove("ops/mail/1", 10), put("ops/mail/3", 11, 14, "degraded")]),
        (16, vec![put("ops/mail/1", 16, 16, "healthy")]),
        (17, vec![put("ops/post/2", 17, 17, "healthy")]),
        (18, vec![remove("ops/post/2", 17), remove("ops/mail/3", 11)]),
        (20, vec![put("ops/mail/3", 20, 20, "healthy")]),
    ];
    let mut history = History::default();
    for (revision, changes) in happened {
        for change in changes {
            let before = history.state(revision).get(change.id()).map(|before| (*before).clone());
            history.facts.push(Fact { revision, change, before });
        }
        let count = history.state(revision).len() as u64;
        history.figures.insert(revision, (count, format!("after {revision}")));
    }
    history
}

/// Deltas of one revision each after a position, and bookmarks behind some.
fn followed(history: &History, filter: &Filter, after: u64) -> Vec<Told> {
    let mut told = Vec::new();
    let mut from = after;
    for at in 10..=20 {
        let changes: Vec<_> = history.facts_between(at - 1, at, filter).map(|f| f.change.clone()).collect();
        if at > after && !changes.is_empty() {
            told.push(Told::Delta { from, to: at, changes });
            from = at;
        }
        if at > after && [15, 17, 20].contains(&at) {
            told.push(Told::Bookmark(at, history.figures_at(at)));
        }
    }
    told
}

/// What a watcher is told from the beginning.
fn begun(history: &History, filter: &Filter) -> Vec<Told> {
    let snapshot = snapshot(history, filter, 11);
    [snapshot, followed(history, filter, 11)].concat()
}

fn snapshot(history: &History, filter: &Filter, at: u64) -> Vec<Told> {
    let records = history.state(at).into_values().filter(|one| filter.fits(one)).cloned().collect();
    vec![Told::Begin(at, history.figures_at(at)), Told::Page(records), Told::End(at)]
}

fn found(history: &History, filter: &Filter, since: Option<u64>, told: Vec<Told>) -> Vec<Check> {
    let stream = Stream { filter: filter.clone(), since, told };
    judge(history, &stream).into_iter().map(|(check, _)| check).collect()
}

/// Plants a fault into what a watcher of everything is told from the beginning, and says which checks find it.
fn planted(fault: impl FnOnce(&mut Vec<Told>)) -> Vec<Check> {
    let (history, everything) = (history(), Filter::default());
    let mut told = begun(&history, &everything);
    let right = told.clone();
    fault(&mut told);
    assert_ne!(told, right, "nothing was planted");
    found(&history, &everything, None, told)
}

/// The changes of the delta that ends here.
fn changes_to(told: &mut [Told], at: u64) -> &mut Vec<Change> {
    let changes = told.iter_mut().find_map(|said| match said {
        Told::Delta { to, changes, .. } if *to == at => Some(changes),
        _ => None,
    });
    changes.expect("there is a delta to it")
}

fn place_of(told: &[Told], at: u64) -> usize {
    let is_it = |said: &Told| matches!(said, Told::Delta { to, .. } if *to == at);
    told.iter().position(is_it).expect("there is a delta to it")
}

fn filters() -> [Filter; 4] {
    let everything = Filter::default();
    let name = Filter { name: Some("mail"), ..Filter::default() };
    let lifecycle = Filter { lifecycle: Some("healthy"), ..Filter::default() };
    let nothing = Filter { tag: Some("none"), ..Filter::default() };
    [everything, name, lifecycle, nothing]
}

#[test]
fn a_faithful_stream_breaks_nothing_whatever_its_filter_and_start() {
    let history = history();
    for filter in filters() {
        assert_eq!(found(&history, &filter, None, begun(&history, &filter)), [], "{filter:?}");
        for since in 9..=20 {
            let told = followed(&history, &filter, since);
            assert_eq!(found(&history, &filter, Some(since), told), [], "{filter:?} {since}");
        }
    }
    // What was missed comes together.
    let mut told = followed(&history, &Filter::default(), 11);
    let mut all = Vec::new();
    for said in &told {
        if let Told::Delta { changes, .. } = said {
            all.extend(changes.clone());
        }
    }
    told = vec![Told::Delta { from: 11, to: 20, changes: all }];
    assert_eq!(found(&history, &Filter::default(), Some(11), told), []);
}

#[test]
fn filter_finds_a_put_that_fits_neither_now_nor_before_and_a_stranger_in_a_snapshot() {
    let (history, [_, name, lifecycle, _]) = (history(), filters());
    let mut told = begun(&history, &name);
    told.insert(
        place_of(&told, 16) + 1,
        Told::Delta { from: 16, to: 17, changes: vec![put("ops/post/2", 17, 17, "healthy")] },
    );
    assert_eq!(found(&history, &name, None, told), [Check::Filter]);
    let mut told = begun(&history, &lifecycle);
    // It was draining already when it went.
    changes_to(&mut told, 14).insert(0, remove("ops/mail/1", 10));
    assert_eq!(found(&history, &lifecycle, None, told), [Check::Filter]);
    let mut told = begun(&history, &name);
    told[1] = snapshot(&history, &Filter::default(), 11)[1].clone();
    assert_eq!(found(&history, &name, None, told), [Check::Filter]);
}

#[test]
fn ordered_finds_swapped_changes_and_a_delta_that_leads_back() {
    let swapped = planted(|told| {
        let at = place_of(told, 16);
        let Told::Delta { changes, .. } = told.remove(at) else { panic!("no delta") };
        let Told::Delta { from, changes: next, .. } = &mut told[at] else { panic!("no delta") };
        *from = 14;
        next.extend(changes);
    });
    assert_eq!(swapped, [Check::Ordered]);
    let deltas = planted(|told| {
        let at = place_of(told, 13);
        told.swap(at, at + 1);
    });
    assert_eq!(deltas, [Check::Ordered]);
    let outside = planted(|told| {
        let at = place_of(told, 17);
        told[at] = Told::Delta { from: 17, to: 18, changes: vec![put("ops/post/2", 17, 17, "healthy")] };
    });
    assert!(outside.contains(&Check::Ordered), "{outside:?}");
}

#[test]
fn unique_finds_what_came_twice() {
    let within = planted(|told| changes_to(told, 16).push(put("ops/mail/1", 16, 16, "healthy")));
    assert_eq!(within, [Check::Unique]);
    let removal = planted(|told| changes_to(told, 18).push(remove("ops/mail/3", 11)));
    assert_eq!(removal, [Check::Unique]);
    let delta = planted(|told| {
        let at = place_of(told, 18);
        told.insert(at, told[at].clone());
    });
    assert_eq!(delta, [Check::Ordered, Check::Unique, Check::Atomic]);
}

#[test]
fn atomic_finds_a_torn_revision_and_a_torn_snapshot() {
    let torn = planted(|told| {
        let at = place_of(told, 18);
        let late = changes_to(told, 18).split_off(1);
        told.insert(at + 1, Told::Delta { from: 17, to: 18, changes: late });
    });
    assert_eq!(torn, [Check::Ordered, Check::Atomic]);
    let record = planted(|told| {
        let Told::Page(records) = &mut told[1] else { panic!("no page") };
        let Change::Put(newer) = put("ops/mail/1", 10, 13, "draining") else { panic!("no put") };
        records[0] = newer;
    });
    assert_eq!(record, [Check::Atomic]);
    let figures = planted(|told| told[0] = Told::Begin(11, (2, "after 11".into())));
    assert_eq!(figures, [Check::Atomic]);
}

#[test]
fn reliable_finds_what_was_dropped_what_never_was_and_what_was_changed_on_the_way() {
    let dropped = planted(|told| {
        let at = place_of(told, 16);
        told.remove(at);
    });
    assert_eq!(dropped, [Check::Reliable]);
    let one_of_two = planted(|told| {
        changes_to(told, 14).pop();
    });
    assert_eq!(one_of_two, [Check::Reliable]);
    let unlisted = planted(|told| {
        let Told::Page(records) = &mut told[1] else { panic!("no page") };
        records.pop();
    });
    assert_eq!(unlisted, [Check::Reliable]);
    let invented = planted(|told| changes_to(told, 16).push(put("ops/mail/9", 16, 16, "healthy")));
    assert_eq!(invented, [Check::Reliable]);
    let altered = planted(|told| changes_to(told, 16)[0] = put("ops/mail/1", 16, 16, "offline"));
    assert_eq!(altered, [Check::Reliable]);
    // Nothing comes after it that would show the gap but a bookmark.
    let at_the_end = planted(|told| {
        let at = place_of(told, 20);
        told.remove(at);
    });
    assert_eq!(at_the_end, [Check::Reliable]);
}

#[test]
fn resumable_finds_a_resume_that_repeats_skips_or_begins_anew() {
    let (history, everything) = (history(), Filter::default());
    let find = |since, told| found(&history, &everything, Some(since), told);
    let both = vec![put("ops/mail/1", 16, 16, "healthy"), put("ops/post/2", 17, 17, "healthy")];
    let repeated = vec![Told::Delta { from: 14, to: 17, changes: both }];
    assert_eq!(find(16, repeated), [Check::Resumable]);
    assert_eq!(find(13, followed(&history, &everything, 14)), [Check::Reliable, Check::Resumable]);
    assert_eq!(
        find(16, begun(&history, &everything)),
        [Check::Ordered, Check::Resumable, Check::Bookmarkable]
    );
    let anew =
        |reason: &str| [vec![Told::Resync(reason.into())], snapshot(&history, &everything, 20)].concat();
    for reason in ["history_passed", "behind", "new_incarnation", "unknown_position"] {
        assert_eq!(find(16, anew(reason)), [Check::Resumable], "{reason}");
    }
    let reloaded = |from, until| {
        let history = History { reloads: vec![Reload { from, until }], ..history.clone() };
        found(&history, &everything, Some(16), anew("history_passed"))
    };
    assert_eq!(reloaded(17, 18), []);
    assert_eq!(reloaded(13, 14), [Check::Resumable], "it has more than was lost");
}

#[test]
fn bookmarkable_finds_a_bookmark_that_is_ahead_behind_or_wrong() {
    let figures = |at| history().figures_at(at);
    let ahead = planted(|told| {
        let at = place_of(told, 16);
        told.insert(at, Told::Bookmark(16, figures(16)));
    });
    assert!(ahead.contains(&Check::Bookmarkable), "{ahead:?}");
    let behind = planted(|told| told.push(Told::Bookmark(19, figures(19))));
    assert_eq!(behind, [Check::Bookmarkable]);
    let wrong: Figures = (9, "after 20".into());
    assert_eq!(planted(|told| told.push(Told::Bookmark(21, wrong))), [Check::Bookmarkable]);
}

#[test]
fn prev_kv_finds_a_change_that_names_what_did_not_stand() {
    let removal = planted(|told| changes_to(told, 18)[0] = remove("ops/post/2", 11));
    assert_eq!(removal, [Check::PrevKv]);
    let update = planted(|told| changes_to(told, 14)[1] = put("ops/mail/3", 10, 14, "degraded"));
    assert_eq!(update, [Check::PrevKv]);
}

#[test]
fn is_create_finds_an_update_told_as_new_and_a_registration_told_as_an_update() {
    let update = planted(|told| changes_to(told, 13)[0] = put("ops/mail/1", 13, 13, "draining"));
    assert_eq!(update, [Check::IsCreate]);
    let replaced = planted(|told| changes_to(told, 17)[0] = put("ops/post/2", 11, 17, "healthy"));
    assert_eq!(replaced, [Check::IsCreate]);
}
