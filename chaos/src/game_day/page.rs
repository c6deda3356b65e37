//! A game day as one HTML file that needs nothing else: verdict, timeline, figures, promises, diary. Pure.

mod timeline;

use std::fmt::Write as _;

use super::record::Record;
use super::report::Report;
use super::scenario::Scenario;

const STYLE: &str = include_str!("page/style.css");
const KEY: [(&str, &str); 6] = [
    ("bad", "fault, failed calls"),
    ("hold", "the guard holds"),
    ("calls", "answered calls a second"),
    ("good", "agents whose last call to the registry succeeded"),
    ("age", "age of a cell's copy"),
    ("dim", "a moment of the diary"),
];

/// The file.
#[must_use]
pub fn of(scenario: &Scenario, report: &Report, record: &Record) -> String {
    let mut page = String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    let name = escaped(&report.scenario);
    let verdict = report.verdict;
    let _ = write!(page, "<title>{name}: {verdict}</title>");
    let _ = writeln!(
        page,
        "<meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body>"
    );
    let _ = writeln!(page, "<h1>{name}<span class=\"badge {verdict}\">{verdict}</span></h1>");
    let _ = writeln!(
        page,
        "<p>{} <span class=\"dim\">({})</span></p>",
        escaped(&scenario.shows),
        escaped(&scenario.proves.join(", "))
    );
    let _ = writeln!(
        page,
        "<p class=\"dim\">{}, seed {}, commit {}</p>",
        escaped(&report.started_at),
        report.seed,
        escaped(&report.commit)
    );
    let _ = writeln!(
        page,
        "<h2>Timeline</h2><div class=\"scroll\">{}</div><p class=\"key\">",
        timeline::of(scenario, record)
    );
    for (colour, words) in KEY {
        let _ = write!(page, "<span><i style=\"background:var(--{colour})\"></i>{words}</span>");
    }
    let _ = writeln!(page, "</p><h2>Figures</h2><table>");
    for (what, figure) in report.figures() {
        let _ = writeln!(page, "<tr><td>{what}</td><td>{}</td></tr>", escaped(&figure));
    }
    let _ = writeln!(page, "</table><h2>Promises</h2><table>");
    let _ = writeln!(
        page,
        "<tr><th>verdict</th><th>promise</th><th>looked at</th><th>demanded and seen</th></tr>"
    );
    let mut promises: Vec<_> = report.promises.iter().collect();
    // What is broken is what people look for.
    promises.sort_by_key(|promise| promise.verdict == "held");
    for promise in promises {
        let mut lines = promise.detail.lines();
        let first = escaped(lines.next().unwrap_or_default());
        let _ = write!(
            page,
            "<tr><td class=\"{0}\">{0}</td><td>{1}</td><td class=\"n\">{2}</td><td>{first}",
            promise.verdict,
            escaped(&promise.id),
            promise.checked
        );
        let rest: Vec<String> = lines.map(|line| format!("<li>{}</li>", escaped(line))).collect();
        if !rest.is_empty() {
            let _ = write!(page, "<ul>{}</ul>", rest.concat());
        }
        let _ = writeln!(page, "</td></tr>");
    }
    let _ = writeln!(page, "</table><h2>Diary</h2><table>");
    for (at, what) in &record.diary {
        let _ = writeln!(
            page,
            "<tr><td class=\"n\">{:.1} s</td><td>{}</td></tr>",
            at.as_secs_f64(),
            escaped(what)
        );
    }
    page.push_str("</table></body></html>\n");
    page
}

/// Text as it may stand in HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::game_day::record::Fault;
    use crate::game_day::report::Run;

    #[test]
    fn the_page_needs_nothing_else_and_shows_text_as_text() {
        let scenario = crate::game_day::read("zone-partition").unwrap();
        let mut record = Record { ended: Duration::from_secs(60), ..Record::default() };
        record.faults.push(Fault {
            what: "zone <c> & \"d\"".to_owned(),
            zones: Vec::new(),
            programs: Vec::new(),
            at: Duration::from_secs(5),
            until: None,
            landed: true,
        });
        let run = Run { seed: 1, commit: "x".to_owned(), started_at: "2026-01-01T00:00:00Z".to_owned() };
        let report = Report::of(&scenario, &run, &record);
        let page = of(&scenario, &report, &record);
        for outside in ["src=", "href=", "@import", "url(", "<script", "http"] {
            assert!(!page.contains(outside), "the page asks for {outside}");
        }
        assert!(page.contains("zone &lt;c&gt; &amp; &quot;d&quot;") && !page.contains("zone <c>"));
        assert_eq!(report.verdict, "broken", "a run in which nothing happened proves nothing");
    }
}
