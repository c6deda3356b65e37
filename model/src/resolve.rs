//! Resolving: a query over the states of several regions gives candidates, the own region's first.
//!
//! Promises: another region is asked only when those before it have nobody who may be called, and never one that the
//! [`Reach`] forbids. Candidates come better ones first: healthy, degraded, unknown, and those that are overdue after
//! all others; within these by id. Starting, draining, offline and full ones are no candidates. Whom the caller has
//! ejected is left out as long as anybody is left at all. An answer of nothing says whether it can be trusted.
//!
//! Never here: the choice among candidates, which is a [route](crate::route)'s; a copy of anything, so that whoever takes the first
//! candidate pays for one.

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::Duration;

use crate::lifecycle::Lifecycle;
use crate::name::Region;
use crate::query::Query;
use crate::reach::{Failover, Reach};
use crate::registration::Registration;
use crate::state::{Selected, State};
use crate::time::Instant;
use crate::view::View;

/// What the answer to a query means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There are candidates.
    Found,
    /// All regions that may be asked were asked, and there is no such instance.
    None,
    /// Nothing was found, and at least one region was never loaded: it may have some.
    ViewNotLoaded,
    /// Nothing was found, and at least one region's state is over the hard limit of age.
    TooOld,
}

/// What a caller thinks of an instance, from its own calls; of two thoughts the later one here counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    /// Nothing speaks against it.
    Usable,
    /// As bad as those that are avoided, and enough of its agent are already: the last to be tried of its region, and none
    /// to stay there for.
    Spared,
    /// It was avoided, and this call may try it again.
    Probe,
    /// It is avoided for now.
    Ejected,
}

/// An instance that fits.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Its region.
    pub region: &'a Region,
    /// Time since its region's state was last known to be the head: how old the statement is that it exists.
    pub age: Duration,
    /// The instance.
    pub registration: &'a Arc<Registration>,
    /// It was ejected, and this answer alone has it again, to be tried.
    pub is_probe: bool,
}

/// The question, and whom it is put to.
#[derive(Debug)]
pub struct Asked<'a, V> {
    /// The regions that are known, the own one first, then in the configured order of failover.
    pub views: &'a [V],
    /// What is asked for.
    pub query: &'a Query,
    /// Where the answer may come from.
    pub reach: &'a Reach,
    /// States older than this are not asked.
    pub age_max: Duration,
}

impl<V> Clone for Asked<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<V> Copy for Asked<'_, V> {}

/// The candidates in their order, found one by one as they are taken; all are of one region.
///
/// It goes from region to region until one has candidates, and then through these.
pub struct Resolving<'a, V, T> {
    outcome: Outcome,
    first: Option<Candidate<'a>>,
    asked: Asked<'a, V>,
    now: Instant,
    trust: T,
    /// Place in the order of regions.
    at: usize,
    inside: Option<Inside<'a>>,
    /// The first one of the first region was judged before the walk began.
    is_ahead: bool,
    is_found: bool,
    has_not_loaded: bool,
    has_too_old: bool,
    has_ejected: bool,
    /// Of the region that is being asked.
    has_spared: bool,
    /// The others of the region were taken; now those are that are spared.
    takes_spared: bool,
    /// Nobody was left, so everybody is taken.
    takes_ejected: bool,
}

/// Asks the regions in turn.
///
/// `trust` is asked about each instance that fits, and only as far as candidates are taken: once, and where somebody is
/// spared once more when the others of the region were taken. When it leaves nobody in any region, everybody who fits is a
/// candidate: an agent all of whose instances look bad is tried all the same.
#[inline]
pub fn resolve<'a, V, T>(asked: Asked<'a, V>, now: Instant, trust: T) -> Resolving<'a, V, T>
where
    V: Borrow<View>,
    T: FnMut(&Region, &Registration) -> Trust,
{
    // Made in its place: the first candidate costs less than moving all this about.
    let mut resolving = Resolving::new(asked, now, trust);
    resolving.first = resolving.at_hand();
    if resolving.first.is_none() {
        resolving.first = resolving.walk();
    }
    if resolving.first.is_none() {
        resolving.outcome = resolving.nothing();
    }
    resolving
}

