//! The watch as server-sent events. An event's id is the position that a watcher has all of when it has that event.
//!
//! Promises: only `snapshot_end`, `delta` and `bookmark` carry an id, so that a broken snapshot starts again. Text is
//! made when the connection asks for it, so a slow one holds nothing but its place.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse as _;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use rollcall_model::{Change, Code, Delta, Event, Invalid, Position, Query, Region, limits};
use serde::Serialize;

use crate::api::Api;
use crate::api::http::json::{Agent, PositionJson, millis, told};
use crate::api::http::parameters::Parameters;
use crate::api::http::{Answer, Shared};
use crate::api::watching::{Form, Recent, Said, Watching};
use crate::refusal::Refusal;
use crate::regions::{Served, Which};

/// After this long without an event a comment is sent, so that nothing on the way takes the connection for dead.
const PATIENCE: Duration = Duration::from_secs(10);
/// Where a browser says how far it came.
const LAST_EVENT_ID: &str = "last-event-id";

type Positions = BTreeMap<Region, Position>;

pub(super) async fn watch(
    State(api): State<Shared>,
    mut parameters: Parameters,
    headers: HeaderMap,
) -> Answer {
    let which = parameters.which();
    let internal = parameters.flag("internal");
    // The header is the newer of the two: a browser repeats the address that it was given at first.
    let is_again = headers.get(LAST_EVENT_ID).is_some_and(|value| !value.is_empty());
    let since = parameters.one("since", |text| positions(text, &which, &api, is_again));
    let query = Query { internal, ..parameters.query() };
    parameters.close()?;
    let served = api.regions.select(&which)?;
    if api.stopping.is_cancelled() {
        return Err(Refusal::new(Code::Draining, "the process is shutting down"));
    }
    let mut came_to = last_event_id(&headers, &which, &api)?.or(since).unwrap_or_default();
    let gone = told_gone(&mut came_to, &api);
    let waits = told_waiting(&served);
    let all = which == Which::All;
    let from = came_to.clone();
    let watching = Watching::new(
        &api.regions,
        served,
        (Form::Sse, &query),
        |region| from.get(region).cloned(),
        api.clock.clone(),
        api.stopping.clone(),
    );
    let seed = (watching, Told { internal, all, came_to });
    let text = stream::unfold(seed, |(mut watching, mut told)| async move {
        let text = match watching.next(Some(PATIENCE)).await {
            Said::Events(region, recent, events, _turn) => told.text(&region, &recent, events),
            Said::Nothing => Bytes::from_static(b": nothing new\n\n"),
            Said::Over => return None,
        };
        Some((Ok::<_, Infallible>(text), (watching, told)))
    });
    let first = gone.into_iter().chain(waits).map(Ok::<_, Infallible>);
    let text = stream::iter(first).chain(text);
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    Ok((headers, Body::from_stream(text)).into_response())
}

fn last_event_id(headers: &HeaderMap, which: &Which, api: &Api) -> Result<Option<Positions>, Refusal> {
    let Some(value) = headers.get(LAST_EVENT_ID).filter(|value| !value.is_empty()) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default();
    positions(text, which, api, true).map(Some).map_err(|detail| {
        Refusal::invalid(vec![Invalid::new(Code::InvalidParameter, "Last-Event-ID", detail)])
    })
}

/// A region that somebody watched here among all, and that was taken out since: what is known of it is told to count no
/// longer. Refused, a browser would give up on all the others for ever.
fn told_gone(came_to: &mut Positions, api: &Api) -> Option<Bytes> {
    let mut text = String::new();
    came_to.retain(|region, _| {
        let serves = api.regions.serves(region);
        if !serves {
            write(&mut text, "resync", None, &ResyncJson { region: region.as_str(), reason: "not_served" });
        }
        serves
    });
    (!text.is_empty()).then(|| text.into())
}

/// A word for people about regions of which there is nothing to send yet; to the others it is a comment.
fn told_waiting(served: &[Served]) -> Option<Bytes> {
    let views = served.iter().map(|served| served.view.borrow());
    let regions = views.filter(|view| view.state().is_none()).map(|view| view.region().to_string());
    let regions = regions.collect::<Vec<_>>().join(", ");
    (!regions.is_empty()).then(|| format!(": waiting for {regions}, never loaded here so far\n\n").into())
}

