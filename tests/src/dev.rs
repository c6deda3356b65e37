//! `rollcall dev` as a real process on free ports.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::http::Http;
use crate::paths;

/// A running `rollcall dev`; dropping it kills it.
#[derive(Debug)]
pub struct Dev {
    child: Child,
    urls: BTreeMap<String, String>,
    /// From the process's start to its `ready` line.
    pub ready_after: Duration,
}

impl Dev {
    /// Starts it with these arguments beside `--base-port 0`, and waits for its `ready` line.
    #[must_use]
    pub fn start(arguments: &[&str]) -> Self {
        let started = Instant::now();
        let mut child = Command::new(paths::rollcall())
            .args(["dev", "--base-port", "0"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("rollcall starts");
        let stdout = child.stdout.take().expect("stdout is piped");
        let (lines, seen) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = lines.send(line);
            }
        });
        let ready = loop {
            match seen.recv_timeout(Duration::from_secs(30)) {
                Ok(line) if line.starts_with("ready ") => break line,
                Ok(_) => {}
                Err(_) => {
                    let _ = child.kill();
                    panic!("rollcall dev was not ready within 30 s");
                }
            }
        };
        let urls = ready
            .split_whitespace()
            .filter_map(|word| word.split_once('='))
            .filter(|(_, url)| url.starts_with("http://"))
            .map(|(region, url)| (region.to_owned(), url.to_owned()))
            .collect();
        Self { child, urls, ready_after: started.elapsed() }
    }

    /// The HTTP URL of a region's cell.
    #[must_use]
    pub fn url(&self, region: &str) -> String {
        self.urls
            .get(region)
            .unwrap_or_else(|| panic!("{region} is not in the ready line: {:?}", self.urls))
            .clone()
    }

    /// A client of a region's cell.
    #[must_use]
    pub fn cell(&self, region: &str) -> Http {
        Http::new(self.url(region))
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM and gives the exit code, waiting at most 15 s.
    pub fn stop(mut self) -> Option<i32> {
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let deadline = Instant::now() + Duration::from_secs(15);
        while Instant::now() < deadline {
            if let Ok(Some(status)) = self.child.try_wait() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
