//! `rollcall resolve`: whom a caller would call, in which order, and if nobody, why.

use reqwest::Method;
use serde_json::Value;

use super::agents::doubt;
use super::ask;
use crate::args::{Output, ResolveArgs};
use crate::http::Call;
use crate::show::{Shown, Told};
use crate::table::{cell, seconds, table};

pub(crate) async fn resolve(url: &str, output: Output, args: ResolveArgs) -> Shown {
    let call = Call::new(Method::GET, &["v1", "resolve"]).query(args.parameters());
    ask(url, output, call, tell).await
}

fn tell(answer: &Value) -> Told {
    let list = |name: &str| answer.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let headings = ["ID", "REGION", "ZONE", "LIFECYCLE", "VERSION", "AGE", "FRESHNESS", "ENDPOINT"];
    let rows = list("candidates").iter().map(|candidate| {
        let member = |name: &str| cell(candidate.get(name));
        let overdue = candidate.get("overdue").and_then(Value::as_bool) == Some(true);
        vec![
            member("id"),
            member("region"),
            member("zone"),
            member("lifecycle") + if overdue { " (overdue)" } else { "" },
            member("version"),
            seconds(candidate.get("age_ms")),
            member("freshness"),
            cell(candidate.get("endpoints").and_then(|endpoints| endpoints.get(0)?.get("url"))),
        ]
    });
    let table = table(&headings, rows.collect());
    // Of those who are found the row itself says how old it is.
    let mut notes = Vec::new();
    let sentence = match answer.get("outcome").and_then(Value::as_str) {
        Some("found") => return Told { table, notes },
        Some("none") => "nobody who fits may be called in the regions that were asked",
        Some("view_not_loaded") => {
            "nobody was found, and a region that could have some was never loaded here"
        }
        Some("too_old") => "nobody was found, and a region that could have some was last heard of a day ago",
        Some(_) | None => "the cell does not say what became of it",
    };
    notes.push(sentence.to_owned());
    notes.extend(list("regions").iter().filter_map(doubt));
    Told { table, notes }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn candidates_stand_in_their_order_with_the_age_of_what_is_known() {
        let told = tell(&json!({"outcome": "found", "regions": [], "candidates": [
            {"id": "a/b/2", "region": "eu", "zone": "a", "lifecycle": "healthy", "version": "1.0.0", "age_ms": 120,
             "freshness": "current", "endpoints": [{"url": "http://h:1/"}], "overdue": false},
            {"id": "a/b/1", "region": "eu", "zone": null, "lifecycle": "degraded", "version": null, "age_ms": 120,
             "freshness": "current", "endpoints": [{"url": "http://h:2/"}], "overdue": true},
        ]}));
        let expected = "\
ID     REGION  ZONE  LIFECYCLE           VERSION  AGE    FRESHNESS  ENDPOINT
a/b/2  eu      a     healthy             1.0.0    0.1 s  current    http://h:1/
a/b/1  eu      -     degraded (overdue)  -        0.1 s  current    http://h:2/";
        assert_eq!((told.table.as_str(), told.notes.len()), (expected, 0));
    }

    #[test]
    fn nobody_is_told_with_the_reason_and_the_regions_that_leave_a_doubt() {
        let regions = json!([{"region": "us", "state": "current", "age_ms": 1}, {"region": "eu", "state": "not_loaded"}]);
        for (outcome, start) in [
            ("none", "nobody who fits"),
            ("view_not_loaded", "nobody was found, and a region"),
            ("too_old", "nobody was found, and a region"),
        ] {
            let told = tell(&json!({"outcome": outcome, "candidates": [], "regions": regions}));
            assert!(told.notes[0].starts_with(start), "{:?}", told.notes);
            assert_eq!(told.notes[1], "eu is not loaded: the list says nothing about it");
            assert_eq!(told.notes.len(), 2);
        }
    }
}
