//! Resolving: a query over the views of several regions, own region first. Pure; time is an argument.
//!
//! Promises: another region is asked only when those before it have no candidate; an answer of nothing says whether it
//! can be trusted. Never here: the choice among candidates, which is a route's.

use std::sync::Arc;
use std::time::Duration;

use rollcall_model::{Instant, Lifecycle, Query, Region, Registration, State, View};

/// What a query found.
#[derive(Clone, Debug)]
pub struct Resolution {
    /// Whether there are candidates, and if not, what that means.
    pub outcome: Outcome,
    /// Instances that fit, all of one region: healthy ones first, then degraded, then unknown, and after
    /// all of them those that are overdue; within these by id.
    pub candidates: Vec<Candidate>,
}

/// What the answer to a query means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There are candidates.
    Found,
    /// All regions were asked, and there is no such instance.
    None,
    /// Nothing was found, and at least one region was never loaded: it may have some.
    ViewNotLoaded,
    /// Nothing was found, and at least one region's state is over the hard limit of age.
    TooOld,
}

/// An instance that fits.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its region.
    pub region: Region,
    /// How old the statement is that it exists. Honest also when the registry has been away for hours.
    pub age: Duration,
    /// The instance.
    pub registration: Arc<Registration>,
}

/// Asks the views in their order.
pub(crate) fn resolve(views: &[View], query: &Query, now: Instant, age_max: Duration) -> Resolution {
    let (mut not_loaded, mut too_old) = (false, false);
    for view in views {
        let (Some(state), Some(age)) = (view.state(), view.age(now)) else {
            not_loaded = true;
            continue;
        };
        if age > age_max {
            too_old = true;
            continue;
        }
        let candidates = candidates(view.region(), age, state, query);
        if !candidates.is_empty() {
            return Resolution { outcome: Outcome::Found, candidates };
        }
    }
    let outcome = match (not_loaded, too_old) {
        (true, _) => Outcome::ViewNotLoaded,
        (false, true) => Outcome::TooOld,
        (false, false) => Outcome::None,
    };
    Resolution { outcome, candidates: Vec::new() }
}

fn candidates(region: &Region, age: Duration, state: &State, query: &Query) -> Vec<Candidate> {
    let mut ranked: Vec<((bool, u8), &Arc<Registration>)> = state
        .select(query, None)
        .filter(|registration| !is_full(registration))
        .filter_map(|registration| {
            rank(registration.owned.lifecycle).map(|rank| ((registration.owned.overdue, rank), registration))
        })
        .collect();
    // Stable: within a rank the order of id stays.
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked
        .into_iter()
        .map(|(_, registration)| Candidate {
            region: region.clone(),
            age,
            registration: Arc::clone(registration),
        })
        .collect()
}

/// Which lifecycles may be called at all, better ones first.
const fn rank(lifecycle: Lifecycle) -> Option<u8> {
    match lifecycle {
        Lifecycle::Healthy => Some(0),
        Lifecycle::Degraded => Some(1),
        Lifecycle::Unknown => Some(2),
        Lifecycle::Starting | Lifecycle::Draining | Lifecycle::Offline => None,
    }
}

/// Full is load, not lifecycle, as last reported.
fn is_full(registration: &Registration) -> bool {
    registration.owned.load.is_some_and(|load| rollcall_model::load::is_full(&registration.declared, load))
}

impl Outcome {
    /// The contract's word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::None => "none",
            Self::ViewNotLoaded => "view_not_loaded",
            Self::TooOld => "too_old",
        }
    }
}

#[cfg(test)]
mod tests {
    use rollcall_model::declaration::RawEndpoint;
    use rollcall_model::freshness::Heard;
    use rollcall_model::{
        Declaration, Declared, Epoch, Incarnation, Load, Owned, Position, Revision, Snapshot, Timestamp,
    };

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn registration(id: &str, lifecycle: Lifecycle) -> Registration {
        let raw = Declaration {
            id: id.into(),
            endpoints: vec![RawEndpoint { url: "http://h:1/".into(), protocol: None }],
            max_concurrency: Some(2),
            ..Declaration::default()
        };
        let declared = Declared::check(raw, String::new).unwrap();
        let owned = Owned { lifecycle, ..Owned::of(&declared) };
        Registration {
            declared,
            epoch: Epoch::new(1, Revision(1)),
            registered_at: Timestamp(0),
            revision: Revision(1),
            owned,
        }
    }

