//! Agents that answer, and callers that find them by the SDK and call them as fast as they can.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rollcall_client::{Outcome, Registry};
use rollcall_model::Query;
use rollcall_tests::http::Http;
use serde_json::json;

use super::Part;

/// Agents, each with a name of its own.
const AGENTS: u64 = 40;
/// Questions before each call: resolving is what must not fail, and costs less than what a call does.
const RESOLVES: u64 = 20;

/// Agents at one address, which answer with their names.
pub(super) struct Agents {
    task: tokio::task::JoinHandle<()>,
}

impl Agents {
    /// Starts and registers them, for longer than the run takes.
    pub(super) async fn start(cell: &Http) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let at = listener.local_addr().expect("bound");
        let answer = |axum::extract::Path(name): axum::extract::Path<String>| async move { name };
        let app = axum::Router::new().route("/{name}", axum::routing::get(answer));
        let task = tokio::spawn(async move { axum::serve(listener, app).await.expect("it serves") });
        for n in 0..AGENTS {
            let body = json!({
                "id": format!("chaos/agent-{n}/1"),
                "endpoints": [{"url": format!("http://{at}/agent-{n}")}],
                "lease_seconds": 300,
            });
            cell.register(&body).await.expect("it registers");
        }
        Self { task }
    }

    /// How many there are.
    #[allow(clippy::unused_self, reason = "they are there as long as this is")]
    pub(super) const fn count(&self) -> u64 {
        AGENTS
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Running callers.
pub(super) struct Calls {
    counts: Arc<Counts>,
    stopped: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

#[derive(Default)]
struct Counts {
    resolves: AtomicU64,
    resolves_failed: AtomicU64,
    calls: AtomicU64,
    calls_failed: AtomicU64,
}

impl Calls {
    /// Nobody calls.
    pub(super) fn none() -> Self {
        Self { counts: Arc::default(), stopped: Arc::default(), tasks: Vec::new() }
    }

    /// One for each copy of the registry.
    pub(super) fn start(registries: &[Registry], _agents: &Agents) -> Self {
        let mut calls = Self::none();
        for registry in registries {
            let (registry, counts) = (registry.clone(), Arc::clone(&calls.counts));
            let stopped = Arc::clone(&calls.stopped);
            calls.tasks.push(tokio::spawn(async move {
                let http = reqwest::Client::new();
                let mut n = 0;
                while !stopped.load(Ordering::Relaxed) {
                    n = (n + 1) % AGENTS;
                    call(&registry, &http, n, &counts).await;
                }
            }));
        }
        calls
    }

    /// Ends them; gives what they did.
    pub(super) async fn stop(self) -> Part {
        self.stopped.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.expect("a caller does not panic");
        }
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Part {
            resolves: read(&self.counts.resolves),
            resolves_failed: read(&self.counts.resolves_failed),
            calls: read(&self.counts.calls),
            calls_failed: read(&self.counts.calls_failed),
            ..Part::default()
        }
    }
}

async fn call(registry: &Registry, http: &reqwest::Client, n: u64, counts: &Counts) {
    let name = format!("agent-{n}");
    let query = Query { namespace: Some("chaos".to_owned()), name: Some(name.clone()), ..Query::default() };
    let mut url = None;
    for _ in 0..RESOLVES {
        let found = registry.resolve(&query);
        counts.resolves.fetch_add(1, Ordering::Relaxed);
        match found.candidates.first() {
            Some(first) if found.outcome == Outcome::Found => {
                url = first.registration.declared.endpoints.first().map(|endpoint| endpoint.url().to_owned());
            }
            Some(_) | None => drop(counts.resolves_failed.fetch_add(1, Ordering::Relaxed)),
        }
    }
    let Some(url) = url else { return };
    counts.calls.fetch_add(1, Ordering::Relaxed);
    let answer = async { http.get(&url).send().await?.text().await };
    if answer.await.ok() != Some(name) {
        counts.calls_failed.fetch_add(1, Ordering::Relaxed);
    }
}
