//! How old a state is that follows a store, by questions for the store's head (I20, I21).
//!
//! Who asks at one moment and is answered with the head knows that a state which has come as far was the head no earlier
//! than then, however long it took to come so far.

use std::collections::VecDeque;

use crate::position::Revision;
use crate::time::Instant;

/// Answers kept for a follower that lags: half a minute of four a second. Behind it the age only grows, and is never
/// wrong.
const ANSWERS_MAX: usize = 120;

/// Where the head was at which moments: both rise from each to the next.
#[derive(Clone, Debug, Default)]
pub struct Heads(VecDeque<(Instant, Revision)>);

impl Heads {
    /// A question that was asked at this moment is answered with this head. One that was overtaken by the answer to a
    /// later one is left out.
    pub fn answered(&mut self, asked: Instant, head: Revision) {
        if self.0.back().is_some_and(|(last, _)| asked <= *last) {
            return;
        }
        // What was the head then as well says less.
        while self.0.back().is_some_and(|(_, known)| *known >= head) {
            self.0.pop_back();
        }
        if self.0.len() < ANSWERS_MAX {
            self.0.push_back((asked, head));
        }
    }

    /// The latest moment since which a state that has come to `revision` is known to have been the head; revisions are
    /// asked for in rising order.
    pub fn reached(&mut self, revision: Revision) -> Option<Instant> {
        while self.0.get(1).is_some_and(|(_, head)| *head <= revision) {
            self.0.pop_front();
        }
        let (asked, head) = self.0.front()?;
        (*head <= revision).then_some(*asked)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const fn at(ms: u64) -> Instant {
        Instant(Duration::from_millis(ms))
    }

    #[test]
    fn i21_a_state_is_as_old_as_the_newest_question_whose_answer_it_has_reached() {
        let mut heads = Heads::default();
        assert_eq!(heads.reached(Revision(9)), None, "nobody asked");
        heads.answered(at(100), Revision(10));
        heads.answered(at(350), Revision(10));
        heads.answered(at(600), Revision(12));
        assert_eq!(heads.reached(Revision(9)), None, "there was more by then");
        assert_eq!(heads.reached(Revision(11)), Some(at(350)));
        assert_eq!(heads.reached(Revision(12)), Some(at(600)));
        assert_eq!(heads.reached(Revision(40)), Some(at(600)), "asked long ago is old, however far it came");
    }

    #[test]
    fn an_answer_that_was_overtaken_says_nothing_and_a_lower_head_asked_for_later_says_more() {
        let mut heads = Heads::default();
        heads.answered(at(500), Revision(12));
        heads.answered(at(250), Revision(11));
        assert_eq!(heads.reached(Revision(11)), None);
        heads.answered(at(750), Revision(11));
        assert_eq!(heads.reached(Revision(11)), Some(at(750)));
    }

    #[test]
    fn i21_answers_that_nobody_comes_to_are_bounded_and_leave_the_age_too_old_at_most() {
        let mut heads = Heads::default();
        for asked in 0..10 * ANSWERS_MAX as u64 {
            heads.answered(at(asked), Revision(asked));
        }
        assert_eq!(heads.0.len(), ANSWERS_MAX);
        assert_eq!(heads.reached(Revision(5_000)), Some(at(ANSWERS_MAX as u64 - 1)));
    }
}
