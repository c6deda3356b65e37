//! The operator's verbs, one file each: a call to a cell, and how its answer looks as a table.
//!
//! Promises: a verb makes one call, and what it shows is what the cell said. It never decides anything about agents.

pub(crate) mod agent;
pub(crate) mod agents;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod deregister;
pub(crate) mod evict;
pub(crate) mod guard;
pub(crate) mod mute;
pub(crate) mod regions;
pub(crate) mod register;
pub(crate) mod removals;
pub(crate) mod renew;
pub(crate) mod resolve;
pub(crate) mod watch;

use crate::args::{Id, Output};
use crate::http::{Answer, Call, Cell, Failure};
use crate::show::{Shown, Told, show};

/// Makes one call and shows its answer.
async fn ask(url: &str, output: Output, call: Call, tell: impl FnOnce(&serde_json::Value) -> Told) -> Shown {
    show(output, send(url, call).await, tell)
}

async fn send(url: &str, call: Call) -> Result<Answer, Failure> {
    Cell::at(url)?.send(call).await
}

/// The path of a registration.
fn registration<'a>(Id([namespace, name, instance]): &'a Id, rest: &[&'a str]) -> Vec<&'a str> {
    [&["v1", "registrations", namespace.as_str(), name, instance], rest].concat()
}

/// Parameters that were given.
fn given<const N: usize>(parameters: [(&str, Option<String>); N]) -> impl Iterator<Item = (String, String)> {
    parameters.into_iter().filter_map(|(name, value)| value.map(|value| (name.to_owned(), value)))
}
