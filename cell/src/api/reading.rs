//! What readers ask, over one view or all of them; pure, and the same for both faces.
//!
//! Promises: an answer comes from views as they were at one moment; a view that was never loaded is said to be so and
//! never counts as empty.

use std::sync::Arc;

use rollcall_model::{
    Code, InstanceId, Invalid, Position, Query, Region, Registration, Removal, View, limits,
};

use crate::refusal::Refusal;

/// A place in a list: the last entry shown, and of which question. Entries that come or go elsewhere do not move it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    question: u64,
    region: Region,
    id: InstanceId,
}

/// Digits of a question in a token.
const QUESTION_DIGITS: usize = 16;

impl Place {
    /// Just behind the registration that a page of these views ends with.
    pub(super) fn behind(last: &Registration, region: &Region, views: &[Arc<View>], query: &Query) -> Self {
        Self { question: question(views, query), region: region.clone(), id: last.declared.id.clone() }
    }

    /// The token: opaque to callers, safe in a URL.
    pub(super) fn token(&self) -> String {
        use std::fmt::Write as _;
        let question = format!("{:0QUESTION_DIGITS$x}", self.question);
        format!("{} {}", self.region, self.id).bytes().fold(question, |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }

    /// Reads a token of ours.
    pub(super) fn parse(token: &str) -> Option<Self> {
        let (question, place) = token.split_at_checked(QUESTION_DIGITS)?;
        let question =
            question.bytes().try_fold(0, |number, byte| Some(number * 16 + u64::from(digit(byte)?)))?;
        let pairs = place.as_bytes().chunks(2);
        let bytes: Option<Vec<u8>> = pairs
            .map(|pair| match pair {
                [high, low] => Some(digit(*high)? * 16 + digit(*low)?),
                _ => None,
            })
            .collect();
        let text = String::from_utf8(bytes?).ok()?;
        let (region, id) = text.split_once(' ')?;
        Some(Self { question, region: Region::parse(region).ok()?, id: InstanceId::parse(id).ok()? })
    }
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

fn question(views: &[Arc<View>], query: &Query) -> u64 {
    query.fingerprint(views.iter().map(|view| view.region()))
}

/// The refusal of a token that is not ours, or of another question: an empty page would read as the end of the list.
pub(super) fn foreign_token() -> Invalid {
    let detail = "it is no token of this list: take next_page_token as it was given and ask the same again, limit alone may \
                  differ; or leave it out to begin anew";
    Invalid::new(Code::InvalidParameter, "page_token", detail)
}

/// Walks the views from a place on: all that match, in order of region and id, each with which of the views it is in.
///
/// # Errors
/// A place in the list of another question.
pub(super) fn walk<'a>(
    views: &'a [Arc<View>],
    query: &'a Query,
    from: Option<&'a Place>,
) -> Result<impl Iterator<Item = (usize, &'a Arc<Registration>)>, Refusal> {
    let first = match from {
        None => 0,
        Some(place) => views
            .iter()
            .position(|view| view.region() == &place.region)
            .filter(|_| place.question == question(views, query))
            .ok_or_else(|| Refusal::invalid(vec![foreign_token()]))?,
    };
    let after = move |at| from.filter(|_| at == first).map(|place| place.id.as_str());
    let states = views.iter().enumerate().skip(first).filter_map(|(at, view)| Some((at, view.state()?)));
    Ok(states.flat_map(move |(at, state)| state.select(query, after(at)).map(move |one| (at, one))))
}

/// Finds one registration: the first view that has it.
///
/// # Errors
/// None has it; or, if one of them was never loaded, nobody knows.
pub(super) fn find(views: &[Arc<View>], id: &InstanceId) -> Result<(Region, Arc<Registration>), Refusal> {
    for view in views {
        if let Some(registration) = view.state().and_then(|state| state.get(id.as_str())) {
            return Ok((view.region().clone(), Arc::clone(registration)));
        }
    }
    let asked: Vec<_> = views.iter().map(|view| view.region().as_str()).collect();
    let hint = if views.len() == 1 { "; region= asks elsewhere" } else { "" };
    Err(nowhere(views, format!("{id} is not registered in {}{hint}", asked.join(", "))))
}

/// The refusal when nothing was found: not found, or not known.
pub(super) fn nowhere(views: &[Arc<View>], detail: String) -> Refusal {
    match views.iter().find(|view| view.state().is_none()) {
        None => Refusal::new(Code::NotFound, detail),
        Some(view) => {
            let region = view.region();
            Refusal::new(Code::ViewNotLoaded, format!("{region} was never loaded here, so nobody can say"))
        }
    }
}

/// One removal, with where it happened.
pub(super) struct Gone {
    /// In which region.
    pub region: Region,
    /// What happened.
    pub removal: Arc<Removal>,
    /// In which history, as far as this holder knows.
    pub position: Option<Position>,
}

/// The newest removals of all views. Within a region their order is its history's, whatever its clocks did meanwhile;
/// between regions there is nothing but the wall clock.
pub(super) fn removals(views: &[Arc<View>], id: Option<&InstanceId>, limit: usize) -> Vec<Gone> {
    let of_one = |view: &Arc<View>| {
        let newest = view.removals().iter().rev().filter(|removal| id.is_none_or(|id| &removal.id == id));
        let gone = newest.take(limit).map(|removal| Gone {
            region: view.region().clone(),
            removal: Arc::clone(removal),
            position: view.position().map(|now| Position::new(now.incarnation.clone(), removal.revision)),
        });
        let mut oldest_first: Vec<_> = gone.collect();
        oldest_first.reverse();
        oldest_first
    };
    let mut lists: Vec<_> = views.iter().map(of_one).collect();
    let mut newest = || {
        let at = |list: &Vec<Gone>| list.last().map(|gone| gone.removal.at);
        lists.iter_mut().rev().max_by_key(|list| at(list))?.pop()
    };
    std::iter::from_fn(&mut newest).take(limit).collect()
}

/// Reads a page size.
pub(super) fn limit(number: usize) -> Result<usize, String> {
    if (1..=limits::PAGE_MAX).contains(&number) {
        Ok(number)
    } else {
        Err(format!("it is 1-{}", limits::PAGE_MAX))
    }
}

#[cfg(test)]
mod tests {
    use rollcall_model::testing::{position, region, registration, removal};
    use rollcall_model::{Change, Delta, Removal, Snapshot, State, Timestamp};

    use super::*;

    #[test]
    fn f15_removals_are_newest_first_by_their_history_also_after_a_clock_was_ahead() {
        let mut view = View::new(region());
        let mut state = State::default();
        (1..=3).for_each(|n| drop(state.put(Arc::new(registration(&format!("a/b/{n}"), n, n)))));
        view.install(Snapshot::of(region(), position(1, 3), state), None, "started", Timestamp(0));
        for (n, at) in [(1, 50), (2, 900), (3, 60)] {
            let gone = Removal { at: Timestamp(at), ..removal(&format!("a/b/{n}"), n, 3 + n) };
            view.apply(&Arc::new(Delta {
                region: region(),
                from: position(1, 2 + n),
                to: position(1, 3 + n),
                changes: vec![Change::Remove(Arc::new(gone))],
            }));
        }
        let listed = removals(&[Arc::new(view)], None, 2);
        let ids: Vec<_> = listed.iter().map(|gone| gone.removal.id.as_str()).collect();
        assert_eq!(ids, ["a/b/3", "a/b/2"]);
    }
}
