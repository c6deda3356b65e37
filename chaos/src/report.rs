//! What a run found, for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::check::Verdict;
use crate::history::{Act, Op, Outcome};
use crate::origin::{Ending, Origin};
use crate::readers::Look;
use crate::scenarios::Scenario;

/// Sentences shown of each promise that was broken; the rest is counted.
const SHOWN: usize = 8;

/// A run's result.
#[derive(Clone, Debug)]
pub struct Report {
    title: String,
    diary: Vec<(Duration, String)>,
    numbers: Vec<String>,
    verdicts: Vec<Verdict>,
    broken: Vec<String>,
    /// Where logs, history and tap of a broken run are.
    pub kept: Option<PathBuf>,
}

impl Report {
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn new(
        scenario: &Scenario,
        seed: u64,
        diary: Vec<(Duration, String)>,
        ops: &[Op],
        looks: &[Look],
        origin: &Origin,
        verdicts: Vec<Verdict>,
        broken: Vec<String>,
    ) -> Self {
        let title = format!("{} ({}), seed {seed}: {}", scenario.name, scenario.fault, scenario.shows);
        let numbers = vec![calls(ops), history(origin), format!("looks {}", looks.len())];
        Self { title, diary, numbers, verdicts, broken, kept: None }
    }

    /// Whether every promise held.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.broken.is_empty() && self.verdicts.iter().all(|verdict| verdict.broken.is_empty())
    }

    /// As text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.title);
        for (at, what) in &self.diary {
            let _ = writeln!(text, "  {:6.1} s  {what}", at.as_secs_f64());
        }
        for line in &self.numbers {
            let _ = writeln!(text, "  {line}");
        }
        for verdict in &self.verdicts {
            let word = if verdict.broken.is_empty() { "held" } else { "BROKEN" };
            let _ = writeln!(text, "  {:<11} {word:<7} {} looked at", verdict.ids, verdict.checked);
            for words in &verdict.notes {
                let _ = writeln!(text, "    {words}");
            }
            for words in verdict.broken.iter().take(SHOWN) {
                let _ = writeln!(text, "    {words}");
            }
            if verdict.broken.len() > SHOWN {
                let _ = writeln!(text, "    and {} more", verdict.broken.len() - SHOWN);
            }
        }
        for words in &self.broken {
            let _ = writeln!(text, "  BROKEN      {words}");
        }
        if let Some(kept) = &self.kept {
            let _ = writeln!(text, "  logs, calls and tap: {}", kept.display());
        }
        let _ = writeln!(text, "{}", if self.holds() { "held" } else { "broken" });
        text
    }
}

fn calls(ops: &[Op]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for op in ops {
        let act = match op.act {
            Act::Register { .. } => "register",
            Act::Renew(_) => "renew",
            Act::Update(..) => "update",
            Act::Deregister(_) => "deregister",
        };
        let outcome = match op.outcome {
            Outcome::Registered(_) | Outcome::Done => "ok".to_owned(),
            Outcome::Superseded(_) => "superseded".to_owned(),
            Outcome::NotRegistered => "not registered".to_owned(),
            Outcome::Refused { status, .. } => format!("refused {status}"),
            Outcome::Unknown(_) => "unknown".to_owned(),
        };
        *counts.entry(format!("{act} {outcome}")).or_default() += 1;
    }
    let parts: Vec<String> = counts.iter().map(|(what, count)| format!("{what} {count}")).collect();
    format!("calls {}: {}", ops.len(), parts.join(", "))
}

fn history(origin: &Origin) -> String {
    let mut endings: BTreeMap<String, usize> = BTreeMap::new();
    for standing in &origin.standings {
        let ending = match &standing.until {
            None => "stand".to_owned(),
            Some((_, Ending::Replaced)) => "replaced".to_owned(),
            Some((_, Ending::Removed { reason, .. })) => format!("{reason:?}").to_lowercase(),
            Some((_, Ending::Unexplained)) => "unexplained".to_owned(),
            Some((_, Ending::Restored)) => "lost with the history".to_owned(),
        };
        *endings.entry(ending).or_default() += 1;
    }
    let parts: Vec<String> = endings.iter().map(|(what, count)| format!("{what} {count}")).collect();
    let mut terms: Vec<u64> = origin.beats.iter().map(|beat| beat.term).collect();
    terms.dedup();
    format!(
        "history: {} revisions, {} registrations ({}), keepers' terms {terms:?}",
        origin.revisions,
        origin.standings.len(),
        parts.join(", ")
    )
}
