//! `rollcall deregister`: the registration is taken back by its owner.

use reqwest::Method;

use super::{ask, registration};
use crate::args::{HeldArgs, Output};
use crate::http::Call;
use crate::show::{Shown, Told};

pub(crate) async fn deregister(url: &str, output: Output, held: HeldArgs) -> Shown {
    let id = held.id.0.join("/");
    let note = match &held.holder {
        None => format!("{id} is deregistered"),
        Some(holder) => format!("{holder} let go of {id}; the entry goes with its last holder"),
    };
    let call = Call::new(Method::DELETE, &registration(&held.id, &[]));
    let call = call.epoch(held.epoch).query(held.parameters());
    // There is nothing to tabulate: the answer has no body.
    ask(url, output, call, |_| Told { table: String::new(), notes: vec![note] }).await
}
