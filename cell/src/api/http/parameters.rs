//! Query parameters, taken one by one; what nobody took is refused.

use std::collections::BTreeSet;

use axum::extract::{FromRequestParts, Query as Pairs};
use axum::http::request::Parts;
use percent_encoding::percent_decode_str;
use rollcall_model::{Code, Holder, InstanceId, Invalid, Query, Reach, Wish, limits};

use crate::api::reading::{self, Place};
use crate::refusal::Refusal;
use crate::regions::Which;

/// What may be asked for several times at once; everything else stands there once, whoever takes it.
const REPEATED: [&str; 2] = ["capability", "tag"];

/// The parameters of one request. Every fault is collected, so that the caller sees all of them at once.
pub(super) struct Parameters {
    left: Vec<(String, String)>,
    found: Vec<Invalid>,
}

impl<S: Sync> FromRequestParts<S> for Parameters {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        Self::read(parts.uri.query().unwrap_or_default())
    }
}

impl Parameters {
    /// Reads the text behind the question mark.
    pub(super) fn read(query: &str) -> Result<Self, Refusal> {
        let bad = |detail: String| Refusal::invalid(vec![Invalid::new(Code::InvalidParameter, "", detail)]);
        let uri = format!("/?{query}")
            .parse()
            .map_err(|error| bad(format!("the query cannot be read: {error}")))?;
        let Pairs(mut left) = Pairs::<Vec<(String, String)>>::try_from_uri(&uri)
            .map_err(|error| bad(format!("the query cannot be read: {error}")))?;
        let mut found = Vec::new();
        let mut named = BTreeSet::new();
        left.retain(|(name, _)| {
            let is_first = REPEATED.contains(&name.as_str()) || named.insert(name.clone());
            if !is_first {
                found.push(Invalid::new(Code::InvalidParameter, name, "it stands there twice"));
            }
            is_first
        });
        // The decoder puts a character where the bytes are no text, which may be meant as well.
        let is_text = percent_decode_str(query).decode_utf8().is_ok();
        for (name, value) in left.iter().filter(|_| !is_text) {
            if name.contains('\u{fffd}') || value.contains('\u{fffd}') {
                found.push(Invalid::new(Code::InvalidParameter, name, "it is not UTF-8"));
            }
        }
        Ok(Self { left, found })
    }

    /// Takes a parameter that may stand there once.
    pub(super) fn one<T>(&mut self, name: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let at = self.left.iter().position(|(other, _)| other == name)?;
        let (_, value) = self.left.remove(at);
        match parse(&value) {
            Ok(value) => Some(value),
            Err(detail) => {
                self.found.push(Invalid::new(Code::InvalidParameter, name, detail));
                None
            }
        }
    }

    /// Takes a switch; the name alone switches it on.
    pub(super) fn flag(&mut self, name: &str) -> bool {
        let read = |value: &str| match value {
            "" | "true" => Ok(true),
            "false" => Ok(false),
            other => Err(format!("{other:?} is neither true nor false")),
        };
        self.one(name, read).unwrap_or(false)
    }

    /// Takes the region asked.
    pub(super) fn which(&mut self) -> Which {
        self.region().unwrap_or_default()
    }

    /// Takes the region asked, if one was said.
    pub(super) fn region(&mut self) -> Option<Which> {
        self.one("region", |text| Which::parse(text).map_err(|finding| finding.detail))
    }

    /// Takes the page size.
    pub(super) fn limit(&mut self) -> usize {
        let read = |text: &str| {
            // Digits alone: `parse` would take a plus sign too.
            let digits = text.bytes().all(|b| b.is_ascii_digit());
            reading::limit(text.parse().ok().filter(|_| digits).unwrap_or(0))
        };
        self.one("limit", read).unwrap_or(limits::PAGE_DEFAULT)
    }

    /// Takes the place where the page begins.
    pub(super) fn place(&mut self) -> Option<Place> {
        self.one("page_token", |text| Place::parse(text).ok_or_else(|| reading::foreign_token().detail))
    }

    /// Takes an id.
    pub(super) fn id(&mut self) -> Option<InstanceId> {
        self.one("id", |text| InstanceId::parse(text).map_err(|finding| finding.detail))
    }

    /// Takes everything that is a query's.
    pub(super) fn query(&mut self) -> Query {
        self.all(Query::set)
    }

    /// Takes everything that says where an answer may come from.
    pub(super) fn reach(&mut self) -> Reach {
        self.all(Reach::set)
    }

    /// Takes everything that says in which order an answer is wished.
    pub(super) fn wish(&mut self) -> Wish {
        self.all(Wish::set)
    }

    /// Takes all parameters that a reader of the model knows.
    fn all<T: Default>(&mut self, set: impl Fn(&mut T, &str, &str) -> Result<bool, Invalid>) -> T {
        let mut read = T::default();
        let found = &mut self.found;
        self.left.retain(|(name, value)| match set(&mut read, name, value) {
            Ok(is_known) => !is_known,
            Err(finding) => {
                found.push(finding);
                false
            }
        });
        read
    }

