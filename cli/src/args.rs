//! The command line as types: what can be said, and nothing about what it does.
//!
//! Promises: what clap lets through is well-formed; everything else ends with 2 and a sentence. The flags of a query are
//! the parameters of HTTP, so that both are learnt once; their values are the cell's to judge. Never here: a default
//! that a cell has already.

mod config;
mod dev;
mod operator;
mod query;
pub(crate) mod refusal;
mod registration;
mod resolve;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Parser, Subcommand, ValueEnum};
use rollcall_model::Epoch;

pub(crate) use config::{ConfigArgs, ConfigVerb, Role};
#[cfg(test)]
pub(crate) use dev::AGENTS_MAX;
pub(crate) use dev::DevArgs;
pub(crate) use operator::{EvictArgs, GuardArgs, GuardVerb, MuteArgs};
pub(crate) use query::QueryArgs;
pub(crate) use registration::RegistrationArgs;
pub(crate) use resolve::ResolveArgs;

/// Where a cell is when nobody says: the first region of `rollcall dev`.
pub(crate) const URL: &str = "http://127.0.0.1:7400";

/// What `--version` prints behind the name.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("ROLLCALL_COMMIT"), ")");

/// The heading of the options that stand before or after any verb.
const EVERYWHERE: &str = "Everywhere";

const AFTER: &str = "\
Exit codes: 0 done, 1 anything else, 2 wrong call or bad input, 3 not found, 4 refused, 5 unavailable
(overloaded, away, no connection, a port that is taken).";

/// The registry of AI agents across regions.
#[derive(Debug, Parser)]
#[command(name = "rollcall", version = VERSION, after_help = AFTER)]
#[command(arg_required_else_help = true, max_term_width = 110)]
pub(crate) struct Args {
    /// The cell to talk to [env: ROLLCALL_URL] [default: http://127.0.0.1:7400]
    // Neither is clap's to know: it would print --url as required in the usage of every refusal while the variable is
    // set, and take an empty flag or an empty variable for an address.
    #[arg(long, global = true, value_name = "URL", help_heading = EVERYWHERE)]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) url: Option<String>,
    /// A table for people, or the cell's JSON as it came
    #[arg(short, long, global = true, value_enum, default_value_t = Output::Table)]
    #[arg(value_name = "FORM", help_heading = EVERYWHERE)]
    pub(crate) output: Output,
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

impl Args {
    /// The cell to talk to: the flag's, or the environment's, or [`URL`]. A variable that is set to nothing is not set.
    pub(crate) fn url(&self, environment: &[(String, String)]) -> String {
        let of_environment = || {
            let mut set = environment.iter().filter(|(name, url)| name == "ROLLCALL_URL" && !url.is_empty());
            set.next().map(|(_, url)| url.clone())
        };
        self.url.clone().or_else(of_environment).unwrap_or_else(|| URL.to_owned())
    }
}

/// The form of results.
// Its variants have no documentation, because clap would print each on a line of its own in every verb's help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Table,
    Json,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Three regions in one process with a sample fleet, to look around
    Dev(DevArgs),
    /// The registry of one region
    Cell {
        /// Its settings, TOML
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Publishes a region's feed and follows the other regions'
    Replicator {
        /// Its settings, TOML
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Registers while a command runs: any program becomes an agent without code
    Run {
        #[command(flatten)]
        registration: RegistrationArgs,
        /// The command and its arguments, after `--`
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    /// Registers once; whoever does this renews it as well
    Register {
        #[command(flatten)]
        registration: RegistrationArgs,
    },
    /// Renews a lease
    Renew(HeldArgs),
    /// Takes a registration back
    Deregister(HeldArgs),
    /// Lists agents
    Agents {
        #[command(flatten)]
        query: QueryArgs,
        /// Most agents of one answer, 1-1000
        #[arg(long, value_name = "N")]
        limit: Option<String>,
        /// Goes on where an answer with this token ended
        #[arg(long, value_name = "TOKEN")]
        page_token: Option<String>,
    },
    /// Shows one agent
    Agent {
        /// namespace/name/instance
        #[arg(value_parser = parse_id)]
        id: Id,
        /// The region to look in: own, or a name
        #[arg(long)]
        region: Option<String>,
    },
    /// Shows whom a caller would call, in order
    Resolve(ResolveArgs),
    /// Shows the regions that a cell serves, with their age
    Regions,
    /// Prints what changes, as it changes
    Watch {
        #[command(flatten)]
        query: QueryArgs,
        /// Goes on after this position, `<incarnation>:<revision>`; of several regions `<region>@<position>`, joined by commas
        #[arg(long, value_name = "POSITION")]
        since: Option<String>,
    },
    /// Shows the latest removals and why
    Removals {
        /// Most removals
        #[arg(long, value_name = "N")]
        limit: Option<String>,
        /// Only those of this instance
        #[arg(long, value_name = "ID")]
        id: Option<String>,
    },
    /// Shows whether the expiry guard holds, and what it holds
    Guard(GuardArgs),
    /// Removes a registration on an operator's word
    Evict(EvictArgs),
    /// Ignores an instance's heartbeats for a while: a drill
    Mute(MuteArgs),
    /// Asks a cell what is wrong, and says what to do next
    Doctor {
        /// A replicator to ask as well, by its HTTP address; more than one: all of them
        #[arg(long, value_name = "URL", value_parser = NonEmptyStringValueParser::new())]
        replicator: Vec<String>,
    },
    /// Checks or prints settings
    Config {
        #[command(subcommand)]
        verb: ConfigVerb,
    },
    /// Prints the completions for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

/// A registration that the caller holds.
#[derive(Debug, clap::Args)]
pub(crate) struct HeldArgs {
    /// namespace/name/instance
    #[arg(value_parser = parse_id)]
    pub(crate) id: Id,
    /// The epoch that registering gave
    #[arg(long, value_parser = parse_epoch, allow_negative_numbers = true)]
    pub(crate) epoch: Epoch,
    /// Who says so, where the entry is shared; left out: default
    #[arg(long, value_name = "NAME")]
    pub(crate) holder: Option<String>,
}

impl HeldArgs {
    /// The holder as a parameter.
    pub(crate) fn parameters(&self) -> Vec<(String, String)> {
        self.holder.iter().map(|holder| ("holder".to_owned(), holder.clone())).collect()
    }
}

/// An id's three parts, for a path. Their grammar is the cell's to judge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Id(pub(crate) [String; 3]);

fn parse_id(text: &str) -> Result<Id, String> {
    let parts: Vec<String> = text.split('/').map(str::to_owned).collect();
    // Dots alone would climb in the path instead of naming anything in it.
    if parts.iter().any(|part| part.is_empty() || part.chars().all(|c| c == '.')) {
        return Err("an id is namespace/name/instance, no part empty".to_owned());
    }
    parts.try_into().map(Id).map_err(|_| "an id has three parts: namespace/name/instance".to_owned())
}

fn parse_epoch(text: &str) -> Result<Epoch, String> {
    let digits = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = digits.and_then(|digits| digits.parse().ok());
    number
        .and_then(Epoch::from_wire)
        .ok_or_else(|| "an epoch is the number that `rollcall register` printed".to_owned())
}

/// Reads `key=value`.
fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        Some(_) | None => Err("write it as key=value".to_owned()),
    }
}

#[cfg(test)]
mod tests;
