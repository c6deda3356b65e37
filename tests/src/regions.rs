//! Three regions as they are deployed, started by the same script that a person uses.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::http::Http;
use crate::paths;

/// The regions of the shipped configuration, in order of their ports.
pub const NAMES: [&str; 3] = ["us-east", "eu-west", "ap-south"];

/// Running regions; dropping them ends exactly their processes.
#[derive(Debug)]
pub struct Regions {
    run_dir: PathBuf,
    base_port: u16,
    folder: Option<tempfile::TempDir>,
}

impl Regions {
    /// Starts everything, or what `only` names; waits until it can be used.
    ///
    /// Ports are free when they are chosen, not when they are bound; if another process is faster, other ports are
    /// tried.
    #[must_use]
    pub fn up(only: Option<&str>) -> Self {
        Self::up_with(only, &[])
    }

    /// The same with settings from the environment, `ROLLCALL_SECTION__KEY`.
    #[must_use]
    pub fn up_with(only: Option<&str>, settings: &[(&str, &str)]) -> Self {
        let mut last = String::new();
        for _ in 0..3 {
            let folder =
                tempfile::Builder::new().prefix("rollcall-regions-").tempdir().expect("a temporary folder");
            let base = free_base_port();
            let run_dir = folder.path().to_owned();
            let base_text = base.to_string();
            // A region's name alone means all of it.
            let is_ours =
                |word: &str| NAMES.contains(&word) || word.ends_with("cell") || word.ends_with("replicator");
            let needs_ours = only.is_none_or(|only| only.split(',').any(is_ours));
            let binary = needs_ours.then(paths::rollcall);
            let mut arguments = vec!["up", "--run-dir", path(&run_dir), "--base-port", &base_text];
            if let Some(binary) = &binary {
                arguments.extend(["--bin", path(binary)]);
            }
            if let Some(only) = only {
                arguments.extend(["--only", only]);
            }
            match script_with(&arguments, settings) {
                Ok(_) => return Self { run_dir, base_port: base, folder: Some(folder) },
                Err(error) => last = error,
            }
        }
        panic!("regions did not start: {last}");
    }

    /// Regions that the tests of one binary share: started by the first, ended by the last.
    #[must_use]
    pub fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Regions>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = shared.upgrade() {
            return running;
        }
        let started = Arc::new(Self::up(None));
        *shared = Arc::downgrade(&started);
        started
    }

    /// The folder with settings, data and logs.
    #[must_use]
    pub fn run_dir(&self) -> &Path {
        &self.run_dir
    }

    /// Keeps settings, data and logs after the regions are gone, and says where.
    pub fn keep(&mut self) -> PathBuf {
        self.folder.take().map_or_else(|| self.run_dir.clone(), tempfile::TempDir::keep)
    }

    fn at(region: &str) -> u16 {
        let at =
            NAMES.iter().position(|name| *name == region).expect("a region of the shipped configuration");
        u16::try_from(at).expect("three regions") * 10
    }

    /// The HTTP URL of a region's cell.
    #[must_use]
    pub fn url(&self, region: &str) -> String {
        format!("http://127.0.0.1:{}", self.base_port + Self::at(region))
    }

    /// A client of a region's cell.
    #[must_use]
    pub fn cell(&self, region: &str) -> Http {
        Http::new(self.url(region))
    }

    /// The client URL of a region's etcd.
    #[must_use]
    pub fn etcd(&self, region: &str) -> String {
        format!("http://127.0.0.1:{}", self.base_port + 400 + Self::at(region))
    }

    /// The broker.
    #[must_use]
    pub fn kafka(&self) -> String {
        format!("127.0.0.1:{}", self.base_port + 490)
    }

    /// One verb of the script on one process (`us-east/cell`): kill, stop, start, wait, pid.
    ///
    /// # Errors
    /// What the script said.
    pub fn control(&self, verb: &str, name: &str) -> Result<String, String> {
        script(&[verb, name, "--run-dir", path(&self.run_dir)])
    }

    /// The names of all processes, in the order in which a game day kills them.
    #[must_use]
    pub fn processes() -> Vec<String> {
        let of = |role: &'static str| NAMES.iter().map(move |region| format!("{region}/{role}"));
        of("cell").chain(of("replicator")).chain(of("etcd")).chain(["kafka".to_owned()]).collect()
    }
}

impl Drop for Regions {
    fn drop(&mut self) {
        if let Err(error) = script(&["down", "--run-dir", path(&self.run_dir)]) {
            eprintln!("regions did not end cleanly: {error}");
        }
        if std::thread::panicking() {
            eprintln!("logs of the failed run: {}", self.keep().display());
        }
    }
}

/// A base port whose ports are free and that nobody else is given for a while.
#[must_use]
pub fn free_base_port() -> u16 {
    script(&["free-base-port"]).expect("free ports").trim().parse().expect("a port")
}

fn path(path: &Path) -> &str {
    path.to_str().expect("paths of tests are text")
}

fn script(arguments: &[&str]) -> Result<String, String> {
    script_with(arguments, &[])
}

fn script_with(arguments: &[&str], settings: &[(&str, &str)]) -> Result<String, String> {
    let output = Command::new(paths::repository().join("infra/regions.sh"))
        .args(arguments)
        .envs(settings.iter().copied())
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("infra/regions.sh: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("regions.sh {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)))
}
