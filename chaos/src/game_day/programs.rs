//! The programs of a game day as processes in their zones' namespaces.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rollcall_tests::etcd;
use rollcall_tests::http::Http;
use rollcall_tests::process::Process;

use super::layout::{Kind, Layout, PREFIX, Program};

/// How long a program may take until it can be used.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Between two looks.
const PACE: Duration = Duration::from_millis(50);

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
        for kind in [Kind::Store, Kind::Cell] {
            // Members of one etcd wait for each other.
            for program in layout.programs.iter().filter(|program| program.kind == kind) {
                programs.spawn(program)?;
                // The first process that stands for keeper is elected: the scenario's first zone has it.
                if kind == Kind::Cell {
                    programs.ready(program).await?;
                    say(format!("{} is ready", program.name));
                }
            }
            if kind == Kind::Store {
                for program in layout.programs.iter().filter(|program| program.kind == kind) {
                    programs.ready(program).await?;
                }
                say("the stores answer".to_owned());
            }
        }
        Ok(programs)
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

/// `ip`'s arguments that run a program in a zone.
#[must_use]
pub fn within(zone: &str, binary: &Path, arguments: &[String]) -> Vec<String> {
    let mut all = vec!["netns".to_owned(), "exec".to_owned(), format!("{PREFIX}{zone}")];
    all.push(binary.display().to_string());
    all.extend(arguments.iter().cloned());
    all
}
