//! Real etcds for the tests, brought up and down by `infra/regions.sh`.
//!
//! Promises that they end with the last test that uses them. Where they cannot be started the test fails: a store
//! that was not tested is not one that works.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, Weak};

use rollcall_cell::store::{Compare, Tenure};
use tempfile::TempDir;

/// The etcd that all tests share; each has its own region in it.
pub(crate) const SHARED: &str = "us-east/etcd";
/// The etcd that belongs to one test at a time.
pub(crate) const ALONE: &str = "eu-west/etcd";

/// Both of them, as long as somebody holds this.
pub(crate) struct Etcds {
    folder: TempDir,
    /// The line in which the script names their addresses.
    ready: String,
}

static RUNNING: Mutex<Weak<Etcds>> = Mutex::new(Weak::new());

impl Etcds {
    /// The ones that run, or new ones.
    pub(crate) fn get() -> Arc<Self> {
        // A test that failed in here has told why; the others may try for themselves.
        let mut running = RUNNING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(etcds) = running.upgrade() {
            return etcds;
        }
        let etcds = Arc::new(Self::start());
        *running = Arc::downgrade(&etcds);
        etcds
    }

    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base_port = free_base_port().to_string();
        let only = format!("{SHARED},{ALONE}");
        let run_dir = folder.path().to_str().unwrap();
        let ready = script(&["up", "--only", &only, "--run-dir", run_dir, "--base-port", &base_port]);
        Self { folder, ready }
    }

    /// Where an etcd is reached.
    pub(crate) fn address(&self, name: &str) -> String {
        let label = format!("{name}=");
        let mut words = self.ready.split_whitespace();
        words.find_map(|word| word.strip_prefix(&label)).unwrap().to_owned()
    }

    /// SIGKILL.
    pub(crate) fn kill(&self, name: &str) {
        self.control("kill", name);
    }

    /// Starts what was killed, with its data, and waits until it answers.
    pub(crate) fn start_again(&self, name: &str) {
        self.control("start", name);
        self.control("wait", name);
    }

    fn control(&self, verb: &str, name: &str) {
        script(&[verb, name, "--run-dir", self.folder.path().to_str().unwrap()]);
    }
}

impl Drop for Etcds {
    fn drop(&mut self) {
        script(&["down", "--run-dir", self.folder.path().to_str().unwrap()]);
    }
}

/// A program of etcd's.
pub(crate) fn tool(name: &str) -> PathBuf {
    let tools = std::env::var_os("ROLLCALL_TOOLS")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.tools"), PathBuf::from);
    let tool = tools.join("etcd/bin").join(name);
    assert!(tool.exists(), "{} is missing: infra/install.sh test puts it there", tool.display());
    tool
}

/// Somebody who renews the lease of an office for as long as this lives, so that it never lapses: who wins the office
/// meanwhile has not waited for that. Ends by itself when the lease is revoked.
pub(crate) struct Immortal(Child);

impl Immortal {
    /// The lease that this office hangs on, whose key is named by it.
    pub(crate) fn lease(address: &str, office: &Tenure) -> Self {
        let Compare::CreateRevision(key, _) = &office.fence else { panic!("{:?}", office.fence) };
        let lease = key.rsplit('/').next().unwrap();
        let mut keep = Command::new(tool("etcdctl"));
        keep.args(["--endpoints", address, "lease", "keep-alive", lease]);
        Self(keep.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Immortal {
    fn drop(&mut self) {
        // One that has ended already cannot be killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A base port that nobody else is given for a while.
pub(crate) fn free_base_port() -> u16 {
    script(&["free-base-port"]).trim().parse().unwrap()
}

/// Runs `infra/regions.sh` and gives what it printed.
fn script(arguments: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/regions.sh");
    let done = Command::new(&script).args(arguments).output().unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{} {arguments:?}: {told}", script.display());
    String::from_utf8(done.stdout).unwrap()
}
