//! Readers that ask every process of the cell for everything, all the time, and write down what they saw.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rollcall_tests::http::Http;
use serde_json::Value;

use crate::check::Verdict;
use crate::origin::Origin;
use crate::timeline::Timeline;

/// Between two looks at one process.
const PACE: Duration = Duration::from_millis(250);

/// One look at one process.
#[derive(Clone, Debug)]
pub struct Look {
    /// Which process.
    pub cell: usize,
    /// When the answer was there.
    pub at: Duration,
    /// The ordinal of the incarnation, and the revision, that it says it shows.
    pub position: (u16, u64),
    /// Whether it says that this is current.
    pub current: bool,
    /// Id and epoch of everything it shows; none when that is more than a page.
    pub shown: Option<BTreeMap<String, u64>>,
}

/// Running readers.
pub struct Readers {
    looks: Arc<Mutex<Vec<Look>>>,
    failures: Arc<Mutex<usize>>,
    stopped: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Readers {
    /// One for each process of the cell.
    #[must_use]
    pub fn start(urls: &[String], timeline: Timeline) -> Self {
        let looks: Arc<Mutex<Vec<Look>>> = Arc::default();
        let failures: Arc<Mutex<usize>> = Arc::default();
        let stopped = Arc::new(AtomicBool::new(false));
        let task = |(cell, url): (usize, &String)| {
            let http = Http::patient(url.clone(), Duration::from_secs(4));
            let (looks, failures) = (Arc::clone(&looks), Arc::clone(&failures));
            let stopped = Arc::clone(&stopped);
            tokio::spawn(async move {
                while !stopped.load(Ordering::Relaxed) {
                    match look(&http, cell, timeline).await {
                        Ok(look) => looks.lock().unwrap().push(look),
                        Err(_) => *failures.lock().unwrap() += 1,
                    }
                    tokio::time::sleep(PACE).await;
                }
            })
        };
        let tasks = urls.iter().enumerate().map(task).collect();
        Self { looks, failures, stopped, tasks }
    }

    /// Looks that failed so far.
    #[must_use]
    pub fn failures(&self) -> usize {
        *self.failures.lock().unwrap()
    }

    /// The last look at a process.
    #[must_use]
    pub fn last(&self, cell: usize) -> Option<Look> {
        self.looks.lock().unwrap().iter().rfind(|look| look.cell == cell).cloned()
    }

    /// Ends them.
    pub async fn stop(self) -> Vec<Look> {
        self.stopped.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.expect("a reader does not panic");
        }
        std::mem::take(&mut *self.looks.lock().unwrap())
    }
}

async fn look(http: &Http, cell: usize, timeline: Timeline) -> Result<Look, String> {
    let answer = http.get("/v1/agents?limit=1000").await?;
    let at = timeline.now();
    let region = &answer["regions"][0];
    let number = |value: &Value| value.as_str().and_then(|number| number.parse::<u64>().ok());
    let incarnation = region["position"]["incarnation"].as_str().ok_or("no incarnation")?;
    let ordinal =
        incarnation.split('-').next().and_then(|ordinal| ordinal.parse().ok()).ok_or("no ordinal")?;
    let revision = number(&region["position"]["revision"]).ok_or("no revision")?;
    let mut shown = BTreeMap::new();
    for agent in answer["agents"].as_array().ok_or("no agents")? {
        let id = agent["id"].as_str().ok_or("no id")?.to_owned();
        shown.insert(id, number(&agent["epoch"]).ok_or("no epoch")?);
    }
    let current = region["state"] == "current";
    let shown = answer["next_page_token"].is_null().then_some(shown);
    Ok(Look { cell, at, position: (ordinal, revision), current, shown })
}

/// I17, I20: what a process calls current never goes back. I18: what it shows at a revision is what stood then.
#[must_use]
pub fn true_states(origin: &Origin, looks: &[Look]) -> Verdict {
    let mut verdict = Verdict { ids: "I17 I18 I20", ..Verdict::default() };
    let mut last: BTreeMap<usize, (u16, u64)> = BTreeMap::new();
    for look in looks {
        let before = last.insert(look.cell, look.position).unwrap_or_default();
        // A process that was killed may begin with the copy on its disk, as long as it does not call that current.
        verdict.judge(before <= look.position || !look.current, || {
            format!(
                "I17: cell{} showed {:?} after {before:?} and called it current",
                look.cell, look.position
            )
        });
        let Some(shown) = &look.shown else { continue };
        let stood = origin.at(look.position.0, look.position.1);
        verdict.judge(stood == *shown, || {
            // A few tell enough.
            let missing: Vec<_> =
                stood.iter().filter(|(id, epoch)| shown.get(*id) != Some(epoch)).take(3).collect();
            let more: Vec<_> =
                shown.iter().filter(|(id, epoch)| stood.get(*id) != Some(epoch)).take(3).collect();
            format!(
                "I18: cell{} at {:?} does not show {missing:?} and shows {more:?} instead",
                look.cell, look.position
            )
        });
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(revision: u64, current: bool, shown: &[&str]) -> Look {
        let shown = shown.iter().map(|id| ((*id).to_owned(), 1)).collect();
        Look { cell: 0, at: Duration::ZERO, position: (1, revision), current, shown: Some(shown) }
    }

    #[test]
    fn i17_i20_a_process_that_goes_back_and_calls_it_current_is_seen() {
        let origin = Origin::default();
        let sound = [look(5, true, &[]), look(3, false, &[]), look(6, true, &[])];
        assert_eq!(true_states(&origin, &sound).broken, Vec::<String>::new());
        let broken = true_states(&origin, &[look(5, true, &[]), look(3, true, &[])]).broken;
        assert!(broken.len() == 1 && broken[0].starts_with("I17"), "{broken:?}");
    }

    #[test]
    fn i18_a_process_that_shows_what_never_stood_is_seen() {
        let broken = true_states(&Origin::default(), &[look(5, true, &["a/b/1"])]).broken;
        assert!(broken.len() == 1 && broken[0].starts_with("I18"), "{broken:?}");
    }
}
