//! `rollcall mute`: an instance's heartbeats are ignored for a while.

use reqwest::Method;
use serde_json::{Value, json};

use super::ask;
use crate::args::{MuteArgs, Output};
use crate::http::Call;
use crate::show::{Shown, Told};
use crate::table::{cell, facts};

pub(crate) async fn mute(url: &str, output: Output, MuteArgs { id, seconds }: MuteArgs) -> Shown {
    let body = json!({"id": id.0.join("/"), "seconds": seconds});
    ask(url, output, Call::new(Method::POST, &["v1", "admin", "mute"]).body(body.to_string()), tell).await
}

fn tell(answer: &Value) -> Told {
    let member = |name: &str| cell(answer.get(name));
    if answer.get("seconds").and_then(Value::as_u64) == Some(0) {
        let table =
            facts(vec![("id", member("id")), ("region", member("region")), ("muted", "no".to_owned())]);
        return Told { table, notes: vec!["its heartbeats count from now on".to_owned()] };
    }
    let muted = format!("{} s, until {}", member("seconds"), member("muted_until"));
    let table = facts(vec![("id", member("id")), ("region", member("region")), ("muted", muted)]);
    let note =
        format!("its lease runs out unless the mute ends first: rollcall mute {} --seconds 0", member("id"));
    Told { table, notes: vec![note] }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_table_tells_until_when_and_how_to_end_it() {
        let told = tell(&json!({"id": "a/b/c", "region": "us-east", "seconds": 60, "muted_until": "T"}));
        assert_eq!(told.table, "id      a/b/c\nregion  us-east\nmuted   60 s, until T");
        assert_eq!(
            told.notes,
            ["its lease runs out unless the mute ends first: rollcall mute a/b/c --seconds 0"]
        );
    }

    #[test]
    fn a_mute_that_ended_is_told_as_ended() {
        let told = tell(&json!({"id": "a/b/c", "region": "us-east", "seconds": 0, "muted_until": "T"}));
        assert_eq!(told.table, "id      a/b/c\nregion  us-east\nmuted   no");
        assert_eq!(told.notes, ["its heartbeats count from now on"]);
    }
}
