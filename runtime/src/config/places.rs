//! Where each setting was given, and the sentence for what the type said about it.
//!
//! Promises: an error names the setting by its whole path and points at the line or the variable it came from. The value
//! of a secret is never quoted, nor is a password inside a URL.

use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::environment::{Override, join};
use super::error::{ConfigError, Place};
use super::print::{hide_in_urls, is_secret};

/// The settings of one file and environment by place.
pub(super) struct Places<'a> {
    file: &'a Path,
    text: &'a str,
    overrides: &'a [Override],
    /// Where each variable's places begin, in rising order and past the end of the text.
    begins: Vec<usize>,
    given: Vec<Given>,
}

struct Given {
    span: Range<usize>,
    path: String,
    /// Whether the span is the key's; else it is the value's.
    names: bool,
}

impl<'a> Places<'a> {
    pub(super) fn of(
        file: &'a Path,
        text: &'a str,
        root: &Spanned<DeTable<'_>>,
        overrides: &'a [Override],
        begins: Vec<usize>,
    ) -> Self {
        let mut given = vec![Given { span: root.span(), path: String::new(), names: false }];
        walk(root.get_ref(), "", &mut given);
        Self { file, text, overrides, begins, given }
    }

    /// Where this setting was given: at its key, or in the variable that put another value there.
    pub(super) fn of_key(&self, path: &str) -> Option<Place> {
        let at = |names| {
            let given = self.given.iter().find(|given| given.path == path && given.names == names)?;
            Some(self.place(given.span.start))
        };
        let value = at(false).filter(|_| !path.is_empty());
        match value {
            Some(Place::Environment(name)) => Some(Place::Environment(name)),
            value => at(true).or(value),
        }
    }

    /// Turns what the type said into a sentence.
    pub(super) fn explain(&self, error: &toml::de::Error) -> ConfigError {
        let path = error.span().map_or("", |span| self.path_at(&span));
        let said = Said::parse(error.message());
        let (path, problem, advice) = said.about(path);
        let wrong = ConfigError::new(self.file, problem).advice(advice);
        // A missing key has no place, its section has; and what is missing at the top is nowhere.
        let place = self.of_key(&path).or_else(|| {
            let span = error.span().filter(|span| span.start > 0)?;
            Some(self.place(span.start))
        });
        let wrong = if path.is_empty() { wrong } else { wrong.key(path) };
        match place {
            Some(place) => wrong.place(place),
            None => wrong,
        }
    }

    fn place(&self, at: usize) -> Place {
        let begun = self.begins.partition_point(|begin| *begin <= at);
        match begun.checked_sub(1).and_then(|number| self.overrides.get(number)) {
            Some(over) => Place::Environment(over.name.clone()),
            None => line(self.text, at),
        }
    }

    /// The setting at a place: exactly there, else the innermost one around it.
    fn path_at(&self, span: &Range<usize>) -> &str {
        let around = |given: &&Given| given.span.start <= span.start && span.end <= given.span.end;
        let exact =
            self.given.iter().filter(|given| given.span == *span).max_by_key(|given| given.path.len());
        exact
            .or_else(|| self.given.iter().filter(around).min_by_key(|given| given.span.len()))
            .map_or("", |given| given.path.as_str())
    }
}

fn walk(table: &DeTable<'_>, above: &str, given: &mut Vec<Given>) {
    for (key, value) in table {
        let path = join(above, key.get_ref());
        given.push(Given { span: key.span(), path: path.clone(), names: true });
        walk_value(value, path, given);
    }
}

fn walk_value(value: &Spanned<DeValue<'_>>, path: String, given: &mut Vec<Given>) {
    match value.get_ref() {
        DeValue::Table(table) => walk(table, &path, given),
        DeValue::Array(array) => {
            for (index, element) in array.iter().enumerate() {
                walk_value(element, format!("{path}[{index}]"), given);
            }
        }
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_) => {}
    }
    given.push(Given { span: value.span(), path, names: false });
}

/// Takes the setting at `path` out, and all inside it.
pub(super) fn take_out(table: &mut DeTable<'_>, path: &str) {
    take_out_below(table, "", path);
}

fn take_out_below(table: &mut DeTable<'_>, above: &str, path: &str) {
    let mut keys = table.keys().map(|key| key.get_ref().to_string());
    if let Some(key) = keys.find(|key| join(above, key) == path) {
        table.remove(key.as_str());
        return;
    }
    for (key, value) in table.iter_mut() {
        take_out_of(value, join(above, key.get_ref()), path);
    }
}

