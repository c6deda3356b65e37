//! `GET /v1/agents`: lists, and the bytes of those that were asked for before.
//!
//! Callers ask for the same list again and again while none of its registrations changes. So what was written is kept
//! under the text of the question, together with which registrations it was written from. Each question is put to the
//! state anew; when just these registrations come out, the bytes are what would be written again. Nothing has to be
//! told of a change, and what changes elsewhere costs a kept answer nothing.
//!
//! Promises: an answer is byte for byte what it would be if nothing were kept. What depends on time is not kept: the
//! regions' standing is written into every answer, and marks of overdue leases are looked at again when they may have
//! changed. What is kept is bounded, and what was not asked for longest goes. Never here: who matches a question.

use std::sync::{Arc, Weak};

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use rollcall_model::{Instant, Query, Registration, View};

use crate::api::http::json;
use crate::api::http::parameters::Parameters;
use crate::api::reading::{self, Place};
use crate::keeper::{Calm, KeeperHandle};
use crate::refusal::Refusal;
use crate::regions::{Regions, Which};

/// Most bytes of all that is kept: the lists of some 3,500 agents of 50 instances each. A state of these 175,000 instances
/// is larger; and with half of it, callers that go through 2,000 such agents one after the other miss a fifth of them.
const BYTES_MAX: u64 = 128 * 1024 * 1024;
/// Most bytes of one answer that is kept, so that no few drive out the many; it is a list of a thousand and more.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;
/// So many answers are made room for at the start; more make room for themselves.
const ANSWERS: usize = 1_024;
/// Room for what is written into every answer about a region.
const REGION_BYTES: usize = 320;

/// Lists that were asked for before; clones share them.
#[derive(Clone)]
pub struct Lists(Arc<Cache<Box<str>, Arc<Kept>, Weight>>);

impl Default for Lists {
    fn default() -> Self {
        Self(Arc::new(Cache::with_weighter(ANSWERS, BYTES_MAX, Weight)))
    }
}

/// What lists are made from.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    /// The state.
    pub regions: &'a Regions,
    /// Who knows the leases of the own region.
    pub keeper: &'a KeeperHandle,
}

/// A question, as its text says it.
struct Asked {
    which: Which,
    limit: usize,
    place: Option<Place>,
    query: Query,
}

/// An answer as far as it may be given again.
struct Kept {
    asked: Arc<Asked>,
    page: Arc<Page>,
    /// How long the marks in it are known to be right.
    calm: Option<Calm>,
}

/// The part of an answer that follows from its registrations and their marks.
struct Page {
    /// Its registrations, held weakly: one goes from memory when it goes from the state, and still no other one can stand
    /// at its address while it is kept here.
    written_from: Box<[Weak<Registration>]>,
    /// Whether there are more behind them.
    has_more: bool,
    /// Those of the own region, in order.
    overdue: Vec<bool>,
    /// `{"agents":[…],"regions":`
    agents: Box<[u8]>,
    /// `,"next_page_token":…}`
    next: Box<[u8]>,
}

/// What a kept answer weighs: its bytes, and as if all its registrations had gone from the state.
#[derive(Clone)]
struct Weight;

impl Weighter<Box<str>, Arc<Kept>> for Weight {
    fn weight(&self, text: &Box<str>, kept: &Arc<Kept>) -> u64 {
        let page = &kept.page;
        let entry = size_of::<Weak<Registration>>() + size_of::<Registration>() + 2 * size_of::<usize>();
        let bytes = page.agents.len() + page.next.len() + page.overdue.len();
        // What was asked is at most a few times as large as its text.
        let asked = size_of::<Asked>() + 4 * text.len();
        (size_of::<Kept>() + size_of::<Page>() + asked + bytes + page.written_from.len() * entry) as u64
    }
}

impl Lists {
    /// Answers a question.
    ///
    /// # Errors
    /// The text is no question, or asks for a region that is not served here.
    pub(super) fn answer(&self, text: &str, from: Source<'_>, now: Instant) -> Result<Vec<u8>, Refusal> {
        let kept = self.0.get(text);
        let asked = match &kept {
            Some(kept) => Arc::clone(&kept.asked),
            None => Arc::new(Asked::read(text)?),
        };
        let views = from.regions.now(&asked.which)?;
        let page = match kept {
            Some(kept) if kept.page.is_of(&asked, &views)? => {
                if kept.calm.is_some_and(|calm| from.keeper.lasts(calm, now)) {
                    return kept.page.answer(&views, from, now);
                }
                Some(Arc::clone(&kept.page))
            }
            Some(_) | None => None,
        };
        let kept = asked.write(page, &views, from, now)?;
        let answer = kept.page.answer(&views, from, now);
        let kept = (Box::from(text), Arc::new(kept));
        if Weight.weight(&kept.0, &kept.1) <= ANSWER_BYTES_MAX {
            self.0.insert(kept.0, kept.1);
        }
        answer
    }
}

impl Asked {
    fn read(text: &str) -> Result<Self, Refusal> {
        let mut parameters = Parameters::read(text)?;
        let which = parameters.which();
        let limit = parameters.limit();
        let place = parameters.place();
        let internal = parameters.flag("internal");
        let query = Query { internal, ..parameters.query() };
        parameters.close()?;
        Ok(Self { which, limit, place, query })
    }

