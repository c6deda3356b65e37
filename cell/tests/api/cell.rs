//! A cell in this process on free loopback ports, and a small client for it.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::{Client, Method};
use rollcall_cell::config::{
    AddressShare, AdmissionConfig, CellConfig, Listen, StoreConfig, StoreKind, ViewConfig,
};
use rollcall_cell::store::Store;
use rollcall_cell::store::embedded::Embedded;
use rollcall_cell::{Running, Start, run};
use rollcall_model::Clock;
use rollcall_runtime::clock;
use rollcall_runtime::meter::Metrics;
use rollcall_runtime::tasks::Tasks;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Longest wait for anything that comes by itself, on a machine that is busy with anything else.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);

/// A cell; it stops when it is dropped.
pub(super) struct Cell {
    pub(super) url: String,
    pub(super) grpc_url: String,
    pub(super) tasks: Tasks,
    client: Client,
}

/// What came back.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: reqwest::header::HeaderMap,
    pub(super) text: String,
}

impl Drop for Cell {
    fn drop(&mut self) {
        self.tasks.cancelled().cancel();
    }
}

impl Cell {
    /// A cell of region `us` alone, ready and with its keeper in office.
    pub(super) async fn start() -> Self {
        let cell = Self::with("us", &[], Embedded::memory().unwrap()).await;
        cell.keeps().await;
        cell
    }

    /// The same with an admission of its own.
    pub(super) async fn admitting(admission: AdmissionConfig) -> Self {
        let change = |config: &mut CellConfig| config.admission = admission;
        let cell = Self::configured("us", &[], Embedded::memory().unwrap(), change).await;
        cell.keeps().await;
        cell
    }

    /// A cell over this store that follows these regions, each from its source.
    pub(super) async fn with<S: Store>(region: &str, views: &[(&str, &str)], store: S) -> Self {
        Self::configured(region, views, store, |_| {}).await
    }

    /// A process of region `us` that tells the others to reach it at this address.
    pub(super) async fn reached_at<S: Store>(address: &str, store: S) -> Self {
        let change = |config: &mut CellConfig| config.listen.advertise = Some(address.to_owned());
        Self::configured("us", &[], store, change).await
    }

    /// A cell of region `us` that keeps copies in this folder.
    pub(super) async fn kept_in<S: Store>(folder: &Path, store: S) -> Self {
        Self::configured("us", &[], store, |config| config.data_dir = folder.to_owned()).await
    }

    /// A process of region `us` whose callers, all at one address, may register as fast as anybody.
    pub(super) async fn of_one_address<S: Store>(store: S) -> Self {
        let change = |config: &mut CellConfig| config.admission.address_share = AddressShare::Whole;
        Self::configured("us", &[], store, change).await
    }

    async fn configured<S: Store>(
        region: &str,
        views: &[(&str, &str)],
        store: S,
        change: impl FnOnce(&mut CellConfig),
    ) -> Self {
        let tasks = Tasks::new();
        let mut config = CellConfig {
            region: region.into(),
            zone: None,
            data_dir: PathBuf::from("unused"),
            listen: Listen { http: "127.0.0.1:0".into(), grpc: "127.0.0.1:0".into(), advertise: None },
            store: StoreConfig { audit_seconds: 1, ..StoreConfig::of(StoreKind::Embedded) },
            view: views
                .iter()
                .map(|(region, source)| ViewConfig {
                    region: (*region).to_owned(),
                    source: (*source).to_owned(),
                })
                .collect(),
            guard: rollcall_cell::config::GuardConfig::default(),
            admission: AdmissionConfig::default(),
            health: rollcall_cell::config::HealthConfig::default(),
            auth: None,
        };
        change(&mut config);
        let keep_on_disk = config.data_dir.as_os_str() != "unused";
        let start = Start {
            commit: "none",
            config,
            clock: Clock::new(clock::monotonic, clock::wall_ms),
            tasks: tasks.clone(),
            metrics: Metrics::new(),
            http: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            grpc: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            keep_on_disk,
        };
        let Running { http, grpc, .. } = run(store, start).await.unwrap();
        let client = Client::builder().timeout(DEADLINE).build().unwrap();
        Self { url: format!("http://{http}"), grpc_url: format!("http://{grpc}"), tasks, client }
    }

    /// Waits until the keeper of this cell is in office.
    pub(super) async fn keeps(&self) {
        eventually("a keeper in office", || async {
            let ready = self.get("/readyz?verbose").await;
            (ready.status == 200 && ready.text.contains("keeper (not needed to be ready): this process"))
                .then_some(())
        })
        .await;
    }

    pub(super) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Answer {
        let method: Method = method.parse().unwrap();
        let mut request = self.client.request(method, format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if !body.is_empty() {
            request = request.body(body);
        }
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        Answer { status, headers, text: response.text().await.unwrap() }
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], Vec::new()).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Answer {
        let json = [("content-type", "application/json")];
        self.send("POST", path, &json, body.to_string().into_bytes()).await
    }

    /// Sends a fenced call with a JSON body, or with none for `null`.
    pub(super) async fn fenced(&self, method: &str, path: &str, epoch: &str, body: &Value) -> Answer {
        let tag = format!("\"{epoch}\"");
        let headers = [("if-match", tag.as_str()), ("content-type", "application/json")];
        let (headers, body) = match body {
            Value::Null => (&headers[..1], Vec::new()),
            body => (&headers[..], body.to_string().into_bytes()),
        };
        self.send(method, path, headers, body).await
    }

    /// Registers and gives the epoch.
    pub(super) async fn register(&self, body: &Value) -> String {
        let answer = self.post("/v1/registrations", body).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        answer.json()["epoch"].as_str().unwrap().to_owned()
    }

    /// Registers an instance with nothing special about it.
    pub(super) async fn register_plain(&self, id: &str) -> String {
        self.register(&plain(id)).await
    }

    /// Opens an event stream.
    pub(super) async fn open(&self, path: &str, headers: &[(&str, &str)]) -> reqwest::Response {
        let mut request = self.client.get(format!("{}{path}", self.url)).timeout(Duration::from_secs(600));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await.unwrap()
    }
}

/// The smallest registration.
pub(super) fn plain(id: &str) -> Value {
    json!({"id": id, "endpoints": [{"url": "http://127.0.0.1:9/"}]})
}

impl Answer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Checks that this is a whole problem of this status and code.
    #[track_caller]
    pub(super) fn refused(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let problem = self.json();
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["status"], status);
        for member in ["type", "title", "detail"] {
            assert!(problem[member].as_str().is_some_and(|text| !text.is_empty()), "{member}: {problem}");
        }
        let is_under_load = matches!(status, 429 | 503);
        let wait = self.header("retry-after").map(|text| text.parse::<u64>().unwrap());
        assert_eq!(wait.is_some_and(|seconds| seconds >= 1), is_under_load, "retry-after {wait:?}");
        problem
    }

    /// Checks that this is bad input at exactly these places.
    #[track_caller]
    pub(super) fn faulty(&self, code: &str, pointers: &[&str]) {
        let problem = self.refused(400, code);
        let found: Vec<_> =
            problem["errors"].as_array().unwrap().iter().map(|e| e["pointer"].as_str().unwrap()).collect();
        assert_eq!(found, pointers, "{problem}");
    }
}

/// Asks again and again until there is an answer.
pub(super) async fn eventually<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut ask: impl FnMut() -> F,
) -> T {
    let asked = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DEADLINE, asked).await.unwrap_or_else(|_| panic!("not in time: {what}"))
}
