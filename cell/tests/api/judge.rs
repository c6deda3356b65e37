//! etcd's nine checks of a watch, retold for ours and pure: what truly happened, what one connection was told, and which
//! promises that breaks.
//!
//! Each connection is judged for itself. That a watcher which reconnects misses nothing follows: it resumes from the last
//! position that it was given, and each of its connections is complete from the one to the next.

use std::collections::BTreeSet;

use super::told::{Change, Fact, Gone, History, Record, Reload, Stream, Told};

/// The nine, by etcd's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    Filter,
    Ordered,
    Unique,
    Atomic,
    Reliable,
    Resumable,
    Bookmarkable,
    PrevKv,
    IsCreate,
}

/// A change that was told: in which message, and what happened, if it did.
struct Telling<'a> {
    message: usize,
    change: &'a Change,
    revision: u64,
    fact: Option<&'a Fact>,
}

/// Which checks are broken, each with its first fault.
pub(super) fn judge(history: &History, stream: &Stream) -> Vec<(Check, String)> {
    let told = tellings(history, stream);
    let found = [
        (Check::Filter, filter(stream, &told)),
        (Check::Ordered, ordered(stream, &told)),
        (Check::Unique, unique(&told)),
        (Check::Atomic, atomic(history, stream, &told)),
        (Check::Reliable, reliable(history, stream, &told)),
        (Check::Resumable, resumable(history, stream, &told)),
        (Check::Bookmarkable, bookmarkable(history, stream, &told)),
        (Check::PrevKv, prev_kv(&told)),
        (Check::IsCreate, is_create(&told)),
    ];
    found.into_iter().filter_map(|(check, found)| Some((check, found.err()?))).collect()
}

type Finding = Result<(), String>;

