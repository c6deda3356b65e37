//! The flags of an operator's verbs.

use super::{Id, parse_id};

/// `rollcall guard`.
#[derive(Debug, clap::Args)]
pub(crate) struct GuardArgs {
    /// What to do with it; nothing shows it.
    #[command(subcommand)]
    pub(crate) verb: Option<GuardVerb>,
}

/// What an operator does with the guard.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum GuardVerb {
    /// Lets exactly these overdue registrations go, whatever the guard holds
    Release {
        /// namespace/name/instance, one or more
        #[arg(value_parser = parse_id, required = true, value_name = "ID")]
        ids: Vec<Id>,
    },
}

/// `rollcall evict`.
#[derive(Debug, clap::Args)]
pub(crate) struct EvictArgs {
    /// namespace/name/instance
    #[arg(value_parser = parse_id)]
    pub(crate) id: Id,
    /// Why, for the audit line
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
}

/// `rollcall mute`.
#[derive(Debug, clap::Args)]
pub(crate) struct MuteArgs {
    /// namespace/name/instance
    #[arg(value_parser = parse_id)]
    pub(crate) id: Id,
    /// For how long; 0 ends a mute
    #[arg(long, value_name = "N", value_parser = parse_seconds, allow_negative_numbers = true)]
    pub(crate) seconds: u64,
}

fn parse_seconds(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "it is a whole number of seconds, a day at most; 0 ends a mute".to_owned())
}
