//! Zones as one caller sees them: a zone that is cut off is avoided as a whole, before each of its instances has failed.
//!
//! Evidence is calls of several different instances of one zone that failed in a row, none of the zone having succeeded
//! between them, while another zone does answer. Of one agent it speaks of that agent in that zone, and only when the
//! same agent answers elsewhere: one that is bad everywhere says nothing of zones, and one that is bad in a zone says
//! nothing of the others there; it takes one failure more. Of two agents and more it speaks of the whole zone. Instances that fail one by one in the
//! zones that answer are chance at work, and each of them asks for one failure more.
//!
//! Promises (I28): whoever has no zone is judged alone; a zone is tried by one call at a time, with the waits of a single
//! instance, and its first success takes all of it back. Never here: a last zone, because the others have to answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::breaker::Breaker;
use super::{Called, EjectedZone, EjectionLimits};
use crate::name::{InstanceId, Region, Zone};
use crate::registration::Registration;
use crate::resolve::Trust;
use crate::time::Instant;

/// A failure domain: zones of different regions may have the same name.
pub(super) type Place = (Region, Zone);

/// Agents and zones of which something bad is remembered; those that come on top are judged alone. A caller of a hundred
/// agents in three zones that all fail has three hundred.
const GROUPS_MAX: usize = 1_000;
/// Instances of one run; more say no more.
const RUN_MAX: usize = 64;

#[derive(Clone, Debug, Default)]
pub(super) struct Zones {
    /// Few, and written only with news: a copy of all of it is no matter then.
    places: Arc<BTreeMap<Region, BTreeMap<Zone, Groups>>>,
    /// In all places.
    count: usize,
}

/// What is thought of one zone, and of single agents in it.
#[derive(Clone, Debug, Default)]
struct Groups {
    whole: Group,
    agents: BTreeMap<Arc<str>, Group>,
}

#[derive(Clone, Debug, Default)]
struct Group {
    breaker: Breaker,
    /// Instances whose calls failed since one last succeeded, each once.
    failed: Vec<InstanceId>,
    /// Where else a call succeeded since the first of these failed.
    answered: Vec<Place>,
    /// When the last of these failed.
    last: Instant,
}

/// What a report is judged by; `chance` is in [0, 1).
#[derive(Clone, Copy)]
pub(super) struct By<'a> {
    pub(super) now: Instant,
    pub(super) chance: f64,
    pub(super) limits: &'a EjectionLimits,
}

/// What a report led to.
pub(super) enum Judged {
    /// The instance is to be judged alone.
    Alone,
    /// It was under way when its zone was ejected, and says nothing new.
    Late,
    /// A zone is avoided from now on; what is known of these instances is explained by it.
    Ejected(EjectedZone, Vec<InstanceId>),
    /// A zone is called again.
    Readmitted(Zone),
}

impl Group {
    fn is_blank(&self, now: Instant, limits: &EjectionLimits) -> bool {
        self.failed.is_empty() && self.breaker.is_blank(now, limits)
    }

    /// Another of its instances failed.
    fn add(&mut self, id: &InstanceId, now: Instant) {
        self.last = now;
        if self.failed.len() < RUN_MAX && !self.failed.contains(id) {
            self.failed.push(id.clone());
        }
    }

    fn forget_run(&mut self) {
        self.failed.clear();
        self.answered.clear();
    }

    /// Whether a success there would be something new.
    fn waits_for(&self, region: &Region, zone: &Zone) -> bool {
        !self.failed.is_empty() && !self.answered.iter().any(|(r, z)| r == region && z == zone)
    }

    fn is_of_several_agents(&self) -> bool {
        self.failed.iter().any(|id| id.agent() != self.failed[0].agent())
    }

    /// Whether what failed is more than chance explains.
    fn is_evidence(&self, limits: &EjectionLimits, noise: impl Fn() -> usize) -> bool {
        self.failed.len() >= limits.zone_instances
            && !self.answered.is_empty()
            && self.failed.len() >= limits.zone_instances.saturating_add(noise())
    }
}

impl Groups {
    fn count(&self) -> usize {
        1 + self.agents.len()
    }

    fn trust(&self, agent: &str, now: Instant) -> Trust {
        let of_agent = self.agents.get(agent).map_or(Trust::Usable, |group| group.breaker.trust(now));
        self.whole.breaker.trust(now).max(of_agent)
    }

    /// The whole, and this agent.
    fn of(&mut self, agent: &str) -> impl Iterator<Item = &mut Group> {
        std::iter::once(&mut self.whole).chain(self.agents.get_mut(agent))
    }
}

impl Zones {
    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn trust(&self, region: &Region, registration: &Registration, now: Instant) -> Trust {
        self.groups(region, registration)
            .map_or(Trust::Usable, |groups| groups.trust(registration.declared.id.agent(), now))
    }

