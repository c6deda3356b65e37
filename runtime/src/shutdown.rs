//! Signals: the first asks the process to drain, the second ends it on the spot.
//!
//! Promises: SIGINT and SIGTERM mean the same, and whoever presses Ctrl-C twice is obeyed, even when draining hangs. It
//! never ends the process at the first signal: what to finish first is the owner's to know.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The exit code after the second signal: what shells report for an interrupt, so scripts read it as one.
const ABORTED: i32 = 130;

/// Starts to listen for SIGINT and SIGTERM; the token is cancelled at the first of them.
///
/// Called once, by the process's owner, inside a tokio runtime. From then on neither signal ends the process by itself.
///
/// # Errors
/// When the system lets no signal listener be set up.
pub fn signals() -> io::Result<CancellationToken> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let draining = CancellationToken::new();
    // Not one of the process's own tasks: it must outlive their draining to hear the second signal.
    tokio::spawn({
        let draining = draining.clone();
        async move {
            let name = either(&mut interrupt, &mut terminate).await;
            tracing::info!(signal = name, "draining; a second signal ends the process at once");
            draining.cancel();
            let name = either(&mut interrupt, &mut terminate).await;
            tracing::warn!(signal = name, code = ABORTED, "second signal, ending without draining");
            std::process::exit(ABORTED);
        }
    });
    Ok(draining)
}

async fn either(interrupt: &mut Signal, terminate: &mut Signal) -> &'static str {
    tokio::select! {
        _ = interrupt.recv() => "SIGINT",
        _ = terminate.recv() => "SIGTERM",
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Lines};
    use std::process::{Child, ChildStdout, Command, Stdio};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Long enough for a busy machine; a test that waits this long has failed.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// Not a test: the process the tests send signals to. It says what it has seen and never ends at the first signal.
    #[test]
    #[ignore = "started by the tests below as a process of its own"]
    fn listening_process() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let draining = signals().expect("signals");
            println!("\nlistening");
            draining.cancelled().await;
            println!("\ndraining");
            // Should its test die before it, it does not stay for ever.
            tokio::time::sleep(3 * PATIENCE).await;
        });
    }

    struct Process {
        child: Child,
        lines: mpsc::Receiver<String>,
    }

    impl Process {
        fn start() -> Self {
            let mut child = Command::new(std::env::current_exe().expect("this binary"))
                .args(["--exact", "shutdown::tests::listening_process", "--ignored", "--nocapture"])
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .expect("started");
            let (said, lines) = mpsc::sync_channel(64);
            let output: Lines<BufReader<ChildStdout>> =
                BufReader::new(child.stdout.take().expect("piped")).lines();
            std::thread::spawn(move || output.map_while(Result::ok).try_for_each(|line| said.send(line)));
            Self { child, lines }
        }

        fn wait_for(&self, word: &str) {
            while self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no `{word}` in time")) != word
            {
            }
        }

        fn signal(&self, name: &str) {
            let process = self.child.id().to_string();
            assert!(Command::new("kill").args([name, &process]).status().expect("kill runs").success());
        }
    }

    impl Drop for Process {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    #[test]
    fn the_first_signal_drains_and_the_second_ends_the_process_with_130() {
        for (first, second) in [("-TERM", "-TERM"), ("-INT", "-INT"), ("-TERM", "-INT")] {
            let mut process = Process::start();
            process.wait_for("listening");
            process.signal(first);
            process.wait_for("draining");
            assert!(process.child.try_wait().expect("asked").is_none(), "it drains and goes on");
            process.signal(second);
            // The output closes when the process is gone.
            while process.lines.recv_timeout(PATIENCE).is_ok() {}
            assert_eq!(process.child.wait().expect("ended").code(), Some(ABORTED), "{first}, then {second}");
        }
    }
}
