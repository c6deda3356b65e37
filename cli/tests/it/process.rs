//! Processes of the binary: started, waited for with a deadline, and ended with the test.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Longest wait for anything. Far more than is needed, because a test that is late is still right.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Asks again and again until there is an answer.
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The binary with an environment that says nothing to it.
pub(crate) fn rollcall() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rollcall"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ROLLCALL_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// What a run that ended has said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }
}

/// Runs a line of the binary to its end.
pub(crate) fn say(url: &str, line: &[&str]) -> Ended {
    let mut command = rollcall();
    command.arg("--url").arg(url).args(line);
    Process::start(command).end()
}

/// A running process; killed when the test is done with it.
pub(crate) struct Process {
    child: Child,
    stdout: Arc<Mutex<String>>,
    stderr: Arc<Mutex<String>>,
    readers: Vec<thread::JoinHandle<()>>,
}

impl Process {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let (stdout, out) = collect(child.stdout.take().expect("piped"));
        let (stderr, err) = collect(child.stderr.take().expect("piped"));
        Self { child, stdout, stderr, readers: vec![out, err] }
    }

    pub(crate) fn stdout(&self) -> String {
        self.stdout.lock().expect("whole").clone()
    }

    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().expect("whole").clone()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, signal).expect("it runs");
    }

    pub(crate) fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it can be asked")
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ended {
        let status = eventually("the process ends", || self.has_ended());
        // Both pipes are closed now, unless the process left others behind with them.
        for reader in std::mem::take(&mut self.readers) {
            reader.join().expect("it read");
        }
        Ended { code: status.code(), stdout: self.stdout(), stderr: self.stderr() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(pipe: impl Read + Send + 'static) -> (Arc<Mutex<String>>, thread::JoinHandle<()>) {
    let text = Arc::new(Mutex::new(String::new()));
    let into = Arc::clone(&text);
    let reader = thread::spawn(move || {
        for line in BufReader::new(pipe).lines() {
            let line = line.expect("it is text");
            let mut text = into.lock().expect("whole");
            text.push_str(&line);
            text.push('\n');
        }
    });
    (text, reader)
}

/// `rollcall dev` on free ports.
pub(crate) struct Dev {
    pub(crate) process: Process,
    /// The regions' addresses in order.
    pub(crate) urls: Vec<String>,
}

impl Dev {
    /// Starts it and waits for `ready`.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = rollcall();
        command.arg("dev").args(arguments);
        if !arguments.contains(&"--base-port") {
            command.args(["--base-port", "0"]);
        }
        let mut process = Process::start(command);
        let ready = eventually("the line `ready`", || {
            let stdout = process.stdout();
            let line = stdout.lines().find(|line| line.starts_with("ready ")).map(str::to_owned);
            if line.is_none() && process.has_ended().is_some() {
                panic!("it ended before it was ready: {}", process.stderr());
            }
            line
        });
        let urls =
            ready.split(' ').filter_map(|word| word.split_once('=')).map(|(_, url)| url.to_owned()).collect();
        Self { process, urls }
    }

    /// Asks it to end and waits.
    pub(crate) fn stop(self) -> Ended {
        self.process.signal(Signal::TERM);
        self.process.end()
    }
}