    /// Gives away the one probe of whatever is due.
    pub(super) fn probe(
        &mut self,
        region: &Region,
        registration: &Registration,
        now: Instant,
        limits: &EjectionLimits,
    ) {
        let Some(groups) = self.groups_mut(region, registration) else { return };
        for group in groups.of(registration.declared.id.agent()) {
            if group.breaker.trust(now) == Trust::Probe {
                group.breaker.probe(now, limits.probe_wait);
            }
        }
    }

    /// Whether a success there would change anything. A failure always does.
    pub(super) fn is_news(&self, region: &Region, registration: &Registration) -> bool {
        let Some(zone) = registration.declared.zone.as_ref().filter(|_| !self.is_empty()) else {
            return false;
        };
        let agent = registration.declared.id.agent();
        let is_bad = |group: &Group| group.breaker.is_ejected() || !group.failed.is_empty();
        if let Some(groups) = self.groups(region, registration)
            && (is_bad(&groups.whole) || groups.agents.get(agent).is_some_and(is_bad))
        {
            return true;
        }
        self.places.values().flat_map(BTreeMap::values).any(|groups| {
            groups.whole.waits_for(region, zone)
                || groups.agents.get(agent).is_some_and(|group| group.waits_for(region, zone))
        })
    }

    /// Learns what became of a call. `noise` counts the instances outside of these places that failed last.
    pub(super) fn report(
        &mut self,
        region: &Region,
        registration: &Registration,
        called: Called,
        by: By<'_>,
        noise: impl Fn(&[Place]) -> usize,
    ) -> Judged {
        let has_zones = by.limits.zone_instances > 0;
        let Some(zone) = registration.declared.zone.as_ref().filter(|_| has_zones) else {
            return Judged::Alone;
        };
        let place = (region.clone(), zone.clone());
        let id = &registration.declared.id;
        match called {
            Called::Succeeded => {
                let readmitted = self.succeeded(&place, id.agent(), by);
                let elsewhere = self.answered(&place, id.agent(), by.limits);
                match (readmitted, elsewhere) {
                    (true, _) => Judged::Readmitted(place.1),
                    (false, Some((place, agent))) => {
                        self.judge(&place, &agent, by, noise).unwrap_or(Judged::Alone)
                    }
                    (false, None) => Judged::Alone,
                }
            }
            Called::Failed | Called::TimedOut => {
                let Some(judged) = self.failed(&place, id, called, by) else {
                    return self.judge(&place, id.agent(), by, noise).unwrap_or(Judged::Alone);
                };
                judged
            }
        }
    }

    /// A call failed there; what it led to, if the zone was avoided already.
    fn failed(
        &mut self,
        place: &Place,
        id: &InstanceId,
        called: Called,
        By { now, chance, limits }: By<'_>,
    ) -> Option<Judged> {
        if let Some(groups) = self.at_mut(place) {
            let mut judged = None;
            let mut ejected = None;
            for (is_whole, group) in [true, false].into_iter().zip(groups.of(id.agent())) {
                if !group.breaker.is_ejected() {
                    continue;
                }
                judged = Some(Judged::Late);
                if group.breaker.is_news(called, now, limits) {
                    let until = now.plus(group.breaker.open(now, chance, limits));
                    ejected = Some((until, (!is_whole).then(|| Arc::from(id.agent()))));
                }
            }
            if let Some((until, agent)) = ejected {
                let (region, zone) = place.clone();
                return Some(Judged::Ejected(EjectedZone { region, zone, agent, until }, Vec::new()));
            }
            if judged.is_some() {
                return judged;
            }
        }
        let is_new = |zones: &Self| match zones.at(place) {
            Some(groups) => !groups.agents.contains_key(id.agent()),
            None => true,
        };
        if is_new(self) {
            if self.count >= GROUPS_MAX {
                return Some(Judged::Alone);
            }
            self.count += if self.at(place).is_none() { 2 } else { 1 };
        }
        let groups = self.all_mut().entry(place.0.clone()).or_default().entry(place.1.clone()).or_default();
        groups.agents.entry(Arc::from(id.agent())).or_default();
        groups.of(id.agent()).for_each(|group| group.add(id, now));
        None
    }

    /// A call succeeded there; whether that took a zone back.
    fn succeeded(&mut self, place: &Place, agent: &str, by: By<'_>) -> bool {
        let Some(groups) = self.at_mut(place) else { return false };
        let mut is_readmitted = false;
        for group in groups.of(agent) {
            group.forget_run();
            if group.breaker.is_ejected() {
                group.breaker.close();
                is_readmitted = true;
            }
        }
        self.drop_blank(by.now, by.limits);
        is_readmitted
    }

