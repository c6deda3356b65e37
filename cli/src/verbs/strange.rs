//! An empty answer to a question about a capability: does anybody have it at all, or is it a typing error?

use reqwest::Method;
use serde_json::Value;

use crate::args::Output;
use crate::http::{Answer, Call, Cell, Failure};
use crate::show::{Shown, Told, show};

/// Capabilities that are looked for, at most: a question names one or two.
const LOOKED_FOR: usize = 8;

/// Makes one call that lists something under this member, and shows its answer. For people an empty one is followed by
/// a look for each capability that was asked for.
pub(super) async fn ask(
    url: &str,
    output: Output,
    call: Call,
    (member, capabilities): (&str, &[String]),
    tell: impl FnOnce(&Value) -> Told,
) -> Shown {
    let cell = match Cell::at(url) {
        Ok(cell) => cell,
        Err(failure) => return show(output, Err(failure), tell),
    };
    let result = cell.send(call).await;
    let mut notes = Vec::new();
    if output == Output::Table && is_empty(&result, member) {
        for capability in capabilities.iter().take(LOOKED_FOR) {
            let query = [("capability", capability.as_str()), ("region", "all"), ("limit", "1")];
            let query = query.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let found = cell.send(Call::new(Method::GET, &["v1", "agents"]).query(query)).await;
            // A failure here is no news about what was asked.
            if is_empty(&found, "agents") {
                notes.push(format!(
                    "nobody in any region that is loaded has {capability}: is it spelt right?"
                ));
            }
        }
    }
    show(output, result, |answer| {
        let mut told = tell(answer);
        told.notes.extend(notes);
        told
    })
}

fn is_empty(result: &Result<Answer, Failure>, member: &str) -> bool {
    let answer = result.as_ref().ok().and_then(|answer| serde_json::from_str::<Value>(&answer.body).ok());
    answer.is_some_and(|answer| answer.get(member).and_then(Value::as_array).is_some_and(Vec::is_empty))
}
