//! One Kafka broker for all tests of this binary, started at the first need.
//!
//! Where it cannot start, the tests fail: a suite that skips what it is for says nothing. A small shell waits for this
//! process to end, in whatever way, and then takes the broker down.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use rollcall_replicator::config::Brokers;
use rollcall_replicator::feed_log::kafka::KafkaLog;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

pub(crate) struct Broker {
    pub(crate) brokers: String,
    run_dir: PathBuf,
    // Its standard input is what ends it.
    _undertaker: Mutex<Child>,
}

static BROKER: OnceLock<Broker> = OnceLock::new();
/// Tests that only use the broker share it; those that kill it have it to themselves.
static USERS: RwLock<()> = RwLock::const_new(());

fn script() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../infra/regions.sh")
}

fn regions(arguments: &[&str]) -> String {
    let output = Command::new(script()).args(arguments).output().expect("infra/regions.sh runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "regions.sh {arguments:?}: {out}{err}");
    out.trim().to_owned()
}

impl Broker {
    fn start() -> Self {
        let run_dir = tempfile::Builder::new().prefix("rollcall-kafka-").tempdir().expect("a folder").keep();
        let dir = run_dir.to_str().expect("plain").to_owned();
        let undertaker = Command::new("setsid")
            .args(["sh", "-c", "cat >/dev/null; \"$0\" down --wipe --run-dir \"$1\""])
            .args([script().to_str().expect("plain"), &dir])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let base = regions(&["free-base-port"]);
        regions(&["up", "--only", "kafka", "--run-dir", &dir, "--base-port", &base]);
        let port = base.parse::<u16>().expect("a port") + 490;
        Self { brokers: format!("127.0.0.1:{port}"), run_dir, _undertaker: Mutex::new(undertaker) }
    }

    pub(crate) fn log(&self) -> KafkaLog {
        KafkaLog::open(&Brokers::plain(&self.brokers)).expect("a client")
    }

    pub(crate) fn kill(&self) {
        regions(&["kill", "kafka", "--run-dir", self.run_dir.to_str().expect("plain")]);
    }

    /// Stops the broker without ending it: it answers nobody, and nobody is told.
    pub(crate) fn freeze(&self) {
        self.signal("-STOP");
    }

    pub(crate) fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let pid = regions(&["pid", "kafka", "--run-dir", self.run_dir.to_str().expect("plain")]);
        let status = Command::new("kill").args([signal, &pid]).status().expect("kill runs");
        assert!(status.success(), "kill {signal} {pid}");
    }

    pub(crate) fn start_again(&self) {
        // A large process holds its sockets for a moment longer than it lives.
        let deadline = Instant::now() + Duration::from_secs(30);
        while std::net::TcpListener::bind(&self.brokers).is_err() {
            assert!(Instant::now() < deadline, "{} is still taken", self.brokers);
            std::thread::sleep(Duration::from_millis(50));
        }
        regions(&["start", "kafka", "--run-dir", self.run_dir.to_str().expect("plain")]);
    }
}

async fn get() -> &'static Broker {
    tokio::task::spawn_blocking(|| BROKER.get_or_init(Broker::start)).await.expect("the broker starts")
}

/// The broker beside other tests.
pub(crate) async fn shared() -> (&'static Broker, RwLockReadGuard<'static, ()>) {
    let guard = USERS.read().await;
    (get().await, guard)
}

/// The broker for one test alone.
pub(crate) async fn alone() -> (&'static Broker, RwLockWriteGuard<'static, ()>) {
    let guard = USERS.write().await;
    (get().await, guard)
}
