//! The timeline of a game day as one drawing: lanes over time for faults, guard, calls, agents and ages. Pure.

use std::fmt::Write as _;
use std::time::Duration;

use super::escaped;
use crate::game_day::record::{Fault, Record, Sight, Tick};
use crate::game_day::scenario::Scenario;

const WIDTH: f64 = 1100.0;
/// Room for the lanes' names.
const LEFT: f64 = 150.0;
/// Room for the highest values of lanes.
const RIGHT: f64 = 56.0;
const LANE: f64 = 54.0;
const THIN: f64 = 24.0;
const GAP: f64 = 10.0;
/// More faults than that have no room for their words; they show them when they are pointed at.
const LABELLED: usize = 6;
/// Lines over time: about so many.
const TICKS: f64 = 10.0;

/// A drawing under way: its text, its length in seconds, and where the next lane begins.
struct Drawing {
    text: String,
    length: f64,
    y: f64,
}

/// Draws it.
#[must_use]
pub(super) fn of(scenario: &Scenario, record: &Record) -> String {
    let mut drawing = Drawing { text: String::new(), length: record.ended.as_secs_f64().max(1.0), y: 22.0 };
    drawing.faults(record);
    drawing.guards(scenario, record);
    for zone in &scenario.zones {
        let ticks: Vec<&Tick> = record.ticks.iter().filter(|tick| tick.zone == zone.name).collect();
        if zone.callers > 0 {
            drawing.calls(&zone.name, &ticks);
        }
        if zone.instances > 0 {
            drawing.settled(&zone.name, &ticks, zone.instances);
        }
    }
    for region in scenario.regions() {
        for zone in scenario.zones.iter().filter(|zone| zone.cell) {
            let of = |sight: &&Sight| sight.cell && sight.zone == zone.name && sight.region == region;
            drawing.ages(&zone.name, region, &record.sights.iter().filter(of).collect::<Vec<_>>());
        }
    }
    drawing.finish(record)
}

impl Drawing {
    fn x(&self, at: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (at / self.length).clamp(0.0, 1.0)
    }

    /// Begins a lane and gives its upper edge.
    fn lane(&mut self, name: &str, height: f64) -> f64 {
        let top = self.y;
        let (wide, middle) = (WIDTH - LEFT - RIGHT, top + height / 2.0 + 4.0);
        let _ = write!(
            self.text,
            r#"<rect class="band" x="{LEFT}" y="{top}" width="{wide}" height="{height}"/><text x="{}" y="{middle}" text-anchor="end">{}</text>"#,
            LEFT - 10.0,
            escaped(name)
        );
        self.y += height + GAP;
        top
    }

    fn highest(&mut self, top: f64, words: &str) {
        let x = WIDTH - RIGHT + 6.0;
        let _ =
            write!(self.text, r#"<text class="dim" x="{x}" y="{}">{}</text>"#, top + 11.0, escaped(words));
    }

    fn bar(&mut self, class: &str, (from, until): (f64, f64), (top, height): (f64, f64), title: &str) {
        let (x, wide) = (self.x(from), (self.x(until) - self.x(from)).max(1.5));
        let _ = write!(
            self.text,
            r#"<rect class="{class}" x="{x:.1}" y="{top:.1}" width="{wide:.1}" height="{height:.1}"><title>{}</title></rect>"#,
            escaped(title)
        );
    }

    fn line(&mut self, class: &str, points: &[(f64, f64)], title: &str) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = write!(
            self.text,
            r#"<polyline class="{class}" points="{}"><title>{}</title></polyline>"#,
            points.join(" "),
            escaped(title)
        );
    }

