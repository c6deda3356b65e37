//! `rollcall doctor`: asks a cell, and a replicator if one is named, what is wrong and says what to do next.
//!
//! Promises: it only reads; each finding has a verdict, what was seen, and unless all is well the next step. It ends
//! with 5 when a process does not answer, and with 1 when anything else fails. It never guesses: what could not be asked is said to be so.

mod cell;
mod check;
mod replicator;

use std::time::Duration;

use reqwest::Method;
use rollcall_model::Timestamp;
use rollcall_runtime::clock;
use serde_json::{Value, json};

use crate::args::Output;
use crate::exit::Exit;
use crate::http::{Answer, Call, Cell, Failure, Side};
use crate::show::{Shown, Told, show};
use crate::table::table;

use self::check::{Check, Verdict};

pub(crate) async fn doctor(url: &str, output: Output, replicators: &[String]) -> Shown {
    let ask = async {
        let cell = Asked::of(Side::CELL, url).await?;
        let mut asked = Vec::new();
        for url in replicators {
            asked.push(Asked::of(Side::REPLICATOR, url).await?);
        }
        Ok((cell, asked))
    };
    let (cell, replicators) = match ask.await {
        Ok(asked) => asked,
        Err(failure) => return show(output, Err(failure), |_| Told::default()),
    };
    let is_silent =
        |asked: &Asked| asked.answers.as_ref().is_err_and(|failure| failure.exit == Exit::Unavailable);
    let region = cell.region_of_a("cell");
    let mut checks = cell::judge(&cell, &replicators);
    checks.extend(replicators.iter().flat_map(|asked| replicator::judge(asked, region)));
    shown(output, &checks, std::iter::once(&cell).chain(&replicators).any(is_silent))
}

fn shown(output: Output, checks: &[Check], is_silent: bool) -> Shown {
    let body = json!({ "checks": checks }).to_string();
    // Nobody there ends as it does for every verb; what else failed was told by somebody who is.
    let exit = match checks.iter().any(|check| check.verdict == Verdict::Fail) {
        _ if is_silent => Exit::Unavailable,
        true => Exit::Failed,
        false => Exit::Done,
    };
    let shown = show(output, Ok(Answer { body, date: None, hint: None }), |_| Told {
        table: text(checks),
        notes: Vec::new(),
    });
    Shown { exit, ..shown }
}

/// A line for each check, and below them what to do about those that are not well.
fn text(checks: &[Check]) -> String {
    let row =
        |check: &Check| vec![check.name.clone(), check.verdict.as_str().to_owned(), check.detail.clone()];
    let mut text = table(&["CHECK", "VERDICT", "DETAIL"], checks.iter().map(row).collect());
    let steps = checks.iter().filter_map(|check| Some((check, check.next.as_ref()?)));
    for (at, (check, next)) in steps.enumerate() {
        text.push_str(if at == 0 { "\n\n" } else { "\n" });
        text.push_str(&format!("{}: {next}", check.name));
    }
    text
}

/// What became of asking one process.
struct Asked {
    url: String,
    /// Or why nothing answered.
    answers: Result<Answers, Failure>,
}

/// What a process answered to each question.
struct Answers {
    /// How long the first answer took.
    took: Duration,
    /// When that answer was made by the process's clock, and half way between asking and hearing by this machine's.
    clocks: Option<(Timestamp, Timestamp)>,
    version: Value,
    ready: Result<String, Failure>,
    regions: Result<Value, Failure>,
    guard: Result<Value, Failure>,
}

impl Asked {
    /// Asks one process everything. The error: the address is none.
    async fn of(side: Side, url: &str) -> Result<Self, Failure> {
        let process = Cell::of(side, url)?;
        Ok(Self { url: url.trim_end_matches('/').to_owned(), answers: Answers::of(&process).await })
    }

    /// The region of what answered, if that has this role.
    fn region_of_a(&self, role: &str) -> Option<&str> {
        let version = &self.answers.as_ref().ok()?.version;
        let member = |name: &str| version.get(name).and_then(Value::as_str);
        (member("role") == Some(role)).then(|| member("region")).flatten()
    }
}

impl Answers {
    async fn of(process: &Cell) -> Result<Self, Failure> {
        let get = |path: &[&str]| process.send(Call::new(Method::GET, path));
        let (began, wall) = (clock::monotonic(), clock::wall_ms());
        // When nobody is there, each further question would only wait for the same.
        let version = get(&["version"]).await?;
        let took = clock::monotonic().saturating_sub(began);
        let half = i64::try_from(took.as_millis() / 2).unwrap_or_default();
        let clocks = version.date.as_deref().and_then(moment).map(|theirs| (theirs, Timestamp(wall + half)));
        let verbose = [("verbose".to_owned(), String::new())];
        let ready = process.send(Call::new(Method::GET, &["readyz"]).query(verbose)).await;
        Ok(Self {
            took,
            clocks,
            version: parsed(&version),
            ready: ready.map(|answer| answer.body),
            regions: get(&["v1", "regions"]).await.map(|answer| parsed(&answer)),
            guard: get(&["v1", "guard"]).await.map(|answer| parsed(&answer)),
        })
    }
}

/// What is no JSON is as nothing: then no process of ours answers there.
fn parsed(answer: &Answer) -> Value {
    serde_json::from_str(&answer.body).unwrap_or_default()
}

/// Reads the header `Date`, which has whole seconds.
fn moment(date: &str) -> Option<Timestamp> {
    let at = jiff::fmt::rfc2822::parse(date).ok()?.timestamp();
    Some(Timestamp(at.as_millisecond()))
}
