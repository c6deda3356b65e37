//! `rollcall watch`: what changes, a line each, as it happens.
//!
//! Promises: lines come out when their event is whole, in order. With `-o json` none is left out; the form for people
//! tells what changes, and only every half minute that nothing did. A stream that breaks off is opened again where it was,
//! for as long as the reader is there, and said on stderr; a cell that cannot be reached at first, or that refuses, ends
//! it. Never on stdout: a word about the connection.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use reqwest::{Method, Response};
use rollcall_model::Backoff;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::given;
use crate::args::{Output, QueryArgs};
use crate::exit::Exit;
use crate::http::{Call, Cell, Failure};
use crate::show::{Reader, Shown, put, show};
use crate::sse::{Event, Parser};
use crate::table::{cell, counted, position, seconds};

/// A bookmark comes every second from each region; for a person one in this time says as much.
const STILL_THERE: Duration = Duration::from_secs(30);
/// First and longest wait before the stream is opened again, full jitter: a cell is back within seconds of its restart.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// A stream that lived this long ends the row of failures.
const LASTING: Duration = Duration::from_secs(10);
/// Without a byte for this long the stream is dead: bookmarks come every second, and a watch that waits for a view to be
/// loaded is sent a comment every ten.
const SILENCE_MOST: Duration = Duration::from_secs(30);

pub(crate) async fn watch(url: &str, output: Output, query: QueryArgs, since: Option<String>) -> Shown {
    match follow(url, output, query, since).await {
        Ok(()) => Shown::words(Exit::Done, ""),
        Err(failure) => show(output, Err(failure), |_| Default::default()),
    }
}

/// How one stream ended.
enum Ended {
    /// Nobody reads any more.
    Unread,
    /// It broke off; why. It can be opened again.
    Broken(String),
}

async fn follow(url: &str, output: Output, query: QueryArgs, since: Option<String>) -> Result<(), Failure> {
    let cell = Cell::at(url)?;
    let asked = Call::new(Method::GET, &["v1", "watch"]).query(query.parameters());
    let open = async |since: Option<&String>| {
        cell.open(asked.clone().query(given([("since", since.cloned())]))).await
    };
    // Whoever cannot be reached now may never have been there: that is an answer to the first call, not an outage.
    let mut stream = open(since.as_ref()).await?;
    let (mut place, mut quiet) = (since, Quiet::default());
    let mut backoff = Backoff::new(RETRY.0, RETRY.1);
    loop {
        let began = Instant::now();
        let why = match take(stream, output, &mut place, &mut quiet).await? {
            Ended::Unread => return Ok(()),
            Ended::Broken(why) => why,
        };
        if began.elapsed() >= LASTING {
            backoff.reset();
        }
        let from = place.as_ref().map_or_else(|| "the beginning".to_owned(), Clone::clone);
        say(&format!("{}; going on from {from}", cell.broken(&why).words));
        let mut said = Instant::now();
        stream = loop {
            tokio::time::sleep(backoff.next(chance())).await;
            match open(place.as_ref()).await {
                Ok(stream) => break stream,
                Err(failure) if failure.exit == Exit::Unavailable => {
                    if said.elapsed() >= STILL_THERE {
                        said = Instant::now();
                        say(&format!("still trying: {}", failure.words));
                    }
                }
                // It will not be otherwise the next time.
                Err(failure) => return Err(go_on_later(failure, place.as_ref())),
            }
        };
        say("the stream is open again");
    }
}

/// Writes out the events of one stream, and keeps the place to go on from.
async fn take(
    stream: Response,
    output: Output,
    place: &mut Option<String>,
    quiet: &mut Quiet,
) -> Result<Ended, Failure> {
    let mut bytes = stream.bytes_stream();
    let mut parser = Parser::default();
    loop {
        let chunk = match tokio::time::timeout(SILENCE_MOST, bytes.next()).await {
            Ok(Some(Ok(chunk))) => chunk,
            Ok(Some(Err(error))) => return Ok(Ended::Broken(error.to_string())),
            Ok(None) => return Ok(Ended::Broken("the cell closed it".to_owned())),
            Err(_) => {
                return Ok(Ended::Broken(format!("nothing came for {} s", SILENCE_MOST.as_secs())));
            }
        };
        let Ok(events) = parser.take(&chunk) else {
            let words = "what comes is no event stream of a cell; check --url".to_owned();
            return Err(go_on_later(Failure { exit: Exit::Failed, body: None, words }, place.as_ref()));
        };
        for event in events {
            let line = match output {
                Output::Json => json_line(&event),
                Output::Table if quiet.hides(&event, Instant::now()) => {
                    *place = event.id.or(place.take());
                    continue;
                }
                Output::Table => text_line(&event),
            };
            match put(&format!("{line}\n")) {
                Ok(Reader::There) => {}
                Ok(Reader::Gone) => return Ok(Ended::Unread),
                Err(error) => {
                    let words = format!("the events could not be written: {error}");
                    return Err(Failure { exit: Exit::Failed, body: None, words });
                }
            }
            *place = event.id.or(place.take());
        }
    }
}

