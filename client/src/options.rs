//! What a user chooses. Everything has a default that loses nothing.

use std::path::PathBuf;
use std::time::Duration;

use rollcall_model::{Declaration, EjectionLimits, Region};

use crate::cache::CacheProfile;
use crate::error::StartError;

/// Most URLs of one region's cell: a list to try in turn, not a fleet.
const URLS_MAX: usize = 16;
/// How long [`Registry::connect`](crate::Registry::connect) waits for its own region: a start is not held up by a
/// registry that is away.
const FIRST_LOAD: Duration = Duration::from_secs(3);

/// How to be registered.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RegistrantOptions {
    /// The cell's processes, such as `http://127.0.0.1:7400`, in order of preference. Either port of a cell will do.
    /// Empty: those that `ROLLCALL_URL` names, by commas, as `rollcall run` sets it for its command.
    pub urls: Vec<String>,
    /// What to declare. With an id of two parts, `namespace/name`, the instance is made once, at the start; with scope
    /// `service` it is the one that all processes of the deployment share, and the holder is made instead.
    pub declaration: Declaration,
    /// Whether metadata is filled from what Kubernetes says in the environment (`POD_NAME`, `POD_NAMESPACE`,
    /// `SERVICE_NAME`, …). Default true; outside of Kubernetes nothing is added, and what is declared always wins.
    ///
    /// A declaration without endpoints and card is given the service's name in the cluster,
    /// `http://<SERVICE_NAME>.<namespace>.svc.cluster.local:<SERVICE_PORT>` (port 80 when none is said), where there is
    /// one: never a pod's address, which goes with the pod.
    pub kubernetes: bool,
    /// How often to renew, where that is more often than the registry asks for (a third of the lease). Default `None`:
    /// as it asks. Less than 2 s is taken for 2 s, and longer than it asks for changes nothing: ask for a longer lease.
    pub heartbeat: Option<Duration>,
}

impl RegistrantOptions {
    /// Options with defaults.
    #[must_use]
    pub fn new<U: Into<String>>(urls: impl IntoIterator<Item = U>, declaration: Declaration) -> Self {
        let urls = urls.into_iter().map(Into::into).collect();
        Self { urls, declaration, kubernetes: true, heartbeat: None }
    }
}

/// What to resolve from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RegistryOptions {
    /// The cell's processes, such as `http://127.0.0.1:7400`, in order of preference. Either port of a cell will do.
    /// Empty: those that `ROLLCALL_URL` names, by commas, as `rollcall run` sets it for its command.
    pub urls: Vec<String>,
    /// The own region: asked first.
    pub region: Region,
    /// Regions asked in this order when the own one has no candidate. Only these are followed.
    pub failover: Vec<Region>,
    /// How long what is known may be used. Default [`CacheProfile::LASTING`]: a day.
    pub cache: CacheProfile,
    /// How long `connect` waits for the own region to be loaded before it returns all the same. Default 3 s.
    pub first_load: Duration,
    /// When an instance is avoided for a while because calls to it failed, as the caller
    /// [reports](crate::Registry::report) them; `None` never. Default on; who reports nothing avoids nobody.
    pub ejection: Option<EjectionLimits>,
    /// Where the last good copy of each region is kept, for a process that starts while the registry is away. Default
    /// `None`: in memory alone. Processes may share it; a copy is about as large as the state is in memory.
    pub directory: Option<PathBuf>,
}

impl RegistryOptions {
    /// Options with defaults: the own region alone.
    #[must_use]
    pub fn new<U: Into<String>>(urls: impl IntoIterator<Item = U>, region: Region) -> Self {
        Self {
            urls: urls.into_iter().map(Into::into).collect(),
            region,
            failover: Vec::new(),
            cache: CacheProfile::default(),
            first_load: FIRST_LOAD,
            ejection: Some(EjectionLimits::default()),
            directory: None,
        }
    }

    /// With the last good copies in this directory.
    #[must_use]
    pub fn with_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// With another rule for how long what is known may be used.
    #[must_use]
    pub const fn with_cache(mut self, cache: CacheProfile) -> Self {
        self.cache = cache;
        self
    }

    /// With regions to fail over to, in this order.
    #[must_use]
    pub fn with_failover(mut self, regions: impl IntoIterator<Item = Region>) -> Self {
        self.failover = regions.into_iter().collect();
        self
    }

    /// The regions in the order they are asked.
    pub(crate) fn order(&self) -> Result<Vec<Region>, StartError> {
        let mut order = vec![self.region.clone()];
        for region in &self.failover {
            if order.contains(region) {
                return Err(StartError::RegionTwice(region.to_string()));
            }
            order.push(region.clone());
        }
        Ok(order)
    }
}

/// The cells to speak to: those that were given, or else those that whoever started this process named in its
/// environment. What is given wins (acceptance SDK-03).
pub(crate) fn cells(given: &[String], environment: impl Fn(&str) -> Option<String>) -> Vec<String> {
    if !given.is_empty() {
        return given.to_vec();
    }
    let injected = environment("ROLLCALL_URL").unwrap_or_default();
    injected.split(',').map(str::trim).filter(|url| !url.is_empty()).map(str::to_owned).collect()
}

/// The environment of this process.
pub(crate) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Checks the number of URLs; each one's form is for the transport.
pub(crate) fn check_urls(urls: &[String]) -> Result<(), StartError> {
    match urls.get(URLS_MAX) {
        Some(url) => {
            Err(StartError::Url { url: url.clone(), why: format!("there are {URLS_MAX} before it") })
        }
        None if urls.is_empty() => Err(StartError::NoUrl),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sdk_03_cells_that_are_given_win_over_those_that_the_environment_names() {
        let injected = |name: &str| (name == "ROLLCALL_URL").then(|| "http://a:1, http://b:1".to_owned());
        assert_eq!(cells(&["http://own:1".to_owned()], injected), ["http://own:1"]);
        assert_eq!(cells(&[], injected), ["http://a:1", "http://b:1"]);
        assert!(cells(&[], |_| None).is_empty() && cells(&[], |_| Some(String::new())).is_empty());
    }

    #[test]
    fn cfg_01_the_defaults_are_the_ones_that_were_decided() {
        let own = Region::parse("us").unwrap();
        let RegistryOptions { failover, cache, first_load, ejection, directory, .. } =
            RegistryOptions::new(["http://h:1"], own);
        assert_eq!((cache.age_max, first_load), (Duration::from_secs(86_400), Duration::from_secs(3)));
        assert!(failover.is_empty() && directory.is_none() && ejection.is_some());
        let RegistrantOptions { declaration, kubernetes, heartbeat, .. } =
            RegistrantOptions::new(["http://h:1"], Declaration::default());
        // The registry's own: a lease of 30 s, renewed every third of it, and registering is tried for ever.
        assert_eq!((declaration.lease_seconds, heartbeat, kubernetes), (None, None, true));
        let lease = rollcall_model::limits::LEASE_SECONDS_DEFAULT;
        assert_eq!(lease, 30);
    }
}
