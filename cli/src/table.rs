//! Tables for people: columns by two spaces, no lines, so that they can be read, cut and grepped.
//!
//! Promises: a row stays one line, whatever is in it. It never shortens a value and never colours one.

use comfy_table::{Table, presets};
use serde_json::Value;

/// What stands where there is no value.
const NONE: &str = "-";

/// A table with these headings.
pub(crate) fn table(headings: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(headings.to_vec());
    for row in rows {
        table.add_row(row.into_iter().map(|cell| one_line(&cell)).collect::<Vec<_>>());
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

/// A table of one thing: a line for each of its facts.
pub(crate) fn facts(rows: Vec<(&str, String)>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    for (name, value) in rows {
        table.add_row(vec![name.to_owned(), one_line(&value)]);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

/// A member of an answer as a cell of a table: text as it stands, lists by commas, objects as JSON.
pub(crate) fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => NONE.to_owned(),
        Some(Value::String(text)) if text.is_empty() => NONE.to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(items)) if items.is_empty() => NONE.to_owned(),
        Some(Value::Array(items)) => items.iter().map(named).collect::<Vec<_>>().join(","),
        Some(Value::Object(members)) if members.is_empty() => NONE.to_owned(),
        Some(other @ (Value::Bool(_) | Value::Number(_) | Value::Object(_))) => other.to_string(),
    }
}

/// An item of a list by what it is called: endpoints by their URL, capabilities by their name, skills by their id.
fn named(item: &Value) -> String {
    let member = ["url", "id", "name"].into_iter().find_map(|name| item.get(name)?.as_str());
    member.map_or_else(|| cell(Some(item)), str::to_owned)
}

/// A map as `key=value` by commas.
pub(crate) fn pairs(value: Option<&Value>) -> String {
    let Some(members) = value.and_then(Value::as_object).filter(|members| !members.is_empty()) else {
        return NONE.to_owned();
    };
    members.iter().map(|(key, value)| format!("{key}={}", cell(Some(value)))).collect::<Vec<_>>().join(",")
}

/// A position as event ids and parameters write it.
pub(crate) fn position(value: Option<&Value>) -> String {
    let member = |name: &str| value.and_then(|position| position.get(name)).and_then(Value::as_str);
    match (member("incarnation"), member("revision")) {
        (Some(incarnation), Some(revision)) => format!("{incarnation}:{revision}"),
        _ => NONE.to_owned(),
    }
}

/// Milliseconds as seconds.
pub(crate) fn seconds(value: Option<&Value>) -> String {
    #[allow(clippy::cast_precision_loss, reason = "an age is shown to a tenth of a second")]
    value
        .and_then(Value::as_u64)
        .map_or_else(|| NONE.to_owned(), |ms| format!("{:.1} s", ms as f64 / 1_000.0))
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_stand_two_spaces_apart_and_lines_end_where_their_text_does() {
        let text =
            table(&["ID", "ZONE"], vec![vec!["a/b/c".into(), "a".into()], vec!["x".into(), "bb".into()]]);
        assert_eq!(text, "ID     ZONE\na/b/c  a\nx      bb");
    }

    #[test]
    fn a_table_without_rows_is_its_headings() {
        assert_eq!(table(&["ID", "ZONE"], Vec::new()), "ID  ZONE");
    }

    #[test]
    fn a_value_with_line_breaks_or_terminal_codes_stays_one_plain_line() {
        assert_eq!(facts(vec![("name", "a\nb\u{1b}[31m".into())]), "name  a b [31m");
    }

    #[test]
    fn a_wide_value_is_not_shortened() {
        let wide = "w".repeat(3_000);
        assert!(table(&["X"], vec![vec![wide.clone()]]).ends_with(&wide));
    }

    #[test]
    fn members_become_cells() {
        for (value, expected) in [
            (json!(null), "-"),
            (json!(""), "-"),
            (json!([]), "-"),
            (json!("x"), "x"),
            (json!(7), "7"),
            (json!(true), "true"),
            (json!(["a:b:v1", {"name": "c:d:v2", "tags": []}]), "a:b:v1,c:d:v2"),
            (json!([{"url": "http://h:1/", "protocol": null}]), "http://h:1/"),
        ] {
            assert_eq!(cell(Some(&value)), expected, "{value}");
        }
        assert_eq!(pairs(Some(&json!({"a": "1", "b": "2"}))), "a=1,b=2");
        assert_eq!(position(Some(&json!({"incarnation": "1-ab", "revision": "12"}))), "1-ab:12");
        assert_eq!(seconds(Some(&json!(1_250))), "1.2 s");
        assert_eq!(seconds(None), "-");
    }
}
