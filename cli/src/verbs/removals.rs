//! `rollcall removals`: who is gone, and why.

use reqwest::Method;
use serde_json::Value;

use super::{ask, given};
use crate::args::Output;
use crate::http::Call;
use crate::show::{Shown, Told};
use crate::table::{cell, position, table};

pub(crate) async fn removals(url: &str, output: Output, limit: Option<String>, id: Option<String>) -> Shown {
    let call = Call::new(Method::GET, &["v1", "removals"]).query(given([("limit", limit), ("id", id)]));
    ask(url, output, call, tell).await
}

fn tell(answer: &Value) -> Told {
    let removals = answer.get("removals").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let rows = removals.iter().map(|removal| {
        let member = |name: &str| cell(removal.get(name));
        let at = position(removal.get("position"));
        vec![
            member("at"),
            member("region"),
            member("id"),
            member("epoch"),
            member("reason"),
            member("actor"),
            at,
        ]
    });
    let table = table(&["AT", "REGION", "ID", "EPOCH", "REASON", "BY", "POSITION"], rows.collect());
    let notes = if removals.is_empty() { vec!["nothing was removed".to_owned()] } else { Vec::new() };
    Told { table, notes }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_table_tells_who_went_why_and_by_whom() {
        let told = tell(
            &json!({"removals": [{"id": "a/b/c", "region": "us-east", "epoch": "42", "reason": "expired",
            "actor": "keeper", "at": "T", "position": {"incarnation": "1-ab", "revision": "50"}}]}),
        );
        let expected = "\
AT  REGION   ID     EPOCH  REASON   BY      POSITION
T   us-east  a/b/c  42     expired  keeper  1-ab:50";
        assert_eq!(told, Told { table: expected.into(), notes: Vec::new() });
        assert_eq!(tell(&json!({"removals": []})).notes, ["nothing was removed"]);
    }
}
