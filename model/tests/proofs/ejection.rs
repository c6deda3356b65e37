//! Ejection, each rule as a scenario. Random runs stand in `ejection_runs`.

use std::sync::Arc;
use std::time::Duration;

use rollcall_model::ejection::Reported;
use rollcall_model::resolve::Trust;
use rollcall_model::testing::{position, registration};
use rollcall_model::{
    Called, EjectionLimits, Ejections, Instant, Region, Registration, Snapshot, State, Timestamp, View,
};

use Called::{Failed, Succeeded, TimedOut};

/// No jitter: in the middle of ±20 %.
const CHANCE: f64 = 0.5;

fn region(name: &str) -> Region {
    Region::parse(name).unwrap()
}

fn at(seconds: u64) -> Instant {
    Instant(Duration::from_secs(seconds))
}

fn view(name: &str, registrations: impl IntoIterator<Item = Registration>) -> View {
    let mut state = State::default();
    for registration in registrations {
        state.put(Arc::new(registration));
    }
    let mut view = View::new(region(name));
    view.install(Snapshot::of(region(name), position(1, 9), state), None, "started", Timestamp(0));
    view
}

/// So many instances of one agent, in one region.
fn fleet(many: usize) -> Vec<Registration> {
    (1..=many).map(|n| registration(&format!("ops/mail/{n}"), 1, 1)).collect()
}

/// A caller of one region's instances.
struct Caller {
    ejections: Ejections,
    views: Vec<View>,
}

impl Caller {
    fn of(registrations: &[Registration]) -> Self {
        let views = vec![view("us", registrations.iter().cloned())];
        Self { ejections: Ejections::new(EjectionLimits::default()), views }
    }

    fn report_in(&mut self, name: &str, one: &Registration, called: Called, now: Instant) -> Reported {
        self.ejections.report(&self.views, &region(name), one, called, now, CHANCE)
    }

    fn report(&mut self, one: &Registration, called: Called, now: Instant) -> Reported {
        self.report_in("us", one, called, now)
    }

    /// Fails until it is ejected or spared.
    fn fail(&mut self, one: &Registration, now: Instant) -> Reported {
        (0..3).map(|_| self.report(one, Failed, now)).last().unwrap()
    }

    fn trust(&self, one: &Registration, now: Instant) -> Trust {
        self.ejections.trust(&region("us"), one, now)
    }

    fn probe(&mut self, one: &Registration, now: Instant) -> bool {
        self.ejections.take_probe(&region("us"), one, now)
    }

    /// How many of the fleet are avoided.
    fn avoided(&self) -> usize {
        self.ejections.ejected().len()
    }
}

#[test]
fn bad_calls_in_a_row_eject_and_a_good_one_between_them_does_not() {
    let fleet = fleet(2);
    let mut caller = Caller::of(&fleet);
    for called in [Failed, Failed, Succeeded, Failed, TimedOut, Succeeded, TimedOut] {
        assert_eq!(caller.report(&fleet[0], called, at(0)), Reported::Nothing);
    }
    assert_eq!(caller.trust(&fleet[0], at(0)), Trust::Usable);
    // Two timeouts in a row are enough.
    assert_eq!(caller.report(&fleet[0], TimedOut, at(0)), Reported::Ejected(Duration::from_secs(5)));
    assert_eq!(caller.trust(&fleet[0], at(4)), Trust::Ejected);
    assert_eq!(caller.trust(&fleet[1], at(4)), Trust::Usable);
}

#[test]
fn one_probe_at_a_time_and_a_good_one_readmits() {
    let fleet = fleet(2);
    let mut caller = Caller::of(&fleet);
    caller.fail(&fleet[0], at(0));
    assert!(!caller.probe(&fleet[0], at(4)));
    assert_eq!(caller.trust(&fleet[0], at(5)), Trust::Probe);
    assert!(caller.probe(&fleet[0], at(5)));
    assert_eq!(caller.trust(&fleet[0], at(5)), Trust::Ejected);
    assert!(!caller.probe(&fleet[0], at(7)));
    // Nobody heard of it: another call may try.
    assert!(caller.probe(&fleet[0], at(8)));
    assert_eq!(caller.report(&fleet[0], Succeeded, at(8)), Reported::Readmitted);
    assert_eq!((caller.trust(&fleet[0], at(8)), caller.avoided()), (Trust::Usable, 0));
}

