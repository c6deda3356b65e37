//! The registrations of one region at one position, with their index and digest; immutable to readers.

mod facets;
mod index;
mod listed;
mod names;
mod tree;
mod words;

use std::cmp::Ordering;
use std::sync::Arc;

use crate::capability::CapabilityName;
use crate::change::Change;
use crate::digest::StateDigest;
use crate::hash::Hashes;
use crate::name::InstanceId;
use crate::query::Query;
use crate::registration::Registration;

use facets::{Facets, Fewest, Merged};
use index::{Asked, Index, Rarest};
use listed::{Listing, Place, Run, Stretch, against_prefix};
use tree::Growing;

/// All registrations of a region. Cloning shares everything; a clone never changes under its reader.
#[derive(Clone, Debug, Default)]
pub struct State {
    records: Listing,
    index: Index,
    /// Only where questions about everything are answered: see [`State::find_by_facets`].
    facets: Option<Box<Facets>>,
    digest: StateDigest,
}

impl State {
    /// The state of these registrations, in any order; of those of one id the last. Quickest when they come in order of
    /// id, and smaller then than one that was put together one by one.
    #[must_use]
    pub fn of(mut records: Vec<Arc<Registration>>) -> Self {
        if !records.is_sorted_by(|one, next| one.declared.id < next.declared.id) {
            // The last of one id comes first, because it is the one that stays.
            records.reverse();
            records.sort_by(|one, other| one.declared.id.cmp(&other.declared.id));
            records.dedup_by(|next, kept| next.declared.id == kept.declared.id);
        }
        let mut gathered = Gathered::default();
        records.into_iter().for_each(|one| gathered.add(one));
        gathered.finish()
    }

