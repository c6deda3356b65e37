//! A client that talks plain HTTP and writes down what it asked and what it was told.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rollcall_tests::agents::agent;
use rollcall_tests::http::{Answer, Http};
use serde_json::json;

use crate::history::{Act, History, Outcome};

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(4);
static WORDS: AtomicU64 = AtomicU64::new(1);

/// One client; it calls one after another.
#[derive(Clone)]
pub struct Caller {
    client: u32,
    cells: Arc<[Http]>,
    history: History,
    zone: String,
}

impl Caller {
    /// A client that may ask any of these processes of the cell.
    #[must_use]
    pub fn new(client: u32, urls: &[String], history: History) -> Self {
        Self::patient(client, urls, history, PATIENCE)
    }

    /// The same, waiting so long for an answer.
    #[must_use]
    pub fn patient(client: u32, urls: &[String], history: History, patience: Duration) -> Self {
        let cells = urls.iter().map(|url| Http::patient(url.clone(), patience)).collect();
        Self { client, cells, history, zone: "a".to_owned() }
    }

    /// A client that calls from this address of the own machine.
    #[must_use]
    pub fn from_address(client: u32, urls: &[String], history: History, own: IpAddr) -> Self {
        let cells = urls.iter().map(|url| Http::from_address(url.clone(), PATIENCE, own)).collect();
        Self { client, cells, history, zone: "a".to_owned() }
    }

    /// The same, with instances in this zone.
    #[must_use]
    pub fn in_zone(self, zone: &str) -> Self {
        Self { zone: zone.to_owned(), ..self }
    }

    /// How many processes it knows.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.cells.len()
    }

    /// A word that nobody said before.
    #[must_use]
    pub fn word() -> String {
        format!("w{}", WORDS.fetch_add(1, Ordering::Relaxed))
    }

    /// Asks one process of the cell.
    pub async fn ask(&self, cell: usize, id: &str, act: Act) -> Outcome {
        let cell = cell % self.cells.len();
        let http = &self.cells[cell];
        let place = self.history.invoke(self.client, cell, id, act.clone());
        let answer = match &act {
            Act::Register { tag, lease } => {
                let mut body = agent(id, "chaos:act:v1");
                body["lease_seconds"] = json!(lease.as_secs());
                body["zone"] = json!(self.zone);
                body["metadata"] = json!({ "tag": tag });
                http.send("POST", "/v1/registrations", &[], Some(&body.to_string())).await
            }
            Act::Renew(epoch) => http.renew(id, &epoch.to_string()).await,
            Act::Update(epoch, word) => {
                let body = json!({ "metadata": { "said": word } }).to_string();
                let tag = format!("\"{epoch}\"");
                let path = format!("/v1/registrations/{id}");
                http.send("PATCH", &path, &[("if-match", &tag)], Some(&body)).await
            }
            Act::Deregister(epoch) => http.deregister(id, &epoch.to_string()).await,
        };
        let outcome = outcome(&act, answer);
        self.history.returns(place, outcome.clone());
        outcome
    }
}

fn outcome(act: &Act, answer: Result<Answer, String>) -> Outcome {
    let answer = match answer {
        Ok(answer) => answer,
        Err(why) => return Outcome::Unknown(why),
    };
    let epoch = |value: &serde_json::Value| value.as_str().and_then(|epoch| epoch.parse().ok());
    match (answer.status, act) {
        (201, Act::Register { .. }) => match epoch(&answer.json()["epoch"]) {
            Some(epoch) => Outcome::Registered(epoch),
            None => Outcome::Unknown("201 without an epoch".to_owned()),
        },
        (200, Act::Renew(_) | Act::Update(..)) | (204, Act::Deregister(_)) => Outcome::Done,
        (412, _) => Outcome::Superseded(epoch(&answer.json()["current"]["epoch"])),
        (404, _) => Outcome::NotRegistered,
        (400..=499 | 503, _) => Outcome::Refused {
            status: answer.status,
            retry_after: answer.header("retry-after").and_then(|seconds| seconds.parse().ok()),
        },
        (status, _) => Outcome::Unknown(format!("{status}: {}", String::from_utf8_lossy(&answer.bytes))),
    }
}
