//! The one binary: the roles, the three regions to try, and the operator's verbs.
//!
//! Promises: results on stdout, words on stderr, one table of exit codes for all. It never decides anything: decisions
//! are the model's, and the roles are libraries.

mod args;
mod dev;
mod doctor;
mod exit;
mod http;
mod roles;
mod run;
mod show;
mod sse;
mod table;
mod verbs;

use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::Builder;

use args::{Args, Verb};
use exit::Exit;
use show::Shown;

/// What the binary is made from, or why that is unknown.
const COMMIT: &str = env!("ROLLCALL_COMMIT");

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let line: Vec<_> = std::env::args_os().collect();
    let args = match Args::try_parse_from(&line) {
        Ok(args) => args,
        Err(error) => return ExitCode::from(args::refusal::answer(&error, &line).emit().code()),
    };
    // Values that are no text are none of ours.
    let environment: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    #[cfg(feature = "planted")]
    plant(&environment);
    ExitCode::from(perform(args, &environment).code())
}

/// Plants the bug that the environment names.
#[cfg(feature = "planted")]
fn plant(environment: &[(String, String)]) {
    let name = environment.iter().find(|(name, _)| name == "ROLLCALL_PLANTED").map(|(_, bug)| bug.as_str());
    let bug = name.and_then(rollcall_model::planted::plant);
    eprintln!("this build proves checkers and is for nothing else; the planted bug is {bug:?}");
}

fn perform(args: Args, environment: &[(String, String)]) -> Exit {
    let threads = match args.verb {
        Verb::Cell { .. } | Verb::Replicator { .. } => Builder::new_multi_thread().enable_all().build(),
        // Three regions of a fleet that idles: two threads serve them, and each has its stack and buffers.
        Verb::Dev(_) => Builder::new_multi_thread().worker_threads(2).enable_all().build(),
        _ => Builder::new_current_thread().enable_all().build(),
    };
    match threads {
        Ok(runtime) => {
            let exit = runtime.block_on(Box::pin(verb(args, environment)));
            // What still runs is a read of stdin or a disk write that nobody waits for any more.
            runtime.shutdown_background();
            exit
        }
        Err(error) => Shown::words(Exit::Failed, format!("no threads can be started: {error}")).emit(),
    }
}

async fn verb(args: Args, environment: &[(String, String)]) -> Exit {
    let url = args.url(environment);
    let (url, Args { output, verb, .. }) = (url.as_str(), args);
    let shown = match verb {
        Verb::Dev(args) => return Box::pin(dev::dev(args, environment)).await,
        Verb::Cell { config } => return Box::pin(roles::cell::run(&config, environment)).await,
        Verb::Replicator { config } => return Box::pin(roles::replicator::run(&config, environment)).await,
        Verb::Run { registration, command } => {
            return Box::pin(run::run(url, registration, command, environment)).await;
        }
        Verb::Register { registration } => verbs::register::register(url, output, registration).await,
        Verb::Renew(held) => verbs::renew::renew(url, output, held).await,
        Verb::Deregister(held) => verbs::deregister::deregister(url, output, held).await,
        Verb::Agents { query, limit, page_token } => {
            verbs::agents::agents(url, output, query, limit, page_token).await
        }
        Verb::Agent { id, region } => verbs::agent::agent(url, output, id, region).await,
        Verb::Resolve(args) => verbs::resolve::resolve(url, output, args).await,
        Verb::Regions => verbs::regions::regions(url, output).await,
        Verb::Watch { query, since } => verbs::watch::watch(url, output, query, since).await,
        Verb::Removals { limit, id } => verbs::removals::removals(url, output, limit, id).await,
        Verb::Guard(args) => verbs::guard::guard(url, output, args).await,
        Verb::Evict(args) => verbs::evict::evict(url, output, args).await,
        Verb::Mute(args) => verbs::mute::mute(url, output, args).await,
        Verb::Doctor { replicator } => Box::pin(doctor::doctor(url, output, &replicator)).await,
        Verb::Config { verb } => verbs::config::config(verb, output, environment),
        Verb::Completions { shell } => verbs::completions::completions(shell),
    };
    shown.emit()
}
