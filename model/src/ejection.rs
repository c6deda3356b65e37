//! Ejection: whom a caller avoids for a while, from what became of its own calls.
//!
//! Promises (I28): never more than a set share of one agent's instances is ejected one by one, over all regions that the
//! caller knows, so that those of the own region can be avoided and an agent never vanishes. A zone that fails as a whole
//! while another answers is ejected as a whole, whatever its share: a caller that is itself cut off avoids all zones but
//! its own. What is ejected is tried again by one call at a time, and comes back with the first that succeeds; a new
//! epoch starts clean. Whom the share spares is called after those that are well, and is no reason to stay in its region
//! while another one has somebody who is; resolving takes everybody when nobody is left
//! ([`resolve`](crate::resolve::resolve)).
//!
//! Never here: a word to anybody else. One caller's trouble with an instance may be the caller's own.

mod breaker;
mod zones;

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::Duration;

use imbl::OrdMap;

use crate::name::{InstanceId, Region, Zone};
use crate::position::Epoch;
use crate::registration::Registration;
use crate::resolve::Trust;
use crate::state::State;
use crate::time::Instant;
use crate::view::View;

use breaker::{Breaker, Wish};
use zones::{By, Judged, Place, Zones};

/// What became of a call to an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// It answered, and the answer was its own: also a refusal that the caller deserved.
    Succeeded,
    /// It could not be reached, or failed.
    Failed,
    /// It did not answer in time.
    TimedOut,
}

/// When an instance is ejected, for how long, and how many at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EjectionLimits {
    /// So many bad calls in a row. 3: one may be chance, two a restart; of an instance that fails every tenth call, one
    /// in a thousand sequences.
    pub bad_calls: u32,
    /// So many timeouts in a row. 2: each costs its caller all the time that it had.
    pub timeouts: u32,
    /// The first time for so long, ±20 %, and twice as long each time that a probe fails. 5 s: an instance that restarts
    /// is missed for little longer than it takes.
    pub first: Duration,
    /// At most for so long. 30 s: of an agent that is away for hours, its callers try each instance twice a minute; one
    /// that is back has its callers within a minute.
    pub most: Duration,
    /// How long a probe may take before another call may be one. 3 s: as long as a delivery may take.
    pub probe_wait: Duration,
    /// Of one agent's instances, at most so many in a hundred. 50: all of one zone in three, or all of one region in two
    /// that are equal; and whoever is left has at most twice the load.
    pub share_percent: u8,
    /// So many different instances of one zone whose calls failed in a row eject the zone, while another answers; 0 never
    /// does. 3: of instances that fail every tenth call one in a thousand sequences, and it is more where others fail, too.
    pub zone_instances: usize,
    /// Instances of which something bad is remembered. 10,000: a few MiB. Those that come on top are called as if they
    /// were well.
    pub remembered_max: usize,
}

impl Default for EjectionLimits {
    fn default() -> Self {
        Self {
            bad_calls: 3,
            timeouts: 2,
            first: Duration::from_secs(5),
            most: Duration::from_secs(30),
            probe_wait: Duration::from_secs(3),
            share_percent: 50,
            zone_instances: 3,
            remembered_max: 10_000,
        }
    }
}

/// What a report led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reported {
    /// Nothing that a caller would notice.
    Nothing,
    /// The instance is avoided for so long.
    Ejected(Duration),
    /// It is as bad, but enough of its agent's instances are ejected already.
    Spared,
    /// It is called again.
    Readmitted,
    /// A zone is avoided as a whole.
    ZoneEjected(EjectedZone),
    /// Its zone is called again.
    ZoneReadmitted(Zone),
}

/// A zone that is avoided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EjectedZone {
    /// Its region.
    pub region: Region,
    /// Which zone.
    pub zone: Zone,
    /// Only this agent's instances in it; all there are if none.
    pub agent: Option<Arc<str>>,
    /// Not called before.
    pub until: Instant,
}

/// An instance that is avoided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ejected {
    /// Its region.
    pub region: Region,
    /// Which instance.
    pub id: InstanceId,
    /// As it was registered then; another epoch is not ejected.
    pub epoch: Epoch,
    /// Not called before.
    pub until: Instant,
}

/// All that one caller remembers of instances that failed it. A clone shares everything and never changes.
#[derive(Clone, Debug)]
pub struct Ejections {
    limits: EjectionLimits,
    regions: OrdMap<Region, OrdMap<InstanceId, Known>>,
    /// In all regions.
    remembered: usize,
    zones: Zones,
}

/// What is remembered of one instance.
#[derive(Clone, Debug)]
struct Known {
    epoch: Epoch,
    zone: Option<Zone>,
    breaker: Breaker,
}

impl Known {
    fn new(registration: &Registration) -> Self {
        let zone = registration.declared.zone.clone();
        Self { epoch: registration.epoch, zone, breaker: Breaker::default() }
    }
}

impl Ejections {
    /// Nothing bad is known of anybody.
    #[must_use]
    pub fn new(limits: EjectionLimits) -> Self {
        Self { limits, regions: OrdMap::new(), remembered: 0, zones: Zones::default() }
    }