    /// How many registrations there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.records.len() as u64
    }

    /// Proves that two states are equal.
    #[must_use]
    pub const fn digest(&self) -> StateDigest {
        self.digest
    }

    /// One registration.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Arc<Registration>> {
        self.records.get(id)
    }

    /// All registrations in order of id.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Registration>> {
        self.records.iter()
    }

    /// Registrations after `id`, in order; from the beginning for `None`.
    pub fn iter_after<'a>(
        &'a self,
        id: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Arc<Registration>> + use<'a> {
        Run::new(self.records.whole(), id.map_or(Place::Start, Place::Behind))
    }

    /// Puts or replaces; gives back what was there.
    pub fn put(&mut self, registration: Arc<Registration>) -> Option<Arc<Registration>> {
        let before = self.records.insert(Arc::clone(&registration));
        if let Some(before) = &before {
            self.digest = self.digest.without(before.hash128());
            if let Some(facets) = &mut self.facets
                && !facets::has_same_facets(before, &registration)
            {
                facets.unlist(before);
            }
        }
        self.index.put(&registration, before.as_deref(), &self.records);
        if let Some(facets) = &mut self.facets {
            facets.list(&registration);
        }
        self.digest = self.digest.with(registration.hash128());
        before
    }

    /// Lets a registration that is to be put hold what it has in common with its agent's instances as they do. Only two
    /// of them are looked at, the first and the last: while an agent moves to a new version, these have the two.
    pub fn share(&self, registration: &mut Registration) {
        self.share_zone(registration);
        let name = Asked::Name(registration.declared.id.name());
        let Some(known) = self.index.get(name, &self.records) else { return };
        for other in known.those.ends() {
            registration.share(other);
        }
    }

    /// Holds its zone as others in that zone do, where these are indexed.
    fn share_zone(&self, registration: &mut Registration) {
        if let (Some(zone), Some(facets)) = (&mut registration.declared.zone, &self.facets)
            && let Some(known) = facets.zone(zone)
        {
            *zone = known.clone();
        }
    }

    /// Takes a registration out, from the records and the index in one step.
    pub fn take(&mut self, id: &InstanceId) -> Option<Arc<Registration>> {
        let before = self.records.remove(id.as_str())?;
        self.digest = self.digest.without(before.hash128());
        self.index.take(&before, &self.records);
        if let Some(facets) = &mut self.facets {
            facets.unlist(&before);
        }
        Some(before)
    }

    /// Carries out one change; gives back what was there.
    pub fn apply(&mut self, change: &Change) -> Option<Arc<Registration>> {
        match change {
            Change::Put(registration) => self.put(Arc::clone(registration)),
            Change::Remove(removal) => self.take(&removal.id),
        }
    }

    /// Keeps an index of zones, kinds, lifecycles, versions and metadata too, from now on. Without it a query that has
    /// none but these looks at everybody, or at everybody in its namespace.
    pub fn find_by_facets(&mut self) {
        if self.facets.is_none() {
            let mut facets = Box::<Facets>::default();
            self.iter().for_each(|registration| facets.list(registration));
            self.facets = Some(facets);
        }
    }

    /// Registrations that match, in order of id, after `after`.
    ///
    /// The rarest word or facet of the query leads; without one the id range of the namespace does. Never a scan of
    /// everything when an index fits. Nothing is allocated, but where a range of versions leads.
    #[must_use]
    pub fn select<'a>(&'a self, query: &'a Query, after: Option<&'a str>) -> Selected<'a> {
        let words = index::rarest(&self.index, query, &self.records);
        let facets = self.facets.as_ref().map_or(Fewest::NoFacet, |facets| facets.fewest(query));
        let is_led_by_facet = facets.many().is_some_and(|many| match &words {
            Rarest::Nobody | Rarest::Exactly(_) => false,
            Rarest::Of(those) => many < those.len(),
            Rarest::NoWord => true,
        });
        match (words, facets) {
            (Rarest::Nobody, _) => Selected::nobody(query),
            (_, Fewest::Of(listing)) if is_led_by_facet => Selected::of(query, listing.whole(), after),
            (_, Fewest::Versions(listings)) if is_led_by_facet => {
                let (from, rule) = beginning(query, after);
                Selected {
                    from_several: Some(Box::new(Merged::new(listings, from))),
                    rule,
                    ..Selected::nobody(query)
                }
            }
            (Rarest::Exactly(those), _) => {
                let run = Run::new(those, after.map_or(Place::Start, Place::Behind));
                Selected { run: Some(run), rule: Rule::All, ..Selected::nobody(query) }
            }
            (Rarest::Of(those), _) => Selected::of(query, those, after),
            (Rarest::NoWord, _) => Selected::of(query, self.records.whole(), after),
        }
    }

    /// The first of all who match, in order of id, if the query asks for one word alone: then it stands at hand.
    /// `None` says nothing.
    #[inline]
    pub(crate) fn first_at_hand(&self, query: &Query) -> Option<&Arc<Registration>> {
        index::at_hand(&self.index, query)
    }

    /// Whether any registration has this capability now.
    #[must_use]
    pub fn has_capability(&self, name: &str) -> bool {
        CapabilityName::parse(name)
            .is_ok_and(|name| self.index.get(Asked::Capability(&name), &self.records).is_some())
    }

    /// Rebuilds index and digest from the records and compares (promise I12).
    ///
    /// # Errors
    /// Says which of the two differs.
    pub fn prove(&self) -> Result<(), &'static str> {
        let mut fresh = Self { facets: self.facets.as_ref().map(|_| Box::default()), ..Self::default() };
        for registration in self.iter() {
            fresh.put(Arc::clone(registration));
        }
        if !fresh.index.is_same(&fresh.records, &self.index, &self.records) {
            return Err("I12: the index is not what the records say");
        }
        if let (Some(facets), Some(fresh)) = (&self.facets, &fresh.facets)
            && !fresh.is_same(facets)
        {
            return Err("I12: the index of facets is not what the records say");
        }
        if fresh.digest != self.digest {
            return Err("I18: the digest is not what the records say");
        }
        Ok(())
    }
}

