//! An etcd of several members, owned: each member can be killed, paused, defragmented, saved and restored alone.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::eventually::eventually;
use crate::paths;
use crate::process::Process;

/// From one member's ports to the next one's.
const STEP: u16 = 10;

/// The members; dropping it ends them.
#[derive(Debug)]
pub struct Etcd {
    folder: PathBuf,
    base_port: u16,
    flags: Vec<String>,
    /// Rises when the data are restored from a backup: the members' folders are named by it.
    life: u32,
    members: Vec<Process>,
}

impl Etcd {
    /// Starts `count` members with their data under `folder`, on ports from `base_port` on.
    #[must_use]
    pub fn start(count: usize, folder: &Path, base_port: u16, flags: &[&str]) -> Self {
        let mut etcd = Self {
            folder: folder.to_owned(),
            base_port,
            flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
            life: 0,
            members: Vec::new(),
        };
        etcd.spawn(count);
        etcd
    }

    fn spawn(&mut self, count: usize) {
        self.members = (0..count).map(|n| self.process(n, count, "new")).collect();
    }

    /// Starts one member; `state` says whether the cluster is new or existing.
    fn process(&self, n: usize, count: usize, state: &str) -> Process {
        let all: Vec<_> = (0..count).map(|n| format!("m{n}={}", self.peer(n))).collect();
        let (client, peer) = (self.address(n), self.peer(n));
        let data = self.data(n).display().to_string();
        let mut arguments: Vec<String> = [
            ("--name", format!("m{n}")),
            ("--log-level", "warn".to_owned()),
            ("--data-dir", data),
            ("--listen-client-urls", client.clone()),
            ("--advertise-client-urls", client),
            ("--listen-peer-urls", peer.clone()),
            ("--initial-advertise-peer-urls", peer),
            ("--initial-cluster", all.join(",")),
            ("--initial-cluster-state", state.to_owned()),
        ]
        .into_iter()
        .flat_map(|(flag, value)| [flag.to_owned(), value])
        .collect();
        arguments.extend(self.flags.iter().cloned());
        Process::start(&format!("etcd{n}"), &self.folder, tool("etcd"), arguments, &[])
    }

    /// Takes a member out of the cluster for good: by another one's word, then its process and its data go.
    ///
    /// # Errors
    /// What etcd's tool said.
    pub fn take_out(&mut self, n: usize) -> Result<(), String> {
        let other = (n + 1) % self.members.len();
        let listed = self.ctl(other, &["member", "list"])?;
        let name = format!("m{n}");
        let fields = |line: &str| line.split(", ").map(str::to_owned).collect::<Vec<_>>();
        let member = listed.lines().map(fields).find(|fields| fields.get(2) == Some(&name));
        let member = member.ok_or_else(|| format!("{name} is not in {listed}"))?;
        self.ctl(other, &["member", "remove", &member[0]])?;
        self.members[n].kill();
        std::fs::remove_dir_all(self.data(n)).map_err(|error| error.to_string())
    }

    /// Adds a member in the place of one that was taken out, with nothing on its disk.
    ///
    /// # Errors
    /// What etcd's tool said.
    pub fn put_in(&mut self, n: usize) -> Result<(), String> {
        let other = (n + 1) % self.members.len();
        let peer = format!("--peer-urls={}", self.peer(n));
        self.ctl(other, &["member", "add", &format!("m{n}"), &peer])?;
        self.members[n] = self.process(n, self.members.len(), "existing");
        Ok(())
    }

    /// How many members there are, running or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The client URL of a member.
    #[must_use]
    pub fn address(&self, n: usize) -> String {
        format!("http://127.0.0.1:{}", self.port(n))
    }

