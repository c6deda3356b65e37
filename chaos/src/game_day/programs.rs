//! The programs of a game day as processes in their zones' namespaces.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rollcall_tests::etcd;
use rollcall_tests::http::Http;
use rollcall_tests::process::Process;

use super::layout::{Kind, Layout, PREFIX, Program};

/// How long a program may take until it can be used, on a machine that has much else to do.
const READY_WITHIN: Duration = Duration::from_secs(180);
/// Between two looks.
const PACE: Duration = Duration::from_millis(50);
/// Between two looks at a process that is told to stop, and how many: it stops once it is given its turn.
const STOPPED_PACE: Duration = Duration::from_millis(2);
const STOPPED_LOOKS: u32 = 5_000;

/// The running programs; dropping them ends them.
#[derive(Debug)]
pub struct Programs {
    folder: PathBuf,
    running: BTreeMap<String, Process>,
}

impl Programs {
    /// Starts everything in its order and waits until it can be used.
    ///
    /// # Errors
    /// Which program cannot be used, and why.
    pub async fn start(layout: &Layout, folder: &Path, say: impl Fn(String)) -> Result<Self, String> {
        let mut programs = Self { folder: folder.to_owned(), running: BTreeMap::new() };
        for kind in Kind::ALL {
            let of_kind = || layout.programs.iter().filter(|program| program.kind == kind);
            for program in of_kind() {
                programs.spawn(program)?;
                // The first process that stands for keeper is elected: the scenario's first zone has it.
                if kind == Kind::Cell {
                    programs.ready(program).await?;
                }
            }
            // Members of one etcd wait for each other.
            for program in of_kind() {
                programs.ready(program).await?;
                say(format!("{} is ready", program.name));
            }
        }
        Ok(programs)
    }

    /// Ends programs; gives whether they are gone.
    pub fn kill(&mut self, names: &[String]) -> bool {
        for name in names {
            if let Some(process) = self.running.get_mut(name) {
                process.kill();
            }
        }
        self.each(names, |process| !process.is_running())
    }

    /// Starts again what was killed; gives whether it runs.
    pub fn start_again(&mut self, names: &[String]) -> bool {
        for name in names {
            if let Some(process) = self.running.get_mut(name) {
                process.start_again();
            }
        }
        self.each(names, Process::is_running)
    }

    /// Freezes programs; gives whether the kernel calls them stopped.
    pub fn freeze(&mut self, names: &[String]) -> bool {
        names.iter().filter_map(|name| self.running.get(name)).for_each(Process::pause);
        self.each(names, |process| is_stopped(process.pid()))
    }

    /// Lets programs go on.
    pub fn thaw(&mut self, names: &[String]) {
        names.iter().filter_map(|name| self.running.get(name)).for_each(Process::resume);
    }

    fn each(&mut self, names: &[String], holds: impl Fn(&mut Process) -> bool) -> bool {
        names.iter().all(|name| self.running.get_mut(name).is_some_and(&holds))
    }

    fn spawn(&mut self, program: &Program) -> Result<(), String> {
        if let Some((file, text)) = &program.settings {
            std::fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        }
        let arguments = within(&program.zone, &program.binary, &program.arguments);
        let process = Process::start(&program.name, &self.folder, "ip".into(), arguments, &[]);
        self.running.insert(program.name.clone(), process);
        Ok(())
    }

    async fn ready(&mut self, program: &Program) -> Result<(), String> {
        let last = |programs: &Self| {
            let text = std::fs::read_to_string(programs.running[&program.name].log()).unwrap_or_default();
            text.lines().next_back().unwrap_or("it said nothing").to_owned()
        };
        let began = tokio::time::Instant::now();
        loop {
            let answer = match program.kind {
                Kind::Store => etcd::ctl(&program.url, &["--command-timeout", "1s", "get", "any"]).map(drop),
                Kind::Cell => Http::new(&program.url).get("/readyz").await.map(drop),
                // It is ready when its views are loaded, which another region's has to be there for.
                Kind::Replicator => Http::new(&program.url).get("/livez").await.map(drop),
                // Clients try again until it takes requests.
                Kind::Broker => tokio::net::TcpStream::connect(&program.url)
                    .await
                    .map(drop)
                    .map_err(|error| error.to_string()),
            };
            let Err(why) = answer else { return Ok(()) };
            let ended = !self.running.get_mut(&program.name).is_some_and(Process::is_running);
            if ended || began.elapsed() > READY_WITHIN {
                return Err(format!("{} cannot be used: {why}; it said: {}", program.name, last(self)));
            }
            tokio::time::sleep(PACE).await;
        }
    }
}

/// State T of `/proc/<pid>/stat`, behind the name in brackets. A stop takes a moment.
fn is_stopped(pid: Option<u32>) -> bool {
    let Some(pid) = pid else { return false };
    (0..STOPPED_LOOKS).any(|_| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let stopped = stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'));
        if !stopped {
            std::thread::sleep(STOPPED_PACE);
        }
        stopped
    })
}

/// `ip`'s arguments that run a program in a zone.
#[must_use]
pub fn within(zone: &str, binary: &Path, arguments: &[String]) -> Vec<String> {
    let mut all = vec!["netns".to_owned(), "exec".to_owned(), format!("{PREFIX}{zone}")];
    all.push(binary.display().to_string());
    all.extend(arguments.iter().cloned());
    all
}