    /// Writes its answer; or takes a page of just its registrations, if the marks in it are right.
    fn write(
        self: Arc<Self>,
        page: Option<Arc<Page>>,
        views: &[Arc<View>],
        from: Source<'_>,
        now: Instant,
    ) -> Result<Kept, Refusal> {
        let mut walk = reading::walk(views, &self.query, self.place.as_ref())?;
        let found: Vec<_> = walk.by_ref().take(self.limit).collect();
        let has_more = walk.next().is_some();
        let own = from.regions.own();
        let is_own = |view: usize| views.get(view).is_some_and(|view| view.region() == own);
        let leased = found.iter().filter(|(view, _)| is_own(*view)).map(|(_, registration)| &***registration);
        let (overdue, calm) = from.keeper.overdue(leased, now);
        if let Some(page) = page.filter(|page| page.overdue == overdue) {
            return Ok(Kept { asked: Arc::clone(&self), page, calm });
        }
        let mut agents = b"{\"agents\":[".to_vec();
        let mut marks = overdue.iter();
        for (nth, (view, registration)) in found.iter().enumerate() {
            let Some(region) = views.get(*view).map(|view| view.region()) else { continue };
            if nth > 0 {
                agents.push(b',');
            }
            // The own region's keeper knows at once who is overdue; the others tell by their feeds.
            let mark = if is_own(*view) { marks.next().copied() } else { None };
            let overdue = mark.unwrap_or(registration.owned.overdue);
            json::write(&mut agents, &json::agent(region, registration, self.query.internal, overdue))?;
        }
        agents.extend_from_slice(b"],\"regions\":");
        let last = found.last().filter(|_| has_more);
        let place = last.and_then(|(view, last)| Some(Place::of(views.get(*view)?.region(), last)));
        let mut next = b",\"next_page_token\":".to_vec();
        json::write(&mut next, &place.as_ref().map(Place::token))?;
        next.push(b'}');
        let page = Page {
            written_from: found.iter().map(|(_, registration)| Arc::downgrade(registration)).collect(),
            has_more,
            overdue,
            agents: agents.into(),
            next: next.into(),
        };
        Ok(Kept { asked: Arc::clone(&self), page: Arc::new(page), calm })
    }
}

impl Page {
    /// Whether just its registrations are what a question asks for now.
    fn is_of(&self, asked: &Asked, views: &[Arc<View>]) -> Result<bool, Refusal> {
        let mut walk = reading::walk(views, &asked.query, asked.place.as_ref())?;
        let is_met =
            |one: &Weak<_>| walk.next().is_some_and(|(_, met)| std::ptr::eq(one.as_ptr(), Arc::as_ptr(met)));
        Ok(self.written_from.iter().all(is_met) && walk.next().is_some() == self.has_more)
    }

    /// The answer, with the regions as they stand now.
    fn answer(&self, views: &[Arc<View>], from: Source<'_>, now: Instant) -> Result<Vec<u8>, Refusal> {
        let room = self.agents.len() + self.next.len() + REGION_BYTES * views.len();
        let mut body = Vec::with_capacity(room);
        body.extend_from_slice(&self.agents);
        let own = from.regions.own();
        let regions: Vec<_> = views.iter().map(|view| json::region(own, view, now)).collect();
        json::write(&mut body, &regions)?;
        body.extend_from_slice(&self.next);
        Ok(body)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use rollcall_model::testing::{
        Chance, Origin, any_declared, any_owned, ids, position, region, registered,
    };
    use rollcall_model::{Clock, Epoch, GuardLimits, Holder, Region, Revision, Snapshot, State, Timestamp};
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
                pages: Vec::new(),
            }
        }

        /// Something happens that a list may show.
        fn step(&mut self) {
            self.steps += 1;
            match self.chance.below(12) {
                0..3 => self.own_changes(),
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
            let from = Source { regions: &self.regions, keeper: &self.keeper };
            let now = Instant(*self.time.lock().unwrap());
            String::from_utf8(lists.answer(question, from, now).unwrap()).unwrap()
        }

        fn kept(&self, question: &str) -> Option<Arc<Page>> {
            self.lists.0.get(question).map(|kept| Arc::clone(&kept.page))
        }
    }

    #[test]
    fn an_answer_is_byte_for_byte_what_it_is_when_nothing_is_kept() {
        let (mut same, mut other, mut overdue) = (0, 0, 0);
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
                        let limit = if question.contains("all") { "limit=3&region=all" } else { "limit=1" };
                        let page = format!("{limit}&page_token={token}");
                        if !cell.pages.contains(&page) {
                            cell.pages.insert(0, page);
                            cell.pages.truncate(6);
                        }
                    }
                }
            }
        }
        assert!(
            same > other && other > 300 && overdue > 100,
            "{same} kept, {other} written, {overdue} overdue"
        );
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
        let (bytes, left) = (cell.lists.0.weight(), cell.lists.0.len() as u64);
        assert!(bytes <= BYTES_MAX && left < many && left > many / 10, "{bytes} bytes in {left}");
    }
}
