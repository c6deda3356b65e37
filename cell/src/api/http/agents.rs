//! Readers: agents, regions, removals.

use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;

use rollcall_model::Query;

use crate::api::http::json::{self, Agent, RegionJson, RemovalJson, Shown};
use crate::api::http::parameters::Parameters;
use crate::api::http::subject::Subject;
use crate::api::http::{Answer, Shared};
use crate::api::reading::{self, Place};
use crate::regions::Which;

#[derive(Serialize)]
struct Agents<'a> {
    agents: Vec<Agent<'a>>,
    regions: Vec<RegionJson>,
    next_page_token: Option<String>,
}

pub(super) async fn list(State(api): State<Shared>, mut parameters: Parameters) -> Answer {
    let which = parameters.which();
    let limit = parameters.limit();
    let place = parameters.place();
    let internal = parameters.flag("internal");
    let query = Query { internal, ..parameters.query() };
    parameters.close()?;
    let views = api.regions.now(&which)?;
    let listing = reading::list(&views, &query, limit, place.as_ref())?;
    let shown = Shown { api: &api, internal };
    let page = Agents {
        agents: listing.agents.iter().map(|(region, found)| shown.agent(region, found)).collect(),
        regions: views.iter().map(|view| json::region(&api, view)).collect(),
        next_page_token: listing.next.as_ref().map(Place::token),
    };
    json::answer(StatusCode::OK, &page)
}

pub(super) async fn get(
    State(api): State<Shared>,
    Subject(id): Subject,
    mut parameters: Parameters,
) -> Answer {
    let which = parameters.which();
    let internal = parameters.flag("internal");
    parameters.close()?;
    let (region, found) = reading::find(&api.regions.now(&which)?, &id)?;
    let shown = Shown { api: &api, internal };
    json::answer(StatusCode::OK, &shown.agent(&region, &found))
}

#[derive(Serialize)]
struct RegionList {
    regions: Vec<RegionJson>,
}

pub(super) async fn regions(State(api): State<Shared>, parameters: Parameters) -> Answer {
    parameters.close()?;
    let views = api.regions.now(&Which::All)?;
    let regions = views.iter().map(|view| json::region(&api, view)).collect();
    json::answer(StatusCode::OK, &RegionList { regions })
}

#[derive(Serialize)]
struct Removals<'a> {
    removals: Vec<RemovalJson<'a>>,
}

pub(super) async fn removals(State(api): State<Shared>, mut parameters: Parameters) -> Answer {
    let limit = parameters.limit();
    let id = parameters.id();
    parameters.close()?;
    let gone = reading::removals(&api.regions.now(&Which::All)?, id.as_ref(), limit);
    let removals =
        gone.iter().map(|gone| json::removal(&gone.region, &gone.removal, gone.position.as_ref())).collect();
    json::answer(StatusCode::OK, &Removals { removals })
}
