//! What the publisher does next, decided without I/O: append or leave out, snapshot or not, room or none.
//!
//! Promises: a record is appended only if the chain needs it; where the chain cannot be continued, a snapshot is due; what
//! is under way is bounded; one bookmark at most is under way, so that none ages unseen in a queue (I21).

use std::collections::VecDeque;
use std::time::Duration;

use rollcall_model::{Instant, Position, Relation};
use rollcall_proto::convert::FeedItem;

use crate::feed_log::BODY_BYTES_MAX;
use crate::feed_log::newest::Tail;
use crate::feed_log::record;

/// Records under way: two seconds of peak churn, which a healthy log takes in milliseconds.
const UNDER_WAY_MAX: usize = 1_024;
/// Bytes under way; what is over it stays with the cell until the log has taken some.
const UNDER_WAY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// A log that has not answered for this long is away: its tail tells, later, what it took.
const STALLED_AFTER: Duration = Duration::from_secs(5);
/// A second publisher's records may stand before our own and reach further than our state for a moment. A snapshot names
/// the end of the feed as it was at least this long ago: what stands before that, the state has long passed.
const SETTLED_AFTER: Duration = Duration::from_secs(5);
/// A snapshot further back than this is not good enough for the next follower that starts.
const NEAR_RECORDS: u64 = 10_000;

/// When snapshots are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// At the latest this long after the one before.
    pub every: Duration,
    /// Or after so many bytes of deltas.
    pub every_bytes: u64,
}

/// What one session of publishing leaves to the next: sessions end with every whim of the log, and what followers wait for
/// must not be forgotten with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owed {
    /// Why a snapshot is due or was not finished.
    pub due: Option<&'static str>,
    /// When the last one was begun, or publishing.
    pub snapshot_at: Instant,
}

/// What becomes of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Append it.
    Append,
    /// The feed has it, or does not need it now.
    LeaveOut,
    /// It cannot be a record. Its changes go out with the snapshot that is now due.
    TooLarge,
}

#[derive(Clone, Debug)]
struct UnderWay {
    bytes: usize,
    since: Instant,
    is_bookmark: bool,
}

/// The publisher's place in the feed.
#[derive(Clone, Debug)]
pub struct Plan {
    schedule: Schedule,
    /// Up to where the feed reaches once all that is under way has arrived.
    chain: Option<Position>,
    /// What the feed held when this began: a snapshot that reaches less far would leave a gap behind it.
    reached: Option<Position>,
    /// Behind every record that is known to be in the feed.
    feed_end: u64,
    /// The same a while ago, and when and what it will be next; a snapshot's place in the feed.
    settled: u64,
    settling: (Instant, u64),
    under_way: VecDeque<UnderWay>,
    under_way_bytes: usize,
    due: Option<&'static str>,
    /// Why a snapshot is being written.
    writing: Option<&'static str>,
    snapshot_at: Instant,
    /// Where the snapshot topic ended when it was last looked at.
    snapshots_end: u64,
    bytes_since: u64,
    heard_at: Instant,
}

impl Plan {
    /// The place after reading the feed's tail. `own` is the own state's position, `snapshot` what the last snapshot in
    /// the log says of itself, `owed` what the plan before this one left undone.
    ///
    /// A second publisher on the same feed is harmless: what it appends is left out here only after a new start, and a
    /// follower takes the doubles for what they are.
    #[must_use]
    pub fn begin(
        schedule: Schedule,
        tail: &Tail,
        own: &Position,
        snapshot: Option<(&Position, u64)>,
        owed: Owed,
        now: Instant,
    ) -> Self {
        let same = |position: &Position| position.incarnation == own.incarnation;
        let chain = tail.position.clone().filter(same);
        let there = &tail.offsets;
        let is_near = |(position, offset): (&Position, u64)| {
            same(position)
                && offset >= there.start
                && offset <= there.end
                && there.end - offset <= NEAR_RECORDS
        };
        let due = match (&chain, snapshot) {
            (None, _) if tail.position.is_some() => Some("new_incarnation"),
            (_, snapshot) if tail.torn_at.is_some_and(|at| snapshot.is_none_or(|(_, from)| from <= at)) => {
                Some("gap")
            }
            (Some(_), Some(snapshot)) if is_near(snapshot) => None,
            (_, _) => Some("started"),
        };
        Self {
            schedule,
            reached: chain.clone(),
            chain: Some(chain.unwrap_or_else(|| own.clone())),
            feed_end: there.end,
            settled: there.end,
            settling: (now, there.end),
            under_way: VecDeque::new(),
            under_way_bytes: 0,
            due: due.or(owed.due),
            writing: None,
            snapshot_at: owed.snapshot_at,
            snapshots_end: 0,
            bytes_since: 0,
            heard_at: now,
        }
    }

