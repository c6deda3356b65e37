//! Logs: one subscriber for the process, to stderr, as text for people or JSON for machines.
//!
//! Promises: stdout is never written, it belongs to results. A filter that cannot be read is an error and never "log
//! nothing". It never reads the environment itself.

use std::io::{self, IsTerminal};
use std::str::FromStr;

use tracing::Subscriber;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, fmt};

/// The filter when nobody gives one: state changes, and what needs somebody's eye.
pub const DEFAULT_LEVEL: &str = "info";

/// The shape of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// One line of text, coloured on a terminal.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// `ROLLCALL_LOG_FORMAT` names no format.
    #[error("log format `{0}` is not known; set ROLLCALL_LOG_FORMAT to text or json")]
    Format(String),
    /// `ROLLCALL_LOG` is no filter.
    #[error(
        "log filter `{0}` cannot be read; set ROLLCALL_LOG to a level or to a list like info,rollcall_cell=debug"
    )]
    Level(String),
    /// The process has a subscriber already.
    #[error("logging was set up twice; only the process's owner may do it, once")]
    Twice,
}

impl FromStr for LogFormat {
    type Err = TelemetryError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(TelemetryError::Format(other.to_owned())),
        }
    }
}

/// Sets up logging for the process. `level` is a level or a list of `target=level`, as in `info,rollcall_cell=debug`.
///
/// # Errors
/// When the filter cannot be read, or when there is a subscriber already.
pub fn init(format: LogFormat, level: &str) -> Result<(), TelemetryError> {
    let subscriber = subscriber(format, level, io::stderr().is_terminal(), io::stderr)?;
    tracing::subscriber::set_global_default(subscriber).map_err(|_| TelemetryError::Twice)
}

/// Sets up logging as the environment says: `ROLLCALL_LOG_FORMAT` (default text), `ROLLCALL_LOG` (default info).
///
/// # Errors
/// When one of the two cannot be read, or when there is a subscriber already.
pub fn init_from(environment: &[(String, String)]) -> Result<(), TelemetryError> {
    let (format, level) = settings(environment)?;
    init(format, level)
}

/// Judges what [`init_from`] would read, and sets up nothing.
///
/// # Errors
/// When one of the two cannot be read.
pub fn check(environment: &[(String, String)]) -> Result<(), TelemetryError> {
    let (_, level) = settings(environment)?;
    level.parse::<Targets>().map(drop).map_err(|_| TelemetryError::Level(level.to_owned()))
}

fn settings(environment: &[(String, String)]) -> Result<(LogFormat, &str), TelemetryError> {
    // Set but empty is what a template with a blank leaves behind: the default, not an error.
    let value = |name: &str| {
        let found = environment.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    };
    let format = value("ROLLCALL_LOG_FORMAT").map_or(Ok(LogFormat::default()), str::parse)?;
    Ok((format, value("ROLLCALL_LOG").unwrap_or(DEFAULT_LEVEL)))
}

fn subscriber<W>(
    format: LogFormat,
    level: &str,
    colours: bool,
    writer: W,
) -> Result<Box<dyn Subscriber + Send + Sync>, TelemetryError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let targets: Targets = level.parse().map_err(|_| TelemetryError::Level(level.to_owned()))?;
    let registry = tracing_subscriber::registry();
    Ok(match format {
        LogFormat::Text => {
            let lines = fmt::layer().with_ansi(colours).with_writer(writer);
            Box::new(registry.with(lines.with_filter(targets)))
        }
        LogFormat::Json => {
            // Fields at the top level, so that a log store finds them where it looks without a parsing rule.
            let lines = fmt::layer().json().flatten_event(true).with_writer(writer);
            Box::new(registry.with(lines.with_filter(targets)))
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("whole").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, level: &str, log: impl FnOnce()) -> String {
        let kept = Kept::default();
        let writer = kept.clone();
        let subscriber = subscriber(format, level, false, move || writer.clone()).expect("a good filter");
        tracing::subscriber::with_default(subscriber, log);
        String::from_utf8(kept.0.lock().expect("whole").clone()).expect("text")
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn text_names_level_target_message_and_fields() {
        let text = logged(LogFormat::Text, "info", || tracing::info!(side = "north", "door opened"));
        assert!(
            text.ends_with(" INFO rollcall_runtime::telemetry::tests: door opened side=\"north\"\n"),
            "{text}"
        );
        assert!(!text.contains('\u{1b}'), "no colours where there is no terminal: {text:?}");
    }

    #[test]
    fn json_has_its_fields_at_the_top_and_one_object_a_line() {
        let text = logged(LogFormat::Json, "info", || {
            tracing::info!(side = "north", "door opened");
            tracing::warn!("second\nline");
        });
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        for part in [r#""level":"INFO""#, r#""message":"door opened""#, r#""side":"north""#] {
            assert!(lines[0].contains(part), "{part} is missing in {text}");
        }
        assert!(lines.iter().all(|line| line.starts_with('{') && line.ends_with('}')), "{text}");
    }

    #[test]
    fn the_filter_chooses_by_level_and_by_target() {
        let log = || {
            tracing::debug!(target: "rollcall_cell::door", "one step");
            tracing::debug!(target: "rollcall_other", "hidden step");
            tracing::info!(target: "rollcall_other", "changed");
        };
        let text = logged(LogFormat::Text, "info,rollcall_cell=debug", log);
        assert!(
            text.contains("one step") && text.contains("changed") && !text.contains("hidden step"),
            "{text}"
        );
        let text = logged(LogFormat::Text, "off", log);
        assert_eq!(text, "");
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_the_next_step() {
        let refused =
            subscriber(LogFormat::Text, "info,x=loud", false, io::sink).err().expect("no such level");
        let sentence = "log filter `info,x=loud` cannot be read; set ROLLCALL_LOG to a level or to a list like \
                        info,rollcall_cell=debug";
        assert_eq!(refused.to_string(), sentence);
        let refused = "xml".parse::<LogFormat>().expect_err("no such format");
        assert_eq!(
            refused.to_string(),
            "log format `xml` is not known; set ROLLCALL_LOG_FORMAT to text or json"
        );
    }

    #[test]
    fn the_environment_chooses_and_blanks_mean_the_default() {
        let none = pairs(&[]);
        assert_eq!(settings(&none).expect("default"), (LogFormat::Text, "info"));
        let both = pairs(&[("ROLLCALL_LOG_FORMAT", "json"), ("ROLLCALL_LOG", "debug")]);
        assert_eq!(settings(&both).expect("both"), (LogFormat::Json, "debug"));
        let blank = pairs(&[("ROLLCALL_LOG_FORMAT", ""), ("ROLLCALL_LOG", "")]);
        assert_eq!(settings(&blank).expect("blank"), (LogFormat::Text, "info"));
        let wrong = pairs(&[("ROLLCALL_LOG_FORMAT", "xml")]);
        assert!(matches!(settings(&wrong), Err(TelemetryError::Format(_))));
    }
}
