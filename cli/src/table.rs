//! Tables for people: columns by two spaces, no lines, so that they can be read, cut and grepped.
//!
//! Promises: written to a file or a pipe a row stays one line, whatever is in it; on a terminal that is too narrow the
//! widest columns go on below themselves, instead of breaking all rows apart, and where even that would not leave enough
//! to read, columns without any value are left out, or each row becomes a block of lines. It never shortens a value and
//! never colours one.

use std::io::{self, IsTerminal as _};

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};
use rustix::termios::tcgetwinsize;
use serde_json::Value;

/// What stands where there is no value.
const NONE: &str = "-";
/// Between two columns.
const GAP: u16 = 2;
/// What a column needs at least to be read, its gap included.
const COLUMN_LEAST: u16 = 12;
/// The heading of values that are copied into another call: in two pieces they are of no use.
const WHOLE: &str = "POSITION";

/// A table with these headings.
pub(crate) fn table(headings: &[&str], rows: Vec<Vec<String>>) -> String {
    table_within(terminal_columns(), headings, rows)
}

fn table_within(columns: Option<u16>, headings: &[&str], rows: Vec<Vec<String>>) -> String {
    let is_too_wide = |headings: &[&str], rows: &[Vec<String>]| {
        columns.is_some_and(|columns| least(headings, rows) > usize::from(columns))
    };
    if !is_too_wide(headings, &rows) {
        return rows_within(columns, headings, rows);
    }
    let (fewer, values) = with_values(headings, &rows);
    if !rows.is_empty() && !is_too_wide(&fewer, &values) {
        return rows_within(columns, &fewer, values);
    }
    let block = |row: Vec<String>| facts_within(columns, headings.iter().copied().zip(row).collect());
    rows.into_iter().map(block).collect::<Vec<_>>().join("\n\n")
}

/// The columns in which any row has a value.
fn with_values<'h>(headings: &[&'h str], rows: &[Vec<String>]) -> (Vec<&'h str>, Vec<Vec<String>>) {
    let has_value = |at: usize| rows.iter().any(|row| row.get(at).is_some_and(|cell| cell != NONE));
    let kept: Vec<usize> = (0..headings.len()).filter(|at| *at == 0 || has_value(*at)).collect();
    let of = |row: &Vec<String>| kept.iter().filter_map(|at| row.get(*at).cloned()).collect();
    (kept.iter().filter_map(|at| headings.get(*at).copied()).collect(), rows.iter().map(of).collect())
}

fn rows_within(columns: Option<u16>, headings: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(headings.to_vec());
    for row in rows {
        table.add_row(row.into_iter().map(|cell| one_line(&cell)).collect::<Vec<_>>());
    }
    let first = headings.iter().position(|heading| *heading == WHOLE);
    laid_out(table, columns, first)
}

/// What a table needs at least to be read: the first column, which says what a row is about, and [`WHOLE`] ones whole,
/// and of each other as much as [`COLUMN_LEAST`].
fn least(headings: &[&str], rows: &[Vec<String>]) -> usize {
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
        cells.chain(headings.get(at).map(|heading| heading.len())).max().unwrap_or_default()
    };
    let gap = usize::from(GAP);
    (0..headings.len())
        .map(|at| width(at) + gap)
        .enumerate()
        .map(|(at, whole)| {
            let is_whole = at == 0 || headings.get(at) == Some(&WHOLE);
            if is_whole { whole } else { whole.min(COLUMN_LEAST.into()) }
        })
        .sum::<usize>()
        .saturating_sub(gap)
}

/// A table of one thing: a line for each of its facts.
pub(crate) fn facts(rows: Vec<(&str, String)>) -> String {
    facts_within(terminal_columns(), rows)
}

fn facts_within(columns: Option<u16>, rows: Vec<(&str, String)>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    for (name, value) in rows {
        table.add_row(vec![name.to_owned(), one_line(&value)]);
    }
    laid_out(table, columns, None)
}

/// A number with what it counts.
pub(crate) fn counted(number: &str, one: &str) -> String {
    format!("{number} {one}{}", if number == "1" { "" } else { "s" })
}

fn laid_out(mut table: Table, columns: Option<u16>, whole: Option<usize>) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, GAP));
    }
    if let Some(columns) = columns {
        // The gap behind the last column is cut off.
        let columns = columns.saturating_add(GAP);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(columns);
        keep_whole(&mut table, columns, whole);
    }
    table.trim_fmt()
}