    /// From where to watch the cell: the end of the feed, or the own state where that is older.
    #[must_use]
    pub fn since(&self, own: &Position) -> Position {
        match &self.chain {
            Some(chain) if chain.relation(own) == Relation::Same(std::cmp::Ordering::Less) => chain.clone(),
            Some(_) | None => own.clone(),
        }
    }

    /// Judges an item of the cell's feed and, if it is to be appended, takes it as appended.
    pub fn offer(&mut self, item: &FeedItem, bytes: usize, now: Instant) -> Offer {
        let (_, from, to) = record::ends(item);
        let is_bookmark = matches!(item, FeedItem::Bookmark(_));
        let known = self.chain.as_ref().map(|chain| (to.relation(chain), from.relation(chain)));
        match known {
            Some((Relation::Same(order), _)) if order.is_lt() || (order.is_eq() && !is_bookmark) => {
                return Offer::LeaveOut;
            }
            Some((_, Relation::Same(order))) if order.is_le() => {}
            // A cell process that lags a restore; the feed has left that history.
            Some((Relation::OlderHistory, _)) => return Offer::LeaveOut,
            // A bookmark in its place says that something is missing before it: nothing to build a chain on.
            _ if is_bookmark => return Offer::LeaveOut,
            Some((Relation::Same(_), _)) => self.due = Some("gap"),
            Some(_) | None => self.due = Some("new_incarnation"),
        }
        if is_bookmark && self.under_way.iter().any(|sent| sent.is_bookmark) {
            return Offer::LeaveOut;
        }
        self.chain = Some(to.clone());
        if bytes > BODY_BYTES_MAX {
            self.due = Some("too_large");
            return Offer::TooLarge;
        }
        self.under_way.push_back(UnderWay { bytes, since: now, is_bookmark });
        self.under_way_bytes += bytes;
        if !is_bookmark {
            self.bytes_since += bytes as u64;
        }
        Offer::Append
    }

    /// The own state jumped to this position without the deltas in between.
    pub fn jumped(&mut self, to: &Position, reason: &'static str) {
        let is_ahead = self.chain.as_ref().is_none_or(|chain| match to.relation(chain) {
            Relation::Same(order) => order.is_gt(),
            Relation::OlderHistory => false,
            Relation::NewerHistory | Relation::Conflict => true,
        });
        if is_ahead {
            self.chain = Some(to.clone());
            self.due = Some(reason);
        }
    }

    /// The oldest record under way stands in the feed. Tells whether records of another stand before it.
    pub fn acknowledged(&mut self, offset: u64, now: Instant) -> bool {
        let is_shared = offset > self.feed_end;
        if let Some(sent) = self.under_way.pop_front() {
            self.under_way_bytes -= sent.bytes;
        }
        // Offsets that go back are those of a topic that was made again: its old snapshots lead nowhere.
        if offset < self.feed_end {
            self.due = Some("topic_recreated");
            self.settled = offset;
            self.settling = (now, offset);
        }
        if now.since(self.settling.0) >= SETTLED_AFTER {
            self.settled = self.settling.1;
            self.settling = (now, offset);
        }
        self.feed_end = offset + 1;
        self.heard_at = now;
        is_shared
    }

    /// The snapshot topic was looked at. An end that goes back is that of one that was made again, without the snapshots
    /// that were there.
    pub fn snapshots_end_at(&mut self, end: u64) {
        if end < self.snapshots_end {
            self.due = Some("topic_recreated");
        }
        self.snapshots_end = end;
    }