    /// Keeps what is wrong with all of them together, for the refusal.
    pub(super) fn checked<T>(&mut self, judged: Result<T, Invalid>) -> Option<T> {
        let keep = |finding: Invalid| {
            // What is wrong by itself is not also told as missing.
            if self.found.iter().all(|found| found.pointer != finding.pointer) {
                self.found.push(finding);
            }
        };
        judged.map_err(keep).ok()
    }

    /// Takes the holder of a shared entry; `default` when none is named.
    pub(super) fn holder(&mut self) -> Holder {
        self.one("holder", |text| Holder::parse(text).map_err(|finding| finding.detail)).unwrap_or_default()
    }

    /// Refuses what is wrong, and what nobody took.
    pub(super) fn close(mut self) -> Result<(), Refusal> {
        for (name, _) in self.left {
            let detail = format!("{name:?} is no parameter here");
            self.found.push(Invalid::new(Code::UnknownParameter, name, detail));
        }
        if self.found.is_empty() { Ok(()) } else { Err(Refusal::invalid(self.found)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(query: &str) -> Result<(Which, usize, Query), Vec<(Code, String)>> {
        let mut parameters = Parameters::read(query).unwrap();
        let asked = (parameters.which(), parameters.limit(), parameters.query());
        // What other calls take beside them.
        let _ = (parameters.reach(), parameters.wish(), parameters.holder(), parameters.flag("internal"));
        parameters.close().map_err(|refusal| {
            refusal.findings.into_iter().map(|finding| (finding.code, finding.pointer)).collect::<Vec<_>>()
        })?;
        Ok(asked)
    }

    #[test]
    fn a_whole_question_is_read() {
        let text = "namespace=ops&capability=a:b:v1&capability=c:d:v2&tag=x&tag=y&version=%5E2.1%2C%20%3C3&\
                    metadata.team=a%20b&region=all&limit=7";
        let (which, limit, query) = closed(text).unwrap();
        assert_eq!((which, limit), (Which::All, 7));
        assert_eq!((query.capabilities.len(), query.tags.len()), (2, 2));
        assert_eq!(query.metadata["team"], "a b");
        assert_eq!(query.version.unwrap().to_string(), "^2.1, <3");
    }

    #[test]
    fn nothing_asked_means_the_own_region_and_a_hundred() {
        assert_eq!(closed("").unwrap(), (Which::Own, 100, Query::default()));
    }

    #[test]
    fn every_fault_has_its_code_and_name() {
        for (query, code, name) in [
            ("limit=0", Code::InvalidParameter, "limit"),
            ("limit=1001", Code::InvalidParameter, "limit"),
            ("limit=%2B5", Code::InvalidParameter, "limit"),
            ("limit=", Code::InvalidParameter, "limit"),
            ("limit=5&limit=5", Code::InvalidParameter, "limit"),
            ("region=US", Code::InvalidParameter, "region"),
            ("region=own&region=all", Code::InvalidParameter, "region"),
            ("kind=robot", Code::InvalidParameter, "kind"),
            ("kind=agent&kind=tool", Code::InvalidParameter, "kind"),
            ("name=A", Code::InvalidParameter, "name"),
            ("version=two", Code::InvalidParameter, "version"),
            ("zone=a%20b", Code::InvalidParameter, "zone"),
            ("lifecycle=dead", Code::InvalidParameter, "lifecycle"),
            ("capability=email.send", Code::InvalidCapability, "capability"),
            ("metadata.=x", Code::UnknownParameter, "metadata."),
            ("metadata.a=x&metadata.a=y", Code::InvalidParameter, "metadata.a"),
            ("metadata.a=%FF", Code::InvalidParameter, "metadata.a"),
            ("Namespace=a", Code::UnknownParameter, "Namespace"),
            ("skill=a&skill=a", Code::InvalidParameter, "skill"),
            ("internal=true&internal=false", Code::InvalidParameter, "internal"),
            ("failover=true&failover=false", Code::InvalidParameter, "failover"),
            ("failover=false&failover=true", Code::InvalidParameter, "failover"),
            ("failover=true&failover=true", Code::InvalidParameter, "failover"),
            ("residency=eu&residency=eu", Code::InvalidParameter, "residency"),
            ("policy=zone&policy=zone", Code::InvalidParameter, "policy"),
            ("holder=a&holder=b", Code::InvalidParameter, "holder"),
            ("what=1", Code::UnknownParameter, "what"),
            ("what", Code::UnknownParameter, "what"),
        ] {
            assert_eq!(closed(query).unwrap_err(), [(code, name.to_owned())], "{query}");
        }
    }

    #[test]
    fn all_faults_come_at_once() {
        assert_eq!(closed("limit=0&kind=x&what=1").unwrap_err().len(), 3);
    }
}