    fn faults(&mut self, record: &Record) {
        let top = self.lane("faults", THIN);
        for fault in &record.faults {
            let span = span(fault, record.ended);
            let words = format!("{}, {:.1} s to {:.1} s", fault.what, span.0, span.1);
            self.bar("fault", span, (top + 4.0, THIN - 8.0), &words);
            if record.faults.len() > LABELLED {
                continue;
            }
            // Beside a short bar, so that it can be read.
            let x = self.x(span.1) + 6.0;
            let words = escaped(&fault.what);
            let _ = write!(self.text, r#"<text class="dim" x="{x:.1}" y="{:.1}">{words}</text>"#, top + 16.0);
        }
    }

    fn guards(&mut self, scenario: &Scenario, record: &Record) {
        for region in scenario.regions() {
            let top = self.lane(&format!("guard of {region}"), THIN);
            let guards: Vec<_> = record.guards.iter().filter(|guard| guard.region == region).collect();
            for pair in guards.windows(2).filter(|pair| !pair[0].holding.is_empty()) {
                let span = (pair[0].at.as_secs_f64(), pair[1].at.as_secs_f64());
                let words = format!(
                    "{:.1} s: holds {}, {} suspects",
                    span.0,
                    pair[0].holding.join(", "),
                    pair[0].suspects
                );
                self.bar("hold", span, (top + 4.0, THIN - 8.0), &words);
            }
        }
    }

    fn calls(&mut self, zone: &str, ticks: &[&Tick]) {
        let top = self.lane(&format!("calls of {zone}"), LANE);
        let most = ticks.iter().map(|tick| tick.calls).max().unwrap_or(0).max(1);
        self.highest(top, &format!("{most}/s"));
        for tick in ticks.iter().filter(|tick| tick.calls > 0) {
            let until = tick.at.as_secs_f64();
            let (all, failed) = (share(tick.calls, most) * LANE, share(tick.calls_failed, most) * LANE);
            let words = format!("{until:.0} s: {} calls, {} failed", tick.calls, tick.calls_failed);
            self.bar("calls", (until - 0.9, until), (top + LANE - all, all - failed), &words);
            if tick.calls_failed > 0 {
                self.bar("failed", (until - 0.9, until), (top + LANE - failed, failed), &words);
            }
        }
    }

    fn settled(&mut self, zone: &str, ticks: &[&Tick], instances: u32) {
        let top = self.lane(&format!("agents of {zone}"), THIN + 6.0);
        self.highest(top, &instances.to_string());
        let height = |tick: &Tick| (THIN + 2.0) * (1.0 - share(tick.settled, u64::from(instances))) + 2.0;
        let points: Vec<_> =
            ticks.iter().map(|tick| (self.x(tick.at.as_secs_f64()), top + height(tick))).collect();
        self.line(
            "settled",
            &points,
            &format!("agents of zone {zone} whose last call to the registry succeeded"),
        );
    }

    fn ages(&mut self, zone: &str, region: &str, sights: &[&Sight]) {
        let loaded: Vec<&&Sight> = sights.iter().filter(|sight| sight.is_heard()).collect();
        let most = loaded.iter().map(|sight| sight.age_ms).max().unwrap_or(0).max(3_000);
        let top = self.lane(&format!("age of {region} in {zone}"), THIN + 6.0);
        self.highest(top, &format!("{} s", most.div_ceil(1_000)));
        let points: Vec<_> = loaded
            .iter()
            .map(|sight| {
                (self.x(sight.at.as_secs_f64()), top + (THIN + 2.0) * (1.0 - share(sight.age_ms, most)) + 2.0)
            })
            .collect();
        self.line("age", &points, &format!("how old cell-{zone} says that its copy of {region} is"));
    }

    /// Puts faults' shades, the grid and the turns around the lanes.
    fn finish(mut self, record: &Record) -> String {
        let bottom = self.y;
        let lanes = std::mem::take(&mut self.text);
        for fault in &record.faults {
            self.bar("shade", span(fault, record.ended), (18.0, bottom - 18.0), &fault.what);
        }
        let shades = std::mem::take(&mut self.text);
        let step = [5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0];
        let step = step.into_iter().find(|step| self.length / step <= TICKS).unwrap_or(1_200.0);
        let mut at = 0.0;
        while at <= self.length {
            let x = self.x(at);
            let _ = write!(
                self.text,
                r#"<line class="grid" x1="{x:.1}" y1="18" x2="{x:.1}" y2="{bottom}"/><text class="dim" x="{x:.1}" y="12" text-anchor="middle">{at} s</text>"#
            );
            at += step;
        }
        let grid = std::mem::take(&mut self.text);
        for (at, what) in &record.diary {
            let x = self.x(at.as_secs_f64());
            let title = format!("{:.1} s: {what}", at.as_secs_f64());
            let _ = write!(
                self.text,
                r#"<line class="turn" x1="{x:.1}" y1="18" x2="{x:.1}" y2="{bottom}"><title>{}</title></line>"#,
                escaped(&title)
            );
        }
        format!(
            r#"<svg viewBox="0 0 {WIDTH} {bottom}" role="img" aria-label="timeline of the run">{lanes}{grid}{shades}{}</svg>"#,
            self.text
        )
    }
}

fn span(fault: &Fault, ended: Duration) -> (f64, f64) {
    (fault.at.as_secs_f64(), fault.until.unwrap_or(ended).as_secs_f64())
}

#[allow(clippy::cast_precision_loss)]
fn share(part: u64, whole: u64) -> f64 {
    // Counts of a run are far below 2^53.
    part as f64 / whole as f64
}
