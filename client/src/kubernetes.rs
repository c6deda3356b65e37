//! What Kubernetes tells a process of where it runs, as metadata of its registration (acceptance MOD-17).
//!
//! Promises: what the owner declares itself is never replaced, and nothing is added that a registry would refuse.
//! `pod_name` is a hint for people, never where anything is routed.

use std::collections::BTreeMap;

use rollcall_model::limits;

/// The name in the environment, by the usual names of the downward API and of service variables, and the one in the
/// metadata.
const NAMES: [(&str, &str); 6] = [
    ("CONTAINER_PORT", "container_port"),
    ("NAMESPACE", "namespace"),
    ("POD_NAME", "pod_name"),
    ("POD_NAMESPACE", "pod_namespace"),
    ("SERVICE_NAME", "service_name"),
    ("SERVICE_PORT", "service_port"),
];
/// Any of them says that this is Kubernetes: names as plain as `NAMESPACE` mean something else elsewhere.
const SIGNS: [&str; 3] = ["KUBERNETES_SERVICE_HOST", "POD_NAME", "POD_NAMESPACE"];

/// Adds what the environment says. Processes that share an entry must declare the same, so there the pod's name is left
/// out.
pub(crate) fn fill(
    metadata: &mut BTreeMap<String, String>,
    is_shared: bool,
    environment: impl Fn(&str) -> Option<String>,
) {
    if SIGNS.iter().all(|sign| environment(sign).is_none()) {
        return;
    }
    for (variable, key) in NAMES {
        if (is_shared && key == "pod_name")
            || metadata.contains_key(key)
            || metadata.len() >= limits::METADATA_ENTRIES_MAX
        {
            continue;
        }
        let value = environment(variable)
            .filter(|value| !value.is_empty() && value.chars().count() <= limits::METADATA_VALUE_CHARS_MAX);
        if let Some(value) = value {
            metadata.insert(key.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(is_shared: bool, own: &[(&str, &str)], environment: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut metadata = own.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        fill(&mut metadata, is_shared, |name| {
            environment.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
        });
        metadata.into_iter().collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn mod_17_a_pod_tells_where_it_is() {
        let environment = [
            ("POD_NAME", "mail-7d9f"),
            ("POD_NAMESPACE", "ops"),
            ("NAMESPACE", "ops"),
            ("SERVICE_NAME", "mail"),
            ("SERVICE_PORT", "80"),
            ("CONTAINER_PORT", "8080"),
        ];
        let all = pairs(&[
            ("container_port", "8080"),
            ("namespace", "ops"),
            ("pod_name", "mail-7d9f"),
            ("pod_namespace", "ops"),
            ("service_name", "mail"),
            ("service_port", "80"),
        ]);
        assert_eq!(filled(false, &[], &environment), all);
        let shared: Vec<_> = all.iter().filter(|(key, _)| key != "pod_name").cloned().collect();
        assert_eq!(filled(true, &[], &environment), shared, "replicas declare the same");
        let own = filled(false, &[("service_name", "own")], &environment);
        assert!(own.contains(&("service_name".into(), "own".into())));
    }

    #[test]
    fn elsewhere_and_from_what_a_registry_would_refuse_nothing_is_added() {
        assert_eq!(filled(false, &[], &[("NAMESPACE", "x"), ("SERVICE_NAME", "y")]), []);
        let long = "x".repeat(limits::METADATA_VALUE_CHARS_MAX + 1);
        let environment =
            [("KUBERNETES_SERVICE_HOST", "10.0.0.1"), ("SERVICE_NAME", long.as_str()), ("NAMESPACE", "")];
        assert_eq!(filled(false, &[], &environment), []);
        let full: Vec<_> = (0..limits::METADATA_ENTRIES_MAX).map(|n| n.to_string()).collect();
        let full: Vec<_> = full.iter().map(|key| (key.as_str(), "v")).collect();
        assert_eq!(filled(false, &full, &[("POD_NAME", "p")]).len(), limits::METADATA_ENTRIES_MAX);
    }
}
