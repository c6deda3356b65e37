//! A line that is no call of this program, told as a cell tells a bad request.
//!
//! Promises: people read it on stderr as ever; with `-o json` a program reads a problem body on stdout, with the code
//! the cell gives to the same mistake. Never here: a judgement; the line was judged already.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use rollcall_model::{Code, Problem};

use crate::exit::Exit;
use crate::show::Shown;

/// What is said about a line that was not understood, or that asks for help alone.
pub(crate) fn answer(error: &clap::Error, line: &[OsString]) -> Shown {
    let text = error.render().to_string();
    if !error.use_stderr() {
        return Shown { stdout: text, stderr: String::new(), exit: Exit::Done };
    }
    let stdout = if wants_json(line) {
        let detail = sentence(&text);
        String::from_utf8_lossy(&Problem::new(code(error), &detail).json()).into_owned() + "\n"
    } else {
        String::new()
    };
    Shown { stdout, stderr: text, exit: Exit::Usage }
}

/// The error's own words, without the advice on how to call below them.
fn sentence(text: &str) -> String {
    let own = text.split("\n\n").next().unwrap_or_default();
    let own = own.strip_prefix("error: ").unwrap_or(own);
    own.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn code(error: &clap::Error) -> Code {
    let about = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) => argument.as_str(),
        Some(_) | None => "",
    };
    match error.kind() {
        ErrorKind::UnknownArgument => Code::UnknownParameter,
        _ if about.starts_with("<ID>") => Code::InvalidId,
        _ if about.starts_with("--epoch") => Code::InvalidEpoch,
        _ => Code::InvalidParameter,
    }
}

/// Whether the line asks for JSON. It was not understood as a whole, so this part is looked for alone; what stands
/// behind the dashes is another program's.
fn wants_json(line: &[OsString]) -> bool {
    let mut words = line.iter().map(|word| word.to_string_lossy()).take_while(|word| word != "--");
    while let Some(word) = words.next() {
        let form = match word.as_ref() {
            "-o" | "--output" => words.next().unwrap_or_default().into_owned(),
            word => {
                let form = word.strip_prefix("--output=").or_else(|| word.strip_prefix("-o"));
                form.map(|form| form.trim_start_matches('=').to_owned()).unwrap_or_default()
            }
        };
        if form == "json" {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::Args;

    fn refused(line: &str) -> Shown {
        let line: Vec<_> = std::iter::once("rollcall").chain(line.split(' ')).map(OsString::from).collect();
        answer(&Args::try_parse_from(&line).unwrap_err(), &line)
    }

    #[test]
    fn with_json_a_wrong_line_is_a_problem_with_the_cells_code() {
        for (line, code, detail) in [
            ("agent bad -o json", "invalid_id", "namespace/name/instance"),
            ("renew a/b --epoch 7 -o=json", "invalid_id", "namespace/name/instance"),
            ("renew a/b/c --epoch abc -ojson", "invalid_epoch", "'abc' for '--epoch <EPOCH>'"),
            ("--output=json deregister a/b/c --epoch -1", "invalid_epoch", "'-1' for '--epoch <EPOCH>'"),
            ("mute a/b/c --seconds soon --output json", "invalid_parameter", "--seconds"),
            ("agents -o json --colour red", "unknown_parameter", "--colour"),
            ("-o json evict a/b/c", "invalid_parameter", "--reason <TEXT>"),
        ] {
            let Shown { stdout, stderr, exit } = refused(line);
            let problem: serde_json::Value = serde_json::from_str(&stdout).unwrap();
            assert_eq!(
                (problem["code"].as_str(), problem["status"].as_u64()),
                (Some(code), Some(400)),
                "{line}"
            );
            let said = problem["detail"].as_str().unwrap();
            assert!(said.contains(detail) && !said.contains("Usage"), "{line}: {said}");
            assert!(stderr.starts_with("error: ") && exit == Exit::Usage, "{line}: {stderr}");
        }
    }

    #[test]
    fn people_are_told_on_stderr_alone() {
        for line in ["agent bad", "agent bad -o table", "run --colour a -- x -o json", "-o jsn agent a/b/c"] {
            let Shown { stdout, stderr, exit } = refused(line);
            assert_eq!((stdout.as_str(), exit), ("", Exit::Usage), "{line}");
            assert!(stderr.starts_with("error: "), "{line}: {stderr}");
        }
    }

    #[test]
    fn help_is_a_result() {
        let Shown { stdout, stderr, exit } = refused("--help");
        assert!(stdout.contains("Usage: rollcall"), "{stdout}");
        assert_eq!((stderr.as_str(), exit), ("", Exit::Done));
    }
}
