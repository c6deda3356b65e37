//! Copies of a region's state: true, never going back, kept while cut off, and not reloaded without need.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::check::Verdict;
use crate::digests::Digests;
use crate::game_day::record::{Record, Sight};

/// A holder that was cut off says an age that is behind the cut by this much at most: what was on its way is heard by a
/// machine that stalls some seconds after the cut, and nobody can tell how old it had become.
const AGE_SLACK: Duration = Duration::from_secs(8);
/// Below this age a holder calls a copy current.
const CURRENT_MS: u64 = 3_000;
/// Words that are on their way when a cut begins.
const ON_THEIR_WAY: Duration = Duration::from_secs(2);

/// I18, I30: what each holder says it holds, at every moment it was asked, is the origin's state at that revision.
pub(super) fn hashes(digests: &Digests, sights: &[&Sight]) -> Verdict {
    let mut verdict = Verdict { ids: "I18 I30", ..Verdict::default() };
    for sight in sights.iter().filter(|sight| !digests.is_beyond(sight)) {
        let Some((ordinal, revision)) = sight.position else { continue };
        let origin = digests.at(ordinal, revision);
        verdict.judge(origin == Some((sight.count, &sight.digest)), || {
            format!(
                "I30: at {:.1} s {} holds {} of {} with digest {} at revision {ordinal}.{revision}; the origin had {origin:?}",
                sight.at.as_secs_f64(),
                sight.holder,
                sight.count,
                sight.region,
                sight.digest
            )
        });
    }
    verdict
}

/// I17, I31: no holder's position ever goes back.
pub(super) fn never_back(sights: &[&Sight]) -> Verdict {
    let mut verdict = Verdict { ids: "I17 I31", ..Verdict::default() };
    let mut last: BTreeMap<&str, (u16, u64)> = BTreeMap::new();
    for sight in sights {
        let Some(position) = sight.position else { continue };
        let before = last.insert(&sight.holder, position).unwrap_or_default();
        // A cell that was killed begins with the copy on its disk, and does not call that current.
        verdict.judge(before <= position || sight.age_ms >= CURRENT_MS, || {
            format!(
                "I17: at {:.1} s {} went from {before:?} to {position:?}",
                sight.at.as_secs_f64(),
                sight.holder
            )
        });
    }
    verdict
}

/// How often copies were replaced by whole snapshots after their first load, by holder and region.
#[must_use]
pub fn replaced(record: &Record) -> Vec<(String, String, Duration)> {
    let mut marks: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    let mut replaced = Vec::new();
    for sight in record.sights.iter().filter(|sight| sight.position.is_some()) {
        let before = marks.insert((&sight.holder, &sight.region), &sight.resync);
        // A cell that was started again knows of none yet.
        if before.is_some_and(|before| before != sight.resync) && !sight.resync.is_empty() {
            replaced.push((sight.holder.clone(), sight.region.clone(), sight.at));
        }
    }
    replaced
}

pub(super) fn resyncs(record: &Record, most: usize) -> (Verdict, String) {
    let replaced = replaced(record);
    let mut verdict = Verdict { checked: record.sights.len().min(1), ..Verdict::default() };
    if replaced.len() > most {
        let lines = replaced.iter().map(|(holder, region, at)| {
            format!("{holder} took a whole snapshot of {region} before {:.1} s", at.as_secs_f64())
        });
        verdict.broken.extend(lines);
    }
    (verdict, format!("{} copies were replaced by whole snapshots; {most} at most", replaced.len()))
}

/// I32: after the traffic every cell's last word of the region is what stands at the head.
pub(super) fn converged(digests: &Digests, sights: &[&Sight]) -> Verdict {
    let mut verdict = Verdict { ids: "I32", ..Verdict::default() };
    let last: BTreeMap<&str, &Sight> =
        sights.iter().filter(|sight| sight.cell).map(|sight| (sight.holder.as_str(), *sight)).collect();
    for (holder, sight) in last {
        verdict.judge(digests.is_reached(sight), || {
            format!(
                "I32: at the end {holder} holds {} of {} with digest {}, {} ms old; the store ends with {:?}",
                sight.count,
                sight.region,
                sight.digest,
                sight.age_ms,
                digests.head()
            )
        });
    }
    verdict
}

