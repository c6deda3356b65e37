//! What the process says about itself.

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use rollcall_model::Code;
use serde_json::json;

use crate::api::http::parameters::Parameters;
use crate::api::http::{Answer, Shared};
use crate::refusal::Refusal;
use crate::regions::Which;

pub(super) fn text(text: String) -> Response {
    ([(CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}

/// The process answers. It depends on nothing else.
pub(super) async fn live(parameters: Parameters) -> Answer {
    parameters.close()?;
    Ok(text("live\n".into()))
}

/// The own region's state can be served; green also while the store is away.
pub(super) async fn ready(State(api): State<Shared>, mut parameters: Parameters) -> Answer {
    let verbose = parameters.flag("verbose");
    parameters.close()?;
    if api.stopping.is_cancelled() {
        return Err(Refusal::new(Code::Draining, "the process is shutting down"));
    }
    let lines = if verbose { parts(&api)? } else { Vec::new() };
    if !api.regions.can_serve() {
        let waits = format!("the state of {} is not loaded yet", api.regions.own());
        let told = std::iter::once(waits).chain(lines).collect::<Vec<_>>().join("; ");
        return Err(Refusal::new(Code::ViewNotLoaded, told));
    }
    let lines = lines.into_iter().map(|line| line + "\n");
    Ok(text(std::iter::once("ready\n".to_owned()).chain(lines).collect()))
}

/// How the parts of the process are doing, a line each.
fn parts(api: &Shared) -> Result<Vec<String>, Refusal> {
    let now = api.clock.now();
    let mut lines = Vec::new();
    for view in api.regions.now(&Which::All)? {
        let own = view.region() == api.regions.own();
        let role = if own { "own" } else { "view, not needed to be ready" };
        lines.push(format!("{} ({role}): {}", view.region(), view.freshness(now).as_str()));
        lines.extend(api.sources.line(&view));
    }
    let office = if api.registrar.keeper.term().is_some() { "this process" } else { "not this process" };
    lines.push(format!("store (not needed to be ready): {}", store(api)));
    lines.extend(api.unsaved.lines());
    lines.push(format!("keeper (not needed to be ready): {office}"));
    Ok(lines)
}

/// How the store is, with what to do behind the last colon unless it is well.
fn store(api: &Shared) -> String {
    // A store that answered nothing since is not known to be full still.
    if let Some(ailing) = api.silence.now() {
        return ailing.to_string();
    }
    match api.space.lacks() {
        Some((bound, time)) => format!("out of space for {} s: {}", time.as_secs(), bound.remedy()),
        None => "it answers".to_owned(),
    }
}

/// The figures, for Prometheus.
pub(super) async fn metrics(State(api): State<Shared>, parameters: Parameters) -> Answer {
    parameters.close()?;
    Ok(([(CONTENT_TYPE, rollcall_runtime::meter::CONTENT_TYPE)], (api.metrics)()).into_response())
}

/// Which build this is.
pub(super) async fn version(State(api): State<Shared>, parameters: Parameters) -> Answer {
    parameters.close()?;
    let region = api.regions.own().as_str();
    Ok(Json(json!({"version": api.version, "commit": api.commit, "region": region, "role": "cell"}))
        .into_response())
}
