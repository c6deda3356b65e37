//! What can be asked about settings.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

/// What to do with a settings file.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Says whether a role would start with these settings, the environment included
    Check(ConfigArgs),
    /// Prints the settings as they are in force, secrets hidden
    Print(ConfigArgs),
}

/// Which file, and whose.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct ConfigArgs {
    /// The settings, TOML
    pub(crate) file: PathBuf,
    /// Whose settings they are; otherwise their sections tell
    #[arg(long, value_enum)]
    pub(crate) role: Option<Role>,
}

/// A role that has settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// `rollcall cell`
    Cell,
    /// `rollcall replicator`
    Replicator,
}