    /// Whether more may be appended.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.under_way.len() < UNDER_WAY_MAX && self.under_way_bytes < UNDER_WAY_BYTES_MAX
    }

    /// Since when the oldest record waits that the log has not acknowledged.
    #[must_use]
    pub fn waits_since(&self) -> Option<Instant> {
        self.under_way.front().map(|sent| sent.since)
    }

    /// Whether the log has left a record unanswered for too long.
    #[must_use]
    pub fn is_stalled(&self, now: Instant) -> bool {
        self.waits_since().is_some_and(|since| now.since(since) > STALLED_AFTER)
    }

    /// Time since the log last took something; grows while it is away.
    #[must_use]
    pub fn lag(&self, now: Instant) -> Duration {
        now.since(self.heard_at)
    }

    /// Why a snapshot of the own state is due, if one is and that state is fit for it.
    #[must_use]
    pub fn snapshot_due(&self, own: &Position, now: Instant) -> Option<&'static str> {
        let falls_short =
            |reached: &Position| own.relation(reached) == Relation::Same(std::cmp::Ordering::Less);
        if self.reached.as_ref().is_some_and(falls_short) {
            return None;
        }
        if self.due.is_some() {
            return self.due;
        }
        if self.bytes_since >= self.schedule.every_bytes {
            return Some("bytes");
        }
        (now.since(self.snapshot_at) >= self.schedule.every).then_some("interval")
    }

    /// A snapshot of the own state is being written. Gives the feed offset that stands in it: no record before it is
    /// missing in the state. Some of those after it may be in the state too; they are duplicates then.
    pub fn snapshot_begun(&mut self, now: Instant) -> u64 {
        self.writing = self.due.take().or(Some("interval"));
        self.snapshot_at = now;
        self.bytes_since = 0;
        self.settled
    }

    /// The snapshot that was being written stands in the log.
    pub fn snapshot_written(&mut self) {
        self.writing = None;
    }

    /// What the next plan must know of this one.
    #[must_use]
    pub fn owed(&self) -> Owed {
        Owed { due: self.due.or(self.writing), snapshot_at: self.snapshot_at }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rollcall_model::{Bookmark, Delta, Incarnation, Region, Revision, StateDigest};

    use super::*;

    const SCHEDULE: Schedule = Schedule { every: Duration::from_secs(300), every_bytes: 1_000 };

    fn at(incarnation: &str, revision: u64) -> Position {
        Position::new(Incarnation::parse(incarnation).unwrap(), Revision(revision))
    }

    fn delta(incarnation: &str, from: u64, to: u64) -> FeedItem {
        let region = Region::parse("us-east").unwrap();
        let (from, to) = (at(incarnation, from), at(incarnation, to));
        FeedItem::Delta(Arc::new(Delta { region, from, to, changes: Vec::new() }))
    }

    fn bookmark(revision: u64) -> FeedItem {
        FeedItem::Bookmark(Bookmark {
            region: Region::parse("us-east").unwrap(),
            from: at("1-a", revision),
            position: at("1-a", revision),
            count: 0,
            digest: StateDigest::EMPTY,
            age: Some(Duration::ZERO),
            stamp: None,
        })
    }

    fn now(ms: u64) -> Instant {
        Instant(Duration::from_millis(ms))
    }

    fn tail(position: Option<Position>, offsets: std::ops::Range<u64>) -> Tail {
        Tail { position, offsets, torn_at: None }
    }

    const NOTHING: Owed = Owed { due: None, snapshot_at: Instant(Duration::ZERO) };

    fn begun(chain: u64) -> Plan {
        let near = at("1-a", chain);
        Plan::begin(
            SCHEDULE,
            &tail(Some(near.clone()), 0..7),
            &at("1-a", 20),
            Some((&near, 3)),
            NOTHING,
            now(0),
        )
    }

    #[test]
    fn i33_the_chain_goes_on_where_the_tail_ends() {
        let mut plan = begun(10);
        assert_eq!(plan.since(&at("1-a", 20)), at("1-a", 10));
        assert_eq!(plan.offer(&delta("1-a", 8, 10), 9, now(1)), Offer::LeaveOut, "the feed has it");
        assert_eq!(plan.offer(&delta("1-a", 9, 12), 9, now(1)), Offer::Append, "an overlap is harmless");
        assert_eq!(plan.offer(&delta("1-a", 12, 13), 9, now(1)), Offer::Append);
        assert_eq!(plan.snapshot_due(&at("1-a", 20), now(1)), None);
    }

    #[test]
    fn a_chain_that_cannot_go_on_makes_a_snapshot_due() {
        let mut plan = begun(10);
        assert_eq!(plan.offer(&bookmark(15), 9, now(1)), Offer::LeaveOut, "it would hide the gap");
        assert_eq!(plan.offer(&delta("1-a", 11, 12), 9, now(1)), Offer::Append);
        assert_eq!(plan.snapshot_due(&at("1-a", 20), now(1)), Some("gap"));
        let mut plan = begun(10);
        plan.jumped(&at("2-b", 3), "new_incarnation");
        assert_eq!(plan.snapshot_due(&at("1-a", 20), now(1)), Some("new_incarnation"));
        assert_eq!(plan.snapshot_begun(now(1)), 7);
        assert_eq!(plan.offer(&delta("2-b", 3, 4), 9, now(1)), Offer::Append);
        assert_eq!(plan.snapshot_due(&at("1-a", 20), now(1)), None);
    }

    #[test]
    fn a_snapshot_is_due_at_start_unless_a_near_one_connects() {
        let own = at("1-a", 20);
        let begin = |tail: Tail, snapshot: Option<(&Position, u64)>| {
            Plan::begin(SCHEDULE, &tail, &own, snapshot, NOTHING, now(0)).snapshot_due(&own, now(0))
        };
        let chain = Some(at("1-a", 10));
        assert_eq!(begin(tail(None, 0..0), None), Some("started"));
        assert_eq!(begin(tail(chain.clone(), 0..9), None), Some("started"));
        assert_eq!(begin(tail(chain.clone(), 5..9), Some((&own, 4))), Some("started"), "forgotten");
        assert_eq!(begin(tail(chain.clone(), 0..90_000), Some((&own, 4))), Some("started"), "far");
        assert_eq!(begin(tail(chain.clone(), 0..9), Some((&own, 12))), Some("started"), "another topic");
        assert_eq!(begin(tail(chain, 0..9), Some((&own, 4))), None);
        assert_eq!(begin(tail(Some(at("1-z", 10)), 0..9), Some((&own, 4))), Some("new_incarnation"));
    }

    #[test]
    fn a_hole_before_the_tail_makes_a_snapshot_due() {
        let near = at("1-a", 10);
        let (own, torn) = (at("1-a", 20), Tail { torn_at: Some(4), ..tail(Some(near.clone()), 0..7) });
        let due = |snapshot| {
            Plan::begin(SCHEDULE, &torn, &own, Some((&near, snapshot)), NOTHING, now(0))
                .snapshot_due(&own, now(0))
        };
        assert_eq!(due(4), Some("gap"));
        assert_eq!(due(5), None, "one from behind it is there");
    }

    #[test]
    fn what_a_session_leaves_undone_the_next_one_does() {
        let (near, own) = (at("1-a", 10), at("1-a", 20));
        let next = |owed| {
            Plan::begin(SCHEDULE, &tail(Some(near.clone()), 0..7), &own, Some((&near, 3)), owed, now(200_000))
        };
        let mut plan = begun(10);
        plan.jumped(&at("1-a", 15), "too_large");
        assert_eq!(next(plan.owed()).snapshot_due(&own, now(200_000)), Some("too_large"), "not begun");
        plan.snapshot_begun(now(1_000));
        assert_eq!(next(plan.owed()).snapshot_due(&own, now(200_000)), Some("too_large"), "not finished");
        plan.snapshot_written();
        let next = next(plan.owed());
        assert_eq!(next.snapshot_due(&own, now(300_000)), None);
        assert_eq!(
            next.snapshot_due(&own, now(301_000)),
            Some("interval"),
            "short sessions put none of them off"
        );
    }

    #[test]
    fn snapshots_come_after_bytes_and_after_time() {
        let mut plan = begun(10);
        assert_eq!(plan.offer(&delta("1-a", 10, 11), 999, now(1)), Offer::Append);
        assert_eq!(plan.snapshot_due(&at("1-a", 20), now(1)), None);
        assert_eq!(plan.offer(&delta("1-a", 11, 12), 1, now(1)), Offer::Append);
        assert_eq!(plan.snapshot_due(&at("1-a", 20), now(1)), Some("bytes"));
        plan.snapshot_begun(now(1));
        assert_eq!(plan.snapshot_due(&at("1-a", 20), now(300_000)), None);
        assert_eq!(plan.snapshot_due(&at("1-a", 20), now(300_001)), Some("interval"));
    }

    #[test]
    fn what_is_under_way_is_bounded_by_number_and_bytes() {
        let mut plan = begun(0);
        for revision in 0..UNDER_WAY_MAX as u64 {
            assert!(plan.has_room());
            plan.offer(&delta("1-a", revision, revision + 1), 1, now(0));
        }
        assert!(!plan.has_room());
        plan.acknowledged(7, now(1));
        assert!(plan.has_room());
        let mut plan = begun(0);
        for revision in 0..8 {
            plan.offer(&delta("1-a", revision, revision + 1), BODY_BYTES_MAX, now(0));
        }
        assert!(!plan.has_room());
    }

    #[test]
    fn i21_one_bookmark_at_most_waits_for_the_log() {
        let mut plan = begun(10);
        assert_eq!(plan.offer(&bookmark(10), 9, now(1)), Offer::Append);
        assert_eq!(plan.offer(&bookmark(10), 9, now(2)), Offer::LeaveOut);
        plan.acknowledged(7, now(3));
        assert_eq!(plan.offer(&bookmark(10), 9, now(4)), Offer::Append);
        assert!(!plan.is_stalled(now(4)));
        assert!(plan.is_stalled(now(6_000)));
    }

    #[test]
    fn a_delta_too_large_for_a_record_goes_out_in_a_snapshot() {
        let mut plan = begun(10);
        assert_eq!(plan.offer(&delta("1-a", 10, 11), BODY_BYTES_MAX + 1, now(1)), Offer::TooLarge);
        assert_eq!(plan.snapshot_due(&at("1-a", 20), now(1)), Some("too_large"));
        assert_eq!(
            plan.offer(&delta("1-a", 11, 12), 9, now(1)),
            Offer::Append,
            "the chain goes on behind it"
        );
    }

    #[test]
    fn f28_offsets_that_go_back_make_a_snapshot_due() {
        let mut plan = begun(10);
        plan.offer(&delta("1-a", 10, 11), 9, now(1));
        plan.acknowledged(0, now(1));
        assert_eq!(plan.snapshot_due(&at("1-a", 20), now(1)), Some("topic_recreated"));
        assert_eq!(plan.snapshot_begun(now(1)), 0);
    }

    #[test]
    fn f28_snapshots_that_are_gone_make_one_due() {
        let mut plan = begun(10);
        plan.snapshots_end_at(4);
        plan.snapshots_end_at(6);
        assert_eq!(plan.snapshot_due(&at("1-a", 20), now(1)), None);
        plan.snapshots_end_at(0);
        assert_eq!(plan.snapshot_due(&at("1-a", 20), now(1)), Some("topic_recreated"));
    }

    #[test]
    fn i34_a_snapshot_leaves_no_gap_behind_another_publishers_records() {
        let own = at("1-a", 20);
        let mut plan = Plan::begin(SCHEDULE, &tail(Some(at("1-a", 22)), 0..9), &own, None, NOTHING, now(0));
        assert_eq!(plan.since(&own), own);
        assert_eq!(plan.snapshot_due(&own, now(0)), None, "the feed holds more than the state");
        assert_eq!(plan.offer(&delta("1-a", 20, 22), 9, now(0)), Offer::LeaveOut);
        assert_eq!(plan.snapshot_due(&at("1-a", 22), now(0)), Some("started"));
        // Its records stand between ours, and may be ahead of us for a moment.
        for (second, offset) in [(1, 12), (3, 20), (6, 30), (9, 40), (12, 50)] {
            plan.offer(&delta("1-a", 20 + second, 21 + second), 9, now(second * 1_000));
            plan.acknowledged(offset, now(second * 1_000));
        }
        assert_eq!(plan.snapshot_begun(now(12_000)), 30, "the end of the feed six seconds ago");
    }
}