/// A state on its way: what can be done with each registration is done as it comes, so that whoever reads many of them
/// has little left to do behind the last one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gathered {
    records: Growing,
    words: index::Gathered,
    digest: StateDigest,
    hashes: Hashes,
    /// From the first on that came out of order of id: they are only kept.
    strays: Vec<Arc<Registration>>,
}

impl Gathered {
    /// Takes one registration; of those of one id the last counts.
    pub(crate) fn add(&mut self, one: Arc<Registration>) {
        let is_next = |last: &Arc<Registration>| last.declared.id < one.declared.id;
        if !self.strays.is_empty() || !self.records.last().is_none_or(is_next) {
            self.strays.push(one);
            return;
        }
        self.digest = self.digest.with(self.hashes.hash128(&one));
        self.words.add(&one);
        self.records.push(one);
    }

    /// The state of all that came.
    pub(crate) fn finish(self) -> State {
        let records = Listing::of(self.records);
        if !self.strays.is_empty() {
            return State::of(records.iter().cloned().chain(self.strays).collect());
        }
        let index = self.words.finish(&records);
        State { records, index, facets: None, digest: self.digest }
    }
}

/// Where a walk over those who may match begins, and who of them is meant.
fn beginning<'a>(query: &'a Query, after: Option<&'a str>) -> (Place<'a>, Rule) {
    let behind = after.map_or(Place::Start, Place::Behind);
    match after {
        _ if query.namespace.is_none() => (behind, Rule::Matching),
        Some(after) if against_prefix(query, after) != Ordering::Greater => (behind, Rule::Together),
        Some(_) | None => (Place::Before(query), Rule::Together),
    }
}

/// Registrations that match a query, in order of id.
pub struct Selected<'a> {
    query: &'a Query,
    run: Option<Run<'a>>,
    /// In the place of the run. In a box, as what is seldom needed is.
    from_several: Option<Box<Merged<'a>>>,
    rule: Rule,
    looked_at: u32,
}

/// Who of those that are met is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Everybody.
    All,
    /// Who matches.
    Matching,
    /// Who matches; those of the namespace, or the agent, stand together, and behind them nobody does.
    Together,
}

impl<'a> Selected<'a> {
    const fn nobody(query: &'a Query) -> Self {
        Self { query, run: None, from_several: None, rule: Rule::All, looked_at: 0 }
    }

    /// Those of a stretch who match.
    fn of(query: &'a Query, those: Stretch<'a>, after: Option<&'a str>) -> Self {
        let is_within = query.namespace.as_ref().is_some_and(|namespace| those.is_within(namespace));
        let (from, rule) = if is_within {
            (after.map_or(Place::Start, Place::Behind), Rule::Matching)
        } else {
            beginning(query, after)
        };
        Self { run: Some(Run::new(those, from)), rule, ..Self::nobody(query) }
    }

    /// How many registrations were looked at so far, whether they match or not: what a question costs.
    #[must_use]
    pub const fn looked_at(&self) -> u32 {
        self.looked_at
    }

    #[inline]
    fn meet(&mut self) -> Option<&'a Arc<Registration>> {
        let met = match (&mut self.run, &mut self.from_several) {
            (Some(run), _) => run.next(),
            (None, Some(several)) => several.next(),
            (None, None) => None,
        };
        self.looked_at += u32::from(met.is_some());
        met
    }
}

impl<'a> Iterator for Selected<'a> {
    type Item = &'a Arc<Registration>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rule == Rule::All {
            return self.meet();
        }
        while let Some(registration) = self.meet() {
            if self.query.matches(registration) {
                return Some(registration);
            }
            if self.rule == Rule::Together && !self.query.is_of_its_agent(&registration.declared.id) {
                (self.run, self.from_several) = (None, None);
                return None;
            }
        }
        None
    }
}
