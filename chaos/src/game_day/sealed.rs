//! The sealed world that a game day is played in: network, process and mount namespaces of its own.
//!
//! Promises that nothing of a run is left, whatever ends it: the kernel ends every process of the world with the first
//! one of it, and that one with its starter; interfaces, rules, named namespaces and the stores' data exist only
//! inside. For the same reason nothing outside can be touched: its processes and interfaces cannot be named in there.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

/// The verb of this program that runs inside.
pub const WITHIN: &str = "game-day-within";
/// Where the run's data are; a file system in memory that goes with the world.
pub const FOLDER: &str = "/run/rollcall-game-day";
/// How long a run that is told to end may take.
const END_WITHIN: Duration = Duration::from_secs(15);
/// Exit code of what cannot begin.
const CANNOT: u8 = 2;

/// What is missing to play here, in words; empty when nothing is.
#[must_use]
pub fn missing() -> Vec<String> {
    let mut missing = Vec::new();
    let says = |tool: &str, arguments: &[&str]| {
        let run = std::process::Command::new(tool).args(arguments).stdin(Stdio::null()).output();
        run.is_ok_and(|done| done.status.success())
    };
    for (tool, arguments, package) in
        [("ip", ["-V"], "iproute2"), ("nft", ["-v"], "nftables"), ("unshare", ["-V"], "util-linux")]
    {
        if !says(tool, &arguments) {
            missing.push(format!("{tool}: infra/install.sh test installs it (Debian's {package})"));
        }
    }
    if missing.is_empty() && !says("unshare", &seal(&["true"])) {
        let how = if is_root() {
            "this container lets not even root make them"
        } else {
            "be root: call it with sudo"
        };
        missing.push(format!("namespaces: {how}"));
    }
    missing
}

fn is_root() -> bool {
    let asked = std::process::Command::new("id").arg("-u").output();
    asked.is_ok_and(|done| done.stdout.trim_ascii() == b"0")
}

/// `unshare`'s arguments around a command. Who is not root is it in a world of one's own, where the kernel allows that.
fn seal<'a>(command: &[&'a str]) -> Vec<&'a str> {
    let user: &[&str] = if is_root() { &[] } else { &["--map-root-user"] };
    [user, &["--net", "--pid", "--mount", "--mount-proc", "--fork", "--kill-child", "--"], command].concat()
}

/// Runs this program's [`WITHIN`] with these arguments in a world of its own; gives its exit code.
///
/// The world ends when this process ends, in whatever way: its standard input closes, and it takes that for the end.
pub async fn run(arguments: &[String]) -> u8 {
    run_as(WITHIN, arguments).await
}

/// The same with another verb.
pub async fn run_as(verb: &str, arguments: &[String]) -> u8 {
    let own = match std::env::current_exe() {
        Ok(own) => own.display().to_string(),
        Err(error) => return cannot(&format!("this program does not know its own path: {error}")),
    };
    let mut command = vec![own.as_str(), verb];
    command.extend(arguments.iter().map(String::as_str));
    let child = Command::new("unshare").args(seal(&command)).stdin(Stdio::piped()).kill_on_drop(true).spawn();
    let (Ok(mut child), Ok(mut interrupt), Ok(mut terminate)) =
        (child, signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return cannot("unshare does not start");
    };
    // Held here, because waiting for a child closes what it still has of it.
    let input = child.stdin.take();
    tokio::select! {
        code = ended(&mut child) => return code,
        // At a terminal the world gets the signal itself, too.
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    drop(input);
    // Beyond that it is killed by dropping it, and the kernel takes the world with it.
    tokio::time::timeout(END_WITHIN, ended(&mut child)).await.unwrap_or(1)
}

async fn ended(child: &mut Child) -> u8 {
    let status = child.wait().await.ok().and_then(|status| status.code());
    status.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn cannot(why: &str) -> u8 {
    eprintln!("{why}");
    CANNOT
}

/// Prepares the world from inside: a file system in memory for data and for the names of namespaces.
///
/// # Errors
/// It is not a world of its own, or mount refused.
pub fn settle() -> Result<(), String> {
    // The first process of a world is its own; anywhere else this would hide the machine's /run.
    if std::process::id() != 1 {
        return Err(format!("{WITHIN} is not for people: use game-day"));
    }
    let done = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=4g,mode=755", "rollcall", "/run"])
        .output()
        .map_err(|error| format!("mount: {error}"))?;
    if !done.status.success() {
        return Err(format!("mount: {}", String::from_utf8_lossy(&done.stderr).trim()));
    }
    std::fs::create_dir_all(Path::new(FOLDER)).map_err(|error| format!("{FOLDER}: {error}"))
}

/// Waits for what ends a run early: Ctrl-C, or the end of the starter.
pub async fn told_to_end() {
    let (ended, starter) = tokio::sync::oneshot::channel();
    // A thread and no task: a runtime would wait for it when it ends, and it reads for as long as the starter lives.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        ended.send(())
    });
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = starter => {}
    }
}