    /// Whether nothing bad is known of anybody.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.remembered == 0 && self.zones.is_empty()
    }

    /// What is thought of an instance now.
    #[must_use]
    pub fn trust(&self, region: &Region, registration: &Registration, now: Instant) -> Trust {
        // Nearly always nothing is remembered of anybody.
        if self.is_empty() {
            return Trust::Usable;
        }
        let own = self.known(region, registration).map_or(Trust::Usable, |known| {
            if known.breaker.is_spared(now, &self.limits) { Trust::Spared } else { known.breaker.trust(now) }
        });
        own.max(self.zones.trust(region, registration, now))
    }

    /// Takes the one probe of an instance, or of its zone, that is due for it; whether it was still there.
    pub fn take_probe(&mut self, region: &Region, registration: &Registration, now: Instant) -> bool {
        if self.trust(region, registration, now) != Trust::Probe {
            return false;
        }
        let probe_wait = self.limits.probe_wait;
        let is_due =
            self.known(region, registration).is_some_and(|known| known.breaker.trust(now) == Trust::Probe);
        if is_due && let Some(breaker) = self.breaker_mut(region, &registration.declared.id) {
            breaker.probe(now, probe_wait);
        }
        self.zones.probe(region, registration, now, &self.limits);
        true
    }

    /// Whether this report would change anything: for those who look before they take a lock.
    #[must_use]
    pub fn is_news(
        &self,
        region: &Region,
        registration: &Registration,
        called: Called,
        now: Instant,
    ) -> bool {
        let of_itself = match self.known(region, registration) {
            Some(known) => known.breaker.is_news(called, now, &self.limits),
            None => called != Called::Succeeded,
        };
        of_itself || called == Called::Succeeded && self.zones.is_news(region, registration)
    }

    /// Learns what became of a call to an instance of these regions. `chance` is in [0, 1).
    pub fn report<V: Borrow<View>>(
        &mut self,
        views: &[V],
        region: &Region,
        registration: &Registration,
        called: Called,
        now: Instant,
        chance: f64,
    ) -> Reported {
        let known = self.regions.get(region).and_then(|ids| ids.get(&registration.declared.id));
        // Of a process that is gone: late, and not about its successor.
        if known.is_some_and(|known| known.epoch > registration.epoch) {
            return Reported::Nothing;
        }
        let regions = &self.regions;
        let noise = |places: &[Place]| bad_outside(regions, places);
        let by = By { now, chance, limits: &self.limits };
        match self.zones.report(region, registration, called, by, noise) {
            Judged::Late => Reported::Nothing,
            Judged::Ejected(ejected, explained) => {
                explained.iter().for_each(|id| self.forget(&ejected.region, id));
                if called == Called::Succeeded {
                    self.report_alone(views, region, registration, called, now, chance);
                }
                Reported::ZoneEjected(ejected)
            }
            Judged::Readmitted(zone) => {
                self.report_alone(views, region, registration, called, now, chance);
                Reported::ZoneReadmitted(zone)
            }
            Judged::Alone => self.report_alone(views, region, registration, called, now, chance),
        }
    }

    /// What is left to learn of the instance itself.
    fn report_alone<V: Borrow<View>>(
        &mut self,
        views: &[V],
        region: &Region,
        registration: &Registration,
        called: Called,
        now: Instant,
        chance: f64,
    ) -> Reported {
        let id = &registration.declared.id;
        let mut known = match self.regions.get(region).and_then(|ids| ids.get(id)) {
            Some(known) if known.epoch == registration.epoch => known.clone(),
            Some(_) => Known::new(registration),
            None if called == Called::Succeeded => return Reported::Nothing,
            None if self.remembered >= self.limits.remembered_max => return Reported::Spared,
            None => Known::new(registration),
        };
        let breaker = &mut known.breaker;
        let reported = match breaker.report(called, now, &self.limits) {
            Wish::Forget => {
                self.forget(region, id);
                return Reported::Nothing;
            }
            Wish::Remember => Reported::Nothing,
            Wish::Readmit => {
                breaker.close();
                Reported::Readmitted
            }
            Wish::EjectAgain => Reported::Ejected(breaker.open(now, chance, &self.limits)),
            Wish::Eject if self.has_room(views, id.agent()) => {
                Reported::Ejected(breaker.open(now, chance, &self.limits))
            }
            Wish::Eject => Reported::Spared,
        };
        let ids = self.regions.entry(region.clone()).or_default();
        if ids.insert(id.clone(), known).is_none() {
            self.remembered += 1;
        }
        reported
    }

    /// Forgets those who are gone or were registered anew, and takes back those who are over the share of an agent that
    /// has shrunk, and those whom nobody tried for long after they were due: nobody asks for them, and they would keep
    /// others from being ejected. To be called about once a second; whether anything changed.
    pub fn tend<V: Borrow<View>>(&mut self, views: &[V], now: Instant) -> bool {
        let gone: Vec<(Region, InstanceId)> = self
            .all()
            .filter(|(region, id, known)| {
                let state = state(views, region);
                state.is_some_and(|state| {
                    state.get(id.as_str()).is_none_or(|registration| registration.epoch > known.epoch)
                })
            })
            .map(|(region, id, _)| (region.clone(), id.clone()))
            .collect();
        for (region, id) in &gone {
            self.forget(region, id);
        }
        let mut ejected = self.ejected();
        // Agent by agent, and whoever is due first is the first to be taken back.
        ejected.sort_by(|a, b| (a.id.agent(), a.until).cmp(&(b.id.agent(), b.until)));
        let mut is_changed = self.zones.tend(now, &self.limits) || !gone.is_empty();
        for agent in ejected.chunk_by(|a, b| a.id.agent() == b.id.agent()) {
            let Some(first) = agent.first() else { continue };
            let allowed = self.allowed(views, first.id.agent(), agent.len());
            let over = agent.len() - allowed;
            for (at, one) in agent.iter().enumerate() {
                let is_untried = now.since(one.until) >= self.limits.most;
                if at >= over && !is_untried {
                    continue;
                }
                if let Some(breaker) = self.breaker_mut(&one.region, &one.id) {
                    breaker.close();
                    is_changed = true;
                }
            }
        }
        is_changed
    }

    /// Every zone that is ejected as a whole, or for one agent, those due for a probe included.
    #[must_use]
    pub fn ejected_zones(&self) -> Vec<EjectedZone> {
        self.zones.ejected()
    }

    /// Everybody who is ejected alone, those due for a probe included.
    #[must_use]
    pub fn ejected(&self) -> Vec<Ejected> {
        self.all()
            .filter_map(|(region, id, known)| {
                let until = known.breaker.until()?;
                Some(Ejected { region: region.clone(), id: id.clone(), epoch: known.epoch, until })
            })
            .collect()
    }

    /// Whether one more of this agent's instances may be ejected.
    fn has_room<V: Borrow<View>>(&self, views: &[V], agent: &str) -> bool {
        let before = before_all_of(agent);
        let own = |ids: &OrdMap<InstanceId, Known>| {
            let from = (std::ops::Bound::Excluded(before.as_str()), std::ops::Bound::Unbounded);
            let range = ids.range::<_, str>(from).take_while(|(id, _)| id.agent() == agent);
            range.filter(|(_, known)| known.breaker.is_ejected()).count()
        };
        let wanted = self.regions.values().map(own).sum::<usize>() + 1;
        self.allowed(views, agent, wanted) == wanted
    }

    /// How many of an agent's instances may be ejected, at most as many as are wanted.
    fn allowed<V: Borrow<View>>(&self, views: &[V], agent: &str, wanted: usize) -> usize {
        let percent = usize::from(self.limits.share_percent.min(100));
        if percent == 0 {
            return 0;
        }
        // No more is counted than matters.
        let enough = wanted.saturating_mul(100).div_ceil(percent);
        let before = before_all_of(agent);
        let states = views.iter().filter_map(|view| view.borrow().state());
        let all = states.flat_map(|state| {
            let after = state.iter_after(Some(&before));
            after.take_while(|registration| registration.declared.id.agent() == agent)
        });
        (all.take(enough).count().saturating_mul(percent) / 100).min(wanted)
    }

    fn all(&self) -> impl Iterator<Item = (&Region, &InstanceId, &Known)> {
        self.regions.iter().flat_map(|(region, ids)| ids.iter().map(move |(id, known)| (region, id, known)))
    }

    /// What is known of this registration; what is known of another epoch of the instance says nothing about it.
    fn known(&self, region: &Region, registration: &Registration) -> Option<&Known> {
        let known = self.regions.get(region)?.get(&registration.declared.id)?;
        (known.epoch == registration.epoch).then_some(known)
    }

    fn breaker_mut(&mut self, region: &Region, id: &InstanceId) -> Option<&mut Breaker> {
        Some(&mut self.regions.get_mut(region)?.get_mut(id)?.breaker)
    }

    fn forget(&mut self, region: &Region, id: &InstanceId) {
        let Some(ids) = self.regions.get_mut(region) else { return };
        if ids.remove(id).is_some() {
            self.remembered -= 1;
        }
        if ids.is_empty() {
            self.regions.remove(region);
        }
    }
}

/// How many of those remembered in other zones than these failed last.
fn bad_outside(regions: &OrdMap<Region, OrdMap<InstanceId, Known>>, places: &[Place]) -> usize {
    let is_there = |region: &Region, known: &Known| {
        places.iter().any(|(r, z)| r == region && known.zone.as_ref() == Some(z))
    };
    let all = regions.iter().flat_map(|(region, ids)| ids.values().map(move |known| (region, known)));
    all.filter(|(region, known)| known.breaker.is_bad() && known.zone.is_some() && !is_there(region, known))
        .count()
}

/// A text just before all ids of an agent. Without the slash, the agents whose names go on with `-` or `.` stand between.
fn before_all_of(agent: &str) -> String {
    format!("{agent}/")
}

fn state<'a, V: Borrow<View>>(views: &'a [V], region: &Region) -> Option<&'a State> {
    views.iter().map(Borrow::borrow).find(|view| view.region() == region)?.state()
}
