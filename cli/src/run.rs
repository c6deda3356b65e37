//! `rollcall run`: any program becomes a registrant, without a line of code in it.
//!
//! Promises: the command runs whether or not a registry is there, gets the signals that were meant for it, and its exit
//! code is this program's own (128 + n after signal n). Callers are told first that it is going, when a signal asks it
//! to. What a person should know comes as sentences on stderr. It never starts the command anew: that is for a
//! supervisor.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use rollcall_client::{Closed, Registrant, RegistrantOptions, StartError, Status};
use rollcall_model::body::{parse_registration, read_registration};
use rollcall_model::{Declaration, Epoch, InstanceId, Invalid, Lifecycle, Region, Scope};
use rollcall_runtime::telemetry;
use rustix::process::{Pid, Signal, getpgrp, kill_process};
use rustix::termios::tcgetpgrp;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

use crate::args::RegistrationArgs;
use crate::exit::Exit;
use crate::http::Cell;
use crate::show::Shown;

/// Longest wait for the deregistration: half of what supervisors give a process between SIGTERM and SIGKILL.
const CLOSE_BUDGET: Duration = Duration::from_secs(5);
/// A command that has run this long is worth a registration. One that ends at once, as it does when it cannot start, is
/// not: callers would be sent to where nobody is.
const SETTLED: Duration = Duration::from_millis(100);
/// A command that is not there: what shells answer.
const NOT_FOUND: u8 = 127;
/// A command that is there and cannot be run.
const NOT_EXECUTABLE: u8 = 126;

pub(crate) async fn run(
    url: &str,
    registration: RegistrationArgs,
    command: Vec<OsString>,
    environment: &[(String, String)],
) -> Exit {
    let declaration =
        match Cell::at(url).map_err(|failure| failure.words).and_then(|_| declaration(registration)) {
            Ok(declaration) => declaration,
            Err(words) => return Shown::words(Exit::Usage, words).emit(),
        };
    if let Err(error) = telemetry::init_from(&logged(environment)) {
        return Shown::words(Exit::Usage, error.to_string()).emit();
    }
    // Before the command starts, so that no signal ends this process and leaves the command behind.
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            return Shown::words(Exit::Failed, format!("signals cannot be listened for: {error}")).emit();
        }
    };
    let url = if url.is_empty() { crate::args::URL } else { url };
    let mut child = match spawn(&command, url) {
        Ok(child) => child,
        Err(shown) => return shown.emit(),
    };
    let is_shared = declaration.scope.as_deref() == Some(Scope::Service.as_str());
    let mut attended =
        Attended { is_shared, options: Some(RegistrantOptions::new([url], declaration)), registrant: None };
    let ended = match attended.until_the_end(&mut child, &mut signals).await {
        Ok(ended) => ended,
        Err(error) => {
            pass_on(&child, Signal::TERM);
            let _ = child.wait().await;
            return Shown::words(Exit::Failed, format!("the command was ended again: {error}")).emit();
        }
    };
    attended.close(&mut signals).await;
    match ended {
        Ok(status) => Exit::Command(code(status)),
        Err(error) => Shown::words(Exit::Failed, format!("the command's end was not learnt: {error}")).emit(),
    }
}

/// No log lines unless they are asked for: what a person has to know is said in sentences.
fn logged(environment: &[(String, String)]) -> Vec<(String, String)> {
    let mut environment = environment.to_vec();
    if !environment.iter().any(|(name, _)| name == "ROLLCALL_LOG") {
        environment.push(("ROLLCALL_LOG".to_owned(), "error".to_owned()));
    }
    environment
}

/// Says something to a person. Nobody is left to be told when stderr is closed.
fn say(words: &str) {
    let _ = writeln!(io::stderr(), "rollcall: {words}");
}

/// A command that runs, and its registration.
struct Attended {
    /// Others may hold the same entry: it does not end with this one.
    is_shared: bool,
    /// Until the command has run for a moment; never taken when it is on its way out before.
    options: Option<RegistrantOptions>,
    registrant: Option<Registrant>,
}

