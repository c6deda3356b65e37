//! r-nacos 0.8.8 beside us: a process of its own, where `infra/install.sh bench` has put it.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rollcall_tests::paths;

/// Longest wait for its start.
const START: Duration = Duration::from_secs(20);

/// A running r-nacos; it ends when this is dropped.
pub struct Nacos {
    child: Child,
    url: String,
    _data: tempfile::TempDir,
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
        let binary = paths::tools().join("rnacos/bin/rnacos");
        if !binary.exists() {
            return None;
        }
        let data = tempfile::tempdir().expect("a directory");
        let free = || {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            listener.local_addr().expect("an address").port()
        };
        let (http, grpc, console) = (free(), free(), free());
        let child = Command::new(binary)
            .env("RNACOS_HTTP_PORT", http.to_string())
            .env("RNACOS_GRPC_PORT", grpc.to_string())
            .env("RNACOS_HTTP_CONSOLE_PORT", console.to_string())
            .env("RNACOS_DATA_DIR", data.path())
            .env("RUST_LOG", "error")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("r-nacos starts");
        let nacos = Self { child, url: format!("http://127.0.0.1:{http}"), _data: data };
        let ready = async {
            let list = format!("{}/nacos/v1/ns/service/list?pageNo=1&pageSize=1", nacos.url);
            while !reqwest::get(&list).await.is_ok_and(|answer| answer.status().is_success()) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(START, ready).await.expect("r-nacos answers");
        Some(nacos)
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
            let register = format!("{}/nacos/v1/ns/instance?{instance}&ephemeral=true", self.url);
            let answer = client.post(register).send().await.expect("r-nacos answers");
            assert!(answer.status().is_success(), "r-nacos refuses: {answer:?}");
            let beat = format!(
                "%7B%22serviceName%22%3A%22DEFAULT_GROUP%40%40bench%22%2C%22ip%22%3A%2210.0.0.1%22%2C%22port%22%3A{port}%7D"
            );
            beats.push(Beat {
                client,
                request: format!("{}/nacos/v1/ns/instance/beat?{instance}&beat={beat}", self.url),
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
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