/// A put fits, or what stood there did and is shown a last time; a removal is of one that fitted. A snapshot holds only
/// what fits.
fn filter(stream: &Stream, told: &[Telling<'_>]) -> Finding {
    for telling in told {
        if telling.fact.is_some_and(|fact| !fact.is_for(&stream.filter)) {
            return Err(format!("{:?} is not for it", telling.change));
        }
    }
    for record in stream.told.iter().flat_map(Told::records) {
        if !stream.filter.fits(record) {
            return Err(format!("{record:?} is in its snapshot"));
        }
    }
    Ok(())
}

/// Revisions never go down, each change lies in its delta's span, and no delta or snapshot leads behind what was told.
fn ordered(stream: &Stream, told: &[Telling<'_>]) -> Finding {
    if let Some(pair) = told.windows(2).find(|pair| pair[1].revision < pair[0].revision) {
        return Err(format!("{:?} came after {:?}", pair[1].change, pair[0].change));
    }
    let mut known = stream.since.unwrap_or(0);
    for (message, said) in stream.told.iter().enumerate() {
        let within = |from: u64, to: u64| {
            let mut own = told.iter().filter(|telling| telling.message == message);
            own.all(|telling| from < telling.revision && telling.revision <= to)
        };
        let is_ordered = match said {
            Told::Begin(at, _) => *at >= known,
            Told::Delta { from, to, .. } => from < to && *to > known && within(*from, *to),
            Told::Page(_) | Told::End(_) | Told::Bookmark(..) | Told::Resync(_) => true,
        };
        if !is_ordered {
            return Err(format!("after {known} came {said:?}"));
        }
        known = said.position().map_or(known, |at| at.max(known));
    }
    Ok(())
}

/// No change comes twice.
fn unique(told: &[Telling<'_>]) -> Finding {
    let mut seen = BTreeSet::new();
    match told.iter().find(|telling| !seen.insert((telling.revision, telling.change.id()))) {
        Some(twice) => Err(format!("{:?} came twice", twice.change)),
        None => Ok(()),
    }
}

/// No revision is split over two deltas, and a snapshot is the state of one revision: that of its position.
fn atomic(history: &History, stream: &Stream, told: &[Telling<'_>]) -> Finding {
    let is_torn =
        |pair: &&[Telling<'_>]| pair[0].revision == pair[1].revision && pair[0].message != pair[1].message;
    if let Some(pair) = told.windows(2).find(is_torn) {
        return Err(format!("revision {} came in two deltas", pair[0].revision));
    }
    let mut head = 0;
    for said in &stream.told {
        match said {
            Told::Begin(at, figures) if history.figures_at(*at) != *figures => {
                return Err(format!("the snapshot at {at} has the figures {figures:?}"));
            }
            Told::Begin(at, _) => head = *at,
            Told::End(at) if *at != head => return Err(format!("the snapshot at {head} ended at {at}")),
            Told::Page(records) => {
                let state = history.state(head);
                if let Some(other) = records.iter().find(|one| state.get(one.id.as_str()) != Some(one)) {
                    return Err(format!("{other:?} did not stand at {head}"));
                }
            }
            Told::End(_) | Told::Delta { .. } | Told::Bookmark(..) | Told::Resync(_) => {}
        }
    }
    Ok(())
}

/// What happened is told, and what is told happened: no change is left out between two that were told, nor before a
/// position that was given, and no registration is left out of a snapshot.
fn reliable(history: &History, stream: &Stream, told: &[Telling<'_>]) -> Finding {
    if let Some(other) = told.iter().find(|telling| !telling.is_as_it_happened()) {
        return Err(format!("{:?} is not what happened: {:?}", other.change, other.fact));
    }
    let seen: BTreeSet<_> = told.iter().map(|telling| (telling.revision, telling.change.id())).collect();
    let mut known = stream.since;
    let mut paged = BTreeSet::new();
    for said in &stream.told {
        match said {
            Told::Begin(..) => paged.clear(),
            Told::Page(records) => paged.extend(records.iter().map(|record| record.id.as_str())),
            Told::End(at) => {
                let state = history.state(*at);
                let mut missing = state.values().filter(|one| stream.filter.fits(one));
                if let Some(one) = missing.find(|one| !paged.contains(one.id.as_str())) {
                    return Err(format!("{one:?} is not in the snapshot at {at}"));
                }
                known = Some(*at);
            }
            Told::Delta { to: at, .. } | Told::Bookmark(at, _) => {
                let start = known.ok_or_else(|| format!("{said:?} came before anything"))?;
                let mut between = history.facts_between(start, *at, &stream.filter);
                if let Some(fact) = between.find(|fact| !seen.contains(&(fact.revision, fact.change.id()))) {
                    return Err(format!("{fact:?} was left out"));
                }
                known = Some(start.max(*at));
            }
            Told::Resync(_) => {}
        }
    }
    Ok(())
}

/// A watch goes on with the first change after the position it was opened with, and begins anew only if a cell reloaded:
/// `history_passed` with a state of the reload or later, or `behind` with one that is no older than what is known.
fn resumable(history: &History, stream: &Stream, told: &[Telling<'_>]) -> Finding {
    let mut known = stream.since;
    for (message, said) in stream.told.iter().enumerate() {
        if let Told::Resync(reason) = said {
            let next = stream.told.get(message + 1);
            let next = match next {
                Some(Told::Begin(at, _)) => Some(*at),
                Some(Told::Resync(_)) | None => None,
                Some(other) => return Err(format!("after a resync came {other:?}")),
            };
            let held = known.ok_or("a resync of nothing")?;
            let is_passed = |reload: &Reload| held < reload.until && next.is_none_or(|at| at >= reload.from);
            let is_allowed = match reason.as_str() {
                "history_passed" => history.reloads.iter().any(is_passed),
                "behind" => !history.reloads.is_empty() && next.is_none_or(|at| at >= held),
                _ => false,
            };
            if !is_allowed {
                return Err(format!("it has everything up to {held} and was told to resync: {reason}"));
            }
        } else if let (Told::Begin(..), Some(held)) = (said, known)
            && !matches!(message.checked_sub(1).map(|last| &stream.told[last]), Some(Told::Resync(_)))
        {
            return Err(format!("it has everything up to {held} and was sent a snapshot"));
        }
        known = said.position().or(known);
    }
    let Some(since) = stream.since else { return Ok(()) };
    let anew = stream.told.iter().position(|said| matches!(said, Told::Resync(_))).unwrap_or(usize::MAX);
    let first = history.facts_between(since, u64::MAX, &stream.filter).next();
    match told.first().filter(|telling| telling.message < anew) {
        Some(told) if Some(told.revision) != first.map(|first| first.revision) => {
            Err(format!("after {since} it was told {:?}, not {first:?}", told.change))
        }
        Some(_) | None => Ok(()),
    }
}

/// What a bookmark says is complete stays complete: nothing of before it comes later, it is never behind what was told,
/// and its figures are those of the region there.
fn bookmarkable(history: &History, stream: &Stream, told: &[Telling<'_>]) -> Finding {
    let mut known = stream.since.unwrap_or(0);
    for (message, said) in stream.told.iter().enumerate() {
        if let Told::Bookmark(at, figures) = said {
            let later = told.iter().find(|telling| telling.message > message && telling.revision <= *at);
            if let Some(late) = later {
                return Err(format!("{:?} came after the bookmark at {at}", late.change));
            }
            if *at < known {
                return Err(format!("a bookmark at {at} came after {known}"));
            }
            if history.figures_at(*at) != *figures {
                return Err(format!("{figures:?} are not the figures at {at}"));
            }
        }
        known = said.position().map_or(known, |at| at.max(known));
    }
    Ok(())
}

/// A change names the registration that stood: a removal its epoch, a put the same or one that is new with it.
fn prev_kv(told: &[Telling<'_>]) -> Finding {
    for telling in told {
        let Some(fact) = telling.fact else { continue };
        let stood = fact.before.as_ref().map(|before| before.epoch);
        let is_named = match telling.change {
            Change::Put(record) => record.is_new() || stood == Some(record.epoch),
            Change::Remove(gone) => stood == Some(gone.epoch),
        };
        if !is_named {
            return Err(format!("{:?}, and what stood there had the epoch {stood:?}", telling.change));
        }
    }
    Ok(())
}

/// A put whose epoch is new is a registration, and one with an older epoch is an update of what stood.
fn is_create(told: &[Telling<'_>]) -> Finding {
    for telling in told {
        let (Change::Put(record), Some(fact)) = (telling.change, telling.fact) else { continue };
        let Change::Put(truly) = &fact.change else { continue };
        let is_created = fact.before.as_ref().is_none_or(|before| before.epoch != truly.epoch);
        if record.is_new() != is_created {
            return Err(format!("{record:?} where {:?} stood", fact.before));
        }
    }
    Ok(())
}

/// Each change of the deltas with its fact. A removal that does not say its revision is the one of its epoch in its
/// delta's span, or the last of its id there.
fn tellings<'a>(history: &'a History, stream: &'a Stream) -> Vec<Telling<'a>> {
    let mut told = Vec::new();
    for (message, said) in stream.told.iter().enumerate() {
        let Told::Delta { from, to, changes } = said else { continue };
        for change in changes {
            let fact = match change {
                Change::Put(record) => history.fact(&record.id, record.revision),
                Change::Remove(Gone { revision: Some(revision), id, .. }) => history.fact(id, *revision),
                Change::Remove(Gone { id, epoch, .. }) => {
                    let removals = history.span(*from, *to).iter().filter_map(|fact| match &fact.change {
                        Change::Remove(gone) if gone.id == *id => Some((fact, gone.epoch)),
                        Change::Put(_) | Change::Remove(_) => None,
                    });
                    let right = removals.clone().find(|(_, truly)| truly == epoch);
                    right.or_else(|| removals.clone().next_back()).map(|(fact, _)| fact)
                }
            };
            let revision = match change {
                Change::Put(record) => record.revision,
                Change::Remove(gone) => gone.revision.or(fact.map(|fact| fact.revision)).unwrap_or(*to),
            };
            told.push(Telling { message, change, revision, fact });
        }
    }
    told
}

impl Telling<'_> {
    /// But for the epochs, which have checks of their own.
    fn is_as_it_happened(&self) -> bool {
        match (self.change, self.fact.map(|fact| &fact.change)) {
            (Change::Put(told), Some(Change::Put(truly))) => {
                *told == Record { epoch: told.epoch, ..truly.clone() }
            }
            (Change::Remove(told), Some(Change::Remove(truly))) => {
                (&told.reason, &told.actor) == (&truly.reason, &truly.actor)
            }
            (Change::Put(_) | Change::Remove(_), _) => false,
        }
    }
}
