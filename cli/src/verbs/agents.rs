//! `rollcall agents`: who is there.

use reqwest::Method;
use serde_json::Value;

use super::{ask, given};
use crate::args::{Output, QueryArgs};
use crate::http::Call;
use crate::show::{Shown, Told};
use crate::table::{cell, seconds, table};

pub(crate) async fn agents(
    url: &str,
    output: Output,
    query: QueryArgs,
    limit: Option<String>,
    page_token: Option<String>,
) -> Shown {
    let call = Call::new(Method::GET, &["v1", "agents"])
        .query(query.parameters())
        .query(given([("limit", limit), ("page_token", page_token)]));
    ask(url, output, call, tell).await
}

fn tell(answer: &Value) -> Told {
    let list = |name: &str| answer.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let headings =
        ["ID", "REGION", "ZONE", "KIND", "LIFECYCLE", "VERSION", "EPOCH", "ENDPOINT", "CAPABILITIES"];
    let rows = list("agents").iter().map(|agent| {
        let member = |name: &str| cell(agent.get(name));
        let overdue = agent.get("overdue").and_then(Value::as_bool) == Some(true);
        let lifecycle = member("lifecycle") + if overdue { " (overdue)" } else { "" };
        let endpoint = cell(agent.get("endpoints").and_then(|endpoints| endpoints.get(0)?.get("url")));
        vec![
            member("id"),
            member("region"),
            member("zone"),
            member("kind"),
            lifecycle,
            member("version"),
            member("epoch"),
            endpoint,
            member("capabilities"),
        ]
    });
    let table = table(&headings, rows.collect());
    let mut notes: Vec<String> = list("regions").iter().filter_map(doubt).collect();
    if list("agents").is_empty() {
        notes.push("no agent fits".to_owned());
    }
    if let Some(token) = answer.get("next_page_token").and_then(Value::as_str) {
        notes.push(format!("there are more: --page-token {token}"));
    }
    Told { table, notes }
}

/// Why a list cannot be trusted to be whole, if so: an empty one from a region that was never loaded means nothing.
pub(super) fn doubt(region: &Value) -> Option<String> {
    let name = cell(region.get("region"));
    match region.get("state").and_then(Value::as_str) {
        Some("current") => None,
        Some("not_loaded") => Some(format!("{name} is not loaded: the list says nothing about it")),
        Some(state) => {
            Some(format!("{name} is {state}: the list is as it was {} ago", seconds(region.get("age_ms"))))
        }
        None => Some(format!("{name} does not tell how old it is")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_table_has_a_line_for_each_agent_and_notes_what_cannot_be_trusted() {
        let told = tell(&json!({
            "agents": [
                {"id": "ops/mail/1", "region": "us-east", "zone": "a", "kind": "agent", "lifecycle": "healthy",
                 "version": "2.3.1", "epoch": "42", "endpoints": [{"url": "http://h:1/", "protocol": null}],
                 "capabilities": [{"name": "email:send:v1"}, {"name": "template:render:v2"}], "overdue": false},
                {"id": "ops/mail/22", "region": "eu-west", "zone": null, "kind": "tool", "lifecycle": "degraded",
                 "version": null, "epoch": "7", "endpoints": [{"url": "grpc://h:2"}], "capabilities": [], "overdue": true},
            ],
            "regions": [
                {"region": "us-east", "state": "current", "age_ms": 10},
                {"region": "eu-west", "state": "stale", "age_ms": 45_000},
                {"region": "ap-south", "state": "not_loaded", "age_ms": null},
            ],
            "next_page_token": "abc",
        }));
        let expected = "\
ID           REGION   ZONE  KIND   LIFECYCLE           VERSION  EPOCH  ENDPOINT     CAPABILITIES
ops/mail/1   us-east  a     agent  healthy             2.3.1    42     http://h:1/  email:send:v1,template:render:v2
ops/mail/22  eu-west  -     tool   degraded (overdue)  -        7      grpc://h:2   -";
        assert_eq!(told.table, expected);
        assert_eq!(
            told.notes,
            [
                "eu-west is stale: the list is as it was 45.0 s ago",
                "ap-south is not loaded: the list says nothing about it",
                "there are more: --page-token abc",
            ]
        );
    }

    #[test]
    fn an_empty_list_is_said_to_be_one() {
        let told = tell(
            &json!({"agents": [], "regions": [{"region": "r", "state": "current"}], "next_page_token": null}),
        );
        assert_eq!(told.notes, ["no agent fits"]);
    }
}