/// Reads `<incarnation>:<revision>`, or `<region>@<position>` joined by commas. A region that is not served here is
/// refused: a place in it was never given from here, and passed over it would be taken for kept. Only somebody who comes
/// again to all regions may name one that was taken out. One that is served and not asked for is passed over.
fn positions(text: &str, which: &Which, api: &Api, is_again: bool) -> Result<Positions, String> {
    let one = match which {
        Which::Own => Some(api.regions.own()),
        Which::Named(region) => Some(region),
        Which::All => None,
    };
    let found = parse_positions(text, one)?;
    let may_be_gone = is_again && one.is_none();
    match found.keys().find(|region| !api.regions.serves(region)) {
        Some(region) if !may_be_gone => Err(format!("this cell does not serve {region}")),
        Some(_) | None => Ok(found),
    }
}

fn parse_positions(text: &str, one: Option<&Region>) -> Result<Positions, String> {
    let mut found = Positions::new();
    for part in text.split(',') {
        let (region, position) = match (part.split_once('@'), one) {
            (Some((region, position)), _) => {
                (Region::parse(region).map_err(|finding| finding.detail)?, position)
            }
            (None, Some(region)) => (region.clone(), part),
            (None, None) => return Err("with region=all it is <region>@<position>, joined by commas".into()),
        };
        let position = Position::parse(position).map_err(|finding| finding.detail)?;
        if found.insert(region, position).is_some() {
            return Err("a region stands there twice".into());
        }
    }
    Ok(found)
}

#[derive(Serialize)]
struct BeginJson<'a> {
    region: &'a str,
    position: PositionJson<'a>,
    count: u64,
    digest: String,
}

#[derive(Serialize)]
struct EndJson<'a> {
    region: &'a str,
    position: PositionJson<'a>,
}

#[derive(Serialize)]
struct DeltaJson<'a> {
    region: &'a str,
    from: PositionJson<'a>,
    to: PositionJson<'a>,
    changes: Vec<ChangeJson<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum ChangeJson<'a> {
    Put(Box<Agent<'a>>),
    Remove { id: &'a str, epoch: String, reason: &'static str, actor: &'a str },
}

#[derive(Serialize)]
struct BookmarkJson<'a> {
    region: &'a str,
    position: PositionJson<'a>,
    count: u64,
    digest: String,
    age_ms: u64,
}

#[derive(Serialize)]
struct ResyncJson<'a> {
    region: &'a str,
    reason: &'a str,
}

/// What one watcher was told so far.
struct Told {
    internal: bool,
    all: bool,
    came_to: Positions,
}

impl Told {
    /// The text of some events of one region.
    fn text(&mut self, region: &Region, recent: &Recent, events: Vec<Event>) -> Bytes {
        // Of all regions, the id says more than the delta does.
        if !self.all
            && let [Event::Delta(delta)] = events.as_slice()
        {
            return recent.bytes(delta, || {
                let mut text = String::new();
                write(&mut text, "delta", Some(&delta.to.to_string()), &self.delta(region, delta));
                text.into()
            });
        }
        let mut text = String::new();
        for event in events {
            self.event(region, &event, &mut text);
        }
        text.into()
    }

