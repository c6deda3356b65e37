//! Which regions an answer may come from, and in which order they are asked.
//!
//! Promises: a region outside of the residency is never asked, whatever else is said. Never here: what is asked for,
//! which is a [`Query`](crate::Query).

use crate::code::{Code, Invalid};
use crate::name::Region;

/// Where an answer may come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Who is asked when the own region has no candidate.
    pub failover: Failover,
    /// The only regions that an answer may come from, the own one included; `None` forbids none.
    pub residency: Option<Vec<Region>>,
}

/// Who is asked when the own region has no candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Failover {
    /// The other regions, as they were configured.
    #[default]
    Configured,
    /// Nobody.
    Never,
    /// These regions, in this order.
    Regions(Vec<Region>),
}

impl Reach {
    /// Takes one parameter, `failover` (`true`, `false` or regions with commas between them) or `residency` (regions).
    /// `Ok(false)` when the name is neither, so that the caller can try its own.
    ///
    /// # Errors
    /// The value is bad, or a second one follows one that said something; `failover=true` says nothing.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, Invalid> {
        let twice = || Invalid::new(Code::InvalidParameter, name, "it stands there twice");
        match name {
            "failover" => {
                if self.failover != Failover::Configured {
                    return Err(twice());
                }
                self.failover = match value {
                    "true" => Failover::Configured,
                    "false" => Failover::Never,
                    list => Failover::Regions(regions(name, list)?),
                };
            }
            "residency" => {
                if self.residency.replace(regions(name, value)?).is_some() {
                    return Err(twice());
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Every region that is named here, with the parameter that names it: the edge refuses those that it does not serve.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &Region)> {
        let failover = match &self.failover {
            Failover::Regions(regions) => regions.as_slice(),
            Failover::Configured | Failover::Never => &[],
        };
        let residency = self.residency.iter().flatten();
        failover
            .iter()
            .map(|region| ("failover", region))
            .chain(residency.map(|region| ("residency", region)))
    }

    /// Whether an answer may come from this region.
    #[must_use]
    pub fn allows(&self, region: &Region) -> bool {
        self.residency.as_ref().is_none_or(|allowed| allowed.contains(region))
    }
}

fn regions(name: &str, list: &str) -> Result<Vec<Region>, Invalid> {
    let mut regions: Vec<Region> = Vec::new();
    for word in list.split(',') {
        let region =
            Region::parse(word).map_err(|bad| Invalid::new(Code::InvalidParameter, name, bad.detail))?;
        if regions.contains(&region) {
            return Err(Invalid::new(Code::InvalidParameter, name, format!("{region} stands there twice")));
        }
        regions.push(region);
    }
    Ok(regions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(name: &str) -> Region {
        Region::parse(name).unwrap()
    }

    fn reach(parameters: &[(&str, &str)]) -> Result<Reach, String> {
        let mut reach = Reach::default();
        for (name, value) in parameters {
            let known = reach
                .set(name, value)
                .map_err(|invalid| format!("{}: {}", invalid.pointer, invalid.detail))?;
            assert!(known);
        }
        Ok(reach)
    }

    #[test]
    fn failover_is_true_false_or_regions_in_their_order() {
        let failover = |value| reach(&[("failover", value)]).unwrap().failover;
        assert_eq!(failover("true"), Failover::Configured);
        assert_eq!(failover("false"), Failover::Never);
        assert_eq!(failover("eu,ap"), Failover::Regions(vec![region("eu"), region("ap")]));
    }

    #[test]
    fn what_is_no_region_is_refused_with_the_parameters_name() {
        for (name, value) in [("failover", ""), ("failover", "eu,"), ("residency", "EU"), ("residency", "")] {
            let refusal = reach(&[(name, value)]).unwrap_err();
            assert!(refusal.starts_with(name), "{refusal}");
        }
        assert!(reach(&[("residency", "eu,eu")]).unwrap_err().contains("eu stands there twice"));
        assert!(reach(&[("residency", "eu"), ("residency", "ap")]).is_err());
        assert!(reach(&[("failover", "eu"), ("failover", "ap")]).is_err());
        assert_eq!(Reach::default().set("zone", "a"), Ok(false));
    }

    #[test]
    fn every_region_that_is_named_is_told() {
        let reach = reach(&[("failover", "eu"), ("residency", "us,eu")]).unwrap();
        let named: Vec<_> = reach.named().map(|(name, region)| format!("{name}={region}")).collect();
        assert_eq!(named, ["failover=eu", "residency=us", "residency=eu"]);
        assert!(reach.allows(&region("us")) && !reach.allows(&region("ap")));
    }
}
