//! The flags of `rollcall dev`.

use std::path::PathBuf;

/// Largest sample fleet: each agent keeps one connection and answers calls, all in one process.
pub(crate) const AGENTS_MAX: u16 = 1_000;

const AFTER: &str = "\
Prints one line beginning with `ready` when all can be used. Ctrl-C drains and ends with 0.
A port that is taken is named before anything starts, and the exit code is 5.";

/// How the regions of one process are laid out.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct DevArgs {
    /// The regions, by commas
    #[arg(long, value_delimiter = ',', value_name = "NAMES", default_value = "us-east,eu-west,ap-south")]
    #[arg(value_parser = parse_region)]
    pub(crate) regions: Vec<String>,
    /// HTTP of the first region, the next ten above, gRPC one above each; 0: free ones
    #[arg(long, default_value_t = 7400, value_name = "PORT")]
    pub(crate) base_port: u16,
    /// Agents of the sample fleet, all regions together
    #[arg(long, default_value_t = 12, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=AGENTS_MAX as i64))]
    pub(crate) agents: u16,
    /// Where the data stay over a restart; without it they end with the process
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
}

fn parse_region(text: &str) -> Result<String, String> {
    rollcall_model::Region::parse(text).map(|_| text.to_owned()).map_err(|finding| finding.detail)
}