    /// A view loaded at time zero with these instances.
    fn view(region: &str, registrations: Vec<Registration>) -> View {
        let region = Region::parse(region).unwrap();
        let mut state = State::default();
        for registration in registrations {
            state.put(Arc::new(registration));
        }
        let position = Position::new(Incarnation::new(1, "a").unwrap(), Revision(9));
        let mut view = View::new(region.clone());
        let heard = Heard { at: Instant::default(), age: Duration::ZERO };
        view.install(Snapshot::of(region, position, state), Some(heard), "started", Timestamp(0));
        view
    }

    fn never_loaded(region: &str) -> View {
        View::new(Region::parse(region).unwrap())
    }

    fn asked(views: &[View], now: Duration) -> (Outcome, Vec<String>) {
        let resolution = resolve(views, &Query::default(), Instant(now), HOUR);
        let found =
            resolution.candidates.iter().map(|c| format!("{}:{}", c.region, c.registration.declared.id));
        (resolution.outcome, found.collect())
    }

    #[test]
    fn usable_ones_come_better_first_and_others_never() {
        let all =
            Lifecycle::ALL.map(|lifecycle| registration(&format!("a/b/{}", lifecycle.as_str()), lifecycle));
        let (outcome, found) = asked(&[view("us", all.into())], Duration::ZERO);
        assert_eq!(outcome, Outcome::Found);
        assert_eq!(found, ["us:a/b/healthy", "us:a/b/degraded", "us:a/b/unknown"]);
    }

    #[test]
    fn overdue_ones_come_last() {
        let mut overdue = registration("a/b/1", Lifecycle::Healthy);
        overdue.owned.overdue = true;
        let others =
            [registration("a/b/2", Lifecycle::Unknown), registration("a/b/3", Lifecycle::Healthy), overdue];
        let found = asked(&[view("us", others.into())], Duration::ZERO).1;
        assert_eq!(found, ["us:a/b/3", "us:a/b/2", "us:a/b/1"]);
    }

    #[test]
    fn full_ones_are_no_candidates() {
        let mut full = registration("a/b/full", Lifecycle::Healthy);
        full.owned.load = Some(Load { queue_depth: 0, in_flight: 2, error_rate: 0.0 });
        let mut busy = registration("a/b/busy", Lifecycle::Healthy);
        busy.owned.load = Some(Load { queue_depth: 0, in_flight: 1, error_rate: 0.0 });
        assert_eq!(asked(&[view("us", vec![full, busy])], Duration::ZERO).1, ["us:a/b/busy"]);
    }

    #[test]
    fn other_regions_are_asked_in_order_and_only_without_an_own_candidate() {
        let one = |region: &str, lifecycle| view(region, vec![registration("a/b/1", lifecycle)]);
        let (own, eu, ap) =
            (one("us", Lifecycle::Healthy), one("eu", Lifecycle::Healthy), one("ap", Lifecycle::Healthy));
        assert_eq!(asked(&[own, eu.clone(), ap.clone()], Duration::ZERO).1, ["us:a/b/1"]);
        let draining = one("us", Lifecycle::Draining);
        assert_eq!(asked(&[draining, eu, ap.clone()], Duration::ZERO).1, ["eu:a/b/1"]);
        assert_eq!(asked(&[never_loaded("us"), view("eu", vec![]), ap], Duration::ZERO).1, ["ap:a/b/1"]);
    }

    #[test]
    fn nothing_found_says_what_it_means() {
        let empty = || view("eu", Vec::new());
        assert_eq!(asked(&[empty()], Duration::ZERO).0, Outcome::None);
        assert_eq!(asked(&[empty(), never_loaded("ap")], Duration::ZERO).0, Outcome::ViewNotLoaded);
        assert_eq!(asked(&[empty()], HOUR * 2).0, Outcome::TooOld);
        assert_eq!(asked(&[empty(), never_loaded("ap")], HOUR * 2).0, Outcome::ViewNotLoaded);
    }

    #[test]
    fn i23_under_the_hard_limit_it_is_served_with_its_age_and_over_it_not_at_all() {
        let views = [view("us", vec![registration("a/b/1", Lifecycle::Healthy)])];
        let at_limit = resolve(&views, &Query::default(), Instant(HOUR), HOUR);
        assert_eq!(at_limit.candidates[0].age, HOUR);
        assert_eq!(asked(&views, HOUR + Duration::from_nanos(1)), (Outcome::TooOld, Vec::new()));
    }
}
