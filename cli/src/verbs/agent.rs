//! `rollcall agent`: all that is known of one.

use reqwest::Method;
use serde_json::Value;

use super::{ask, given};
use crate::args::{Id, Output};
use crate::http::Call;
use crate::show::{Shown, Told};
use crate::table::{cell, facts, pairs};

pub(crate) async fn agent(url: &str, output: Output, id: Id, region: Option<String>) -> Shown {
    let [namespace, name, instance] = &id.0;
    let call = Call::new(Method::GET, &["v1", "agents", namespace, name, instance])
        .query(given([("region", region)]));
    ask(url, output, call, tell).await
}

fn tell(agent: &Value) -> Told {
    const PLAIN: [&str; 14] = [
        "id",
        "region",
        "zone",
        "kind",
        "scope",
        "epoch",
        "lifecycle",
        "overdue",
        "version",
        "endpoints",
        "capabilities",
        "skills",
        "weight",
        "max_concurrency",
    ];
    let mut rows: Vec<_> = PLAIN.into_iter().map(|name| (name, cell(agent.get(name)))).collect();
    rows.push(("max_queue", cell(agent.get("max_queue"))));
    rows.push(("metadata", pairs(agent.get("metadata"))));
    rows.push(("load", pairs(agent.get("load"))));
    rows.extend(["card_digest", "registered_at", "revision"].map(|name| (name, cell(agent.get(name)))));
    Told { table: facts(rows), notes: Vec::new() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_table_has_a_line_for_each_member() {
        let told = tell(&json!({
            "id": "a/b/c", "region": "us-east", "zone": "a", "kind": "agent", "scope": "instance", "epoch": "42",
            "endpoints": [{"url": "http://h:1/"}, {"url": "grpc://h:2"}], "capabilities": [{"name": "a:b:v1"}],
            "skills": [{"id": "translate", "name": "Translate", "tags": []}], "version": "1.0.0", "weight": 100,
            "max_concurrency": null, "max_queue": 0, "metadata": {"team": "x"}, "lifecycle": "healthy",
            "load": {"queue_depth": 1, "in_flight": 2, "error_rate": 0.5}, "card_digest": null,
            "registered_at": "T", "revision": "43", "overdue": false,
        }));
        let expected = "\
id               a/b/c
region           us-east
zone             a
kind             agent
scope            instance
epoch            42
lifecycle        healthy
overdue          false
version          1.0.0
endpoints        http://h:1/,grpc://h:2
capabilities     a:b:v1
skills           translate
weight           100
max_concurrency  -
max_queue        0
metadata         team=x
load             error_rate=0.5,in_flight=2,queue_depth=1
card_digest      -
registered_at    T
revision         43";
        assert_eq!(told.table, expected);
    }
}
