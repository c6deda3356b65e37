//! `rollcall deregister`: the registration is taken back by its owner.

use reqwest::Method;

use super::{ask, registration};
use crate::args::{HeldArgs, Output};
use crate::http::Call;
use crate::show::{Shown, Told};

pub(crate) async fn deregister(url: &str, output: Output, HeldArgs { id, epoch }: HeldArgs) -> Shown {
    let note = format!("{} is deregistered", id.0.join("/"));
    let call = Call::new(Method::DELETE, &registration(&id, &[])).epoch(&epoch);
    // There is nothing to tabulate: the answer has no body.
    ask(url, output, call, |_| Told { table: String::new(), notes: vec![note] }).await
}