impl Attended {
    /// Waits for the command's end, keeps it registered and passes signals on meanwhile. The outer error: it could not
    /// be registered at all.
    async fn until_the_end(
        &mut self,
        child: &mut Child,
        signals: &mut Signals,
    ) -> Result<io::Result<ExitStatus>, StartError> {
        let settled = tokio::time::sleep(SETTLED);
        tokio::pin!(settled);
        let mut known = None;
        loop {
            tokio::select! {
                // The end first: what is over is not registered any more.
                biased;
                ended = child.wait() => return Ok(ended),
                signal = signals.next() => {
                    self.options = None;
                    // Whoever resolves now finds another instance while this one finishes its work.
                    if let Some(registrant) = &self.registrant {
                        registrant.set_lifecycle(Lifecycle::Draining);
                    }
                    if signal == Signal::INT && terminal_tells_the_command() {
                        say(&format!("draining; the command has {} from the terminal", name(signal)));
                    } else {
                        say(&format!("draining; {} passed on to the command", name(signal)));
                        pass_on(child, signal);
                    }
                }
                () = &mut settled, if self.options.is_some() => {
                    if let Some(options) = self.options.take() {
                        self.registrant = Some(Registrant::start(options)?);
                    }
                }
                status = changed(self.registrant.as_ref(), known.as_ref()) => {
                    if let Some(words) = told(known.as_ref(), &status) {
                        say(&words);
                    }
                    known = Some(status);
                }
            }
        }
    }

    /// Takes the registration back, if one was made or is being made.
    async fn close(self, signals: &mut Signals) {
        let Some(registrant) = self.registrant else { return };
        let status = registrant.status();
        tokio::select! {
            closed = registrant.close(CLOSE_BUDGET) => match closed {
                Closed::Deregistered if self.is_shared => {
                    say(&format!("let go of {}; the entry goes with its last holder", status.id));
                }
                Closed::Deregistered => say(&format!("{} is deregistered", status.id)),
                Closed::NotRegistered => {}
                Closed::LeftToLapse => say(&format!("{} could not be deregistered, its lease will lapse", status.id)),
            },
            signal = signals.next() => {
                say(&format!("{}: leaving without deregistering, the lease will lapse", name(signal)));
            }
        }
    }
}

/// Waits until there is something new about a registration; for ever where there is none.
async fn changed(registrant: Option<&Registrant>, known: Option<&Status>) -> Status {
    match registrant {
        Some(registrant) => {
            registrant.until(|status| known.is_none_or(|known| said_of(known) != said_of(status))).await
        }
        None => std::future::pending().await,
    }
}

/// What of a status is worth a sentence when it changes: of failures in a row, only the first.
fn said_of(status: &Status) -> (&InstanceId, Option<Epoch>, bool) {
    (&status.id, status.epoch, status.last_error.is_some())
}

/// The sentence about what has become of a registration, if there is one.
fn told(known: Option<&Status>, now: &Status) -> Option<String> {
    let held = known.and_then(|known| known.epoch);
    match (&now.last_error, now.epoch) {
        (_, Some(epoch)) if held != Some(epoch) => {
            let region = now.region.as_ref().map_or("?", Region::as_str);
            Some(format!("{} is registered in {region}, epoch {epoch}", now.id))
        }
        (Some(error), None) if known.is_none_or(|known| known.last_error.is_none()) => {
            Some(format!("registration failed, trying on: {error}"))
        }
        (Some(error), Some(_)) if known.is_none_or(|known| known.last_error.is_none()) => {
            Some(format!("renewal failed, trying on: {error}"))
        }
        (None, Some(_)) if known.is_some_and(|known| known.last_error.is_some()) && held == now.epoch => {
            Some("renewals are answered again".to_owned())
        }
        (None, None) if held.is_some() => Some("the registration is gone, registering again".to_owned()),
        _ => None,
    }
}

/// The signals that are passed on.
struct Signals {
    hang_up: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            hang_up: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.hang_up.recv() => Signal::HUP,
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.terminate.recv() => Signal::TERM,
        }
    }
}

