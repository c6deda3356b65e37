//! Settings: a TOML file, then the environment over it, then the caller's type as the judge of both.
//!
//! `ROLLCALL_STORE__KIND=…` sets `kind` under `[store]`, `ROLLCALL_PEER__0__ADDRESS=…` sets `address` of the first
//! `[[peer]]`, `ROLLCALL_DATA_DIR=…` sets a plain value at the top. The value is read as TOML where that gives a
//! boolean, a number or a list and the setting is no text; otherwise it is text as it stands.
//!
//! Promises: a key nobody knows is an error that names it and its place, whether file or environment; all faults that
//! can be seen at once are told at once. Secrets are neither printed nor quoted in an error. It never fills in a default
//! by itself: those belong to the types, with their reasons.

mod environment;
mod error;
mod judged;
mod mended;
mod places;
mod print;
mod shape;

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::de::{DeTable, Deserializer};

pub use error::{ConfigError, ConfigErrors, Place};
pub use judged::{Auth, AuthMode, Unusable};
pub use print::print;

use environment::{Override, overrides};
use mended::Mended;
use places::Places;

/// A settings file is written by hand; past 1 MiB it is the wrong file, and reading on would only hide that.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Most faults told at once: more than that and it is the wrong file.
const FAULTS_MAX: usize = 32;

/// Reads a settings file and the environment into `T`.
///
/// # Errors
/// For each fault a sentence with the file, the line or the variable, the key, and what to do.
pub fn load<T: DeserializeOwned>(path: &Path, environment: &[(String, String)]) -> Result<T, ConfigErrors> {
    let text = read(path)?;
    let (mut overrides, mut found) = overrides::<T>(path, environment);
    // The type stops at its first fault, so each is mended, for the look of it, and the type judges again.
    let mut mended = Mended::default();
    loop {
        let (mut root, places, refused) = merge(path, &text, &overrides)?;
        if mended.is_empty() {
            found.extend(refused);
        }
        mended.take_out(root.get_mut());
        let error = match T::deserialize(Deserializer::from(root)) {
            Ok(settings) => return ConfigErrors::of(found).map_or(Ok(settings), Err),
            Err(error) => places.explain(&error),
        };
        let key = error.setting().unwrap_or_default().to_owned();
        let is_given = places.of_key(&key).is_some();
        if !mended.knows(&key) {
            found.push(error.clone());
        }
        let goes_on = mended.mend::<T>(key, is_given, &mut overrides);
        if !goes_on || found.len() >= FAULTS_MAX {
            return Err(ConfigErrors::of(found).unwrap_or_else(|| error.into()));
        }
    }
}

/// The process's environment in the form that [`load`] takes.
///
/// A name that is no text cannot be ours and is left out; in a value, what is no text becomes a replacement character,
/// so that it is refused by the setting it was meant for rather than passed over.
#[must_use]
pub fn process_environment() -> Vec<(String, String)> {
    let text = |(name, value): (OsString, OsString)| {
        name.into_string().ok().map(|name| (name, value.to_string_lossy().into_owned()))
    };
    std::env::vars_os().filter_map(text).collect()
}

/// Reads a settings file alone, unjudged: to see by its sections what it is for.
///
/// # Errors
/// When the file cannot be read or is no TOML.
pub fn read_table(path: &Path) -> Result<toml::Table, ConfigError> {
    let text = read(path)?;
    let root = parse(path, &text)?;
    let places = Places::of(path, &text, &root, &[], Vec::new());
    toml::Table::deserialize(Deserializer::from(root)).map_err(|error| places.explain(&error))
}

/// Reads what [`load`] reads, as a table for [`print()`]: the file with the environment over it and the type's defaults
/// under it. What is optional and was not given is not there.
///
/// # Errors
/// As [`load`].
pub fn effective<T: DeserializeOwned + Serialize>(
    path: &Path,
    environment: &[(String, String)],
) -> Result<toml::Table, ConfigErrors> {
    let settings = load::<T>(path, environment)?;
    let shown = toml::Table::try_from(&settings).map_err(|error| {
        ConfigError::new(path, format!("cannot be shown: {error}")).advice("this is a defect")
    })?;
    Ok(shown)
}

/// The error for a setting that has the right type and still cannot be: `key` as in `listen.http` or `peer[0].address`.
///
/// It points at the variable or the line that gave the value, so that the caller's own checks read like the others.
#[must_use]
pub fn refuse(
    path: &Path,
    environment: &[(String, String)],
    key: &str,
    problem: impl Into<String>,
    advice: impl Into<String>,
) -> ConfigError {
    let error = ConfigError::new(path, problem).key(key).advice(advice);
    if let Some(name) = environment::name_of(key, environment) {
        return error.place(Place::Environment(name));
    }
    // The file was read a moment ago; if it cannot be now, the error does without the line.
    let Ok(text) = read(path) else { return error };
    let Ok(root) = parse(path, &text) else { return error };
    match Places::of(path, &text, &root, &[], Vec::new()).of_key(key) {
        Some(place) => error.place(place),
        None => error,
    }
}

fn merge<'i>(
    path: &'i Path,
    text: &'i str,
    overrides: &'i [Override],
) -> Result<(Spanned<DeTable<'i>>, Places<'i>, Vec<ConfigError>), ConfigError> {
    let mut root = parse(path, text)?;
    let (begins, refused) = environment::apply(path, &mut root, overrides, text.len());
    let places = Places::of(path, text, &root, overrides, begins);
    Ok((root, places, refused))
}

fn read(path: &Path) -> Result<String, ConfigError> {
    let refused =
        |problem: String| ConfigError::new(path, problem).advice("name a TOML file that this user may read");
    let length = fs::metadata(path).map_err(|error| refused(format!("cannot be read: {error}")))?.len();
    if length > FILE_BYTES_MAX {
        return Err(refused(format!("is {length} bytes long, a settings file has at most {FILE_BYTES_MAX}")));
    }
    fs::read_to_string(path).map_err(|error| refused(format!("cannot be read: {error}")))
}

fn parse<'i>(path: &Path, text: &'i str) -> Result<Spanned<DeTable<'i>>, ConfigError> {
    DeTable::parse(text).map_err(|error| {
        let wrong = ConfigError::new(path, format!("is not TOML: {}", error.message()));
        let wrong = wrong.advice("correct the syntax");
        match error.span() {
            Some(span) => wrong.place(places::line(text, span.start)),
            None => wrong,
        }
    })
}

#[cfg(test)]
mod tests;
