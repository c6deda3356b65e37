//! Violations planted into the record of a real run: each check must see its own, or it proves nothing about that run.
//!
//! Promises that the record itself is left as it is. A plant without a place (nothing of its kind happened in the run)
//! is told as such. Never here: a judgement of the product.

use std::time::Duration;

use rollcall_model::RemovalReason;
use rollcall_proto::store;

use super::leases::expired;
use super::{Rules, Verdict};
use crate::calm::Sight;
use crate::history::{Act, Op, Outcome};
use crate::origin::{Ending, Origin, Standing};
use crate::readers::{self, Look};
use crate::tap::{Event, What};

/// What a run wrote down.
#[derive(Clone)]
pub struct Record {
    /// Before every key.
    pub prefix: String,
    /// Histories of the store, each with the revision of the backup that it goes on from.
    pub lives: Vec<(u64, Vec<Event>)>,
    /// What clients asked and were told.
    pub ops: Vec<Op>,
    /// What readers saw.
    pub looks: Vec<Look>,
    /// What the keeper said of its guard.
    pub calm: Vec<Sight>,
    /// The end of the traffic.
    pub until: Duration,
    /// What the checks go by.
    pub rules: Rules,
}

/// One kind of violation: plants it, and gives what its check says then; none when there is no place for it.
type Plant = fn(&mut Record, &Origin) -> Option<Verdict>;

const PLANTS: [(&str, Plant); 12] = [
    ("I01", a_lost_registration),
    ("I03", an_epoch_given_twice),
    ("I04", a_renewal_after_the_end),
    ("I05", an_early_expiry),
    ("I06", a_dead_one_that_stays),
    ("I07", a_fleet_that_expires),
    ("I09", a_keeper_without_grace),
    ("I10", a_keeper_without_office),
    ("I11", a_deregistration_undone),
    ("I13", a_removal_without_a_reason),
    ("I15", a_refusal_of_what_was_done),
    ("I18", a_copy_that_lacks_one),
];

/// Plants every kind and looks whether its check goes red.
#[must_use]
pub fn seen_to_fail(record: &Record, origin: &Origin) -> Verdict {
    let mut verdict = Verdict::of("planted");
    let (mut seen, mut placeless) = (Vec::new(), Vec::new());
    for (id, plant) in PLANTS {
        let mut copy = record.clone();
        match plant(&mut copy, origin) {
            None => placeless.push(id),
            Some(found) => {
                let is_seen = found.broken.iter().any(|words| words.starts_with(id));
                verdict.judge(is_seen, || format!("planted: a violation of {id} was not seen"));
                if is_seen {
                    seen.push(id);
                }
            }
        }
    }
    verdict.notes.push(format!("planted into this record and seen: {}", seen.join(" ")));
    if !placeless.is_empty() {
        verdict.notes.push(format!("nothing happened to plant them into: {}", placeless.join(" ")));
    }
    verdict
}

impl Record {
    fn walk(&self) -> Origin {
        Origin::walk(&self.prefix, &self.lives)
    }

    /// Leaves out what the tap saw of these.
    fn forget(&mut self, which: impl Fn(&Event) -> bool) {
        for (_, events) in &mut self.lives {
            events.retain(|event| !which(event));
        }
    }

    fn removal(&mut self, id: &str, revision: u64) {
        let key = format!("{}reg/{id}", self.prefix);
        self.forget(|event| event.revision == revision && event.key == key);
    }
}

fn registered(op: &Op) -> Option<u64> {
    match op.outcome {
        Outcome::Registered(epoch) => Some(epoch),
        _ => None,
    }
}

fn a_lost_registration(record: &mut Record, origin: &Origin) -> Option<Verdict> {
    let (id, epoch) = record.ops.iter().find_map(|op| Some((op.id.clone(), registered(op)?)))?;
    let revision = origin.standing(&id, epoch)?.from.revision;
    record.removal(&id, revision);
    Some(super::acknowledged(&record.walk(), &record.ops))
}

fn an_epoch_given_twice(record: &mut Record, origin: &Origin) -> Option<Verdict> {
    let ops = &record.ops;
    let (at, epoch) = ops.iter().enumerate().find_map(|(at, op)| {
        registered(op)?;
        let before = ops[..at].iter().rfind(|other| other.id == op.id && registered(other).is_some())?;
        Some((at, registered(before)?))
    })?;
    record.ops[at].outcome = Outcome::Registered(epoch);
    Some(super::epochs(origin, &record.ops))
}

fn a_renewal_after_the_end(record: &mut Record, origin: &Origin) -> Option<Verdict> {
    if record.lives.len() > 1 {
        return None;
    }
    let (id, epoch) = record.ops.iter().find_map(|op| match (&op.act, &op.outcome) {
        (Act::Deregister(epoch), Outcome::Done) => Some((op.id.clone(), *epoch)),
        _ => None,
    })?;
    // Alone with its instance, so that the search need not go through all the others again.
    record.ops.retain(|op| op.id == id);
    let late = record.until + Duration::from_secs(60);
    record.ops.push(Op {
        client: 0,
        cell: 0,
        id,
        act: Act::Renew(epoch),
        invoked: late,
        returned: Some(late + Duration::from_secs(1)),
        outcome: Outcome::Done,
    });
    Some(super::linearizable(origin, &record.ops, &record.rules))
}

