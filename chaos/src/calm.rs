//! What a region's keeper says of its guard, asked all the time: a hold excuses the dead that stay (I06), and nothing
//! else is taken from the product's word.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rollcall_tests::http::Http;

use crate::timeline::Timeline;

/// Between two questions.
const PACE: Duration = Duration::from_millis(250);
/// A keeper that can be reached answers within this.
const PATIENCE: Duration = Duration::from_secs(1);

/// One answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// When the question was sent.
    pub asked: Duration,
    /// When the answer was there.
    pub at: Duration,
    /// Whether no cohort holds or settles; none when nobody answered.
    pub calm: Option<bool>,
}

/// A running watch; dropping it ends it.
pub struct Calm {
    sights: Arc<Mutex<Vec<Sight>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Calm {
    /// Asks these processes of one cell, the next one when one does not know.
    #[must_use]
    pub fn watch(urls: &[String], timeline: Timeline) -> Self {
        let sights: Arc<Mutex<Vec<Sight>>> = Arc::default();
        let cells: Vec<Http> = urls.iter().map(|url| Http::patient(url.clone(), PATIENCE)).collect();
        let seen = Arc::clone(&sights);
        let task = tokio::spawn(async move {
            loop {
                let asked = timeline.now();
                let mut calm = None;
                for http in &cells {
                    if let Ok(answer) = http.get("/v1/guard").await
                        && let Some(state) = answer["state"].as_str()
                    {
                        calm = Some(state == "calm");
                        break;
                    }
                }
                seen.lock().unwrap().push(Sight { asked, at: timeline.now(), calm });
                tokio::time::sleep(PACE).await;
            }
        });
        Self { sights, task }
    }

    /// The last answer that came.
    #[must_use]
    pub fn last(&self) -> Option<Sight> {
        self.sights.lock().unwrap().last().copied()
    }

    /// Everything that was said.
    #[must_use]
    pub fn sights(&self) -> Vec<Sight> {
        self.sights.lock().unwrap().clone()
    }
}

impl Drop for Calm {
    fn drop(&mut self) {
        self.task.abort();
    }
}