fn go_on_later(failure: Failure, place: Option<&String>) -> Failure {
    let go_on = place.map_or_else(String::new, |id| format!("; go on with --since {id}"));
    Failure { words: format!("{}{go_on}", failure.words.trim_end()), ..failure }
}

/// A word for people while the results go on. Nobody is left to be told when stderr is closed.
fn say(words: &str) {
    let _ = writeln!(std::io::stderr(), "{words}");
}

/// Evenly from 0 to 1.
fn chance() -> f64 {
    let bits = uuid::Uuid::new_v4().as_u128() & u128::from(u32::MAX);
    u32::try_from(bits).map_or(0.5, |bits| f64::from(bits) / f64::from(u32::MAX))
}

/// When a line about each region was last due.
#[derive(Debug, Default)]
struct Quiet {
    told: BTreeMap<String, Instant>,
}

impl Quiet {
    /// Whether an event is a bookmark that says nothing a person was not just told.
    fn hides(&mut self, event: &Event, now: Instant) -> bool {
        let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
        let told = self.told.entry(cell(data.get("region"))).or_insert(now);
        let hides = event.name == "bookmark" && now.duration_since(*told) < STILL_THERE;
        if !hides {
            *told = now;
        }
        hides
    }
}

#[derive(Serialize)]
struct Line<'a> {
    event: &'a str,
    id: Option<&'a str>,
    data: Box<RawValue>,
}

/// One object a line. The data are the event's own; a line break in them can only stand between JSON's tokens.
fn json_line(event: &Event) -> String {
    let flat = event.data.replace(['\n', '\r'], " ");
    // What is no JSON, which no cell sends, is at least not lost.
    let data = RawValue::from_string(flat).or_else(|_| serde_json::value::to_raw_value(&event.data));
    let line = data
        .map(|data| Line { event: &event.name, id: event.id.as_deref(), data })
        .map(|line| serde_json::to_string(&line));
    match line {
        Ok(Ok(line)) => line,
        Ok(Err(_)) | Err(_) => "{}".to_owned(),
    }
}

/// A line for people; a delta has a line for each of its changes.
fn text_line(event: &Event) -> String {
    let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
    let region = cell(data.get("region"));
    let at = || position(data.get("position"));
    let agents = || counted(&cell(data.get("count")), "agent");
    match event.name.as_str() {
        "snapshot_begin" => format!("snapshot  {region}  {} of {}", at(), agents()),
        "snapshot_end" => format!("complete  {region}  {}", at()),
        "put" => format!("put       {}", agent(&data)),
        "delta" => delta(&region, &data),
        "bookmark" => {
            format!("bookmark  {region}  {}, {}, {} old", at(), agents(), seconds(data.get("age_ms")))
        }
        "resync" => format!("resync    {region}  {}", cell(data.get("reason"))),
        other => format!("{other}  {}", event.data.replace('\n', " ")),
    }
}

fn delta(region: &str, data: &Value) -> String {
    let changes = data.get("changes").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut lines = vec![format!(
        "delta     {region}  {}, {}",
        position(data.get("to")),
        counted(&changes.len().to_string(), "change")
    )];
    for change in changes {
        lines.push(match (change.get("put"), change.get("remove")) {
            (Some(put), _) => format!("  put     {}", agent(put)),
            (None, Some(gone)) => format!(
                "  remove  {region}  {}  epoch {}, {} by {}",
                cell(gone.get("id")),
                cell(gone.get("epoch")),
                cell(gone.get("reason")),
                cell(gone.get("actor"))
            ),
            (None, None) => format!("  {change}"),
        });
    }
    lines.join("\n")
}

