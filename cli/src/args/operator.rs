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
    #[arg(long, value_name = "N")]
    pub(crate) seconds: u64,
}
