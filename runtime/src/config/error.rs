//! What is wrong with the settings, as one sentence for the person who wrote them.

use std::fmt;
use std::path::{Path, PathBuf};

/// Where a setting was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the file, both counted from one.
    Line {
        /// The line.
        line: usize,
        /// The character in it.
        column: usize,
    },
    /// In the environment, under this name.
    Environment(String),
}

/// A setting that cannot be used: which, where, why, and what to do. Nothing was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    file: PathBuf,
    details: Box<Details>,
}

// Boxed, because errors are returned by value through every caller and are rare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Details {
    place: Option<Place>,
    key: Option<String>,
    problem: String,
    advice: String,
}

impl ConfigError {
    pub(super) fn new(file: &Path, problem: impl Into<String>) -> Self {
        let details = Details { problem: problem.into(), ..Details::default() };
        Self { file: file.to_path_buf(), details: Box::new(details) }
    }

    pub(super) fn key(mut self, key: impl Into<String>) -> Self {
        self.details.key = Some(key.into());
        self
    }

    pub(super) fn place(mut self, place: Place) -> Self {
        self.details.place = Some(place);
        self
    }

    pub(super) fn advice(mut self, advice: impl Into<String>) -> Self {
        self.details.advice = advice.into();
        self
    }

    /// The settings file.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Where the setting was given, if it was given at all.
    #[must_use]
    pub fn given_at(&self) -> Option<&Place> {
        self.details.place.as_ref()
    }

    /// The setting, as in `store.kind` or `peer[0].address`.
    #[must_use]
    pub fn setting(&self) -> Option<&str> {
        self.details.key.as_deref()
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.details.place {
            Some(Place::Line { line, column }) => {
                write!(f, "{}, line {line}, column {column}: ", self.file.display())?;
            }
            Some(Place::Environment(name)) => {
                write!(f, "environment variable {name} (over {}): ", self.file.display())?;
            }
            None => write!(f, "{}: ", self.file.display())?,
        }
        match &self.details.key {
            Some(key) => write!(f, "`{key}` {}", self.details.problem)?,
            None => f.write_str(&self.details.problem)?,
        }
        if self.details.advice.is_empty() { Ok(()) } else { write!(f, "; {}", self.details.advice) }
    }
}

impl std::error::Error for ConfigError {}

/// All that is wrong with the settings, as far as it shows at once. There is always one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    first: ConfigError,
    others: Vec<ConfigError>,
}

impl ConfigErrors {
    /// None of none.
    #[must_use]
    pub fn of(errors: impl IntoIterator<Item = ConfigError>) -> Option<Self> {
        let mut errors = errors.into_iter();
        Some(Self { first: errors.next()?, others: errors.collect() })
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(first: ConfigError) -> Self {
        Self { first, others: Vec::new() }
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first.fmt(f)?;
        self.others.iter().try_for_each(|error| write!(f, "\n{error}"))
    }
}

impl std::error::Error for ConfigErrors {}
