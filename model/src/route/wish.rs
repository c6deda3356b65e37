//! What a caller says about its route, parameter by parameter, as it comes.
//!
//! Promises: a policy that lacks what it needs is refused with the parameter's name. A parameter that the policy has no
//! use for is checked and otherwise without effect, so that tools may always send what they know.

use semver::VersionReq;

use super::Route;
use crate::code::{Code, Invalid};
use crate::name::Zone;

/// The share of a canary when nobody names one: one answer in twenty.
const SHARE: f64 = 0.05;
/// Words of a preference, at most: more than a task needs, and each is looked for in every candidate.
const PREFER_MAX: usize = 32;

/// A route's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// [`Route::Zone`].
    #[default]
    Zone,
    /// [`Route::RoundRobin`].
    RoundRobin,
    /// [`Route::LeastLoaded`].
    LeastLoaded,
    /// [`Route::Latency`].
    Latency,
    /// [`Route::Specialist`].
    Specialist,
    /// [`Route::Canary`].
    Canary,
    /// [`Route::Sticky`].
    Sticky,
}

/// The parameters that were said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wish {
    /// Which route.
    pub policy: Option<Policy>,
    /// Where the caller stands.
    pub from_zone: Option<Zone>,
    /// For [`Route::Sticky`].
    pub affinity_key: Option<String>,
    /// For [`Route::Specialist`].
    pub prefer: Option<Vec<String>>,
    /// For [`Route::Canary`].
    pub canary_version: Option<VersionReq>,
    /// For [`Route::Canary`].
    pub canary_share: Option<f64>,
}

impl Policy {
    /// Every one.
    pub const ALL: [Self; 7] = [
        Self::Zone,
        Self::RoundRobin,
        Self::LeastLoaded,
        Self::Latency,
        Self::Specialist,
        Self::Canary,
        Self::Sticky,
    ];

    /// The contract's word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Zone => "zone",
            Self::RoundRobin => "round_robin",
            Self::LeastLoaded => "least_loaded",
            Self::Latency => "latency",
            Self::Specialist => "specialist",
            Self::Canary => "canary",
            Self::Sticky => "sticky",
        }
    }

    /// Reads the contract's word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.as_str() == text)
    }
}

impl Wish {
    /// Takes one parameter. `Ok(false)` when the name is none of these, so that the caller can try its own.
    ///
    /// # Errors
    /// The value is bad, or the parameter stands there twice.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, Invalid> {
        let bad = |detail: String| Invalid::new(Code::InvalidParameter, name, detail);
        let is_first = match name {
            "policy" => {
                let known = || bad(format!("it is one of {}", Policy::ALL.map(Policy::as_str).join(", ")));
                self.policy.replace(Policy::parse(value).ok_or_else(known)?).is_none()
            }
            "from_zone" => {
                let zone = Zone::parse(value).map_err(|finding| bad(finding.detail))?;
                self.from_zone.replace(zone).is_none()
            }
            "affinity_key" if value.is_empty() => return Err(bad("it is empty".into())),
            "affinity_key" => self.affinity_key.replace(value.to_owned()).is_none(),
            "prefer" => {
                let words: Vec<String> = value.split(',').map(|word| word.trim().to_owned()).collect();
                if words.iter().any(String::is_empty) {
                    return Err(bad("a word in it is empty; they stand between commas".into()));
                }
                if words.len() > PREFER_MAX {
                    return Err(bad(format!("there are at most {PREFER_MAX} words")));
                }
                self.prefer.replace(words).is_none()
            }
            "canary_version" => {
                let version = VersionReq::parse(value)
                    .map_err(|error| bad(format!("{value:?} is no semver requirement: {error}")))?;
                self.canary_version.replace(version).is_none()
            }
            "canary_share" => {
                let share = value.parse().ok().filter(|share| (0.0..=1.0).contains(share));
                let share: f64 = share.ok_or_else(|| bad("it is a number from 0 to 1".into()))?;
                self.canary_share.replace(share).is_none()
            }
            _ => return Ok(false),
        };
        if is_first { Ok(true) } else { Err(bad("it stands there twice".into())) }
    }

    /// The route that was wished for.
    ///
    /// # Errors
    /// The policy lacks a parameter.
    pub fn route(&self) -> Result<Route, Invalid> {
        let policy = self.policy.unwrap_or_default();
        let lacks = |name: &str| {
            let detail = format!("policy {} needs {name}", policy.as_str());
            Invalid::new(Code::InvalidParameter, name, detail)
        };
        Ok(match policy {
            Policy::Zone => Route::Zone,
            Policy::RoundRobin => Route::RoundRobin,
            Policy::LeastLoaded => Route::LeastLoaded,
            Policy::Latency => Route::Latency,
            Policy::Specialist => Route::Specialist(self.prefer.clone().ok_or_else(|| lacks("prefer"))?),
            Policy::Canary => Route::Canary {
                version: self.canary_version.clone().ok_or_else(|| lacks("canary_version"))?,
                share: self.canary_share.unwrap_or(SHARE),
            },
            Policy::Sticky => Route::Sticky(self.affinity_key.clone().ok_or_else(|| lacks("affinity_key"))?),
        })
    }
}
