//! `GET /v1/resolve`: what a caller's own resolver would answer, for people and small tools.
//!
//! Promises: the decision is the model's, as it is in the SDK; asked of this cell's views as they are now. Never here: a
//! choice of its own, or anything that a call between agents should wait for.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use rollcall_model::resolve::{Asked, everybody, resolve};
use rollcall_model::route::{For, unmeasured};
use rollcall_model::{Code, Freshness, Invalid, Query, Reach, Region, limits};
use serde::Serialize;

use crate::api::hint;
use crate::api::http::json::{self, Agent, RegionJson};
use crate::api::http::parameters::Parameters;
use crate::api::http::row::Row;
use crate::api::http::{Answer, Shared};
use crate::random;
use crate::refusal::Refusal;
use crate::regions::Regions;

/// States older than this are not asked: the SDK's own limit, a day.
const AGE_MAX: Duration = limits::AGE_MAX;
/// Different questions that each have their turn. Two that fall together share one, which costs them evenness alone.
const TURNS: usize = 256;

/// Whose turn it is, for each question: round robin is even for whoever repeats one.
#[derive(Clone)]
pub struct Turns(Arc<[AtomicU64]>);

impl Default for Turns {
    fn default() -> Self {
        Self((0..TURNS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Turns {
    fn next(&self, question: impl std::fmt::Debug) -> u64 {
        let mut hasher = DefaultHasher::new();
        format!("{question:?}").hash(&mut hasher);
        let at = usize::try_from(hasher.finish() % TURNS as u64).unwrap_or_default();
        self.0.get(at).map_or(0, |turn| turn.fetch_add(1, Ordering::Relaxed))
    }
}

/// What stands behind the candidates.
#[derive(Serialize)]
struct Rest<'a> {
    regions: Vec<RegionJson<'a>>,
    outcome: &'static str,
}

#[derive(Serialize)]
struct Candidate<'a> {
    #[serde(flatten)]
    agent: Agent<'a>,
    age_ms: u64,
    freshness: &'static str,
}

pub(super) async fn answer(State(api): State<Shared>, mut parameters: Parameters) -> Answer {
    let which = parameters.which();
    let limit = parameters.limit();
    let internal = parameters.flag("internal");
    let reach = parameters.reach();
    let wish = parameters.wish();
    let route = parameters.checked(wish.route()).unwrap_or_default();
    let query = Query { internal, ..parameters.query() };
    parameters.close()?;
    known(&api.regions, &reach)?;
    let views = api.regions.in_order(&which)?;
    let now = api.clock.now();
    let asked = Asked { views: &views, query: &query, reach: &reach, age_max: AGE_MAX };
    let found = resolve(asked, now, everybody);
    let outcome = found.outcome();
    let mut candidates: Vec<_> = found.collect();
    let caller = For {
        zone: wish.from_zone.as_ref(),
        turn: api.turns.next((&which, &query, &reach)),
        measured: &unmeasured,
    };
    route.order(&mut candidates, caller, &mut random::chance);
    candidates.truncate(limit);
    let mut row = Row::behind(b"{\"candidates\":[", &api.unread);
    for candidate in &candidates {
        let shown = Candidate {
            agent: json::told(candidate.region, candidate.registration, internal),
            age_ms: json::millis(candidate.age),
            freshness: Freshness::of(Some(candidate.age)).as_str(),
        };
        // They are in order: those that have no room are the last ones, as they are beyond the limit.
        if !row.add(&shown).await? {
            break;
        }
    }
    // In the order of every answer; the one they are asked in follows from the question.
    let own = api.regions.own();
    let mut told: Vec<_> = views.iter().collect();
    told.sort_by_key(|view| (view.region() != own, view.region()));
    let regions = told.into_iter().map(|view| json::region(own, view, now)).collect();
    let mut rest = Vec::new();
    json::write(&mut rest, &Rest { regions, outcome: outcome.as_str() })?;
    // One object of both: what opens the rest closes the row.
    if let Some(first) = rest.first_mut() {
        *first = b',';
    }
    rest.insert(0, b']');
    let hint = if candidates.is_empty() { hint::of(&api.regions, &query)? } else { None };
    Ok(json::hinted(json::written(StatusCode::OK, row.close(&rest).into()), hint))
}

/// Refuses regions that this cell does not serve: a name with a typing error must not read like a region that is away.
fn known(regions: &Regions, reach: &Reach) -> Result<(), Refusal> {
    let strange = |(parameter, region): (&'static str, &Region)| {
        let is_strange = !regions.serves(region);
        is_strange.then(|| Invalid::new(Code::InvalidParameter, parameter, regions.foreign(region)))
    };
    let found: Vec<_> = reach.named().filter_map(strange).collect();
    if found.is_empty() { Ok(()) } else { Err(Refusal::invalid(found)) }
}
