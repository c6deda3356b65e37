//! `rollcall evict`: a registration is removed on an operator's word.

use reqwest::Method;
use serde_json::{Value, json};

use super::ask;
use crate::args::{EvictArgs, Output};
use crate::http::Call;
use crate::show::{Shown, Told};
use crate::table::{cell, facts};

pub(crate) async fn evict(url: &str, output: Output, EvictArgs { id, reason }: EvictArgs) -> Shown {
    let body = json!({"id": id.0.join("/"), "reason": reason});
    ask(url, output, Call::new(Method::POST, &["v1", "admin", "evict"]).body(body.to_string()), tell).await
}

fn tell(answer: &Value) -> Told {
    let fact = |name: &'static str| (name, cell(answer.get(name)));
    let table = facts(vec![fact("id"), fact("region"), fact("reason"), ("by", cell(answer.get("actor")))]);
    // Whoever evicts what still lives is surprised that it comes back.
    let note =
        "evicted; a registrant that lives comes back with a higher epoch: end its process to keep it out";
    Told { table, notes: vec![note.to_owned()] }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_table_tells_who_was_evicted_why_and_by_whom() {
        let told = tell(
            &json!({"id": "a/b/c", "region": "us-east", "reason": "a drill", "actor": "operator:anonymous"}),
        );
        let expected = "\
id      a/b/c
region  us-east
reason  a drill
by      operator:anonymous";
        assert_eq!(told.table, expected);
    }
}
