//! What a caller asks for, and whether an instance fits.

use std::collections::{BTreeMap, BTreeSet};

use xxhash_rust::xxh3::xxh3_64;

use crate::capability::CapabilityName;
use crate::code::{Code, Invalid};
use crate::lifecycle::{Kind, Lifecycle};
use crate::name::{InstanceId, Region, Zone, is_part};
use crate::registration::Registration;

/// A question about one region's registrations. All that is set must match; nothing set matches everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// Exact namespace.
    pub namespace: Option<String>,
    /// Exact agent name.
    pub name: Option<String>,
    /// All of these.
    pub capabilities: Vec<CapabilityName>,
    /// A skill by its id or name.
    pub skill: Option<String>,
    /// All of these, each as a tag of a capability or a skill.
    pub tags: Vec<String>,
    /// Agent or tool.
    pub kind: Option<Kind>,
    /// A semver requirement on the agent's version.
    pub version: Option<semver::VersionReq>,
    /// Failure domain.
    pub zone: Option<Zone>,
    /// How it is doing.
    pub lifecycle: Option<Lifecycle>,
    /// All of these, exactly.
    pub metadata: BTreeMap<String, String>,
    /// Whether capabilities marked internal are seen; otherwise neither they nor their tags match anything.
    pub internal: bool,
}

impl Query {
    /// Takes one parameter. `Ok(false)` when the name is none of a query's, so that the caller can try its own.
    ///
    /// # Errors
    /// The parameter is known and its value is bad, or it stands twice and may not.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, Invalid> {
        let bad = |detail: String| Invalid::new(Code::InvalidParameter, name, detail);
        let part = |slot: &mut Option<String>| {
            if !is_part(value) {
                return Err(bad(format!("{value:?} is outside the grammar of an id's part")));
            }
            once(slot, value.to_owned(), name)
        };
        match name {
            "namespace" => part(&mut self.namespace)?,
            "name" => part(&mut self.name)?,
            "capability" => self.capabilities.push(CapabilityName::parse(value).map_err(|mut finding| {
                finding.pointer = name.to_owned();
                finding
            })?),
            "skill" if !value.is_empty() => once(&mut self.skill, value.to_owned(), name)?,
            "tag" if !value.is_empty() => self.tags.push(value.to_owned()),
            "skill" | "tag" => return Err(bad("it is empty".into())),
            "kind" => {
                let kind = Kind::parse(value).ok_or_else(|| bad("it is agent or tool".into()))?;
                once(&mut self.kind, kind, name)?;
            }
            "version" => {
                let requirement = semver::VersionReq::parse(value)
                    .map_err(|error| bad(format!("{value:?} is no semver requirement: {error}")))?;
                once(&mut self.version, requirement, name)?;
            }
            "zone" => {
                let zone = Zone::parse(value).map_err(|finding| bad(finding.detail))?;
                once(&mut self.zone, zone, name)?;
            }
            "lifecycle" => {
                let known = || bad("it is starting, healthy, degraded, draining, offline or unknown".into());
                once(&mut self.lifecycle, Lifecycle::parse(value).ok_or_else(known)?, name)?;
            }
            _ => {
                let Some(key) = name.strip_prefix("metadata.").filter(|key| !key.is_empty()) else {
                    return Ok(false);
                };
                if self.metadata.insert(key.to_owned(), value.to_owned()).is_some() {
                    return Err(bad("it stands there twice".into()));
                }
            }
        }
        Ok(true)
    }

    /// Whether nothing is asked, so that everything matches.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        // Seeing more of each registration asks for no other ones.
        *self == Self { internal: self.internal, ..Self::default() }
    }

    /// What tells this question about these regions from other ones: for whoever was given a part of an answer and comes
    /// back for the next. The same in every process, and in another version as long as what is asked means the same there.
    /// In which order, and how often, capabilities and tags are named makes no other question.
    #[must_use]
    pub fn fingerprint<'a>(&self, regions: impl IntoIterator<Item = &'a Region>) -> u64 {
        // Taken apart, so that a part that comes later cannot be forgotten here. What is not asked leaves no trace.
        let Self {
            namespace,
            name,
            capabilities,
            skill,
            tags,
            kind,
            version,
            zone,
            lifecycle,
            metadata,
            internal,
        } = self;
        let mut words = Words(Vec::new());
        regions.into_iter().for_each(|region| words.add("region", region.as_str()));
        namespace.iter().for_each(|namespace| words.add("namespace", namespace));
        name.iter().for_each(|name| words.add("name", name));
        let capabilities: BTreeSet<_> = capabilities.iter().map(CapabilityName::as_str).collect();
        capabilities.into_iter().for_each(|capability| words.add("capability", capability));
        skill.iter().for_each(|skill| words.add("skill", skill));
        let tags: BTreeSet<_> = tags.iter().collect();
        tags.into_iter().for_each(|tag| words.add("tag", tag));
        kind.iter().for_each(|kind| words.add("kind", kind.as_str()));
        version.iter().for_each(|version| words.add("version", &version.to_string()));
        zone.iter().for_each(|zone| words.add("zone", zone.as_str()));
        lifecycle.iter().for_each(|lifecycle| words.add("lifecycle", lifecycle.as_str()));
        for (key, value) in metadata {
            words.add("metadata", key);
            words.add("value", value);
        }
        internal.then_some("true").iter().for_each(|internal| words.add("internal", internal));
        xxh3_64(&words.0)
    }

    /// Whether an id has the namespace and the name that are asked for.
    #[must_use]
    pub fn is_of_its_agent(&self, id: &InstanceId) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| id.namespace() == namespace)
            && self.name.as_ref().is_none_or(|name| id.name() == name)
    }

    /// Whether this instance fits.
    #[must_use]
    pub fn matches(&self, registration: &Registration) -> bool {
        let declared = &registration.declared;
        let seen = || declared.capabilities.iter().filter(|c| self.internal || !c.internal);
        self.is_of_its_agent(&declared.id)
            && self.kind.is_none_or(|kind| declared.kind == kind)
            && self.zone.as_ref().is_none_or(|zone| declared.zone.as_ref() == Some(zone))
            && self.lifecycle.is_none_or(|lifecycle| registration.owned.lifecycle == lifecycle)
            && self.capabilities.iter().all(|name| seen().any(|c| &c.name == name))
            && self
                .skill
                .as_ref()
                .is_none_or(|skill| declared.skills.iter().any(|s| &s.id == skill || &s.name == skill))
            && self.tags.iter().all(|tag| {
                seen().any(|c| c.tags.contains(tag)) || declared.skills.iter().any(|s| s.tags.contains(tag))
            })
            && self.metadata.iter().all(|(key, value)| registration.owned.metadata.get(key) == Some(value))
            && self.version.as_ref().is_none_or(|requirement| {
                let version = declared.version.as_ref().and_then(|text| semver::Version::parse(text).ok());
                version.is_some_and(|version| requirement.matches(&version))
            })
    }
}

/// Names and values one behind the other, each behind its length: no two lists of them read alike.
struct Words(Vec<u8>);

impl Words {
    fn add(&mut self, name: &str, value: &str) {
        for text in [name, value] {
            self.0.extend_from_slice(&(text.len() as u64).to_le_bytes());
            self.0.extend_from_slice(text.as_bytes());
        }
    }
}

fn once<T>(slot: &mut Option<T>, value: T, name: &str) -> Result<(), Invalid> {
    if slot.replace(value).is_some() {
        return Err(Invalid::new(Code::InvalidParameter, name, "it stands there twice"));
    }
    Ok(())
}
