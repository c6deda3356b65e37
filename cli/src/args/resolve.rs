//! The flags of `rollcall resolve`: a query's, and the parameters of HTTP that say whence and in which order.

use super::QueryArgs;

/// `rollcall resolve`.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct ResolveArgs {
    #[command(flatten)]
    pub(crate) query: QueryArgs,
    /// zone (the default), round_robin, least_loaded, latency (a cell measures nothing: as zone), specialist, canary
    /// or sticky
    #[arg(long, value_name = "POLICY")]
    pub(crate) policy: Option<String>,
    /// The zone the caller stands in
    #[arg(long, value_name = "ZONE")]
    pub(crate) from_zone: Option<String>,
    /// What the same instance is to be found for; for sticky
    #[arg(long, value_name = "KEY")]
    pub(crate) affinity_key: Option<String>,
    /// true (the default), false, or regions in order, by commas
    #[arg(long, value_name = "REGIONS")]
    pub(crate) failover: Option<String>,
    /// The only regions an answer may come from, by commas
    #[arg(long, value_name = "REGIONS")]
    pub(crate) residency: Option<String>,
    /// Capabilities, skills or tags, by commas; for specialist
    #[arg(long, value_name = "WORDS")]
    pub(crate) prefer: Option<String>,
    /// The version on trial, a semver requirement; for canary
    #[arg(long, value_name = "REQUIREMENT")]
    pub(crate) canary_version: Option<String>,
    /// Its share of answers, 0-1
    #[arg(long, value_name = "SHARE")]
    pub(crate) canary_share: Option<String>,
    /// Most candidates, 1-1000
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<String>,
}

impl ResolveArgs {
    /// The parameters, in the order of the flags.
    pub(crate) fn parameters(self) -> Vec<(String, String)> {
        let own = [
            ("policy", self.policy),
            ("from_zone", self.from_zone),
            ("affinity_key", self.affinity_key),
            ("failover", self.failover),
            ("residency", self.residency),
            ("prefer", self.prefer),
            ("canary_version", self.canary_version),
            ("canary_share", self.canary_share),
            ("limit", self.limit),
        ];
        let mut parameters = self.query.parameters();
        parameters.extend(own.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        parameters
    }
}