fn take_out_of(value: &mut Spanned<DeValue<'_>>, here: String, path: &str) {
    match value.get_mut() {
        DeValue::Table(table) => take_out_below(table, &here, path),
        DeValue::Array(array) => {
            for (index, element) in array.iter_mut().enumerate() {
                take_out_of(element, format!("{here}[{index}]"), path);
            }
        }
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_) => {}
    }
}

/// The line and the character of a byte of the text, counted from one.
pub(super) fn line(text: &str, at: usize) -> Place {
    let before = text.get(..at).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let column = before.get(start..).unwrap_or_default().chars().count() + 1;
    Place::Line { line: before.matches('\n').count() + 1, column }
}

/// What serde's derived code says, taken apart. Its wording is fixed by `serde::de::Error`'s own default methods.
enum Said<'a> {
    UnknownKey { key: &'a str, known: String },
    MissingKey { key: &'a str },
    WrongKind { found: &'a str, expected: &'a str },
    UnknownVariant { found: &'a str, known: String },
    Other(&'a str),
}

impl<'a> Said<'a> {
    fn parse(message: &'a str) -> Self {
        let quoted = |start: &str| message.strip_prefix(start)?.split_once('`');
        if let Some((key, rest)) = quoted("unknown field `") {
            return Self::UnknownKey { key, known: expected(rest) };
        }
        if let Some((key, _)) = quoted("missing field `") {
            return Self::MissingKey { key };
        }
        if let Some((found, rest)) = quoted("unknown variant `") {
            return Self::UnknownVariant { found, known: expected(rest) };
        }
        let kinds = ["invalid type: ", "invalid value: "];
        let wrong = kinds.iter().find_map(|start| message.strip_prefix(start));
        // The last one: the value that was found may hold the same words.
        match wrong.and_then(|wrong| wrong.rsplit_once(", expected ")) {
            Some((found, expected)) => Self::WrongKind { found, expected },
            None => Self::Other(message),
        }
    }

    /// The path of the setting in question, what is wrong with it, and what to do.
    fn about(&self, path: &str) -> (String, String, String) {
        let hidden = path.split('.').any(|key| is_secret(key, &[]));
        match self {
            Self::UnknownKey { key, known } => {
                // The place is the key's own, or its section's where the type had looked at the whole section first.
                let named = path == *key || path.ends_with(&format!(".{key}"));
                let path = if named { path.to_owned() } else { join(path, key) };
                (path, "is not a known setting".to_owned(), known_keys(known))
            }
            Self::MissingKey { key } => (join(path, key), "is missing".to_owned(), "add it".to_owned()),
            Self::UnknownVariant { known, .. } if hidden => {
                (path.to_owned(), "has no possible value".to_owned(), format!("use one of: {known}"))
            }
            Self::UnknownVariant { found, known } => {
                (path.to_owned(), format!("cannot be `{found}`"), format!("use one of: {known}"))
            }
            Self::WrongKind { found, expected } => {
                let found = if hidden { "this".to_owned() } else { hide_in_urls(found) };
                (path.to_owned(), format!("cannot be {found}"), format!("give {}", kind(expected)))
            }
            Self::Other(_) if hidden => {
                (path.to_owned(), "has no possible value".to_owned(), "correct it".to_owned())
            }
            Self::Other(message) => (
                path.to_owned(),
                format!("cannot be used: {}", hide_in_urls(message)),
                "correct it".to_owned(),
            ),
        }
    }
}

/// The list after "expected", which serde writes in three ways by its length.
fn expected(rest: &str) -> String {
    let rest = rest.trim_start_matches(", ").trim_start_matches("expected ").trim_start_matches("one of ");
    rest.trim_start_matches("there are ").replace("` or `", "`, `")
}

fn known_keys(known: &str) -> String {
    if known == "no fields" {
        "remove it, nothing can be set there".to_owned()
    } else {
        format!("correct or remove it; known there: {known}")
    }
}

/// The names of Rust's types, said to a person.
fn kind(expected: &str) -> &str {
    match expected {
        "a boolean" => "true or false",
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a string" => "a text in quotes",
        "a sequence" => "a list in brackets",
        "a map" => "a section",
        other if other.starts_with("struct ") => "a section",
        other if other.starts_with("a nonzero ") => "a whole number above 0",
        other => other,
    }
}