/// While there is a fault, holders in these zones lose nothing of what they knew of the region, and say how old it is.
pub(super) fn last_copy(record: &Record, zones: &[String], region: &str) -> (Verdict, String) {
    let mut verdict = Verdict::default();
    let mut oldest = 0;
    let of_region = |sight: &&Sight| zones.contains(&sight.zone) && sight.region == region;
    for fault in &record.faults {
        let until = fault.until.unwrap_or(record.ended);
        let mut before: BTreeMap<&str, &Sight> = BTreeMap::new();
        for sight in record.sights.iter().filter(of_region) {
            if sight.at < fault.at + ON_THEIR_WAY {
                before.insert(&sight.holder, sight);
            } else if sight.at < until {
                let knew = before.get(sight.holder.as_str()).copied();
                let same = |knew: &Sight| knew.count == sight.count && knew.digest == sight.digest;
                // Going on is no loss: I30 has it that the new state is a true one, and its age tells a leak.
                let goes_on = |knew: &Sight| sight.position > knew.position;
                verdict.judge(knew.is_some_and(|knew| same(knew) || goes_on(knew)), || {
                    format!(
                        "at {:.1} s {} holds {} of {region}, and held {:?} when the fault began",
                        sight.at.as_secs_f64(),
                        sight.holder,
                        sight.count,
                        knew.map(|knew| knew.count)
                    )
                });
                if knew.is_some_and(goes_on) {
                    before.insert(&sight.holder, sight);
                }
                let age = Duration::from_millis(sight.age_ms);
                let least = sight.asked.saturating_sub(fault.at + AGE_SLACK);
                verdict.judge(age >= least, || {
                    format!(
                        "at {:.1} s {} says {age:?} of {region}, which it cannot have heard of for {least:?}",
                        sight.at.as_secs_f64(),
                        sight.holder
                    )
                });
                oldest = oldest.max(sight.age_ms);
            }
        }
    }
    let zones = zones.join(", ");
    let detail = format!(
        "holders in zone {zones} kept what they knew of {region} and said an age of up to {:.1} s",
        seconds(oldest)
    );
    (verdict, detail)
}

/// From the first step to a moment, cells in these zones hold nothing of the region that is older than this.
pub(super) fn ages(
    record: &Record,
    zones: &[String],
    region: &str,
    until_s: u64,
    most_ms: u64,
) -> (Verdict, String) {
    let mut verdict = Verdict::default();
    let first = record.faults.iter().map(|fault| fault.at).min().unwrap_or(record.ended);
    let until = record.began + Duration::from_secs(until_s);
    let mut oldest = 0;
    let is_asked = |sight: &&Sight| {
        sight.cell
            && zones.contains(&sight.zone)
            && sight.region == region
            && (first..until).contains(&sight.at)
    };
    for sight in record.sights.iter().filter(is_asked) {
        oldest = oldest.max(sight.age_ms);
        verdict.judge(sight.position.is_some() && sight.age_ms <= most_ms, || {
            format!(
                "at {:.1} s {} holds {region} as it was {} ms ago; {most_ms} at most",
                sight.at.as_secs_f64(),
                sight.holder,
                sight.age_ms
            )
        });
    }
    let zones = zones.join(", ");
    (verdict, format!("what zone {zones} held of {region} was up to {:.1} s old", seconds(oldest)))
}

#[allow(clippy::cast_precision_loss)]
fn seconds(ms: u64) -> f64 {
    // Ages of a run are far below 2^53 ms.
    ms as f64 / 1_000.0
}
