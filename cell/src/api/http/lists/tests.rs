//! Lists are what they would be if nothing were kept; what is kept is bounded, and goes with the state.

use std::sync::Mutex;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use futures_util::{FutureExt as _, StreamExt as _};
use rollcall_model::testing::{
    Chance, Origin, any_declared, any_owned, ids, position, region, registered, registration,
};
use rollcall_model::{
    Bookmark, Clock, Code, Epoch, GuardLimits, Holder, Outcome, Region, Revision, Snapshot, State, Timestamp,
    View, limits,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::store::{Compare, Hold, Tenure};

const QUESTIONS: [&str; 14] = [
    "",
    "limit=1",
    "limit=3&region=all",
    "namespace=ops&name=mail",
    "namespace=ops&name=mail&region=all&internal",
    "name=mai",
    "capability=mail:send:v1",
    "capability=mail:send:v1&internal=true&limit=2",
    "tag=gpu&limit=2",
    "kind=tool&region=us",
    "lifecycle=healthy&zone=a",
    "metadata.queue=1&region=all",
    "version=%5E1",
    "namespace=nobody",
];

/// A cell without a network: its own region, whose leases it keeps at times, and a view of another one.
struct Cell {
    chance: Chance,
    origin: Origin,
    own: watch::Sender<Arc<View>>,
    other: watch::Sender<Arc<View>>,
    /// What the other region has, which nobody else holds: what goes from it is free to be used again.
    others: State,
    regions: Regions,
    keeper: KeeperHandle,
    time: Arc<Mutex<Duration>>,
    steps: u64,
    lists: Lists,
    unread: Unread,
    /// Pages that somebody was told of.
    pages: Vec<String>,
}

impl Cell {
    fn new(seed: u64) -> Self {
        let time = Arc::new(Mutex::new(Duration::from_secs(1)));
        let read = Arc::clone(&time);
        let clock = Clock::new(move || *read.lock().unwrap(), || 0);
        let origin = Origin::new(seed);
        let mut view = View::new(region()).with_facets();
        view.install(origin.snapshot(&origin.head()), None, "started", Timestamp(0));
        let (own, own_view) = watch::channel(Arc::new(view));
        let us = Region::parse("us").unwrap();
        let (other, other_view) = watch::channel(Arc::new(View::new(us.clone())));
        Self {
            chance: Chance::new(seed),
            origin,
            own,
            other,
            others: State::default(),
            regions: Regions::new((region(), own_view), vec![(us, other_view)]),
            keeper: KeeperHandle::new(GuardLimits::default(), clock),
            time,
            steps: 1,
            lists: Lists::default(),
            unread: Unread::default(),
            pages: Vec::new(),
        }
    }

    /// Something happens that a list may show.
    fn step(&mut self) {
        self.steps += 1;
        match self.chance.below(12) {
            0..3 => self.own_changes(),
            9 => self.own_is_current(),
            3 => self.other_changes(),
            4 | 5 => self.hears(),
            6 => {
                let time = Duration::from_secs(self.chance.number() % 40);
                self.pass(time);
            }
            7 => {
                let time = Duration::from_millis(self.chance.number() % 900);
                self.pass(time);
            }
            8 if self.chance.one_in(4) => self.office_changes(),
            _ => {}
        }
    }

    fn pass(&self, time: Duration) {
        *self.time.lock().unwrap() += time;
    }

    fn own_changes(&mut self) {
        self.origin.change();
        let mut view = View::clone(&self.own.borrow());
        let delta = self.origin.delta(view.position().unwrap(), &self.origin.head());
        view.apply(&delta);
        self.keeper.follow(&[delta], None, || drop(self.own.send_replace(Arc::new(view))));
    }

    /// The own region is heard of: it grows older from here on.
    fn own_is_current(&self) {
        let now = Instant(*self.time.lock().unwrap());
        let mut view = View::clone(&self.own.borrow());
        let bookmark = Bookmark { age: Some(Duration::ZERO), ..view.bookmark(now).unwrap() };
        assert_eq!(view.mark(&bookmark, now), Outcome::Applied);
        self.own.send_replace(Arc::new(view));
    }

    fn other_changes(&mut self) {
        let id = self.chance.pick(&ids(12)).clone();
        if self.others.take(&id).is_none() || self.chance.one_in(2) {
            let epoch = Epoch::new(1, Revision(self.steps));
            let mut new = registered(any_declared(&mut self.chance, id), epoch, Revision(self.steps));
            new.owned = any_owned(&mut self.chance);
            self.others.put(Arc::new(new));
        }
        let mut view = View::new(Region::parse("us").unwrap()).with_facets();
        let snapshot = Snapshot::of(view.region().clone(), position(1, self.steps), self.others.clone());
        view.install(snapshot, None, "started", Timestamp(0));
        self.other.send_replace(Arc::new(view));
    }

    /// The keeper hears of an instance, or that one of those who share it lets go.
    fn hears(&mut self) {
        let view = self.own.borrow().clone();
        let standing: Vec<_> = view.state().unwrap().iter().collect();
        let Some(one) = (!standing.is_empty()).then(|| *self.chance.pick(&standing)) else { return };
        let holder = Holder::parse(if self.chance.one_in(2) { "p" } else { "q" }).unwrap();
        if self.chance.one_in(3) {
            let _ = self.keeper.let_go(&one.declared.id, &holder, one.epoch);
        } else {
            let _ = self.keeper.renew(&one.declared.id, &holder, one.epoch);
        }
    }

    fn office_changes(&self) {
        if self.keeper.term().is_some() {
            return self.keeper.end();
        }
        let hold = Hold::until(tokio::time::Instant::now() + Duration::from_secs(3_600));
        let fence = Compare::CreateRevision("keeper/1".into(), Revision(1));
        let office = CancellationToken::new().drop_guard();
        self.keeper.begin(&Tenure::new(self.steps, fence, office, hold), &self.own.subscribe()).unwrap();
    }

    fn answer(&self, lists: &Lists, question: &str) -> String {
        let from = Source { regions: &self.regions, keeper: &self.keeper, unread: &self.unread };
        let now = Instant(*self.time.lock().unwrap());
        let pieces = pieces(at_once(lists.answer(question, from, now)).unwrap().body);
        String::from_utf8(pieces.concat()).unwrap()
    }

    fn kept(&self, question: &str) -> Option<Arc<Page>> {
        self.lists.kept.get(question).map(|kept| Arc::clone(&kept.page))
    }
}

/// What comes of it when nothing is waited for but its own next breath.
fn at_once<T>(asked: impl Future<Output = T>) -> T {
    let mut asked = Box::pin(asked);
    (0..1_000).find_map(|_| asked.as_mut().now_or_never()).expect("it ends")
}

/// An answer as it goes out, whose length is told before.
fn pieces(written: Written) -> Vec<Bytes> {
    let length = written.size_hint().exact();
    let body = Body::new(written).into_data_stream();
    let pieces = body.map(Result::unwrap).collect::<Vec<_>>().now_or_never().expect("nothing is waited for");
    assert_eq!(length, Some(pieces.iter().map(Bytes::len).sum::<usize>() as u64));
    pieces
}

#[test]
fn an_answer_is_byte_for_byte_what_it_is_when_nothing_is_kept() {
    let (mut same, mut other, mut overdue, mut behind) = (0, 0, 0, 0);
    for seed in 0..8 {
        let mut cell = Cell::new(seed);
        for step in 0..120 {
            cell.step();
            let pages = cell.pages.clone();
            for question in QUESTIONS.into_iter().chain(pages.iter().map(String::as_str)) {
                let before = cell.kept(question);
                let answer = cell.answer(&cell.lists, question);
                let fresh = cell.answer(&Lists::default(), question);
                assert_eq!(answer, fresh, "{question:?} at step {step} of seed {seed}");
                overdue += usize::from(answer.contains(r#""overdue":true"#));
                behind += usize::from(answer.contains(r#""state":"behind""#));
                let is_same =
                    before.zip(cell.kept(question)).is_some_and(|(one, two)| Arc::ptr_eq(&one, &two));
                if is_same {
                    same += 1
                } else {
                    other += 1
                }
                let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
                if question.contains("limit=")
                    && let Some(token) = answer["next_page_token"].as_str()
                {
                    let asked = question.split("&page_token").next().expect("a part");
                    let page = format!("{asked}&page_token={token}");
                    if !cell.pages.contains(&page) {
                        cell.pages.insert(0, page);
                        cell.pages.truncate(6);
                    }
                }
            }
        }
    }
    assert!(
        same > other && other > 300 && overdue > 100 && behind > 100,
        "{same} kept, {other} written, {overdue} overdue, {behind} behind"
    );
}

#[test]
fn a_large_list_goes_out_as_it_is_kept_and_a_small_one_in_one_piece() {
    let mut cell = Cell::new(5);
    let mut state = State::default();
    for n in 0..100 {
        state.put(Arc::new(registration(&format!("a/b/{n:03}"), 1, n + 1)));
    }
    cell.others = state;
    cell.other_changes();
    let from = Source { regions: &cell.regions, keeper: &cell.keeper, unread: &cell.unread };
    let ask = |question| {
        pieces(at_once(cell.lists.answer(question, from, Instant(Duration::from_secs(2)))).unwrap().body)
    };
    let (one, other) = (ask("region=us&namespace=a"), ask("region=us&namespace=a"));
    assert_eq!(one.len(), 2);
    assert!(std::ptr::eq(&*one[0], &*other[0]), "one copy for all who ask");
    let answer: serde_json::Value = serde_json::from_slice(&one.concat()).unwrap();
    assert_eq!(answer["agents"].as_array().unwrap().len(), 100);
    assert_eq!(answer["regions"][0]["region"], "us");
    assert_eq!(ask("region=us&namespace=a&limit=2").len(), 1);
}

#[test]
fn a_list_that_many_take_at_once_weighs_once() {
    let mut cell = Cell::new(5);
    for n in 0..400 {
        cell.others.put(Arc::new(registration(
            &format!("{}/b/{n:03}", if n % 2 == 0 { "a" } else { "c" }),
            1,
            n + 1,
        )));
    }
    cell.other_changes();
    let from = Source { regions: &cell.regions, keeper: &cell.keeper, unread: &cell.unread };
    let ask = |question| {
        at_once(cell.lists.answer(question, from, Instant(Duration::from_secs(2))))
            .map(|one| pieces(one.body))
    };
    // So much room that one is written, and then another one is not.
    let _rest = cell.unread.take(limits::UNREAD_BYTES_MAX - limits::PAGE_BYTES_MAX - 4_096).unwrap();
    let taken: Vec<_> = (0..100).map(|_| ask("region=us&namespace=a&limit=1000").unwrap()).collect();
    assert!(!Unread::passes(taken[0].concat().len()));
    let other = "region=us&namespace=c&limit=1000";
    assert_eq!(ask(other).map(|_| ()).unwrap_err().code, Code::Overloaded);
    assert!(ask("region=us&namespace=c&limit=5").is_ok(), "a small one always passes");
    drop(taken);
    assert!(ask(other).is_ok());
}

#[test]
fn a_page_ends_before_who_has_no_room_and_not_a_moment_longer() {
    let mut cell = Cell::new(5);
    let sized = |id: &str, bytes: usize, revision: u64| {
        let mut one = registration(id, 1, revision);
        one.owned.metadata = [("k".to_owned(), "v".repeat(bytes))]
            .into_iter()
            .collect::<std::collections::BTreeMap<_, _>>()
            .into();
        Arc::new(one)
    };
    cell.others.put(sized("a/b/1", 900_000, 1));
    cell.others.put(sized("a/b/2", 1_500_000, 2));
    cell.others.put(sized("a/b/3", 9, 3));
    cell.other_changes();
    let ids = |cell: &Cell, question: &str| {
        let answer: serde_json::Value = serde_json::from_str(&cell.answer(&cell.lists, question)).unwrap();
        let of = |agent: &serde_json::Value| agent["id"].as_str().unwrap().to_owned();
        let ids: Vec<_> = answer["agents"].as_array().unwrap().iter().map(of).collect();
        (ids, answer["next_page_token"].as_str().map(str::to_owned))
    };
    let question = "region=us&namespace=a&name=b";
    let (first, token) = ids(&cell, question);
    assert_eq!(first, ["a/b/1"]);
    let (second, end) = ids(&cell, &format!("{question}&page_token={}", token.unwrap()));
    assert_eq!((second, end), (vec!["a/b/2".to_owned(), "a/b/3".to_owned()], None));
    cell.others.put(sized("a/b/2", 9, 4));
    cell.other_changes();
    assert_eq!(
        ids(&cell, question),
        (vec!["a/b/1".to_owned(), "a/b/2".to_owned(), "a/b/3".to_owned()], None)
    );
    // One alone is shown, however large.
    cell.others.put(sized("a/b/1", 3_000_000, 5));
    cell.other_changes();
    assert_eq!(ids(&cell, question).0, ["a/b/1"]);
}

#[test]
fn what_changes_elsewhere_leaves_a_list_as_it_was_written() {
    let mut cell = Cell::new(7);
    cell.office_changes();
    (0..20).for_each(|_| cell.own_changes());
    let question = "region=us";
    cell.other_changes();
    let _ = cell.answer(&cell.lists, question);
    let written = cell.kept(question).expect("kept");
    for _ in 0..50 {
        cell.own_changes();
        cell.hears();
        cell.pass(Duration::from_secs(20));
        let _ = cell.answer(&cell.lists, question);
        assert!(Arc::ptr_eq(&written, &cell.kept(question).expect("kept")));
    }
    cell.other_changes();
    let _ = cell.answer(&cell.lists, question);
    assert!(!Arc::ptr_eq(&written, &cell.kept(question).expect("kept")));
}

#[test]
fn what_goes_from_the_state_goes_from_memory() {
    let mut cell = Cell::new(3);
    cell.other_changes();
    let _ = cell.answer(&cell.lists, "region=us");
    let page = cell.kept("region=us").expect("kept");
    let one = page.written_from.first().expect("one").clone();
    assert!(one.upgrade().is_some());
    while one.upgrade().is_some() && cell.steps < 1_000 {
        cell.steps += 1;
        cell.other_changes();
    }
    assert!(one.upgrade().is_none());
}

#[test]
fn what_is_kept_is_bounded() {
    let cell = Cell::new(1);
    let many = 3 * BYTES_MAX / 32_768;
    for n in 0..many {
        let question = format!("metadata.k{n}={}", "v".repeat(7_000));
        let _ = cell.answer(&cell.lists, &question);
    }
    let (bytes, left) = (cell.lists.kept.weight(), cell.lists.kept.len() as u64);
    assert!(bytes <= BYTES_MAX && left < many && left > many / 10, "{bytes} bytes in {left}");
}
