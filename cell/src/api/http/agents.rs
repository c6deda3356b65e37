//! Readers: agents, regions, removals.

use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use serde::Serialize;

use crate::api::http::json::{self, RegionJson, RemovalJson, Shown};
use crate::api::http::lists::Source;
use crate::api::http::parameters::Parameters;
use crate::api::http::subject::Subject;
use crate::api::http::{Answer, Shared};
use crate::api::reading;
use crate::regions::Which;

pub(super) async fn list(State(api): State<Shared>, uri: Uri) -> Answer {
    let from = Source { regions: &api.regions, keeper: &api.registrar.keeper, unread: &api.unread };
    let answered = api.lists.answer(uri.query().unwrap_or_default(), from, api.clock.now()).await?;
    Ok(json::hinted(json::written(StatusCode::OK, Body::new(answered.body)), answered.hint))
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
    json::read(&api.unread, &shown.agent(&region, &found))
}

#[derive(Serialize)]
struct RegionList<'a> {
    regions: Vec<RegionJson<'a>>,
}

pub(super) async fn regions(State(api): State<Shared>, parameters: Parameters) -> Answer {
    parameters.close()?;
    let (views, now) = (api.regions.now(&Which::All)?, api.clock.now());
    let regions = views.iter().map(|view| json::region(api.regions.own(), view, now)).collect();
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
    json::read(&api.unread, &Removals { removals })
}
