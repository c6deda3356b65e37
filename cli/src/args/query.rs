//! The flags of a query: the parameters of HTTP under their own names.

use super::parse_pair;

/// What an agent must be; all that is given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct QueryArgs {
    /// Exact namespace
    #[arg(long)]
    pub(crate) namespace: Option<String>,
    /// Exact name
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// A capability, domain:action:vN; more than one: all of them
    #[arg(long, value_name = "CAPABILITY")]
    pub(crate) capability: Vec<String>,
    /// A skill, by id or name
    #[arg(long)]
    pub(crate) skill: Option<String>,
    /// A tag of a capability or skill; more than one: all of them
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Vec<String>,
    /// agent or tool
    #[arg(long)]
    pub(crate) kind: Option<String>,
    /// A semver requirement, as in ^2.1
    #[arg(long, value_name = "REQUIREMENT")]
    pub(crate) version: Option<String>,
    /// Failure domain
    #[arg(long)]
    pub(crate) zone: Option<String>,
    /// starting, healthy, degraded, draining, offline or unknown
    #[arg(long)]
    pub(crate) lifecycle: Option<String>,
    /// A metadata entry, key=value; more than one: all of them
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    pub(crate) metadata: Vec<(String, String)>,
    /// own (the default), all, or a region's name
    #[arg(long)]
    pub(crate) region: Option<String>,
}

impl QueryArgs {
    /// The parameters, in the order of the flags.
    pub(crate) fn parameters(self) -> Vec<(String, String)> {
        let one = |name: &str, value: Option<String>| value.map(|value| (name.to_owned(), value));
        let many = |name: &'static str, values: Vec<String>| {
            values.into_iter().map(move |value| (name.to_owned(), value))
        };
        let mut parameters = Vec::new();
        parameters.extend(one("namespace", self.namespace));
        parameters.extend(one("name", self.name));
        parameters.extend(many("capability", self.capability));
        parameters.extend(one("skill", self.skill));
        parameters.extend(many("tag", self.tag));
        parameters.extend(one("kind", self.kind));
        parameters.extend(one("version", self.version));
        parameters.extend(one("zone", self.zone));
        parameters.extend(one("lifecycle", self.lifecycle));
        parameters.extend(self.metadata.into_iter().map(|(key, value)| (format!("metadata.{key}"), value)));
        parameters.extend(one("region", self.region));
        parameters
    }
}