#[test]
fn each_bad_probe_doubles_the_wait_up_to_the_bound_until_the_past_is_forgiven() {
    let fleet = fleet(2);
    let mut caller = Caller::of(&fleet);
    caller.fail(&fleet[0], at(0));
    let mut now = 5;
    let mut waits = Vec::new();
    for _ in 0..4 {
        assert!(caller.probe(&fleet[0], at(now)));
        let Reported::Ejected(wait) = caller.report(&fleet[0], Failed, at(now)) else {
            panic!("not ejected")
        };
        waits.push(wait.as_secs());
        now += wait.as_secs();
    }
    assert_eq!(waits, [10, 20, 30, 30]);
    // Back for a moment only: the next time is long at once.
    assert!(caller.probe(&fleet[0], at(now)));
    caller.report(&fleet[0], Succeeded, at(now));
    assert_eq!(caller.fail(&fleet[0], at(now)), Reported::Ejected(Duration::from_secs(30)));
    // Well for two minutes: as if nothing had been.
    assert!(caller.probe(&fleet[0], at(now + 30)));
    caller.report(&fleet[0], Succeeded, at(now + 30));
    caller.report(&fleet[0], Succeeded, at(now + 120));
    assert_eq!(caller.fail(&fleet[0], at(now + 121)), Reported::Ejected(Duration::from_secs(5)));
}

#[test]
fn calls_that_were_under_way_when_it_was_ejected_make_it_no_worse() {
    let fleet = fleet(2);
    let mut caller = Caller::of(&fleet);
    caller.fail(&fleet[0], at(0));
    for _ in 0..20 {
        assert_eq!(caller.report(&fleet[0], TimedOut, at(2)), Reported::Nothing);
    }
    assert_eq!(caller.trust(&fleet[0], at(5)), Trust::Probe);
}

#[test]
fn i28_a_new_epoch_starts_clean_and_late_words_about_the_old_one_do_not_touch_it() {
    let fleet = fleet(4);
    let mut caller = Caller::of(&fleet);
    caller.fail(&fleet[0], at(0));
    let anew = registration("ops/mail/1", 2, 2);
    assert_eq!(caller.trust(&anew, at(1)), Trust::Usable);
    // One bad call of the new one is the first of its row, and the old one's count for nothing.
    assert_eq!(caller.report(&anew, Failed, at(1)), Reported::Nothing);
    assert_eq!(caller.fail(&fleet[0], at(1)), Reported::Nothing);
    assert_eq!(caller.trust(&anew, at(1)), Trust::Usable);
    // The view shows the new one: what was known of the old one is forgotten.
    caller.fail(&fleet[1], at(1));
    let mut now = fleet.clone();
    now[1] = registration("ops/mail/2", 3, 3);
    caller.views = vec![view("us", now)];
    assert!(caller.ejections.tend(&caller.views, at(1)));
    assert_eq!(caller.avoided(), 0);
    assert!(!caller.ejections.tend(&caller.views, at(1)));
}

#[test]
fn i28_never_more_than_the_share_also_of_small_agents() {
    for (many, most) in [(1, 0), (2, 1), (3, 1), (10, 5)] {
        let fleet = fleet(many);
        let mut caller = Caller::of(&fleet);
        let reported: Vec<_> = fleet.iter().map(|one| caller.fail(one, at(0))).collect();
        let ejected = reported.iter().filter(|reported| matches!(reported, Reported::Ejected(_))).count();
        assert_eq!((ejected, caller.avoided()), (most, most), "of {many}");
        assert!(reported[most..].iter().all(|reported| *reported == Reported::Spared), "{reported:?}");
    }
}

#[test]
fn i28_whom_the_share_spares_is_as_well_as_others_a_while_after_its_last_bad_call() {
    let fleet = fleet(3);
    let mut caller = Caller::of(&fleet);
    caller.fail(&fleet[0], at(0));
    assert_eq!(caller.fail(&fleet[1], at(0)), Reported::Spared);
    assert_eq!(caller.trust(&fleet[1], at(4)), Trust::Spared);
    assert_eq!(caller.trust(&fleet[1], at(5)), Trust::Usable, "a call finds out");
    assert_eq!(caller.report(&fleet[1], Failed, at(5)), Reported::Spared);
    assert_eq!(caller.trust(&fleet[1], at(9)), Trust::Spared);
    caller.report(&fleet[1], Succeeded, at(9));
    assert_eq!(caller.trust(&fleet[1], at(9)), Trust::Usable);
}

