//! The cell's configuration file. Unknown keys are errors; `http.md`'s smallest file is a whole one.

mod health;
mod urls;

use std::time::Duration;

use std::path::PathBuf;

use rollcall_model::{AdmissionLimits, GuardLimits, Rate, Region, Zone};
use rollcall_runtime::config::{Auth, Unusable};
use rollcall_runtime::listen::{self, Callers};
use serde::{Deserialize, Serialize};

pub use health::HealthConfig;

/// A cell's configuration.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CellConfig {
    /// The region whose registrations this cell alone accepts.
    pub region: String,
    /// The failure domain this process stands in.
    #[serde(default)]
    pub zone: Option<String>,
    /// Where the disk copies are, and the embedded store.
    pub data_dir: PathBuf,
    /// Addresses to listen on.
    pub listen: Listen,
    /// The store.
    pub store: StoreConfig,
    /// Other regions, each followed from this region's replicator.
    #[serde(default)]
    pub view: Vec<ViewConfig>,
    /// When the expiry guard holds.
    #[serde(default)]
    pub guard: GuardConfig,
    /// How many new registrations this process takes.
    #[serde(default)]
    pub admission: AdmissionConfig,
    /// When reported load degrades an instance, and how often it is written.
    #[serde(default)]
    pub health: HealthConfig,
    /// Who may call.
    #[serde(default)]
    pub auth: Option<Auth>,
}

/// How many new registrations this process takes; renewals have a lane of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdmissionConfig {
    /// New registrations a second, 1 or more; 1000: what one store takes beside everything else.
    pub registrations_per_second: u32,
    /// New registrations at once, 1 or more; 5000: a fleet of thousands starts without a refusal.
    pub burst: u32,
    /// Renewals a second, 1 or more, and twice as many at once; 50000: half a million agents of one process, so that
    /// only a loop gone wild meets it.
    pub renewals_per_second: u32,
    /// How much of both one address may have; a tenth, so that one host that loops does not shut the others out.
    pub address_share: AddressShare,
}

/// How much of the new registrations one address may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AddressShare {
    /// A tenth of rate and burst.
    Tenth,
    /// All of it: where callers come through a proxy, or from one machine.
    Whole,
}

impl Default for AdmissionConfig {
    fn default() -> Self {
        let AdmissionLimits { new, known, .. } = AdmissionLimits::default();
        Self {
            registrations_per_second: new.per_second,
            burst: new.burst,
            renewals_per_second: known.per_second,
            address_share: AddressShare::Tenth,
        }
    }
}

impl AdmissionConfig {
    /// What the model takes.
    #[must_use]
    pub fn limits(&self) -> AdmissionLimits {
        AdmissionLimits {
            new: Rate { per_second: self.registrations_per_second, burst: self.burst },
            known: Rate {
                per_second: self.renewals_per_second,
                burst: self.renewals_per_second.saturating_mul(2),
            },
            share: match self.address_share {
                AddressShare::Tenth => rollcall_model::AddressShare::Tenth,
                AddressShare::Whole => rollcall_model::AddressShare::Whole,
            },
        }
    }
}

/// When the expiry guard holds.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct GuardConfig {
    /// So many may be silent in any cohort without a hold; 1, so that small fleets lose their dead by themselves.
    pub floor: u64,
    /// The share of a cohort that may be silent, 0-1; 0.15: normal churn is far below, a lost zone far above.
    pub fraction: f64,
    /// Whether suspects' endpoints are tried for evidence of death while it holds.
    pub probe: bool,
}

impl Default for GuardConfig {
    fn default() -> Self {
        let limits = GuardLimits::default();
        Self { floor: limits.floor, fraction: limits.fraction, probe: true }
    }
}

impl GuardConfig {
    /// What the model takes.
    #[must_use]
    pub const fn limits(&self) -> GuardLimits {
        GuardLimits { floor: self.floor, fraction: self.fraction }
    }
}

/// Addresses to listen on.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// HTTP (and gRPC by content type).
    pub http: String,
    /// gRPC alone.
    pub grpc: String,
    /// Where the cell's other processes reach `grpc`; left out, the address that it listens on.
    #[serde(default)]
    pub advertise: Option<String>,
}

/// The store.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StoreConfig {
    /// Which one.
    pub kind: StoreKind,
    /// etcd's client URLs, in a list or in one text with commas between them; every member's, so that one may be down.
    #[serde(default, deserialize_with = "urls::deserialize")]
    pub endpoints: Vec<String>,
    /// Seconds between two comparisons of the own state with the store's, a fifth more or less; 600. 0 is never.
    #[serde(default = "audit_seconds")]
    pub audit_seconds: u32,
    /// Seconds of the store's history that the keeper keeps; 600, from 10 to 86,400.
    #[serde(default = "history_seconds")]
    pub history_seconds: u32,
}

const fn audit_seconds() -> u32 {
    600
}

const fn history_seconds() -> u32 {
    600
}

impl StoreConfig {
    /// The shortest and the longest history: a follower must be able to start anew within it, and a day of a region's
    /// churn is about what etcd holds.
    const HISTORY: std::ops::RangeInclusive<u32> = 10..=86_400;

    /// A store with nothing said but which one it is.
    #[must_use]
    pub const fn of(kind: StoreKind) -> Self {
        Self {
            kind,
            endpoints: Vec::new(),
            audit_seconds: audit_seconds(),
            history_seconds: history_seconds(),
        }
    }

