//! What every answer says about its regions. All of it but the age follows from the view, which never changes: so it is
//! written once for a view, and the age into it for each answer.
//!
//! Promises: the bytes are those of [`json::region`]. One text is kept for each region. Never here: a view that is held.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rollcall_model::{Instant, Region, View};

use crate::api::http::json;
use crate::refusal::Refusal;

/// The texts of the newest views, one for each region.
#[derive(Default)]
pub(super) struct Standings(Mutex<Vec<Standing>>);

struct Standing {
    region: Region,
    /// Held weakly, so that no other one can stand at its address.
    view: Weak<View>,
    /// `{"region":…,"role":…,"state":"`
    before: Box<[u8]>,
    /// `,"position":…}`
    behind: Box<[u8]>,
}

/// Where the word for the age begins, and what stands behind the age: nothing before them is of anybody's choice but the
/// region's name, which has no quotation marks.
const WORD: &[u8] = b"\"state\":\"";
const AGE: &[u8] = b"\",\"age_ms\":";
const BEHIND: &[u8] = b",\"position\":";

impl Standings {
    /// Writes how the regions stand now, as a list.
    pub(super) fn write(
        &self,
        to: &mut Vec<u8>,
        own: &Region,
        views: &[Arc<View>],
        now: Instant,
    ) -> Result<(), Refusal> {
        to.push(b'[');
        for (nth, view) in views.iter().enumerate() {
            if nth > 0 {
                to.push(b',');
            }
            self.write_one(to, own, view, now)?;
        }
        to.push(b']');
        Ok(())
    }

    fn write_one(
        &self,
        to: &mut Vec<u8>,
        own: &Region,
        view: &Arc<View>,
        now: Instant,
    ) -> Result<(), Refusal> {
        if let Some(kept) = self.kept().iter().find(|kept| kept.view.as_ptr() == Arc::as_ptr(view)) {
            to.extend_from_slice(&kept.before);
            to.extend_from_slice(view.freshness(now).as_str().as_bytes());
            to.extend_from_slice(AGE);
            json::write(to, &view.age(now).map(json::millis))?;
            to.extend_from_slice(&kept.behind);
            return Ok(());
        }
        let begin = to.len();
        json::write(to, &json::region(own, view, now))?;
        if let Some(one) = to.get(begin..).and_then(|text| Standing::of(view, text)) {
            let mut all = self.kept();
            all.retain(|kept| kept.region != one.region);
            all.push(one);
        }
        Ok(())
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Standing>> {
        // Nothing in it is half done when somebody panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Standing {
    /// Takes apart what was written of a view.
    fn of(view: &Arc<View>, text: &[u8]) -> Option<Self> {
        let at = |part: &[u8]| text.windows(part.len()).position(|window| window == part);
        Some(Self {
            region: view.region().clone(),
            view: Arc::downgrade(view),
            before: text.get(..at(WORD)? + WORD.len())?.into(),
            behind: text.get(at(BEHIND)?..)?.into(),
        })
    }
}
