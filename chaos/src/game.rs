//! One run: the stage, the traffic on it, the tap, and what was done when. A scenario's steps act on it.

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rollcall_tests::eventually::eventually;
use rollcall_tests::proxy::Proxy;
use rollcall_tests::stage::{REGION, Shape, Stage};

use crate::calm::Calm;
use crate::check::planting::{self, Record};
use crate::check::{self, Rules, Verdict};
use crate::crowd::{Crowd, Size};
use crate::fleet::Fleet;
use crate::history::{self, Act, History};
use crate::mortals::MORTAL;
use crate::origin::Origin;
use crate::readers::{self, Readers};
use crate::report::Report;
use crate::scenarios::Scenario;
use crate::tap::{Event, Tap, What};
use crate::timeline::Timeline;

/// Acknowledged writes, and renewals, that a phase must have; with fewer the run was too quiet to prove anything.
const BUSY: usize = 60;
/// How long a phase may take to have them.
const BUSY_WITHIN: Duration = Duration::from_secs(45);
/// A call that was given up by its client is over in the cell and in etcd by then.
const CALLS_ARE_OVER: Duration = Duration::from_secs(7);
/// So many of the dead must be seen to go after a fault.
const BURIED: usize = 2;
/// How long the store may take to say where its history ends.
const MARKED_WITHIN: Duration = Duration::from_secs(60);

/// Which way steady owners take to the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ways {
    /// All the same.
    Direct,
    /// A third of them over proxies that can be cut.
    ThirdApart,
}

/// A run under way.
pub struct Game {
    /// The region.
    pub stage: Stage,
    /// What clients asked.
    pub history: History,
    /// The run's clock.
    pub timeline: Timeline,
    /// The run's chance: everything a scenario draws comes from here.
    pub chance: StdRng,
    /// How large the crowd is.
    pub size: Size,
    /// The traffic.
    pub crowd: Crowd,
    /// The readers.
    pub readers: Readers,
    /// What the keeper says of its guard.
    pub calm: Calm,
    /// What the checks go by.
    pub rules: Rules,
    /// Promises that a scenario looked at itself.
    pub verdicts: Vec<Verdict>,
    /// Whether a steady owner may be told that it is gone; only where a scenario cuts it off for good.
    pub losses_allowed: bool,
    /// The ways of the owners that go apart.
    pub proxies: Vec<Proxy>,
    /// Processes of registrants, which live until the run ends: that they fell silent would be a fault of its own.
    pub fleets: Vec<Fleet>,
    tap: Option<Tap>,
    lives: Vec<(u64, Vec<Event>)>,
    disagreements: Vec<String>,
    diary: Vec<(Duration, String)>,
    landed: usize,
    broken: Vec<String>,
    say: fn(&str),
}

impl Game {
    /// Begins: everything is up and traffic flows.
    pub async fn begin(shape: &Shape, size: Size, ways: Ways, seed: u64, say: fn(&str)) -> Self {
        let stage = Stage::up(shape).await;
        eventually("a keeper is in office", Duration::from_secs(30), || async {
            stage.keeper().map(|_| ()).ok_or_else(|| "nobody".to_owned())
        })
        .await;
        let mut routes = vec![stage.urls()];
        let mut proxies = Vec::new();
        if ways == Ways::ThirdApart {
            for url in stage.urls() {
                proxies.push(Proxy::to(&url).await);
            }
            routes.push(stage.urls());
            routes.push(proxies.iter().map(Proxy::url).collect());
        }
        let timeline = Timeline::begin();
        let history = History::new(timeline);
        let tap = Tap::start(stage.etcd.addresses(), timeline);
        let crowd = Crowd::start(&size, &routes, &history, timeline, seed);
        let readers = Readers::start(&stage.urls(), timeline);
        let calm = Calm::watch(&stage.urls(), timeline);
        Self {
            stage,
            history,
            timeline,
            chance: StdRng::seed_from_u64(seed),
            size,
            crowd,
            readers,
            calm,
            rules: Rules::default(),
            verdicts: Vec::new(),
            losses_allowed: false,
            proxies,
            fleets: Vec::new(),
            tap: Some(tap),
            lives: vec![(0, Vec::new())],
            disagreements: Vec::new(),
            diary: Vec::new(),
            landed: 0,
            broken: Vec::new(),
            say,
        }
    }

