//! `rollcall register`: one registration, once.

use reqwest::Method;
use serde_json::Value;

use super::ask;
use crate::args::{Output, RegistrationArgs};
use crate::exit::Exit;
use crate::http::{Call, Failure};
use crate::show::{Shown, Told, show};
use crate::table::{cell, facts, position};

pub(crate) async fn register(url: &str, output: Output, args: RegistrationArgs) -> Shown {
    match args.body() {
        Ok(body) => {
            ask(url, output, Call::new(Method::POST, &["v1", "registrations"]).body(body), tell).await
        }
        Err(words) => show(output, Err(Failure { exit: Exit::Usage, body: None, words }), tell),
    }
}

fn tell(answer: &Value) -> Told {
    let member = |name: &str| cell(answer.get(name));
    let holder = answer.get("holder").and_then(Value::as_str);
    let mut lines = vec![
        ("id", member("id")),
        ("region", member("region")),
        ("epoch", member("epoch")),
        ("lease", format!("{} s, until {}", member("lease_seconds"), member("lease_expires_at"))),
        ("heartbeat", format!("every {} s", member("heartbeat_seconds"))),
        ("position", position(answer.get("position"))),
    ];
    // Of a shared entry: whoever renews or lets go says who it is.
    lines.extend(holder.map(|holder| ("holder", holder.to_owned())));
    let table = facts(lines);
    // Whoever registers by hand is often surprised that it does not stay.
    let holder = holder.map_or_else(String::new, |holder| format!(" --holder {holder}"));
    let (id, epoch) = (member("id"), member("epoch"));
    let note = format!("it stays while it is renewed: rollcall renew {id} --epoch {epoch}{holder}");
    Told { table, notes: vec![note] }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_table_names_all_that_a_renewal_needs() {
        let told = tell(&json!({
            "id": "a/b/c", "region": "us-east", "epoch": "42", "lease_seconds": 30, "heartbeat_seconds": 10.0,
            "lease_expires_at": "2026-01-01T00:00:30Z", "position": {"incarnation": "1-ab", "revision": "42"},
        }));
        let expected = "\
id         a/b/c
region     us-east
epoch      42
lease      30 s, until 2026-01-01T00:00:30Z
heartbeat  every 10.0 s
position   1-ab:42";
        assert_eq!(told.table, expected);
        assert_eq!(told.notes, ["it stays while it is renewed: rollcall renew a/b/c --epoch 42"]);
        let shared = tell(&json!({"id": "a/b/c", "epoch": "42", "holder": "p1"}));
        assert!(shared.table.contains("\nholder     p1"), "{}", shared.table);
        assert_eq!(
            shared.notes,
            ["it stays while it is renewed: rollcall renew a/b/c --epoch 42 --holder p1"]
        );
    }
}
