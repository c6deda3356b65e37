//! What is looked at in a soak, and whether it levels off. The judgement is pure.

use std::time::Duration;

use rollcall_tests::stage::Stage;

/// One look.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sizes {
    pub(super) at: Duration,
    /// In the order of [`KINDS`]: the largest of all members, or of all processes.
    pub(super) values: Vec<f64>,
}

/// One size, and how much more of it the second half of a soak may show than the first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// As a share of the first half's most.
    share: f64,
    /// And so much beside it, for what swings in small numbers.
    slack: f64,
    /// What one of its unit is in what is looked at.
    unit: f64,
}

const MIB: f64 = 1_048_576.0;

const fn kind(name: &'static str, share: f64, slack: f64, unit: f64) -> Kind {
    Kind { name, share, slack, unit }
}

/// What is looked at. A file of etcd grows by its next free pages; memory by what an allocator keeps.
pub(super) const KINDS: [Kind; 8] = [
    kind("etcd: file, MiB", 0.25, 4.0, MIB),
    kind("etcd: in use, MiB", 0.25, 2.0, MIB),
    kind("etcd: keys", 0.20, 40.0, 1.0),
    kind("etcd: history, revisions", 0.30, 1_000.0, 1.0),
    kind("cell: memory, MiB", 0.20, 8.0, MIB),
    kind("cell: descriptors", 0.10, 10.0, 1.0),
    kind("cell: threads", 0.0, 4.0, 1.0),
    kind("cell: tasks", 0.20, 20.0, 1.0),
];

impl Sizes {
    /// Looks at every member and process.
    pub(super) async fn of(stage: &mut Stage, at: Duration) -> Result<Self, String> {
        let mut values = vec![0.0_f64; KINDS.len()];
        let mut most = |place: usize, value: f64| values[place] = values[place].max(value);
        for n in 0..stage.etcd.len() {
            let status = stage.etcd.ctl(n, &["endpoint", "status", "-w", "json"])?;
            let status: serde_json::Value =
                serde_json::from_str(&status).map_err(|error| error.to_string())?;
            let status = &status[0]["Status"];
            most(0, status["dbSize"].as_f64().ok_or("no dbSize")?);
            most(1, status["dbSizeInUse"].as_f64().ok_or("no dbSizeInUse")?);
        }
        let keys = stage.etcd.ctl(0, &["get", "", "--prefix", "--count-only", "-w", "fields"])?;
        let field = |name: &str| -> Option<f64> {
            keys.lines().find_map(|line| line.strip_prefix(name)?.trim_start_matches(" : ").parse().ok())
        };
        most(2, field("\"Count\"").ok_or("no count of keys")?);
        let revision = field("\"Revision\"").ok_or("no revision")?;
        most(3, revision - compacted(&stage.etcd.address(0)).await?);
        for n in 0..stage.cells() {
            let pid = stage.cell(n).pid().ok_or("a cell's process has ended")?;
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).map_err(|e| e.to_string())?;
            let field = |name: &str| -> f64 {
                let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
                line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or_default()
            };
            most(4, field("VmRSS:") * 1_024.0);
            let open = std::fs::read_dir(format!("/proc/{pid}/fd")).map_err(|error| error.to_string())?;
            most(5, number(open.count()));
            most(6, field("Threads:"));
            let text = stage.http(n).send("GET", "/metrics", &[], None).await?;
            let text = String::from_utf8_lossy(&text.bytes).into_owned();
            most(7, metric(&text, "rollcall_cell_runtime_tasks").ok_or("no rollcall_cell_runtime_tasks")?);
        }
        Ok(Self { at, values })
    }

    /// In one line.
    pub(super) fn line(&self) -> String {
        let shown = KINDS.iter().zip(&self.values);
        let shown: Vec<_> =
            shown.map(|(kind, value)| format!("{} {:.0}", kind.name, value / kind.unit)).collect();
        format!("{:6.1} s  {}", self.at.as_secs_f64(), shown.join(", "))
    }
}

/// Where etcd's history begins, by its own metric.
async fn compacted(address: &str) -> Result<f64, String> {
    let text = rollcall_tests::http::Http::new(address).send("GET", "/metrics", &[], None).await?;
    let text = String::from_utf8_lossy(&text.bytes).into_owned();
    metric(&text, "etcd_debugging_mvcc_compact_revision").ok_or_else(|| "no compact_revision".to_owned())
}

/// The first sample of a metric in Prometheus' text.
fn metric(text: &str, name: &str) -> Option<f64> {
    let line =
        text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{'])))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[allow(clippy::cast_precision_loss, reason = "counts of a machine are far below 2^53")]
const fn number(count: usize) -> f64 {
    count as f64
}

pub(super) struct Judged {
    pub(super) line: String,
    pub(super) broken: Option<String>,
}

/// Whether the most of the second half is within what the kind allows over the most of the first. The first sixth is
/// the start and is left out.
pub(super) fn judge(kind: &Kind, looks: &[Sizes]) -> Judged {
    let place = KINDS.iter().position(|other| other.name == kind.name).unwrap_or_default();
    let values: Vec<f64> = looks.iter().skip(looks.len() / 6).map(|look| look.values[place]).collect();
    let (first, second) = values.split_at(values.len() / 2);
    if first.is_empty() || second.is_empty() {
        let broken = Some(format!("quiet: {} was not looked at", kind.name));
        return Judged { line: format!("{:<26} –", kind.name), broken };
    }
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let (before, after) = (most(first), most(second));
    let allowed = before * (1.0 + kind.share) + kind.slack * kind.unit;
    let (before, after, allowed) = (before / kind.unit, after / kind.unit, allowed / kind.unit);
    let line = format!("{:<26} {before:>9.1}, then {after:>9.1}; up to {allowed:.1} is level", kind.name);
    let broken = (after > allowed).then(|| {
        format!("I49: {} grew from {before:.1} to {after:.1}; up to {allowed:.1} is level", kind.name)
    });
    Judged { line, broken }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(value: impl Fn(f64) -> f64) -> Vec<Sizes> {
        let look = |n: u32| Sizes {
            at: Duration::from_secs(u64::from(n)),
            values: KINDS.iter().map(|kind| value(f64::from(n)) * kind.unit).collect(),
        };
        (0..120).map(look).collect()
    }

    #[test]
    fn i49_what_swings_about_a_level_is_level_and_what_grows_all_the_time_is_not() {
        for kind in &KINDS {
            let level = judge(kind, &looks(|n| 100.0 + (n * 0.7).sin() * 3.0));
            assert_eq!(level.broken, None, "{}", kind.name);
            let grows = judge(kind, &looks(|n| n * 2_000.0));
            assert!(grows.broken.is_some_and(|words| words.starts_with("I49")), "{}", kind.name);
            assert!(judge(kind, &[]).broken.is_some(), "{} was never looked at", kind.name);
        }
    }

    #[test]
    fn a_metric_is_read_by_its_whole_name() {
        let text = "# HELP x y\nx_more 7\nx{a=\"b\"} 3\n";
        assert_eq!(
            (metric(text, "x"), metric(text, "x_more"), metric(text, "y")),
            (Some(3.0), Some(7.0), None)
        );
    }
}