/// Keeps columns whole as long as the others have something left: the first, which says what a row is about, then the one
/// that is named, then the narrow ones, so that what goes on below itself are lists and addresses.
fn keep_whole(table: &mut Table, columns: u16, named: Option<usize>) {
    let widths = table.column_max_content_widths();
    let mut order: Vec<usize> = (0..widths.len()).collect();
    order.sort_by_key(|at| (*at != 0, Some(*at) != named, widths.get(*at).copied()));
    let whole = |at: usize| widths.get(at).copied().unwrap_or_default().saturating_add(GAP);
    // What all of them need together, if none is kept.
    let mut need: u16 = order.iter().map(|at| whole(*at).min(COLUMN_LEAST)).fold(0, u16::saturating_add);
    for at in order {
        let more = whole(at).saturating_sub(COLUMN_LEAST);
        if need.saturating_add(more) <= columns
            && let Some(column) = table.column_mut(at)
        {
            need += more;
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
}

/// Columns of the terminal that reads; none where something else does.
fn terminal_columns() -> Option<u16> {
    let stdout = io::stdout();
    let size = stdout.is_terminal().then(|| tcgetwinsize(stdout).ok())??;
    // A terminal that does not know its size says 0.
    (size.ws_col > 0).then_some(size.ws_col)
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
    // Also what breaks lines or turns the direction of all that follows, which could make one row look like another.
    let moves = |c| matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().map(|c| if c.is_control() || moves(c) { ' ' } else { c }).collect()
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
        assert_eq!(facts(vec![("name", "a\u{202e}b\u{2028}c".into())]), "name  a b c");
    }

    #[test]
    fn a_wide_value_is_not_shortened() {
        let wide = "w".repeat(3_000);
        assert!(table(&["X"], vec![vec![wide.clone()]]).ends_with(&wide));
    }

    #[test]
    fn on_a_narrow_terminal_no_line_is_wider_and_nothing_is_lost() {
        let rows = vec![
            vec!["ops/mail/1".into(), "a".into(), "email:send:v1,template:render:v2,".repeat(4)],
            vec!["ops/mail/2".into(), "b".into(), "-".into()],
        ];
        let wide = table_within(Some(400), &["ID", "ZONE", "CAPABILITIES"], rows.clone());
        assert_eq!(wide, table_within(None, &["ID", "ZONE", "CAPABILITIES"], rows.clone()));
        let narrow = table_within(Some(60), &["ID", "ZONE", "CAPABILITIES"], rows);
        assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
        assert!(narrow.lines().any(|line| line.starts_with("ops/mail/2  b")), "{narrow}");
        let letters = |text: &str| text.chars().filter(|c| *c == 'v').count();
        assert_eq!(letters(&narrow), letters(&wide), "{narrow}");
        let facts = facts_within(Some(40), vec![("endpoints", "http://h:1/".repeat(9))]);
        assert!(facts.lines().all(|line| line.chars().count() <= 40), "{facts}");
    }

    #[test]
    fn where_columns_would_be_too_narrow_to_read_each_row_is_a_block() {
        let id = "demo/email-sender/us-east-1".to_owned();
        let row = |zone: &str| vec![id.clone(), zone.into(), "x".repeat(30), "y".repeat(30)];
        let text = table_within(Some(50), &["ID", "ZONE", "ENDPOINT", "LIST"], vec![row("a"), row("b")]);
        let (x, y) = ("x".repeat(30), "y".repeat(30));
        let block = |zone: &str| format!("ID        {id}\nZONE      {zone}\nENDPOINT  {x}\nLIST      {y}");
        assert_eq!(text, format!("{}\n\n{}", block("a"), block("b")));
    }

    #[test]
    fn a_position_is_whole_on_every_terminal_that_has_room_for_it() {
        let at = |region: &str, resync: &str| {
            let position = format!("1-{}:123456", "0f".repeat(16));
            [region, "view", "current", "0.3 s", &position, "1200", resync].map(str::to_owned).to_vec()
        };
        let headings = ["REGION", "ROLE", "STATE", "AGE", "POSITION", "COUNT", "LAST RESYNC"];
        for resync in ["-", "gap at 2026-11-30T18:20:20.123Z"] {
            for columns in [40, 60, 80, 100, 120] {
                let rows = vec![at("us-east", "-"), at("ap-south", resync)];
                let text = table_within(Some(columns), &headings, rows);
                let whole = text.matches(&format!("1-{}:123456", "0f".repeat(16))).count();
                // Where not even a block has the room, nothing can be done.
                assert!(whole == 2 || columns == 40, "{columns}: {text}");
                assert!(text.lines().all(|line| line.chars().count() <= usize::from(columns)), "{text}");
            }
        }
        let text = table_within(Some(80), &headings, vec![at("us-east", "-"), at("ap-south", "-")]);
        assert_eq!(text.lines().count(), 3, "a column of nothing is what goes first: {text}");
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