    /// Notes at all who failed elsewhere that there was an answer here; gives one of those whose evidence this may
    /// complete.
    fn answered(&mut self, here: &Place, agent: &str, limits: &EjectionLimits) -> Option<(Place, String)> {
        let mut found = None;
        for (region, zones) in self.all_mut() {
            for (zone, groups) in zones {
                if (region, zone) == (&here.0, &here.1) {
                    continue;
                }
                for group in groups.of(agent) {
                    if group.waits_for(&here.0, &here.1) {
                        group.answered.push(here.clone());
                        if group.failed.len() < limits.zone_instances {
                            continue;
                        }
                        let of = group.failed.first().map_or(agent, |id| id.agent()).to_owned();
                        found = Some(((region.clone(), zone.clone()), of));
                    }
                }
            }
        }
        found
    }

    /// This place, and all others that are ejected or whose last call failed: what is bad there is no chance.
    fn suspects(&self, place: &Place) -> Vec<Place> {
        let mut suspects = vec![place.clone()];
        for (region, zones) in self.places.iter() {
            for (zone, groups) in zones {
                if groups.whole.breaker.is_ejected() || !groups.whole.failed.is_empty() {
                    suspects.push((region.clone(), zone.clone()));
                }
            }
        }
        suspects
    }

    /// Ejects the zone, or the agent in it, if there is evidence.
    fn judge(
        &mut self,
        place: &Place,
        agent: &str,
        By { now, chance, limits }: By<'_>,
        noise: impl Fn(&[Place]) -> usize,
    ) -> Option<Judged> {
        let suspects = self.suspects(place);
        let noise = || noise(&suspects);
        let groups = self.at_mut(place)?;
        let is_whole = groups.whole.is_of_several_agents() && groups.whole.is_evidence(limits, noise);
        let group = match is_whole {
            true => &mut groups.whole,
            false => {
                groups.agents.get_mut(agent).filter(|group| group.is_evidence(limits, || noise() + 1))?
            }
        };
        let until = now.plus(group.breaker.open(now, chance, limits));
        let explained = std::mem::take(&mut group.failed);
        group.forget_run();
        if is_whole {
            let agents = std::mem::take(&mut groups.agents).len();
            self.count -= agents;
        }
        let agent = (!is_whole).then(|| Arc::from(agent));
        let (region, zone) = place.clone();
        Some(Judged::Ejected(EjectedZone { region, zone, agent, until }, explained))
    }

    /// Forgets runs that are long over, and takes back what nobody tried for long after it was due. Whether anything
    /// changed.
    pub(super) fn tend(&mut self, now: Instant, limits: &EjectionLimits) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut is_changed = false;
        for groups in self.all_mut().values_mut().flat_map(BTreeMap::values_mut) {
            for group in std::iter::once(&mut groups.whole).chain(groups.agents.values_mut()) {
                if !group.failed.is_empty() && now.since(group.last) >= limits.most.saturating_mul(4) {
                    group.forget_run();
                    is_changed = true;
                }
                if group.breaker.until().is_some_and(|until| now.since(until) >= limits.most) {
                    group.breaker.close();
                    is_changed = true;
                }
            }
        }
        self.drop_blank(now, limits) || is_changed
    }

    pub(super) fn ejected(&self) -> Vec<EjectedZone> {
        let mut ejected = Vec::new();
        for (region, zones) in self.places.iter() {
            for (zone, groups) in zones {
                let agents = groups.agents.iter().map(|(agent, group)| (Some(agent), group));
                for (agent, group) in std::iter::once((None, &groups.whole)).chain(agents) {
                    if let Some(until) = group.breaker.until() {
                        let (region, zone, agent) = (region.clone(), zone.clone(), agent.cloned());
                        ejected.push(EjectedZone { region, zone, agent, until });
                    }
                }
            }
        }
        ejected
    }

    /// Drops what there is nothing to remember of; whether there was any.
    fn drop_blank(&mut self, now: Instant, limits: &EjectionLimits) -> bool {
        let before = self.count;
        let places = self.all_mut();
        for zones in places.values_mut() {
            for groups in zones.values_mut() {
                groups.agents.retain(|_, group| !group.is_blank(now, limits));
            }
            zones.retain(|_, groups| !groups.agents.is_empty() || !groups.whole.is_blank(now, limits));
        }
        places.retain(|_, zones| !zones.is_empty());
        self.count = places.values().flat_map(BTreeMap::values).map(Groups::count).sum();
        self.count != before
    }

    fn all_mut(&mut self) -> &mut BTreeMap<Region, BTreeMap<Zone, Groups>> {
        Arc::make_mut(&mut self.places)
    }

    fn groups(&self, region: &Region, registration: &Registration) -> Option<&Groups> {
        self.places.get(region)?.get(registration.declared.zone.as_ref()?)
    }

    fn groups_mut(&mut self, region: &Region, registration: &Registration) -> Option<&mut Groups> {
        self.all_mut().get_mut(region)?.get_mut(registration.declared.zone.as_ref()?)
    }

    fn at(&self, place: &Place) -> Option<&Groups> {
        self.places.get(&place.0)?.get(&place.1)
    }

    fn at_mut(&mut self, place: &Place) -> Option<&mut Groups> {
        self.all_mut().get_mut(&place.0)?.get_mut(&place.1)
    }
}