/// The first candidate that [`resolve`] finds. Cheaper than taking it from there, because nothing is made ready for
/// those behind it.
#[inline]
pub fn first<'a, V, T>(asked: Asked<'a, V>, now: Instant, mut trust: T) -> Option<Candidate<'a>>
where
    V: Borrow<View>,
    T: FnMut(&Region, &Registration) -> Trust,
{
    let Some(met) = asked.at_hand(now) else { return Resolving::new(asked, now, trust).walk() };
    let trusted = trust(met.region, met.registration);
    match trusted {
        Trust::Usable => Some(met),
        Trust::Probe => Some(Candidate { is_probe: true, ..met }),
        Trust::Spared | Trust::Ejected => {
            let mut resolving = Resolving::new(asked, now, trust);
            // Whoever it was is met again by the walk, should nobody else be found.
            (resolving.is_ahead, resolving.has_ejected) = (true, true);
            resolving.has_spared = trusted == Trust::Spared;
            resolving.walk()
        }
    }
}

/// Trusts everybody: for those who call nobody themselves.
#[must_use]
pub const fn everybody(_: &Region, _: &Registration) -> Trust {
    Trust::Usable
}

/// Whether an instance may be called at all: by its lifecycle, and with a free hand or a place in its queue.
#[must_use]
pub fn is_callable(registration: &Registration) -> bool {
    rank(registration).is_some()
}

impl<V, T> Resolving<'_, V, T> {
    /// Whether there are candidates, and if not, what that means.
    #[must_use]
    pub const fn outcome(&self) -> Outcome {
        self.outcome
    }
}

impl<'a, V, T> Iterator for Resolving<'a, V, T>
where
    V: Borrow<View>,
    T: FnMut(&Region, &Registration) -> Trust,
{
    type Item = Candidate<'a>;

    #[inline]
    fn next(&mut self) -> Option<Candidate<'a>> {
        match self.first.take() {
            Some(first) => Some(first),
            None => self.walk(),
        }
    }
}

/// One region, in passes: all of the best rank, then all of the next one that there is.
struct Inside<'a> {
    region: &'a Region,
    age: Duration,
    state: &'a State,
    selected: Selected<'a>,
    rank: u8,
    /// One bit for each rank that was met.
    met: u8,
}

impl Inside<'_> {
    /// Past the first one, which was healthy and has been judged.
    fn behind_the_first(mut self) -> Self {
        self.selected.next();
        self.met |= 1;
        self
    }
}

/// Lifecycles that may be called, and each of them overdue.
const RANKS: u8 = 6;

impl<'a, V: Borrow<View>> Asked<'a, V> {
    /// What nearly every call takes: the first one in the own region, healthy, found without a walk. Not judged yet.
    #[inline]
    fn at_hand(self, now: Instant) -> Option<Candidate<'a>> {
        let view = self.views.first()?.borrow();
        let registration = view.state()?.first_at_hand(self.query)?;
        let age = view.age(now)?;
        let region = view.region();
        let may_be = rank(registration) == Some(0) && age <= self.age_max && self.reach.allows(region);
        may_be.then_some(Candidate { region, age, registration, is_probe: false })
    }
}

