//! `rollcall guard`: what the expiry guard counts and holds, and the release of exactly those listed.

use reqwest::Method;
use serde_json::{Value, json};

use super::{ask, send};
use crate::args::{GuardArgs, GuardVerb, Output};
use crate::exit::Exit;
use crate::http::Call;
use crate::show::{Shown, Told, show};
use crate::table::{cell, table};

pub(crate) async fn guard(url: &str, output: Output, GuardArgs { verb }: GuardArgs) -> Shown {
    match verb {
        None => ask(url, output, Call::new(Method::GET, &["v1", "guard"]), tell).await,
        Some(GuardVerb::Release { ids }) => {
            let ids: Vec<_> = ids.iter().map(|id| id.0.join("/")).collect();
            let call = Call::new(Method::POST, &["v1", "guard", "release"]);
            let answer = send(url, call.body(json!({"ids": ids}).to_string())).await;
            let body = answer.as_ref().map_or("", |answer| &answer.body);
            let refused = refusals(&serde_json::from_str(body).unwrap_or_default());
            let shown = show(output, answer, tell_release);
            if refused.is_empty() { shown } else { Shown { exit: Exit::Refused, stderr: refused, ..shown } }
        }
    }
}

/// A line for each id that the guard did not hold. Whoever asked for it must not take the call for done, so it ends as
/// a refusal does, also when others were released.
fn refusals(answer: &Value) -> String {
    let line = |refused: &Value| {
        format!("not released: {}: {}\n", cell(refused.get("id")), cell(refused.get("why")))
    };
    items(answer, "refused").iter().map(line).collect()
}

fn items<'a>(answer: &'a Value, name: &str) -> &'a [Value] {
    answer.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice)
}

fn tell(answer: &Value) -> Told {
    let rows = items(answer, "cohorts").iter().map(|cohort| {
        let is_set = |name: &str| cohort.get(name).is_some_and(Value::is_string);
        let state = match (is_set("since"), is_set("settling_until")) {
            (false, _) => "calm",
            (true, false) => "holding",
            (true, true) => "settling",
        };
        let member = |name: &str| cell(cohort.get(name));
        vec![
            member("cohort"),
            state.to_owned(),
            member("registered"),
            member("suspects"),
            member("limit"),
            member("since"),
            member("settling_until"),
        ]
    });
    let headings = ["COHORT", "STATE", "REGISTERED", "SUSPECTS", "LIMIT", "SINCE", "SETTLING UNTIL"];
    let mut text = table(&headings, rows.collect());
    let held = items(answer, "held");
    let mut notes = Vec::new();
    if items(answer, "cohorts").is_empty() {
        notes.push("calm: nothing is registered, so there is nothing to hold".to_owned());
    }
    if !held.is_empty() {
        text.push_str("\n\n");
        text.push_str(&table(&["HELD"], held.iter().map(|id| vec![cell(Some(id))]).collect()));
        notes.push(
            "held ones are past their lease and stay; known to be dead: rollcall guard release ID...".into(),
        );
    }
    Told { table: text, notes }
}

fn tell_release(answer: &Value) -> Told {
    let released = items(answer, "released").iter().map(|id| vec![cell(Some(id)), "released".to_owned()]);
    let refused =
        items(answer, "refused").iter().map(|refused| vec![cell(refused.get("id")), "refused".to_owned()]);
    let table = table(&["ID", "OUTCOME"], released.chain(refused).collect());
    let notes = if items(answer, "released").is_empty() {
        Vec::new()
    } else {
        vec!["the next sweep removes what was released".to_owned()]
    };
    Told { table, notes }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_table_tells_every_cohort_and_then_what_is_held() {
        let told = tell(&json!({"state": "holding", "held": ["a/b/c", "a/b/d"], "cohorts": [
            {"cohort": "region", "registered": 120, "suspects": 40, "limit": 18, "since": "T", "settling_until": null},
            {"cohort": "zone:a", "registered": 40, "suspects": 2, "limit": 6, "since": "T", "settling_until": "U"},
            {"cohort": "zone:b", "registered": 40, "suspects": 0, "limit": 6, "since": null, "settling_until": null},
        ]}));
        let expected = "\
COHORT  STATE     REGISTERED  SUSPECTS  LIMIT  SINCE  SETTLING UNTIL
region  holding   120         40        18     T      -
zone:a  settling  40          2         6      T      U
zone:b  calm      40          0         6      -      -

HELD
a/b/c
a/b/d";
        assert_eq!(told.table, expected);
        assert!(told.notes[0].contains("rollcall guard release"), "{:?}", told.notes);
        let calm = tell(&json!({"state": "calm", "cohorts": [], "held": []}));
        assert_eq!((calm.table.lines().count(), calm.notes.len()), (1, 1));
    }

    #[test]
    fn a_release_is_told_id_by_id() {
        let answer =
            json!({"released": ["a/b/c"], "refused": [{"id": "a/b/d", "why": "it is renewed in time"}]});
        let told = tell_release(&answer);
        let expected = "\
ID     OUTCOME
a/b/c  released
a/b/d  refused";
        assert_eq!(told.table, expected);
        assert_eq!(told.notes, ["the next sweep removes what was released"]);
        assert_eq!(refusals(&answer), "not released: a/b/d: it is renewed in time\n");
    }
}
