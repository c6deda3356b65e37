//! What a verb gives its caller: results for stdout, words for stderr, and the exit code, as one value.
//!
//! Promises: stdout holds results alone, so that it can be piped; with `-o json` it holds the cell's body unchanged, or
//! `{}` where there is none. A reader that went away, as `head` does, is no error. It never decides what is said.

use std::io::{self, Write};

use serde_json::Value;

use crate::args::Output;
use crate::exit::Exit;
use crate::http::{Answer, Failure};

/// All that a verb says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Results.
    pub(crate) stdout: String,
    /// Words for people.
    pub(crate) stderr: String,
    /// The end.
    pub(crate) exit: Exit,
}

impl Shown {
    /// Words alone.
    pub(crate) fn words(exit: Exit, words: impl Into<String>) -> Self {
        Self { stdout: String::new(), stderr: lines(words.into()), exit }
    }

    /// Writes it out and says how the run ends.
    pub(crate) fn emit(self) -> Exit {
        // Nobody is left to be told when stderr is closed.
        let _ = io::stderr().write_all(self.stderr.as_bytes());
        match put(&self.stdout) {
            Ok(_) => self.exit,
            Err(error) => {
                let _ = writeln!(io::stderr(), "the result could not be written: {error}");
                Exit::Failed
            }
        }
    }
}

/// Whether there is still somebody who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// It took all of it.
    There,
    /// It has read enough and closed the pipe.
    Gone,
}

/// Writes to stdout and lets nothing wait in a buffer, because a line is of use when it happens.
///
/// # Errors
/// When stdout cannot be written; a pipe that was closed is [`Reader::Gone`] instead.
pub(crate) fn put(text: &str) -> io::Result<Reader> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(error),
    }
}

/// What a table form makes of an answer: the table, and what a person should know beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// For stdout.
    pub(crate) table: String,
    /// For stderr, a line each.
    pub(crate) notes: Vec<String>,
}

/// Shows an answer or a failure in the form that was asked for.
pub(crate) fn show(
    output: Output,
    result: Result<Answer, Failure>,
    tell: impl FnOnce(&Value) -> Told,
) -> Shown {
    let answer = match (result, output) {
        (Ok(answer), _) => answer,
        (Err(failure), Output::Table) => return Shown::words(failure.exit, failure.words),
        (Err(failure), Output::Json) => {
            let body = failure.body.unwrap_or_default();
            return Shown { stdout: json(&body), stderr: lines(failure.words), exit: failure.exit };
        }
    };
    if output == Output::Json {
        return Shown { stdout: json(&answer.body), stderr: String::new(), exit: Exit::Done };
    }
    // An answer without a body, such as that of a delete, is told by its verb alone.
    let text = if answer.body.trim().is_empty() { "null" } else { &answer.body };
    match serde_json::from_str(text) {
        Ok(value) => {
            let Told { table, mut notes } = tell(&value);
            notes.extend(answer.hint);
            Shown { stdout: lines(table), stderr: lines(notes.join("\n")), exit: Exit::Done }
        }
        Err(error) => Shown::words(
            Exit::Failed,
            format!(
                "the answer is not the JSON of a cell ({error}); look at it with -o json, and check --url"
            ),
        ),
    }
}

fn json(body: &str) -> String {
    lines(if body.trim().is_empty() { "{}".to_owned() } else { body.to_owned() })
}

/// Ends a text with a line break, unless there is no text.
fn lines(mut text: String) -> String {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(body: &str) -> Result<Answer, Failure> {
        Ok(Answer { body: body.to_owned(), date: None, hint: None })
    }

    fn tell(value: &Value) -> Told {
        Told { table: format!("T {value}"), notes: vec!["one".into(), "two".into()] }
    }

    #[test]
    fn json_is_the_body_unchanged() {
        let body = "{ \"b\" : 1,\n  \"a\":\"\\u0041\" }";
        let shown = show(Output::Json, answer(body), tell);
        assert_eq!(shown, Shown { stdout: format!("{body}\n"), stderr: String::new(), exit: Exit::Done });
    }

    #[test]
    fn json_of_an_answer_without_body_is_an_empty_object() {
        assert_eq!(show(Output::Json, answer(""), tell).stdout, "{}\n");
    }

    #[test]
    fn a_table_comes_on_stdout_and_its_notes_on_stderr() {
        let shown = show(Output::Table, answer("[1]"), tell);
        assert_eq!((shown.stdout.as_str(), shown.stderr.as_str()), ("T [1]\n", "one\ntwo\n"));
    }

    #[test]
    fn a_refusal_shows_its_body_only_as_json() {
        let refused = || Failure {
            exit: Exit::Refused,
            body: Some("{\"code\":\"superseded\"}".into()),
            words: "refused: newer epoch".into(),
        };
        let json = show(Output::Json, Err(refused()), tell);
        assert_eq!(json.stdout, "{\"code\":\"superseded\"}\n");
        assert_eq!(json.stderr, "refused: newer epoch\n");
        assert_eq!(json.exit, Exit::Refused);
        let table = show(Output::Table, Err(refused()), tell);
        assert_eq!((table.stdout.as_str(), table.exit), ("", Exit::Refused));
    }

    #[test]
    fn a_failure_without_body_is_an_empty_object_as_json() {
        let failure = Failure { exit: Exit::Unavailable, body: None, words: "no cell".into() };
        assert_eq!(show(Output::Json, Err(failure), tell).stdout, "{}\n");
    }

    #[test]
    fn what_is_no_json_is_told_and_not_shown_as_a_table() {
        let shown = show(Output::Table, answer("<html>"), tell);
        assert_eq!((shown.stdout.as_str(), shown.exit), ("", Exit::Failed));
        assert!(shown.stderr.contains("--url"), "{}", shown.stderr);
    }
}
