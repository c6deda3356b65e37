//! `rollcall renew`: one more lease.

use reqwest::Method;
use serde_json::Value;

use super::{ask, registration};
use crate::args::{HeldArgs, Output};
use crate::http::Call;
use crate::show::{Shown, Told};
use crate::table::{cell, facts};

pub(crate) async fn renew(url: &str, output: Output, held: HeldArgs) -> Shown {
    let call = Call::new(Method::PUT, &registration(&held.id, &["lease"]));
    ask(url, output, call.epoch(held.epoch).query(held.parameters()), tell).await
}

fn tell(answer: &Value) -> Told {
    let member = |name: &str| cell(answer.get(name));
    let table = facts(vec![
        ("lease", format!("{} s, until {}", member("lease_seconds"), member("lease_expires_at"))),
        ("heartbeat", format!("every {} s", member("heartbeat_seconds"))),
    ]);
    let superseded = answer.get("superseded").and_then(Value::as_bool) == Some(true);
    let note = "a newer declaration of the service holds the entry; this one keeps it alive".to_owned();
    Told { table, notes: if superseded { vec![note] } else { Vec::new() } }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_table_tells_how_long_it_stays() {
        let told = tell(&json!({"lease_seconds": 30, "heartbeat_seconds": 10, "lease_expires_at": "T"}));
        assert_eq!(told.table, "lease      30 s, until T\nheartbeat  every 10 s");
        assert!(told.notes.is_empty());
        assert_eq!(tell(&json!({"superseded": true})).notes.len(), 1);
    }
}
