//! `GET /v1/agents`: lists, and the bytes of those that were asked for before.
//!
//! Callers ask for the same list again and again while none of its registrations changes. So what was written is kept
//! under the text of the question, together with which registrations it was written from. Each question is put to the
//! state anew; when just these registrations come out, the bytes are what would be written again. Nothing has to be
//! told of a change, and what changes elsewhere costs a kept answer nothing. While no view has changed at all, not even that
//! is done.
//!
//! Promises: an answer is byte for byte what it would be if nothing were kept. What depends on time is not kept: the
//! regions' standing is written into every answer, and marks of overdue leases are looked at again when they may have
//! changed. What is kept is bounded, and what was not asked for longest goes. Never here: who matches a question.

mod asked;
mod body;
mod page;
mod standings;

use std::sync::{Arc, Weak};

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use rollcall_model::{Instant, Registration, View};

use crate::api::hint;
use crate::api::unread::Unread;
use crate::keeper::{Calm, KeeperHandle};
use crate::refusal::Refusal;
use crate::regions::Regions;
use asked::Asked;
use body::Written;
use page::Page;
use standings::Standings;

/// Most bytes of all that is kept: the lists of some 3,500 agents of 50 instances each. A state of these 175,000 instances
/// is larger; and with half of it, callers that go through 2,000 such agents one after the other miss a fifth of them.
const BYTES_MAX: u64 = 128 * 1024 * 1024;
/// Most bytes of one answer that is kept, so that no few drive out the many; it is a list of a thousand and more.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;
/// So many answers are made room for at the start; more make room for themselves.
const ANSWERS: usize = 1_024;

/// Lists that were asked for before; clones share them.
#[derive(Clone)]
pub struct Lists {
    kept: Arc<Cache<Box<str>, Arc<Kept>, Weight>>,
    standings: Arc<Standings>,
}

impl Default for Lists {
    fn default() -> Self {
        Self { kept: Arc::new(Cache::with_weighter(ANSWERS, BYTES_MAX, Weight)), standings: Arc::default() }
    }
}

/// What lists are made from.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    /// The state.
    pub regions: &'a Regions,
    /// Who knows the leases of the own region.
    pub keeper: &'a KeeperHandle,
    /// Where answers weigh until they are taken.
    pub unread: &'a Unread,
}

/// An answer, and what is said beside it if it is empty.
pub(super) struct Answered {
    pub body: Written,
    pub hint: Option<String>,
}

/// An answer as far as it may be given again.
struct Kept {
    asked: Arc<Asked>,
    page: Arc<Page>,
    /// How long the marks in it are known to be right.
    calm: Option<Calm>,
}

/// What a kept answer weighs: its bytes, and as if all its registrations had gone from the state, and the views it was
/// seen in were held for it alone.
#[derive(Clone)]
struct Weight;

impl Weighter<Box<str>, Arc<Kept>> for Weight {
    fn weight(&self, text: &Box<str>, kept: &Arc<Kept>) -> u64 {
        let page = &kept.page;
        let entry = size_of::<Weak<Registration>>() + size_of::<Registration>() + 2 * size_of::<usize>();
        let bytes = page.agents.len() + page.next.len() + page.overdue.len();
        // What was asked is at most a few times as large as its text.
        let asked = size_of::<Asked>() + 4 * text.len();
        let views = page.views() * (size_of::<Weak<View>>() + size_of::<View>());
        let registrations = page.written_from.len() * entry;
        (size_of::<Kept>() + size_of::<Page>() + asked + bytes + registrations + views) as u64
    }
}

impl Lists {
    /// Answers a question.
    ///
    /// # Errors
    /// The text is no question, asks for a region that is not served here, or the answer is large and too much waits to be
    /// taken already.
    pub(super) async fn answer(
        &self,
        text: &str,
        from: Source<'_>,
        now: Instant,
    ) -> Result<Answered, Refusal> {
        let kept = self.kept.get(text);
        let asked = match &kept {
            Some(kept) => Arc::clone(&kept.asked),
            None => Arc::new(Asked::read(text)?),
        };
        let views = from.regions.now(&asked.which)?;
        let page = match kept {
            Some(kept) if kept.page.is_of(&asked, &views)? => {
                if kept.calm.is_some_and(|calm| from.keeper.lasts(calm, now)) {
                    return self.answered(&kept, from, &views, now);
                }
                Some(Arc::clone(&kept.page))
            }
            Some(_) | None => None,
        };
        // In a box: most are answered before it, and need no room for what comes here.
        let (kept, _held) = Box::pin(asked.write(page, &views, from, now)).await?;
        let answer = self.answered(&kept, from, &views, now);
        let kept = (Box::from(text), Arc::new(kept));
        // A page that had no room for the next one is another page when that one becomes smaller.
        if !kept.1.page.is_full && Weight.weight(&kept.0, &kept.1) <= ANSWER_BYTES_MAX {
            self.kept.insert(kept.0, kept.1);
        }
        answer
    }

    fn answered(
        &self,
        kept: &Kept,
        from: Source<'_>,
        views: &[Arc<View>],
        now: Instant,
    ) -> Result<Answered, Refusal> {
        // It follows from other views than those that were asked, so it is not kept with the page.
        let is_empty = kept.page.written_from.is_empty();
        let hint = if is_empty { hint::of(from.regions, &kept.asked.query)? } else { None };
        Ok(Answered { body: kept.page.answer(&self.standings, from, views, now)?, hint })
    }
}

#[cfg(test)]
mod tests;
