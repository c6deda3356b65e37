//! A process of ours: started with its output in a file, signalled by its own id, ended with its owner.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A command line for `rollcall run`: does nothing, and ends within a second of the process that started it, however
/// that one ends. One that is killed takes nobody with it, and a test would leave its command to the machine.
pub const COMPANION: [&str; 3] = ["sh", "-c", "while kill -0 $PPID 2>/dev/null; do sleep 1; done"];

/// A child that can be killed, paused and started again with the same command; dropping it kills it.
#[derive(Debug)]
pub struct Process {
    name: String,
    program: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    log: PathBuf,
    child: Option<Child>,
}

impl Process {
    /// Starts a program; what it says is appended to `<folder>/<name>.log`.
    #[must_use]
    pub fn start(
        name: &str,
        folder: &Path,
        program: PathBuf,
        arguments: Vec<String>,
        environment: &[(&str, &str)],
    ) -> Self {
        let environment =
            environment.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let log = folder.join(format!("{name}.log"));
        let mut process = Self { name: name.to_owned(), program, arguments, environment, log, child: None };
        process.start_again();
        process
    }

    /// Its name in reports.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it writes what it says.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Starts it, unless it runs.
    pub fn start_again(&mut self) {
        if self.is_running() {
            return;
        }
        let log = File::options().create(true).append(true).open(&self.log).expect("a log file");
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("the log file twice"))
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{} does not start: {error}", self.program.display()));
        self.child = Some(child);
    }

    /// Whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Its id; none when it does not run.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// SIGKILL, and waits for its end.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // One that has ended already cannot be killed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Freezes it.
    pub fn pause(&self) {
        self.signal("STOP");
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// Sends a signal. The child is ours and not reaped, so its id is nobody else's.
    pub fn signal(&self, signal: &str) {
        let pid = self.pid().unwrap_or_else(|| panic!("{} does not run", self.name)).to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status().expect("kill is there");
        assert!(sent.success(), "{} got no {signal}", self.name);
    }

    /// Waits for its end, at most this long.
    pub fn wait(&mut self, most: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + most;
        let child = self.child.as_mut()?;
        loop {
            if let Ok(Some(status)) = child.try_wait() {
                return Some(status);
            }
            if Instant::now() >= deadline {
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