fn agent(agent: &Value) -> String {
    let member = |name: &str| cell(agent.get(name));
    let (region, id, epoch, lifecycle) =
        (member("region"), member("id"), member("epoch"), member("lifecycle"));
    let overdue = agent.get("overdue").and_then(Value::as_bool) == Some(true);
    format!("{region}  {id}  epoch {epoch}, {lifecycle}{}", if overdue { " (overdue)" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, id: Option<&str>, data: &str) -> Event {
        Event { name: name.into(), id: id.map(str::to_owned), data: data.into() }
    }

    #[test]
    fn json_is_one_object_a_line_with_the_data_as_they_came() {
        let line = json_line(&event("delta", Some("1-ab:7"), "{ \"n\" : 1.50,\n\"id\":\"\\u0041\" }"));
        assert_eq!(line, r#"{"event":"delta","id":"1-ab:7","data":{ "n" : 1.50, "id":"\u0041" }}"#);
        assert_eq!(json_line(&event("put", None, "{}")), r#"{"event":"put","id":null,"data":{}}"#);
        assert_eq!(json_line(&event("odd", None, "a\nb")), r#"{"event":"odd","id":null,"data":"a\nb"}"#);
    }

    #[test]
    fn people_are_told_every_half_minute_that_nothing_changes() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let of =
            |name: &str, region: &str| event(name, Some("1-a:7"), &format!("{{\"region\":\"{region}\"}}"));
        let mut quiet = Quiet::default();
        assert!(!quiet.hides(&of("snapshot_end", "us"), at(0)));
        assert!(quiet.hides(&of("bookmark", "us"), at(1)));
        assert!(quiet.hides(&of("bookmark", "eu"), at(5)), "its first one, too");
        assert!(!quiet.hides(&of("delta", "us"), at(20)));
        assert!(quiet.hides(&of("bookmark", "us"), at(49)));
        assert!(!quiet.hides(&of("bookmark", "eu"), at(35)), "each region by itself");
        assert!(!quiet.hides(&of("bookmark", "us"), at(50)));
        assert!(quiet.hides(&of("bookmark", "us"), at(51)));
        assert!(!quiet.hides(&of("resync", "us"), at(52)));
    }

    #[test]
    fn every_event_of_the_contract_has_its_line_for_people() {
        let at = r#""region":"us-east","position":{"incarnation":"1-ab","revision":"7"}"#;
        let put = r#"{"region":"us-east","id":"a/b/c","epoch":"7","lifecycle":"healthy"}"#;
        let remove = r#"{"id":"a/b/d","epoch":"5","reason":"expired","actor":"keeper"}"#;
        let to = r#""region":"us-east","from":null,"to":{"incarnation":"1-ab","revision":"9"}"#;
        for (name, data, line) in [
            ("snapshot_begin", format!(r#"{{{at},"count":2}}"#), "snapshot  us-east  1-ab:7 of 2 agents"),
            ("put", put.to_owned(), "put       us-east  a/b/c  epoch 7, healthy"),
            (
                "put",
                r#"{"region":"us-east","id":"a/b/c","epoch":"7","lifecycle":"degraded","overdue":true}"#
                    .to_owned(),
                "put       us-east  a/b/c  epoch 7, degraded (overdue)",
            ),
            ("snapshot_end", format!("{{{at}}}"), "complete  us-east  1-ab:7"),
            (
                "delta",
                format!(r#"{{{to},"changes":[{{"put":{put}}},{{"remove":{remove}}}]}}"#),
                "delta     us-east  1-ab:9, 2 changes\n  put     us-east  a/b/c  epoch 7, healthy\n  \
                 remove  us-east  a/b/d  epoch 5, expired by keeper",
            ),
            (
                "bookmark",
                format!(r#"{{{at},"count":2,"age_ms":120}}"#),
                "bookmark  us-east  1-ab:7, 2 agents, 0.1 s old",
            ),
            (
                "delta",
                format!(r#"{{{to},"changes":[{{"put":{put}}}]}}"#),
                "delta     us-east  1-ab:9, 1 change\n  put     us-east  a/b/c  epoch 7, healthy",
            ),
            ("snapshot_begin", format!(r#"{{{at},"count":1}}"#), "snapshot  us-east  1-ab:7 of 1 agent"),
            ("resync", r#"{"region":"us-east","reason":"gap"}"#.to_owned(), "resync    us-east  gap"),
        ] {
            assert_eq!(text_line(&event(name, None, &data)), line);
        }
    }
}