    /// The client URLs of all.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        (0..self.members.len()).map(|n| self.address(n)).collect()
    }

    fn port(&self, n: usize) -> u16 {
        self.base_port + STEP * u16::try_from(n).expect("few members")
    }

    fn peer(&self, n: usize) -> String {
        format!("http://127.0.0.1:{}", self.port(n) + 1)
    }

    fn data(&self, n: usize) -> PathBuf {
        self.folder.join(format!("etcd{n}-life{}", self.life))
    }

    /// A member's process.
    pub fn member(&mut self, n: usize) -> &mut Process {
        &mut self.members[n]
    }

    /// Waits until a linearizable read is answered by every member that runs.
    pub async fn usable(&mut self) {
        for n in 0..self.members.len() {
            if self.members[n].is_running() {
                let address = self.address(n);
                eventually(&format!("etcd{n} answers"), Duration::from_secs(60), || {
                    let answer = ctl(&address, &["--command-timeout", "1s", "get", "anything"]);
                    async move { answer }
                })
                .await;
            }
        }
    }

    /// The member that leads, by its own word.
    #[must_use]
    pub fn leader(&self) -> Option<usize> {
        (0..self.members.len()).find(|n| {
            let status =
                ctl(&self.address(*n), &["--command-timeout", "1s", "endpoint", "status", "-w", "fields"])
                    .unwrap_or_default();
            let field = |name: &str| {
                let label = format!("\"{name}\" : ");
                status.lines().find_map(|line| line.strip_prefix(&label)).map(str::to_owned)
            };
            field("MemberID").is_some() && field("MemberID") == field("Leader")
        })
    }

    /// One call of etcd's own tool on one member.
    ///
    /// # Errors
    /// What it said.
    pub fn ctl(&self, n: usize, arguments: &[&str]) -> Result<String, String> {
        ctl(&self.address(n), arguments)
    }

    /// The revision that a member is at.
    #[must_use]
    pub fn revision(&self, n: usize) -> u64 {
        let answer = self.ctl(n, &["get", "anything", "-w", "json"]).expect("etcd answers");
        let answer: serde_json::Value = serde_json::from_str(&answer).expect("etcdctl speaks JSON");
        answer["header"]["revision"].as_u64().expect("a revision")
    }

    /// Saves a backup of one member to this file.
    pub fn save(&self, n: usize, file: &Path) {
        self.ctl(n, &["snapshot", "save", file.to_str().expect("paths are text")])
            .expect("a backup is saved");
    }

    /// Ends all members and starts as many from a backup, at the same addresses.
    pub fn restore(&mut self, file: &Path) {
        let count = self.members.len();
        self.members.clear();
        self.life += 1;
        let all: Vec<_> = (0..count).map(|n| format!("m{n}={}", self.peer(n))).collect();
        for n in 0..count {
            let done = Command::new(tool("etcdutl"))
                .args(["snapshot", "restore", file.to_str().expect("paths are text")])
                .args(["--name", &format!("m{n}"), "--initial-cluster", &all.join(",")])
                .args(["--initial-advertise-peer-urls", &self.peer(n)])
                .arg("--data-dir")
                .arg(self.data(n))
                .output()
                .expect("etcdutl is there");
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        }
        self.spawn(count);
    }
}

/// The revision that a backup was taken at.
#[must_use]
pub fn backup_revision(file: &Path) -> u64 {
    let done = Command::new(tool("etcdutl"))
        .args(["snapshot", "status", "-w", "json"])
        .arg(file)
        .output()
        .expect("etcdutl is there");
    let status: serde_json::Value = serde_json::from_slice(&done.stdout).expect("etcdutl speaks JSON");
    status["revision"].as_u64().expect("a revision")
}

fn tool(name: &str) -> PathBuf {
    let tool = paths::tools().join("etcd/bin").join(name);
    assert!(tool.exists(), "{} is missing: infra/install.sh test puts it there", tool.display());
    tool
}

/// One call of etcd's own tool.
///
/// # Errors
/// What it said.
pub fn ctl(address: &str, arguments: &[&str]) -> Result<String, String> {
    let done = Command::new(tool("etcdctl"))
        .args(["--endpoints", address])
        .args(arguments)
        .output()
        .map_err(|error| error.to_string())?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    Err(format!("{arguments:?}: {}", String::from_utf8_lossy(&done.stderr)))
}
