//! The environment's say: which variables set a setting, and putting their values over the file's.
//!
//! Promises: the result does not depend on the order of the environment. A variable that is not ours to judge (no `__`
//! in it and no plain setting of that name) is left alone, because others, such as a cluster's service links, name
//! theirs with the same first word.

use std::path::Path;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeArray, DeString, DeTable, DeValue};

use super::error::{ConfigError, Place};
use super::shape::{Asked, Found, Step, probe};

const PREFIX: &str = "ROLLCALL_";

/// One variable that sets one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Override {
    pub(super) name: String,
    steps: Vec<Step>,
    asked: Asked,
    value: String,
}

/// Finds the variables that set something in `T`, in the order of the settings, and what is wrong with those that
/// should.
pub(super) fn overrides<T: DeserializeOwned>(
    path: &Path,
    environment: &[(String, String)],
) -> (Vec<Override>, Vec<ConfigError>) {
    let (mut ours, mut refused) = (Vec::new(), Vec::new());
    for (name, value) in environment {
        let Some(rest) = name.strip_prefix(PREFIX) else { continue };
        let found =
            if rest.contains("__") { nested::<T>(path, name, rest).map(Some) } else { Ok(top::<T>(rest)) };
        match found {
            Ok(Some((steps, asked))) => {
                ours.push(Override { name: name.clone(), steps, asked, value: value.clone() });
            }
            Ok(None) => {}
            Err(error) => refused.push(error),
        }
    }
    // By setting, so that the elements of a list come in their order; by name where two set the same.
    ours.sort_by(|a, b| (&a.steps, &a.name).cmp(&(&b.steps, &b.name)));
    refused.sort_by_key(ConfigError::to_string);
    (ours, refused)
}

/// A value in place of a plain one that is missing, so that the type can be asked what else is wrong. It is judged and
/// thrown away.
pub(super) fn stand_in<T: DeserializeOwned>(key: &str) -> Option<Override> {
    let segments: Vec<String> = parts(key).map(|part| part.to_lowercase().replace('-', "_")).collect();
    let Found::Known(steps, asked) = probe::<T>(&segments) else { return None };
    let value = match asked {
        Asked::Text => "",
        Asked::Word(words) => words.first()?,
        Asked::Number => "1",
        Asked::List => "[]",
        Asked::Section | Asked::Anything => return None,
    };
    Some(Override { name: String::new(), steps, asked, value: value.to_owned() })
}

/// A name without `__` is ours only when it is a plain setting, or a list of such, at the top.
fn top<T: DeserializeOwned>(rest: &str) -> Option<(Vec<Step>, Asked)> {
    let segment = rest.to_lowercase();
    let plain = |asked| matches!(asked, Asked::Text | Asked::Word(_) | Asked::Number);
    match probe::<T>(std::slice::from_ref(&segment)) {
        Found::Known(steps, Asked::List) => match probe::<T>(&[segment, "0".to_owned()]) {
            Found::Known(_, element) if plain(element) => Some((steps, Asked::List)),
            Found::Known(..) | Found::Unknown(..) | Found::NotIndexed(_) | Found::Plain(_) => None,
        },
        Found::Known(steps, asked) if plain(asked) => Some((steps, asked)),
        Found::Known(..) | Found::Unknown(..) | Found::NotIndexed(_) | Found::Plain(_) => None,
    }
}

fn nested<T: DeserializeOwned>(
    path: &Path,
    name: &str,
    rest: &str,
) -> Result<(Vec<Step>, Asked), ConfigError> {
    let segments: Vec<String> = rest.split("__").map(str::to_lowercase).collect();
    let wrong = |problem: String| ConfigError::new(path, problem).place(Place::Environment(name.to_owned()));
    if segments.iter().any(String::is_empty) {
        let wrong = wrong("names no setting: a part between two `__` is empty".to_owned());
        return Err(wrong.advice("write it as ROLLCALL_SECTION__KEY"));
    }
    match probe::<T>(&segments) {
        Found::Known(_, Asked::Section) => {
            let wrong = wrong("is a section and has no value of its own".to_owned()).key(segments.join("."));
            Err(wrong.advice(format!("set its keys one by one, as {name}__KEY")))
        }
        Found::Known(steps, asked) => Ok((steps, asked)),
        Found::Unknown(steps, known) => {
            let unknown = segments.get(steps.len()).cloned().unwrap_or_default();
            let wrong = wrong("is not a known setting".to_owned()).key(join(&render(&steps), &unknown));
            Err(wrong.advice(format!("unset it, or use one of: `{}`", known.join("`, `"))))
        }
        Found::NotIndexed(steps) => {
            let wrong = wrong("is a list: the next part of the name must be a number".to_owned());
            Err(wrong.key(render(&steps)).advice("count its elements from 0"))
        }
        Found::Plain(steps) => {
            let wrong = wrong("is a plain value with nothing inside".to_owned()).key(render(&steps));
            Err(wrong.advice("shorten the name"))
        }
    }
}