/// One that a keeper let expire, whose owner was told of its epoch.
fn one_that_expired<'a>(record: &Record, origin: &'a Origin) -> Option<(&'a Standing, Duration)> {
    let told = |standing: &Standing| {
        record.ops.iter().any(|op| op.id == standing.id && registered(op) == Some(standing.epoch))
    };
    origin.standings.iter().find_map(|standing| {
        let (at, _) = expired(standing)?;
        told(standing).then_some((standing, at))
    })
}

fn an_early_expiry(record: &mut Record, origin: &Origin) -> Option<Verdict> {
    let (standing, at) = one_that_expired(record, origin)?;
    let sent = at.saturating_sub(Duration::from_secs(1));
    record.ops.push(Op {
        client: 0,
        cell: 0,
        id: standing.id.clone(),
        act: Act::Renew(standing.epoch),
        invoked: sent,
        returned: Some(at),
        outcome: Outcome::Done,
    });
    Some(super::no_early_expiry(origin, &record.ops))
}

/// Expired ones that are tried: the keeper's grace or a hold excuses some, and one that is seen is enough.
const TRIED: usize = 12;

fn a_dead_one_that_stays(record: &mut Record, origin: &Origin) -> Option<Verdict> {
    let removed = |standing: &Standing| {
        expired(standing)?;
        Some((standing.id.clone(), standing.until.as_ref()?.0.revision))
    };
    // What went last has the least time left to be missed in.
    let candidates: Vec<_> = origin.standings.iter().rev().filter_map(removed).skip(2).take(TRIED).collect();
    candidates.into_iter().find_map(|(id, revision)| {
        let mut copy = record.clone();
        copy.removal(&id, revision);
        let verdict = super::the_dead_go(&copy.walk(), &copy.ops, &copy.calm, copy.until, &copy.rules);
        (!verdict.broken.is_empty()).then_some(verdict)
    })
}

fn a_fleet_that_expires(record: &mut Record, origin: &Origin) -> Option<Verdict> {
    let term = origin.beats.first()?.term;
    let key = format!("{}removal", record.prefix);
    for event in record.lives.iter_mut().flat_map(|(_, events)| events) {
        if event.key == key
            && let What::Put { value, .. } = &mut event.what
            && let Ok((mut gone, at)) = store::decode_removal(value)
        {
            for gone in &mut gone {
                gone.reason = RemovalReason::Expired;
                gone.actor = "keeper".into();
                gone.term = Some(term);
            }
            *value = store::encode_removal(&gone, at).to_vec();
        }
    }
    let verdict = super::bound(&record.walk(), &record.rules);
    // A run with few removals beside many registrations stays within the bound even so.
    (!verdict.broken.is_empty()).then_some(verdict)
}

fn a_keeper_without_grace(record: &mut Record, origin: &Origin) -> Option<Verdict> {
    // The last one: it is long after its keeper began, also where a store without space took no beat at first.
    let (standing, at, term) = origin.standings.iter().rev().find_map(|standing| {
        let (at, term) = expired(standing)?;
        Some((standing, at, term?))
    })?;
    let (key, early) = (format!("{}beat", record.prefix), at.saturating_sub(standing.lease / 2));
    record.forget(|event| match &event.what {
        What::Put { value, .. } if event.key == key && event.at < early => {
            store::decode_beat(value).is_ok_and(|beat| beat.term == term)
        }
        What::Put { .. } | What::Removed => false,
    });
    Some(super::grace(&record.walk(), &record.rules))
}

fn a_keeper_without_office(record: &mut Record, origin: &Origin) -> Option<Verdict> {
    let term = origin.beats.last()?.term;
    let office = format!("{}keeper/", record.prefix);
    record.forget(|event| event.revision == term && event.key.starts_with(&office));
    Some(super::fenced(&record.walk()))
}

fn a_deregistration_undone(record: &mut Record, origin: &Origin) -> Option<Verdict> {
    if record.lives.len() > 1 {
        return None;
    }
    let (id, revision) = record.ops.iter().find_map(|op| {
        let (Act::Deregister(epoch), Outcome::Done) = (&op.act, &op.outcome) else { return None };
        let last = origin.standings.iter().rfind(|standing| standing.id == op.id)?;
        match &last.until {
            Some((moment, Ending::Removed { .. })) if last.epoch == *epoch => {
                Some((op.id.clone(), moment.revision))
            }
            _ => None,
        }
    })?;
    record.removal(&id, revision);
    Some(super::final_deregistration(&record.walk(), &record.ops))
}

fn a_removal_without_a_reason(record: &mut Record, origin: &Origin) -> Option<Verdict> {
    let revision = origin.standings.iter().find_map(|standing| match &standing.until {
        Some((moment, Ending::Removed { .. })) => Some(moment.revision),
        _ => None,
    })?;
    let key = format!("{}removal", record.prefix);
    record.forget(|event| event.revision == revision && event.key == key);
    Some(super::whole(&record.walk()))
}

fn a_refusal_of_what_was_done(record: &mut Record, origin: &Origin) -> Option<Verdict> {
    let said = |op: &Op| matches!((&op.act, &op.outcome), (Act::Update(..), Outcome::Done));
    let op = record.ops.iter_mut().find(|op| said(op))?;
    op.outcome = Outcome::Refused { status: 503, retry_after: Some(1) };
    Some(super::acknowledged(origin, &record.ops))
}

fn a_copy_that_lacks_one(record: &mut Record, origin: &Origin) -> Option<Verdict> {
    let shown = record.looks.iter_mut().filter_map(|look| look.shown.as_mut());
    let shown = shown.max_by_key(|shown| shown.len())?;
    shown.pop_first()?;
    Some(readers::true_states(origin, &record.looks))
}