    fn event(&mut self, region: &Region, event: &Event, text: &mut String) {
        let name = region.as_str();
        match event {
            Event::SnapshotBegin(head) => {
                // What came before no longer counts, and the snapshot does not count until it is whole.
                self.came_to.remove(region);
                let begin = BeginJson {
                    region: name,
                    position: PositionJson::from(&head.position),
                    count: head.count,
                    digest: head.digest.to_string(),
                };
                write(text, "snapshot_begin", None, &begin);
            }
            Event::Page(records) => {
                for registration in records {
                    write(text, "put", None, &told(region, registration, self.internal));
                }
            }
            Event::SnapshotEnd(_, position) => {
                let id = self.reached(region, position);
                write(text, "snapshot_end", Some(&id), &EndJson { region: name, position: position.into() });
            }
            Event::Delta(delta) => {
                let id = self.reached(region, &delta.to);
                write(text, "delta", Some(&id), &self.delta(region, delta));
            }
            Event::Bookmark(mark) => {
                let id = self.reached(region, &mark.position);
                let bookmark = BookmarkJson {
                    region: name,
                    position: PositionJson::from(&mark.position),
                    count: mark.count,
                    digest: mark.digest.to_string(),
                    age_ms: millis(mark.age.unwrap_or(limits::UNHEARD_AGE)),
                };
                write(text, "bookmark", Some(&id), &bookmark);
            }
            Event::Resync(_, reason) => {
                self.came_to.remove(region);
                write(text, "resync", None, &ResyncJson { region: name, reason });
            }
        }
    }

    fn delta<'a>(&'a self, region: &'a Region, delta: &'a Delta) -> DeltaJson<'a> {
        let change = |change: &'a Change| match change {
            Change::Put(registration) => ChangeJson::Put(Box::new(told(region, registration, self.internal))),
            Change::Remove(removal) => ChangeJson::Remove {
                id: removal.id.as_str(),
                epoch: removal.epoch.to_string(),
                reason: removal.reason.as_str(),
                actor: &removal.actor,
            },
        };
        DeltaJson {
            region: region.as_str(),
            from: PositionJson::from(&delta.from),
            to: PositionJson::from(&delta.to),
            changes: delta.changes.iter().map(change).collect(),
        }
    }

    /// Notes how far the watcher is, and says it as an id.
    fn reached(&mut self, region: &Region, position: &Position) -> String {
        self.came_to.insert(region.clone(), position.clone());
        if !self.all {
            return position.to_string();
        }
        let places: Vec<_> = self.came_to.iter().map(|(region, at)| format!("{region}@{at}")).collect();
        places.join(",")
    }
}

/// Writes one event. JSON has no line breaks of its own, so the data is one line.
fn write(text: &mut String, name: &str, id: Option<&str>, data: &impl Serialize) {
    let data = serde_json::to_string(data).unwrap_or_else(|error| {
        // Texts, numbers and lists of them have a JSON form.
        tracing::error!(%error, event = name, "event has no JSON form");
        "null".to_owned()
    });
    let _ = match id {
        None => write!(text, "event: {name}\ndata: {data}\n\n"),
        Some(id) => write!(text, "event: {name}\nid: {id}\ndata: {data}\n\n"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, one: Option<&str>) -> Result<Vec<String>, String> {
        let one = one.map(|name| Region::parse(name).unwrap());
        parse_positions(text, one.as_ref())
            .map(|found| found.iter().map(|(region, position)| format!("{region}@{position}")).collect())
    }

    #[test]
    fn a_position_is_of_the_region_watched_unless_it_says_so() {
        assert_eq!(read("1-a:5", Some("us")).unwrap(), ["us@1-a:5"]);
        assert_eq!(read("us@1-a:5,eu@2-b:7", None).unwrap(), ["eu@2-b:7", "us@1-a:5"]);
        assert_eq!(read("us@1-a:5,eu@2-b:7", Some("us")).unwrap(), ["eu@2-b:7", "us@1-a:5"]);
    }

    #[test]
    fn what_is_no_position_is_refused() {
        for (text, one) in [
            ("1-a:5", None),
            ("", Some("us")),
            ("5", Some("us")),
            ("1-a", Some("us")),
            ("US@1-a:5", None),
            ("us@", None),
            ("us@1-a:5,us@1-a:6", None),
            ("us@1-a:5,", None),
        ] {
            assert!(read(text, one).is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn an_event_is_its_name_id_and_one_line_of_data() {
        let mut text = String::new();
        write(&mut text, "resync", None, &ResyncJson { region: "us", reason: "a\nb" });
        write(&mut text, "delta", Some("1-a:5"), &7);
        assert_eq!(
            text,
            "event: resync\ndata: {\"region\":\"us\",\"reason\":\"a\\nb\"}\n\nevent: delta\nid: 1-a:5\ndata: 7\n\n"
        );
    }
}