/// Whether Ctrl-C went to the command as well. A terminal sends it to every process in front; passed on, the command
/// would get it twice, which many take as "do not clean up, end now". It is the session's terminal that counts: stdin may
/// be a file or a pipe.
fn terminal_tells_the_command() -> bool {
    let terminal = File::open("/dev/tty");
    terminal.is_ok_and(|terminal| tcgetpgrp(terminal).is_ok_and(|in_front| in_front == getpgrp()))
}

fn pass_on(child: &Child, signal: Signal) {
    // Without an id it has ended and was waited for; its number may be another process's by now.
    let process = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(process) = process
        && let Err(error) = kill_process(process, signal)
    {
        say(&format!("{} was not passed on: {error}", name(signal)));
    }
}

fn name(signal: Signal) -> &'static str {
    match signal {
        Signal::HUP => "SIGHUP",
        Signal::INT => "SIGINT",
        _ => "SIGTERM",
    }
}

/// Starts the command, and names the cell in its environment, where its own SDK looks when it was given none.
fn spawn(command: &[OsString], url: &str) -> Result<Child, Shown> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Shown::words(Exit::Usage, "a command is missing after --"));
    };
    Command::new(program).args(arguments).env("ROLLCALL_URL", url).spawn().map_err(|error| {
        let name = program.display();
        match error.kind() {
            io::ErrorKind::NotFound => Shown::words(
                Exit::Command(NOT_FOUND),
                format!("{name} is not there, or not in PATH; nothing was registered"),
            ),
            _ => Shown::words(
                Exit::Command(NOT_EXECUTABLE),
                format!("{name} cannot be run: {error}; nothing was registered"),
            ),
        }
    })
}

/// Reads the declaration and checks it as the registry would, so that a bad one is known before the command starts.
fn declaration(registration: RegistrationArgs) -> Result<Declaration, String> {
    let body = registration.body()?;
    let refused = |found: Vec<Invalid>| {
        let lines: Vec<_> = found.iter().map(|finding| format!("\n  {finding}")).collect();
        format!("the registration is refused, nothing was started:{}", lines.concat())
    };
    read_registration(body.as_bytes(), || "any".to_owned()).map_err(refused)?;
    parse_registration(body.as_bytes()).map_err(refused)
}

/// What the command's end is to this program's caller.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(Exit::Failed.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_end_is_told_as_shells_tell_it() {
        // A wait status holds the code in its second byte and the signal in its first.
        for (raw, expected) in [(0, 0), (3 << 8, 3), (255 << 8, 255), (15, 143), (9, 137), (2, 130)] {
            assert_eq!(code(ExitStatus::from_raw(raw)), expected, "{raw}");
        }
    }

    #[test]
    fn a_registration_that_every_cell_refuses_is_told_before_anything_starts() {
        let args = RegistrationArgs {
            id: Some("Demo/x".into()),
            capability: vec!["email.send".into()],
            ..RegistrationArgs::default()
        };
        let said = declaration(args).unwrap_err();
        assert!(said.starts_with("the registration is refused, nothing was started:\n  "), "{said}");
        for place in ["/id: ", "/endpoints: ", "/capabilities/0: "] {
            assert!(said.contains(&format!("\n  {place}")), "{said}");
        }
    }

    #[test]
    fn the_flags_become_the_declaration() {
        let args = RegistrationArgs {
            id: Some("demo/x".into()),
            endpoint: vec!["http://h:1/".into()],
            lease: Some(10),
            ..RegistrationArgs::default()
        };
        let declaration = declaration(args).unwrap();
        assert_eq!((declaration.id.as_str(), declaration.lease_seconds), ("demo/x", Some(10)));
    }

    #[tokio::test]
    async fn a_command_that_is_not_there_is_told_apart_from_one_that_cannot_be_run() {
        let folder = tempfile::tempdir().unwrap();
        for (program, expected) in [(folder.path().join("gone"), 127), (folder.path().to_owned(), 126)] {
            let shown = spawn(&[program.into()], crate::args::URL).unwrap_err();
            assert_eq!(shown.exit.code(), expected);
            assert!(shown.stderr.ends_with("nothing was registered\n"), "{}", shown.stderr);
        }
    }
}
