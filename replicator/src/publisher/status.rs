//! What a publisher shows of itself, and the words for it.
//!
//! Promises to call publishing only what the log goes on to acknowledge: a record that waits for longer than [`PATIENCE`]
//! is told, long before the publisher gives the session up. One that has nothing under way is well, however long ago the
//! last record was. Never here: a decision; `plan` gives up, `standby` takes over.

use std::time::Duration;

use rollcall_model::{Instant, Position};

use crate::feed_log::Drift;

/// A log acknowledges within milliseconds, and across regions within tenths of a second; a bookmark goes out each second,
/// so that one that takes nothing is known within two.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the publisher shows of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Up to where the log has acknowledged the feed.
    pub position: Option<Position>,
    /// When the log last took something, from this publisher or, while that stands by, from another.
    pub heard_at: Option<Instant>,
    /// What waits for the log; nothing while nothing does.
    pub unanswered: Option<Unanswered>,
    /// Why there is no session; nothing while there is one.
    pub waiting_for: Option<String>,
    /// Whether another publishes, and this one waits for it to stop.
    pub is_standing_by: bool,
    /// What of the topics was otherwise than they would be created, when publishing last began.
    pub drift: Vec<Drift>,
}

/// A record that the log has not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// Since when the oldest of them waits.
    pub since: Instant,
    /// Where, and what the log's client said last, if it said anything.
    pub trouble: String,
}

/// What a publisher does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Nothing was tried to its end yet.
    Starting,
    /// The log takes what it is given.
    Publishing,
    /// Another publishes.
    StandingBy,
    /// It cannot; why.
    Waiting(String),
}

impl Status {
    /// What it does.
    #[must_use]
    pub fn doing(&self, now: Instant) -> Doing {
        let silent = self.unanswered.as_ref().filter(|unanswered| now.since(unanswered.since) > PATIENCE);
        match (&self.waiting_for, silent, self.heard_at) {
            (Some(reason), _, _) => Doing::Waiting(reason.clone()),
            (None, Some(Unanswered { since, trouble }), _) => {
                let seconds = now.since(*since).as_secs();
                Doing::Waiting(format!("the log has acknowledged nothing for {seconds} s: {trouble}"))
            }
            (None, None, Some(_)) if self.is_standing_by => Doing::StandingBy,
            (None, None, Some(_)) => Doing::Publishing,
            (None, None, None) => Doing::Starting,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Instant {
        Instant(Duration::from_millis(milliseconds))
    }

    #[test]
    fn a_log_that_acknowledges_nothing_is_told_after_a_second_and_one_with_nothing_to_do_never() {
        let quiet = Status { heard_at: Some(at(0)), ..Status::default() };
        assert_eq!(quiet.doing(at(60_000)), Doing::Publishing);
        let unanswered = Unanswered { since: at(500), trouble: "refused (log at h:9092)".into() };
        let silent = Status { unanswered: Some(unanswered), ..quiet.clone() };
        assert_eq!(silent.doing(at(1_500)), Doing::Publishing);
        let said = "the log has acknowledged nothing for 2 s: refused (log at h:9092)";
        assert_eq!(silent.doing(at(2_500)), Doing::Waiting(said.into()));
        // One that was about to take over says the same, and the reason of a session that ended is the better one.
        assert_eq!(
            Status { is_standing_by: true, ..silent.clone() }.doing(at(2_500)),
            silent.doing(at(2_500))
        );
        let ended = Status { waiting_for: Some("no cell".into()), ..silent };
        assert_eq!(ended.doing(at(2_500)), Doing::Waiting("no cell".into()));
        assert_eq!(Status { is_standing_by: true, ..quiet }.doing(at(9_000)), Doing::StandingBy);
        assert_eq!(Status::default().doing(at(0)), Doing::Starting);
    }
}
