//! `rollcall regions`: what a cell serves, and how old it is.

use reqwest::Method;
use serde_json::Value;

use super::ask;
use crate::args::Output;
use crate::http::Call;
use crate::show::{Shown, Told};
use crate::table::{cell, position, seconds, table};

pub(crate) async fn regions(url: &str, output: Output) -> Shown {
    ask(url, output, Call::new(Method::GET, &["v1", "regions"]), tell).await
}

fn tell(answer: &Value) -> Told {
    let rows = answer.get("regions").and_then(Value::as_array).into_iter().flatten().map(|region| {
        let resync = region.get("last_resync").filter(|resync| resync.is_object()).map_or_else(
            || cell(None),
            |resync| format!("{} at {}", cell(resync.get("reason")), cell(resync.get("at"))),
        );
        vec![
            cell(region.get("region")),
            cell(region.get("role")),
            cell(region.get("state")),
            seconds(region.get("age_ms")),
            position(region.get("position")),
            cell(region.get("count")),
            resync,
        ]
    });
    let headings = ["REGION", "ROLE", "STATE", "AGE", "POSITION", "COUNT", "LAST RESYNC"];
    Told { table: table(&headings, rows.collect()), notes: Vec::new() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_table_has_a_line_for_each_region_loaded_or_not() {
        let told = tell(&json!({"regions": [
            {"region": "us-east", "role": "own", "state": "current", "age_ms": 340, "count": 4, "digest": "d",
             "position": {"incarnation": "1-ab", "revision": "12"}, "last_resync": {"at": "T", "reason": "first"}},
            {"region": "eu-west", "role": "view", "state": "not_loaded", "age_ms": null, "count": null,
             "digest": null, "position": null, "last_resync": null},
        ]}));
        let expected = "\
REGION   ROLE  STATE       AGE    POSITION  COUNT  LAST RESYNC
us-east  own   current     0.3 s  1-ab:12   4      first at T
eu-west  view  not_loaded  -      -         -      -";
        assert_eq!(told.table, expected);
    }
}
