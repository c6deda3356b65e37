//! What Kubernetes tells a process of where it runs, as metadata of its registration (acceptance MOD-17), and the address
//! that callers find its service at (acceptance MOD-18).
//!
//! Promises: what the owner declares itself is never replaced, and nothing is added that a registry would refuse.
//! `pod_name` is a hint for people, never where anything is routed.

use std::collections::BTreeMap;
use std::net::IpAddr;

use rollcall_model::declaration::RawEndpoint;
use rollcall_model::{Declaration, limits};

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

/// Gives a declaration that names no endpoint and no card its service's name in the cluster, if it has one.
pub(crate) fn address(declaration: &mut Declaration, environment: impl Fn(&str) -> Option<String>) {
    if !declaration.endpoints.is_empty() || declaration.card.is_some() {
        return;
    }
    let said = |name: &str| environment(name).filter(|value| !value.is_empty());
    let (Some(service), Some(namespace)) =
        (said("SERVICE_NAME"), said("POD_NAMESPACE").or_else(|| said("NAMESPACE")))
    else {
        return;
    };
    if SIGNS.iter().all(|sign| said(sign).is_none()) {
        return;
    }
    let port = said("SERVICE_PORT").unwrap_or_else(|| "80".to_owned());
    let url = format!("http://{service}.{namespace}.svc.cluster.local:{port}");
    declaration.endpoints.push(RawEndpoint { url, protocol: None });
}

/// The endpoint that is this pod's own address, if one is.
pub(crate) fn pods_own(
    declaration: &Declaration,
    environment: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let pod: IpAddr = environment("POD_IP")?.parse().ok()?;
    let is_pods = |url: &str| {
        let host = url.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
        let host = host.and_then(|authority| match authority.strip_prefix('[') {
            Some(bracketed) => bracketed.split_once(']').map(|(host, _)| host),
            None => authority.split(':').next(),
        });
        host.and_then(|host| host.parse::<IpAddr>().ok()) == Some(pod)
    };
    declaration.endpoints.iter().map(|endpoint| endpoint.url.clone()).find(|url| is_pods(url))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(environment: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> {
        |name| environment.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn mod_18_cfg_03_a_service_in_a_cluster_is_found_at_its_name_and_never_at_a_pods_address() {
        let address = |own: &[&str], environment: &[(&str, &str)]| {
            let endpoints = own.iter().map(|url| RawEndpoint { url: (*url).to_owned(), protocol: None });
            let mut declaration = Declaration { endpoints: endpoints.collect(), ..Declaration::default() };
            super::address(&mut declaration, of(environment));
            declaration.endpoints.into_iter().map(|endpoint| endpoint.url).collect::<Vec<_>>()
        };
        let pod = [("POD_NAMESPACE", "ops"), ("SERVICE_NAME", "mail"), ("POD_IP", "10.1.2.3")];
        assert_eq!(address(&[], &pod), ["http://mail.ops.svc.cluster.local:80"]);
        let with_port = [pod.as_slice(), &[("SERVICE_PORT", "8080")]].concat();
        assert_eq!(address(&[], &with_port), ["http://mail.ops.svc.cluster.local:8080"]);
        assert_eq!(address(&["http://own:1/"], &pod), ["http://own:1/"], "what is declared wins");
        let no_service = [("POD_NAMESPACE", "ops"), ("POD_IP", "10.1.2.3"), ("SERVICE_NAME", "")];
        assert!(
            address(&[], &no_service).is_empty(),
            "nothing is made up: the registry says what is missing"
        );
        assert!(address(&[], &[("NAMESPACE", "ops"), ("SERVICE_NAME", "mail")]).is_empty(), "no cluster");
    }

    #[test]
    fn mod_18_a_pods_own_address_is_noticed() {
        let own = |url: &str, pod: &str| {
            let endpoints = vec![RawEndpoint { url: url.to_owned(), protocol: None }];
            let declaration = Declaration { endpoints, ..Declaration::default() };
            pods_own(&declaration, of(&[("POD_IP", pod)])).is_some()
        };
        assert!(own("http://10.1.2.3:8080/a", "10.1.2.3") && own("grpc://[fd00::7]:1", "fd00::7"));
        assert!(!own("http://10.1.2.33:8080/", "10.1.2.3") && !own("http://mail.ops:80/", "10.1.2.3"));
        assert!(!own("http://10.1.2.3/", "not an address"));
    }

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