impl<'a, V, T> Resolving<'a, V, T>
where
    V: Borrow<View>,
    T: FnMut(&Region, &Registration) -> Trust,
{
    #[inline]
    const fn new(asked: Asked<'a, V>, now: Instant, trust: T) -> Self {
        Self {
            outcome: Outcome::Found,
            first: None,
            asked,
            now,
            trust,
            at: 0,
            inside: None,
            is_ahead: false,
            is_found: false,
            has_not_loaded: false,
            has_too_old: false,
            has_ejected: false,
            has_spared: false,
            takes_spared: false,
            takes_ejected: false,
        }
    }

    #[inline]
    fn at_hand(&mut self) -> Option<Candidate<'a>> {
        let met = self.asked.at_hand(self.now)?;
        self.is_ahead = true;
        self.judged(met.region, met.age, met.registration)
    }

    /// It as a candidate, unless it is avoided.
    #[inline]
    fn judged(
        &mut self,
        region: &'a Region,
        age: Duration,
        registration: &'a Arc<Registration>,
    ) -> Option<Candidate<'a>> {
        let trust = if self.takes_ejected { Trust::Usable } else { (self.trust)(region, registration) };
        self.has_spared |= trust == Trust::Spared;
        if trust == Trust::Ejected || self.takes_spared != (trust == Trust::Spared) {
            self.has_ejected = true;
            return None;
        }
        self.is_found = true;
        Some(Candidate { region, age, registration, is_probe: trust == Trust::Probe })
    }

    fn walk(&mut self) -> Option<Candidate<'a>> {
        if std::mem::take(&mut self.is_ahead)
            && let Some(place) = self.order(0)
        {
            self.at = 1;
            self.inside = self.enter(place).map(Inside::behind_the_first);
        }
        loop {
            if let Some(candidate) = self.inside() {
                return Some(candidate);
            }
            if self.is_found {
                return None;
            }
            match self.order(self.at) {
                Some(place) => {
                    self.at += 1;
                    self.has_spared = false;
                    self.inside = self.enter(place);
                }
                None if self.has_ejected && !self.takes_ejected => {
                    self.takes_ejected = true;
                    self.at = 0;
                }
                None => return None,
            }
        }
    }

    /// The next candidate of the region that is being asked.
    fn inside(&mut self) -> Option<Candidate<'a>> {
        loop {
            while let inside = self.inside.as_mut()?
                && let Some(registration) = inside.selected.next()
            {
                let Some(rank) = rank(registration) else { continue };
                inside.met |= 1 << rank;
                if rank != inside.rank {
                    continue;
                }
                let (region, age) = (inside.region, inside.age);
                if let Some(candidate) = self.judged(region, age, registration) {
                    return Some(candidate);
                }
            }
            let inside = self.inside.as_mut()?;
            let is_met = |rank: &u8| inside.met & (1 << rank) != 0;
            inside.rank = match (inside.rank + 1..RANKS).find(is_met) {
                Some(next) => next,
                None if self.is_found && self.has_spared && !self.takes_spared => {
                    self.takes_spared = true;
                    (0..RANKS).find(is_met)?
                }
                None => return None,
            };
            inside.selected = inside.state.select(self.asked.query, None);
        }
    }

    /// The region at this place of the order; `None` behind the last one.
    fn order(&self, place: usize) -> Option<Place<'a>> {
        let views = self.asked.views;
        let known = |at: usize| views.get(at).map(|view| Place::Known(view.borrow()));
        match (&self.asked.reach.failover, place) {
            (_, 0) | (Failover::Configured, _) => known(place),
            (Failover::Never, _) => None,
            (Failover::Regions(regions), _) => {
                let region = regions.get(place - 1)?;
                let view = views.iter().map(Borrow::borrow).find(|view| view.region() == region);
                Some(view.map_or(Place::Unknown(region), Place::Known))
            }
        }
    }

    fn enter(&mut self, place: Place<'a>) -> Option<Inside<'a>> {
        let region = match place {
            Place::Known(view) => view.region(),
            Place::Unknown(region) => region,
        };
        if !self.asked.reach.allows(region) {
            return None;
        }
        let Place::Known(view) = place else {
            self.has_not_loaded = true;
            return None;
        };
        let (Some(state), Some(age)) = (view.state(), view.age(self.now)) else {
            self.has_not_loaded = true;
            return None;
        };
        if age > self.asked.age_max {
            self.has_too_old = true;
            return None;
        }
        let selected = state.select(self.asked.query, None);
        Some(Inside { region, age, state, selected, rank: 0, met: 0 })
    }

    /// What it means that there is nobody.
    const fn nothing(&self) -> Outcome {
        match (self.has_not_loaded, self.has_too_old) {
            (true, _) => Outcome::ViewNotLoaded,
            (false, true) => Outcome::TooOld,
            (false, false) => Outcome::None,
        }
    }
}

#[derive(Clone, Copy)]
enum Place<'a> {
    Known(&'a View),
    /// A region that was asked for and is not followed: as one that was never loaded.
    Unknown(&'a Region),
}

/// The order among those that may be called, better ones first; `None` for those that may not.
pub(crate) fn rank(registration: &Registration) -> Option<u8> {
    let owned = &registration.owned;
    let rank = match owned.lifecycle {
        Lifecycle::Healthy => 0,
        Lifecycle::Degraded => 1,
        Lifecycle::Unknown => 2,
        Lifecycle::Starting | Lifecycle::Draining | Lifecycle::Offline => return None,
    };
    // Full is load, not lifecycle, as last reported.
    if owned.load.get().is_some_and(|load| crate::load::is_full(&registration.declared, load)) {
        return None;
    }
    Some(if owned.overdue { rank + RANKS / 2 } else { rank })
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