#[test]
fn i28_instances_of_other_agents_do_not_count() {
    // Their ids stand before and between those of the agent itself.
    let others = ["ops/mail-in/1", "ops/mail-in/2", "ops/mail.x/1", "ops/mail0/1", "ops/mai/1"];
    let others = others.map(|id| registration(id, 1, 1));
    let mail = fleet(2);
    let mut caller = Caller::of(&[mail.clone(), others.to_vec()].concat());
    for other in &others[..2] {
        caller.fail(other, at(0));
    }
    assert!(matches!(caller.fail(&mail[0], at(0)), Reported::Ejected(_)));
    assert_eq!(caller.fail(&mail[1], at(0)), Reported::Spared);
}

#[test]
fn i28_the_share_is_of_all_regions_so_that_the_own_one_can_be_avoided_whole() {
    let (us, eu) = (fleet(2), fleet(2));
    let mut caller = Caller::of(&us);
    caller.views.push(view("eu", eu.clone()));
    assert!(us.iter().all(|one| matches!(caller.fail(one, at(0)), Reported::Ejected(_))));
    // The same ids in another region are other instances.
    let trust = caller.ejections.trust(&region("eu"), &eu[0], at(0));
    assert_eq!(trust, Trust::Usable);
    let last = (0..3).map(|_| caller.report_in("eu", &eu[0], Failed, at(0))).last();
    assert_eq!(last, Some(Reported::Spared));
}

#[test]
fn i28_when_an_agent_shrinks_whoever_is_over_the_share_is_taken_back() {
    let fleet = fleet(4);
    let mut caller = Caller::of(&fleet);
    caller.fail(&fleet[0], at(0));
    caller.fail(&fleet[1], at(1));
    caller.views = vec![view("us", fleet[..2].iter().cloned())];
    assert!(caller.ejections.tend(&caller.views, at(1)));
    let left: Vec<_> = caller.ejections.ejected().into_iter().map(|one| one.id.to_string()).collect();
    assert_eq!(left, ["ops/mail/2"], "the one that is due last stays out");
    // A view that is lost says nothing of who is in it.
    caller.views = vec![View::new(region("us"))];
    caller.ejections.tend(&caller.views, at(1));
    assert_eq!(caller.ejections.ejected().len(), 0, "of nobody, nobody may be ejected");
}

#[test]
fn i28_whom_nobody_asks_for_is_no_longer_avoided_half_a_minute_after_it_was_due() {
    let fleet = fleet(2);
    let mut caller = Caller::of(&fleet);
    caller.fail(&fleet[0], at(0));
    assert!(!caller.ejections.tend(&caller.views, at(34)));
    assert!(caller.ejections.tend(&caller.views, at(35)));
    assert!(matches!(caller.fail(&fleet[1], at(35)), Reported::Ejected(_)));
}

#[test]
fn what_is_remembered_is_bounded() {
    let limits = EjectionLimits { remembered_max: 2, ..EjectionLimits::default() };
    let fleet = fleet(10);
    let mut caller = Caller { ejections: Ejections::new(limits), ..Caller::of(&fleet) };
    for one in &fleet[..2] {
        assert_eq!(caller.report(one, Failed, at(0)), Reported::Nothing);
    }
    assert_eq!(caller.report(&fleet[2], Failed, at(0)), Reported::Spared);
    // One that does well again makes room.
    caller.report(&fleet[0], Succeeded, at(0));
    assert_eq!(caller.report(&fleet[2], Failed, at(0)), Reported::Nothing);
}

#[test]
fn good_calls_of_those_of_whom_nothing_bad_is_known_are_no_news() {
    let fleet = fleet(2);
    let mut caller = Caller::of(&fleet);
    let news = |caller: &Caller, called| caller.ejections.is_news(&region("us"), &fleet[0], called, at(0));
    assert!(!news(&caller, Succeeded) && news(&caller, Failed));
    caller.report(&fleet[0], Failed, at(0));
    assert!(news(&caller, Succeeded));
}