/// Puts the values over the file's. All that a variable brings in gets places of its own past the end of the file, so
/// that an error about it can be told from an error about the file; the answer is where each variable's places begin,
/// and which could not be put there.
pub(super) fn apply<'i>(
    path: &Path,
    root: &mut Spanned<DeTable<'i>>,
    overrides: &'i [Override],
    end: usize,
) -> (Vec<usize>, Vec<ConfigError>) {
    let mut marks = Marks { next: end + 1 };
    let (mut begins, mut refused) = (Vec::new(), Vec::new());
    for over in overrides {
        begins.push(marks.next);
        let value = parsed(over, &mut marks);
        let mut whole = Spanned::new(root.span(), DeValue::Table(std::mem::take(root.get_mut())));
        let put = put(&mut whole, &over.steps, value, &mut marks);
        if let DeValue::Table(table) = whole.into_inner() {
            *root.get_mut() = table;
        }
        if let Err((depth, problem)) = put {
            let key = render(over.steps.get(..depth).unwrap_or_default());
            let error = ConfigError::new(path, problem).key(key);
            refused.push(error.place(Place::Environment(over.name.clone())));
        }
    }
    (begins, refused)
}

/// Gives out places that no text has.
struct Marks {
    next: usize,
}

impl Marks {
    fn mark<T>(&mut self, value: T) -> Spanned<T> {
        self.next += 1;
        Spanned::new(self.next - 1..self.next, value)
    }
}

/// How many steps went well, and what is wrong there.
type Wrong = (usize, String);

/// Walks to the setting and puts the value there; containers that are missing on the way are made.
fn put<'i>(
    into: &mut Spanned<DeValue<'i>>,
    steps: &[Step],
    value: Spanned<DeValue<'i>>,
    marks: &mut Marks,
) -> Result<(), Wrong> {
    let Some((step, rest)) = steps.split_first() else {
        *into = value;
        return Ok(());
    };
    let next = match (into.get_mut(), step) {
        (DeValue::Table(table), Step::Key(key)) => {
            let name = marks.mark(DeString::Owned(key.clone()));
            table.entry(name).or_insert_with(|| container(rest, marks))
        }
        (DeValue::Array(array), step) => {
            let index = match step {
                Step::Index(index) => Some(*index),
                Step::Key(key) => key.parse().ok(),
            };
            let index = index.ok_or_else(|| (0, "is a list in the file; count into it from 0".to_owned()))?;
            let length = array.len();
            if index == length {
                array.push(container(rest, marks));
            }
            array.get_mut(index).ok_or_else(|| {
                (0, format!("has {length} elements, so {index} is not the next; add those before it first"))
            })?
        }
        (_, Step::Key(_)) => {
            return Err((0, "is a plain value in the file; make it a section there".to_owned()));
        }
        (_, Step::Index(_)) => return Err((0, "is not a list in the file; make it one there".to_owned())),
    };
    put(next, rest, value, marks).map_err(|(depth, problem)| (depth + 1, problem))
}

/// What must be there for the next step to go into.
fn container<'i>(rest: &[Step], marks: &mut Marks) -> Spanned<DeValue<'i>> {
    marks.mark(match rest.first() {
        Some(Step::Index(_)) => DeValue::Array(DeArray::new()),
        Some(Step::Key(_)) | None => DeValue::Table(DeTable::new()),
    })
}

/// Reads a value as the setting asks: text stays as it stands, else TOML's plain values and lists are read as such.
fn parsed<'i>(over: &'i Override, marks: &mut Marks) -> Spanned<DeValue<'i>> {
    if !matches!(over.asked, Asked::Text | Asked::Word(_)) {
        match DeValue::parse(&over.value).map(Spanned::into_inner) {
            Ok(
                value @ (DeValue::Boolean(_) | DeValue::Integer(_) | DeValue::Float(_) | DeValue::Array(_)),
            ) => return marked(value, marks),
            Ok(DeValue::String(_) | DeValue::Datetime(_) | DeValue::Table(_)) | Err(_) => {}
        }
    }
    marks.mark(DeValue::String(DeString::Borrowed(&over.value)))
}

/// Moves a value and all inside it to places of their own: those it has would be mistaken for the file's.
fn marked<'i>(value: DeValue<'i>, marks: &mut Marks) -> Spanned<DeValue<'i>> {
    let value = match value {
        DeValue::Array(array) => {
            DeValue::Array(array.into_iter().map(|element| marked(element.into_inner(), marks)).collect())
        }
        DeValue::Table(table) => {
            let mut moved = DeTable::new();
            for (key, value) in table {
                moved.insert(marks.mark(key.into_inner()), marked(value.into_inner(), marks));
            }
            DeValue::Table(moved)
        }
        plain => plain,
    };
    marks.mark(value)
}

/// The variable that gives `key` (as in `peer[0].address`), where there is one.
pub(super) fn name_of(key: &str, environment: &[(String, String)]) -> Option<String> {
    let name = format!("{PREFIX}{}", parts(key).collect::<Vec<_>>().join("__").replace('-', "_"));
    let mut names = environment.iter().map(|(name, _)| name);
    names.find(|known| known.eq_ignore_ascii_case(&name)).cloned()
}

/// The parts of a key such as `peer[0].address`.
fn parts(key: &str) -> impl Iterator<Item = &str> {
    key.split(['.', '[', ']']).filter(|part| !part.is_empty())
}

fn render(steps: &[Step]) -> String {
    steps.iter().fold(String::new(), |path, step| match step {
        Step::Key(key) => join(&path, key),
        Step::Index(index) => format!("{path}[{index}]"),
    })
}

/// A key inside the section at `path`.
pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
