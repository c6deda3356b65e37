//! r-nacos 0.8.8 beside us: a process of its own, where `infra/install.sh bench` has put it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use rollcall_tests::paths;

/// Longest wait for its start.
const START: Duration = Duration::from_secs(20);

/// A running r-nacos; it ends when this is dropped.
pub struct Nacos {
    child: Child,
    /// HTTP, gRPC, console.
    ports: [u16; 3],
    client: reqwest::Client,
    data: tempfile::TempDir,
}

/// A client with a connection of its own that beats for one instance.
pub struct Beat {
    client: reqwest::Client,
    request: String,
}

impl Nacos {
    /// Starts it on free ports; `None` where it is not installed.
    ///
    /// # Panics
    /// When it is there and does not start.
    pub async fn start() -> Option<Self> {
        if !binary().exists() {
            return None;
        }
        let data = tempfile::tempdir().expect("a directory");
        let free = || {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            listener.local_addr().expect("an address").port()
        };
        let ports = [free(), free(), free()];
        let nacos = Self { child: spawn(ports, data.path()), ports, client: reqwest::Client::new(), data };
        nacos.ready().await;
        Some(nacos)
    }

    /// Kills it and starts it again with the data it had; seconds until it answers.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn restart(&mut self) -> f64 {
        self.end();
        let started = Instant::now();
        self.child = spawn(self.ports, self.data.path());
        self.ready().await;
        started.elapsed().as_secs_f64()
    }

    async fn ready(&self) {
        let ready = async {
            let list = format!("{}/nacos/v1/ns/service/list?pageNo=1&pageSize=1", self.url());
            while !reqwest::get(&list).await.is_ok_and(|answer| answer.status().is_success()) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(START, ready).await.expect("r-nacos answers");
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn url(&self) -> String {
        format!("http://{}", self.authority())
    }

    /// Where it listens for HTTP.
    #[must_use]
    pub fn authority(&self) -> String {
        format!("127.0.0.1:{}", self.ports[0])
    }

    /// The path of a list of a service's instances.
    #[must_use]
    pub fn list_path(service: &str) -> String {
        format!("/nacos/v1/ns/instance/list?serviceName={service}")
    }

    /// Registers so many instances of each of these services, or says of them that they live.
    ///
    /// # Panics
    /// When it refuses one.
    pub async fn register(&self, services: &[String], each: usize) {
        let calls = services.iter().flat_map(|service| (0..each).map(move |n| (service, n)));
        let register = |(service, n)| async move {
            let instance = format!("serviceName={service}&ip=10.0.0.1&port={}", 10_000 + n);
            let url = format!("{}/nacos/v1/ns/instance?{instance}&ephemeral=true", self.url());
            let answer = self.client.post(url).send().await.expect("r-nacos answers");
            assert!(answer.status().is_success(), "r-nacos refuses: {answer:?}");
        };
        futures_util::stream::iter(calls).for_each_concurrent(16, register).await;
    }

    /// How many instances it lists of these services.
    ///
    /// # Panics
    /// When it does not answer.
    pub async fn count(&self, services: &[String]) -> usize {
        let mut count = 0;
        for service in services {
            let url = format!("{}{}", self.url(), Self::list_path(service));
            let answer = self.client.get(url).send().await.expect("r-nacos answers");
            let list = answer.bytes().await.expect("a whole answer");
            let list: serde_json::Value = serde_json::from_slice(&list).unwrap_or_default();
            count += list["hosts"].as_array().map_or(0, Vec::len);
        }
        count
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Registers so many instances, each with a connection that beats for it.
    ///
    /// # Panics
    /// When it refuses one.
    pub async fn beats(&self, many: usize) -> Vec<Beat> {
        let mut beats = Vec::new();
        for n in 0..many {
            let client = reqwest::Client::builder().pool_max_idle_per_host(1).build().expect("a client");
            let port = 10_000 + n;
            let instance = format!("serviceName=bench&ip=10.0.0.1&port={port}");
            let register = format!("{}/nacos/v1/ns/instance?{instance}&ephemeral=true", self.url());
            let answer = client.post(register).send().await.expect("r-nacos answers");
            assert!(answer.status().is_success(), "r-nacos refuses: {answer:?}");
            let beat = format!(
                "%7B%22serviceName%22%3A%22DEFAULT_GROUP%40%40bench%22%2C%22ip%22%3A%2210.0.0.1%22%2C%22port%22%3A{port}%7D"
            );
            beats.push(Beat {
                client,
                request: format!("{}/nacos/v1/ns/instance/beat?{instance}&beat={beat}", self.url()),
            });
        }
        beats
    }
}

impl Beat {
    /// Beats once; whether it was taken.
    pub async fn send(&self) -> bool {
        match self.client.put(&self.request).send().await {
            Ok(answer) => answer.status().is_success() && answer.bytes().await.is_ok(),
            Err(_) => false,
        }
    }
}

impl Drop for Nacos {
    fn drop(&mut self) {
        self.end();
    }
}

fn binary() -> PathBuf {
    paths::tools().join("rnacos/bin/rnacos")
}

fn spawn(ports: [u16; 3], data: &Path) -> Child {
    Command::new(binary())
        .env("RNACOS_HTTP_PORT", ports[0].to_string())
        .env("RNACOS_GRPC_PORT", ports[1].to_string())
        .env("RNACOS_HTTP_CONSOLE_PORT", ports[2].to_string())
        .env("RNACOS_DATA_DIR", data)
        // What is registered here lives without beats.
        .env("RNACOS_NAMING_HEALTH_TIMEOUT_SECOND", "3600")
        .env("RUST_LOG", "error")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("r-nacos starts")
}