    /// Writes down what was seen or done.
    pub fn note(&mut self, what: impl Into<String>) {
        let what = what.into();
        (self.say)(&format!("{:6.1} s  {what}", self.timeline.now().as_secs_f64()));
        self.diary.push((self.timeline.now(), what));
    }

    /// Writes down a fault that was really injected; a run without one proves nothing.
    pub fn landed(&mut self, what: impl Into<String>) {
        self.landed += 1;
        self.note(what);
    }

    /// Something that must hold here, under a promise's id or as a sentence.
    pub fn demand(&mut self, holds: bool, words: impl Into<String>) {
        if !holds {
            let words = words.into();
            self.note(format!("BROKEN {words}"));
            self.broken.push(words);
        }
    }

    /// Lets traffic flow for so long.
    pub async fn flow(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Lets traffic flow until enough was acknowledged.
    pub async fn busy(&mut self, phase: &str) {
        let writes = |history: &History| history.acknowledged(|op| !matches!(op.act, Act::Renew(_)));
        let renewals = |history: &History| history.acknowledged(|op| matches!(op.act, Act::Renew(_)));
        let before = (writes(&self.history), renewals(&self.history));
        let began = self.timeline.now();
        let mut seen = (0, 0);
        while seen.0 < BUSY || seen.1 < BUSY || !self.crowd.all_stand(self.size.steady) {
            if self.timeline.now() - began > BUSY_WITHIN {
                let standing = self.crowd.steady().values().filter(|owner| owner.epoch.is_some()).count();
                let words = format!(
                    "quiet: {phase}: {} writes and {} renewals within {BUSY_WITHIN:?}, {standing} of {} owners stand",
                    seen.0, seen.1, self.size.steady
                );
                self.demand(false, words);
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            seen = (writes(&self.history) - before.0, renewals(&self.history) - before.1);
        }
        self.note(format!("{phase}: {} writes, {} renewals acknowledged", seen.0, seen.1));
    }

    /// Waits until the dead go again: some of those that nobody renews are removed from now on, and the guard is calm.
    pub async fn buries(&mut self) {
        let since = self.timeline.now();
        let within = self.size.lease * 4 + Duration::from_secs(20);
        let mut seen = (0, false);
        while seen.0 < BURIED || !seen.1 {
            if self.timeline.now() - since > within {
                let words = format!(
                    "I06: within {within:?} {} of the dead went, and the guard was calm: {}",
                    seen.0, seen.1
                );
                self.demand(false, words);
                return;
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
            let gone =
                |event: &Event| event.at > since && event.what == What::Removed && event.key.contains(MORTAL);
            seen.0 = self.tap.as_ref().map_or(0, |tap| tap.count(gone));
            seen.1 = self.calm.last().is_some_and(|sight| sight.calm == Some(true));
        }
        let took = (self.timeline.now() - since).as_secs_f64();
        self.note(format!("{} of the dead went within {took:.1} s, and the guard is calm", seen.0));
    }

    /// Waits until the tap has seen something of this kind; whether it did in time.
    pub async fn sees(&self, within: Duration, what: impl Fn(&Event) -> bool) -> bool {
        let since = self.timeline.now();
        while self.tap.as_ref().is_none_or(|tap| tap.count(&what) == 0) {
            if self.timeline.now() - since > within {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        true
    }

    /// Everything up to this revision was tapped at every member.
    #[must_use]
    pub fn tapped_everywhere(&self) -> u64 {
        self.tap.as_ref().map_or(0, Tap::everywhere)
    }

    /// Waits until a write is acknowledged that was sent from now on; how long that took.
    pub async fn writes_again(&mut self, within: Duration) -> Duration {
        let since = self.timeline.now();
        let came = |history: &History| {
            history.acknowledged(|op| op.invoked >= since && !matches!(op.act, Act::Renew(_))) > 0
        };
        while !came(&self.history) && self.timeline.now() - since < within {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let took = self.timeline.now() - since;
        self.demand(took < within, format!("healing: no write was acknowledged within {within:?}"));
        took
    }

    /// The same for the renewal of a steady owner.
    pub async fn renews_again(&mut self, within: Duration) -> Duration {
        let since = self.timeline.now();
        let came = |history: &History| {
            history.acknowledged(|op| {
                op.invoked >= since && matches!(op.act, Act::Renew(_)) && op.id.starts_with("chaos/steady/")
            }) > 0
        };
        while !came(&self.history) && self.timeline.now() - since < within {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let took = self.timeline.now() - since;
        self.demand(took < within, format!("healing: no renewal was acknowledged within {within:?}"));
        took
    }

    /// The store's history ends here, and another one goes on from a backup at this revision.
    pub fn new_life(&mut self, backup: u64, restart: impl FnOnce(&mut Stage)) {
        if let Some(tap) = self.tap.take() {
            let (events, disagreements) = tap.cut();
            self.disagreements.extend(disagreements);
            self.lives.last_mut().expect("one life at least").1 = events;
        }
        restart(&mut self.stage);
        self.lives.push((backup, Vec::new()));
        self.tap = Some(Tap::start(self.stage.etcd.addresses(), self.timeline));
    }

    /// Everything up to this revision was tapped.
    #[must_use]
    pub fn tapped(&self) -> u64 {
        self.tap.as_ref().map_or(0, Tap::reached)
    }

    /// Ends the traffic and judges.
    pub async fn end(mut self, scenario: &Scenario, seed: u64) -> Report {
        let until = self.timeline.now();
        let steady = self.crowd.stop().await;
        tokio::time::sleep(CALLS_ARE_OVER).await;
        let looks = self.readers.stop().await;
        let tapped = match self.tap.take().map(|tap| tap.finish(MARKED_WITHIN)) {
            Some(finish) => finish.await,
            None => Ok(Default::default()),
        };
        match tapped {
            Ok((events, disagreements)) => {
                self.lives.last_mut().expect("one life at least").1 = events;
                self.disagreements.extend(disagreements);
            }
            Err(why) => self.broken.push(format!("tap: {why}")),
        }
        let prefix = format!("rollcall/v1/{REGION}/");
        let origin = Origin::walk(&prefix, &self.lives);
        let ops = self.history.ops();
        let mut verdicts = check::all(&origin, &ops, &self.rules);
        let calm = self.calm.sights();
        verdicts.push(check::the_dead_go(&origin, &ops, &calm, until, &self.rules));
        verdicts.push(readers::true_states(&origin, &looks));
        verdicts.push(Verdict {
            ids: "tap",
            checked: origin.revisions,
            broken: self.disagreements,
            ..Verdict::default()
        });
        let mut stays = Verdict { ids: "steady", ..Verdict::default() };
        for (id, owner) in &steady {
            stays.judge(self.losses_allowed || owner.losses.is_empty(), || {
                format!("steady: {id} renewed all the time and was told that it is gone: {:?}", owner.losses)
            });
        }
        verdicts.push(stays);
        verdicts.append(&mut self.verdicts);
        if self.landed == 0 {
            self.broken.push("quiet: no fault landed".to_owned());
        }
        let record = Record {
            prefix,
            lives: std::mem::take(&mut self.lives),
            ops: ops.clone(),
            looks: looks.clone(),
            calm,
            until,
            rules: self.rules,
        };
        verdicts.push(planting::seen_to_fail(&record, &origin));
        let mut report =
            Report::new(scenario, seed, self.diary, &ops, &looks, &origin, verdicts, self.broken);
        if !report.holds() {
            let kept = self.stage.keep();
            let _ = std::fs::write(kept.join("history.jsonl"), history::lines(&ops));
            let events: String = record
                .lives
                .iter()
                .flat_map(|(_, events)| events)
                .map(|event| format!("{event:?}\n"))
                .collect();
            let _ = std::fs::write(kept.join("tap.txt"), events);
            report.kept = Some(kept);
        }
        report
    }
}