    pub(crate) fn history(&self) -> Duration {
        Duration::from_secs(u64::from(self.history_seconds))
    }

    pub(crate) fn audit_every(&self) -> Option<Duration> {
        (self.audit_seconds > 0).then(|| Duration::from_secs(u64::from(self.audit_seconds)))
    }
}

/// Which store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoreKind {
    /// etcd 3.6 or newer.
    Etcd,
    /// A file under `data_dir`, for one machine.
    Embedded,
}

/// A remote region.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ViewConfig {
    /// Its name.
    pub region: String,
    /// This region's replicator; several by commas, tried in turn.
    pub source: String,
}

impl ViewConfig {
    /// The replicators that serve it, one by one.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        self.source.split(',').map(str::trim)
    }
}

impl CellConfig {
    /// Checks what the types cannot say.
    ///
    /// # Errors
    /// The first key that cannot work.
    pub fn check(&self) -> Result<(), Unusable> {
        self.faults().into_iter().next().map_or(Ok(()), Err)
    }

    /// Every key that cannot work, in the order of the file.
    #[must_use]
    pub fn faults(&self) -> Vec<Unusable> {
        let mut found = Faults::default();
        found.of("region", Region::given(&self.region).map_err(|finding| finding.detail));
        if let Some(zone) = &self.zone {
            found.of("zone", Zone::parse(zone).map_err(|finding| finding.detail));
        }
        self.listen
            .check(if self.auth.is_some() { Callers::Judged } else { Callers::OwnMachine }, &mut found);
        self.store.check(&mut found);
        self.check_views(&mut found);
        found.unless(
            "guard.fraction",
            (0.0..=1.0).contains(&self.guard.fraction),
            "it is a share from 0 to 1, as in 0.15",
        );
        self.admission.check(&mut found);
        self.health.check(&mut found);
        found.0
    }

    /// As [`Self::faults`]; also what only a process of its own must not say.
    #[must_use]
    pub fn faults_alone(&self) -> Vec<Unusable> {
        let mut found = Faults(self.faults());
        found.unless("data_dir", !self.data_dir.as_os_str().is_empty(), "it must name a directory");
        found.0
    }

    fn check_views(&self, found: &mut Faults) {
        let mut seen = vec![self.region.as_str()];
        for (at, view) in self.view.iter().enumerate() {
            let key = format!("view.{at}.region");
            found.of(&key, Region::given(&view.region).map_err(|finding| finding.detail));
            if seen.contains(&view.region.as_str()) {
                found.add(&key, format!("{} is the own region or stands there twice", view.region));
            }
            seen.push(&view.region);
            if let Some(source) = view.sources().find(|source| !listen::is_http_url(source)) {
                let why = format!("{source:?} is no http URL, as in http://127.0.0.1:7500");
                found.add(&format!("view.{at}.source"), why);
            }
        }
    }
}

impl Listen {
    fn check(&self, callers: Callers, found: &mut Faults) {
        for (key, address) in [("listen.http", &self.http), ("listen.grpc", &self.grpc)] {
            found.of(key, listen::check(address, callers));
        }
        found.unless(
            "listen.grpc",
            self.http != self.grpc || self.grpc.ends_with(":0"),
            "it is listen.http's address as well, where gRPC is answered too: give this one a port of its own",
        );
        if let Some(address) = self.advertise.as_deref().filter(|address| !listen::is_reachable(address)) {
            let why = format!("{address:?} is no address to be reached at: host:port, as in 10.0.0.1:7401");
            found.add("listen.advertise", why);
        }
    }
}

impl StoreConfig {
    fn check(&self, found: &mut Faults) {
        found.unless(
            "store.endpoints",
            self.kind != StoreKind::Etcd || !self.endpoints.is_empty(),
            "etcd needs at least one client URL, as in http://127.0.0.1:2379",
        );
        if !Self::HISTORY.contains(&self.history_seconds) {
            let (least, most) = (Self::HISTORY.start(), Self::HISTORY.end());
            found.add("store.history_seconds", format!("it is from {least} to {most} seconds"));
        }
        for endpoint in &self.endpoints {
            if !listen::is_http_url(endpoint) {
                found.add(
                    "store.endpoints",
                    format!("{endpoint:?} is no http URL, as in http://127.0.0.1:2379"),
                );
            }
        }
    }
}

impl AdmissionConfig {
    fn check(&self, found: &mut Faults) {
        for (key, number) in [
            ("admission.registrations_per_second", self.registrations_per_second),
            ("admission.burst", self.burst),
            ("admission.renewals_per_second", self.renewals_per_second),
        ] {
            found.unless(key, number > 0, "it is 1 or more: with 0 nobody could ever register or renew");
        }
    }
}

/// What was found wrong so far.
#[derive(Debug, Default)]
struct Faults(Vec<Unusable>);

impl Faults {
    fn add(&mut self, key: &str, why: impl Into<String>) {
        self.0.push(Unusable::new(key, why));
    }

    fn of<T>(&mut self, key: &str, judged: Result<T, String>) {
        if let Err(why) = judged {
            self.add(key, why);
        }
    }

    fn unless(&mut self, key: &str, holds: bool, why: &str) {
        if !holds {
            self.add(key, why);
        }
    }
}
