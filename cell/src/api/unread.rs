//! Answers that wait until their callers have taken them: how many bytes of them a process holds.
//!
//! A caller that reads slowly, or not at all until it is cut, leaves its answer in memory meanwhile. So large answers are
//! weighed from when they turn out to be large until the last byte of them is with the system.
//!
//! Promises: what is weighed is together at most [`limits::UNREAD_BYTES_MAX`], whoever asks; what has no room is refused at
//! once, and the rest of it is never written. Small answers always pass: what they can cost is bounded with the
//! connections. Bytes that several callers share weigh once. Never here: how large one answer may be.

use std::sync::Arc;

use bytes::Bytes;
use rollcall_model::{Code, limits};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::refusal::Refusal;

/// What is weighed is counted in units of so many bytes.
const UNIT: usize = 1024;
const UNITS_MAX: u32 = (limits::UNREAD_BYTES_MAX / UNIT) as u32;

/// The room of a process. Cloned for each face.
#[derive(Clone, Debug)]
pub struct Unread(Arc<Semaphore>);

impl Default for Unread {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(UNITS_MAX as usize)))
    }
}

/// Room for one answer, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Held(OwnedSemaphorePermit);

impl Unread {
    /// Whether an answer of so many bytes passes unweighed.
    pub(crate) const fn passes(bytes: usize) -> bool {
        bytes <= limits::UNREAD_SMALL_BYTES
    }

    /// Takes room for an answer of so many bytes.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn take(&self, bytes: usize) -> Result<Held, Refusal> {
        let room = Arc::clone(&self.0).try_acquire_many_owned(units(bytes));
        room.map(Held).map_err(|_| {
            let most = limits::UNREAD_BYTES_MAX / (1024 * 1024);
            let detail = format!(
                "{most} MiB of large answers wait for their callers to take them: ask again later, or for less at once \
                 (limit)"
            );
            Refusal::new(Code::Overloaded, detail)
        })
    }

    /// The same bytes, weighed until they are dropped if they are many.
    ///
    /// # Errors
    /// There is no room.
    pub(crate) fn weigh(&self, bytes: Bytes) -> Result<Bytes, Refusal> {
        if Self::passes(bytes.len()) {
            return Ok(bytes);
        }
        Ok(Arc::new(self.take(bytes.len())?).over(bytes))
    }
}

impl Held {
    /// Gives back all but the room for so many bytes.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let rest = self.0.num_permits().saturating_sub(units(bytes) as usize);
        drop(self.0.split(rest));
    }

    /// These bytes, which hold the room as long as anybody has a part of them.
    pub(crate) fn over(self: Arc<Self>, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Weighed { bytes, _held: self })
    }
}

/// More than all there is weighs as much as that: it passes when nothing else waits.
fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(UNITS_MAX).min(UNITS_MAX)
}

struct Weighed {
    bytes: Bytes,
    _held: Arc<Held>,
}

impl AsRef<[u8]> for Weighed {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: usize = 2 * 1024 * 1024;

    fn fill(unread: &Unread) -> Vec<Bytes> {
        let answer = || unread.weigh(vec![0; LARGE].into()).ok();
        std::iter::from_fn(answer).take(1_000).collect()
    }

    #[test]
    fn large_answers_are_bounded_together_and_small_ones_always_pass() {
        let unread = Unread::default();
        let mut waiting = fill(&unread);
        assert_eq!(waiting.len(), limits::UNREAD_BYTES_MAX / LARGE);
        let refused = unread.weigh(vec![0; limits::UNREAD_SMALL_BYTES + 1].into()).unwrap_err();
        assert_eq!(refused.code, Code::Overloaded);
        assert!(refused.retry_after.is_some());
        assert!(unread.weigh(vec![0; limits::UNREAD_SMALL_BYTES].into()).is_ok());
        waiting.pop();
        assert!(unread.weigh(vec![0; LARGE].into()).is_ok());
    }

    #[test]
    fn an_answer_holds_its_room_until_the_last_part_of_it_is_gone() {
        let unread = Unread::default();
        let mut waiting = fill(&unread);
        let mut last = waiting.pop().unwrap();
        let part = last.split_off(LARGE - 1);
        drop(last);
        assert!(unread.take(LARGE).is_err(), "a byte of it is still to be sent");
        drop(part);
        assert!(unread.take(LARGE).is_ok());
    }

    #[test]
    fn what_was_taken_too_much_is_given_back_at_once() {
        let unread = Unread::default();
        let mut held = unread.take(limits::UNREAD_BYTES_MAX).unwrap();
        assert!(unread.take(UNIT).is_err());
        held.shrink(LARGE);
        let rest = unread.take(limits::UNREAD_BYTES_MAX - LARGE).unwrap();
        assert!(unread.take(UNIT).is_err());
        drop((held, rest));
        assert!(unread.take(usize::MAX).is_ok(), "what is larger than everything passes alone");
    }
}
